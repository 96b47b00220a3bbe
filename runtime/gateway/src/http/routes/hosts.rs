//! Hosts of a cluster.

use std::time::Duration;

use axum::{Extension, Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Asks, Gate, SessionPath};
use crate::{
    auth::{authentication::require_scope, token::Scope},
    gateway::Shared,
    http::problem::{Answer, Problem},
    peers::{Peers, SessionLocation, forward::PEER_TIMEOUT},
};

/// Default time for a host to hand its sessions over.
const DEADLINE: u64 = 5 * 60 * 1000;

/// Body of a request to drain a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drain {
    host: Option<String>,
    deadline_ms: Option<u64>,
}

/// Makes a host hand its sessions to others.
pub(super) async fn drain(
    State(shared): Gate,
    Extension(principal): Asks,
    Json(drain): Json<Drain>,
) -> Answer<StatusCode> {
    require_scope(&principal, Scope::Admin)?;
    let peers = others(&shared)?;
    let deadline = Duration::from_millis(drain.deadline_ms.unwrap_or(DEADLINE));
    peers
        .drain(drain.host.as_deref(), deadline)
        .await
        .map_err(Problem::unprocessable)?;
    Ok(StatusCode::ACCEPTED)
}

/// Returns the other hosts of the cluster.
fn others(shared: &Shared) -> Answer<&dyn Peers> {
    let alone =
        || Problem::unprocessable("this daemon is alone: there is no host to take its sessions");
    shared.options.peers.as_deref().ok_or_else(alone)
}

/// Makes a host take over a session whose files are on a storage that no host has. Its agent starts
/// anew there.
///
/// No host has the session's record open, so its owner is unknown: the principal must see all
/// sessions.
pub(super) async fn relocate(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
) -> Answer<Json<Value>> {
    require_scope(&principal, Scope::Admin)?;
    if !principal.sees_all() {
        return Err(Problem::forbidden(
            "the token does not see all sessions, and this may be any of them",
        ));
    }
    let peers = others(&shared)?;
    let late =
        |_| Problem::unavailable("it is not known in time which host has the session; try again");
    match timeout(PEER_TIMEOUT, peers.locate(&id))
        .await
        .map_err(late)?
    {
        SessionLocation::Unknown => Err(Problem::no_session()),
        SessionLocation::Here => Err(Problem::conflict(
            "this host serves the session: it stays here",
        )),
        SessionLocation::There(host) => Err(Problem::conflict(format!(
            "the host {host} serves the session: it stays there"
        ))),
        SessionLocation::Unavailable { .. } => {
            let failed =
                |why| Problem::unavailable(format!("no host has taken the session over: {why}"));
            Ok(Json(
                json!({ "host": peers.relocate(&id).await.map_err(failed)? }),
            ))
        }
    }
}

/// Lists the hosts with the agents that the principal may use. Load and number of sessions are
/// visible only to a principal that sees all sessions.
pub(super) async fn list(State(shared): Gate, Extension(principal): Asks) -> Json<Value> {
    let mut hosts = shared
        .options
        .peers
        .as_ref()
        .map(|peers| peers.hosts())
        .unwrap_or_default();
    hosts.sort_by(|one, other| one.id.cmp(&other.id));
    let sees_all = principal.sees_all();
    let mut told = Vec::with_capacity(hosts.len());
    for mut host in hosts {
        host.agents.retain(|agent| principal.may_have(agent));
        let mut host = json!(host);
        if !sees_all && let Some(host) = host.as_object_mut() {
            host.remove("sessions");
            host.remove("load");
        }
        told.push(host);
    }
    Json(json!({ "hosts": told }))
}
