//! The task of a connector: it owns the connection to the hub, and drives the sessions of the host.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::{SinkExt, future::poll_fn};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use trunkline_client::{Client, tls_config};
use uuid::Uuid;

use crate::{
    ConnectError, ConnectOptions, Ended, RuntimeToken,
    bridge::{Bridge, FrameEffect},
    dial::{Socket, SocketEvent, SocketInterest, dial, poll},
    files::Folder,
};

/// The first wait before another connection, and the longest. It doubles with each attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The duration of a connection after which the next wait is the first again.
const STEADY: Duration = Duration::from_secs(30);

/// Timeout for the hub to accept the runtime.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval of pings, and the one while frames are unread as far as is known.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const UNREAD_PING_INTERVAL: Duration = Duration::from_secs(2);

/// The silence after which the hub counts as lost. One browser that stops reading holds it up for
/// 60 s.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// Timeout for the list of agents, which are started for it.
const AGENTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for the last frames, and for the last calls.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Calls on the host without a result from which the hub is not read.
const MAX_PENDING_CALLS: usize = 4096;

/// Frames that are written in one step.
const FRAME_BATCH: usize = 16;

/// The reason why a connection ended.
enum ConnectionEnd {
    Ended(Ended),
    /// The connection broke. The hub had accepted the runtime at this time.
    Lost(String, Option<Instant>),
    Refused(String),
}

/// Serves the sessions of a hub by a host until `stop` resolves or the host ends. A connection to
/// the hub that breaks is made again, with waits of 1 to 30 s.
///
/// A client with [`ReconnectPolicy::fail_fast`](trunkline_client::ReconnectPolicy::fail_fast) shows
/// the hub at once that a session is not served.
///
/// # Errors
/// The hub refuses the runtime before it has ever accepted it, or a file, a certificate or an agent
/// is missing. Later failures are logged, and tried again.
///
/// # Cancel safety
/// Dropping the future drops the connection; the hub does not get the ends of running turns.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn connect(
    options: ConnectOptions,
    client: Client,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ConnectError> {
    let named = |what| move |source| ConnectError::Io { what, source };
    if options.address.is_secure() {
        // Without certificates no attempt can succeed.
        tls_config().map_err(named("the hub cannot be verified"))?;
    }
    let files = Folder::new().map_err(named("no folder for files was made"))?;
    options.token.read()?;
    let connector = Connector {
        bridge: Bridge::new(options, client, files),
        began: Instant::now(),
        ticks: Instant::now(),
        unsaved: None,
    };
    let mut stop = pin!(stop);
    connector.run(&mut stop).await
}

struct Connector {
    bridge: Bridge,
    began: Instant,
    /// The time of the bridge's next tick.
    ticks: Instant,
    /// A token that is in no file.
    unsaved: Option<String>,
}

