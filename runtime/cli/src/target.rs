//! Selection of the agent: a configured one, or an adapter of the command line.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anstream::eprintln;
use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use trunkline_gateway::Webhooks;
use trunkline_host::{
    BuildError, Host, HostBuilder, OpenError, Session, SessionOptions,
    config::{
        self, AgentConfig, CheckProfile, Config, ConfigError, Document, Network, Problem, Refused,
        SessionMay, Source, defaults,
    },
    process::Deadline,
    protocol::{self, SessionStart},
    redact,
    wirelog::{Content, OpenError as WireLogError, WireLog, WireLogOptions},
};
use trunkline_profiles::{PROFILES, Profile};
use trunkline_relay::RelayOptions;

use crate::{
    command::{agent_program, installed_agents},
    completion, daemon,
    error::CliError,
    journal::{self, HostTask},
    overrides::{AgentOverrides, assign, check_defaults, knows},
    paint,
    session_backend::SessionBackend,
    terminal::{columns, wrapped},
    unread::UnreadLines,
};

mod effective;
mod line;
mod named;

use self::line::parse_further_agent;
pub(crate) use self::{
    effective::{EffectiveConfig, RESTART},
    line::{command_line, parse_adapter_line},
    named::{add_built_in, agent_names, did_you_mean, is_built_in, no_agent, profile_names},
};

/// Options that select the agent.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AgentTarget {
    /// Agent, by its id in the configuration, or a built-in adapter by its name [default:
    /// $TRUNKLINE_AGENT, the configured default, or the first agent]
    #[arg(long, value_name = "ID", add = completion::agents())]
    pub(crate) agent: Option<String>,

    /// Adapter to run instead: a command line, split by shell quoting rules and run without a shell
    ///
    /// It runs in the current directory with a short environment (HOME, PATH, LANG, TERM, USER, …).
    /// `run` and `chat` add variables by --env NAME, and its configuration by -c config.KEY=VALUE.
    /// A configuration file has `env_passthrough` and `config` for this.
    #[arg(long, value_name = "'CMD ARGS'", conflicts_with = "agent")]
    pub(crate) adapter: Option<String>,

    /// Logs every line between the host and its adapters to a file, with secrets redacted
    ///
    /// Includes stderr, and the start and end of processes. `trunkline dev wire show FILE` prints the
    /// log. An existing wire log is renamed to FILE.1, also when it reaches 64 MiB. See
    /// docs/wire-log.md.
    #[arg(long, value_name = "FILE")]
    wire_log: Option<PathBuf>,

    /// Logged part of each line: `full`, `head` (type and ids) or `none`
    #[arg(long, value_name = "HOW_MUCH", requires = "wire_log")]
    wire_log_content: Option<Content>,

    /// True if lines that are not understood are displayed.
    #[arg(skip)]
    pub(crate) shows_unread: bool,

    /// True for a command that connects to the hub of an Amurg file, for which the file's hub and
    /// runtime have an effect.
    #[arg(skip)]
    pub(crate) serves_hub: bool,

    /// Choices of the environment.
    #[arg(skip)]
    environment: ByEnvironment,
}

/// Choices of the environment, which the command line overrides.
#[derive(Debug, Clone, Default)]
struct ByEnvironment {
    agent: Option<String>,
    model: Option<String>,
}

/// Keys of an Amurg file that have an effect on a command that connects to its hub.
const HUB_KEYS: [&str; 3] = ["hub", "runtime.id", "runtime.org_id"];

/// Variable that selects the agent.
pub(crate) const AGENT: &str = "TRUNKLINE_AGENT";

/// Variable that selects the agent's model.
pub(crate) const MODEL: &str = "TRUNKLINE_MODEL";

/// Returns the value of an environment variable; an empty value counts as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// A host, and its selected agent.
#[derive(Debug)]
pub(crate) struct ChosenHost {
    pub(crate) host: Host,
    pub(crate) agent: AgentConfig,
    /// Options of the journal, if there is one.
    pub(crate) journal: trunkline_journal::Options,
}

