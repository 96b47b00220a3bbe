//! Sessions for the hub of another system: the library of `trunkline daemon connect`.
//!
//! An Amurg hub has *runtimes*: programs that dial its WebSocket, declare their agents, and run the
//! sessions that people open in the hub's page. [`connect`] is one of them. It has no agent itself:
//! each session of the hub is a session of a host, through a [`Client`](trunkline_client::Client).
//!
//! | module | content |
//! |---|---|
//! | `run` | the task that owns the connection to the hub |
//! | `bridge` | the translation between frames of the hub and calls on sessions; no socket, no clock |
//! | `outbox` | frames for the hub, and those that it has not read as far as is known |
//! | `joined` | output that is joined into paragraphs |
//! | `frame`, `show`, `ask` | the hub's messages, texts and questions |
//!
//! While the hub reads slowly or is away, events are not read: the client holds its sessions back
//! at the host.
//!
//! The hub acknowledges nothing, but it reads its frames in order and answers a ping in that order.
//! So the outbox knows the frames that were read. When a connection breaks, frames that mean the
//! same twice are sent again. Output is not, since the hub would show it twice: its session gets a
//! line that something may be missing.

#![forbid(unsafe_code)]

mod ask;
mod bridge;
mod dial;
mod files;
mod frame;
mod joined;
mod options;
mod outbox;
mod run;
mod session;
mod settings;
mod show;
mod token;

pub use options::{ConnectError, ConnectOptions, ConnectorEnd, ToolDenial};
pub use run::connect;
pub use token::{RuntimeToken, TokenError, TokenFile};

/// The treatment of a request that waits for a person when the connection to the hub breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// Denied.
    #[default]
    Deny,
    /// Waits, and the next connection asks again.
    Wait,
}
