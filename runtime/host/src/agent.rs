//! An agent of a host: its configuration, its link, and its public state.

use std::{
    collections::BTreeMap,
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use serde_json::Value;
use trunkline_core::{
    Backoff, OutputRate, ReliedOn, Rules,
    policy::{LastingRule, Policy},
};
use trunkline_process::{ChildSpec, Inherit, ShownArguments};
use trunkline_protocol::{AgentState, Extensions, SessionStart};
use trunkline_redact::{self as redact, HeldSecrets, SecretInputs};
use trunkline_sandbox::resolve_guarded;

use crate::{
    config::{AgentConfig, EnvError, EnvValue, Limits, OnAdapterExit, Profile, Unenforced},
    counters::LiveCounters,
    declared::Declaration,
    error::OpenError,
    files::{Exchanges, Pinned, StoreDir},
    host::Covered,
    link::Taps,
    orphans::HostFolder,
    usage::UsageLog,
};

/// The lasting rules of all agents, by the agents' ids.
pub(crate) type LastingRules = Arc<Mutex<BTreeMap<String, Vec<LastingRule>>>>;

/// State shared by an agent's handles and its driver.
#[derive(Debug)]
pub(crate) struct AgentShared {
    pub(crate) id: Arc<str>,
    pub(crate) config: AgentConfig,
    pub(crate) limits: Limits,
    exchanges: Arc<Exchanges>,
    pub(crate) counters: Arc<LiveCounters>,
    /// Log of ended turns, if there is one.
    pub(crate) usage: Option<Arc<UsageLog>>,
    /// Taps that see the traffic of its link, if there are any.
    pub(crate) taps: Option<Arc<Taps>>,
    /// True if `session.start` names the exchange folder.
    pub(crate) names_exchange: bool,
    /// Sessions that are open, counted when they are asked for.
    pub(crate) opened: AtomicUsize,
    /// Identity and capabilities that its adapter declares.
    pub(crate) declaration: Declaration,
    lasting_rules: LastingRules,
    state: AtomicU8,
    /// The host's private folder: exchange folders, copies of files. Removed with the last agent,
    /// driver and session.
    pub(crate) folder: Arc<HostFolder>,
}

impl AgentShared {
    pub(crate) fn new(
        config: AgentConfig,
        declaration: Declaration,
        exchanges: Arc<Exchanges>,
        usage: Option<Arc<UsageLog>>,
        taps: Option<Arc<Taps>>,
        folder: Arc<HostFolder>,
        lasting_rules: LastingRules,
    ) -> Self {
        Self {
            id: config.id.as_str().into(),
            limits: config.limits.clone(),
            names_exchange: offered(&config).contains(Extensions::OPTIONS),
            config,
            exchanges,
            counters: Arc::default(),
            usage,
            taps,
            opened: AtomicUsize::new(0),
            declaration,
            lasting_rules,
            state: AtomicU8::new(0),
            folder,
        }
    }

    /// Makes the host's private folder and in it the agent's, unless they exist. Returns the place
    /// for copies of files.
    pub(crate) fn make_folders(&self) -> io::Result<Arc<StoreDir>> {
        let files = self.folder.make()?;
        self.exchanges.prepare()?;
        Ok(files)
    }

    /// The policy of its permissions, with the lasting rules that it has now.
    pub(crate) fn policy(&self) -> Policy {
        let rules = self.lasting_rules.lock();
        let rules = rules.unwrap_or_else(PoisonError::into_inner);
        let own = rules.get(&*self.id).cloned().unwrap_or_default();
        self.config.permission.clone().with_lasting(own)
    }

    /// The state of the agent.
    pub(crate) fn state(&self) -> AgentState {
        match self.state.load(Ordering::Relaxed) {
            0 => AgentState::Idle,
            1 => AgentState::Running,
            _ => AgentState::Failed,
        }
    }

    pub(crate) fn set_state(&self, state: AgentState) {
        let number = match state {
            AgentState::Idle => 0,
            AgentState::Running => 1,
            AgentState::Failed => 2,
        };
        self.state.store(number, Ordering::Relaxed);
    }

    /// No new sessions go to it: its folder goes with its last session.
    pub(crate) fn retire(&self) {
        self.exchanges.retire();
    }

    /// Makes known what its options hand over in secret, so that no log, error or stderr shows it
    /// while the session lives.
    pub(crate) fn hold_secrets(&self, start: &SessionStart) -> Result<HeldSecrets, OpenError> {
        let variables = start.env.iter().chain(&start.variables).flatten();
        let mut given = SecretInputs::default()
            .variables(variables)
            .arguments(start.extra_args.iter().flatten());
        // What cannot be read is the adapter's to complain about.
        if let Some(Ok(servers)) = start
            .mcp_servers
            .as_ref()
            .map(|servers| servers.to::<Value>())
        {
            given = given.json(&servers);
        }
        given.hold().map_err(|source| OpenError::TooManySecrets {
            agent: self.id.to_string(),
            source,
        })
    }
}

/// The directory that the agent's process runs in.
pub(crate) fn work_dir(config: &AgentConfig) -> Option<PathBuf> {
    let configured = &config.command.work_dir;
    if configured.as_os_str().is_empty() {
        return std::env::current_dir().ok();
    }
    std::path::absolute(configured).ok()
}

/// Returns the extensions offered to the agent's adapter.
pub(crate) fn offered(config: &AgentConfig) -> Extensions {
    config
        .extensions
        .as_ref()
        .map_or(Extensions::all(), Extensions::from_names)
}

/// The folders that files may come from, besides each session's own ([file.4]). To be called before
/// the adapter runs: where their paths lead is found out here, once.
///
/// A sandboxed adapter writes to folders that the host sees too. A link that it could change must
/// not become a root elsewhere, so a folder that such a link leads to is none.
pub(crate) fn roots(config: &AgentConfig) -> Vec<Pinned> {
    let folders = config.file_roots.iter().cloned().chain(work_dir(config));
    let guarded = |root: &Pinned| {
        let is_guarded = resolve_guarded(root.named()).as_deref() == Some(root.real());
        if !is_guarded {
            tracing::warn!(agent = config.id, folder = ?root, "no file may come from there: an agent in a sandbox can change a link on the way");
        }
        is_guarded
    };
    folders
        .filter_map(|folder| {
            Pinned::new(&folder)
                .inspect_err(|error| tracing::warn!(agent = config.id, %error, "no file may come from there"))
                .ok()
        })
        .filter(guarded)
        .collect()
}

/// Registers the folders that sandboxed agents may write: no path of an agent may lead through a
/// link in one of them from now on. For a program that looks at some agents of a configuration; a
/// host does so for its own. Reads metadata of files, so it blocks.
pub fn guard_writable<'a>(agents: impl IntoIterator<Item = &'a AgentConfig>) {
    let sandboxed = agents
        .into_iter()
        .filter_map(|agent| Some((&*agent.id, agent.sandbox.as_ref()?, work_dir(agent)?)));
    trunkline_sandbox::guard_writable(sandboxed);
}

