//! The agents of a host at one time, and those whose earlier configuration still has sessions.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use trunkline_process::{ChildSpec, Deadline};
use trunkline_protocol::AgentState;

use super::{Covered, absolute};
use crate::{
    AgentHealth, AgentStatus, PolicyRefusal, Rates,
    agent::{self, AgentShared, Folders, LastingRules},
    config::AgentConfig,
    declared::{Declaration, Declared},
    files::Exchanges,
    link::{Command, Connect, Inbox, InboxLimits, MakeSpec, Taps},
    orphans::HostFolder,
    spool::Store,
    usage::UsageLog,
};

/// Limit of earlier configurations of one agent with sessions: each has a process of its own.
pub(super) const EARLIER: usize = 4;
/// Limit over all agents.
pub(super) const EARLIER_OF_ALL: usize = 64;

/// An agent with one configuration. Another configuration of it is another one of these, with a
/// process of its own.
pub(super) struct Agent {
    pub(super) shared: Arc<AgentShared>,
    pub(super) inbox: Arc<Inbox>,
    /// Connect function of the driver, until it runs.
    connect: Mutex<Option<Connect>>,
    /// True if it is reached over streams of the embedder.
    over_streams: bool,
    /// Maker of its process's description; `None` for an agent over streams, and for one that may
    /// not run.
    pub(super) make: Option<MakeSpec>,
    /// Reason why it may not run.
    pub(super) refusal: Option<PolicyRefusal>,
    /// Files that its sandbox protects from it.
    pub(super) trusted: Trusted,
    /// True if it runs in the folder of its sessions.
    pub(super) is_placed: bool,
}

/// Files that no sandbox lets a child change, absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trusted {
    pub(super) unwritable: Arc<[PathBuf]>,
    pub(super) reserved: Arc<[PathBuf]>,
}

/// An agent as it was asked for.
pub(super) struct Wanted {
    pub(super) config: AgentConfig,
    /// Declarations that are known before it runs.
    pub(super) declaration: Declaration,
    /// Connect function, if it is reached over streams.
    pub(super) connect: Option<Connect>,
    pub(super) refusal: Option<PolicyRefusal>,
}

/// The agents at one time, and what holds for all of them.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) now: BTreeMap<Arc<str>, Arc<Agent>>,
    /// Replaced or removed configurations whose processes have not ended; the oldest first.
    pub(super) earlier: Vec<Arc<Agent>>,
    /// Agents that run in a folder of their sessions, beside the agent of the same id in `now`.
    pub(super) placed: Vec<Arc<Agent>>,
    pub(super) default_agent: Option<String>,
    pub(super) max_sessions: Option<usize>,
}

/// Resources shared by all agents of a host, present and future.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) folder: Arc<HostFolder>,
    pub(super) store: Arc<Store>,
    /// Log of ended turns, if there is one.
    pub(super) usage: Option<Arc<UsageLog>>,
    /// Taps that see the traffic of the links, if there are any.
    pub(super) taps: Option<Arc<Taps>>,
    /// The records of live process trees.
    pub(super) records: Option<PathBuf>,
    /// The command for a built-in adapter.
    pub(super) profiles: Vec<String>,
    /// Paths that nothing in a sandbox sees.
    pub(super) covered: Covered,
    /// When all processes die, unless it is put off.
    pub(super) deadline: Option<Deadline>,
    /// Patterns that allow, besides those in the configurations.
    pub(super) lasting_rules: LastingRules,
    /// Number of agents made so far, which names their folders.
    pub(super) made: AtomicUsize,
}

impl Parts {
    /// Hides from all sandboxes that start from now on the journal that a configuration names and,
    /// if one of these agents is in a sandbox, the wire log.
    pub(super) fn cover<'a>(
        &self,
        agents: impl IntoIterator<Item = &'a AgentConfig>,
        journal: Option<PathBuf>,
    ) {
        let is_sandboxed = agents.into_iter().any(|agent| agent.sandbox.is_some());
        let logs = self
            .taps
            .iter()
            .filter(|_| is_sandboxed)
            .flat_map(|taps| taps.sink.files());
        let covered = logs.chain(journal).map(absolute);
        self.covered
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(covered);
    }

    /// Makes an agent. Nothing of it runs.
    pub(super) fn make(&self, wanted: Wanted, trusted: &Trusted) -> Agent {
        let Wanted {
            config,
            declaration,
            connect,
            refusal,
        } = wanted;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let exchange = self.folder.path().join("exchange").join(number.to_string());
        let exchanges =
            Arc::new(Exchanges::named(&exchange).removed_by(self.folder.remover.clone()));
        let limits = InboxLimits {
            queued_inputs: config.limits.queued_inputs,
            outbox: config.limits.outbox,
            max_file_bytes: config.limits.max_file_bytes,
        };
        let inbox = Arc::new(Inbox::new(limits, self.store.clone(), exchanges.clone()));
        agent::register_secrets(&config);
        let usage = self.usage.clone();
        let taps = self.taps.clone();
        let shared = Arc::new(AgentShared::new(
            config,
            declaration,
            exchanges,
            usage,
            taps,
            self.folder.clone(),
            self.lasting_rules.clone(),
        ));
        if refusal.is_some() {
            shared.set_state(AgentState::Failed);
        }
        let over_streams = connect.is_some();
        let make: Option<MakeSpec> = (!over_streams && refusal.is_none()).then(|| {
            let config = shared.config.clone();
            let profiles = self.profiles.clone();
            let deadline = self.deadline.clone();
            let folders = Folders {
                private: self.folder.path().to_owned(),
                exchange,
                records: self.records.clone(),
                unwritable: trusted.unwritable.clone(),
                reserved: trusted.reserved.clone(),
                covered: self.covered.clone(),
            };
            Arc::new(move || {
                let spec = agent::child_spec(&config, &profiles, &folders)?;
                Ok(ChildSpec {
                    deadline: deadline.clone(),
                    ..spec
                })
            }) as MakeSpec
        });
        let connect = Mutex::new(connect.or_else(|| make.clone().map(Connect::Process)));
        let trusted = trusted.clone();
        Agent {
            shared,
            inbox,
            connect,
            over_streams,
            make,
            refusal,
            trusted,
            is_placed: false,
        }
    }
}

