//! The gateway: its shared state and its lifetime.

use std::{
    fmt,
    future::Future,
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use axum::Router;
use futures_util::future::{BoxFuture, join_all};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tracing::Span;
use trunkline_host::Host;
use trunkline_relay::{PrivateSocket, RelayOptions};
use trunkline_sessions::Sessions;

use crate::{
    auth::{
        authorizer::{HubOrigin, PrincipalAuthorizer},
        handover::HandoverCodes,
        lasting_rules::LastingRules,
        pairing::PairingCodes,
        principal::{KnownTokens, Principal},
        token::TokenFile,
    },
    http::{
        connection,
        idempotency::AnswerStore,
        listener::{Listener, ListenerSummary},
        metrics::Metrics,
        problem::{Answer, Problem},
        routes,
        uploads::Uploads,
    },
    peers::{
        ForwardedPrincipal, Peers, Stream,
        inbound::{self, MAX_PEER_CONNECTIONS},
    },
    webhooks::Webhooks,
};

/// Operations of the daemon around a gateway.
pub trait DaemonOperator: fmt::Debug + Send + Sync {
    /// Loads the changed configuration. Returns a summary.
    ///
    /// # Errors
    /// The reason, for people. The old configuration stays in use.
    fn reload(&self) -> Result<String, String>;

    /// Begins to stop the daemon.
    fn stop(&self);

    /// Returns the usage of turns since a time, by day and agent. Blocks for the disk.
    ///
    /// # Errors
    /// The reason, for people.
    fn usage(&self, since: SystemTime) -> Result<Vec<DailyUsage>, String>;
}

/// Usage of an agent's turns in one day.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "UsedInDay"))]
pub struct DailyUsage {
    /// Day in UTC, such as `2026-03-01`.
    #[cfg_attr(test, schemars(extend("format" = "date")))]
    pub date: String,
    /// The agent.
    pub agent: String,
    /// Number of turns that ended.
    pub turns: u64,
    /// Tokens of the inputs; `None` if no turn reported any.
    pub tokens_in: Option<u64>,
    /// Tokens of the outputs.
    pub tokens_out: Option<u64>,
    /// Cost in USD.
    pub cost_usd: Option<f64>,
    /// True if a part of the cost is estimated from tokens and list prices.
    pub is_estimated: bool,
}

/// Options of a gateway.
#[derive(Debug, Clone)]
pub struct Options {
    /// State folder of the daemon, which only this user can read.
    pub state: PathBuf,
    /// Version of the program.
    pub version: String,
    /// Further web origins that may send requests, such as `https://console.example`.
    pub origins: Vec<String>,
    /// Makes the sender of a `traceparent` header the parent of the request's span. Without it,
    /// requests have no span.
    pub traced: Option<fn(traceparent: &str, request: &Span)>,
    /// The other hosts of a cluster, if there is one.
    pub peers: Option<Arc<dyn Peers>>,
    /// Addresses that get the changes of sessions while the gateway serves.
    pub webhooks: Webhooks,
    /// Agents for tokens without a list of agents; `None` for all. The others are for this user, the
    /// user's page, and tokens that list them.
    pub token_agents: Option<Vec<String>>,
}

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) sessions: Sessions,
    pub(crate) known_tokens: KnownTokens,
    pub(crate) tokens: TokenFile,
    pub(crate) rules: LastingRules,
    pub(crate) codes: HandoverCodes,
    pub(crate) pairing: PairingCodes,
    pub(crate) uploads: Uploads,
    pub(crate) answers: AnswerStore,
    pub(crate) acp: routes::AcpConnections,
    pub(crate) searches: routes::RunningSearches,
    pub(crate) metrics: Metrics,
    pub(crate) operate: Arc<dyn DaemonOperator>,
    pub(crate) options: Options,
    /// Limits the connections from other hosts.
    pub(crate) peer_connections: Arc<Semaphore>,
    /// The network listeners, when they are served.
    pub(crate) listeners: OnceLock<Vec<ListenerSummary>>,
    /// True if no new work is accepted.
    pub(crate) is_draining: AtomicBool,
    /// True if the gateway stops and streams must end.
    pub(crate) ending: watch::Receiver<bool>,
}

/// Server of sessions over HTTP, and of hubs on a socket.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    router: Router,
    end: watch::Sender<bool>,
}

