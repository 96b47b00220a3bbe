//! Choices by environment variables: the agent and its model.

use std::ffi::OsStr;

use trunkline_host::config::{AgentConfig, Config};
use trunkline_host::process::Environment;

use super::report::{CheckCode, DoctorCheck};
use crate::target::{AGENT, MODEL, add_built_in, built_in, model_of, variable};

/// Returns the choices that apply to every command that starts an agent.
pub(super) fn of_host(config: &Config) -> Vec<DoctorCheck> {
    let agent = variable(AGENT).map(|id| {
        let mut with_it = config.clone();
        add_built_in(&mut with_it, &id);
        match with_it.agent(&id) {
            Some(_) => CheckCode::ChoiceAgent
                .check(format!("{AGENT} selects {id}, unless --agent is given")),
            None => CheckCode::ChoiceUnknown
                .check(format!("{AGENT} names {id}, which is not an agent"))
                .hint("unset it, or name an agent of `trunkline agents`"),
        }
    });
    let model = variable(MODEL).map(|model| {
        let message = format!(
            "{MODEL} selects {model}, unless --model is given; it overrides the configuration"
        );
        CheckCode::ChoiceModel.check(message)
    });
    agent.into_iter().chain(model).collect()
}

/// Returns the choices by the variables of a built-in adapter's agent.
pub(super) fn of_agent(agent: &AgentConfig, environment: &Environment) -> Option<DoctorCheck> {
    let profile = built_in(&agent.profile).filter(|_| model_of(agent).is_none())?;
    let value = |name: &&str| environment.variables.contains_key(OsStr::new(name));
    let set: Vec<_> = profile.model_variables().filter(value).collect();
    (!set.is_empty())
        .then(|| CheckCode::ChoiceModel.check(format!("{} from the environment", set.join(", "))))
}
