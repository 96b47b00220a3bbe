//! The file as a whole, and its `runtime` section.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value};

use super::agent::{AgentConfig, Command};
use super::amurg::{self, Dialect};
use super::confinement::Confinement;
use super::error::{ConfigError, Problem};
use super::form::As;
use super::keys::{
    AgentKeys, CommandKeys, FileKeys, PermissionKeys, ResourceKeys, RuntimeKeys, SharedKeys, Unused,
};
use super::profile::Profile;
use super::quantity::shown;
use super::read::{keys_of, missing, nearest_or_all, place, read, read_both};
use super::read_agent::read_agent;
use super::webhook::read_webhooks;
use super::{CheckProfile, Config};
use crate::policy::Policy;

/// Limit of agents that an error names.
const MOST_IDS: usize = 50;

/// Settings of `runtime` for every agent.
pub(super) struct Base {
    pub(super) agent: AgentConfig,
    pub(super) confinement: Confinement,
}

/// Constants while a file is read.
pub(super) struct Context<'a> {
    /// Relative paths are meant from here.
    pub(super) folder: &'a Path,
    pub(super) check: CheckProfile<'a>,
    pub(super) dialect: Dialect,
    /// The ids of all agents, as far as they can be read.
    pub(super) agents: Vec<String>,
    pub(super) notices: Vec<String>,
}

/// The configuration that a file's value is; relative paths are meant from `folder`.
pub(super) fn config_of(
    value: &Value,
    folder: &Path,
    check: CheckProfile<'_>,
) -> Result<Config, ConfigError> {
    let dialect = Dialect::detect(value);
    let mut notices = Vec::new();
    let value = match dialect {
        Dialect::Ours => Cow::Borrowed(value),
        Dialect::Amurg => Cow::Owned(amurg::without_unknown(value, &mut notices)),
    };
    let mut context = Context {
        folder,
        check,
        dialect,
        agents: ids(&value),
        notices,
    };
    let mut config = read_file(&value, &mut context).map_err(belongs)?;
    config.amurg_hub = (dialect == Dialect::Amurg).then(|| amurg::AmurgHub::from_file(&value));
    Ok(config)
}

fn read_file(value: &Value, context: &mut Context<'_>) -> Result<Config, ConfigError> {
    let file: FileKeys = read(value, "", &[])?;
    file.unused("", &mut context.notices);
    let mut config = Config::new(Vec::new());
    let mut base = Base {
        agent: AgentConfig::new(String::new(), Profile::External, Command::default()),
        confinement: Confinement::default(),
    };
    read_runtime(
        file.runtime.map(|As(runtime)| runtime).unwrap_or_default(),
        &mut config,
        &mut base,
        context,
    )?;
    let As(agents) = file.agents.ok_or_else(|| missing("", "agents"))?;
    if agents.is_empty() {
        return Err(ConfigError::invalid(
            "agents",
            "it is empty; a host needs an agent",
        ));
    }
    for (index, agent) in agents.into_iter().enumerate() {
        let at = format!("agents[{index}]");
        let agent = read_agent(agent, &at, &base, context)?;
        if let Some(first) = config.agents.iter().position(|known| known.id == agent.id) {
            let why = format!("agents[{first}] has the id `{}` too", agent.id);
            return Err(ConfigError::invalid(place(&at, "id"), why));
        }
        config.agents.push(agent);
    }
    config.default_agent = file
        .default_agent
        .map(|As(id)| known_agent(id, &config.agents))
        .transpose()?;
    let webhooks = file.webhooks.map(|As(webhooks)| webhooks);
    config.webhooks = read_webhooks(webhooks.unwrap_or_default(), &config.agents, context.folder)?;
    config.notices = std::mem::take(&mut context.notices);
    if context.dialect == Dialect::Amurg {
        config.notices.extend(amurg::differences(&config.agents));
    }
    Ok(config)
}

/// The ids of a file's agents, for errors: what is not an id is passed over.
fn ids(file: &Value) -> Vec<String> {
    let agents = file
        .get("agents")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let ids = agents.filter_map(|agent| agent.get("id").and_then(Value::as_str));
    ids.take(MOST_IDS).map(shown).collect()
}

fn known_agent(id: String, agents: &[AgentConfig]) -> Result<String, ConfigError> {
    if agents.iter().any(|agent| agent.id == id) {
        return Ok(id);
    }
    let ids: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    let why = format!("no agent has this id; {}", nearest_or_all(&id, &ids));
    Err(ConfigError::invalid("default_agent", why))
}