impl Connector {
    async fn run(
        mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Ended, ConnectError> {
        let mut wait = FIRST_DELAY;
        let mut was_accepted = false;
        loop {
            match self.connect_once(stop, &mut was_accepted).await? {
                ConnectionEnd::Ended(ended) => return Ok(self.end(ended).await),
                ConnectionEnd::Refused(why) if !was_accepted => {
                    return Err(ConnectError::Refused(why));
                }
                ConnectionEnd::Refused(why) => {
                    tracing::error!(
                        "the hub refuses the runtime: {why}; its configured token is read again"
                    );
                    self.unsaved = None;
                    wait = MAX_DELAY;
                }
                ConnectionEnd::Lost(why, since) => {
                    if since.is_some_and(|since| since.elapsed() >= STEADY) {
                        wait = FIRST_DELAY;
                    }
                    tracing::warn!("there is no connection to the hub: {why}");
                }
            }
            if let Err(ended) = self.serve_host(stop, sleep(jittered(wait))).await {
                return Ok(self.end(ended).await);
            }
            wait = (wait * 2).min(MAX_DELAY);
        }
    }

    /// Connects to the hub, and serves the connection up to its end.
    async fn connect_once(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        was_accepted: &mut bool,
    ) -> Result<ConnectionEnd, ConnectError> {
        let client = self.bridge.client.clone();
        let listing = timeout(AGENTS_TIMEOUT, async move { client.agents(false).await });
        match self.serve_host(stop, listing).await {
            Ok(Ok(Ok(agents))) => self.bridge.set_agents(agents),
            // The hub gets the last list of agents.
            Ok(_) => {}
            Err(ended) => return Ok(ConnectionEnd::Ended(ended)),
        }
        if let Some(agent) = self.bridge.missing_agent().filter(|_| !*was_accepted) {
            return Err(ConnectError::NoAgent(agent));
        }
        let token = match (self.unsaved.clone(), self.bridge.options.token.read()) {
            (Some(token), _) | (None, Ok(token)) => token,
            (None, Err(error)) if !*was_accepted => return Err(error.into()),
            (None, Err(error)) => return Ok(ConnectionEnd::Lost(error.to_string(), None)),
        };
        let address = self.bridge.options.address.clone();
        let dialled = self
            .serve_host(stop, async move { dial(&address).await })
            .await;
        let socket = match dialled {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Ok(ConnectionEnd::Lost(error.to_string(), None)),
            Err(ended) => return Ok(ConnectionEnd::Ended(ended)),
        };
        let end = self.serve_hub(socket, &token, stop, was_accepted).await;
        self.bridge.disconnected();
        Ok(end)
    }

    async fn serve_hub(
        &mut self,
        mut socket: Socket,
        token: &str,
        stop: &mut (impl Future<Output = ()> + Unpin),
        was_accepted: &mut bool,
    ) -> ConnectionEnd {
        let hello = self.bridge.hello(token);
        let lost = |why: &str, since| ConnectionEnd::Lost(why.to_owned(), since);
        if !matches!(
            timeout(ACCEPT_TIMEOUT, socket.send(Message::text(hello))).await,
            Ok(Ok(()))
        ) {
            return lost("the hub does not read", None);
        }
        let mut since = None;
        let began = Instant::now();
        let mut heard = began;
        let mut pinged = began;
        let mut is_dirty = false;
        let mut writes_first = false;
        loop {
            let next_ping = match self.bridge.out.has_unread() {
                true if self.bridge.out.asks_soon() => pinged,
                true => pinged + UNREAD_PING_INTERVAL,
                false => pinged + PING_INTERVAL,
            };
            let has_next = since.is_some() && self.bridge.out.has_next();
            let has_room = !self.bridge.out.overflows()
                && self.bridge.host.pending_calls() < MAX_PENDING_CALLS;
            writes_first = !writes_first;
            let wants = SocketInterest {
                read: has_room,
                next: has_next,
                flush: is_dirty,
                writes_first,
            };
            tokio::select! {
                () = &mut *stop => {
                    self.bridge.end_all("the runtime ends");
                    self.close_socket(&mut socket).await;
                    return ConnectionEnd::Ended(Ended::Stopped);
                }
                woke = poll_fn(|cx| poll(&mut socket, wants, cx)) => match woke {
                    SocketEvent::Written(Err(error)) | SocketEvent::Read(Some(Err(error))) => return lost(&error.to_string(), since),
                    SocketEvent::Read(None) => return lost("the hub closed it", since),
                    SocketEvent::Written(Ok(())) => {
                        is_dirty = has_next;
                        for _ in 0..if has_next { FRAME_BATCH } else { 0 } {
                            let Some(text) = self.bridge.out.next() else { break };
                            if let Err(error) = socket.start_send_unpin(Message::text(text)) {
                                return lost(&error.to_string(), since);
                            }
                        }
                    }
                    SocketEvent::Read(Some(Ok(message))) => {
                        heard = Instant::now();
                        match message {
                            Message::Text(text) => match self.handle_frame(text.as_str()).await {
                                FrameEffect::None | FrameEffect::Token(_) => {}
                                FrameEffect::Refused(why) => return ConnectionEnd::Refused(why),
                                FrameEffect::Accepted => {
                                    tracing::info!("the hub at {} has accepted the runtime", self.bridge.options.address);
                                    *was_accepted = true;
                                    since = Some(heard);
                                }
                            },
                            Message::Pong(payload) => {
                                if let Ok(sent) = <[u8; 8]>::try_from(&payload[..]) {
                                    self.bridge.out.is_read(u64::from_be_bytes(sent));
                                }
                            }
                            // The answer to a ping is written with the next flush.
                            _ => is_dirty = true,
                        }
                    }
                },
                () = sleep_until(next_ping) => {
                    pinged = Instant::now();
                    let payload = self.bridge.out.ask().to_be_bytes().to_vec();
                    if let Err(error) = socket.start_send_unpin(Message::Ping(payload.into())) {
                        return lost(&error.to_string(), since);
                    }
                    is_dirty = true;
                }
                () = sleep_until(heard + MAX_SILENCE) => return lost("it is silent", since),
                () = sleep_until(began + ACCEPT_TIMEOUT), if since.is_none() => return lost("it does not answer", since),
                is_alive = self.step_host() => if !is_alive {
                    self.bridge.end_all("the host has ended");
                    self.close_socket(&mut socket).await;
                    return ConnectionEnd::Ended(Ended::HostEnded);
                }
            }
        }
    }

    /// Handles a frame of the hub.
    async fn handle_frame(&mut self, text: &str) -> FrameEffect {
        self.bridge.at(self.began.elapsed());
        let effect = self.bridge.handle_frame(text);
        self.bridge.begin_calls();
        self.wake();
        if let FrameEffect::Token(token) = &effect {
            let RuntimeToken::File(file) = self.bridge.options.token.clone() else {
                trunkline_redact::register("runtime token", token);
                self.unsaved = Some(token.clone());
                return effect;
            };
            let new = token.clone();
            let written = tokio::task::spawn_blocking(move || file.replace(&new)).await;
            self.unsaved = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => {
                    tracing::error!("{error}; the hub's new token is kept only in memory");
                    Some(token.clone())
                }
                Err(_) => Some(token.clone()),
            };
        }
        effect
    }

