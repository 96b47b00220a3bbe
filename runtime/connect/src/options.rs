//! What a connector is asked for, and how it ends.

use std::{io, time::Duration};

use crate::{Address, TokenError, TokenFile, WhenLost};

/// What a connector connects.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The hub.
    pub address: Address,
    /// Where the runtime's token is, and where a new one goes.
    pub token: TokenFile,
    /// The runtime's id. With time-limited tokens it has no `:`.
    pub runtime_id: String,
    /// The organisation. `None`: the hub's default.
    pub org: Option<String>,
    /// The agents that the hub gets, by their ids at the host. `None`: all.
    pub agents: Option<Vec<String>>,
    /// How long a session may rest before it is closed: the hub never says that one is over.
    pub idle: Duration,
    /// What becomes of requests when the connection breaks.
    pub lost: WhenLost,
}

/// What ended a connector in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to end.
    Stopped,
    /// The host has ended.
    HostEnded,
}

/// Why a connector gave up. The texts are sentences without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The hub could not be verified, or there is no room for files.
    #[error("{what}: {source}")]
    Io {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The hub refuses the runtime.
    #[error("the hub refuses the runtime: {0}")]
    Refused(String),
    /// The host has no such agent, or none.
    #[error("the host has no agent {0}")]
    NoAgent(String),
}
