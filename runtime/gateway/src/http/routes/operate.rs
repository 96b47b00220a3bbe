//! The daemon itself: the principal, readiness, metrics, usage, reload and stop.

use std::time::{Duration, SystemTime};

use axum::{
    Extension, Form, Json,
    extract::{FromRequest, Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asks, Gate, Query, blocking};
use crate::{
    auth::{
        authentication::{optional_principal, require_scope},
        caller::UNPROVEN,
        principal::Principal,
        token::{NewToken, Scope},
    },
    http::{
        connection::Peer,
        console, cors,
        problem::{Answer, Problem},
    },
};

/// Description of the API, as OpenAPI.
pub(super) const CONTRACT: &str = include_str!("../../../openapi.json");

/// Lifetime of a console's token.
const CONSOLE: Duration = Duration::from_secs(12 * 60 * 60);

/// Default and maximum number of days of a usage report.
const DAYS: u32 = 30;
const MOST_DAYS: u32 = 366;

pub(super) async fn me(State(shared): Gate, Extension(principal): Asks) -> Json<Value> {
    let visitor = principal.visitor();
    Json(json!({
        "scope": principal.scope(),
        "may_approve": principal.may_approve(),
        "name": visitor.as_ref().map_or("user", |visitor| &visitor.author),
        "agents": visitor.as_ref().and_then(|visitor| visitor.agents.clone()),
        "sees_all": visitor.as_ref().is_none_or(|visitor| visitor.sees_all),
        "version": shared.options.version,
    }))
}

/// Reports whether the daemon takes work, and to a client with a token what it serves.
pub(super) async fn ready(State(shared): Gate, request: Request) -> Answer<Response> {
    let trouble = shared.sessions.journal().trouble();
    let (status, state) = match (shared.takes_work(), &trouble) {
        (Err(_), _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (Ok(()), Some(_)) => (StatusCode::SERVICE_UNAVAILABLE, "read_only"),
        (Ok(()), None) => (StatusCode::OK, "ready"),
    };
    let mut answer = json!({ "state": state, "version": shared.options.version });
    let peer = cors::peer(request.extensions())?;
    if let Some(principal) = optional_principal(&shared, &peer, request.headers()).await {
        let principal = principal?;
        let agents = shared.host.agents().into_iter();
        let agents = agents.filter(|agent| principal.may_have(&agent.config.id));
        answer["agents"] = json!(agents.count());
        if principal.sees_all() {
            answer["sessions"] = json!(shared.sessions.journal().sessions());
            answer["listeners"] = json!(shared.listeners.get());
        }
    }
    Ok((status, Json(answer)).into_response())
}

pub(super) async fn contract() -> Response {
    (
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )],
        CONTRACT,
    )
        .into_response()
}

pub(super) async fn metrics(State(shared): Gate, Extension(principal): Asks) -> Answer<Response> {
    if !principal.sees_all() {
        return Err(Problem::forbidden(
            "the figures are of all sessions and agents, which the token does not see",
        ));
    }
    let agents = shared.host.health().await;
    let peers = shared.options.peers.as_ref();
    let hosts = peers.map(|peers| peers.hosts()).unwrap_or_default();
    let counters = peers.map(|peers| peers.counters()).unwrap_or_default();
    let sessions = shared.sessions.journal().sessions();
    let text = shared.metrics.text(
        &shared.options.version,
        sessions,
        &agents,
        &hosts,
        &counters,
    );
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    days: Option<u32>,
}

/// Returns the usage of the agents that the principal may use.
pub(super) async fn usage(
    State(shared): Gate,
    Extension(principal): Asks,
    Query(span): Query<Span>,
) -> Answer<Json<Value>> {
    if principal.visitor().is_some_and(|visitor| !visitor.sees_all) {
        return Err(Problem::forbidden(
            "what was used is of all sessions, which the token does not see",
        ));
    }
    let days = span.days.unwrap_or(DAYS).clamp(1, MOST_DAYS);
    let since = SystemTime::now() - Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    let operate = shared.operate.clone();
    let mut used = blocking(move || operate.usage(since).map_err(Problem::unavailable)).await?;
    used.retain(|day| principal.may_have(&day.agent));
    Ok(Json(json!({ "days": used })))
}

pub(super) async fn reload(State(shared): Gate, Extension(principal): Asks) -> Answer<Json<Value>> {
    require_scope(&principal, Scope::Admin)?;
    let operate = shared.operate.clone();
    let told = blocking(move || operate.reload().map_err(Problem::unprocessable)).await?;
    Ok(Json(json!({ "reloaded": told })))
}

pub(super) async fn stop(State(shared): Gate, Extension(principal): Asks) -> Answer<StatusCode> {
    require_scope(&principal, Scope::Admin)?;
    shared.operate.stop();
    Ok(StatusCode::ACCEPTED)
}

/// Creates a code for a browser. Only this user gets one, over the socket.
pub(super) async fn handover(
    State(shared): Gate,
    Extension(principal): Asks,
) -> Answer<Json<Value>> {
    match principal {
        Principal::User => Ok(Json(json!({ "code": shared.codes.create() }))),
        Principal::Bearer(_) => Err(Problem::forbidden(
            "a code is given over the socket alone: `trunkline open`",
        )),
    }
}

#[derive(Debug, Deserialize)]
struct Given {
    code: String,
}

/// Exchanges a code for the console with a token. The page's address contains no secret.
pub(super) async fn open(State(shared): Gate, request: Request) -> Response {
    let is_proven = match cors::peer(request.extensions()) {
        Ok(Peer::Network(_, caller, _)) => caller.is_proven().await,
        peer => peer.map(|_| true),
    };
    let Ok(Form(given)) = Form::<Given>::from_request(request, &()).await else {
        return Problem::bad_request("a code is needed").into_response();
    };
    match is_proven {
        Ok(true) => {}
        Ok(false) => return Problem::forbidden(UNPROVEN).into_response(),
        Err(problem) => return problem.into_response(),
    }
    if !shared.codes.redeem(&given.code) {
        return Problem::unauthorized(
            "this code was used, or is older than a minute: run `trunkline open` again",
        )
        .into_response();
    }
    let new = NewToken {
        may_approve: true,
        all_sessions: true,
        expires: Some(CONSOLE),
        ..NewToken::with_scope(Scope::Admin)
    };
    match blocking(move || shared.tokens.add(new)).await {
        Ok((_, text)) => console::page_with(&text),
        Err(problem) => problem.into_response(),
    }
}