    /// Writes the ends of turns to the hub, and closes the connection.
    async fn close_socket(&mut self, socket: &mut Socket) {
        let last = async {
            while let Some(text) = self.bridge.out.next() {
                socket.feed(Message::text(text)).await?;
            }
            socket.close(None).await
        };
        // A hub that does not read sees the broken connection.
        let _ = timeout(CLOSE_TIMEOUT, last).await;
    }

    /// Closes the sessions, and the connection to the host.
    async fn end(mut self, ended: Ended) -> Ended {
        if ended == Ended::Stopped {
            self.bridge.end_all("the runtime ends");
            let bridge = &mut self.bridge;
            let closing = async {
                while let Some(item) = bridge.host.next(true).await {
                    bridge.handle_item(item);
                }
            };
            // A host that does not read sees the end of the connection.
            let _ = timeout(CLOSE_TIMEOUT, closing).await;
        }
        self.bridge.client.close().await;
        ended
    }

    /// Drives the sessions until a future resolves.
    async fn serve_host<T>(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        until: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                () = &mut *stop => return Err(Ended::Stopped),
                result = &mut until => return Ok(result),
                is_alive = self.step_host() => if !is_alive {
                    return Err(Ended::HostEnded);
                },
            }
        }
    }

    /// Handles the next event, while the outbox has room, or the next result of a call. Returns
    /// false when the host has ended and its last event is handled.
    ///
    /// # Cancel safety
    /// Loses nothing.
    async fn step_host(&mut self) -> bool {
        let reads_events = !self.bridge.out.is_full();
        let is_watching = self.bridge.host.is_watching();
        let client = self.bridge.client.clone();
        tokio::select! {
            Some(item) = self.bridge.host.next(reads_events) => {
                self.bridge.at(self.began.elapsed());
                self.bridge.handle_item(item);
                self.bridge.begin_calls();
                self.wake();
            }
            _ = client.ended(), if !is_watching => return false,
            () = sleep_until(self.ticks) => {
                self.bridge.at(self.began.elapsed());
                self.bridge.tick();
                self.bridge.begin_calls();
                self.ticks = Instant::now() + self.bridge.wakes_in();
            }
        }
        true
    }

    /// Brings the next tick forward, if an event or a frame needs it.
    fn wake(&mut self) {
        self.ticks = self.ticks.min(Instant::now() + self.bridge.wakes_in());
    }
}

/// Half of the delay to all of it: runtimes that lost one hub do not come back together.
fn jittered(wait: Duration) -> Duration {
    let random = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
    wait.mul_f64(0.5 + random / 2.0)
}
