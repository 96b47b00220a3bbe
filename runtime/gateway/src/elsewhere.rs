//! Sessions that other hosts serve: where they are, and how a request gets there.
//!
//! A gateway alone knows none of this. With hosts beside it, it asks its [`Elsewhere`] where a
//! session is, and speaks to the gateway there over a stream of bytes, as who asks; that gateway
//! takes it by
//! [`Gateway::serve_fellow`](crate::Gateway::serve_fellow), and judges by its own table. What has been carried once is not
//! carried on. A list is put together of a page of each host.

pub(crate) mod carry;
pub(crate) mod fellow;
pub(crate) mod list;
pub(crate) mod opening;
pub(crate) mod switch;
mod who;

use std::{collections::BTreeMap, fmt, io, time::Duration};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use trunkline_protocol::SessionId;

pub use who::Who;

/// Both directions of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The other hosts, to a gateway that is not alone.
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// Where a session is. Any answer may be out of date when it arrives.
    ///
    /// # Cancel safety
    /// Dropping the future asks no further.
    fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Place>;

    /// Takes the id of a new session for a host, which is to open it next. Without an agent, any
    /// host will do that has a default one. [`Place::Unknown`] is no answer of it.
    ///
    /// # Errors
    /// Why no host takes it, for who asks to read.
    ///
    /// # Cancel safety
    /// Where the future is dropped, the id may stay taken for a while.
    fn place<'a>(
        &'a self,
        id: &'a SessionId,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Place, String>>;

    /// A connection to the gateway of another host, for who asks. Both of its ends close when one does.
    ///
    /// # Errors
    /// When that host cannot be reached, in a bounded time.
    fn connect<'a>(&'a self, host: &'a str, who: Who)
    -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;

    /// All hosts, this one among them.
    fn hosts(&self) -> Vec<HostState>;

    /// Has a host, or this one, hand its sessions to others until the deadline; it takes no further
    /// ones. Resolves when that has begun.
    ///
    /// # Errors
    /// Why it has not, for who asks to read.
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

    /// Has a host take over a session that is unavailable because its files are on a storage that
    /// no host has: what its agent had there, it has no more. Gives the host.
    ///
    /// # Errors
    /// Why none has, for who asks to read.
    fn relocate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<String, String>> {
        let _ = id;
        Box::pin(std::future::ready(Err(
            "these hosts take nothing over".to_owned()
        )))
    }

    /// What this host has counted of the others since it began, by name: small letters and `_`.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Resolves when a session that was there is there no more, as far as this host learns of it.
    fn moved(&self, id: &SessionId, host: &str) -> BoxFuture<'static, ()>;
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At this host, or at none while this one is to have it.
    Here,
    /// At the host of this name.
    There(String),
    /// There is none of this id.
    Unknown,
    /// At a host that does not serve it now.
    Unavailable {
        /// Which.
        host: String,
        /// Why, for a person.
        why: String,
    },
}

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostState {
    /// Its name.
    pub id: String,
    /// Whether it is the one that says so.
    pub is_this: bool,
    /// What it does.
    pub state: HostPhase,
    /// How much of what it may carry it carries, from 0. `None` where it does not say.
    pub load: Option<f64>,
    /// How many sessions it has.
    pub sessions: u64,
    /// What its operator calls it by.
    pub labels: BTreeMap<String, String>,
    /// The agents that it runs.
    pub agents: Vec<String>,
    /// The storage that its sessions' files are on.
    pub storage: Vec<String>,
    /// Its program's version.
    pub version: Option<String>,
    /// How long ago it was last heard of, in milliseconds.
    pub heard_ms: Option<u64>,
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostPhase {
    /// It serves its sessions, and takes further ones.
    Up,
    /// It takes no further one.
    Draining,
    /// Nothing has been heard of it for too long.
    Lost,
}