impl Gateway {
    /// Creates a gateway for these sessions. Blocks for the disk.
    ///
    /// # Errors
    /// Fails if the state folder cannot be used.
    pub fn new(
        host: Host,
        sessions: Sessions,
        operate: Arc<dyn DaemonOperator>,
        options: Options,
    ) -> io::Result<Self> {
        let tokens = TokenFile::in_folder(&options.state);
        let (end, ending) = watch::channel(false);
        let shared = Shared {
            known_tokens: KnownTokens::new(tokens.clone(), options.token_agents.clone()),
            tokens,
            rules: LastingRules::open(&options.state, &host)?,
            codes: HandoverCodes::default(),
            pairing: PairingCodes::default(),
            uploads: Uploads::open(&options.state)?,
            answers: AnswerStore::default(),
            acp: routes::AcpConnections::default(),
            searches: routes::RunningSearches::default(),
            metrics: Metrics::new(),
            host,
            sessions,
            operate,
            options,
            peer_connections: Arc::new(Semaphore::new(MAX_PEER_CONNECTIONS)),
            listeners: OnceLock::new(),
            is_draining: AtomicBool::new(false),
            ending,
        };
        let shared = Arc::new(shared);
        Ok(Self {
            router: routes::router(shared.clone()),
            shared,
            end,
        })
    }

    /// Stops accepting sessions and inputs. The daemon ends when the running turns have ended.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
    }

    /// Serves a connection from another host for a principal, like a connection on this host's
    /// socket: HTTP, or a hub. Resolves when the connection has ended, or when the gateway stops.
    ///
    /// # Cancel safety
    /// Dropping the future drops the connection at once.
    pub fn serve_peer(
        &self,
        stream: Box<dyn Stream>,
        who: ForwardedPrincipal,
    ) -> impl Future<Output = ()> + Send + use<> {
        inbound::serve(self.shared.clone(), self.router.clone(), stream, who)
    }

    /// Serves the listeners and the socket until `stop` resolves. Then it accepts no more
    /// connections, ends streams, and finishes open requests within 2 s. The host and its sessions
    /// continue.
    ///
    /// # Cancel safety
    /// Dropping the future drops all connections at once.
    pub async fn serve(
        &self,
        listeners: Vec<Listener>,
        socket: PrivateSocket,
        stop: impl Future<Output = ()>,
    ) {
        let shared = &self.shared;
        let router = &self.router;
        let room = connection::ConnectionRoom::new();
        let summaries = listeners.iter().filter_map(Listener::summary).collect();
        // A gateway is served once.
        let _ = shared.listeners.set(summaries);
        let network = listeners.into_iter().map(|listener| {
            connection::serve_network(
                listener,
                room.clone(),
                router.clone(),
                shared.ending.clone(),
            )
        });
        let served = async {
            tokio::join!(
                join_all(network),
                connection::serve_socket(
                    socket,
                    router.clone(),
                    shared.clone(),
                    shared.ending.clone()
                ),
            )
        };
        let stopped = async {
            stop.await;
            self.end.send_replace(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = served => {}
            () = shared.known_tokens.watch() => {}
            () = shared.uploads.sweep_regularly() => {}
            () = shared.options.webhooks.run(&shared.sessions, &shared.metrics.deliveries) => {}
            () = stopped => {}
        }
    }
}

impl Shared {
    /// Checks that new work is accepted.
    ///
    /// # Errors
    /// Fails while the daemon drains.
    pub(crate) fn takes_work(&self) -> Answer<()> {
        if self.is_draining.load(Ordering::Acquire) {
            return Err(Problem::unavailable(
                "the daemon ends: it takes no more work",
            ));
        }
        Ok(())
    }

    /// Resolves when the gateway stops.
    pub(crate) async fn ending(&self) {
        let mut ending = self.ending.clone();
        // A dropped sender counts as a stop.
        let _ = ending.wait_for(|is| *is).await;
    }

    /// Resolves when the principal's token is no longer valid, or when the gateway stops.
    pub(crate) fn ending_for(self: &Arc<Self>, principal: &Principal) -> BoxFuture<'static, ()> {
        let shared = self.clone();
        let principal = principal.clone();
        Box::pin(async move {
            tokio::select! {
                () = shared.ending() => {}
                () = shared.known_tokens.ended(&principal) => {}
            }
        })
    }

    /// Returns the options of a relay that serves a principal with its permissions.
    pub(crate) fn relay_options(&self, principal: &Principal, hub: HubOrigin) -> RelayOptions {
        let options = RelayOptions::default().sessions(self.sessions_for(principal));
        match PrincipalAuthorizer::for_principal(principal, &self.host, hub) {
            Some(table) => options.judged(Arc::new(table)),
            None => options.of_user(),
        }
    }

    /// Returns the sessions that a principal may see.
    pub(crate) fn sessions_for(&self, principal: &Principal) -> Sessions {
        match principal.visitor() {
            Some(visitor) => self.sessions.for_visitor(visitor),
            None => self.sessions.clone(),
        }
    }
}
