//! HTTP gateway: sessions for browsers, `curl`, and hubs on a network.
//!
//! A [`Gateway`] serves the [`Sessions`](trunkline_sessions::Sessions) of a
//! [`Host`](trunkline_host::Host). A request becomes a hub's message to a session, and responses
//! are the session's entries. Requests over TCP need a token. The socket of this user needs none,
//! and also accepts hubs that speak the protocol itself.
//!
//! # Theory of operation
//!
//! ```text
//! TCP ────▶ http/connection ─▶ http/cors ─▶ auth/authentication ─▶ http/routes ──▶ Sessions ──▶ Host
//! socket ─▶ http/connection ┬▶ this user ─────────────────────────┘                    ▲
//!                           └▶ a hub that speaks lines ─▶ peers/router ─▶ Relay ───────┘
//! ```
//!
//! - `http`: [`Listener`]s, TLS, connections, bounds for clients without a token, routes, metrics.
//! - `auth`: `authentication` finds the principal of a request, `caller` refuses processes that an
//!   agent has started, and `authorizer` decides what a principal may send, with one table for all
//!   paths. Visibility is decided by [`Visitor`](trunkline_sessions::Visitor).
//! - `peers`: requests and lists of sessions that other hosts serve.
//! - `webhooks`: changes of sessions, sent to addresses of the configuration.
//!
//! Connections, headers, bodies and streams per token are bounded. A client that reads slowly reads
//! from the journal and delays no other client.

#![forbid(unsafe_code)]

mod auth;
mod gateway;
mod http;
mod peers;
mod webhooks;

pub use auth::token::{
    NewToken, PairedBrowser, PendingTokenSync, PublicToken, Scope, Token, TokenError, TokenFile,
};
pub use gateway::{DaemonOperator, DailyUsage, Gateway, Options};
pub use http::{
    listener::{HostName, Listener},
    tls::{Tls, TlsError},
};
pub use peers::{ForwardedPrincipal, HostPhase, HostState, Peers, SessionLocation, Stream};
pub use webhooks::{PreparedWebhooks, Webhooks};
