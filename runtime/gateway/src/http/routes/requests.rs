//! Messages to a session besides inputs: stops, answers to requests, changes of settings.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json as Body,
    extract::{FromRequest, Request, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use trunkline_host::policy::Pattern;
use trunkline_protocol::{
    AdapterBody, Category, HostBody, HostMessage, RelayBody, SessionId, SessionUpdate, Stop,
};
use trunkline_sessions::{AnswerNote, EntryBody, controls_display};

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

/// Limit for the display name of an answer, in characters.
const MAX_DISPLAY_NAME: usize = 64;

/// Timeout for the decision of a request that is no longer open.
const DECISION_TIMEOUT: Duration = Duration::from_secs(1);

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
    let has = |name: &str| members.contains_key(name);
    let kind = if has("values") || has("cancelled") {
        "input.response"
    } else if members.get("approved").is_some_and(Value::is_boolean) {
        "permission.response"
    } else {
        return Err(Problem::unprocessable(
            "a permission is answered by `approved`, a question by `values` or `cancelled`",
        ));
    };
    let note = take_note(&mut members)?;
    members.insert("request_id".to_owned(), json!(request));
    let message = message(&id, kind, members)?;
    authorize(&shared, &principal, &message, None)?;
    if note.always.is_some() {
        if shared.options.peers.is_some() {
            let detail = "hosts of a cluster keep no lasting rules; answer without `always`, or add the pattern to `permission.allow` of the agent";
            return Err(Problem::conflict(detail));
        }
        shared.rules.require_room().await?;
    }
    let client = SessionClient::join_open(&shared.sessions_for(&principal), &id).await?;
    let decided = decide(shared, principal, client, request, message.body, note);
    // A task, since a client that leaves must not separate a rule from its answer.
    let decided = tokio::spawn(decided).await;
    decided.map_err(|_| Problem::unavailable("the daemon ends"))?
}

/// Takes what an answer has for the record out of its members.
fn take_note(members: &mut Map<String, Value>) -> Answer<AnswerNote> {
    let mut take = |name: &str| match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::unprocessable(format!("`{name}` is a text"))),
    };
    let name = take("name")?;
    let always = take("always")?;
    if let Some(name) = &name
        && (name.is_empty()
            || name.chars().count() > MAX_DISPLAY_NAME
            || name.contains(controls_display))
    {
        return Err(Problem::unprocessable(format!(
            "`name` has 1 to {MAX_DISPLAY_NAME} characters, and none that controls the display"
        )));
    }
    let always: Option<Pattern> = always
        .map(|text| text.parse())
        .transpose()
        .map_err(|error| Problem::unprocessable(format!("`always`: failed to {error}")))?;
    let is_plain_approval =
        members.get("approved") == Some(&json!(true)) && !members.contains_key("updated_input");
    if always.is_some() && !is_plain_approval {
        return Err(Problem::unprocessable(
            "`always` comes with `approved: true`, without `updated_input`",
        ));
    }
    Ok(AnswerNote { name, always })
}

/// Sends an answer, waits for the decision, and saves the rule that it came with.
async fn decide(
    shared: Arc<Shared>,
    principal: Principal,
    mut client: SessionClient,
    request: String,
    body: HostBody,
    note: AnswerNote,
) -> Answer<Body<Value>> {
    let own = client.name().map(str::to_owned);
    let has_rule = note.always.is_some();
    client.answer(body, note).await?;
    let decision = |received: Received<'_>| match received.body {
        EntryBody::Relay(RelayBody::RequestDecided(decided))
            if decided.request_id.as_str() == request =>
        {
            Some(Ok(decided.clone()))
        }
        // The reply to an answer of a question's form to a permission, to an edited call that the
        // agent's rules deny, or to a rule that does not allow the request.
        EntryBody::Adapter(AdapterBody::Error(error)) if received.entry.is_none() => {
            match error.category? {
                Category::PermissionDenied => {
                    let reason = if principal.may_approve() {
                        &error.message
                    } else {
                        no_approval(&principal)
                    };
                    Some(Err(Problem::forbidden(reason)))
                }
                Category::Protocol if has_rule => {
                    Some(Err(Problem::unprocessable(error.message.clone())))
                }
                _ => None,
            }
        }
        _ => None,
    };
    let was_open = client
        .attached
        .requests
        .iter()
        .flatten()
        .any(|open| open.as_str() == request);
    let decided = if was_open {
        client.wait_for_reply(decision).await?
    } else {
        // A request that never existed has no decision.
        timeout(DECISION_TIMEOUT, client.wait_for(decision))
            .await
            .unwrap_or_else(|_| Err(Problem::conflict("the request is not open")))?
    }?;
    if decided.by != own {
        let by = decided
            .by
            .map_or_else(String::new, |by| format!(" by {by}"));
        return Err(Problem::conflict(format!(
            "the request was decided{by} before, or is not open"
        )));
    }
    let shown = serde_json::to_value(&decided).unwrap_or_default();
    let mut shown = with_short_names(shown, &[("id", "request_id")]);
    if let Some(pattern) = &decided.always {
        let by = own.as_deref().unwrap_or_default();
        let saved = shared.rules.add(&client.attached.agent_id, pattern, by);
        let approved_only = |problem: Problem| {
            let why = problem.into_detail();
            Problem::failed(format!(
                "the request was approved, but no rule saved: {why}"
            ))
        };
        shown["rule"] = json!(saved.await.map_err(approved_only)?);
    }
    Ok(Body(shown))
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
