//! An agent: its program and its rights.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use trunkline_process::{Containment, Limits as Resources};
use trunkline_protocol::tool_loop::ToolLoopAction;
use trunkline_sandbox::Sandbox;

use super::env_value::EnvValue;
use super::limits::{Limits, Restart, Timeouts};
use super::network_options::NetworkOptions;
use super::profile::Profile;
use super::session_may::SessionMay;
use crate::policy::Policy;

/// An agent of a host.
///
/// Built by [`AgentConfig::external`] or [`AgentConfig::built_in`]; every field can be set
/// afterwards. Its `Debug` shows no values of the environment and nothing of `config`, because
/// these contain secrets.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The id by which sessions name it; unique in a host.
    pub id: String,
    /// The name for people; the id when the file has none.
    pub name: String,
    /// The purpose, in a sentence or two. `None` if the file has none.
    pub description: Option<String>,
    /// The program.
    pub profile: Profile,
    /// The command that starts the program. For a built-in profile `command` is empty, and
    /// `work_dir` is the profile's.
    pub command: Command,
    /// The content of `ADAPTER_CONFIG` ([process.7]): `config` of an external agent, the profile's own
    /// object of a built-in one. Always an object.
    pub config: Option<Value>,
    /// The extensions that are offered; `None` is all that the host knows, an empty list the bare
    /// core ([ext.1]).
    pub extensions: Option<Vec<String>>,
    /// True if the process gets the host's whole environment, and not just the few variables of [process.6].
    pub inherit_env: bool,
    /// More variables that are passed on from the host's environment, by name.
    pub env_passthrough: Vec<String>,
    /// Variables of the host's environment that the program takes credentials from, by name. They
    /// pass on where the host has them and `pass_credentials` is true. No file names them: the
    /// command line lists what a built-in profile takes.
    pub credentials: Vec<String>,
    /// False if `credentials` do not pass on. What is named otherwise does.
    pub pass_credentials: bool,
    /// The containment that keeps what its process starts from outliving it.
    pub containment: Containment,
    /// The weakest accepted containment, as set by an organisation's policy; `Auto` is any.
    pub at_least: Containment,
    /// The limits of the machine's resources for its process and all that it starts.
    pub resources: Resources,
    /// The sandbox of these processes. `None`: they see and reach what the host does.
    pub sandbox: Option<Sandbox>,
    /// True if [`Host::stand_by`](crate::Host::stand_by) starts its process, and its end does so
    /// again: a session then waits for no start.
    pub standby: bool,
    /// The fate of its sessions when its process ends.
    pub on_adapter_exit: OnAdapterExit,
    /// The reaction to an agent that calls the same tools over and over, whichever adapter it has.
    pub tool_loop: ToolLoopAction,
    /// The policy that approves or denies without asking.
    pub permission: Policy,
    /// The time limits.
    pub timeouts: Timeouts,
    /// The limits of what it may have.
    pub limits: Limits,
    /// The limits of restarts.
    pub restart: Restart,
    /// More folders that its files may come from, absolute ([file.4]).
    pub file_roots: Vec<PathBuf>,
    /// Folders besides `work_dir` that a session may choose as its `cwd`, absolute ([ext.7]).
    pub allowed_dirs: Vec<PathBuf>,
    /// Domains that it may reach, among which a session may choose ([ext.7]); `None` if not set.
    /// Without a sandbox nothing enforces them, so a configuration file must have one beside them.
    pub allowed_domains: Option<Vec<String>>,
    /// True if sessions that name a `cwd` get a process that runs there, one for each folder, so
    /// that the adapter need not know it. Nothing of this in a sandbox, whose folders are fixed,
    /// and over streams.
    pub process_per_folder: bool,
    /// True if a session must name its `cwd`: the host's own folder is no place to work in.
    pub needs_cwd: bool,
    /// The reaction to a session's restriction that the adapter does not report as applied
    /// ([ext.7]).
    pub unenforced: Unenforced,
    /// The options that a session may set beyond what is harmless ([ext.7]).
    pub session_may: SessionMay,
    /// The options that a client over a network may set, within what any session may.
    pub network_options: NetworkOptions,
    /// True if the program is built on the SDK and so answers `--describe` and `--diagnose` ([ext.8]).
    pub sdk: bool,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The program: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Arguments, passed unchanged and without a shell.
    pub args: Vec<String>,
    /// Working directory; empty is the host's current directory. A missing one is an error at the
    /// start, never replaced by another.
    pub work_dir: PathBuf,
    /// Variables of its environment, over all others.
    pub env: BTreeMap<String, EnvValue>,
}

