//! Sessions: open, list, show, read, copy, edit and close.

use std::time::Duration;

use axum::{
    Extension, Json as Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::{Instant, sleep};
use trunkline_protocol::{
    AdapterBody, HostBody, HostMessage, HubMessage, RequestId, SessionAttached, SessionClose,
    SessionEdit, SessionFork, SessionId, SessionState, SessionsList,
};
use trunkline_sessions::{EntryBody, HistoryRange, RemoveError, StreamItem, without_path};

use super::{
    Asks, Gate, Json, Query, SessionPath, agents::continue_conversation, all_read, blocking,
    message, with_short_names,
};
use crate::{
    auth::{
        authorizer::{authorize, authorize_hub_message, may_set},
        principal::Principal,
    },
    gateway::Shared,
    http::{
        connection::Peer,
        idempotency::{self, key_of},
        problem::{Answer, Problem},
        session_client::{Received, SessionClient},
    },
    peers::{
        list,
        placement::{self, SessionPlacement},
    },
};

/// Timeout for the first entry of a new session to be stored.
const STORED: Duration = Duration::from_secs(5);

/// Timeout for a removed session to leave the memory.
const LEAVES: Duration = Duration::from_secs(10);

/// Interval of checks whether a removed session has left the memory.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    pub(crate) agent: Option<String>,
    /// The agent's own conversation that the session continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    native_session_id: Option<String>,
    #[serde(default)]
    options: Map<String, Value>,
}

pub(super) async fn open(
    State(shared): Gate,
    Extension(principal): Asks,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Json(mut new): Json<New>,
) -> Answer<Response> {
    shared.takes_work()?;
    let own = || {
        let default = shared
            .host
            .default_agent()
            .filter(|id| principal.may_have(id));
        let ids = shared
            .host
            .agents()
            .into_iter()
            .map(|agent| agent.config.id);
        default.or_else(|| ids.into_iter().find(|id| principal.may_have(id)))
    };
    let agent = new
        .agent
        .or_else(own)
        .ok_or_else(|| Problem::forbidden("the token is for no agent"))?;
    if !principal.may_have(&agent) {
        return Err(Problem::forbidden(format!(
            "the token is not for the agent {agent}"
        )));
    }
    new.agent = Some(agent.clone());
    if new.native_session_id.is_some() && shared.options.peers.is_some() {
        return Err(Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "hosts of a cluster share no conversations of agents, so `native_session_id` has no effect here",
        ));
    }
    let id = match placement::place_session(&shared, &principal, &peer, &headers, &new).await? {
        SessionPlacement::Here(id) => id,
        SessionPlacement::Answered(response) => return Ok(response),
    };
    let mut options = new.options;
    options
        .keys()
        .try_for_each(|name| may_set(&shared, &principal, &agent, name))?;
    let title = match options.remove("title") {
        None => None,
        Some(Value::String(title)) => Some(title),
        Some(_) => return Err(Problem::unprocessable("title is a text")),
    };
    let message = message(&id, "session.start", options.clone())?;
    authorize(&shared, &principal, &message, Some(&agent))?;
    all_read(&options, &message)?;
    let HostBody::SessionStart(mut start) = message.body else {
        return Err(Problem::failed("the message is no session.start"));
    };
    if let Some(native) = &new.native_session_id {
        if start.resume.is_some() {
            return Err(Problem::unprocessable(
                "`native_session_id` and the option `resume` name two conversations; leave one out",
            ));
        }
        continue_conversation(&shared, &principal, &agent, native, &mut start).await?;
    }
    let sessions = shared.sessions_for(&principal);
    if key_of(&headers)?.is_some() || matches!(peer, Peer::OtherHost(_)) {
        // The answer to an earlier request of this key may be lost.
        if let Ok(known) = SessionClient::join(&sessions, &id).await {
            return opened_before(&id, &known.attached, &agent);
        }
    }
    let mut listener = sessions.start(&id, &agent, *start, None, title.as_deref())?;
    let stored = tokio::time::timeout(STORED, listener.next(&mut Vec::new())).await;
    if !matches!(stored, Ok(Ok(StreamItem::Entries))) {
        return Err(Problem::unavailable(
            "the journal does not store the session in time",
        ));
    }
    Ok(created(&id, &json!({ "id": id, "agent": agent })))
}

