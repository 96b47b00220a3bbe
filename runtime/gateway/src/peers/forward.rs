//! Forwarding of requests to the host that serves their session.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::{
    FutureExt, StreamExt,
    future::{pending, select},
    stream,
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use trunkline_client::exchange;
use trunkline_protocol::SessionId;

use super::{ForwardedPrincipal, Peers, SessionLocation};
use crate::{
    auth::principal::Principal,
    gateway::Shared,
    http::{
        connection::Peer,
        problem::{Answer, Problem},
        routes::SessionPath,
    },
};

/// Timeout for locating a session, and for connecting to its host.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a forwarded request may still take after the gateway has begun to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Header in which one gateway gives another the id of a new session. Removed from the requests of
/// clients.
pub(crate) const NEW_SESSION: HeaderName = HeaderName::from_static("trunkline-new-session");

/// Headers that are not forwarded: hop-by-hop headers and credentials.
const UNFORWARDED_HEADERS: [HeaderName; 13] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::HOST,
    header::AUTHORIZATION,
    header::COOKIE,
];

/// Middleware that forwards requests about sessions of other hosts and passes on all others.
pub(crate) async fn forward_session_request(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Principal>,
    Extension(peer): Extension<Peer>,
    SessionPath(id): SessionPath,
    request: Request,
    next: Next,
) -> Response {
    let Some(peers) = &shared.options.peers else {
        return next.run(request).await;
    };
    let host = match locate_session(&**peers, &id).await {
        Ok(None) => return next.run(request).await,
        Ok(Some(host)) => host,
        Err(problem) => return problem.into_response(),
    };
    match peer {
        // Two hosts with different tables would otherwise forward it in a circle.
        Peer::OtherHost(_) => session_moved(&host).into_response(),
        Peer::Network(..) | Peer::User => {
            forward_request(&shared, &principal, &id, None, &host, request)
                .await
                .unwrap_or_else(IntoResponse::into_response)
        }
    }
}

/// Finds the host of a session; `None` for this host.
///
/// # Errors
/// Fails if the session is unknown, or if its host is not available.
pub(crate) async fn locate_session(peers: &dyn Peers, id: &SessionId) -> Answer<Option<String>> {
    host_of_location(locate(peers, id).await?)
}

/// Finds the location of a session within [`PEER_TIMEOUT`].
pub(crate) async fn locate(peers: &dyn Peers, id: &SessionId) -> Answer<SessionLocation> {
    let late = |_| Problem::unavailable("the host of the session was not found in time; try again");
    let located = timeout(PEER_TIMEOUT, peers.locate(id)).await;
    located.map_err(late)
}

pub(super) fn host_of_location(place: SessionLocation) -> Answer<Option<String>> {
    match place {
        SessionLocation::Here => Ok(None),
        SessionLocation::There(host) => Ok(Some(host)),
        SessionLocation::Unknown => Err(Problem::no_session()),
        SessionLocation::Unavailable { host, why } => {
            Err(Problem::unavailable(host_unavailable_text(&host, &why)))
        }
    }
}

pub(super) fn host_unavailable_text(host: &str, why: &str) -> String {
    format!("the session is at the host {host}, which does not serve it now: {why}")
}

pub(super) fn session_moved(host: &str) -> Problem {
    Problem::unavailable(format!(
        "the session has moved to the host {host}; try again"
    ))
}

