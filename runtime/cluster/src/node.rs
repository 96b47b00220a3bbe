//! Member of a cluster: it holds a lease, watches the leases of others, and has
//! sessions.

mod drain;
mod letters;
mod peers;
mod renew;
mod take;
mod tokens;

pub use renew::LOOK;
pub use take::{AGAIN, AGAIN_MOST, AT_ONCE};

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    io::DuplexStream,
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
};
use trunkline_gateway::ForwardedPrincipal;
use trunkline_process::BootInstant;
use trunkline_protocol::SessionId;
use trunkline_sessions::{Record, Sessions};

use crate::{
    fabric::{Address, Fabric},
    keeper::Keeper,
    lease::{Terms, Watch},
    lock,
    marks::{Marks, Unsound},
    ownership::Me,
    recorded::Recorded,
    row::{HostRow, LABELS, Row, is_text},
    store::{Store, check_name},
};

/// Identity of a host in the cluster.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Name, unique in the cluster: letters, digits, `-` and `_`.
    pub host: String,
    /// Labels of the operator.
    pub labels: BTreeMap<String, String>,
    /// The storages that it has.
    pub storage: Vec<String>,
    /// Duration of its lease.
    pub ttl: Duration,
    /// The agents that it serves.
    pub agents: Vec<String>,
    /// Of its agents' configuration and policy.
    pub digest: String,
    /// The program's version.
    pub version: String,
    /// Progress of the store that it has seen.
    pub marks: Marks,
}

/// Error of a host that cannot join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The name, the labels or the time of the lease cannot be.
    #[error("{0}")]
    Options(String),
    /// Another daemon has this name.
    #[error("another daemon has joined as `{0}`, and renews its lease")]
    Taken(String),
    /// The cluster's store is behind what this host has seen of it.
    #[error("{0}")]
    Lost(String),
    /// The cluster's server does not answer.
    #[error("the cluster's server does not answer: {0}")]
    Silent(String),
}

/// Accepts a connection of another host on behalf of its client.
pub type Door =
    Box<dyn Fn(DuplexStream, ForwardedPrincipal) -> BoxFuture<'static, ()> + Send + Sync>;

/// Hears until when this host may act; `None`: it may not.
pub type OnLease = Box<dyn Fn(Option<BootInstant>) + Send + Sync>;

/// Member of a cluster. Clones share it.
#[derive(Debug, Clone)]
pub struct Node {
    shared: Arc<SharedNode>,
}