/// Returns the answer to a repeated request, whose session exists.
fn opened_before(id: &SessionId, session: &SessionAttached, agent: &str) -> Answer<Response> {
    if session.agent_id != agent {
        let other = &session.agent_id;
        return Err(Problem::unprocessable(format!(
            "Idempotency-Key: an earlier request opened a session of the agent {other} with this key; \
             use a new key for each request"
        )));
    }
    Ok(created(id, &json!({ "id": id, "agent": agent })))
}

/// Answer to a request that has created a session.
fn created(id: &SessionId, body: &Value) -> Response {
    let mut response = (StatusCode::CREATED, Body(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Body of a request for a fork.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    /// Last entry of the copy; `None` for all.
    seq: Option<u64>,
}

/// Opens a session as a copy of another one.
pub(super) async fn fork(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(source): SessionPath,
    headers: HeaderMap,
    Json(copy): Json<ForkBody>,
) -> Answer<Response> {
    shared.takes_work()?;
    let id = idempotency::session_id(&principal, &headers, Some(&source))?;
    let fork = SessionFork {
        source: source.to_string(),
        seq: copy.seq,
        ..SessionFork::default()
    };
    authorize_hub_message(
        &shared,
        &principal,
        &HubMessage::new(id.clone(), fork.clone()),
    )?;
    let sessions = shared.sessions_for(&principal);
    let before = match key_of(&headers)? {
        Some(_) => SessionClient::join(&sessions, &id).await.ok(),
        None => None,
    };
    let attached = match before {
        Some(before) => before.attached,
        None => sessions.fork(&id, fork).await?.0,
    };
    let body = json!({ "id": id, "agent": attached.agent_id, "copied": attached.copied });
    Ok(created(&id, &body))
}

/// Body of a request for an edit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditBody {
    title: Option<String>,
    archived: Option<bool>,
}

/// Changes the title of a session, or archives it.
pub(super) async fn edit(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Json(edit): Json<EditBody>,
) -> Answer<StatusCode> {
    let edit = SessionEdit {
        request_id: request()?,
        title: edit.title,
        archived: edit.archived,
    };
    authorize_hub_message(
        &shared,
        &principal,
        &HubMessage::new(id.clone(), edit.clone()),
    )?;
    let sessions = shared.sessions_for(&principal);
    // An unknown session has a status of its own.
    drop(SessionClient::join(&sessions, &id).await?);
    match sessions.edit(&id, edit).await.error {
        Some(why) => Err(Problem::unprocessable(why)),
        None => Ok(StatusCode::NO_CONTENT),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    #[serde(alias = "agent_id")]
    agent: Option<String>,
    state: Option<String>,
    text: Option<String>,
    cursor: Option<String>,
    cwd: Option<String>,
    archived: Option<bool>,
    limit: Option<u32>,
}

pub(super) async fn listed(
    State(shared): Gate,
    Extension(principal): Asks,
    Extension(peer): Extension<Peer>,
    Query(which): Query<Which>,
) -> Answer<Body<Value>> {
    let state = which.state.as_deref().map(state_of).transpose()?;
    let asked = SessionsList {
        agent_id: which.agent,
        state,
        text: which.text,
        cursor: which.cursor,
        cwd: which.cwd,
        archived: which.archived,
        limit: which.limit,
        ..SessionsList::new(request()?)
    };
    let mut answer = match (&shared.options.peers, peer) {
        // The other host merges it with further lists.
        (_, Peer::OtherHost(_)) => {
            json!(list::list_own_sessions(&shared, &principal, asked).await?)
        }
        (Some(peers), _) => {
            json!(list::list_all_sessions(&shared, &principal, &**peers, asked).await?)
        }
        (None, _) => {
            let listed = list::list_own_sessions(&shared, &principal, asked).await?;
            json!({ "sessions": listed.sessions, "next": listed.next })
        }
    };
    for session in answer["sessions"].as_array_mut().into_iter().flatten() {
        *session = with_short_names(session.take(), SHORT_NAMES);
    }
    Ok(Body(answer))
}

/// Names of a session and its agent in answers, and in the protocol.
const SHORT_NAMES: &[(&str, &str)] = &[("id", "session_id"), ("agent", "agent_id")];

fn state_of(text: &str) -> Answer<SessionState> {
    let known = [
        SessionState::Running,
        SessionState::Idle,
        SessionState::Detached,
        SessionState::Closed,
    ];
    let found = known.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let names = known.map(SessionState::as_str).join(", ");
        Problem::unprocessable(format!(
            "{text:?} is no state of a session; these are: {names}"
        ))
    })
}

