//! Placement of new sessions on hosts.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, header},
    response::Response,
};
use tokio::time::timeout;
use trunkline_protocol::SessionId;

use super::{
    SessionLocation,
    forward::{self, NEW_SESSION, PEER_TIMEOUT, host_of_location, session_moved},
};
use crate::{
    auth::principal::Principal,
    gateway::Shared,
    http::{
        connection::Peer,
        idempotency::{self, key_of},
        problem::{Answer, Problem},
        routes::NewSession,
    },
};

/// Outcome of a request for a new session.
pub(crate) enum SessionPlacement {
    /// This host opens the session under this id.
    Here(SessionId),
    /// Another host opened the session and sent this response.
    Answered(Response),
}

/// Chooses the id and the host of a new session. If another host is chosen, forwards the request to
/// it.
///
/// # Errors
/// Fails if no host accepts the session, or if the chosen one does not respond.
pub(crate) async fn place_session(
    shared: &Arc<Shared>,
    principal: &Principal,
    peer: &Peer,
    headers: &HeaderMap,
    new: &NewSession,
) -> Answer<SessionPlacement> {
    // Accepted from another host only: a client cannot choose the id.
    if let (Peer::OtherHost(_), Some(id)) = (peer, headers.get(NEW_SESSION)) {
        let id = id.to_str().ok().and_then(|id| SessionId::new(id).ok());
        return id.map(SessionPlacement::Here).ok_or_else(|| {
            Problem::bad_request("the header trunkline-new-session has no valid session id")
        });
    }
    let id = idempotency::session_id(principal, headers, None)?;
    let Some(peers) = &shared.options.peers else {
        return Ok(SessionPlacement::Here(id));
    };
    let late = |_| Problem::unavailable("no host accepted the session in time; try again");
    let placed = async {
        // A request that is repeated goes to the host that has opened the session.
        if key_of(headers)?.is_some() {
            match peers.locate(&id).await {
                SessionLocation::Unknown => {}
                known => return host_of_location(known),
            }
        }
        let placed = peers.place(&id, new.agent.as_deref()).await;
        host_of_location(placed.map_err(Problem::unavailable)?)
    };
    let Some(host) = timeout(PEER_TIMEOUT, placed).await.map_err(late)?? else {
        return Ok(SessionPlacement::Here(id));
    };
    if matches!(peer, Peer::OtherHost(_)) {
        return Err(session_moved(&host));
    }
    let body = serde_json::to_vec(new).map_err(Problem::failed)?;
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/sessions")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(Problem::failed)?;
    forward::forward_request(shared, principal, &id, Some(&id), &host, request)
        .await
        .map(SessionPlacement::Answered)
}
