//! Agents by their names.

use anyhow::anyhow;
use trunkline_host::config::{self, AgentConfig, Config, Source};
use trunkline_profiles::PROFILES;

use crate::error::CliError;

/// Returns the error for an unknown agent, or for a configuration without agents.
pub(crate) fn no_agent(asked: Option<&str>, config: &Config) -> CliError {
    let known = agent_names(config);
    let whence = &config.source;
    let next = match config.source {
        Source::BuiltIn => {
            "`trunkline config init` creates a configuration; `--adapter 'CMD ARGS'` runs any adapter"
        }
        _ => "`trunkline agents` lists them; `--adapter 'CMD ARGS'` runs any other adapter",
    };
    match asked {
        Some(id) => {
            let profiles = profile_names();
            let near = did_you_mean(id, config);
            CliError::usage(anyhow!(
                "unknown agent {id:?}; {near}agents: {known}; also by name: {profiles}"
            ))
            .next(next)
        }
        None => CliError::usage(anyhow!("no agent is configured ({whence})")).next(next),
    }
}

/// Returns a suggestion of the most similar agent or built-in adapter, for an error.
pub(crate) fn did_you_mean(name: &str, config: &Config) -> String {
    let ids = config.agents.iter().map(|agent| agent.id.as_str());
    let known: Vec<_> = ids
        .chain(PROFILES.iter().map(|profile| profile.name))
        .collect();
    config::nearest(name, &known)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

/// Adds the built-in adapter of this name, with its defaults, if no agent has this name.
pub(crate) fn add_built_in(config: &mut Config, name: &str) {
    if config.agent(name).is_none() && is_built_in(name) {
        config.agents.push(AgentConfig::built_in(name, name));
    }
}

pub(crate) fn is_built_in(name: &str) -> bool {
    PROFILES.iter().any(|profile| profile.name == name)
}

/// Lists the agents of a configuration, for an error.
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

/// Lists the built-in adapters, for an error.
pub(crate) fn profile_names() -> String {
    PROFILES
        .iter()
        .map(|profile| profile.name)
        .collect::<Vec<_>>()
        .join(", ")
}