impl Agents {
    /// Every one that may have a process.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.now.values().chain(&self.placed).chain(&self.earlier)
    }

    /// Returns true if new sessions go to this one.
    pub(super) fn has(&self, agent: &Arc<Agent>) -> bool {
        let now = self
            .now
            .get(&agent.shared.id)
            .into_iter()
            .chain(&self.placed);
        now.into_iter().any(|now| Arc::ptr_eq(now, agent))
    }

    /// Returns the earlier configurations of this id.
    pub(super) fn earlier_of(&self, id: &str) -> impl Iterator<Item = &Arc<Agent>> {
        self.earlier
            .iter()
            .filter(move |agent| *agent.shared.id == *id)
    }

    /// The newest of each agent that was removed and whose process has not ended.
    pub(super) fn removed(&self) -> impl Iterator<Item = &Arc<Agent>> {
        let newest = |agent: &Arc<Agent>| {
            let of_id = self.earlier_of(&agent.shared.id).last();
            of_id.is_some_and(|newest| Arc::ptr_eq(newest, agent))
        };
        self.earlier
            .iter()
            .filter(move |agent| !self.now.contains_key(&agent.shared.id) && newest(agent))
    }

    /// Returns the number of sessions with an earlier configuration than this one.
    pub(super) fn draining(&self, agent: &Arc<Agent>) -> usize {
        let others = self
            .earlier_of(&agent.shared.id)
            .filter(|other| !Arc::ptr_eq(other, agent));
        others
            .map(|other| other.shared.opened.load(Ordering::Acquire))
            .sum()
    }

    /// Sessions of the same agent in processes for other folders.
    pub(super) fn beside(&self, agent: &Arc<Agent>) -> usize {
        let same = self
            .now
            .values()
            .chain(&self.placed)
            .filter(|other| other.shared.id == agent.shared.id);
        let others = same.filter(|other| !Arc::ptr_eq(other, agent));
        others
            .map(|other| other.shared.opened.load(Ordering::Acquire))
            .sum()
    }

    /// Sessions of all agents, counted when they were asked for.
    pub(super) fn opened(&self) -> usize {
        self.all()
            .map(|agent| agent.shared.opened.load(Ordering::Acquire))
            .sum()
    }

    /// Forgets the earlier ones whose processes have ended.
    pub(super) fn forget_ended(&mut self) {
        self.earlier.retain(|agent| !agent.inbox.is_closed());
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Returns the connect function of its driver, to the first caller.
    pub(super) fn take_connect(&self) -> Option<Connect> {
        self.connect
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Returns true if its driver runs, or has run.
    pub(super) fn is_linked(&self) -> bool {
        self.refusal.is_none()
            && self
                .connect
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_none()
    }

    /// Returns true if it equals the wanted one, so that its process may stay.
    pub(super) fn is(&self, wanted: &Wanted, trusted: &Trusted) -> bool {
        self.shared.config == wanted.config
            && self.refusal == wanted.refusal
            && self.over_streams == wanted.connect.is_some()
            && (wanted.config.sandbox.is_none() || self.trusted == *trusted)
    }

    /// Ends its process when its last session has ended. Called where no other session can begin.
    pub(super) fn retire(&self) {
        self.shared.retire();
        self.inbox.push(Command::Retire);
    }

    pub(super) fn status(&self, draining: usize) -> AgentStatus {
        let Declared {
            capabilities,
            models,
            undescribed,
        } = self.shared.declaration.get();
        AgentStatus {
            capabilities,
            models,
            undescribed,
            config: self.shared.config.clone(),
            state: self.shared.state(),
            refusal: self.refusal.clone(),
            counters: self.shared.counters.snapshot(),
            draining,
        }
    }

    /// Returns its health while it has no link.
    pub(super) fn health(&self) -> AgentHealth {
        AgentHealth {
            agent: self.shared.id.to_string(),
            state: self.shared.state(),
            why: self.refusal.as_ref().map(ToString::to_string),
            restart_in: None,
            process: None,
            last_end: None,
            sessions: 0,
            running_turns: 0,
            open_requests: 0,
            longest_silence: None,
            failing: None,
            rates: Rates::default(),
            counters: self.shared.counters.snapshot(),
            draining: 0,
            removed: false,
        }
    }
}
