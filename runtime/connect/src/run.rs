//! The one task of a connector: the hub on one side, the host on the other.

mod host;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::{SinkExt, future::poll_fn};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::Message;
use trunkline_protocol::{LineReader, MAX_LINE};
use uuid::Uuid;

use crate::{
    Address, ConnectError, ConnectOptions, Ended, TokenFile,
    bridge::{Bridge, Heard, Rules},
    dial::{Socket, Wants, Woke, dial, poll, tls},
    files::Folder,
};

/// The first wait before another connection, and the longest. Between them it doubles.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A connection that lasted so long makes the next wait the first again.
const LASTED: Duration = Duration::from_secs(30);

/// How long the hub may take to take the runtime.
const ACK: Duration = Duration::from_secs(10);

/// How often the hub is asked for a sign of life, and how often while it has frames to show that it read.
const PINGS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(2));

/// How long the hub may be silent. One browser that stops reading holds up all of its work for 60 s.
const SILENCE: Duration = Duration::from_secs(90);

/// How long the host may take to name its agents: they are started for it.
const AGENTS: Duration = Duration::from_secs(60);

/// How long the last frames may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Bytes that wait for the host, beyond which the hub is not read.
const SAID: usize = 1 << 20;

/// Frames that are written before anything else is looked at.
const BATCH: usize = 16;

/// Why the work at hand is over.
enum Over {
    Stopped,
    Host,
}

/// Why a connection is over.
enum Broken {
    Over(Over),
    /// It broke. The hub had taken the runtime at this time.
    Lost(String, Option<Instant>),
    Refused(String),
}

/// Serves the sessions of a hub by a host, whose lines come from `input` and go to `output`, until `stop` resolves or the
/// host ends. A connection that breaks is made anew, with waits of 1 to 30 s.
///
/// # Errors
/// When the hub refuses the runtime before it has ever taken it, and when what is needed is not there. What happens later
/// is logged, and tried again.
///
/// # Cancel safety
/// Dropping the future drops the connection; the hub learns nothing of what was running.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn connect<R, W>(
    options: ConnectOptions,
    input: R,
    output: W,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ConnectError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let named = |what| move |source| ConnectError::Io { what, source };
    let tls = match options.address.is_secure() {
        true => Some(tls().map_err(named("the hub cannot be verified"))?),
        false => None,
    };
    let files = Folder::new().map_err(named("there is no room for files"))?;
    let ConnectOptions {
        address,
        token,
        runtime_id,
        org,
        agents,
        idle,
        lost,
    } = options;
    token.read()?;
    let rules = Rules {
        runtime_id,
        org,
        agents,
        idle,
        lost,
    };
    let connector = Connector {
        bridge: Bridge::new(rules, Box::new(files)),
        input: Box::new(input),
        output: Box::new(output),
        lines: LineReader::of_peer(MAX_LINE),
        began: Instant::now(),
        ticks: Instant::now(),
        address,
        tls,
        token,
        unsaved: None,
    };
    let mut stop = pin!(stop);
    connector.run(&mut stop).await
}

struct Connector {
    bridge: Bridge,
    input: Box<dyn AsyncRead + Unpin + Send>,
    output: Box<dyn AsyncWrite + Unpin + Send>,
    lines: LineReader,
    began: Instant,
    /// When time matters again.
    ticks: Instant,
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    token: TokenFile,
    /// A token that could not be written to its file.
    unsaved: Option<String>,
}

