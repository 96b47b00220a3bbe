//! Cluster of hosts in one process, with locations that a test sets.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures_util::future::{BoxFuture, FutureExt};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use trunkline_gateway::{
    DaemonOperator, DailyUsage, ForwardedPrincipal, Gateway, HostName, HostPhase, HostState,
    Listener, NewToken, Options, Peers, Scope, SessionLocation, Stream, TokenFile, Webhooks,
};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_protocol::SessionId;
use trunkline_relay::PrivateSocket;
use trunkline_sessions::Sessions;

use crate::client::{Client, ClientAddress};

/// Capacity of a connection between hosts, in bytes. Small, so that tests fill it.
const PIPE_BYTES: usize = 16 * 1024;

/// Table of the cluster.
#[derive(Debug, Default)]
pub struct ClusterTable {
    rows: Mutex<HashMap<String, SessionLocation>>,
    gateways: Mutex<HashMap<String, Arc<Gateway>>>,
    /// Connections from other hosts, by serving host.
    served: Mutex<HashMap<String, JoinSet<()>>>,
    /// Host that receives new sessions, and takes over.
    next: Mutex<Option<String>>,
    /// Number of moves.
    moves: watch::Sender<u64>,
    /// Hosts that accept connections, but never respond.
    pub deaf: Mutex<Vec<String>>,
}

/// The cluster as one host sees it.
#[derive(Debug)]
struct PeersView {
    known: Arc<ClusterTable>,
    own: String,
}

impl ClusterTable {
    pub fn put(&self, id: &str, place: SessionLocation) {
        self.rows.lock().unwrap().insert(id.to_owned(), place);
        self.moves.send_modify(|moves| *moves += 1);
    }

    pub fn next_at(&self, host: &str) {
        *self.next.lock().unwrap() = Some(host.to_owned());
    }

    pub fn next_nowhere(&self) {
        *self.next.lock().unwrap() = None;
    }

    /// Closes all connections to a host and refuses new ones, as if it was killed.
    pub fn cut(&self, host: &str) {
        self.gateways.lock().unwrap().remove(host);
        self.served.lock().unwrap().remove(host);
    }

    /// Moves a session without a signal to the hosts that watch it.
    pub fn hand_over(&self, id: &str, host: &str) {
        self.rows
            .lock()
            .unwrap()
            .insert(id.to_owned(), SessionLocation::There(host.to_owned()));
    }

    /// Overrides a session's location for one host.
    pub fn put_at(&self, host: &str, id: &str, place: SessionLocation) {
        self.rows
            .lock()
            .unwrap()
            .insert(format!("{host}/{id}"), place);
    }

    /// Returns the location of a session.
    pub fn row(&self, id: &str) -> Option<SessionLocation> {
        self.rows.lock().unwrap().get(id).cloned()
    }
}

impl PeersView {
    fn here(&self, place: SessionLocation) -> SessionLocation {
        match place {
            SessionLocation::There(host) if host == self.own => SessionLocation::Here,
            place => place,
        }
    }
}

impl Peers for PeersView {
    fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, SessionLocation> {
        let own = self.known.row(&format!("{}/{id}", self.own));
        let place = own
            .or_else(|| self.known.row(id.as_str()))
            .unwrap_or(SessionLocation::Unknown);
        std::future::ready(self.here(place)).boxed()
    }

    fn place<'a>(
        &'a self,
        id: &'a SessionId,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionLocation, String>> {
        let place = match (agent, self.known.next.lock().unwrap().clone()) {
            (Some("nowhere"), _) => Err("no host has the agent nowhere".to_owned()),
            (_, next) => Ok(SessionLocation::There(
                next.unwrap_or_else(|| self.own.clone()),
            )),
        };
        let place = place.map(|place| {
            self.known
                .rows
                .lock()
                .unwrap()
                .entry(id.to_string())
                .or_insert(place)
                .clone()
        });
        std::future::ready(place.map(|place| self.here(place))).boxed()
    }

    fn connect<'a>(
        &'a self,
        host: &'a str,
        who: ForwardedPrincipal,
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let connected = || {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let gateways = self.known.gateways.lock().unwrap();
            let gateway = gateways.get(host).ok_or(io::ErrorKind::ConnectionRefused)?;
            let serves = match self
                .known
                .deaf
                .lock()
                .unwrap()
                .iter()
                .any(|deaf| deaf == host)
            {
                true => async move {
                    let _theirs = theirs;
                    pending().await
                }
                .boxed(),
                false => gateway.serve_peer(Box::new(theirs), who).boxed(),
            };
            self.known
                .served
                .lock()
                .unwrap()
                .entry(host.to_owned())
                .or_default()
                .spawn(serves);
            Ok(Box::new(ours) as Box<dyn Stream>)
        };
        std::future::ready(connected()).boxed()
    }

    fn hosts(&self) -> Vec<HostState> {
        let mut names: Vec<_> = self
            .known
            .gateways
            .lock()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        names.sort();
        let state = |id: String| HostState {
            is_this: id == self.own,
            state: HostPhase::Up,
            load: Some(0.5),
            sessions: 0,
            labels: BTreeMap::from([("zone".to_owned(), id.clone())]),
            agents: vec!["echo".to_owned()],
            storage: Vec::new(),
            version: None,
            heard_ms: Some(0),
            id,
        };
        names.into_iter().map(state).collect()
    }

    fn relocate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<String, String>> {
        let next = self.known.next.lock().unwrap().clone();
        let taken = next.ok_or_else(|| "none has room".to_owned());
        if let Ok(host) = &taken {
            self.known
                .put(id.as_str(), SessionLocation::There(host.clone()));
        }
        std::future::ready(taken).boxed()
    }

    fn moved(&self, id: &SessionId, host: &str) -> BoxFuture<'static, ()> {
        let known = self.known.clone();
        let id = id.to_string();
        let host = host.to_owned();
        let mut moves = known.moves.subscribe();
        async move {
            let is_there = || known.row(&id) == Some(SessionLocation::There(host.clone()));
            while is_there() && moves.changed().await.is_ok() {}
        }
        .boxed()
    }
}

