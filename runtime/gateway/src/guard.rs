//! Who asks, and whether from here: the first thing that is known of a request, from its connection
//! and its head alone.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    accept::Peer, cross, entrance::Way, gateway::Shared, pass::Pass, problem::Problem, token::Scope,
};

/// Lets only requests through that are meant for this daemon, and come from no page of another
/// site. A page that a name leads here (DNS rebinding) names another host; one of another site
/// names its origin.
pub(crate) async fn from_here(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = match peer(request.extensions()) {
        Ok(Peer::Network(way, ..)) => check(&shared, &request, &way),
        // What another host passes on was looked at there.
        Ok(Peer::User | Peer::Fellow(_)) => Ok(None),
        Err(problem) => Err(problem),
    };
    let other = match checked {
        Ok(other) => other,
        Err(problem) => return hardened(problem.into_response()),
    };
    let mut response = match &other {
        Some(_) if cross::is_preflight(&request) => cross::preflight(),
        _ => next.run(request).await,
    };
    if let Some(origin) = other {
        cross::readable_for(origin, response.headers_mut());
    }
    hardened(response)
}

fn elsewhere() -> Problem {
    let detail = "this daemon does not serve the host that the request names";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
}

/// Gives the origin of a page of another site that may ask.
fn check(shared: &Shared, request: &Request, way: &Way) -> Result<Option<HeaderValue>, Problem> {
    let headers = request.headers();
    let named =
        one(headers, header::HOST).or_else(|| request.uri().authority().map(|name| name.as_str()));
    if !named.is_some_and(|name| way.is_to(name)) {
        return Err(elsewhere());
    }
    // The page of `trunkline open` is a file, and has no origin; what it gives is good once.
    let is_handover =
        request.method() == Method::POST && request.uri().path() == crate::handover::PATH;
    if is_handover {
        return Ok(None);
    }
    let foreign = || Problem::forbidden("a page of another site may not ask here");
    if let Some(value) = headers.get(header::ORIGIN) {
        let origin = one(headers, header::ORIGIN).ok_or_else(foreign)?;
        return match way.is_origin(origin) {
            true => Ok(None),
            false
                if shared
                    .options
                    .origins
                    .iter()
                    .any(|allowed| allowed == origin) =>
            {
                Ok(Some(value.clone()))
            }
            false => Err(foreign()),
        };
    }
    if one(headers, "sec-fetch-site")
        .is_some_and(|site| site == "cross-site" || site == "same-site")
        && one(headers, "sec-fetch-mode") != Some("navigate")
    {
        return Err(foreign());
    }
    Ok(None)
}

/// The one value of a header; `None` where there is none, or more.
pub(crate) fn one(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// From where a request comes.
pub(crate) fn peer(of: &Extensions) -> Result<Peer, Problem> {
    of.get::<Peer>().cloned().ok_or_else(elsewhere)
}

/// What every answer says to a browser: run nothing of others, guess no type, tell no one where you were.
fn hardened(mut response: Response) -> Response {
    const HEADERS: [(header::HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
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

/// Lets only those through who may ask, and notes who they are.
pub(crate) async fn with_pass(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    match must_pass(&shared, request.extensions(), request.headers()).await {
        Ok(pass) => {
            request.extensions_mut().insert(pass);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Who asks, who has to tell.
pub(crate) async fn must_pass(
    shared: &Shared,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<Pass, Problem> {
    match peer(extensions)? {
        Peer::User => Ok(Pass::User),
        Peer::Fellow(pass) => Ok(pass),
        peer @ Peer::Network(..) => enter(shared, &peer, bearer(headers)?).await,
    }
}

/// Who bears a token, unless it is a process that an agent has started.
pub(crate) async fn enter(shared: &Shared, peer: &Peer, token: &str) -> Result<Pass, Problem> {
    let unknown = || Problem::unauthorized("this token is not known, was revoked, or has expired");
    let pass = shared.passes.find(token).ok_or_else(unknown)?;
    if let Peer::Network(_, caller, admission) = peer {
        caller.check().await?;
        admission.accept();
    }
    Ok(pass)
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
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(token.trim())
    } else {
        Err(missing())
    }
}

/// Who bears the token of a request that need not have one.
pub(crate) async fn pass_of(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
) -> Option<Result<Pass, Problem>> {
    match peer {
        Peer::User => Some(Ok(Pass::User)),
        Peer::Fellow(pass) => Some(Ok(pass.clone())),
        Peer::Network(..) if !headers.contains_key(header::AUTHORIZATION) => None,
        Peer::Network(..) => Some(match bearer(headers) {
            Ok(token) => enter(shared, peer, token).await,
            Err(problem) => Err(problem),
        }),
    }
}

/// Whether who asks has a scope.
pub(crate) fn needs(pass: &Pass, scope: Scope) -> Result<(), Problem> {
    if pass.scope() >= scope {
        return Ok(());
    }
    let (has, needs) = (pass.scope().as_str(), scope.as_str());
    Err(Problem::forbidden(format!(
        "the token has scope {has}, and this needs {needs}"
    )))
}
