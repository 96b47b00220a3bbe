//! The task of a connector: it owns the connection to the hub, and drives the sessions of the host.

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::{SinkExt, future::poll_fn};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use trunkline_client::{Client, tls_config};
use uuid::Uuid;

use crate::{
    ConnectError, ConnectOptions, ConnectorEnd, RuntimeToken,
    bridge::{FrameEffect, SessionBridge},
    dial::{HubSocket, SocketEvent, SocketInterest, dial, poll},
    files::UploadFolder,
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

/// The reason why there is no connection to the hub.
enum ConnectionEnd {
    /// The connector ends.
    Ended(ConnectorEnd),
    /// Another attempt helps only if the hub has accepted the runtime before.
    Failed(ConnectError),
    /// The connection broke, or was not made.
    Lost(String),
}

impl From<ConnectorEnd> for ConnectionEnd {
    fn from(end: ConnectorEnd) -> Self {
        Self::Ended(end)
    }
}

impl<E: std::error::Error> From<E> for ConnectionEnd {
    fn from(error: E) -> Self {
        Self::Lost(error.to_string())
    }
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
) -> Result<ConnectorEnd, ConnectError> {
    let named = |what| move |source| ConnectError::Io { what, source };
    if options.address.is_secure() {
        // Without certificates no attempt can succeed.
        tls_config().map_err(named("the hub cannot be verified"))?;
    }
    let files = UploadFolder::new().map_err(named("no folder for files was made"))?;
    options.token.read()?;
    let mut connector = HubConnector {
        bridge: SessionBridge::new(options, client, files),
        stop: pin!(stop),
        began: Instant::now(),
        ticks: Instant::now(),
        unsaved: None,
        was_accepted: false,
        accepted_at: None,
    };
    let end = connector.run().await?;
    connector.close(end).await;
    Ok(end)
}

struct HubConnector<'a, F> {
    bridge: SessionBridge,
    stop: Pin<&'a mut F>,
    began: Instant,
    /// The time of the bridge's next tick.
    ticks: Instant,
    /// A token that is in no file.
    unsaved: Option<String>,
    /// True if the hub has ever accepted the runtime.
    was_accepted: bool,
    /// The time at which the hub accepted the runtime on this connection.
    accepted_at: Option<Instant>,
}

