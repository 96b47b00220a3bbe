//! The host: agents by id, the sessions that are opened on them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::oneshot,
};
use tracing::Instrument;
use trunkline_core::Core;
use trunkline_process::ChildSpec;
use trunkline_protocol::{AgentState, Capabilities, Model, SessionId, SessionStart};
use trunkline_wirelog::WireSink;

use crate::{
    AgentHealth, Counters, Rates, Session, SessionOptions, SessionStatus,
    agent::{self, AgentShared, Folders},
    config::{self, AgentConfig, Buffers, Config, EnvValue, Organisation, Source, StopSteps},
    declared::Declared,
    error::{BuildError, OpenError, PolicyRefusal, SpecError},
    files::Exchanges,
    link::{Command, Connect, Driver, Inbox, InboxLimits, MakeSpec, Streams, Taps},
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

/// How long a shutdown waits for the last lines of the usage log, and of a wire log.
const FLUSH: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Inner {
    agents: DashMap<Arc<str>, Agent>,
    default_agent: Option<String>,
    max_sessions: Option<usize>,
    /// The folder for what outlives a host.
    state_dir: Option<PathBuf>,
    /// Held where a session is counted in that `max_sessions` of the host may refuse.
    opening: Mutex<()>,
    down: AtomicBool,
    /// Where ended turns are written down, unless they are not.
    usage: Option<Arc<UsageLog>>,
    /// Where what passes over the links is seen, if it is.
    taps: Option<Arc<Taps>>,
    /// What the organisation's policies took, and whom they forbid.
    notices: Vec<String>,
    /// What hosts before this one left is looked for here, once.
    orphans: Orphans,
    covered: Covered,
}

/// What nothing in a sandbox sees, absolute. Each path once, and there are as many as the program has sockets and logs.
pub(crate) type Covered = Arc<RwLock<BTreeSet<PathBuf>>>;

struct Agent {
    shared: Arc<AgentShared>,
    inbox: Arc<Inbox>,
    /// How the driver begins, until it runs.
    connect: Mutex<Option<Connect>>,
    /// How its process is started; nothing for one over streams, and for one that may not run.
    make: Option<MakeSpec>,
    /// Why it may not run.
    refusal: Option<PolicyRefusal>,
}

/// The state of one agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentStatus {
    /// Its configuration.
    pub config: AgentConfig,
    /// The state of its process. One that may not run counts as failed.
    pub state: AgentState,
    /// Why it may not run, where the organisation's policy forbids it.
    pub refusal: Option<PolicyRefusal>,
    /// The capabilities that its adapter declared last, in any session or to [`Host::describe`].
    pub capabilities: Option<Capabilities>,
    /// The models that it declared last.
    pub models: Option<Vec<Model>>,
    /// Why [`Host::describe`] learnt nothing of it.
    pub undescribed: Option<String>,
    /// The counters.
    pub counters: Counters,
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
    /// Whether a configuration turns the usage log off.
    no_usage_log: bool,
    wire_sink: Option<Arc<dyn WireSink>>,
    buffers: Buffers,
    /// The files that configurations came from, and others that decide what runs.
    read: Vec<PathBuf>,
    /// The folder of the journal that a configuration names.
    journal: Option<PathBuf>,
    /// Whether one was read, so that the next host may look for one where this did.
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

    /// Adds an agent whose adapter is reached over streams instead of a process's pipes: an in-memory pipe, say.
    ///
    /// `connect` is called for each run of the adapter and gives its output to read and its input to write.
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
        self.agents.insert(agent.id.clone(), (agent, Some(Connect::Streams(Box::new(streams)))));
        self
    }

    /// Takes agents, default, limits and folders of a configuration. Its `usage_log` does not ask for a usage log by
    /// itself; see [`HostBuilder::usage_log`].
    ///
    /// A second call adds its agents, of which one replaces an earlier one of the same id. Of the other values it
    /// replaces those that it has; `buffers` it always replaces.
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

    /// Sets the folder for what outlives a process: records of live process trees, by which the next host ends what a
    /// power cut left. Without it: the user's state folder ([`config::state_dir`]).
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// A file with a policy that narrows what agents are given, besides [`config::defaults::POLICY`], which counts wherever
    /// it is there.
    #[must_use]
    pub fn policy(mut self, file: impl Into<PathBuf>) -> Self {
        self.policy = Some(file.into());
        self
    }

    /// A file that decides what runs, such as the program's own configuration: nothing in a sandbox changes it. The file of a
    /// [`Config`] that was read, the policies and the files that variables come from are such files without being named.
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

    /// Sets whether each ended turn becomes a line of a [usage log](crate::usage) in the state folder, where there
    /// is such a folder. Without this none is written. A configuration's `usage_log: false` counts more.
    #[must_use]
    pub fn usage_log(self, is_on: bool) -> Self {
        Self { usage_log: is_on, ..self }
    }

    /// Hands all that passes between the host and its adapters to a sink, secrets included: bytes in both directions, stderr,
    /// and the start and end of processes. A [`WireLog`](crate::wirelog::WireLog) writes them to a file, without secrets. The
    /// host waits for it at the end of [`Host::shutdown`], for at most a second. Without a sink nothing is handed on.
    #[must_use]
    pub fn wire_sink(self, sink: Arc<dyn WireSink>) -> Self {
        Self { wire_sink: Some(sink), ..self }
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
    /// When there is no folder for temporary files, or a policy cannot be read. An agent that a policy forbids is not an error
    /// here, but one of [`Host::open`].
    pub fn build(mut self) -> Result<Host, BuildError> {
        let Narrowed { notices, mut refusals, policies } = self.narrow()?;
        let Trusted { unwritable, reserved } = self.trusted(policies);
        let state_dir = self.state_dir.or_else(|| config::state_dir(|name| std::env::var_os(name)));
        let records = state_dir.as_ref().map(|state| state.join(RECORDS));
        let log = |state| Arc::new(UsageLog::new(state, config::defaults::USAGE_LOG_BYTES));
        let usage = state_dir.clone().filter(|_| self.usage_log && !self.no_usage_log).map(log);
        let is_sandboxed = self.agents.values().any(|(agent, _)| agent.sandbox.is_some());
        let logs = self.wire_sink.iter().filter(|_| is_sandboxed).flat_map(|sink| sink.files());
        let covered = logs.chain(self.journal).map(absolute).collect();
        let covered: Covered = Arc::new(RwLock::new(covered));
        let taps = self.wire_sink.map(|sink| Arc::new(Taps::new(sink)));
        let folder = Arc::new(HostFolder::new(records.clone())?);
        let spool_dir = self.spool_dir.unwrap_or_else(config::spool_dir);
        let store = Arc::new(Store::new(spool_dir, self.buffers));
        let profiles =
            self.profiles.unwrap_or_else(|| config::defaults::PROFILE_COMMAND.map(str::to_owned).to_vec());
        let agents = DashMap::new();
        // What a policy forbids is not run to clean up either.
        let allowed = self.agents.values().filter(|(config, _)| !refusals.contains_key(&config.id));
        let sandboxes = allowed.filter_map(|(config, _)| config.sandbox.as_ref());
        let orphans = Orphans::new(records.clone(), sandboxes.map(|sandbox| &sandbox.backend));
        for (number, (config, connect)) in self.agents.into_values().enumerate() {
            let exchange = folder.path().join("exchange").join(number.to_string());
            let exchanges = Exchanges::named(&exchange).removed_by(folder.remover.clone());
            let limits = InboxLimits {
                queued_inputs: config.limits.queued_inputs,
                outbox: config.limits.outbox,
                max_file_bytes: config.limits.max_file_bytes,
            };
            let exchanges = Arc::new(exchanges);
            let inbox = Arc::new(Inbox::new(limits, store.clone(), exchanges.clone()));
            agent::register_secrets(&config);
            let refusal = refusals.remove(&config.id);
            let shared =
                Arc::new(AgentShared::new(config, exchanges, usage.clone(), taps.clone(), folder.clone()));
            if refusal.is_some() {
                shared.set_state(AgentState::Failed);
            }
            let make: Option<MakeSpec> = (connect.is_none() && refusal.is_none()).then(|| {
                let (config, profiles) = (shared.config.clone(), profiles.clone());
                let folders = Folders {
                    private: folder.path().to_owned(),
                    exchange,
                    records: records.clone(),
                    unwritable: unwritable.clone(),
                    reserved: reserved.clone(),
                    covered: covered.clone(),
                };
                Arc::new(move || agent::child_spec(&config, &profiles, &folders)) as MakeSpec
            });
            let connect = connect.or_else(|| make.clone().map(Connect::Process));
            let agent = Agent { shared, inbox, connect: Mutex::new(connect), make, refusal };
            agents.insert(agent.shared.id.clone(), agent);
        }
        let inner = Inner {
            agents,
            default_agent: self.default_agent.or(self.first),
            max_sessions: self.max_sessions,
            state_dir,
            opening: Mutex::default(),
            down: AtomicBool::new(false),
            usage,
            taps,
            notices,
            orphans,
            covered,
        };
        Ok(Host { inner: Arc::new(inner) })
    }

    /// Applies the organisation's policies to every agent that is a process.
    fn narrow(&mut self) -> Result<Narrowed, BuildError> {
        let policies = Organisation::of_this_machine(self.policy.as_deref()).map_err(BuildError::Policy)?;
        let mut narrowed = Narrowed {
            policies: policies.iter().map(|policy| policy.path().to_owned()).collect(),
            ..Narrowed::default()
        };
        let processes = self.agents.values_mut().filter(|(_, connect)| connect.is_none());
        for (agent, _) in processes {
            let mut said = Vec::new();
            match narrow(agent, &policies, &mut said) {
                Ok(()) => narrowed.notices.extend(said),
                Err(refusal) => {
                    narrowed.notices.push(format!("agent {} may not run: {refusal}", agent.id));
                    narrowed.refusals.insert(agent.id.clone(), refusal);
                }
            }
        }
        Ok(narrowed)
    }

    /// What decides over what runs: the configuration, the policies, and the files that variables come from.
    fn trusted(&self, policies: Vec<PathBuf>) -> Trusted {
        let values = self.agents.values().flat_map(|(agent, _)| agent.command.env.values());
        let sources = values.filter_map(|value| match value {
            EnvValue::FromFile(path) => Some(path.clone()),
            _ => None,
        });
        let unwritable = self.read.iter().cloned().chain(policies).chain(sources).map(absolute).collect();
        let variable = |name: &str| std::env::var_os(name).filter(|_| name != config::FILE_VARIABLE);
        let searched = config::candidates(None, variable);
        let searched = searched.iter().filter_map(|source| source.path().map(Path::to_owned));
        let policy = PathBuf::from(config::defaults::POLICY);
        let reserved = searched.chain([policy]).filter(|_| self.looks).map(absolute).collect();
        Trusted { unwritable, reserved }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Files that no sandbox lets a child change, absolute.
struct Trusted {
    unwritable: Arc<[PathBuf]>,
    reserved: Arc<[PathBuf]>,
}

/// What the organisation's policies have done.
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
        let said = policy
            .narrow(agent)
            .map_err(|error| PolicyRefusal { policy: path.to_owned(), reason: error.to_string() })?;
        let by = path.display();
        notices.extend(said.iter().map(|said| format!("agent {}: {said} (policy {by})", agent.id)));
    }
    Ok(())
}