/// Reads the configuration, checks the parts of its built-in adapters, and reports keys without
/// effect.
///
/// # Errors
/// The file is invalid.
pub(crate) fn config(file: Option<&Path>) -> Result<Config, CliError> {
    let config = read(file, &check)?;
    print_notices(&config.notices);
    Ok(config)
}

/// Creates the host, and reports restrictions by the organisation's policy.
///
/// # Errors
/// There is no space for its folder, or the policy cannot be read.
pub(crate) fn build(config: Config) -> Result<Host, CliError> {
    build_with(config, |builder| builder)
}

/// Returns a builder with the agents of a configuration as this program runs them.
pub(crate) fn builder(mut config: Config) -> HostBuilder {
    config.agents.iter_mut().for_each(complete_entry);
    host(config).usage_log(true)
}

fn build_with(
    config: Config,
    change: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Result<Host, CliError> {
    let host = change(builder(config))
        .build()
        .map_err(|error| match error {
            error @ BuildError::Policy(_) => {
                CliError::usage(error).next("correct that file; no agent runs until then")
            }
            error => CliError::failed(anyhow!(error).context(format!(
                "failed to create private folders in {}",
                std::env::temp_dir().display()
            )))
            .next("free disk space, or set TMPDIR to another folder"),
        })?;
    print_notices(host.notices());
    Ok(host)
}

/// Returns true if the environment has a value for a variable.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Adds to an entry of a built-in profile the program that its adapter starts, and the variables of
/// the host from which the agent gets its credentials, its model and its proxy. An entry that names
/// such a variable keeps its choice, because another variable could override it.
pub(crate) fn complete_entry(agent: &mut AgentConfig) {
    let Some(profile) = built_in(&agent.profile) else {
        return;
    };
    let program = agent_program(agent).map(Into::into);
    if let Some(sandbox) = &mut agent.sandbox {
        sandbox.programs = program.into_iter().collect();
    }
    let named = |name: &str| {
        agent.command.env.contains_key(name)
            || agent.env_passthrough.iter().any(|passed| passed == name)
    };
    let credentials = profile.credentials().map_or_else(Vec::new, |taken| {
        let mut passed = taken.passed(is_set);
        // The folder of the login has no precedence over any credential.
        if taken.all_variables().any(named) {
            passed.retain(|name| taken.folder_variable() == Some(*name));
        }
        passed
    });
    let model = if model_of(agent).is_some() || profile.model_variables().any(named) {
        Vec::new()
    } else {
        let variables = profile.model_variables();
        variables.filter(|name| is_set(name)).collect()
    };
    // A restricted sandbox has its own proxy, which uses the host's.
    let has_own_proxy = agent
        .sandbox
        .as_ref()
        .is_some_and(|sandbox| sandbox.network != Network::All);
    let network = profile
        .network_variables()
        .iter()
        .filter(|name| is_set(name) && !named(name))
        .filter(|name| !(has_own_proxy && name.to_ascii_uppercase().ends_with("_PROXY")));
    let network: Vec<_> = network.map(|name| (*name).to_owned()).collect();
    agent.env_passthrough.extend(network);
    agent.credentials = credentials.into_iter().map(str::to_owned).collect();
    agent
        .env_passthrough
        .extend(model.into_iter().map(str::to_owned));
}

/// Clients of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostUse {
    /// Single hub, whose sessions name no folder.
    Pipe,
    /// A user with many clients, whose sessions name folders: an adapter that does not support `cwd`
    /// gets one process per folder. Without a configuration, all installed agents are offered.
    Daemon,
}

/// The configuration of a host of many clients.
#[derive(Debug)]
pub(crate) struct HostConfig {
    pub(crate) config: Config,
    /// The selected agent.
    pub(crate) agent: AgentConfig,
    /// `None` if no other host can have the same configuration.
    pub(crate) effective: Option<EffectiveConfig>,
    /// Agents that a configuration or the command line names; `None` for all. The others are offered
    /// because they are installed.
    pub(crate) named: Option<Vec<String>>,
}