impl<F: Future<Output = ()>> HubConnector<'_, F> {
    /// Connects again and again, until the connector ends.
    async fn run(&mut self) -> Result<ConnectorEnd, ConnectError> {
        let mut wait = FIRST_DELAY;
        loop {
            self.accepted_at = None;
            let Err(end) = self.connect_once().await;
            self.bridge.disconnected();
            match end {
                ConnectionEnd::Ended(end) => return Ok(end),
                ConnectionEnd::Failed(error) if !self.was_accepted => return Err(error),
                ConnectionEnd::Failed(error) => {
                    tracing::error!("{error}; the configured token is read again");
                    self.unsaved = None;
                    wait = MAX_DELAY;
                }
                ConnectionEnd::Lost(why) => {
                    if self
                        .accepted_at
                        .is_some_and(|since| since.elapsed() >= STEADY)
                    {
                        wait = FIRST_DELAY;
                    }
                    tracing::warn!("there is no connection to the hub: {why}");
                }
            }
            if let Err(end) = self.serve_host(sleep(jittered(wait))).await {
                return Ok(end);
            }
            wait = (wait * 2).min(MAX_DELAY);
        }
    }

    /// Connects to the hub, and serves the connection until it ends.
    async fn connect_once(&mut self) -> Result<Infallible, ConnectionEnd> {
        let client = self.bridge.client.clone();
        let listing = timeout(AGENTS_TIMEOUT, async move { client.agents(false).await });
        // Otherwise the hub gets the last list of agents.
        if let Ok(Ok(agents)) = self.serve_host(listing).await? {
            self.bridge.set_agents(agents);
        }
        if let Some(agent) = self.bridge.missing_agent().filter(|_| !self.was_accepted) {
            return Err(ConnectionEnd::Failed(ConnectError::NoAgent(agent)));
        }
        let token = match (self.unsaved.clone(), self.bridge.options.token.read()) {
            (Some(token), _) | (None, Ok(token)) => token,
            (None, Err(error)) if !self.was_accepted => {
                return Err(ConnectionEnd::Failed(error.into()));
            }
            (None, Err(error)) => return Err(error.into()),
        };
        let address = self.bridge.options.address.clone();
        let socket = self
            .serve_host(async move { dial(&address).await })
            .await??;
        self.serve_hub(socket, &token).await
    }

    async fn serve_hub(
        &mut self,
        mut socket: HubSocket,
        token: &str,
    ) -> Result<Infallible, ConnectionEnd> {
        let hello = Message::text(self.bridge.hello(token));
        let sent = timeout(ACCEPT_TIMEOUT, socket.send(hello)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Err(lost("the hub does not read"));
        }
        let began = Instant::now();
        let mut last_read = began;
        let mut pinged = began;
        let mut is_dirty = false;
        let mut writes_first = false;
        loop {
            let ping_interval = if self.bridge.out.asks_soon() {
                Duration::ZERO
            } else if self.bridge.out.has_unread() {
                UNREAD_PING_INTERVAL
            } else {
                PING_INTERVAL
            };
            let has_next = self.accepted_at.is_some() && self.bridge.out.has_next();
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
                woke = poll_fn(|cx| poll(&mut socket, wants, cx)) => match woke {
                    SocketEvent::Written(written) => {
                        written?;
                        is_dirty = has_next;
                        for _ in 0..if has_next { FRAME_BATCH } else { 0 } {
                            let Some(text) = self.bridge.out.next() else { break };
                            socket.start_send_unpin(Message::text(text))?;
                        }
                    }
                    SocketEvent::Read(message) => {
                        last_read = Instant::now();
                        match message.ok_or_else(|| lost("the hub closed it"))?? {
                            Message::Text(text) => self.handle_frame(text.as_str()).await?,
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
                () = sleep_until(pinged + ping_interval) => {
                    pinged = Instant::now();
                    let payload = self.bridge.out.ask().to_be_bytes().to_vec();
                    socket.start_send_unpin(Message::Ping(payload.into()))?;
                    is_dirty = true;
                }
                () = sleep_until(last_read + MAX_SILENCE) => return Err(lost("it is silent")),
                () = sleep_until(began + ACCEPT_TIMEOUT), if self.accepted_at.is_none() => {
                    return Err(lost("it does not answer"));
                }
                stepped = self.step_host() => if let Err(end) = stepped {
                    self.bridge.end_all(reason(end));
                    self.close_socket(&mut socket).await;
                    return Err(end.into());
                },
            }
        }
    }

    /// Handles a frame of the hub.
    async fn handle_frame(&mut self, text: &str) -> Result<(), ConnectionEnd> {
        self.bridge.at(self.began.elapsed());
        let effect = self.bridge.handle_frame(text);
        self.bridge.begin_calls();
        self.wake();
        match effect {
            FrameEffect::None => {}
            FrameEffect::Accepted => {
                let address = &self.bridge.options.address;
                tracing::info!("the hub at {address} has accepted the runtime");
                self.was_accepted = true;
                self.accepted_at = Some(Instant::now());
            }
            FrameEffect::Refused(why) => {
                return Err(ConnectionEnd::Failed(ConnectError::Refused(why)));
            }
            FrameEffect::Token(token) => self.store_token(token).await,
        }
        Ok(())
    }

    /// Stores the token for the next connection: in its file, otherwise in memory.
    async fn store_token(&mut self, token: String) {
        trunkline_redact::register("runtime token", &token);
        self.unsaved = Some(token.clone());
        if let RuntimeToken::File(file) = self.bridge.options.token.clone() {
            match tokio::task::spawn_blocking(move || file.replace(&token)).await {
                Ok(Ok(())) => self.unsaved = None,
                Ok(Err(error)) => {
                    tracing::error!("{error}; the hub's new token is kept only in memory");
                }
                // A panic was already reported.
                Err(_) => {}
            }
        }
    }

    /// Writes the ends of turns to the hub, and closes the connection.
    async fn close_socket(&mut self, socket: &mut HubSocket) {
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
    async fn close(self, end: ConnectorEnd) {
        let mut bridge = self.bridge;
        if end == ConnectorEnd::Stopped {
            bridge.end_all(reason(end));
            let closing = async {
                while let Some(item) = bridge.host.next(true).await {
                    bridge.handle_item(item);
                }
            };
            // A host that does not read sees the end of the connection.
            let _ = timeout(CLOSE_TIMEOUT, closing).await;
        }
        bridge.client.close().await;
    }

    /// Drives the sessions until a future resolves.
    async fn serve_host<T>(&mut self, until: impl Future<Output = T>) -> Result<T, ConnectorEnd> {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                result = &mut until => return Ok(result),
                stepped = self.step_host() => stepped?,
            }
        }
    }

    /// Handles the next event, while the outbox has room, or the next result of a call.
    ///
    /// # Errors
    /// The connector ends, and the last event is handled.
    ///
    /// # Cancel safety
    /// Loses nothing.
    async fn step_host(&mut self) -> Result<(), ConnectorEnd> {
        let reads_events = !self.bridge.out.is_full();
        let is_watching = self.bridge.host.is_watching();
        let client = self.bridge.client.clone();
        tokio::select! {
            () = &mut self.stop => return Err(ConnectorEnd::Stopped),
            Some(item) = self.bridge.host.next(reads_events) => {
                self.bridge.at(self.began.elapsed());
                self.bridge.handle_item(item);
                self.bridge.begin_calls();
                self.wake();
            }
            _ = client.ended(), if !is_watching => return Err(ConnectorEnd::HostEnded),
            () = sleep_until(self.ticks) => {
                self.bridge.at(self.began.elapsed());
                self.bridge.tick();
                self.bridge.begin_calls();
                self.ticks = Instant::now() + self.bridge.wakes_in();
            }
        }
        Ok(())
    }

    /// Brings the next tick forward, if an event or a frame needs it.
    fn wake(&mut self) {
        self.ticks = self.ticks.min(Instant::now() + self.bridge.wakes_in());
    }
}

fn lost(why: &str) -> ConnectionEnd {
    ConnectionEnd::Lost(why.to_owned())
}

/// Returns the text that the people of open sessions read.
fn reason(end: ConnectorEnd) -> &'static str {
    match end {
        ConnectorEnd::Stopped => "the runtime ends",
        ConnectorEnd::HostEnded => "the host has ended",
    }
}

/// Half of the delay to all of it: runtimes that lost one hub do not come back together.
fn jittered(wait: Duration) -> Duration {
    let random = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
    wait.mul_f64(0.5 + random / 2.0)
}
