//! Agents by their names.

use anyhow::anyhow;
use trunkline_host::config::{self, AgentConfig, Config, Source};
use trunkline_profiles::PROFILES;

use crate::error::CliError;

/// That there is no such agent, or none at all.
pub(crate) fn no_agent(asked: Option<&str>, config: &Config) -> CliError {
    let (known, whence) = (agent_names(config), &config.source);
    let next = match config.source {
        Source::BuiltIn => {
            "`trunkline config init` writes a configuration; --adapter 'CMD ARGS' runs any adapter"
        }
        _ => "`trunkline agents` lists them; --adapter 'CMD ARGS' runs one that is not configured",
    };
    match asked {
        Some(id) => {
            let (profiles, near) = (profile_names(), did_you_mean(id, config));
            CliError::usage(anyhow!(
                "no agent and no built-in adapter is called {id:?}; {near}agents ({whence}): {known}; built in: {profiles}"
            ))
            .next(next)
        }
        None => CliError::usage(anyhow!("no agent is configured ({whence})")).next(next),
    }
}

/// A hint at the agent or built-in adapter that is most likely meant, for an error.
pub(crate) fn did_you_mean(name: &str, config: &Config) -> String {
    let ids = config.agents.iter().map(|agent| agent.id.as_str());
    let known: Vec<_> = ids
        .chain(PROFILES.iter().map(|profile| profile.name))
        .collect();
    config::nearest(name, &known)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

/// Adds the built-in adapter of this name, with its defaults, where no agent is called so.
pub(crate) fn add_built_in(config: &mut Config, name: &str) {
    if config.agent(name).is_none() && is_built_in(name) {
        config.agents.push(AgentConfig::built_in(name, name));
    }
}

pub(crate) fn is_built_in(name: &str) -> bool {
    PROFILES.iter().any(|profile| profile.name == name)
}

/// The agents of a configuration, for an error.
pub(crate) fn agent_names(config: &Config) -> String {
    let known: Vec<_> = config
        .agents
        .iter()
        .map(|agent| agent.id.as_str())
        .collect();
    if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    }
}

/// The built-in adapters, for an error.
pub(crate) fn profile_names() -> String {
    PROFILES
        .iter()
        .map(|profile| profile.name)
        .collect::<Vec<_>>()
        .join(", ")
}