/// Adds the installed agents to a configuration that does not name them.
fn offer_installed(config: &mut Config) -> Result<(), CliError> {
    let needs_cwd = is_no_work_dir(&std::env::current_dir()?);
    let named = config.agents.len();
    for id in installed_agents()? {
        add_built_in(config, id);
    }
    for agent in &mut config.agents[named..] {
        agent.needs_cwd = needs_cwd;
    }
    Ok(())
}

/// Returns true for the root and the home folder: an agent works there only if its session names it.
pub(crate) fn is_no_work_dir(folder: &Path) -> bool {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    folder.parent().is_none() || home.is_some_and(|home| home == folder)
}

/// Returns true if an agent's adapter is known to work in any folder that a session names.
fn knows_folders(agent: &AgentConfig) -> bool {
    built_in(&agent.profile).is_some_and(Profile::knows_folders)
}

/// Returns the model that the configuration of a built-in adapter names.
pub(crate) fn model_of(agent: &AgentConfig) -> Option<&str> {
    agent
        .config
        .as_ref()?
        .get("model")?
        .as_str()
        .filter(|model| !model.is_empty())
}

/// Returns the built-in adapter of a profile.
pub(crate) fn built_in(profile: &config::Profile) -> Option<&'static Profile> {
    let config::Profile::BuiltIn(name) = profile else {
        return None;
    };
    PROFILES.iter().find(|known| known.name == name)
}

/// Returns the builder of a host that runs the built-in adapters of this program.
pub(crate) fn host(config: Config) -> HostBuilder {
    let builder = Host::builder().config(config);
    match std::env::current_exe() {
        Ok(program) => {
            builder.profile_command([program.to_string_lossy().into_owned(), "adapter".to_owned()])
        }
        Err(_) => builder,
    }
}

/// Reports keys of a configuration that have no effect.
pub(crate) fn print_notices(notices: &[String]) {
    let dim = paint::DIM;
    for notice in notices {
        eprintln!(
            "{dim} note: {}{dim:#}",
            wrapped(&redact::message(notice), columns(), 7)
        );
    }
}

/// Reads the configuration, and checks the parts of its built-in adapters.
///
/// # Errors
/// The file is invalid.
pub(crate) fn read(file: Option<&Path>, check: CheckProfile<'_>) -> Result<Config, CliError> {
    match discover_or_use_daemons(file)? {
        Some(document) => parse(&document, check),
        None => Ok(Config::default()),
    }
}

fn parse(document: &Document, check: CheckProfile<'_>) -> Result<Config, CliError> {
    let config = document.config(check);
    config
        .map_err(|error| wrong_file(&error))
        .and_then(with_good_webhooks)
}

/// Returns a configuration whose webhooks have addresses that can be used.
fn with_good_webhooks(config: Config) -> Result<Config, CliError> {
    Webhooks::check(&config.webhooks)
        .map_err(|error| CliError::usage(anyhow!("failed to use {}: {error}", config.source)))
        .map_err(|error| error.next("correct that file, or name another one by --config FILE"))?;
    Ok(config)
}

/// Finds and reads the configuration file; `None` if there is none.
///
/// # Errors
/// The file cannot be read or is not JSON.
pub(crate) fn discover(file: Option<&Path>) -> Result<Option<Document>, CliError> {
    Document::discover(file, |name| std::env::var_os(name)).map_err(|error| wrong_file(&error))
}

/// Finds and reads the configuration file; if there is none, the running daemon's.
///
/// # Errors
/// The file cannot be read or is not JSON.
fn discover_or_use_daemons(file: Option<&Path>) -> Result<Option<Document>, CliError> {
    let found = discover(file)?;
    if found.is_some() {
        return Ok(found);
    }
    let of_daemon = daemon::folder().and_then(|folder| folder.config_file());
    of_daemon.map_or(Ok(None), |file| discover(Some(&file)))
}

