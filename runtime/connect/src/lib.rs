//! Sessions for the hub of another system: what `trunkline connect` runs.
//!
//! An Amurg hub takes *runtimes*: programs that dial its WebSocket, say which agents they have, and run the sessions that
//! people open in the hub's page. [`connect`] is one of them. It has no agent itself: each session of the hub is one of a
//! host, which it drives over the host's own protocol, as any hub does.
//!
//! # Theory of operation
//!
//! `bridge` is the core: frames of the hub in, lines for the host out, and the other way. It knows no socket and no clock.
//! `run` has the one task around it, which reads both sides only while there is room for what comes of that: while the hub
//! reads slowly or is away, the host holds sessions back, on disk, and each in its order.
//!
//! The hub acknowledges nothing, but it reads frame after frame and answers a ping when it comes to it. So `outbox` knows
//! which frames it has read. When a connection breaks, those that mean the same twice are sent again. Output is not, since
//! the hub would show it twice: its session gets a line that something may be missing.

#![forbid(unsafe_code)]

mod address;
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

pub use address::{Address, BadAddress};
pub use dial::stream;
pub use options::{ConnectError, ConnectOptions, Ended};
pub use run::connect;
pub use token::{TokenError, TokenFile};

/// What becomes of a request that waits for a person when the connection to the hub breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// It is denied.
    #[default]
    Deny,
    /// It waits, and is asked again by the next connection.
    Wait,
}
