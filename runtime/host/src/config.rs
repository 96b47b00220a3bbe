//! The configuration: the agents, their programs, and their rights.
//!
//! An embedder builds a [`Config`] of [`AgentConfig`]s in code. An operator writes it as a JSON
//! file, in the published form of an Amurg runtime file, extended:
//!
//! ```json
//! {
//!   "agents": [
//!     {
//!       "id": "custom-agent",
//!       "name": "Custom Agent",
//!       "profile": "external",
//!       "external": {
//!         "command": "/usr/local/bin/my-adapter",
//!         "args": ["--mode", "jsonl"],
//!         "work_dir": "/opt/agents",
//!         "env": { "LOG_LEVEL": "debug" }
//!       },
//!       "turn_timeout": "1h",
//!       "permission": { "allow": ["Bash(git log*)"], "deny": ["Read(**/.env)"] }
//!     }
//!   ],
//!   "default_agent": "custom-agent",
//!   "runtime": { "max_sessions": 10, "max_file_bytes": "10MiB" }
//! }
//! ```
//!
//! `runtime` holds the settings of the whole host, and the timeouts and limits of every agent that
//! does not set its own. Every key has a default ([`defaults`]) except `agents`, an agent's `id`
//! and an external agent's `command`. An unknown key is an error that names the nearest known one;
//! keys of an Amurg file that have no meaning here are accepted and listed in [`Config::notices`].
//!
//! The confinement of a process ([`Containment`], [`Resources`], [`Sandbox`]) is set for an agent,
//! or in `runtime` for every agent without its own; an agent's `sandbox` replaces the whole of
//! `runtime`'s, and `"none"` removes it:
//!
//! ```json
//! {
//!   "containment": "auto",
//!   "resources": { "processes": 4096, "open_files": "none", "memory": "2GiB" },
//!   "sandbox": {
//!     "backend": "bubblewrap",
//!     "read_only": ["/opt/tools"],
//!     "writable": ["cache"],
//!     "network": { "allow": ["api.example.com", "*.example.org"] },
//!     "user": "1000:1000",
//!     "memory": "1GiB",
//!     "pids": 512
//!   }
//! }
//! ```
//!
//! `containment` is `auto`, `namespace`, `reaper` or `group`. In `resources`, 0 and `"none"` set no
//! limit; `memory` and `pids` of a sandbox are other names of `memory` and `processes` in
//! `resources`. `backend` is `bubblewrap`, or `podman` or `docker` with an `image`; `network` is
//! `"none"` (the default), `"all"`, or `allow`. The domains that a session may choose and the
//! reachable ones cannot differ: without `network` a sandbox reaches the agent's `allowed_domains`,
//! without `allowed_domains` a session may choose among the domains of the sandbox, and with both
//! each domain must be within the network.
//!
//! A value of `env` is a text or names a place that has it ([`EnvValue`]), so that the file holds
//! no secret:
//!
//! ```json
//! { "env": { "API_KEY": { "from_file": "/run/secrets/key" }, "TOKEN": { "from_env": "CI_TOKEN" }, "LOG": "debug" } }
//! ```
//!
//! `env` belongs in the object of the agent's profile (`external`, `claude_code`, …) or in the
//! agent itself, not in both. In either place its variables are for the process that the host
//! starts; the configuration of a built-in profile has no `env`. Places are read when a process
//! starts; one without a value is an error that ends the waiting inputs.
//!
//! Durations are texts such as `"1h30m"` or numbers of seconds; sizes are texts such as `"16MiB"`
//! or numbers of bytes. Relative paths are relative to the folder of the file, except a `work_dir`,
//! which is relative to the host's current directory. `null` equals absent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trunkline_wirelog::Content;

mod agent;
mod amurg;
mod confinement;
pub mod defaults;
mod document;
mod env_value;
mod error;
mod form;
mod json;
mod keys;
mod limits;
mod lookup;
mod network_options;
mod organisation;
mod profile;
mod quantity;
mod read;
mod read_agent;
mod read_file;
pub(crate) mod regular;
mod schema;
mod session_may;
mod webhook;

