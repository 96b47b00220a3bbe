//! Checks of `Host` and `Origin`, CORS (the fetch standard's) for the origins that the operator
//! allows, and security headers. There are no cookies: a page has the rights of its token.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    auth::handover,
    gateway::Shared,
    http::{connection::Peer, listener::ListenerIdentity, problem::Problem},
};

/// Rejects requests for another host and from pages of other sites.
///
/// A page that reaches this daemon by DNS rebinding names its own host, and a page of another site
/// sends its origin.
pub(crate) async fn check_host_and_origin(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = match peer(request.extensions()) {
        Ok(Peer::Network(identity, ..)) => allowed_origin(&shared, &request, &identity),
        // The host that forwarded it has checked it.
        Ok(Peer::User | Peer::OtherHost(_)) => Ok(None),
        Err(problem) => Err(problem),
    };
    let other = match checked {
        Ok(other) => other,
        Err(problem) => return add_security_headers(problem.into_response()),
    };
    let mut response = match &other {
        Some(_) if is_preflight(&request) => preflight(),
        _ => next.run(request).await,
    };
    if let Some(origin) = other {
        allow_origin(origin, response.headers_mut());
    }
    add_security_headers(response)
}

fn wrong_host(host: &str) -> Problem {
    let detail = format!(
        "this daemon does not serve the host {host:?}; `trunkline up --host-name NAME` adds a name"
    );
    Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
}

/// Returns the origin of a page of another site, if the operator allows it.
fn allowed_origin(
    shared: &Shared,
    request: &Request,
    identity: &ListenerIdentity,
) -> Result<Option<HeaderValue>, Problem> {
    let headers = request.headers();
    // A request of HTTP/2, or one to a proxy, may name a host in two places.
    let authority = request.uri().authority().map(|name| name.as_str());
    let host = single_header(headers, header::HOST);
    let is_ambiguous = headers.contains_key(header::HOST) && host.is_none();
    let mut names = host.into_iter().chain(authority).peekable();
    if is_ambiguous || names.peek().is_none() {
        return Err(wrong_host(""));
    }
    if let Some(name) = names.find(|name| !identity.is_to(name)) {
        return Err(wrong_host(name));
    }
    // The page of `trunkline open` is a file without an origin; its code works once.
    let is_handover = request.method() == Method::POST && request.uri().path() == handover::PATH;
    if is_handover {
        return Ok(None);
    }
    let foreign = || Problem::forbidden("a page of another site may not ask here");
    if let Some(value) = headers.get(header::ORIGIN) {
        let origin = single_header(headers, header::ORIGIN).ok_or_else(foreign)?;
        if identity.is_origin(origin) {
            return Ok(None);
        }
        let is_allowed = shared
            .options
            .origins
            .iter()
            .any(|allowed| allowed == origin);
        return is_allowed.then(|| Some(value.clone())).ok_or_else(foreign);
    }
    if single_header(headers, "sec-fetch-site")
        .is_some_and(|site| site == "cross-site" || site == "same-site")
        && single_header(headers, "sec-fetch-mode") != Some("navigate")
    {
        return Err(foreign());
    }
    Ok(None)
}

/// Returns the value of a header that occurs exactly once.
pub(crate) fn single_header(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns the connection that a request came over.
pub(crate) fn peer(of: &Extensions) -> Result<Peer, Problem> {
    of.get::<Peer>().cloned().ok_or_else(|| wrong_host(""))
}

/// Adds headers that restrict what a browser does with the response.
fn add_security_headers(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'; sandbox",
        ),
    ];
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Returns `true` for a CORS preflight.
fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a preflight with the methods and headers that a page may send.
fn preflight() -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, PUT, PATCH, DELETE",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, if-none-match, last-event-id, acp-connection-id, acp-session-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, HEADERS).into_response()
}

/// Allows pages of an origin to read a response.
fn allow_origin(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "etag, location, retry-after, idempotency-replayed, acp-connection-id",
        ),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
