//! Options of a connector, and the results of its end.

use std::{io, time::Duration};

use trunkline_client::ServerAddress;

use crate::{RuntimeToken, TokenError, WhenLost};

/// Options of a connector.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The hub.
    pub address: ServerAddress,
    /// The runtime's token.
    pub token: RuntimeToken,
    /// The runtime's id. With time-limited tokens it has no `:`.
    pub runtime_id: String,
    /// The organisation. `None`: the hub's default.
    pub org: Option<String>,
    /// Registers agents by their ids at the host, as the runtime did that this one replaces. An
    /// agent's id is a key of the whole hub, which the last runtime that registers it takes over.
    /// Otherwise each has the runtime's id and a `.` before it.
    pub bare_ids: bool,
    /// Returns the way in which tools of an agent of this profile are denied. `None`: there is none.
    pub tool_denial: fn(profile: &str) -> Option<ToolDenial>,
    /// The agents that the hub gets, by their ids at the host. `None`: all.
    pub agents: Option<Vec<String>>,
    /// The time without a message or an event after which a session is closed. The hub itself
    /// closes none.
    pub idle: Duration,
    /// The treatment of requests when the connection breaks.
    pub lost: WhenLost,
}

/// The way in which an administrator's `disallowed_tools` are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolDenial {
    /// The agent's adapter enforces `denied_tools` ([ext.7]).
    Adapter,
    /// The adapter asks about every call, and requests for these tools are denied.
    Permission,
}

/// The reason for an orderly end of a connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorEnd {
    /// `stop` resolved.
    Stopped,
    /// The host has ended.
    HostEnded,
}

/// The reason why a connector gave up. Texts are sentences without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The hub cannot be verified, or the folder for files was not made.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The hub refuses the runtime.
    #[error("the hub refuses the runtime: {0}")]
    Refused(String),
    /// The host has no such agent, or none.
    #[error("the host has no agent {0}")]
    NoAgent(String),
}
