//! The gateway: what all its requests share, and its life.

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
        authorizer::{Folders, PrincipalAuthorizer},
        handover::HandoverCodes,
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

/// What an operator may ask of the daemon around a gateway.
pub trait Operate: fmt::Debug + Send + Sync {
    /// Takes the changed configuration.
    ///
    /// # Errors
    /// What is wrong with it. The one before stays.
    fn reload(&self) -> Result<String, String>;

    /// Begins to end.
    fn stop(&self);

    /// What turns used since a moment, by day and agent. Blocks for the disk.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn usage(&self, since: SystemTime) -> Result<Vec<UsedInDay>, String>;
}

/// What the turns of an agent used in a day.
#[derive(Debug, Clone, Serialize)]
pub struct UsedInDay {
    /// The day, as `2026-03-01`, in UTC.
    pub date: String,
    /// The agent.
    pub agent: String,
    /// How many turns ended.
    pub turns: u64,
    /// Tokens of their inputs; `None` where no turn reported any.
    pub tokens_in: Option<u64>,
    /// Tokens of their outputs.
    pub tokens_out: Option<u64>,
    /// What they cost, in USD.
    pub cost_usd: Option<f64>,
    /// Whether a part of the cost is estimated by tokens and list prices.
    pub is_estimated: bool,
}

/// How a gateway presents itself.
#[derive(Debug, Clone)]
pub struct Options {
    /// The daemon's folder, which is this user's alone.
    pub state: PathBuf,
    /// The program's version.
    pub version: String,
    /// Further origins whose pages may ask: `https://console.example`.
    pub origins: Vec<String>,
    /// Where requests are traced: makes the sender of a header `traceparent` the parent of the
    /// request's span. With `None` a request has no span.
    pub traced: Option<fn(traceparent: &str, request: &Span)>,
    /// The other hosts. `None`: this one is alone.
    pub peers: Option<Arc<dyn Peers>>,
    /// Addresses that get the changes of sessions while the gateway serves.
    pub webhooks: Webhooks,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) sessions: Sessions,
    pub(crate) known_tokens: KnownTokens,
    pub(crate) tokens: TokenFile,
    pub(crate) codes: HandoverCodes,
    pub(crate) uploads: Uploads,
    pub(crate) answers: AnswerStore,
    pub(crate) acp: routes::Connections,
    pub(crate) searches: routes::RunningSearches,
    pub(crate) metrics: Metrics,
    pub(crate) operate: Arc<dyn Operate>,
    pub(crate) options: Options,
    /// ConnectionRoom for connections of other hosts.
    pub(crate) peer_connections: Arc<Semaphore>,
    /// The network listeners, when they are served.
    pub(crate) listeners: OnceLock<Vec<ListenerSummary>>,
    /// Whether no further input is taken.
    pub(crate) is_draining: AtomicBool,
    /// Whether the gateway ends: streams end.
    pub(crate) ending: watch::Receiver<bool>,
}

/// Serves sessions over HTTP, and hubs on a socket.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    router: Router,
    end: watch::Sender<bool>,
}

impl Gateway {
    /// One that serves these sessions. Blocks for the disk.
    ///
    /// # Errors
    /// When its folder cannot be used.
    pub fn new(
        host: Host,
        sessions: Sessions,
        operate: Arc<dyn Operate>,
        options: Options,
    ) -> io::Result<Self> {
        let tokens = TokenFile::of(&options.state);
        let (end, ending) = watch::channel(false);
        let shared = Shared {
            known_tokens: KnownTokens::new(tokens.clone()),
            tokens,
            codes: HandoverCodes::default(),
            uploads: Uploads::open(&options.state)?,
            answers: AnswerStore::default(),
            acp: routes::Connections::default(),
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

    /// Takes no further session and no further input from now on: the daemon ends when what runs has ended.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
    }

    /// Serves one connection of another host as it serves its own socket, to who asks there with
    /// their rights: requests, or a hub that speaks the protocol. Resolves when it has ended, also
    /// because the gateway ends.
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

    /// Serves those who come by these entrances, and by the socket, until `stop` resolves. Then no
    /// further connection is taken, streams end, and what was asked before is answered, for 2 s at
    /// most. The host and its sessions go on.
    ///
    /// # Cancel safety
    /// Dropping the future drops all connections at once.
    pub async fn serve(
        &self,
        entrances: Vec<Listener>,
        socket: PrivateSocket,
        stop: impl Future<Output = ()>,
    ) {
        let shared = &self.shared;
        let router = &self.router;
        let room = connection::ConnectionRoom::new();
        let summaries = entrances.iter().filter_map(Listener::summary).collect();
        // A gateway is served once.
        let _ = shared.listeners.set(summaries);
        let network = entrances.into_iter().map(|entrance| {
            connection::network(
                entrance,
                room.clone(),
                router.clone(),
                shared.ending.clone(),
            )
        });
        let served = async {
            tokio::join!(
                join_all(network),
                connection::socket(
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
    /// Whether it takes new work.
    ///
    /// # Errors
    /// That it does not.
    pub(crate) fn takes_work(&self) -> Answer<()> {
        match self.is_draining.load(Ordering::Acquire) {
            true => Err(Problem::unavailable(
                "the daemon ends: it takes no more work",
            )),
            false => Ok(()),
        }
    }

    /// Resolves when the gateway ends.
    pub(crate) async fn ending(&self) {
        let mut ending = self.ending.clone();
        // Gone is ended.
        let _ = ending.wait_for(|is| *is).await;
    }

    /// Resolves when who asks may ask no more, or the gateway ends.
    pub(crate) fn ending_for(self: &Arc<Self>, principal: &Principal) -> BoxFuture<'static, ()> {
        let (shared, principal) = (self.clone(), principal.clone());
        Box::pin(async move {
            tokio::select! {
                () = shared.ending() => {}
                () = shared.known_tokens.ended(&principal) => {}
            }
        })
    }

    /// How a relay serves who asks: it may say what the table allows.
    pub(crate) fn relay_options(&self, principal: &Principal, folders: Folders) -> RelayOptions {
        let options = RelayOptions::default().sessions(self.sessions_for(principal));
        match PrincipalAuthorizer::of(principal, &self.host, folders) {
            Some(table) => options.judged(Arc::new(table)),
            None => options.of_user(),
        }
    }

    /// What a session of who asks is found in.
    pub(crate) fn sessions_for(&self, principal: &Principal) -> Sessions {
        match principal.visitor() {
            Some(visitor) => self.sessions.for_visitor(visitor),
            None => self.sessions.clone(),
        }
    }
}
