//! Sessions that other hosts serve: location, forwarded requests, and merged lists.
//!
//! The gateway asks [`Peers`] for the host of a session, and forwards requests to the gateway there
//! over a byte stream, with the principal that it has authenticated. The other gateway receives
//! them by [`Gateway::serve_peer`](crate::Gateway::serve_peer) and authorizes them itself. A
//! forwarded request is not forwarded again. A list merges one page of each host.

pub(crate) mod forward;
pub(crate) mod inbound;
pub(crate) mod list;
pub(crate) mod placement;
mod principal;
pub(crate) mod router;

use std::{collections::BTreeMap, fmt, io, time::Duration};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use trunkline_protocol::SessionId;

pub use principal::ForwardedPrincipal;

/// Byte stream to another host.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The other hosts of a cluster.
pub trait Peers: fmt::Debug + Send + Sync {
    /// Finds the host of a session. The answer can be out of date when it arrives.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the search.
    fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, SessionLocation>;

    /// Reserves the id of a new session at a host, which then opens it. Without an agent, any host
    /// with a default agent is suitable. Never returns [`SessionLocation::Unknown`].
    ///
    /// # Errors
    /// The reason why no host takes it, for people.
    ///
    /// # Cancel safety
    /// After a drop the id can stay reserved for a while.
    fn place<'a>(
        &'a self,
        id: &'a SessionId,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionLocation, String>>;

    /// Connects to the gateway of another host for a principal. Both ends close together.
    ///
    /// # Errors
    /// Fails in a bounded time if the host cannot be reached.
    fn connect<'a>(
        &'a self,
        host: &'a str,
        who: ForwardedPrincipal,
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;

    /// All hosts, this one among them.
    fn hosts(&self) -> Vec<HostState>;

    /// Makes a host (`None`: this one) hand its sessions over before the deadline and accept no new
    /// ones. Resolves when that has begun.
    ///
    /// # Errors
    /// The reason, for people.
    fn drain<'a>(
        &'a self,
        host: Option<&'a str>,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        let _ = (host, deadline);
        Box::pin(std::future::ready(Err(
            "these hosts hand nothing over".to_owned()
        )))
    }

    /// Makes a host take over a session whose files are on a storage that no host has; the agent
    /// loses those files. Returns the host.
    ///
    /// # Errors
    /// The reason, for people.
    fn relocate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<String, String>> {
        let _ = id;
        Box::pin(std::future::ready(Err(
            "these hosts take nothing over".to_owned()
        )))
    }

    /// Counters of this host about the others since its start; names have small letters and `_`.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Resolves when this host learns that a session has left another host.
    fn moved(&self, id: &SessionId, host: &str) -> BoxFuture<'static, ()>;
}

/// Location of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionLocation {
    /// This host has it or may open it.
    Here,
    /// The host of this name has it.
    There(String),
    /// No session has this id.
    Unknown,
    /// The session's host does not serve it now.
    Unavailable {
        /// The host.
        host: String,
        /// The reason, for people.
        why: String,
    },
}

/// State of a host of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(rename = "Host", transform = crate::http::operation::tests::without_required_load)
)]
pub struct HostState {
    /// Name of the host.
    pub id: String,
    /// True for the host that reports this.
    pub is_this: bool,
    /// Phase of the host.
    pub state: HostPhase,
    /// Load as a fraction of its capacity; `None` if it does not report one. Shown only to a token that
    /// sees all sessions, as the number of sessions.
    pub load: Option<f64>,
    /// Number of its sessions.
    pub sessions: u64,
    /// Labels that its operator has set.
    pub labels: BTreeMap<String, String>,
    /// Agents that it runs.
    pub agents: Vec<String>,
    /// Storages that hold its sessions' files.
    pub storage: Vec<String>,
    /// Version of its program.
    pub version: Option<String>,
    /// Time since its last message, in milliseconds.
    pub heard_ms: Option<u64>,
}

/// Phase of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HostPhase {
    /// Serves sessions and accepts new ones.
    Up,
    /// Accepts no new sessions.
    Draining,
    /// Sends no messages.
    Lost,
}
