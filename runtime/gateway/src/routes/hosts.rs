//! The hosts that have sessions.

use axum::{Extension, Json, extract::State};
use serde_json::{Value, json};

use super::{Asks, Gate};

/// What is known of each host, by the agents that who asks may have. What all sessions make up is for those who see all.
pub(super) async fn list(State(shared): Gate, Extension(pass): Asks) -> Json<Value> {
    let mut hosts = shared.options.elsewhere.as_ref().map(|elsewhere| elsewhere.hosts()).unwrap_or_default();
    hosts.sort_by(|one, other| one.id.cmp(&other.id));
    let sees_all = pass.visitor().is_none_or(|visitor| visitor.sees_all && visitor.agents.is_none());
    let mut told = Vec::with_capacity(hosts.len());
    for mut host in hosts {
        host.agents.retain(|agent| pass.may_have(agent));
        let mut host = json!(host);
        if !sees_all && let Some(host) = host.as_object_mut() {
            host.remove("sessions");
            host.remove("load");
        }
        told.push(host);
    }
    Json(json!({ "hosts": told }))
}
