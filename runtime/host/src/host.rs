//! The host: agents by id, the sessions that are opened on them.

mod agents;
mod native;
mod placed;
mod reconfigure;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::oneshot,
};
use tracing::Instrument;
use trunkline_core::{Core, Rules, policy::LastingRule};
use trunkline_process::{ChildSpec, Deadline};
use trunkline_protocol::{AgentState, Capabilities, Model, SessionId, SessionStart};
use trunkline_wirelog::WireSink;

use self::agents::{Agent, Agents, Parts, Trusted, Wanted};
pub use self::{native::NativeListError, reconfigure::Changes};
use crate::{
    AgentHealth, Cause, Counters, Session, SessionOptions, SessionStatus,
    agent::{self, AgentShared, LastingRules},
    config::{
        self, AgentConfig, Buffers, Config, ConfigError, EnvValue, Organisation, Source, StopSteps,
    },
    declared::Declaration,
    error::{BuildError, OpenError, PolicyRefusal, SpecError},
    link::{Command, Connect, Driver, Streams, Taps},
    orphans::{HostFolder, Orphans},
    session::SessionShared,
    session_options,
    spool::Store,
    usage::UsageLog,
};

/// The folder of the records of live process trees, in the state folder.
const RECORDS: &str = "children";

/// Runs adapters and routes many sessions over each one's pipe.
///
/// Clones are handles to the same host. An agent's process is started with its first session, or before by
/// [`Host::stand_by`], and serves all of its sessions. Dropping the last handle signals every process to end;
/// [`Host::shutdown`] waits until they have.
#[derive(Debug, Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

/// Time that a shutdown waits for the last lines of the usage log, and of a wire log.
const FLUSH: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Inner {
    /// Nothing waits while this is held.
    agents: RwLock<Agents>,
    parts: Parts,
    /// The folder for what outlives a host.
    state_dir: Option<PathBuf>,
    /// Held where a session is counted in that `max_sessions` of the host may refuse.
    opening: Mutex<()>,
    down: AtomicBool,
    /// True if standby agents run.
    stands_by: AtomicBool,
    /// Removals by the organisation's policies, and forbidden agents.
    notices: Vec<String>,
    /// Searched once for remains of earlier hosts.
    orphans: Orphans,
}

/// Absolute paths that nothing in a sandbox sees. Each path once; their number is bounded by the
/// program's sockets and logs.
pub(crate) type Covered = Arc<RwLock<BTreeSet<PathBuf>>>;

/// The state of one agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentStatus {
    /// Configuration.
    pub config: AgentConfig,
    /// The state of its process. One that may not run counts as failed.
    pub state: AgentState,
    /// Reason why the organisation's policy forbids it.
    pub refusal: Option<PolicyRefusal>,
    /// The capabilities that its adapter declared last, in any session or to [`Host::describe`].
    pub capabilities: Option<Capabilities>,
    /// The models that it declared last.
    pub models: Option<Vec<Model>>,
    /// Reason why [`Host::describe`] got no answer.
    pub undescribed: Option<String>,
    /// The counters, since the host began or this configuration came.
    pub counters: Counters,
    /// Sessions that continue with an earlier configuration, each configuration in a process of its
    /// own.
    pub draining: usize,
}

/// Makes a [`Host`].
#[derive(Debug, Default)]
pub struct HostBuilder {
    agents: BTreeMap<String, (AgentConfig, Option<Connect>)>,
    first: Option<String>,
    default_agent: Option<String>,
    profiles: Option<Vec<String>>,
    max_sessions: Option<usize>,
    state_dir: Option<PathBuf>,
    policy: Option<PathBuf>,
    spool_dir: Option<PathBuf>,
    usage_log: bool,
    /// True if a configuration turns the usage log off.
    no_usage_log: bool,
    wire_sink: Option<Arc<dyn WireSink>>,
    deadline: Option<Deadline>,
    buffers: Buffers,
    /// The files that configurations came from, and others that decide what runs.
    read: Vec<PathBuf>,
    /// The folder of the journal that a configuration names.
    journal: Option<PathBuf>,
    /// True if one was read, so that the next host may look in the same places.
    looks: bool,
}

