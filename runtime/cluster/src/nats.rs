//! The cluster's store and network on NATS: JetStream streams, and subjects.
//!
//! | content | place |
//! |---|---|
//! | rows of hosts | key-value bucket `PREFIX_hosts`, key `HOST` |
//! | rows of sessions | key-value bucket `PREFIX_sessions`, keys `HASH` and `o.HOST.HASH` |
//! | digests of tokens | key-value bucket `PREFIX_tokens`, key `all` |
//! | entries of sessions | stream `PREFIX_journal`, subjects `PREFIX.j.HASH` |
//! | contents of files | stream `PREFIX_files`, subjects `PREFIX.f.HASH.SHA256` |
//! | letters between hosts | subjects `PREFIX.h.HOST.INCARNATION.TOPIC` |
//! | replies to a host | subjects `_INBOX.PREFIX.HOST.ID` |
//!
//! `packaging/nats.conf` has the rights of a host to write and read these.

mod fabric;
mod store;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{
    Client, ConnectError as ConnectFailed, ConnectErrorKind as Kind, ConnectOptions, Event,
    ServerAddr, jetstream,
};
use percent_encoding::percent_decode_str;

use crate::{
    marks::{self, Marks, Unsound},
    placement::jitter,
    store::check_name,
};

/// The oldest server whose promises were tested.
const FLOOR: (i64, i64, i64) = (2, 11, 2);

/// Timeout of the first connection, and of a request to the server.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// Minimum and maximum delay before a lost connection is retried.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// The least that the server must take at once, in bytes: a batch goes in as many parts as it needs.
const PAYLOAD: usize = 16 * 1024;

/// Bytes of a letter's subject and headers, within the server's maximum payload.
const AROUND: usize = 1024;

/// Addresses of the servers, and this host's credentials.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas.
    pub servers: String,
    /// A credentials file, or one with the seed of an NKey.
    pub creds: Option<PathBuf>,
    /// Certificate authorities of the servers, in PEM. `None`: the authorities of this machine.
    pub ca: Option<PathBuf>,
    /// Name prefix of buckets, streams and subjects.
    pub prefix: String,
    /// This host's name.
    pub host: String,
    /// Progress of the servers' store that this host has seen before.
    pub marks: Marks,
    /// Number of servers that store each message, used when the streams are created. `None`: three
    /// if there are three, otherwise one.
    pub replicas: Option<usize>,
}

/// Error of a connection to the cluster's servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host's name cannot be a part of subjects.
    #[error("{0}")]
    Host(String),
    /// No server could be reached.
    #[error("failed to connect to {servers}: {why}")]
    Connect {
        /// Addresses.
        servers: String,
        /// Cause.
        why: String,
    },
    /// The server does not let this host in.
    #[error("the server at {servers} does not let this host in: {why}")]
    Refused {
        /// Addresses.
        servers: String,
        /// Cause.
        why: String,
    },
    /// The server's certificate is not good, or it has none.
    #[error("the connection to {servers} cannot be encrypted: {why}")]
    Tls {
        /// Addresses.
        servers: String,
        /// Cause.
        why: String,
    },
    /// The server is too old.
    #[error("the server at {servers} has the version {found}; {}.{}.{} is the oldest that can be used", FLOOR.0, FLOOR.1, FLOOR.2)]
    Version {
        /// Addresses.
        servers: String,
        /// Version of the server.
        found: String,
    },
    /// Maximum payload of the server is too small.
    #[error("the server at {servers} takes {most} bytes at once; {PAYLOAD} are the least")]
    Payload {
        /// Addresses.
        servers: String,
        /// Maximum payload of the server, in bytes.
        most: usize,
    },
    /// The server has no JetStream.
    #[error(
        "the server at {servers} keeps nothing: start it with JetStream (`nats-server --jetstream`)"
    )]
    NoJetStream {
        /// Addresses.
        servers: String,
    },
    /// The file of credentials or of certificates cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// The store has less than this host has seen there.
    #[error("{0}")]
    Lost(String),
    /// A bucket or a stream could not be made.
    #[error("failed to make {name}: {why}")]
    Make {
        /// Name of the bucket or stream.
        name: String,
        /// Cause.
        why: String,
    },
}

