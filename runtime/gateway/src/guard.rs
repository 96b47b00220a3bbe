//! Who asks, and whether from here: the first thing that is known of a request, from its connection and its head alone.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{accept::Peer, gateway::Shared, pass::Pass, problem::Problem, token::Scope};

/// Lets only requests through that are meant for this daemon, and come from no page of another site. A page that a
/// name leads here (DNS rebinding) names another host; one of another site names its origin.
pub(crate) async fn from_here(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let peer = peer(&request);
    if peer == Peer::Network
        && let Err(problem) = check(&shared, &request)
    {
        return hardened(problem.into_response());
    }
    hardened(next.run(request).await)
}

fn check(shared: &Shared, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let named = one(headers, header::HOST).or_else(|| request.uri().authority().map(|name| name.as_str()));
    let is_ours = |name: &str| shared.options.names.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    if !named.is_some_and(is_ours) {
        let detail = "this daemon does not serve the host that the request names";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
    }
    // The page of `trunkline open` is a file, and has no origin; what it gives is good once.
    let is_handover = request.method() == Method::POST && request.uri().path() == crate::handover::PATH;
    if is_handover {
        return Ok(());
    }
    let foreign = || Problem::forbidden("a page of another site may not ask here");
    if headers.contains_key(header::ORIGIN) {
        let origin = one(headers, header::ORIGIN).ok_or_else(foreign)?;
        let own = origin.strip_prefix("http://").is_some_and(is_ours);
        if !own && !shared.options.origins.iter().any(|allowed| allowed == origin) {
            return Err(foreign());
        }
    } else if one(headers, "sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
        && one(headers, "sec-fetch-mode") != Some("navigate")
    {
        return Err(foreign());
    }
    Ok(())
}

/// The one value of a header; `None` where there is none, or more.
fn one(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn peer(request: &Request) -> Peer {
    request.extensions().get::<Peer>().copied().unwrap_or(Peer::Network)
}

/// What every answer says to a browser: run nothing of others, guess no type, tell no one where you were.
fn hardened(mut response: Response) -> Response {
    const HEADERS: [(header::HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
    ];
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets only those through who may ask, and notes who they are.
pub(crate) async fn with_pass(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let pass = match peer(&request) {
        Peer::User => Some(Pass::User),
        Peer::Network => match bearer(request.headers()) {
            Ok(text) => shared.passes.find(text),
            Err(problem) => return problem.into_response(),
        },
    };
    let Some(pass) = pass else {
        return Problem::unauthorized("this token is not known, was revoked, or has expired").into_response();
    };
    request.extensions_mut().insert(pass);
    next.run(request).await
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || {
        Problem::unauthorized(
            "a token is needed: `Authorization: Bearer TOKEN`; `trunkline token new` makes one",
        )
    };
    let value = one(headers, header::AUTHORIZATION).ok_or_else(missing)?;
    let (scheme, token) = value.split_once(' ').ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(missing()) }
}

/// Who bears the token of a request that need not have one.
pub(crate) fn pass_of(shared: &Shared, request: &Request) -> Option<Result<Pass, Problem>> {
    match peer(request) {
        Peer::User => Some(Ok(Pass::User)),
        Peer::Network => request.headers().contains_key(header::AUTHORIZATION).then(|| {
            let pass = shared.passes.find(bearer(request.headers())?);
            pass.ok_or_else(|| Problem::unauthorized("this token is not known, was revoked, or has expired"))
        }),
    }
}

/// Whether who asks has a scope.
pub(crate) fn needs(pass: &Pass, scope: Scope) -> Result<(), Problem> {
    if pass.scope() >= scope {
        return Ok(());
    }
    let (has, needs) = (pass.scope().as_str(), scope.as_str());
    Err(Problem::forbidden(format!("the token has scope {has}, and this needs {needs}")))
}