fn read_runtime(
    runtime: Map<String, Value>,
    config: &mut Config,
    base: &mut Base,
    context: &mut Context<'_>,
) -> Result<(), ConfigError> {
    let at = "runtime";
    let (shared, mut own): (SharedKeys, RuntimeKeys) = read_both(runtime, at, &[])?;
    own.set(config);
    let Config {
        state_dir,
        policy,
        spool_dir,
        wire_log,
        prices,
        journal,
        ..
    } = config;
    for path in [state_dir, policy, spool_dir, wire_log, prices, journal]
        .into_iter()
        .flatten()
    {
        *path = context.folder.join(&path);
    }
    let twice = |amurg: &str, ours: &str| {
        let why = format!("it is Amurg's name of `{ours}`, which is set too; keep one");
        Err(ConfigError::invalid(place(at, amurg), why))
    };
    if own.default_timeout.is_some() && shared.turn_timeout.is_some() {
        return twice("default_timeout", "turn_timeout");
    }
    if own.max_output_bytes.is_some() && shared.max_turn_output.is_some() {
        return twice("max_output_bytes", "max_turn_output");
    }
    if let Some(As(Some(timeout))) = own.default_timeout {
        base.agent.timeouts.turn = Some(timeout);
    }
    if let Some(As(bytes)) = own.max_output_bytes {
        base.agent.limits.max_turn_output = bytes;
    }
    let says_turn_output = shared.max_turn_output.is_some();
    base.set(shared, at, context.folder)?;
    if context.dialect == Dialect::Amurg {
        amurg::set_defaults(config, &mut base.agent, says_turn_output);
    }
    own.unused(at, &mut context.notices);
    Ok(())
}

impl Base {
    /// Sets the present values over earlier ones.
    pub(super) fn set(
        &mut self,
        mut keys: SharedKeys,
        at: &str,
        folder: &Path,
    ) -> Result<(), ConfigError> {
        let agent = &mut self.agent;
        keys.set(agent);
        if let Some(As(mut shutdown)) = keys.shutdown {
            shutdown.set(&mut agent.timeouts.shutdown);
        }
        if let Some(As(mut restart)) = keys.restart {
            restart.set(&mut agent.restart);
            if agent.restart.cap < agent.restart.base {
                return Err(ConfigError::invalid(
                    place(at, "restart"),
                    "`cap` is below `base`",
                ));
            }
        }
        if let Some(As(permission)) = keys.permission {
            agent.permission = permission_over(&agent.permission, permission);
        }
        self.confinement
            .set(keys.resources, keys.sandbox, at, folder)
    }
}

/// Merges the lists over those in `base`: denials add up, an allow list and a default replace.
fn permission_over(base: &Policy, keys: PermissionKeys) -> Policy {
    let unmatched = keys
        .default
        .map_or(base.unmatched(), |As(unmatched)| unmatched);
    let allow = keys
        .allow
        .map_or_else(|| base.allow().to_vec(), |As(allow)| allow);
    let deny = keys.deny.map(|As(deny)| deny).unwrap_or_default();
    Policy::from_patterns(unmatched, allow, [base.deny().to_vec(), deny].concat())
}

/// Adds to the error of an unknown key the place where it belongs, if there is one.
fn belongs(error: ConfigError) -> ConfigError {
    let Problem::UnknownKey { .. } = error.problem() else {
        return error;
    };
    let (at, key) = error.at().rsplit_once('.').unwrap_or(("", error.at()));
    let agent = || {
        [
            keys_of::<AgentKeys>(),
            keys_of::<SharedKeys>(),
            Profile::keys().into_iter().map(str::to_owned).collect(),
        ]
        .concat()
    };
    let runtime = || [keys_of::<RuntimeKeys>(), keys_of::<SharedKeys>()].concat();
    let section = at.rsplit('.').next().unwrap_or_default();
    let elsewhere = match section {
        "" => vec![("`runtime`", runtime()), ("an agent in `agents`", agent())],
        "runtime" => vec![
            ("the top level", keys_of::<FileKeys>()),
            ("an agent in `agents`", agent()),
        ],
        "sandbox" => vec![("`resources`", keys_of::<ResourceKeys>())],
        "limits" => vec![("the agent itself", agent())],
        profile if Profile::of_key(profile).is_some() => vec![("the agent itself", agent())],
        _ if section == at && at.ends_with(']') => {
            vec![
                ("`external`", keys_of::<CommandKeys>()),
                ("`runtime`", runtime()),
            ]
        }
        _ => Vec::new(),
    };
    match elsewhere
        .into_iter()
        .find(|(_, keys)| keys.iter().any(|known| known == key))
    {
        None => error,
        Some((place, _)) => ConfigError::new(
            error.at(),
            Problem::UnknownKey {
                hint: Some(format!("it belongs in {place}")),
            },
        ),
    }
}