/// Forwards a request about a session to a host. `new` is the id of the session if the host must
/// open it.
///
/// # Errors
/// Fails if the host does not respond, or if the principal's token is no longer valid.
pub(crate) async fn forward_request(
    shared: &Arc<Shared>,
    principal: &Principal,
    id: &SessionId,
    new: Option<&SessionId>,
    host: &str,
    request: Request,
) -> Answer<Response> {
    let Some(peers) = &shared.options.peers else {
        return Err(Problem::no_session());
    };
    let path = request.uri().path();
    let is_events = path.ends_with("/events");
    let is_stream = is_events || path.ends_with("/export");
    let counted = is_stream.then(|| principal.stream()).transpose()?;
    let request = rewrite_request(request, new)?;
    let gone = peers.moved(id, host);
    let answered = tokio::select! {
        answered = send_to_host(&**peers, principal, host, request) => answered,
        () = gone => Err(host_did_not_respond(host, &"the session has left it")),
        () = shared.known_tokens.ended(principal) => Err(Problem::unauthorized("the token was revoked, or has expired")),
        () = async {
            shared.ending().await;
            sleep(SHUTDOWN_GRACE).await;
        } => Err(Problem::unavailable("the daemon is stopping")),
    };
    let (mut response, connection) = answered?;
    remove_hop_headers(response.headers_mut());
    let (head, body) = response.into_parts();
    let ended = if is_stream {
        let ends = select(peers.moved(id, host), shared.ending_for(principal));
        ends.map(drop).boxed()
    } else {
        pending().boxed()
    };
    let forwarded = (body.into_data_stream(), ended, connection, counted);
    let body = stream::unfold(Some(forwarded), move |forwarded| async move {
        let (mut body, mut ended, connection, counted) = forwarded?;
        let chunk = tokio::select! {
            biased;
            () = &mut ended => Err(axum::Error::new("the token or the host has ended")),
            chunk = body.next() => chunk?,
        };
        // Every chunk of an event stream is complete in itself. A broken stream ends without an
        // error: the client resumes after its last event.
        if is_events && chunk.is_err() {
            return None;
        }
        let rest = chunk.is_ok().then_some((body, ended, connection, counted));
        Some((chunk, rest))
    });
    Ok(Response::from_parts(head, Body::from_stream(body)))
}

/// Rewrites a request for another gateway: removes what concerns this connection only.
pub(super) fn rewrite_request(request: Request, new: Option<&SessionId>) -> Answer<Request> {
    let (mut parts, body) = request.into_parts();
    remove_hop_headers(&mut parts.headers);
    // The body sets the length again.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(NEW_SESSION);
    parts
        .headers
        .insert(header::HOST, HeaderValue::from_static("trunkline"));
    if let Some(id) = new {
        let id = HeaderValue::from_str(id.as_str()).map_err(Problem::failed)?;
        parts.headers.insert(NEW_SESSION, id);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder().method(parts.method).uri(path);
    if let Some(headers) = request.headers_mut() {
        *headers = parts.headers;
    }
    request.body(body).map_err(Problem::failed)
}

/// Removes hop-by-hop headers: the standard ones, and those that `Connection` names.
fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&UNFORWARDED_HEADERS) {
        headers.remove(name);
    }
}

/// Sends a request to a host. The returned tasks drive the connection; dropping them closes it.
pub(super) async fn send_to_host(
    peers: &dyn Peers,
    principal: &Principal,
    host: &str,
    request: Request,
) -> Answer<(Response, JoinSet<()>)> {
    let stream = connect_to_host(peers, principal, host).await;
    let stream = stream.map_err(|error| {
        Problem::unavailable(format!(
            "the host {host} of the session cannot be reached: {error}"
        ))
    })?;
    let (response, connection) = exchange(stream, request)
        .await
        .map_err(|error| host_did_not_respond(host, &error))?;
    Ok((response.map(Body::new), connection))
}

/// Connects to another host within [`PEER_TIMEOUT`].
pub(super) async fn connect_to_host(
    peers: &dyn Peers,
    principal: &Principal,
    host: &str,
) -> io::Result<Box<dyn super::Stream>> {
    let who = ForwardedPrincipal::from_principal(principal);
    timeout(PEER_TIMEOUT, peers.connect(host, who)).await?
}

fn host_did_not_respond(host: &str, why: &dyn std::fmt::Display) -> Problem {
    Problem::unavailable(format!(
        "the host {host} did not answer: {why}; the request may still take effect"
    ))
}
