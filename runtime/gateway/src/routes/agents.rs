//! The agents and their health.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State};
use serde_json::{Value, json};

use super::{Asks, Gate};
use crate::{gateway::Shared, pass::Pass};

pub(super) async fn list(State(shared): Gate, Extension(pass): Asks) -> Json<Value> {
    let mut agents = trunkline_relay::list_agents(&shared.host).await;
    agents.retain(|agent| pass.may_have(&agent.id));
    let default = shared.host.default_agent().filter(|id| pass.may_have(id));
    let mut answer = json!({ "agents": agents, "default": default });
    if matches!(pass, Pass::User) {
        answer["work_dirs"] = json!(work_dirs(&shared, &pass));
    }
    Json(answer)
}

/// The folder of each agent, by its id. One whose path is not UTF-8 is left out.
pub(super) fn work_dirs(shared: &Shared, pass: &Pass) -> BTreeMap<String, String> {
    let agents = shared.host.agents().into_iter();
    let work_dirs = agents.filter_map(|agent| {
        let config = agent.config;
        let here = std::env::current_dir().ok()?;
        let work_dir = here.join(&config.command.work_dir).to_str()?.to_owned();
        pass.may_have(&config.id)
            .then(|| (config.id.clone(), work_dir))
    });
    work_dirs.collect()
}
