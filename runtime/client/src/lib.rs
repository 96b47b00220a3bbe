//! A hub in Rust: opens and attaches to sessions of a host, over a child process, a Unix socket or
//! a WebSocket, and the HTTP of a daemon.
//!
//! A [`Client`] is one connection to a host: `trunkline serve`, or a daemon. It opens [`Session`]s
//! and attaches to sessions of the host's journal, any number of them at once. Events of a session
//! come from its [`Events`], in order.
//!
//! ```no_run
//! use trunkline_client::{ChildProcess, Client, protocol::SessionStart};
//!
//! # async fn example() -> Result<(), trunkline_client::ClientError> {
//! let host = ChildProcess::new("trunkline", ["serve", "--journal", "journal"]);
//! let client = Client::connect(host).await?;
//! let (session, mut events) = client.open(SessionStart::default()).await?;
//! let turn = session.send("hello").await?;
//! while let Some(event) = events.next().await? {
//!     if let Some(text) = event.answer_text() {
//!         print!("{text}");
//!     }
//!     if event.ends(&turn) {
//!         break;
//!     }
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | `client` | [`Client`]: connect, open, attach, lists, history |
//! | `session` | [`Session`]: send, steer, stop, answers, updates, files, close, detach |
//! | `turn` | [`Turn`]: the acceptance and the end of an input |
//! | `event` | [`Event`] and [`Events`]: the bounded queue of a session |
//! | `session_set` | [`SessionSet`]: the events and calls of many sessions in one task |
//! | `transport` | [`Connect`] and the transports: [`ChildProcess`], [`UnixSocket`], [`Streams`], `WebSocket` |
//! | `http` | `HttpClient`: files, the search, removal, and other requests (feature `websocket`) |
//! | `changes` | `SessionChanges`: the stream over all sessions |
//! | `connection` | the one task that owns a connection |
//! | `session_state` | the state of one session in that task; no I/O |
//! | `reconnect` | [`ReconnectPolicy`], and the waits between attempts |
//! | `error` | [`ClientError`], [`ConnectError`] |
//!
//! # Lost connections
//!
//! A connection that breaks is made again, with waits that double, until
//! [`ReconnectPolicy::give_up_after`] has passed without progress, or at once given up when the
//! failure is permanent: the command ended with status 2, or the token was refused. Each session is
//! attached again behind its last entry ([journal.5]). Inputs that have no acceptance are sent
//! again under the same `message_id`, which counts once ([journal.7]), and so are answers, stops,
//! updates and a close without their confirmation. Entries come once each and in order. A session
//! that the host does not serve for the moment (`unavailable`, because it moves to another host) is
//! attached again in the same way.
//!
//! # Bounds
//!
//! Events wait for a slow reader up to [`PAUSE_SESSION_BYTES`]; then the host holds the session
//! back and other sessions continue. If it does not, the whole connection is not read from
//! [`STOP_READING_BYTES`] on. A session has at most [`MAX_OPEN_INPUT_BYTES`] of inputs without an
//! end. Lines are at most as long as the host reads them ([frame.11]). Files have at most
//! [`MAX_FILE_BYTES`].

#![forbid(unsafe_code)]

#[cfg(feature = "websocket")]
mod changes;
mod client;
mod connection;
mod error;
mod event;
#[cfg(feature = "websocket")]
mod http;
mod reconnect;
mod session;
mod session_set;
mod session_state;
mod transport;
mod turn;

/// The protocol's messages, as they are in requests and events.
pub use trunkline_protocol as protocol;

#[cfg(feature = "websocket")]
pub use changes::{ChangeKind, MAX_CHANGE_BYTES, SessionChange, SessionChanges};
pub use client::{Client, HistoryPage, SessionPage};
pub use error::{ClientError, ConnectError};
pub use event::{
    Event, EventBody, Events, PAUSE_SESSION_BYTES, RESUME_SESSION_BYTES, STOP_READING_BYTES,
};
#[cfg(feature = "websocket")]
pub use http::{
    HttpClient, MAX_RESPONSE_BYTES, SearchHit, SearchPage, SearchQuery, exchange, send_request_over,
};
#[cfg(feature = "websocket")]
pub use hyper::{Method, StatusCode};
pub use reconnect::{ReconnectBackoff, ReconnectPolicy};
pub use session::{MAX_FILE_BYTES, MAX_OPEN_INPUT_BYTES, Session};
pub use session_set::{FinishCall, SessionSet, SetItem};
#[cfg(feature = "websocket")]
pub use transport::{AddressError, ByteStream, ServerAddress, WebSocket, tls_config};
pub use transport::{ChildProcess, Connect, Pipe, Streams};
#[cfg(unix)]
pub use transport::{UnixSocket, connect_unix};
#[cfg(unix)]
pub use trunkline_pipe::SocketPath;
pub use turn::{Acceptance, Input, Turn};