/// Returns the error for an invalid file.
pub(crate) fn wrong_file(error: &ConfigError) -> CliError {
    CliError::usage(anyhow!("failed to {error}")).next(match error.problem() {
        Problem::Unreadable(_) => "set --config to an existing, readable file",
        _ => "correct that file, or use another one by --config FILE",
    })
}

/// Leaves the checks to the built-in adapter.
pub(crate) const UNCHECKED: CheckProfile<'static> = &|_, _| Ok(());

/// Checks the part of a built-in adapter, as the adapter does at its start.
///
/// # Errors
/// The part is invalid.
pub(crate) fn check(profile: &str, config: &Value) -> Result<(), Refused> {
    let profile = PROFILES.iter().find(|known| known.name == profile);
    profile.map_or(Ok(()), |profile| profile.check(config))
}

impl AgentTarget {
    /// Creates the host for the agent, with the changes of the command line, and the options of its
    /// sessions. Starts no process.
    ///
    /// # Errors
    /// The configuration or the command line is invalid.
    pub(crate) fn host_for(
        &self,
        file: Option<&Path>,
        overrides: &AgentOverrides,
    ) -> Result<(ChosenHost, SessionStart), CliError> {
        let mut target = self.by_environment();
        if overrides.names_model() {
            target.environment.model = None;
        }
        let config = match overrides.set.as_slice() {
            [] => target.config_and_document(file)?.0,
            _ => target.changed_config(file, overrides)?,
        };
        let mut start = SessionStart::default();
        let chosen = target.build_selected(config, |agent| {
            start = overrides.apply(agent)?;
            Ok(())
        })?;
        Ok((chosen, start))
    }