impl ConnectError {
    /// Returns the next step for the operator.
    #[must_use]
    pub fn next(&self) -> &'static str {
        match self {
            Self::Host(_) => "name the host by --host-id",
            Self::Connect { .. } => {
                "start a server with `nats-server --jetstream`, or name another one"
            }
            Self::Refused { .. } => {
                "name this host's credentials, or the seed of its NKey, by --creds"
            }
            Self::Tls { .. } => {
                "name the authority's certificate by --cluster-ca, and the server as its certificate does"
            }
            Self::Version { .. } => "install a later server: https://nats.io/download",
            Self::Payload { .. } => "raise max_payload in the server's configuration",
            Self::NoJetStream { .. } => {
                "`nats-server --jetstream` keeps messages, or `jetstream {}` in its configuration"
            }
            Self::Lost(_) => marks::NEXT,
            Self::File { .. } => "name a file that this user may read",
            Self::Make { .. } => {
                "see whether the server has room, and gives this host the rights of `packaging/nats.conf`"
            }
        }
    }
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
    pub async fn connect(options: &NatsOptions) -> Result<Self, ConnectError> {
        let servers = shown(&options.servers);
        let host = options.host.clone();
        check_name(&host, "name of a host").map_err(ConnectError::Host)?;
        let name = host.clone();
        let connect = ConnectOptions::new()
            .name(format!("trunkline {host}"))
            .connection_timeout(CONNECT)
            .request_timeout(Some(ANSWER))
            .ping_interval(Duration::from_secs(10))
            .max_reconnects(None)
            // Only this host may read replies to it.
            .custom_inbox_prefix(format!("_INBOX.{}.{host}", options.prefix))
            .reconnect_delay_callback(move |attempt| again(&name, attempt))
            .event_callback(|event| async move { note(&event) });
        let connect = with_ca(
            with_creds(connect, options.creds.as_deref())?,
            options.ca.as_deref(),
        )?;
        let addresses: Vec<_> = options
            .servers
            .split(',')
            .map(|server| server.trim().to_owned())
            .collect();
        let connect = with_user(connect, &addresses);
        let is_tls = addresses
            .iter()
            .any(|address| address.starts_with("tls://"));
        // This includes servers that the first one announces.
        let connect = connect.require_tls(is_tls);
        let failed = |error: ConnectFailed| {
            let servers = servers.clone();
            let why = error.to_string();
            match error.kind() {
                Kind::Authentication | Kind::AuthorizationViolation => {
                    ConnectError::Refused { servers, why }
                }
                Kind::Tls => ConnectError::Tls { servers, why },
                _ if is_handshake(&error) => ConnectError::Tls { servers, why },
                _ => ConnectError::Connect { servers, why },
            }
        };
        let client = connect.connect(&*addresses).await.map_err(failed)?;
        let info = client.server_info();
        if !client.is_server_compatible(FLOOR.0, FLOOR.1, FLOOR.2) {
            return Err(ConnectError::Version {
                servers,
                found: info.version,
            });
        }
        if info.max_payload < PAYLOAD {
            return Err(ConnectError::Payload {
                servers,
                most: info.max_payload,
            });
        }
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER);
        if !info.jetstream && context.query_account().await.is_err() {
            return Err(ConnectError::NoJetStream { servers });
        }
        let this = Self {
            client,
            context,
            prefix: options.prefix.clone(),
        };
        // Before anything is made where something is missing.
        options
            .marks
            .look(&this)
            .await
            .map_err(|error| match error {
                Unsound::Silent(why) => ConnectError::Connect {
                    servers: shown(&options.servers),
                    why,
                },
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

    /// Returns true if there is a connection now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// Returns the delay before the next attempt to connect.
#[must_use]
pub fn again(host: &str, attempt: usize) -> Duration {
    let most = AGAIN_MOST.min(AGAIN * u32::try_from(attempt).unwrap_or(u32::MAX).clamp(1, 64));
    // All hosts lose a server at the same time, and must not come back at the same time.
    most / 2 + jitter(host, attempt as u64, most / 2)
}

fn with_creds(
    connect: ConnectOptions,
    creds: Option<&Path>,
) -> Result<ConnectOptions, ConnectError> {
    let Some(path) = creds else {
        return Ok(connect);
    };
    let failed = |why: String| ConnectError::File {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    if text.contains("BEGIN NATS USER JWT") {
        return connect
            .credentials(&text)
            .map_err(|error| failed(error.to_string()));
    }
    match text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("SU"))
    {
        Some(seed) => Ok(connect.nkey(seed.to_owned())),
        None => Err(failed(
            "it has neither credentials (`nsc generate creds`) nor the seed of an NKey".to_owned(),
        )),
    }
}

/// The user and password, or the token, of the first address that has them.
fn with_user(connect: ConnectOptions, addresses: &[String]) -> ConnectOptions {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut addresses = addresses
        .iter()
        .filter_map(|address| address.parse::<ServerAddr>().ok());
    match addresses
        .find_map(|address| Some((plain(address.username()?), address.password().map(plain))))
    {
        Some((user, Some(password))) => connect.user_and_password(user, password),
        Some((token, None)) => connect.token(token),
        None => connect,
    }
}

fn with_ca(connect: ConnectOptions, ca: Option<&Path>) -> Result<ConnectOptions, ConnectError> {
    let Some(path) = ca else { return Ok(connect) };
    let failed = |why: String| ConnectError::File {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    if text.contains("BEGIN CERTIFICATE") {
        Ok(connect.add_root_certificates(path.to_owned()))
    } else {
        Err(failed("it has no certificate in PEM".to_owned()))
    }
}

/// Returns true if the TLS handshake failed; its errors are reported as read errors.
fn is_handshake(error: &ConnectFailed) -> bool {
    let error =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// The servers without users and passwords.
fn shown(servers: &str) -> String {
    let shown = servers.split(',').map(|server| {
        let (scheme, rest) = server
            .trim()
            .split_once("://")
            .unwrap_or(("nats", server.trim()));
        format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default())
    });
    shown.collect::<Vec<_>>().join(",")
}

fn note(event: &Event) {
    match event {
        Event::Connected => tracing::info!("connected to the cluster's server"),
        Event::Disconnected => {
            tracing::warn!("the connection to the cluster's server is lost; reconnecting")
        }
        Event::SlowConsumer(_) => {
            tracing::warn!("letters of other hosts came faster than they were read: some are lost")
        }
        event => tracing::warn!("the cluster's server: {event}"),
    }
}