pub use agent::{AgentConfig, Command, OnAdapterExit, Unenforced};
pub use amurg::AmurgHub;
pub use document::Document;
pub use env_value::{EnvError, EnvProblem, EnvValue, MAX_ENV_FILE};
pub use error::{ConfigError, Problem};
pub use limits::{JournalLimits, JournalSync, Limits, Restart, Timeouts};
pub use lookup::{FILE_NAME, FILE_VARIABLE, Source, candidates, spool_dir, state_dir};
pub use network_options::{NetworkOption, NetworkOptions};
pub use organisation::Organisation;
pub use profile::Profile;
pub(crate) use profile::{AgentFacts, agent_facts};
pub use read::{Refused, nearest, said};
pub use schema::SCHEMA;
pub use session_may::{SessionMay, SessionOption, UnknownOption};
pub use trunkline_process::StopSteps;
pub use trunkline_process::{Containment, Limits as Resources};
pub use trunkline_sandbox::{Backend, Network, Sandbox};
pub use webhook::Webhook;

/// Checks what a built-in profile gets as its configuration: by the name of the profile, as its
/// adapter would read it.
pub type CheckProfile<'a> = &'a dyn Fn(&str, &Value) -> Result<(), Refused>;

/// The agents that a host runs, and its limits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The agents, each with an id of its own.
    pub agents: Vec<AgentConfig>,
    /// The agent of a session that names none; `None` is the first.
    pub default_agent: Option<String>,
    /// Open sessions of the whole host. `None` is no limit.
    pub max_sessions: Option<usize>,
    /// The folder for what outlives a process: records of children, stored files. `None` is the user's state
    /// folder.
    pub state_dir: Option<PathBuf>,
    /// A policy that narrows the rights of agents, besides [`defaults::POLICY`], which always
    /// applies if it exists.
    pub policy: Option<PathBuf>,
    /// The folder for unread output. `None` is `state_dir` or the system's folder for large
    /// temporary files.
    pub spool_dir: Option<PathBuf>,
    /// `usage_log`: whether each ended turn may become a line of the [usage log](crate::usage); a
    /// host writes it where
    /// [`HostBuilder::usage_log`](crate::HostBuilder::usage_log) asks for it, too.
    pub usage_log: bool,
    /// `wire_log`: a file for all that passes between the host and its adapters. The host does not
    /// open it: who makes the host gives it a [`WireLog`](crate::wirelog::WireLog), by
    /// [`HostBuilder::wire_sink`](crate::HostBuilder::wire_sink).
    pub wire_log: Option<PathBuf>,
    /// `wire_log_content`: how much of each line it keeps.
    pub wire_log_content: Content,
    /// `wire_log_bytes`: the size at which it becomes the older file. `None` is the log's own.
    pub wire_log_bytes: Option<u64>,
    /// `prices`: a file that replaces or adds prices of models. The host does not read it; who sums
    /// up a usage log does.
    pub prices: Option<PathBuf>,
    /// `journal`: the folder of a journal. The host keeps none by itself; programs that do, above
    /// it, take it from here.
    pub journal: Option<PathBuf>,
    /// `journal_sync`: what a stored entry of it survives.
    pub journal_sync: JournalSync,
    /// Limits of the journal.
    pub journal_limits: JournalLimits,
    /// The limits of unread output.
    pub buffers: Buffers,
    /// `webhooks`: addresses that get the changes of sessions. The host sends nothing; a program above
    /// it does.
    pub webhooks: Vec<Webhook>,
    /// The hub of an Amurg file, for what connects to it; the host does not.
    pub amurg_hub: Option<AmurgHub>,
    /// The parts of the file that have no effect here, one sentence each, for the operator.
    pub notices: Vec<String>,
    /// The source of this configuration.
    pub source: Source,
}

