//! The cluster's store and network on NATS: JetStream streams, and subjects.
//!
//! | what | where |
//! |---|---|
//! | rows of hosts | key-value bucket `PREFIX_hosts`, key `HOST` |
//! | rows of sessions | key-value bucket `PREFIX_sessions`, keys `HASH` and `o.HOST.HASH` |
//! | digests of tokens | key-value bucket `PREFIX_tokens`, key `all` |
//! | what happened in sessions | stream `PREFIX_journal`, subjects `PREFIX.j.HASH` |
//! | contents of files | stream `PREFIX_files`, subjects `PREFIX.f.HASH.SHA256` |
//! | letters between hosts | subjects `PREFIX.h.HOST.INCARNATION.TOPIC` |

mod fabric;
mod store;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, jetstream};

use crate::{
    marks::{Marks, Unsound},
    placement::jitter,
};

/// The oldest server whose promises were tested.
const FLOOR: (i64, i64, i64) = (2, 11, 2);

/// How long the first connection may take, and a question to the server.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// How often a connection that is lost is tried again, at least and at most.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// What a letter's subject and headers take, in bytes, of what the server takes at once.
const AROUND: usize = 1024;

/// Where the servers are, and who this host is to them.
#[derive(Debug, Clone)]
pub struct Options {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas.
    pub servers: String,
    /// A credentials file, or one with the seed of an NKey.
    pub creds: Option<PathBuf>,
    /// What the names of buckets, streams and subjects begin with.
    pub prefix: String,
    /// This host's name.
    pub host: String,
    /// What this host has seen of the servers' store, if it was there before.
    pub marks: Marks,
    /// On how many servers each message is kept, where the streams are made. `None`: three where there are three, else
    /// one.
    pub replicas: Option<usize>,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No server could be reached, or it does not let this host in.
    #[error("failed to connect to {servers}: {why}")]
    Connect {
        /// Where.
        servers: String,
        /// Why.
        why: String,
    },
    /// The server is too old.
    #[error("the server at {servers} has the version {found}; {}.{}.{} is the oldest that can be used", FLOOR.0, FLOOR.1, FLOOR.2)]
    Version {
        /// Where.
        servers: String,
        /// Its version.
        found: String,
    },
    /// It has no JetStream.
    #[error("the server at {servers} keeps nothing: start it with JetStream (`nats-server --jetstream`)")]
    NoJetStream {
        /// Where.
        servers: String,
    },
    /// The file of credentials cannot be used.
    #[error("{}: {why}", path.display())]
    Creds {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It has less than this host has seen there.
    #[error("{0}")]
    Lost(String),
    /// A bucket or a stream could not be made.
    #[error("failed to make {name}: {why}")]
    Make {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

/// A connection of one host.
#[derive(Debug, Clone)]
pub struct Nats {
    client: Client,
    context: jetstream::Context,
    prefix: String,
}

impl Nats {
    /// Connects, and makes what is missing.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(options: &Options) -> Result<Self, ConnectError> {
        let servers = options.servers.clone();
        let host = options.host.clone();
        let connect = ConnectOptions::new()
            .name(format!("trunkline {}", options.host))
            .connection_timeout(CONNECT)
            .request_timeout(Some(ANSWER))
            .ping_interval(Duration::from_secs(10))
            .max_reconnects(None)
            .reconnect_delay_callback(move |attempt| again(&host, attempt))
            .event_callback(|event| async move { note(&event) });
        let connect = with_creds(connect, options.creds.as_deref())?;
        let addresses: Vec<_> = servers.split(',').map(|server| server.trim().to_owned()).collect();
        let failed = |why: String| ConnectError::Connect { servers: servers.clone(), why };
        let client = connect.connect(&*addresses).await.map_err(|error| failed(error.to_string()))?;
        let info = client.server_info();
        if !client.is_server_compatible(FLOOR.0, FLOOR.1, FLOOR.2) {
            return Err(ConnectError::Version { servers, found: info.version });
        }
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER);
        if !info.jetstream && context.query_account().await.is_err() {
            return Err(ConnectError::NoJetStream { servers });
        }
        let this = Self { client, context, prefix: options.prefix.clone() };
        // Before anything is made where something is missing.
        options.marks.look(&this).await.map_err(|error| match error {
            Unsound::Silent(why) => failed(why),
            Unsound::Lost(why) => ConnectError::Lost(why),
        })?;
        this.make(options.replicas).await?;
        Ok(this)
    }

    /// The server's version.
    #[must_use]
    pub fn version(&self) -> String {
        self.client.server_info().version
    }

    /// Whether there is a connection now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// How long a host waits before it tries again to connect.
#[must_use]
pub fn again(host: &str, attempt: usize) -> Duration {
    let most = AGAIN_MOST.min(AGAIN * u32::try_from(attempt).unwrap_or(u32::MAX).clamp(1, 64));
    // All hosts lose a server at the same time, and must not come back at the same time.
    most / 2 + jitter(host, attempt as u64, most / 2)
}

fn with_creds(connect: ConnectOptions, creds: Option<&Path>) -> Result<ConnectOptions, ConnectError> {
    let Some(path) = creds else { return Ok(connect) };
    let failed = |why: String| ConnectError::Creds { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    if text.contains("BEGIN NATS USER JWT") {
        return connect.credentials(&text).map_err(|error| failed(error.to_string()));
    }
    match text.lines().map(str::trim).find(|line| line.starts_with("SU")) {
        Some(seed) => Ok(connect.nkey(seed.to_owned())),
        None => Err(failed(
            "it has neither credentials (`nsc generate creds`) nor the seed of an NKey".to_owned(),
        )),
    }
}

fn note(event: &Event) {
    match event {
        Event::Connected => tracing::info!("connected to the cluster's server"),
        Event::Disconnected => {
            tracing::warn!("the connection to the cluster's server is lost; it is tried again")
        }
        Event::SlowConsumer(_) => {
            tracing::warn!("letters of other hosts came faster than they were read: some are lost")
        }
        event => tracing::warn!("the cluster's server: {event}"),
    }
}