    /// Returns the first option that only a host in this process can apply.
    pub(crate) fn own_host_option(&self) -> Option<&'static str> {
        let adapter = self.adapter.as_ref().map(|_| "--adapter");
        adapter.or_else(|| self.wire_log.as_ref().map(|_| "--wire-log"))
    }

    /// Creates a target with an adapter of the command line, or with the default agent.
    pub(crate) fn of_adapter(adapter: Option<String>) -> Self {
        Self {
            adapter,
            ..Self::default()
        }
    }

    /// Returns the agent that the command line or the environment names.
    pub(crate) fn named_agent(&self) -> Option<String> {
        self.by_environment().agent
    }

    /// Adds the choices of the environment, which the command line overrides.
    fn by_environment(&self) -> Self {
        let mut target = self.clone();
        if target.agent.is_none() && target.adapter.is_none() {
            target.environment.agent = variable(AGENT);
            target.agent.clone_from(&target.environment.agent);
        }
        target.environment.model = variable(MODEL);
        target
    }

    /// Returns the error for an unknown agent.
    fn unknown_agent(&self, config: &Config) -> CliError {
        let fault = no_agent(self.agent.as_deref(), config);
        match self.environment.agent {
            Some(_) => CliError::usage(anyhow!("failed to use {AGENT}: {}", fault.text())).next(
                format!("unset {AGENT}, or set it to an agent of `trunkline agents`"),
            ),
            None => fault,
        }
    }

    /// Returns the configuration with the keys that the command line sets.
    fn changed_config(
        &self,
        file: Option<&Path>,
        overrides: &AgentOverrides,
    ) -> Result<Config, CliError> {
        let mut document = self.document(file)?;
        // The command line may complete the part of a built-in adapter, so it is checked afterwards.
        let config = parse(&document, UNCHECKED)?;
        let index = self.position(&config).or_else(|| {
            let id = self.agent.as_ref().filter(|id| is_built_in(id))?;
            let agents = document.value["agents"].as_array_mut()?;
            agents.push(json!({ "id": id, "profile": id }));
            Some(agents.len() - 1)
        });
        let Some(index) = index else {
            return Err(self.unknown_agent(&config));
        };
        let profile = config.agents.get(index).map_or_else(
            || config::Profile::BuiltIn(self.agent.clone().unwrap_or_default()),
            |agent| agent.profile.clone(),
        );
        let config = assign(&mut document, index, &profile, &overrides.set)?;
        print_notices(&config.notices);
        with_good_webhooks(config)
    }

    /// Reports that a named file has no effect on an adapter of the command line.
    fn note_unused_file(file: Option<&Path>) {
        if let Some(file) = file {
            let next = "set keys of the adapter by -c, such as -c max_file_bytes=64MiB";
            print_notices(&[format!(
                "--adapter ignores all of {}, including its `runtime`; {next}",
                file.display()
            )]);
        }
    }

    /// Returns the configuration as JSON.
    fn document(&self, file: Option<&Path>) -> Result<Document, CliError> {
        let made = |agent: Value| Document::new(json!({ "agents": [agent] }), ".");
        if let Some(line) = &self.adapter {
            Self::note_unused_file(file);
            let AgentConfig {
                id, name, command, ..
            } = parse_adapter_line(line)?;
            let external = json!({ "command": command.command, "args": command.args });
            return Ok(made(
                json!({ "id": id, "name": name, "external": external }),
            ));
        }
        Ok(discover_or_use_daemons(file)?.unwrap_or_else(|| {
            let mut built_in = made(
                json!({ "id": defaults::BUILT_IN_AGENT, "profile": defaults::BUILT_IN_AGENT }),
            );
            built_in.source = Source::BuiltIn;
            built_in
        }))
    }

    /// Returns the configuration with the selected agent, with further adapters, each as `ID=CMD
    /// ARGS`, and with further options that the sessions of every agent may set.
    /// [`AgentTarget::host_of`] creates its host.
    ///
    /// # Errors
    /// The file or the command line is invalid.
    pub(crate) fn config_with_adapters(
        &self,
        file: Option<&Path>,
        also: &[String],
        may: &SessionMay,
        host_use: HostUse,
    ) -> Result<HostConfig, CliError> {
        let target = self.by_environment();
        let (mut config, document) = target.config_and_document(file)?;
        target
            .agent
            .iter()
            .for_each(|id| add_built_in(&mut config, id));
        for further in also {
            let agent = parse_further_agent(further)?;
            if config.agents.iter().any(|known| known.id == agent.id) {
                return Err(
                    CliError::usage(anyhow!("two adapters have the id {:?}", agent.id))
                        .next("use a different id for each --also"),
                );
            }
            config.agents.push(agent);
        }
        let (mut config, mut agent) = target.select_agent(config, |_| Ok(()))?;
        let mut named = None;
        if host_use == HostUse::Daemon && config.source == Source::BuiltIn {
            named = Some(config.agents.iter().map(|agent| agent.id.clone()).collect());
            offer_installed(&mut config)?;
        }
        let effective = document.and_then(|document| EffectiveConfig::new(&document, &config));
        for agent in config.agents.iter_mut().chain([&mut agent]) {
            agent.session_may = std::mem::take(&mut agent.session_may).union(may);
            agent.process_per_folder = host_use == HostUse::Daemon && !knows_folders(agent);
        }
        Ok(HostConfig {
            config,
            agent,
            effective,
            named,
        })
    }

    /// Returns the selected agent without changes by the command line, and its configuration. `None`
    /// if no other host can have the same configuration, or if its own host must report an error.
    /// Notices need a call of [`print_notices`].
    pub(crate) fn effective(
        &self,
        file: Option<&Path>,
    ) -> Option<(AgentConfig, EffectiveConfig, Vec<String>)> {
        let target = self.by_environment();
        if target.adapter.is_some() {
            return None;
        }
        let document = target.document(file).ok()?;
        let config = document.config(&check).ok()?;
        let notices = target.notices(&config);
        let (config, agent) = target.select_agent(config, |_| Ok(())).ok()?;
        let effective = EffectiveConfig::new(&document, &config)?;
        Some((agent, effective, notices))
    }

    /// Returns the host after a change of the agent's configuration, without entries in the usage
    /// log.
    pub(crate) fn host_unlogged(
        &self,
        file: Option<&Path>,
        change: impl FnOnce(&mut AgentConfig),
    ) -> Result<ChosenHost, CliError> {
        let (mut config, _) = self.config_and_document(file)?;
        config.usage_log = false;
        self.build_selected(config, |agent| {
            change(agent);
            Ok(())
        })
    }

    fn build_selected(
        &self,
        config: Config,
        change: impl FnOnce(&mut AgentConfig) -> Result<(), CliError>,
    ) -> Result<ChosenHost, CliError> {
        let (config, agent) = self.select_agent(config, change)?;
        self.host_of(config, agent, None)
    }

    /// Returns the index of the named agent, or of the first choice if none is named.
    fn position(&self, config: &Config) -> Option<usize> {
        let first = || config.first_choice().map(|agent| &agent.id);
        let id = self.agent.as_ref().or_else(first)?;
        config.agents.iter().position(|agent| agent.id == *id)
    }

    /// Returns the configuration with the selected agent as its default, after a change of that
    /// agent, and the agent.
    fn select_agent(
        &self,
        mut config: Config,
        change: impl FnOnce(&mut AgentConfig) -> Result<(), CliError>,
    ) -> Result<(Config, AgentConfig), CliError> {
        if let Some(id) = &self.agent
            && config.agent(id).is_none()
            && is_built_in(id)
        {
            check_defaults(id)?;
            add_built_in(&mut config, id);
        }
        let Some(index) = self.position(&config) else {
            return Err(self.unknown_agent(&config));
        };
        let agent = &mut config.agents[index];
        if let Some(model) = &self.environment.model
            && !set_model(agent, model)
        {
            print_notices(&[format!(
                "{MODEL} has no effect on the agent {}: set its model in its configuration",
                agent.id
            )]);
        }
        change(agent)?;
        let agent = agent.clone();
        config.default_agent = Some(agent.id.clone());
        Ok((config, agent))
    }

    /// Creates the host of a configuration, and starts its wire log.
    ///
    /// # Errors
    /// There is no space for its folder, or a policy or the wire log is unavailable.
    pub(crate) fn host_of(
        &self,
        config: Config,
        agent: AgentConfig,
        deadline: Option<Deadline>,
    ) -> Result<ChosenHost, CliError> {
        let wire_log = self.wire_log(&config)?;
        let journal = journal::options(&config);
        let host = build_with(config, |builder| {
            let builder = match deadline {
                Some(deadline) => builder.deadline(deadline),
                None => builder,
            };
            if self.shows_unread {
                builder.wire_sink(Arc::new(UnreadLines::before(wire_log)))
            } else {
                logged(builder, wire_log)
            }
        })?;
        // A policy may have restricted the agent.
        let agent = host.agent(&agent.id).map_or(agent, |status| status.config);
        Ok(ChosenHost {
            host,
            agent,
            journal,
        })
    }

    /// Starts the wire log that the command line or the configuration requests.
    ///
    /// # Errors
    /// The wire log cannot be started.
    pub(crate) fn wire_log(&self, config: &Config) -> Result<Option<Arc<WireLog>>, CliError> {
        let Some(path) = self.wire_log.as_ref().or(config.wire_log.as_ref()) else {
            return Ok(None);
        };
        let content = self.wire_log_content.unwrap_or(config.wire_log_content);
        let mut options = WireLogOptions::new(path).content(content);
        if let Some(bytes) = config.wire_log_bytes {
            options = options.file_bytes(bytes);
        }
        let log = WireLog::open(&options).map_err(|error| match error {
            error @ WireLogError::Thread(_) => CliError::failed(anyhow!("failed to {error}")),
            error => CliError::usage(anyhow!("failed to {error}")),
        })?;
        Ok(Some(Arc::new(log)))
    }

    /// Returns the configuration, and the file from which it was read.
    fn config_and_document(
        &self,
        file: Option<&Path>,
    ) -> Result<(Config, Option<Document>), CliError> {
        if let Some(line) = &self.adapter {
            Self::note_unused_file(file);
            return Ok((Config::new(vec![parse_adapter_line(line)?]), None));
        }
        let document = self.document(file)?;
        let config = parse(&document, &check)?;
        print_notices(&self.notices(&config));
        Ok((config, Some(document)))
    }

    /// Returns the notices about keys that have no effect on this command.
    fn notices(&self, config: &Config) -> Vec<String> {
        let is_used = |notice: &&String| {
            let mut keys = HUB_KEYS.iter();
            self.serves_hub && keys.any(|key| notice.starts_with(&format!("`{key}` ")))
        };
        let notices = config.notices.iter().filter(|notice| !is_used(notice));
        notices.cloned().collect()
    }
}

