//! Sessions over HTTP: for browsers, `curl`, and hubs on the other side of a network.
//!
//! A [`Gateway`] stands on a [`Host`](trunkline_host::Host) and the
//! [`Sessions`](trunkline_sessions::Sessions) of its journal, and adds no truth of its own: what a
//! request says goes to a session as a hub's message, and what it reads are the session's entries.
//! It serves HTTP on TCP, where every request bears a token, and on a socket of this user, which
//! also takes hubs that speak the protocol itself. An [`Entrance`] that others can reach has
//! [`Tls`].
//!
//! # Theory of operation
//!
//! ```text
//! TCP ────▶ accept.rs ─▶ guard.rs ──▶ routes/*.rs ──▶ one.rs (a hub for one request) ──▶ Sessions ──▶ Host
//! socket ─▶ accept.rs ┬▶ who knows this user ┘   └──▶ routes/pipe.rs ──▶ Relay ────────────▲
//!                     └▶ a hub that speaks lines ────▶ Relay ────────────────────────────────┘
//! ```
//!
//! `guard.rs` finds out who asks (`pass.rs`), from the connection and the token alone. A connection
//! brings by which way it came in (`entrance.rs`), and whether a process that an agent has started
//! is at its other end (`caller.rs`). What it may see is decided where sessions are found
//! ([`Visitor`](trunkline_sessions::Visitor)), and what it may say by one total table (`judge.rs`),
//! on the pipe as on the paths. Everything that waits is bounded: connections, headers, bodies,
//! streams of a token. A client that reads slowly reads from the journal, and holds no one up.

#![forbid(unsafe_code)]

mod accept;
mod ask;
mod caller;
mod console;
mod cross;
mod elsewhere;
mod entrance;
mod gateway;
mod guard;
mod handover;
mod judge;
mod metrics;
mod pass;
mod problem;
mod routes;
mod session_client;
mod stranger;
mod tls;
mod token;
mod uploads;

pub use ask::{ask, ask_over};
pub use axum::http::{Method, StatusCode};
pub use elsewhere::{Elsewhere, HostPhase, HostState, Place, Stream, Who};
pub use entrance::{Entrance, Name};
pub use gateway::{Gateway, Operate, Options, UsedInDay};
pub use tls::{Tls, TlsError};
pub use token::{Compared, NewToken, Scope, Token, TokenError, TokenFile};
