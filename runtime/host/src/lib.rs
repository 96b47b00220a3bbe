//! Runs adapters: many sessions over one pipe to each.
//!
//! A [`Host`] has agents by id. [`Host::open`] opens a [`Session`], [`Session::send`] begins a
//! [`Turn`]: a stream of [`Event`]s with exactly one [`TurnEnd`] at its end, whatever the adapter
//! does. One long-lived process serves all sessions of an agent; when it dies, every turn ends with
//! that cause, and the next input starts it again.
//!
//! ```no_run
//! use trunkline_host::{EventKind, Host, SessionOptions, config::{AgentConfig, Command}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // First of all, before any thread: see `process::init`.
//! trunkline_host::process::init::hook();
//! let agent = AgentConfig::external("echo", Command::new("python3").arg("echo.py"));
//! let host = Host::builder().agent(agent).build()?;
//! let session = host.open("echo", SessionOptions::default())?;
//!
//! let mut turn = session.send("hello")?;
//! while let Some(event) = turn.next().await {
//!     match event.kind {
//!         EventKind::Output(output) => print!("{}", output.content),
//!         EventKind::Permission(permission) => permission.deny(),
//!         EventKind::End(end) => println!("\n{}: {}", end.cause, end.status),
//!         _ => {}
//!     }
//! }
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Theory of operation
//!
//! A task on the embedder's runtime drives each agent's link: it reads, dispatches and writes, and
//! never waits for one session (`link`). A pure state machine makes the decisions
//! ([`trunkline_core`]). Events wait for their readers in memory up to a budget and then on disk
//! (`mailbox`, `spool`). Handles are cheap to clone. Dropping a [`Turn`] stops it, dropping the
//! last handle of a [`Session`] closes it, dropping the [`Host`] signals its processes to end.
//!
//! [`Host::reconfigure`] replaces the agents of a running host. An agent with one configuration has
//! a link and a process of its own, so another configuration is another link: it takes the new
//! sessions, and the earlier link ends by itself with its last session (`host/agents`). A session
//! is registered under the lock that protects the agents, so no link ends while a session is being
//! opened.

#![forbid(unsafe_code)]

mod agent;
pub mod config;
mod counters;
mod declared;
mod describe;
mod error;
mod event;
pub mod files;
mod health;
mod host;
mod link;
mod mailbox;
mod orphans;
mod progress_text;
mod request;
mod session;
mod session_options;
mod spool;
mod turn;
pub mod usage;
mod wire_form;

pub use agent::guard_writable;
pub use counters::{Counters, SessionCounters};
pub use error::{
    BuildError, FileError, OpenError, PolicyRefusal, ReconfigureError, SendError, SpecError,
    UpdateError,
};
pub use event::{Event, EventKind, File};
pub use health::{AgentHealth, FailingTurns, LastEnd, ProcessHealth, Rates, Verdict};
pub use host::{AgentStatus, Changes, Host, HostBuilder, NativeListError};
pub use progress_text::ProgressText;
pub use request::{Decision, Permission, Question};
pub use session::{EventDelivery, Input, PlacedFile, Session, SessionOptions, SessionStatus};
pub use turn::Turn;

pub use trunkline_core::{
    Cause, EditRejected, ExitStatus, MAX_STDERR_LINE_BYTES, MAX_STDERR_LINES, SessionEnd,
    SessionState, SteerError, TurnEnd, TurnNo, TurnScope, policy,
};
pub use trunkline_process as process;
pub use trunkline_protocol as protocol;
pub use trunkline_protocol::format_duration;
pub use trunkline_redact as redact;
pub use trunkline_sandbox as sandbox;
pub use trunkline_wirelog as wirelog;