/// Returns the builder of a host that writes this wire log.
pub(crate) fn logged(builder: HostBuilder, wire_log: Option<Arc<WireLog>>) -> HostBuilder {
    match wire_log {
        Some(log) => builder.wire_sink(log),
        None => builder,
    }
}

/// Sets the model in the configuration of a built-in adapter. Returns false if it has no such key.
fn set_model(agent: &mut AgentConfig, model: &str) -> bool {
    if !knows(&agent.profile, "model") {
        return false;
    }
    let config = agent.config.get_or_insert_with(|| json!({}));
    config.as_object_mut().is_some_and(|config| {
        config.insert("model".to_owned(), model.into());
        true
    })
}

impl ChosenHost {
    /// Opens a session on the agent, for a program.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn open(&self, options: SessionOptions) -> Result<Session, CliError> {
        self.may_run()?;
        self.host
            .open(&self.agent.id, options)
            .map_err(CliError::failed)
    }

    /// Opens a session on the agent for a user, with an id that starts with `prefix`.
    ///
    /// # Errors
    /// The organisation's policy forbids the agent, or its host is not reached. Other refusals are
    /// the end of the session.
    pub(crate) async fn open_session(
        &self,
        prefix: &str,
        start: SessionStart,
    ) -> Result<(SessionBackend, HostTask), CliError> {
        self.may_run()?;
        // Large enough for the longest prompt, with any escapes.
        let options = RelayOptions::default().max_line(4 * protocol::MAX_LINE);
        let (client, holder) = journal::serve_here(self.host.clone(), options).await?;
        let agent = Some(self.agent.id.clone());
        let session = SessionBackend::open(client, prefix, agent, start).await?;
        Ok((session, holder))
    }

    /// Checks that the organisation's policy allows at least one agent.
    ///
    /// # Errors
    /// The refusal of the selected agent.
    pub(crate) fn any_may_run(&self) -> Result<(), CliError> {
        let mut agents = self.host.agents().into_iter();
        let any_may_run = agents.any(|agent| agent.refusal.is_none());
        if any_may_run { Ok(()) } else { self.may_run() }
    }

    fn may_run(&self) -> Result<(), CliError> {
        let agent = self.host.agent(&self.agent.id);
        let refusal = agent.and_then(|agent| agent.refusal);
        refusal.map_or(Ok(()), |refusal| {
            Err(refused(refusal.into_open_error(&self.agent.id)))
        })
    }

    /// Returns the command that runs the agent, for display.
    pub(crate) fn command_line(&self) -> String {
        command_line(&self.agent)
    }
}

/// Returns the error for an agent that the organisation's policy forbids.
fn refused(error: OpenError) -> CliError {
    CliError::usage(error).next(
        "change the agent's entry to what the policy allows; `trunkline doctor` shows the difference",
    )
}