/// State that the tasks of a node share.
struct SharedNode {
    me: Me,
    at: Address,
    options: NodeOptions,
    terms: Terms,
    store: Arc<dyn Store>,
    fabric: Arc<dyn Fabric>,
    keeper: Arc<Keeper>,
    lease: watch::Sender<Option<BootInstant>>,
    /// Known hosts; its version rises with each change.
    view: Mutex<View>,
    changed: watch::Sender<u64>,
    /// The tunnels that end here, by the topic of their letters.
    tunnels: Mutex<HashMap<String, mpsc::Sender<Bytes>>>,
    /// Bytes that may wait in them.
    room: Arc<Semaphore>,
    /// Permits for letters that need a reply, and for drains.
    turns: Arc<Semaphore>,
    drains: Arc<Semaphore>,
    /// Permits for letters that assign sessions to this host, and for sessions that are taken at
    /// the same time.
    inherits: Arc<Semaphore>,
    takes: Semaphore,
    sessions: OnceLock<Sessions>,
    door: OnceLock<Door>,
    /// Sessions that are being taken.
    taking: Mutex<HashSet<SessionId>>,
    /// Sessions that this host is handing over.
    leaving: watch::Sender<HashSet<SessionId>>,
    is_draining: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

/// Known hosts.
#[derive(Debug)]
struct View {
    hosts: BTreeMap<String, SeenHost>,
    watch: Watch,
}

/// A host's row as it was last seen.
#[derive(Debug, Clone)]
struct SeenHost {
    row: HostRow,
    number: u64,
    at: BootInstant,
}

impl fmt::Debug for SharedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Joins a cluster: takes the lease of this name, and renews it from then on. `on_lease` is
    /// called with each change.
    ///
    /// If a daemon of this name did not end in order, this waits until its lease has run out.
    ///
    /// # Errors
    /// See [`JoinError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn join(
        store: Arc<dyn Store>,
        fabric: Arc<dyn Fabric>,
        options: NodeOptions,
        on_lease: OnLease,
    ) -> Result<Self, JoinError> {
        check(&options).map_err(JoinError::Options)?;
        options
            .marks
            .look(&*store)
            .await
            .map_err(|error| match error {
                Unsound::Silent(why) => JoinError::Silent(why),
                Unsound::Lost(why) => JoinError::Lost(why),
            })?;
        let terms = Terms { ttl: options.ttl };
        let incarnation = uuid::Uuid::new_v4().simple().to_string();
        let at = Address {
            host: options.host.clone(),
            incarnation: incarnation.clone(),
        };
        let me = Me {
            host: options.host.clone(),
            incarnation,
            storage: options.storage.clone(),
            digest: options.digest.clone(),
        };
        let silent = |error: io::Error| JoinError::Silent(error.to_string());
        let inbox = fabric.listen(&at).await.map_err(silent)?;
        let (lease, held) = watch::channel(None);
        let keeper = Keeper::new(
            store.clone(),
            at.incarnation.clone(),
            held,
            options.marks.clone(),
        );
        let shared = Arc::new(SharedNode {
            me,
            at,
            terms,
            store,
            fabric,
            keeper,
            lease,
            view: Mutex::new(View {
                hosts: BTreeMap::new(),
                watch: Watch::new(terms),
            }),
            changed: watch::Sender::default(),
            tunnels: Mutex::default(),
            room: Arc::new(Semaphore::new(letters::WAIT)),
            turns: Arc::new(Semaphore::new(letters::AT_ONCE)),
            drains: Arc::new(Semaphore::new(letters::DRAINS)),
            inherits: Arc::new(Semaphore::new(letters::INHERITS)),
            takes: Semaphore::new(AT_ONCE),
            sessions: OnceLock::new(),
            door: OnceLock::new(),
            taking: Mutex::default(),
            leaving: watch::Sender::default(),
            is_draining: watch::Sender::default(),
            tasks: Mutex::default(),
            options,
        });
        let row = shared.row(0).to_bytes();
        if HostRow::parse(&row).is_none() {
            let why = format!(
                "the others would refuse this host's row of {} bytes: give fewer or shorter names of agents and storages",
                row.len()
            );
            return Err(JoinError::Options(why));
        }
        let first = shared.clone().take_lease(&on_lease).await?;
        let mut tasks = lock(&shared.tasks);
        tasks.spawn(shared.clone().renew(first, on_lease));
        tasks.spawn(shared.clone().watch());
        tasks.spawn(shared.clone().look_at_store());
        tasks.spawn(shared.clone().letters(inbox));
        drop(tasks);
        Ok(Self { shared })
    }

    /// Returns the record of this host's sessions.
    #[must_use]
    pub fn record(&self) -> Arc<dyn Record> {
        Arc::new(Recorded {
            keeper: self.shared.keeper.clone(),
            me: self.shared.me.clone(),
        })
    }

    /// Serves these sessions. When it resolves, the host has its earlier sessions again; sessions
    /// of hosts that are gone follow. `door` accepts the connections of other hosts.
    ///
    /// # Errors
    /// The cluster's store does not respond.
    pub async fn serve(&self, sessions: Sessions, door: Door) -> Result<(), String> {
        // A node serves once.
        let _ = self.shared.sessions.set(sessions);
        let _ = self.shared.door.set(door);
        self.shared.clone().take_own().await?;
        let mut tasks = lock(&self.shared.tasks);
        tasks.spawn(self.shared.clone().guard());
        tasks.spawn(self.shared.clone().take_over());
        Ok(())
    }

    /// Returns its name.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.shared.at.host
    }

    /// Leaves the cluster after its sessions have ended or moved: the lease is returned, so that no
    /// host waits for it.
    pub async fn leave(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.shared.tasks));
        tasks.shutdown().await;
        // What is still being taken over goes to others.
        self.shared.lease.send_replace(None);
        self.shared.give_back().await;
    }
}

/// Checks the identity of a host.
fn check(options: &NodeOptions) -> Result<(), String> {
    check_name(&options.host, "name of a host")?;
    options
        .storage
        .iter()
        .try_for_each(|id| check_name(id, "id of a storage"))?;
    for (label, value) in &options.labels {
        check_name(label, "name of a label")?;
        if !is_text(value) {
            return Err(format!(
                "the label {label} has a value that is too long, or not printable"
            ));
        }
    }
    if options.labels.len() > LABELS {
        return Err(format!("a host has {LABELS} labels at most"));
    }
    if (Terms::LEAST..=Terms::MOST).contains(&options.ttl) {
        Ok(())
    } else {
        Err(format!(
            "a lease holds for {:?} to {:?}",
            Terms::LEAST,
            Terms::MOST
        ))
    }
}

impl SharedNode {
    fn sessions(&self) -> Option<&Sessions> {
        self.sessions.get()
    }

    fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Returns true if this host may act.
    fn may_act(&self) -> bool {
        self.keeper.may_act()
    }

    /// Returns true if this host serves a session: not during a takeover, and not after the record
    /// refused to store more of it.
    fn serves(&self, id: &SessionId) -> bool {
        self.sessions().is_some_and(|sessions| sessions.owns(id))
    }

    /// The hosts that are alive as far as this one knows, itself among them.
    fn alive(&self) -> Vec<HostRow> {
        let view = self.view();
        let now = BootInstant::now();
        let is_silent = |host: &str| host != self.at.host && view.watch.is_gone(host, now);
        let rows = view.hosts.values().map(|seen| &seen.row);
        rows.filter(|row| !row.is_over && !is_silent(&row.host))
            .cloned()
            .collect()
    }

    /// Returns true if a host is unavailable to clients that look for its sessions.
    fn is_silent(&self, host: &str) -> bool {
        let view = self.view();
        view.hosts.get(host).is_none_or(|seen| seen.row.is_over)
            || view.watch.is_gone(host, BootInstant::now())
    }

    /// Notes that something has changed among the hosts.
    fn note_change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}
