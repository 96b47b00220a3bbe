//! Messages between hosts, called letters: each goes to a host's inbox. They arrive in order or not
//! at all, as on a network.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Limit of letters that wait at a host.
pub const WAITING: usize = 8192;

/// A run of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Name of the host.
    pub host: String,
    /// Id of its run.
    pub incarnation: String,
}

/// A letter to a host.
#[derive(Debug)]
pub struct Letter {
    /// Topic: letters, digits and `.`.
    pub topic: String,
    /// Content.
    pub payload: Bytes,
    /// Sender of a reply, if one is expected.
    pub reply: Option<Reply>,
}

/// Answers a letter. Dropped, nothing is answered.
pub struct Reply(Box<dyn FnOnce(Bytes) + Send + std::marker::Sync>);

impl Reply {
    /// Creates a sender from a function.
    pub fn new(answer: impl FnOnce(Bytes) + Send + std::marker::Sync + 'static) -> Self {
        Self(Box::new(answer))
    }

    /// Answers.
    pub fn send(self, bytes: Bytes) {
        (self.0)(bytes);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// The network between the hosts.
pub trait Fabric: fmt::Debug + Send + Sync {
    /// Opens the inbox of this run of a host. When it resolves, what is sent from then on arrives.
    fn listen(&self, at: &Address) -> BoxFuture<'static, io::Result<mpsc::Receiver<Letter>>>;

    /// Sends a letter. Whether it arrives is not known. Letters of one host to one other keep their order.
    fn send(&self, to: &Address, topic: &str, payload: Bytes)
    -> BoxFuture<'static, io::Result<()>>;

    /// Sends a letter and waits for the reply; `NotConnected` if there is no receiver.
    fn request(
        &self,
        to: &Address,
        topic: &str,
        payload: Bytes,
        within: Duration,
    ) -> BoxFuture<'static, io::Result<Bytes>>;

    /// The most that a letter holds, in bytes.
    fn most(&self) -> usize;
}