#[derive(Debug)]
struct NoOperator;

impl DaemonOperator for NoOperator {
    fn reload(&self) -> Result<String, String> {
        Err("not here".to_owned())
    }

    fn stop(&self) {}

    fn usage(&self, _: SystemTime) -> Result<Vec<DailyUsage>, String> {
        Ok(Vec::new())
    }
}

/// A host of the cluster.
pub struct Daemon {
    pub name: String,
    pub sessions: Sessions,
    host: Host,
    socket: PathBuf,
    http: SocketAddr,
    pub tokens: TokenFile,
    pub webhooks: Webhooks,
    _folder: TempDir,
    serving: JoinHandle<()>,
}

/// Cluster of hosts with the names `a`, `b`, and so on.
pub struct Cluster {
    pub known: Arc<ClusterTable>,
    pub daemons: Vec<Daemon>,
}

impl Cluster {
    pub async fn with_hosts(count: u8) -> Self {
        let known = Arc::<ClusterTable>::default();
        let mut daemons = Vec::new();
        for name in (b'a'..).take(usize::from(count)) {
            daemons.push(Daemon::up(char::from(name).to_string(), known.clone()).await);
        }
        Self { known, daemons }
    }

    /// Starts the adapter of each host, which serves all of its sessions.
    pub async fn adapters_run(&self) {
        let next = self.known.next.lock().unwrap().clone();
        for (at, daemon) in self.daemons.iter().enumerate() {
            self.known.next_at(&daemon.name);
            let user = self.user(at);
            let id = user.open().await;
            user.turn(&id, "hello").await;
            user.ask_with("DELETE", &format!("/v1/sessions/{id}?remove=true"), &[], "")
                .await
                .must_be(204);
        }
        *self.known.next.lock().unwrap() = next;
    }

    /// Returns a client at a host's socket.
    pub fn user(&self, host: usize) -> Client {
        Client {
            at: ClientAddress::Socket(self.daemons[host].socket.clone()),
            token: None,
        }
    }

    /// Returns a client with a new token of a host, and the token's id.
    pub fn bearer(&self, host: usize, scope: Scope, all_sessions: bool) -> (Client, String) {
        let daemon = &self.daemons[host];
        let new = NewToken {
            may_approve: scope >= Scope::Control,
            all_sessions,
            ..NewToken::with_scope(scope)
        };
        let (token, text) = daemon.tokens.add(new).unwrap();
        (
            Client {
                at: ClientAddress::Network(daemon.http),
                token: Some(text),
            },
            token.id,
        )
    }

    pub async fn down(self) {
        for daemon in self.daemons {
            self.known.cut(&daemon.name);
            daemon.serving.abort();
            let _ = daemon.serving.await;
            trunkline_relay::end(&daemon.host, Some(daemon.sessions), std::future::ready(())).await;
        }
    }
}

impl Daemon {
    async fn up(name: String, known: Arc<ClusterTable>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/echo.py");
        let echo = AgentConfig::external("echo", Command::new("python3").arg(program));
        let host = Host::builder().agent(echo).build().unwrap();
        let own = host.clone();
        let journal = state.join("journal");
        let opened =
            tokio::task::spawn_blocking(move || Sessions::open(own, &journal, Default::default()));
        let sessions = opened.await.unwrap().unwrap().0;
        let webhooks = Webhooks::default();
        let options = Options {
            state: state.clone(),
            version: "0".to_owned(),
            origins: Vec::new(),
            webhooks: webhooks.clone(),
            token_agents: None,
            traced: None,
            peers: Some(Arc::new(PeersView {
                known: known.clone(),
                own: name.clone(),
            })),
        };
        let gateway = Gateway::new(
            host.clone(),
            sessions.clone(),
            Arc::new(NoOperator),
            options,
        )
        .unwrap();
        let gateway = Arc::new(gateway);
        known
            .gateways
            .lock()
            .unwrap()
            .insert(name.clone(), gateway.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = listener.local_addr().unwrap();
        let entrance = Listener {
            listener,
            names: vec![HostName::WithPort(http.to_string())],
            tls: None,
        };
        let socket = state.join("host.sock");
        let own_socket = PrivateSocket::open(&socket).unwrap();
        let serving =
            tokio::spawn(async move { gateway.serve(vec![entrance], own_socket, pending()).await });
        let tokens = TokenFile::in_folder(&state);
        Self {
            name,
            sessions,
            host,
            socket,
            http,
            tokens,
            webhooks,
            _folder: folder,
            serving,
        }
    }
}

/// Timeout for each step, so that a failure names its place.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(60);
