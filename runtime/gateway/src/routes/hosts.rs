//! The hosts that have sessions.

use std::time::Duration;

use axum::{Extension, Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asks, Gate};
use crate::{
    guard::needs,
    problem::{Answer, Problem},
    token::Scope,
};

/// For how long a host hands its sessions over, unless the request says otherwise.
const DEADLINE: u64 = 5 * 60 * 1000;

/// Which host is to be empty, and by when.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drain {
    host: Option<String>,
    deadline_ms: Option<u64>,
}

/// Has a host hand its sessions to others.
pub(super) async fn drain(
    State(shared): Gate,
    Extension(pass): Asks,
    Json(drain): Json<Drain>,
) -> Answer<StatusCode> {
    needs(&pass, Scope::Admin)?;
    let Some(elsewhere) = &shared.options.elsewhere else {
        return Err(Problem::unprocessable("this daemon is alone: there is no host to take its sessions"));
    };
    let deadline = Duration::from_millis(drain.deadline_ms.unwrap_or(DEADLINE));
    elsewhere.drain(drain.host.as_deref(), deadline).await.map_err(Problem::unprocessable)?;
    Ok(StatusCode::ACCEPTED)
}

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
