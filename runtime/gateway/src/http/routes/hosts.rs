//! Hosts of a cluster.

use std::time::Duration;

use axum::Json as Body;
use serde_json::{Value, json};

use super::{Json, SessionPath};
use crate::{
    gateway::Shared,
    http::{
        operation::{AcceptedAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
    },
    peers::{HostState, Peers, SessionLocation, forward::locate},
};

/// Default time for a host to hand its sessions over.
const DEADLINE: u64 = 5 * 60 * 1000;

parameters! {
    /// Body of a request to drain a host.
    pub(super) struct DrainRequest {
        /// Host that drains; the one that receives the request if absent.
        host: Option<String>,
        /// Time for turns to end; 5 minutes if absent.
        deadline_ms: Option<u64>,
    }
}

/// Makes a host hand its sessions to others.
pub(super) async fn drain(
    context: RequestContext,
    Json(drain): Json<DrainRequest>,
) -> Answer<AcceptedAnswer> {
    let peers = others(&context.shared)?;
    let deadline = Duration::from_millis(drain.deadline_ms.unwrap_or(DEADLINE));
    peers
        .drain(drain.host.as_deref(), deadline)
        .await
        .map_err(Problem::unprocessable)?;
    Ok(WithStatus(()))
}

/// Returns the other hosts of the cluster.
fn others(shared: &Shared) -> Answer<&dyn Peers> {
    let alone = || {
        Problem::unprocessable(
            "this daemon has no cluster, and so no other host takes its sessions",
        )
    };
    shared.options.peers.as_deref().ok_or_else(alone)
}

answers! {
    /// Result of a relocation.
    pub(super) struct RelocatedSession {
        /// Host that has the session.
        host: String,
    }
}

/// Makes a host take over a session whose files are on a storage that no host has. Its agent starts
/// anew there.
///
/// No host has the session's record open, so its owner is unknown: the principal must see all
/// sessions.
pub(super) async fn relocate(
    RequestContext { shared, principal }: RequestContext,
    SessionPath(id): SessionPath,
) -> Answer<Body<RelocatedSession>> {
    if !principal.sees_all() {
        return Err(Problem::forbidden(
            "the token does not see all sessions, and this may be any of them",
        ));
    }
    let peers = others(&shared)?;
    match locate(peers, &id).await? {
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
            let host = peers.relocate(&id).await.map_err(failed)?;
            Ok(Body(RelocatedSession { host }))
        }
    }
}

answers! {
    /// Hosts of the cluster.
    pub(super) struct HostList {
        #[cfg_attr(test, schemars(with = "Vec<HostState>"))]
        hosts: Vec<Value>,
    }
}

/// Lists the hosts with the agents that the principal may use. Load and number of sessions are
/// visible only to a principal that sees all sessions.
pub(super) async fn list(RequestContext { shared, principal }: RequestContext) -> Body<HostList> {
    let peers = shared.options.peers.as_ref();
    let mut hosts = peers.map(|peers| peers.hosts()).unwrap_or_default();
    hosts.sort_by(|one, other| one.id.cmp(&other.id));
    let sees_all = principal.sees_all();
    let visible = |mut host: HostState| {
        host.agents.retain(|agent| principal.may_have(agent));
        let mut host = json!(host);
        if !sees_all && let Some(host) = host.as_object_mut() {
            host.remove("sessions");
            host.remove("load");
        }
        host
    };
    Body(HostList {
        hosts: hosts.into_iter().map(visible).collect(),
    })
}