impl HostBuilder {
    /// Adds an agent; a later one of the same id replaces the earlier.
    #[must_use]
    pub fn agent(mut self, agent: AgentConfig) -> Self {
        self.first.get_or_insert_with(|| agent.id.clone());
        self.agents.insert(agent.id.clone(), (agent, None));
        self
    }

    /// Adds an agent whose adapter is reached over streams instead of a process's pipes, such as an
    /// in-memory pipe.
    ///
    /// `connect` is called for each run of the adapter and returns its output to read and its input
    /// to write.
    #[must_use]
    pub fn agent_over<R, W>(
        mut self,
        agent: AgentConfig,
        mut connect: impl FnMut() -> (R, W) + Send + 'static,
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let streams = move || -> Streams {
            let (output, input) = connect();
            (Box::new(output), Box::new(input))
        };
        self.first.get_or_insert_with(|| agent.id.clone());
        self.agents.insert(
            agent.id.clone(),
            (agent, Some(Connect::Streams(Box::new(streams)))),
        );
        self
    }

    /// Takes agents, default, limits and folders of a configuration. Its `usage_log` does not ask
    /// for a usage log by itself; see [`HostBuilder::usage_log`].
    ///
    /// A second call adds its agents, of which one replaces an earlier one of the same id. Of the
    /// other values it replaces those that it has; `buffers` it always replaces.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.default_agent = config.default_agent.or(self.default_agent);
        self.max_sessions = config.max_sessions.or(self.max_sessions);
        self.state_dir = config.state_dir.or(self.state_dir);
        self.policy = config.policy.or(self.policy);
        self.spool_dir = config.spool_dir.or(self.spool_dir);
        self.journal = config.journal.or(self.journal);
        self.no_usage_log |= !config.usage_log;
        self.buffers = config.buffers;
        self.read.extend(config.source.path().map(Path::to_owned));
        self.looks |= config.source != Source::Given;
        config.agents.into_iter().fold(self, Self::agent)
    }

    /// The agent of sessions that name none; without it, the first that was added.
    #[must_use]
    pub fn default_agent(mut self, id: impl Into<String>) -> Self {
        self.default_agent = Some(id.into());
        self
    }

    /// Sets the command for a built-in adapter: program and arguments, to which the profile's name is added.
    /// Without it: the program `trunkline`, found in `PATH`, with the argument `adapter`.
    #[must_use]
    pub fn profile_command(mut self, command: impl IntoIterator<Item: Into<String>>) -> Self {
        self.profiles = Some(command.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the folder for what outlives a process: records of live process trees, by which the
    /// next host ends what a power cut left. Without it: the user's state folder
    /// ([`config::state_dir`]).
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Sets a file with a policy that narrows the rights of agents, besides
    /// [`config::defaults::POLICY`], which always applies if it exists.
    #[must_use]
    pub fn policy(mut self, file: impl Into<PathBuf>) -> Self {
        self.policy = Some(file.into());
        self
    }

    /// A file that decides what runs, such as the program's own configuration: nothing in a sandbox
    /// changes it. The file of a [`Config`] that was read, the policies and the files that
    /// variables come from are such files without being named.
    #[must_use]
    pub fn unwritable(mut self, file: impl Into<PathBuf>) -> Self {
        self.read.push(file.into());
        self
    }

    /// Sets the folder in which events wait for slow readers. Without it: `/var/tmp`.
    #[must_use]
    pub fn spool_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spool_dir = Some(folder.into());
        self
    }

    /// Sets whether each ended turn becomes a line of a [usage log](crate::usage) in the state
    /// folder, if there is such a folder. The default is no log. A configuration's `usage_log:
    /// false` takes precedence.
    #[must_use]
    pub fn usage_log(self, is_on: bool) -> Self {
        Self {
            usage_log: is_on,
            ..self
        }
    }

    /// Hands all that passes between the host and its adapters to a sink, secrets included: bytes
    /// in both directions, stderr, and the start and end of processes. A
    /// [`WireLog`](crate::wirelog::WireLog) writes them to a file, without secrets. The host waits
    /// for it at the end of [`Host::shutdown`], for at most a second. Without a sink nothing is
    /// handed on.
    #[must_use]
    pub fn wire_sink(self, sink: Arc<dyn WireSink>) -> Self {
        Self {
            wire_sink: Some(sink),
            ..self
        }
    }

    /// Makes all processes of the host die at a deadline, by an [init](trunkline_process::init) of
    /// each, even while the host is stopped. The embedder [extends](Deadline::extend) it; clones
    /// are the same deadline. After it has passed, no process starts: waiting inputs fail, and
    /// [`Host::retry`] starts the process after the next extension. An agent whose containment is
    /// `group` does not start; the error names the reason. Processes of an adapter die with it; an
    /// adapter over streams is not a process of the host, and its embedder must end it.
    #[must_use]
    pub fn deadline(self, deadline: Deadline) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    /// Writes no [usage log](crate::usage).
    #[deprecated(note = "no usage log is written unless `usage_log(true)` asks for it")]
    #[must_use]
    pub fn without_usage_log(self) -> Self {
        self.usage_log(false)
    }

    /// Makes the host. No process is started yet.
    ///
    /// # Errors
    /// When there is no folder for temporary files, or a policy cannot be read. An agent that a
    /// policy forbids is not an error here, but one of [`Host::open`].
    pub fn build(mut self) -> Result<Host, BuildError> {
        let Narrowed {
            notices,
            mut refusals,
            policies,
        } = self.narrow().map_err(BuildError::Policy)?;
        let trusted = self.trusted(policies);
        let state_dir = self
            .state_dir
            .or_else(|| config::state_dir(|name| std::env::var_os(name)));
        let records = state_dir.as_ref().map(|state| state.join(RECORDS));
        let log = |state| Arc::new(UsageLog::new(state, config::defaults::USAGE_LOG_BYTES));
        let usage = state_dir
            .clone()
            .filter(|_| self.usage_log && !self.no_usage_log)
            .map(log);
        let taps = self.wire_sink.map(|sink| Arc::new(Taps::new(sink)));
        let folder = Arc::new(HostFolder::new(records.clone())?);
        let spool_dir = self.spool_dir.unwrap_or_else(config::spool_dir);
        let store = Arc::new(Store::new(spool_dir, self.buffers));
        let profiles = self.profiles.unwrap_or_else(|| {
            config::defaults::PROFILE_COMMAND
                .map(str::to_owned)
                .to_vec()
        });
        // What a policy forbids is not run to clean up either.
        let allowed = self
            .agents
            .values()
            .filter(|(config, _)| !refusals.contains_key(&config.id));
        let sandboxes = allowed.filter_map(|(config, _)| config.sandbox.as_ref());
        let orphans = Orphans::new(records.clone(), sandboxes.map(|sandbox| &sandbox.backend));
        let parts = Parts {
            folder,
            store,
            usage,
            taps,
            records,
            profiles,
            covered: Covered::default(),
            deadline: self.deadline,
            lasting_rules: LastingRules::default(),
            made: AtomicUsize::new(0),
        };
        agent::guard_writable(self.agents.values().map(|(agent, _)| agent));
        parts.cover(self.agents.values().map(|(agent, _)| agent), self.journal);
        let mut agents = Agents {
            default_agent: self.default_agent.or(self.first),
            max_sessions: self.max_sessions,
            ..Agents::default()
        };
        for (id, (config, connect)) in self.agents {
            let wanted = Wanted {
                config,
                declaration: Declaration::default(),
                connect,
                refusal: refusals.remove(&id),
            };
            agents
                .now
                .insert(id.into(), Arc::new(parts.make(wanted, &trusted)));
        }
        let inner = Inner {
            agents: RwLock::new(agents),
            parts,
            state_dir,
            opening: Mutex::default(),
            down: AtomicBool::new(false),
            stands_by: AtomicBool::new(false),
            notices,
            orphans,
        };
        Ok(Host {
            inner: Arc::new(inner),
        })
    }

    /// Applies the organisation's policies to every agent that is a process.
    fn narrow(&mut self) -> Result<Narrowed, ConfigError> {
        let policies = Organisation::of_this_machine(self.policy.as_deref())?;
        let mut narrowed = Narrowed {
            policies: policies
                .iter()
                .map(|policy| policy.path().to_owned())
                .collect(),
            ..Narrowed::default()
        };
        let processes = self
            .agents
            .values_mut()
            .filter(|(_, connect)| connect.is_none());
        for (agent, _) in processes {
            let mut said = Vec::new();
            match narrow(agent, &policies, &mut said) {
                Ok(()) => narrowed.notices.extend(said),
                Err(refusal) => {
                    narrowed
                        .notices
                        .push(format!("agent {} may not run: {refusal}", agent.id));
                    narrowed.refusals.insert(agent.id.clone(), refusal);
                }
            }
        }
        Ok(narrowed)
    }

    /// Returns the files that control the agents: the configuration, the policies, and the sources
    /// of variables.
    fn trusted(&self, policies: Vec<PathBuf>) -> Trusted {
        let values = self
            .agents
            .values()
            .flat_map(|(agent, _)| agent.command.env.values());
        let sources = values.filter_map(|value| match value {
            EnvValue::FromFile(path) => Some(path.clone()),
            _ => None,
        });
        let unwritable = self
            .read
            .iter()
            .cloned()
            .chain(policies)
            .chain(sources)
            .map(absolute)
            .collect();
        let variable =
            |name: &str| std::env::var_os(name).filter(|_| name != config::FILE_VARIABLE);
        let searched = config::candidates(None, variable);
        let searched = searched
            .iter()
            .filter_map(|source| source.path().map(Path::to_owned));
        let policy = PathBuf::from(config::defaults::POLICY);
        let reserved = searched
            .chain([policy])
            .filter(|_| self.looks)
            .map(absolute)
            .collect();
        Trusted {
            unwritable,
            reserved,
        }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Results of the organisation's policies.
#[derive(Default)]
struct Narrowed {
    /// A sentence for everything that they took, and for every agent that they forbid.
    notices: Vec<String>,
    /// The agents that may not run, by id.
    refusals: HashMap<String, PolicyRefusal>,
    /// The files of the policies.
    policies: Vec<PathBuf>,
}

/// Applies policies to one agent; `notices` has what they took.
fn narrow(
    agent: &mut AgentConfig,
    policies: &[Organisation],
    notices: &mut Vec<String>,
) -> Result<(), PolicyRefusal> {
    for policy in policies {
        let path = policy.path();
        let changes = policy.narrow(agent).map_err(|error| PolicyRefusal {
            policy: path.to_owned(),
            reason: error.to_string(),
        })?;
        let by = path.display();
        notices.extend(
            changes
                .iter()
                .map(|change| format!("agent {}: {change} (policy {by})", agent.id)),
        );
    }
    Ok(())
}

impl Host {
    /// Begins to make a host.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Opens a session on an agent and starts the agent's process where it does not run. Waits for
    /// nothing: what goes wrong with the start ends the inputs that wait for it.
    ///
    /// Must be called within a tokio runtime, on which the agent's link then runs.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such agent, the organisation's policy forbids it, its limit
    /// is reached, an option would widen its configuration, it cannot fork the conversation, or its
    /// options hold more secrets than logs can be kept free of.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(&self, agent: &str, options: SessionOptions) -> Result<Session, OpenError> {
        if self.inner.down.load(Ordering::Acquire) {
            return Err(OpenError::Shutdown);
        }
        let SessionOptions {
            id,
            start,
            meta,
            delivery,
        } = options;
        let (agent, cwd, secrets) = loop {
            let agent = self.named(agent)?;
            self.link(&agent)?;
            let shared = &agent.shared;
            if start.resume.as_ref().and_then(|resume| resume.fork) == Some(true)
                && !shared.declaration.forks_sessions()
            {
                return Err(OpenError::CannotFork {
                    agent: shared.id.to_string(),
                });
            }
            let cwd = session_options::open(&shared.config, &start).map_err(|option| {
                OpenError::WouldWiden {
                    agent: shared.id.to_string(),
                    option,
                }
            })?;
            if !session_options::is_output_schema(start.output_schema.as_ref()) {
                return Err(OpenError::OutputSchema {
                    agent: shared.id.to_string(),
                });
            }
            if shared.config.needs_cwd && cwd.is_none() {
                return Err(OpenError::NeedsFolder {
                    agent: shared.id.to_string(),
                });
            }
            let agent = self.placed(agent.clone(), cwd.as_ref())?;
            self.link(&agent)?;
            let shared = &agent.shared;
            let secrets = shared.hold_secrets(&start)?;
            if self.make_room(&agent)? {
                break (agent, cwd, secrets);
            }
            // It has another configuration by now, which decides.
        };
        let shared = agent.shared.clone();
        let inbox = agent.inbox.clone();
        let chosen = id.is_some();
        let id = id.unwrap_or_else(fresh_id);
        let session = Arc::new(SessionShared::new(
            id, shared, inbox, delivery, cwd, secrets,
        ));
        if session.agent.names_exchange
            && let Err(error) = session.exchange()
        {
            // Gives its room back. A link that waits for its last session looks again.
            session.set_closed(Cause::Shutdown, None);
            session.command(Command::Close {
                session: session.clone(),
                done: None,
            });
            return Err(OpenError::Exchange(error));
        }
        let start = (start != SessionStart::default()).then(|| Box::new(start));
        let meta = meta.map(Box::new);
        session.command(Command::Open {
            session: session.clone(),
            chosen,
            start,
            meta,
        });
        Ok(Session::new(session))
    }

    /// Replaces the lasting rules: patterns by the ids of agents that allow like patterns of the
    /// agent's allow list ("always allow"). Actions that a deny list rejects stay rejected. They
    /// also apply to every later configuration of an agent. The future resolves when they apply to
    /// each further request, also in open sessions.
    ///
    /// # Cancel safety
    /// The rules are replaced by the call. The future only waits, so it may be dropped.
    pub fn set_lasting_rules(
        &self,
        rules: BTreeMap<String, Vec<LastingRule>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let current = self.inner.parts.lasting_rules.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = rules;
        // A driver that starts later reads them when it does.
        let agents = self.inner.agents();
        let linked = agents.all().filter(|agent| agent.is_linked());
        let waiting: Vec<_> = linked
            .map(|agent| {
                let (done, applied) = oneshot::channel();
                agent.inbox.push(Command::RulesChanged(done));
                applied
            })
            .collect();
        async move {
            for applied in waiting {
                // A link that has ended judges nothing.
                let _ = applied.await;
            }
        }
    }

    /// Starts the process of each standby agent (`standby`) that does not run yet. Each has one
    /// process at most, which [`Host::shutdown`] ends. An agent that may not run is left out, with
    /// a warning.
    ///
    /// # Panics
    /// Outside a tokio runtime, if there is a standby agent.
    pub fn stand_by(&self) {
        self.inner.stands_by.store(true, Ordering::Release);
        if self.inner.down.load(Ordering::Acquire) {
            return;
        }
        let stands_by = |agent: &&Arc<Agent>| agent.shared.config.standby;
        let agents: Vec<_> = self
            .inner
            .agents()
            .now
            .values()
            .filter(stands_by)
            .cloned()
            .collect();
        for agent in agents {
            if let Err(error) = self.link(&agent) {
                tracing::warn!(agent = &*agent.shared.id, %error, "the agent does not honour");
                continue;
            }
            let agents = self.inner.agents();
            // One that is replaced meanwhile has no use for a process.
            if agents.has(&agent) {
                agent.inbox.push(Command::Standby);
            }
        }
    }

    /// Counts a session in, unless the limit of the agent or of the host is reached. `false` where
    /// the agent has another configuration by now, and nothing is counted.
    fn make_room(&self, agent: &Arc<Agent>) -> Result<bool, OpenError> {
        // Who is counted in while this is held keeps the link from ending.
        let agents = self.inner.agents();
        if !agents.has(agent) {
            return Ok(false);
        }
        let _one_at_a_time = match agents.max_sessions {
            Some(limit) => {
                let guard = self
                    .inner
                    .opening
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if agents.opened() >= limit {
                    return Err(OpenError::TooManySessions { agent: None, limit });
                }
                Some(guard)
            }
            None => None,
        };
        let shared = &agent.shared;
        let before = shared.opened.fetch_add(1, Ordering::AcqRel);
        let in_all = before + agents.draining(agent) + agents.beside(agent);
        let error = if let Some(limit) = shared.limits.max_sessions.filter(|limit| in_all >= *limit)
        {
            OpenError::TooManySessions {
                agent: Some(shared.id.to_string()),
                limit,
            }
        } else if let Some(limit) = shared
            .declaration
            .max_sessions()
            .filter(|limit| before >= *limit)
        {
            OpenError::AdapterFull {
                agent: shared.id.to_string(),
                limit,
            }
        } else {
            return Ok(true);
        };
        shared.opened.fetch_sub(1, Ordering::AcqRel);
        Err(error)
    }

    /// The agent that new sessions of this name go to.
    fn named(&self, id: &str) -> Result<Arc<Agent>, OpenError> {
        let agents = self.inner.agents();
        let known = || agents.now.keys().map(ToString::to_string).collect();
        agents
            .now
            .get(id)
            .cloned()
            .ok_or_else(|| OpenError::UnknownAgent {
                id: id.to_owned(),
                known: known(),
            })
    }

    /// Has the driver of an agent's link run from now on.
    fn link(&self, agent: &Agent) -> Result<(), OpenError> {
        let shared = &agent.shared;
        if let Some(refusal) = &agent.refusal {
            return Err(refusal.clone().into_open_error(&shared.id));
        }
        // Before the rest: outside a runtime the agent stays as it was.
        let runtime = Handle::current();
        if agent.is_linked() {
            return Ok(());
        }
        let files = shared.make_folders().map_err(OpenError::Folder)?;
        // Of two that race one finds that the other has done it.
        let Some(connect) = agent.take_connect() else {
            return Ok(());
        };
        shared.folder.record();
        self.inner.orphans.sweep(&runtime);
        let rules = Rules {
            is_in_cwd: agent.is_placed,
            policy: shared.policy(),
            ..agent::rules(&shared.config)
        };
        let core = Core::new(rules, seed());
        let roots = agent::roots(&shared.config);
        let span = tracing::info_span!("adapter", agent = &*shared.id);
        let driver = Driver::new(
            core,
            shared.clone(),
            agent.inbox.clone(),
            connect,
            files,
            roots,
        );
        let host = Arc::downgrade(&self.inner);
        let run = async move {
            driver.run().await;
            // It ends before its host where its agent has another configuration, or is no more.
            if let Some(host) = host.upgrade() {
                host.agents_mut().forget_ended();
            }
        };
        runtime.spawn(run.instrument(span));
        if self.inner.down.load(Ordering::Acquire) {
            // The shutdown began before the driver existed.
            let steps = shared.config.timeouts.shutdown;
            agent.inbox.push(Command::Shutdown { steps, done: None });
        }
        Ok(())
    }

    /// The changes that the organisation's policies made to the entries of the agents that the host
    /// was built with, and the agents that they forbid, one sentence each, for the operator. Those
    /// of later agents are in [`Changes`].
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.inner.notices
    }

    /// The agent of sessions that name none. `None` for a host without agents.
    #[must_use]
    pub fn default_agent(&self) -> Option<String> {
        self.inner.agents().default_agent.clone()
    }

    /// Every agent, by id.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentStatus> {
        let agents = self.inner.agents();
        agents
            .now
            .values()
            .map(|agent| agent.status(agents.draining(agent)))
            .collect()
    }

    /// The status of one agent. `None` for an unknown id.
    #[must_use]
    pub fn agent(&self, id: &str) -> Option<AgentStatus> {
        let agents = self.inner.agents();
        agents
            .now
            .get(id)
            .map(|agent| agent.status(agents.draining(agent)))
    }

    /// Returns the health of every agent, by id: its process, its figures and, by
    /// [`AgentHealth::verdict`], a problem in words. A removed agent is included while it has
    /// sessions.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn health(&self) -> Vec<AgentHealth> {
        let asked: Vec<_> = {
            let agents = self.inner.agents();
            let ask = |agent: &Arc<Agent>| {
                let (reply, answer) = oneshot::channel();
                if agent.is_linked() {
                    agent.inbox.push(Command::Health(reply));
                }
                (
                    agent.health(),
                    answer,
                    agents.draining(agent),
                    !agents.has(agent),
                )
            };
            agents
                .now
                .values()
                .chain(agents.removed())
                .map(ask)
                .collect()
        };
        let mut known = Vec::new();
        for (unlinked, answer, draining, removed) in asked {
            // An error means that there is no link now.
            let health = answer.await.unwrap_or(unlinked);
            known.push(AgentHealth {
                draining,
                removed,
                ..health
            });
        }
        known.sort_by(|one, other| one.agent.cmp(&other.agent));
        known
    }

    /// Every open session of every agent, by agent and then by age, the oldest first.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn sessions(&self) -> Vec<SessionStatus> {
        let ask = |agent: &Arc<Agent>| {
            let (reply, answer) = oneshot::channel();
            agent.inbox.push(Command::Status { of: None, reply });
            answer
        };
        let asked: Vec<_> = self
            .inner
            .agents()
            .all()
            .filter(|agent| agent.is_linked())
            .map(ask)
            .collect();
        let mut sessions = Vec::new();
        for answer in asked {
            // An error means that the link is gone, and its sessions with it.
            sessions.extend(answer.await.unwrap_or_default());
        }
        sessions.sort_by(|one, other| one.agent.cmp(&other.agent).then(other.age.cmp(&one.age)));
        sessions
    }

    /// Returns the agents for `describe`: those without known declarations that it has not asked
    /// yet.
    pub(crate) fn undescribed(&self) -> Vec<Arc<AgentShared>> {
        let may_ask = |agent: &Agent| agent.shared.config.sdk && agent.make.is_some();
        let unknown = |agent: &&Arc<Agent>| may_ask(agent) && agent.shared.declaration.is_unknown();
        self.inner
            .agents()
            .now
            .values()
            .filter(unknown)
            .map(|agent| agent.shared.clone())
            .collect()
    }

    /// The folder for what outlives a host, if there is one.
    pub(crate) fn state_dir(&self) -> Option<&Path> {
        self.inner.state_dir.as_deref()
    }

    /// Returns what an agent's process would be started from now, for a diagnosis. `None` for an
    /// unknown agent, for one that may not run, and for one that is reached over streams. Starts
    /// nothing; makes the folders that the process would have, which go with the host, and reads
    /// the files that its variables name, so it blocks.
    ///
    /// # Errors
    /// When a folder cannot be made, or a variable has no value.
    #[must_use]
    pub fn child_spec(&self, agent: &str) -> Option<Result<ChildSpec, SpecError>> {
        let (shared, make) = {
            let agents = self.inner.agents();
            let agent = agents.now.get(agent)?;
            (agent.shared.clone(), agent.make.clone()?)
        };
        let made = shared.make_folders().map_err(SpecError::Folder);
        Some(made.and_then(|_| Ok(make()?)))
    }

    /// Starts the process of an agent again at once, if it has failed or waits for its next start;
    /// so for its earlier configurations that have sessions. Does nothing otherwise, and nothing
    /// for an unknown id.
    pub fn retry(&self, agent: &str) {
        let agents = self.inner.agents();
        for agent in agents
            .all()
            .filter(|one| *one.shared.id == *agent && one.is_linked())
        {
            agent.inbox.push(Command::Retry);
        }
    }

    /// Ends the process of an agent by force, and returns when it has ended; the next input starts
    /// another one. The processes of its earlier configurations and in other folders end, too. Running
    /// turns and inputs that the process was to get end with [`Cause::ProcessExit`], and their
    /// sessions continue, or are closed, as after any end of the process. It does not count as a
    /// failed start, and a back-off ends.
    ///
    /// # Errors
    /// [`OpenError::UnknownAgent`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the restart.
    pub async fn restart_agent(&self, id: &str) -> Result<(), OpenError> {
        let restart = |agent: &Arc<Agent>| {
            let (done, ended) = oneshot::channel();
            if agent.is_linked() {
                agent.inbox.push(Command::Restart(done));
            }
            ended
        };
        let ends: Vec<_> = {
            let agents = self.inner.agents();
            let of_id = agents.all().filter(|agent| *agent.shared.id == *id);
            of_id.map(restart).collect()
        };
        if ends.is_empty() {
            self.named(id)?;
        }
        for ended in ends {
            // The drop of the other end is the answer.
            let _ = ended.await;
        }
        Ok(())
    }

    /// Keeps a file, a folder or a socket from all that starts in a sandbox from now on, although
    /// it may read or write around it. It has to be there by then, and stay: what takes its place
    /// is seen. A journal, a relay's sockets and a wire log are kept from them without being named
    /// here.
    pub fn hide(&self, path: impl Into<PathBuf>) {
        let mut covered = self
            .inner
            .parts
            .covered
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        covered.insert(absolute(path.into()));
    }

    /// Keeps what starts in a sandbox from a port of this machine, in all hosts of this process. An
    /// entry of a sandbox's network list that names the address and the port opens it.
    pub fn hide_port(&self, port: u16) {
        trunkline_sandbox::network::guard_port(port);
    }

    /// Ends every session, then every process, in four timed steps while it still reads and answers
    /// ([process.2]), and returns when all have ended. A second call waits for the same end.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the shutdown.
    pub async fn shutdown(&self) {
        self.shutdown_within(None).await;
    }

    /// Shuts down with other times than the configuration's.
    ///
    /// # Cancel safety
    /// As [`Host::shutdown`].
    pub async fn shutdown_within(&self, steps: Option<StopSteps>) {
        for ended in self.inner.signal(steps) {
            // An error means that the driver is gone, and the process with it.
            let _ = ended.await;
        }
        if let (Some(usage), Ok(runtime)) = (&self.inner.parts.usage, Handle::try_current())
            && !usage.is_idle()
        {
            let usage = usage.clone();
            // An error means that the runtime ends, too.
            let _ = runtime.spawn_blocking(move || usage.flush(FLUSH)).await;
        }
        if let (Some(taps), Ok(runtime)) = (self.inner.parts.taps.clone(), Handle::try_current()) {
            // As above.
            let _ = runtime.spawn_blocking(move || taps.sink.flush(FLUSH)).await;
        }
    }
}

impl Inner {
    fn agents(&self) -> RwLockReadGuard<'_, Agents> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn agents_mut(&self) -> RwLockWriteGuard<'_, Agents> {
        self.agents.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every running link to end.
    fn signal(&self, steps: Option<StopSteps>) -> Vec<oneshot::Receiver<()>> {
        self.down.store(true, Ordering::Release);
        let mut ends = Vec::new();
        for agent in self.agents().all().filter(|agent| agent.is_linked()) {
            let (done, ended) = oneshot::channel();
            let steps = steps.unwrap_or(agent.shared.config.timeouts.shutdown);
            agent.inbox.push(Command::Shutdown {
                steps,
                done: Some(done),
            });
            ends.push(ended);
        }
        ends
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Dropping only signals: the ends are not awaited.
        drop(self.signal(None));
    }
}

fn fresh_id() -> SessionId {
    SessionId::new(uuid::Uuid::new_v4().simple().to_string()).unwrap_or_else(|_| SessionId::none())
}

/// A number to seed jitter with.
fn seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