/// The limits of output that waits for its consumers, and of their files, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// `mailbox`: of one session in memory, before the spool.
    pub mailbox: usize,
    /// `mailboxes`: of all sessions in memory.
    pub mailboxes: usize,
    /// `backlog`: of one adapter neither consumed nor spooled, before its link pauses reading.
    pub backlog: usize,
    /// `spool`: of one turn on disk, before its session ends with reason `limit`.
    pub spool: u64,
    /// `spools`: of all turns on disk; one that has more than is left for the others counts as over
    /// its limit.
    pub spools: u64,
    /// `session_files`: of the copies of one session's files, in both directions; the next is refused.
    pub session_files: u64,
    /// `host_files`: of the copies of all files; a session that has more than is left for the
    /// others gets no more.
    pub host_files: u64,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            mailbox: defaults::MAILBOX,
            mailboxes: defaults::MAILBOXES,
            backlog: defaults::BACKLOG,
            spool: defaults::SPOOL,
            spools: defaults::SPOOLS,
            session_files: defaults::SESSION_FILES,
            host_files: defaults::HOST_FILES,
        }
    }
}

impl Default for Config {
    /// Returns the configuration of a host without any file: one agent, `echo`.
    fn default() -> Self {
        let echo = AgentConfig::built_in(defaults::BUILT_IN_AGENT, defaults::BUILT_IN_AGENT);
        Self {
            source: Source::BuiltIn,
            ..Self::new(vec![echo])
        }
    }
}

impl Config {
    /// A configuration of these agents, made in code, with defaults for all else.
    pub fn new(agents: Vec<AgentConfig>) -> Self {
        Self {
            agents,
            default_agent: None,
            max_sessions: None,
            state_dir: None,
            policy: None,
            spool_dir: None,
            usage_log: defaults::USAGE_LOG,
            wire_log: None,
            wire_log_content: Content::Full,
            wire_log_bytes: None,
            prices: None,
            journal: None,
            journal_sync: JournalSync::default(),
            journal_limits: JournalLimits::default(),
            buffers: Buffers::default(),
            webhooks: Vec::new(),
            amurg_hub: None,
            notices: Vec::new(),
            source: Source::Given,
        }
    }

    /// Finds and reads the configuration: the first of [`candidates`] that exists. A file that was
    /// named, by `explicit` or by the environment, must exist. One that was not must be a regular
    /// file; an empty one is none: a host makes such where what runs in a sandbox could make one.
    /// `check` is as for [`parse_checked`](Self::parse_checked).
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with the file that was found.
    pub fn discover(
        explicit: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
        check: CheckProfile<'_>,
    ) -> Result<Self, ConfigError> {
        Document::discover(explicit, variable)?
            .map_or_else(|| Ok(Self::default()), |found| found.config(check))
    }

    /// Reads one file; what a built-in profile gets is left to its adapter.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it, with its place.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Document::read(Source::Explicit(path.to_owned()), path)?.config(&|_, _| Ok(()))
    }

    /// Reads a configuration from the text of a file; relative paths in it are meant from `folder`,
    /// and what a built-in profile gets is left to its adapter.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it, with its place.
    pub fn parse(text: &[u8], folder: &Path) -> Result<Self, ConfigError> {
        Self::parse_checked(text, folder, &|_, _| Ok(()))
    }

    /// The same, where `check` refuses what an adapter would refuse when it starts. A key that the
    /// adapter does not know is named with the nearest one; a value is not shown.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it, with its place.
    pub fn parse_checked(
        text: &[u8],
        folder: &Path,
        check: CheckProfile<'_>,
    ) -> Result<Self, ConfigError> {
        read_file::config_of(&json::read(text)?, folder, check)
    }

    /// The agent of this id. `None` if there is none.
    pub fn agent(&self, id: &str) -> Option<&AgentConfig> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// The agent of a session that names none: the configured default, else the first. `None` if
    /// there is none.
    pub fn first_choice(&self) -> Option<&AgentConfig> {
        match &self.default_agent {
            Some(id) => self.agent(id),
            None => self.agents.first(),
        }
    }
}

#[cfg(test)]
mod tests;