/// Returns the rules for the core.
pub(crate) fn rules(config: &AgentConfig) -> Rules {
    let timeouts = &config.timeouts;
    let limits = &config.limits;
    let named = work_dir(config);
    let real = named.as_ref().and_then(|dir| dir.canonicalize().ok());
    Rules {
        offered: offered(config),
        max_line: config.limits.max_line,
        policy: config.permission.clone(),
        work_dirs: named.into_iter().chain(real).collect(),
        start_timeout: timeouts.start,
        turn_timeout: timeouts.turn,
        inactivity_timeout: timeouts.inactivity,
        stall_after: timeouts.stall_after(),
        ping_after: timeouts.ping,
        stop_timeout: timeouts.stop,
        permission_timeout: timeouts.permission,
        max_turn_output: limits.max_turn_output,
        output_rate: limits.max_output_rate.map(|bytes_per_second| OutputRate {
            bytes_per_second,
            burst: limits.output_burst,
        }),
        max_open_requests: limits.max_open_requests,
        tool_loop: config.tool_loop,
        standby: config.standby,
        close_on_exit: config.on_adapter_exit == OnAdapterExit::Close,
        relied_on: match config.unenforced {
            Unenforced::Allow => ReliedOn::Nothing,
            Unenforced::Refuse => ReliedOn::Restrictions,
            Unenforced::RefuseAny => ReliedOn::Everything,
        },
        is_in_cwd: false,
        backoff: Backoff {
            base: config.restart.base,
            cap: config.restart.cap,
            failures: config.restart.failures,
            window: config.restart.window,
            retry: config.restart.retry,
        },
    }
}