impl Connector {
    async fn run(
        mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Ended, ConnectError> {
        let mut wait = WAITS.0;
        let mut was_taken = false;
        loop {
            let over = match self.once(stop, &mut was_taken).await? {
                Broken::Over(over) => Some(over),
                Broken::Refused(why) if !was_taken => return Err(ConnectError::Refused(why)),
                Broken::Refused(why) => {
                    tracing::error!(
                        "the hub refuses the runtime: {why}; its token file is read again"
                    );
                    wait = WAITS.1;
                    None
                }
                Broken::Lost(why, since) => {
                    if since.is_some_and(|since| since.elapsed() >= LASTED) {
                        wait = WAITS.0;
                    }
                    tracing::warn!("there is no connection to the hub: {why}");
                    None
                }
            };
            let over = match over {
                Some(over) => Some(over),
                None => self.serve_host(stop, sleep(jittered(wait))).await.err(),
            };
            match over {
                None => wait = (wait * 2).min(WAITS.1),
                Some(over) => return Ok(self.end(over).await),
            }
        }
    }

    /// One connection, from the dialling to its end.
    async fn once(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        was_taken: &mut bool,
    ) -> Result<Broken, ConnectError> {
        let asked = self.agents(stop, *was_taken).await?;
        if let Some(over) = asked {
            return Ok(Broken::Over(over));
        }
        let token = match (self.unsaved.clone(), self.token.read()) {
            (Some(token), _) | (None, Ok(token)) => token,
            (None, Err(error)) if !*was_taken => return Err(error.into()),
            (None, Err(error)) => return Ok(Broken::Lost(error.to_string(), None)),
        };
        let (address, tls) = (self.address.clone(), self.tls.clone());
        let dialled = self
            .serve_host(stop, async move { dial(&address, tls.as_ref()).await })
            .await;
        let socket = match dialled {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Ok(Broken::Lost(error.to_string(), None)),
            Err(over) => return Ok(Broken::Over(over)),
        };
        let broken = self.connected(socket, &token, stop, was_taken).await;
        self.bridge.disconnected();
        Ok(broken)
    }

    /// Learns which agents the host has now.
    async fn agents(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        was_taken: bool,
    ) -> Result<Option<Over>, ConnectError> {
        self.bridge.ask_agents();
        let mut late = pin!(sleep(AGENTS));
        // Behind what waits for the hub there is no answer: then the hub gets those that it had.
        while self.bridge.asks_agents() && !(was_taken && self.bridge.out.is_full()) {
            tokio::select! {
                () = &mut *stop => return Ok(Some(Over::Stopped)),
                () = &mut late => break,
                alive = self.host_step() => if !alive {
                    return Ok(Some(Over::Host));
                },
            }
        }
        match self.bridge.lacks() {
            Some(agent) if !was_taken => Err(ConnectError::NoAgent(agent)),
            _ => Ok(None),
        }
    }

    async fn connected(
        &mut self,
        mut socket: Socket,
        token: &str,
        stop: &mut (impl Future<Output = ()> + Unpin),
        was_taken: &mut bool,
    ) -> Broken {
        let hello = self.bridge.hello(token);
        let lost = |why: &str, since| Broken::Lost(why.to_owned(), since);
        if !matches!(
            timeout(ACK, socket.send(Message::text(hello))).await,
            Ok(Ok(()))
        ) {
            return lost("the hub does not read", None);
        }
        let mut since = None;
        let began = Instant::now();
        let (mut heard, mut pinged, mut is_dirty, mut writes_first) = (began, began, false, false);
        loop {
            let next_ping = match self.bridge.out.has_unread() {
                true if self.bridge.out.asks_soon() => pinged,
                true => pinged + PINGS.1,
                false => pinged + PINGS.0,
            };
            let has_next = since.is_some() && self.bridge.out.has_next();
            let has_room = !self.bridge.out.overflows() && self.bridge.said.len() < SAID;
            writes_first = !writes_first;
            let wants = Wants {
                read: has_room,
                next: has_next,
                flush: is_dirty,
                writes_first,
            };
            tokio::select! {
                () = &mut *stop => {
                    self.say_goodbye(&mut socket).await;
                    return Broken::Over(Over::Stopped);
                }
                woke = poll_fn(|cx| poll(&mut socket, wants, cx)) => match woke {
                    Woke::Written(Err(error)) | Woke::Read(Some(Err(error))) => return lost(&error.to_string(), since),
                    Woke::Read(None) => return lost("the hub closed it", since),
                    Woke::Written(Ok(())) => {
                        is_dirty = has_next;
                        for _ in 0..if has_next { BATCH } else { 0 } {
                            let Some(text) = self.bridge.out.next() else { break };
                            if let Err(error) = socket.start_send_unpin(Message::text(text)) {
                                return lost(&error.to_string(), since);
                            }
                        }
                    }
                    Woke::Read(Some(Ok(message))) => {
                        heard = Instant::now();
                        match message {
                            Message::Text(text) => match self.heard(text.as_str()).await {
                                Heard::Done | Heard::Token(_) => {}
                                Heard::Refused(why) => return Broken::Refused(why),
                                Heard::Taken => {
                                    tracing::info!("the hub at {} has taken the runtime", self.address);
                                    (*was_taken, since) = (true, Some(heard));
                                }
                            },
                            Message::Pong(payload) => {
                                if let Ok(sent) = <[u8; 8]>::try_from(&payload[..]) {
                                    self.bridge.out.is_read(u64::from_be_bytes(sent));
                                }
                            }
                            // The answer to a ping is written with what is flushed next.
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
                () = sleep_until(heard + SILENCE) => return lost("it is silent", since),
                () = sleep_until(began + ACK), if since.is_none() => return lost("it does not answer", since),
                alive = self.host_step() => if !alive {
                    self.bridge.host_ended();
                    self.say_goodbye(&mut socket).await;
                    return Broken::Over(Over::Host);
                }
            }
        }
    }

    /// Takes a frame of the hub.
    async fn heard(&mut self, text: &str) -> Heard {
        self.bridge.at(self.began.elapsed());
        let heard = self.bridge.hub(text);
        self.wake();
        if let Heard::Token(token) = &heard {
            let (file, new) = (self.token.clone(), token.clone());
            let written = tokio::task::spawn_blocking(move || file.replace(&new)).await;
            self.unsaved = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => {
                    tracing::error!("{error}; the hub's new token is kept in memory alone");
                    Some(token.clone())
                }
                Err(_) => Some(token.clone()),
            };
        }
        heard
    }

    /// Writes what the hub must still learn.
    async fn say_goodbye(&mut self, socket: &mut Socket) {
        self.bridge.leave();
        let last = async {
            while let Some(text) = self.bridge.out.next() {
                socket.feed(Message::text(text)).await?;
            }
            socket.close(None).await
        };
        // A hub that does not read learns it by the broken connection.
        let _ = timeout(LAST_WORDS, last).await;
    }
}

/// Half of a wait to all of it: those that lost one hub do not come back at once.
fn jittered(wait: Duration) -> Duration {
    let random = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
    wait.mul_f64(0.5 + random / 2.0)
}
