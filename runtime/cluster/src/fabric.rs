//! How hosts talk to each other: letters to a host's inbox. They come in order or not at all, as
//! they do on a network.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// How many letters wait at a host.
pub const WAITING: usize = 8192;

/// One run of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Its name.
    pub host: String,
    /// Which run of it.
    pub incarnation: String,
}

/// What comes to a host.
#[derive(Debug)]
pub struct Letter {
    /// What it is about: letters, digits and `.`.
    pub topic: String,
    /// What it says.
    pub payload: Bytes,
    /// Where an answer goes, if one is waited for.
    pub reply: Option<Reply>,
}

/// Answers a letter. Dropped, nothing is answered.
pub struct Reply(Box<dyn FnOnce(Bytes) + Send + std::marker::Sync>);

impl Reply {
    /// One that answers so.
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

    /// Sends a letter and waits for the answer; `NotConnected` where no one listens.
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
