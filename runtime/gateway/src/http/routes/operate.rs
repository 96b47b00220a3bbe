//! The daemon itself: the principal, readiness, metrics, usage, reload and stop.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Form, Json,
    extract::{FromRequest, Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{Query, blocking};
use crate::{
    auth::{
        authentication::optional_principal, caller::UNPROVEN, principal::Principal, token::Scope,
    },
    gateway::{DailyUsage, Shared},
    http::{
        connection::Peer,
        console, cors,
        listener::ListenerSummary,
        operation::{
            AcceptedAnswer, EitherAnswer, RequestContext, WithStatus, answers, parameters,
        },
        problem::{Answer, Problem},
    },
};

/// Description of the API, as OpenAPI.
pub(super) const CONTRACT: &str = include_str!("../../../openapi.json");

/// Default and maximum number of days of a usage report.
const DAYS: u32 = 30;
const MOST_DAYS: u32 = 366;

answers! {
    /// Principal of a token.
    pub(super) struct Me {
        scope: Scope,
        /// True if it answers permissions.
        may_approve: bool,
        /// Begins `by` in what the principal sends.
        name: String,
        /// Agents that it may use; null for all.
        agents: Option<Vec<String>>,
        /// True if it sees the sessions of other tokens.
        sees_all: bool,
        /// Version of the daemon.
        version: String,
    }
}

pub(super) async fn me(RequestContext { shared, principal }: RequestContext) -> Json<Me> {
    let visitor = principal.visitor();
    let visitor = visitor.as_deref();
    Json(Me {
        scope: principal.scope(),
        may_approve: principal.may_approve(),
        name: visitor.map_or("user", |visitor| &visitor.author).to_owned(),
        agents: visitor.and_then(|visitor| visitor.agents.clone()),
        sees_all: visitor.is_none_or(|visitor| visitor.sees_all),
        version: shared.options.version.clone(),
    })
}

/// State of the daemon.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum DaemonState {
    /// Accepts work.
    Ready,
    /// Ends, and accepts no more work.
    Draining,
    /// Cannot write its journal.
    ReadOnly,
}

answers! {
    /// State of the daemon, and what it serves.
    pub(super) struct Readiness {
        state: DaemonState,
        version: String,
        /// Number of agents that the token may use. Absent without a token.
        #[serde(skip_serializing_if = "Option::is_none")]
        agents: Option<usize>,
        /// Number of sessions in the journal. Only for a token that sees all sessions.
        #[serde(skip_serializing_if = "Option::is_none")]
        sessions: Option<usize>,
        /// Listeners of the daemon; null before it serves them. Only for a token that sees all sessions.
        #[serde(skip_serializing_if = "Option::is_none")]
        listeners: Option<Vec<ListenerSummary>>,
    }
}

/// Reports whether the daemon takes work, and to a client with a token what it serves.
pub(super) async fn ready(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<EitherAnswer<Json<Readiness>, WithStatus<503, Json<Readiness>>>> {
    let state = match (shared.takes_work(), shared.sessions.journal().trouble()) {
        (Err(_), _) => DaemonState::Draining,
        (Ok(()), Some(_)) => DaemonState::ReadOnly,
        (Ok(()), None) => DaemonState::Ready,
    };
    let mut answer = Readiness {
        state,
        version: shared.options.version.clone(),
        agents: None,
        sessions: None,
        listeners: None,
    };
    let peer = cors::peer(request.extensions())?;
    if let Some(principal) = optional_principal(&shared, &peer, request.headers()).await {
        let principal = principal?;
        let agents = shared.host.agents().into_iter();
        let agents = agents.filter(|agent| principal.may_have(&agent.config.id));
        answer.agents = Some(agents.count());
        if principal.sees_all() {
            answer.sessions = Some(shared.sessions.journal().sessions());
            answer.listeners = shared.listeners.get().cloned();
        }
    }
    Ok(match state {
        DaemonState::Ready => EitherAnswer::First(Json(answer)),
        DaemonState::Draining | DaemonState::ReadOnly => {
            EitherAnswer::Second(WithStatus(Json(answer)))
        }
    })
}

pub(super) async fn contract() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], CONTRACT).into_response()
}

pub(super) async fn metrics(
    RequestContext { shared, principal }: RequestContext,
) -> Answer<Response> {
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
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

parameters! {
    pub(super) struct UsageQuery {
        /// Number of days; 30 if absent.
        #[cfg_attr(test, schemars(range(min = 1, max = MOST_DAYS)))]
        days: Option<u32>,
    }
}

answers! {
    /// Usage of turns.
    pub(super) struct UsageReport {
        /// One for each day and agent with a turn.
        days: Vec<DailyUsage>,
    }
}

/// Returns the usage of the agents that the principal may use.
pub(super) async fn usage(
    RequestContext { shared, principal }: RequestContext,
    Query(query): Query<UsageQuery>,
) -> Answer<Json<UsageReport>> {
    if principal.visitor().is_some_and(|visitor| !visitor.sees_all) {
        return Err(Problem::forbidden(
            "usage covers all sessions, and this token sees only its own; `trunkline token new --all-sessions` makes one that sees all",
        ));
    }
    let days = query.days.unwrap_or(DAYS).clamp(1, MOST_DAYS);
    let since = SystemTime::now() - Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    let operate = shared.operate.clone();
    let mut days = blocking(move || operate.usage(since).map_err(Problem::unavailable)).await?;
    days.retain(|day| principal.may_have(&day.agent));
    Ok(Json(UsageReport { days }))
}

answers! {
    /// Result of a reload.
    pub(super) struct ReloadResult {
        /// Summary of the changes, for people.
        reloaded: String,
    }
}

pub(super) async fn reload(context: RequestContext) -> Answer<Json<ReloadResult>> {
    let operate = context.shared.operate.clone();
    let reload = move || operate.reload().map_err(Problem::unprocessable);
    let reloaded = blocking(reload).await?;
    Ok(Json(ReloadResult { reloaded }))
}

pub(super) async fn stop(context: RequestContext) -> AcceptedAnswer {
    context.shared.operate.stop();
    WithStatus(())
}

answers! {
    /// Code for a browser.
    pub(super) struct HandoverCode {
        code: String,
    }
}

/// Creates a code for a browser. Only this user gets one, over the socket.
pub(super) async fn handover(
    RequestContext { shared, principal }: RequestContext,
) -> Answer<Json<HandoverCode>> {
    match principal {
        Principal::User => Ok(Json(HandoverCode {
            code: shared.codes.create(),
        })),
        Principal::Bearer(_) => Err(Problem::forbidden(
            "only the socket of this user gives a code: run `trunkline open`",
        )),
    }
}

#[derive(Debug, Deserialize)]
struct RedeemedCode {
    code: String,
}

/// Exchanges a code for the console, which pairs its browser. The page's address contains no secret.
pub(super) async fn open(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let is_proven = match cors::peer(request.extensions()) {
        Ok(Peer::Network(_, caller, _)) => caller.is_proven().await,
        peer => peer.map(|_| true),
    };
    let redeemed = Form::<RedeemedCode>::from_request(request, &()).await;
    let is_redeemed = redeemed.is_ok_and(|Form(redeemed)| shared.codes.redeem(&redeemed.code));
    match is_proven {
        Ok(true) if is_redeemed => console::page_with("code", &shared.codes.create()),
        Ok(true) => console::failed_page(Problem::unauthorized(
            "this link was used, or is older than a minute: run `trunkline open` again",
        )),
        Ok(false) => console::failed_page(Problem::forbidden(UNPROVEN)),
        Err(problem) => console::failed_page(problem),
    }
}