fn request() -> Answer<RequestId> {
    RequestId::new("http").map_err(|error| Problem::failed(error.to_string()))
}

pub(super) async fn show(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
) -> Answer<Body<Value>> {
    let client = SessionClient::join(&shared.sessions_for(&principal), &id).await?;
    let shown = serde_json::to_value(&client.attached).unwrap_or_default();
    let mut shown = with_short_names(shown, SHORT_NAMES);
    shown["id"] = json!(id);
    let patterns = client.exact_rules().await;
    if !patterns.is_empty() {
        shown["always_patterns"] = json!(patterns);
    }
    if let Some(own) = own_host(&shared) {
        shown["host"] = json!(own);
    }
    Ok(Body(shown))
}

/// Returns the id of this host among several.
pub(super) fn own_host(shared: &Shared) -> Option<String> {
    let hosts = shared.options.peers.as_ref()?.hosts();
    hosts
        .into_iter()
        .find(|host| host.is_this)
        .map(|host| host.id)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryParameters {
    from: Option<u64>,
    before: Option<String>,
    limit: Option<u64>,
}

/// Reads a page of a session's entries, from a number on or before one.
pub(super) async fn history(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Query(HistoryParameters {
        from,
        before,
        limit,
    }): Query<HistoryParameters>,
) -> Answer<Body<Value>> {
    let range = match (from, before.as_deref()) {
        (_, None) => HistoryRange::From(from.unwrap_or(1)),
        (None, Some("end")) => HistoryRange::Before(u64::MAX),
        (None, Some(number)) => HistoryRange::Before(number.parse().map_err(|_| {
            Problem::bad_request(format!(
                "the query: before is the number of an entry, or `end`, and not {number:?}"
            ))
        })?),
        (Some(_), Some(_)) => {
            return Err(Problem::unprocessable(
                "`from` and `before` name two pages; leave one out",
            ));
        }
    };
    let sessions = shared.sessions_for(&principal);
    let limit = limit.unwrap_or(u64::MAX);
    let page = sessions.read_page(&id, range, limit).await?;
    let entries: Vec<Box<RawValue>> = page
        .entries
        .iter()
        .filter_map(|entry| RawValue::from_string(without_path(entry.get()).into_owned()).ok())
        .collect();
    Ok(Body(json!({
        "entries": entries,
        "previous": page.previous,
        "next": page.next,
        "last": page.last,
    })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    #[serde(default)]
    remove: bool,
}

pub(super) async fn close(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Query(removal): Query<Removal>,
) -> Answer<StatusCode> {
    end(&shared, &principal, &id, removal.remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Closes a session, and removes it with its uploads if `removes`.
pub(super) async fn end(
    shared: &Shared,
    principal: &Principal,
    id: &SessionId,
    removes: bool,
) -> Answer<()> {
    let sessions = shared.sessions_for(principal);
    let mut client = SessionClient::join(&sessions, id).await?;
    let close: HostBody = SessionClose::default().into();
    authorize(
        shared,
        principal,
        &HostMessage::new(id.clone(), close.clone()),
        None,
    )?;
    if client.attached.state != Some(SessionState::Closed) {
        client.send(None, close).await?;
        let closed = |received: Received<'_>| {
            matches!(
                received.body,
                EntryBody::Adapter(AdapterBody::SessionClosed(_))
            )
            .then_some(())
        };
        client.wait_for_reply(closed).await?;
    }
    drop(client);
    if !removes {
        return Ok(());
    }
    let until = Instant::now() + LEAVES;
    loop {
        match sessions.remove(id).await {
            Ok(()) => break,
            // It leaves the memory a while after its last listener.
            Err(RemoveError::InUse) if Instant::now() < until => sleep(LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
    let (uploads, id) = (shared.uploads.clone(), id.clone());
    blocking(move || uploads.remove_session(&id)).await
}