/// Paths of a host for its processes.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The private folders of processes are made here.
    pub(crate) private: PathBuf,
    /// The exchange folders of one agent's sessions: a sandbox grants it, and no other agent's.
    pub(crate) exchange: PathBuf,
    /// The records of live process trees.
    pub(crate) records: Option<PathBuf>,
    /// Files that the host reads and trusts. Nothing in a sandbox changes them.
    pub(crate) unwritable: Arc<[PathBuf]>,
    /// Paths at which hosts look for such files. Nothing in a sandbox can make one there.
    pub(crate) reserved: Arc<[PathBuf]>,
    /// Paths that nothing in a sandbox sees.
    pub(crate) covered: Covered,
}

/// Registers the secrets of an agent's configuration with every sink before the first output.
/// Secrets in files follow when they are read, for a start.
pub(crate) fn register_secrets(config: &AgentConfig) {
    let mut spec = ChildSpec::new(&config.command.command).args(&config.command.args);
    for (name, value) in &config.command.env {
        if let EnvValue::Text(text) = value {
            spec = spec.env(name, text);
        }
    }
    if let Some(json) = &config.config {
        spec = spec.config(json.to_string());
    }
    spec.register_secrets();
}

/// Returns the description of the agent's process, with the present values of its variables. A
/// built-in profile is the same program, run as that adapter. Reads files, so it blocks.
pub(crate) fn child_spec(
    config: &AgentConfig,
    profiles: &[String],
    folders: &Folders,
) -> Result<ChildSpec, EnvError> {
    let command = &config.command;
    let mut spec = match &config.profile {
        Profile::External => ChildSpec::new(&command.command).args(&command.args),
        Profile::BuiltIn(name) => {
            let (program, args) = profiles
                .split_first()
                .map_or(("trunkline", [].as_slice()), |(program, args)| {
                    (program, args)
                });
            ChildSpec::new(program).args(args).arg(name)
        }
    };
    if !command.work_dir.as_os_str().is_empty() {
        spec = spec.work_dir(&command.work_dir);
    }
    let credentials = if config.pass_credentials {
        config.credentials.as_slice()
    } else {
        &[]
    };
    for name in config.env_passthrough.iter().chain(credentials) {
        if let Some(value) = std::env::var_os(name) {
            spec = spec.env(name, value);
        }
    }
    for (name, value) in &command.env {
        let read = value.read(name, |variable| std::env::var_os(variable))?;
        if value.is_place() {
            redact::register(name, read.as_bytes());
        }
        spec = spec.env(name, read);
    }
    if let Some(json) = &config.config {
        spec = spec.config(json.to_string());
    }
    if config.inherit_env {
        spec = spec.inherit(Inherit::All);
    }
    if let Some(sandbox) = &config.sandbox {
        spec = spec.sandbox(sandbox.clone());
        spec.unwritable = folders.unwritable.to_vec();
        spec.reserved = folders.reserved.to_vec();
        let covered = folders
            .covered
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        spec.covered = covered.iter().cloned().collect();
    }
    if let Some(records) = &folders.records {
        spec = spec.record_dir(records);
    }
    Ok(spec
        .shown(ShownArguments::All)
        .containment(config.containment)
        .at_least(config.at_least)
        .limits(config.resources)
        .exchange(&folders.exchange)
        .label(&config.id)
        .private_root(&folders.private))
}
