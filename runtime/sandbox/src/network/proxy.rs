//! The proxy outside the sandbox: one unix socket, one task, a bounded number of connections.

mod connection;
mod copy;
mod counters;
mod dial;
mod forward;
mod limits;
mod tunnel;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;
use trunkline_process::init::bridge::SocketFile;

use super::allow_list::AllowList;
use super::refusal::over_limit_response;
use super::resolve::{NameResolver, SystemResolver};
use super::upstream::UpstreamProxy;

pub use self::counters::ProxyCounters;
pub use self::limits::ProxyLimits;

use self::connection::ClientConnection;
use self::counters::AtomicCounters;

/// Pause after a failed accept, because descriptors or memory may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running proxy. Dropping it ends every connection and removes the socket.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<ProxyState>,
    /// The task that accepts, and owns the tasks of connections.
    _task: JoinSet<()>,
    _file: SocketFile,
}

/// Options of a proxy.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// Limits and deadlines.
    pub limits: ProxyLimits,
    /// Resolver of names.
    pub resolver: Arc<dyn NameResolver>,
    /// The operator's own proxy, if there is one.
    pub upstream: Option<UpstreamProxy>,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            limits: ProxyLimits::default(),
            resolver: Arc::new(SystemResolver::default()),
            upstream: None,
        }
    }
}

/// State that the connections of a proxy share.
#[derive(Debug)]
pub(crate) struct ProxyState {
    allow: AllowList,
    label: String,
    options: ProxyOptions,
    counters: AtomicCounters,
}

impl Proxy {
    /// Starts a proxy with the list `allow` on a new socket at `socket_path`. `label`, the agent's
    /// id, is reported with every denial.
    ///
    /// The path may be longer than a socket's address allows. If its folder is private, every user
    /// who can reach the socket may connect, including a container's own user.
    ///
    /// # Errors
    ///
    /// The socket cannot be created, or there is no current tokio runtime with I/O.
    pub fn start(
        socket_path: impl AsRef<Path>,
        allow: AllowList,
        label: &str,
        options: ProxyOptions,
    ) -> io::Result<Self> {
        let path = socket_path.as_ref();
        let with_path = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("make the network proxy's socket {path:?}: {error}"),
            )
        };
        let runtime = Handle::try_current()
            .map_err(io::Error::other)
            .map_err(with_path)?;
        let (listener, file) = SocketFile::bind(path).map_err(with_path)?;
        listener.set_nonblocking(true).map_err(with_path)?;
        let listener = UnixListener::from_std(listener).map_err(with_path)?;
        let shared = Arc::new(ProxyState {
            allow,
            label: label.to_owned(),
            options,
            counters: AtomicCounters::default(),
        });
        let mut task = JoinSet::new();
        task.spawn_on(accept_connections(listener, Arc::clone(&shared)), &runtime);
        Ok(Self {
            shared,
            _task: task,
            _file: file,
        })
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> ProxyCounters {
        self.shared.counters.read()
    }
}

/// Accepts connections until the future is dropped, which also drops the connections.
async fn accept_connections(listener: UnixListener, shared: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    loop {
        // Ended connections are removed first, to make room.
        tokio::select! {
            biased;
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if connections.len() < shared.options.limits.connections => {
                    shared.counters.accepted.increment();
                    connections.spawn(ClientConnection::new(client, Arc::clone(&shared)).run());
                }
                Ok((client, _)) => {
                    shared.counters.over_limit.increment();
                    tracing::warn!(
                        target: "trunkline::network",
                        agent = shared.label,
                        limit = shared.options.limits.connections,
                        "too many connections at once"
                    );
                    refuse_client(client);
                }
                Err(error) => {
                    tracing::warn!(target: "trunkline::network", agent = shared.label, %error, "could not accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Refuses a connection without waiting: a new socket has room for the response.
fn refuse_client(client: UnixStream) {
    if let Ok(mut client) = client.into_std() {
        // Fails if the client has closed the connection.
        let _ = client.write(&over_limit_response());
    }
}