/// The fate of a session when the adapter process below it ends ([process.5]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnAdapterExit {
    /// The next input starts the process again.
    #[default]
    Restart,
    /// The session is closed.
    Close,
}

/// The reaction to a session's restriction that the adapter does not list in `options_applied`
/// ([ext.7]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unenforced {
    /// The session is closed before any input is written.
    #[default]
    Refuse,
    /// The same, for every other requested option too. A configuration file cannot set it.
    RefuseAny,
    /// The session continues without the restriction.
    Allow,
}

impl AgentConfig {
    /// An agent that is a program of one's own, with defaults for all else.
    pub fn external(id: impl Into<String>, command: impl Into<Command>) -> Self {
        Self::new(id.into(), Profile::External, command.into())
    }

    /// An agent of a built-in profile such as `claude-code`, with defaults for all else.
    ///
    /// A host starts it as `trunkline adapter claude-code`. The built-in adapters are in that
    /// program, not in this crate: an embedder names it by
    /// [`HostBuilder::profile_command`](crate::HostBuilder::profile_command).
    pub fn built_in(id: impl Into<String>, profile: impl Into<String>) -> Self {
        let agent = Self::new(
            id.into(),
            Profile::BuiltIn(profile.into()),
            Command::default(),
        );
        Self { sdk: true, ..agent }
    }

    pub(super) fn new(id: String, profile: Profile, command: Command) -> Self {
        Self {
            name: id.clone(),
            id,
            description: None,
            profile,
            command,
            config: None,
            extensions: None,
            inherit_env: false,
            env_passthrough: Vec::new(),
            credentials: Vec::new(),
            pass_credentials: true,
            containment: Containment::default(),
            at_least: Containment::default(),
            resources: Resources::default(),
            sandbox: None,
            standby: false,
            on_adapter_exit: OnAdapterExit::default(),
            tool_loop: ToolLoopAction::default(),
            permission: Policy::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            restart: Restart::default(),
            file_roots: Vec::new(),
            allowed_dirs: Vec::new(),
            allowed_domains: None,
            process_per_folder: false,
            needs_cwd: false,
            unenforced: Unenforced::default(),
            session_may: SessionMay::NONE,
            network_options: NetworkOptions::default(),
            sdk: false,
        }
    }
}

impl Command {
    /// This program without arguments, in the host's current directory.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            ..Self::default()
        }
    }

    /// With one argument more.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// With these arguments more.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// In this working directory.
    #[must_use]
    pub fn work_dir(mut self, work_dir: impl Into<PathBuf>) -> Self {
        self.work_dir = work_dir.into();
        self
    }

    /// With this variable: a text, or an [`EnvValue`] that names where the value is.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<EnvValue>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }
}

impl From<&str> for Command {
    fn from(command: &str) -> Self {
        Self::new(command)
    }
}

impl From<String> for Command {
    fn from(command: String) -> Self {
        Self::new(command)
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self
            .config
            .as_ref()
            .and_then(Value::as_object)
            .map(|object| object.keys());
        f.debug_struct("AgentConfig")
            .field("id", &self.id)
            .field("profile", &self.profile)
            .field("command", &self.command)
            .field("config", &keys)
            .field("extensions", &self.extensions)
            .field("containment", &self.containment)
            .field("resources", &self.resources)
            .field("sandbox", &self.sandbox)
            .field("permission", &self.permission)
            .field("session_may", &self.session_may)
            .field("network_options", &self.network_options)
            .field("timeouts", &self.timeouts)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