impl Host {
    /// Begins to make a host.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Opens a session on an agent and starts the agent's process where it does not run. Waits for nothing: what goes
    /// wrong with the start ends the inputs that wait for it.
    ///
    /// Must be called within a tokio runtime, on which the agent's link then runs.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such agent, the organisation's policy forbids it, its limit is reached, an option
    /// would widen its configuration, or its options hold more secrets than logs can be kept free of.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(&self, agent: &str, options: SessionOptions) -> Result<Session, OpenError> {
        if self.inner.down.load(Ordering::Acquire) {
            return Err(OpenError::Shutdown);
        }
        let (shared, inbox) = self.link(agent)?;
        let SessionOptions { id, start, meta, delivery } = options;
        let cwd = session_options::open(&shared.config, &start)
            .map_err(|option| OpenError::WouldWiden { agent: shared.id.to_string(), option })?;
        let secrets = shared.hold_secrets(&start)?;
        self.make_room(&shared)?;
        let chosen = id.is_some();
        let id = id.unwrap_or_else(fresh_id);
        let session = Arc::new(SessionShared::new(id, shared, inbox, delivery, cwd, secrets));
        if session.agent.names_exchange
            && let Err(error) = session.exchange()
        {
            // Gives its room back.
            session.set_closed();
            return Err(OpenError::Exchange(error));
        }
        let start = (start != SessionStart::default()).then(|| Box::new(start));
        let meta = meta.map(Box::new);
        session.command(Command::Open { session: session.clone(), chosen, start, meta });
        Ok(Session::new(session))
    }

    /// Starts the process of each agent that is to stand by (`standby`), where it does not run yet. Each has one process
    /// at most, which [`Host::shutdown`] ends. An agent that may not run is left out, with a warning.
    ///
    /// # Panics
    /// Outside a tokio runtime, where an agent is to stand by.
    pub fn stand_by(&self) {
        if self.inner.down.load(Ordering::Acquire) {
            return;
        }
        let agents = self.inner.agents.iter().filter(|entry| entry.shared.config.standby);
        let agents: Vec<_> = agents.map(|entry| entry.shared.id.clone()).collect();
        for agent in agents {
            match self.link(&agent) {
                Ok((_, inbox)) => inbox.push(Command::Standby),
                Err(error) => tracing::warn!(agent = &*agent, %error, "the agent does not stand by"),
            }
        }
    }

    /// Counts a session in, unless the agent's or the host's limit is reached.
    fn make_room(&self, agent: &AgentShared) -> Result<(), OpenError> {
        let _one_at_a_time = match self.inner.max_sessions {
            Some(limit) => {
                let guard = self.inner.opening.lock().unwrap_or_else(PoisonError::into_inner);
                let open = self.inner.agents.iter().map(|entry| entry.shared.opened.load(Ordering::Acquire));
                if open.sum::<usize>() >= limit {
                    return Err(OpenError::TooManySessions { agent: None, limit });
                }
                Some(guard)
            }
            None => None,
        };
        let before = agent.opened.fetch_add(1, Ordering::AcqRel);
        let is_reached = |limit: &usize| before >= *limit;
        let error = if let Some(limit) = agent.limits.max_sessions.filter(is_reached) {
            OpenError::TooManySessions { agent: Some(agent.id.to_string()), limit }
        } else if let Some(limit) = agent.declaration.max_sessions().filter(is_reached) {
            OpenError::AdapterFull { agent: agent.id.to_string(), limit }
        } else {
            return Ok(());
        };
        agent.opened.fetch_sub(1, Ordering::AcqRel);
        Err(error)
    }

    /// The agent's link, whose driver runs from now on.
    fn link(&self, agent: &str) -> Result<(Arc<AgentShared>, Arc<Inbox>), OpenError> {
        let Some(entry) = self.inner.agents.get(agent) else {
            let known = self.agents().into_iter().map(|agent| agent.config.id).collect();
            return Err(OpenError::UnknownAgent { id: agent.to_owned(), known });
        };
        if let Some(refusal) = &entry.refusal {
            return Err(refusal.clone().of(agent));
        }
        // Before the rest: outside a runtime the agent stays as it was.
        let runtime = Handle::current();
        if !entry.is_linked() {
            let shared = entry.shared.clone();
            let files = shared.make_folders().map_err(OpenError::Folder)?;
            // Of two that race one finds that the other has done it.
            let Some(connect) = entry.take_connect() else { return Ok((shared, entry.inbox.clone())) };
            shared.folder.record();
            self.inner.orphans.sweep(&runtime);
            let core = Core::new(agent::rules(&shared.config), seed());
            let roots = agent::roots(&shared.config);
            let span = tracing::info_span!("adapter", agent = &*shared.id);
            runtime.spawn(
                Driver::new(core, shared, entry.inbox.clone(), connect, files, roots).run().instrument(span),
            );
            if self.inner.down.load(Ordering::Acquire) {
                // The shutdown looked before the driver was there.
                let steps = entry.shared.config.timeouts.shutdown;
                entry.inbox.push(Command::Shutdown { steps, done: None });
            }
        }
        Ok((entry.shared.clone(), entry.inbox.clone()))
    }

    /// The changes that the organisation's policies made to agents' entries, and the agents that they forbid, one
    /// sentence each, for the operator.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.inner.notices
    }

    /// The agent of sessions that name none. `None` for a host without agents.
    #[must_use]
    pub fn default_agent(&self) -> Option<&str> {
        self.inner.default_agent.as_deref()
    }

    /// Every agent, by id.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentStatus> {
        let mut agents: Vec<_> = self.inner.agents.iter().map(|entry| entry.value().status()).collect();
        agents.sort_by(|one, other| one.config.id.cmp(&other.config.id));
        agents
    }

    /// The status of one agent. `None` for an unknown id.
    #[must_use]
    pub fn agent(&self, id: &str) -> Option<AgentStatus> {
        self.inner.agents.get(id).map(|entry| entry.status())
    }

    /// How every agent is, by id: its process, its figures and, by [`AgentHealth::verdict`], what is wrong in words.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn health(&self) -> Vec<AgentHealth> {
        let ask = |agent: &Agent| {
            let (reply, answer) = oneshot::channel();
            if agent.is_linked() {
                agent.inbox.push(Command::Health(reply));
            }
            (agent.health(), answer)
        };
        let asked: Vec<_> = self.inner.agents.iter().map(|entry| ask(&entry)).collect();
        let mut agents = Vec::new();
        for (unlinked, answer) in asked {
            // An error means that there is no link, or not any more.
            agents.push(answer.await.unwrap_or(unlinked));
        }
        agents.sort_by(|one, other| one.agent.cmp(&other.agent));
        agents
    }

    /// Every open session of every agent, by agent and then by age, the oldest first.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn sessions(&self) -> Vec<SessionStatus> {
        let ask = |agent: &Agent| {
            let (reply, answer) = oneshot::channel();
            agent.inbox.push(Command::Status { of: None, reply });
            answer
        };
        let linked = self.inner.agents.iter().filter(|entry| entry.is_linked());
        let asked: Vec<_> = linked.map(|entry| ask(&entry)).collect();
        let mut sessions = Vec::new();
        for answer in asked {
            // An error means that the link is gone, and its sessions with it.
            sessions.extend(answer.await.unwrap_or_default());
        }
        sessions.sort_by(|one, other| one.agent.cmp(&other.agent).then(other.age.cmp(&one.age)));
        sessions
    }

    /// What `describe` works on: the agents that it has not asked yet, and of which nothing is known.
    pub(crate) fn undescribed(&self) -> Vec<Arc<AgentShared>> {
        let may_ask = |agent: &Agent| agent.shared.config.sdk && agent.make.is_some();
        let unknown = |agent: &Agent| may_ask(agent) && agent.shared.declaration.is_unknown();
        self.inner.agents.iter().filter(|entry| unknown(entry)).map(|entry| entry.shared.clone()).collect()
    }

    /// The folder for what outlives a host, if there is one.
    pub(crate) fn state_dir(&self) -> Option<&Path> {
        self.inner.state_dir.as_deref()
    }

    /// Returns what an agent's process would be started from now, for a diagnosis. `None` for an unknown agent,
    /// for one that may not run, and for one that is reached over streams. Starts nothing; makes the folders that the
    /// process would have, which go with the host, and reads the files that its variables name, so it blocks.
    ///
    /// # Errors
    /// When a folder cannot be made, or a variable has no value.
    #[must_use]
    pub fn child_spec(&self, agent: &str) -> Option<Result<ChildSpec, SpecError>> {
        let (shared, make) = {
            let entry = self.inner.agents.get(agent)?;
            (entry.shared.clone(), entry.make.clone()?)
        };
        let made = shared.make_folders().map_err(SpecError::Folder);
        Some(made.and_then(|_| Ok(make()?)))
    }

    /// Starts the process of an agent again at once, if it has failed or waits for its next start. Does nothing
    /// otherwise, and nothing for an unknown id.
    pub fn retry(&self, agent: &str) {
        if let Some(entry) = self.inner.agents.get(agent) {
            entry.inbox.push(Command::Retry);
        }
    }

    /// Keeps a file, a folder or a socket from all that starts in a sandbox from now on, although it may read or write around
    /// it. It has to be there by then, and stay: what takes its place is seen. A journal, a relay's sockets and a wire log are
    /// kept from them without being named here.
    pub fn hide(&self, path: impl Into<PathBuf>) {
        let mut covered = self.inner.covered.write().unwrap_or_else(PoisonError::into_inner);
        covered.insert(absolute(path.into()));
    }

    /// Ends every session, then every process, in four timed steps while it still reads and answers ([process.2]), and
    /// returns when all are gone. A second call waits for the same end.
    ///
    /// # Cancel safety
    /// Dropping the future lets the shutdown go on.
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
        if let (Some(usage), Ok(runtime)) = (&self.inner.usage, Handle::try_current())
            && !usage.is_idle()
        {
            let usage = usage.clone();
            // An error means that the runtime ends, too.
            let _ = runtime.spawn_blocking(move || usage.flush(FLUSH)).await;
        }
        if let (Some(taps), Ok(runtime)) = (self.inner.taps.clone(), Handle::try_current()) {
            // As above.
            let _ = runtime.spawn_blocking(move || taps.sink.flush(FLUSH)).await;
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Agent {
    fn take_connect(&self) -> Option<Connect> {
        self.connect.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether its driver runs.
    fn is_linked(&self) -> bool {
        self.refusal.is_none() && self.connect.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn status(&self) -> AgentStatus {
        let Declared { capabilities, models, undescribed } = self.shared.declaration.get();
        AgentStatus {
            capabilities,
            models,
            undescribed,
            config: self.shared.config.clone(),
            state: self.shared.state(),
            refusal: self.refusal.clone(),
            counters: self.shared.counters.snapshot(),
        }
    }
}

impl Agent {
    /// How it is while it has no link.
    fn health(&self) -> AgentHealth {
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
            rates: Rates::default(),
            counters: self.shared.counters.snapshot(),
        }
    }
}

impl Inner {
    /// Tells every running link to end.
    fn signal(&self, steps: Option<StopSteps>) -> Vec<oneshot::Receiver<()>> {
        self.down.store(true, Ordering::Release);
        let mut ends = Vec::new();
        for entry in self.agents.iter().filter(|entry| entry.is_linked()) {
            let (done, ended) = oneshot::channel();
            let steps = steps.unwrap_or(entry.shared.config.timeouts.shutdown);
            entry.inbox.push(Command::Shutdown { steps, done: Some(done) });
            ends.push(ended);
        }
        ends
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Dropping only signals: no one waits for the ends.
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
