//! What is said in a session beside inputs: a stop, answers to requests, changes of settings.

use std::time::Duration;

use axum::{
    Extension, Json as Body,
    extract::{FromRequest, Request, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use trunkline_protocol::{
    AdapterBody, Category, HostBody, HostMessage, RelayBody, SessionId, SessionUpdate, Stop,
};
use trunkline_sessions::EntryBody;

use super::{Asks, Gate, Json, SessionPath, all_read, message, part, turn_id, with_short_names};
use crate::{
    auth::{
        authorizer::{authorize, may_set, no_approval},
        principal::Principal,
    },
    gateway::Shared,
    http::{
        problem::{Answer, Problem},
        session_client::{Received, SessionClient},
    },
};

/// How long a session may take to say who decided a request that is not open.
const REMEMBERS: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    turn_id: Option<String>,
}

pub(super) async fn stop(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Json(which): Json<Which>,
) -> Answer<StatusCode> {
    let turn = turn_id(which.turn_id)?;
    let body: HostBody = Stop::default().into();
    authorize(
        &shared,
        &principal,
        &HostMessage::new(id.clone(), body.clone()),
        None,
    )?;
    let client = SessionClient::join_open(&shared.sessions_for(&principal), &id).await?;
    let open: Vec<_> = client
        .attached
        .turn_id
        .iter()
        .chain(client.attached.queued.iter().flatten())
        .collect();
    match &turn {
        Some(turn) if !open.contains(&turn) => {
            Err(Problem::conflict(format!("the turn {turn} does not run")))
        }
        None if open.is_empty() => Err(Problem::conflict("no turn runs")),
        _ => {
            client.send(turn, body).await?;
            Ok(StatusCode::ACCEPTED)
        }
    }
}

/// Answers a permission or a question. The first answer decides; a later one learns who did.
pub(super) async fn answer(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    request: Request,
) -> Answer<Body<Value>> {
    let (mut parts, body) = request.into_parts();
    let request = part(&mut parts, "request").await?;
    let Json(mut members): Json<Map<String, Value>> =
        Json::from_request(Request::from_parts(parts, body), &()).await?;
    let kind = match ["values", "cancelled"]
        .iter()
        .any(|name| members.contains_key(*name))
    {
        true => "input.response",
        false if members.get("approved").is_some_and(Value::is_boolean) => "permission.response",
        false => {
            let detail =
                "a permission is answered by `approved`, a question by `values` or `cancelled`";
            return Err(Problem::unprocessable(detail));
        }
    };
    members.insert("request_id".to_owned(), json!(request));
    let message = message(&id, kind, members)?;
    authorize(&shared, &principal, &message, None)?;
    let mut client = SessionClient::join_open(&shared.sessions_for(&principal), &id).await?;
    let (own, request) = (client.name().map(str::to_owned), request.as_str());
    client.send(None, message.body).await?;
    let decision = |received: Received<'_>| match received.body {
        EntryBody::Relay(RelayBody::RequestDecided(decided))
            if decided.request_id.as_str() == request =>
        {
            Some(Ok(decided.clone()))
        }
        // The reply to an answer of a question's form to a permission, or to an edited call that the
        // agent's rules deny.
        EntryBody::Adapter(AdapterBody::Error(error))
            if received.entry.is_none() && error.category == Some(Category::PermissionDenied) =>
        {
            Some(Err(Problem::forbidden(match principal.may_approve() {
                true => error.message.clone(),
                false => no_approval(&principal).to_owned(),
            })))
        }
        _ => None,
    };
    let was_open = client
        .attached
        .requests
        .iter()
        .flatten()
        .any(|open| open.as_str() == request);
    let decided = match was_open {
        true => client.wait_for_reply(decision).await?,
        // Of one that never was, nothing is said.
        false => timeout(REMEMBERS, client.wait_for(decision))
            .await
            .unwrap_or_else(|_| Err(Problem::conflict("the request is not open")))?,
    }?;
    if decided.by == own {
        let decided = serde_json::to_value(&decided).unwrap_or_default();
        return Ok(Body(with_short_names(decided, &[("id", "request_id")])));
    }
    let by = decided
        .by
        .map_or_else(String::new, |by| format!(" by {by}"));
    Err(Problem::conflict(format!(
        "the request was decided{by} before, or is not open"
    )))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    options: Map<String, Value>,
}

pub(super) async fn update(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Json(settings): Json<Settings>,
) -> Answer<StatusCode> {
    // The scope counts before the session is looked up.
    let scope = HostMessage::new(id.clone(), HostBody::from(SessionUpdate::default()));
    authorize(&shared, &principal, &scope, None)?;
    let client = SessionClient::join_open(&shared.sessions_for(&principal), &id).await?;
    let agent = &client.attached.agent_id;
    let update = settings_update(&shared, &principal, &id, agent, &settings.options)?;
    client.send(None, update).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Returns a change of settings that the principal may make in a session of this agent.
pub(super) fn settings_update(
    shared: &Shared,
    principal: &Principal,
    id: &SessionId,
    agent: &str,
    options: &Map<String, Value>,
) -> Answer<SessionUpdate> {
    options
        .keys()
        .try_for_each(|name| may_set(shared, principal, agent, name))?;
    let message = message(id, "session.update", options.clone())?;
    authorize(shared, principal, &message, Some(agent))?;
    all_read(options, &message)?;
    let HostBody::SessionUpdate(update) = message.body else {
        return Err(Problem::failed("the message is no session.update"));
    };
    if let Some(status) = shared.host.agent(agent) {
        let checked = status.config.check_update(&update);
        checked.map_err(|error| Problem::forbidden(error.to_string()))?;
    }
    Ok(*update)
}
