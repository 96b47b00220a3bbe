//! The agents and their health.

use axum::{Extension, Json, extract::State};
use serde_json::{Value, json};

use super::{Asks, Gate};

pub(super) async fn list(State(shared): Gate, Extension(pass): Asks) -> Json<Value> {
    let mut agents = trunkline_relay::list_agents(&shared.host).await;
    agents.retain(|agent| pass.may_have(&agent.id));
    let default = shared.host.default_agent().filter(|id| pass.may_have(id));
    Json(json!({ "agents": agents, "default": default }))
}
