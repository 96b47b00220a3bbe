//! Sessions: opened, listed, shown, read, closed.

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
    AdapterBody, HostBody, HostMessage, HubMessage, RequestId, SessionClose, SessionEdit,
    SessionFork, SessionHistory, SessionId, SessionState, SessionsList,
};
use trunkline_sessions::{EntryBody, RemoveError, StreamItem};

use super::{
    Asks, Gate, Json, Query, SessionPath, agents::continue_conversation, all_read, blocking,
    events::without_path, message,
};
use crate::{
    auth::{
        authorizer::{authorize, authorize_hub_message, may_set},
        principal::Principal,
    },
    gateway::Shared,
    http::{
        connection::Peer,
        problem::{Answer, Problem},
        session_client::{Received, SessionClient},
    },
    peers::{
        list,
        placement::{self, Placement},
    },
};

/// How long the store of a new session's first entry is waited for.
const STORED: Duration = Duration::from_secs(5);

/// How long a session that is removed may need to leave the memory.
const LEAVES: Duration = Duration::from_secs(10);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    pub(crate) agent: Option<String>,
    /// The conversation of the agent's own that the session continues.
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
    let id = match placement::place(&shared, &principal, &peer, &headers, &new).await? {
        Placement::Here(id) => id,
        Placement::Answered(response) => return Ok(response),
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
    let mut listener =
        shared
            .sessions_for(&principal)
            .start(&id, &agent, *start, None, title.as_deref())?;
    let stored = tokio::time::timeout(STORED, listener.next(&mut Vec::new())).await;
    if !matches!(stored, Ok(Ok(StreamItem::Entries))) {
        return Err(Problem::unavailable(
            "the journal does not store the session in time",
        ));
    }
    Ok(created(&id, &json!({ "id": id, "agent": agent })))
}

/// The answer to a request that has made a session.
fn created(id: &SessionId, body: &Value) -> Response {
    let mut response = (StatusCode::CREATED, Body(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The body of a request for a fork.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    /// The last entry that is copied. `None`: all.
    seq: Option<u64>,
}

/// Opens a session as a copy of another one.
pub(super) async fn fork(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(source): SessionPath,
    Json(copy): Json<ForkBody>,
) -> Answer<Response> {
    shared.takes_work()?;
    let id = placement::new_id()?;
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
    let (attached, _) = shared.sessions_for(&principal).fork(&id, fork).await?;
    let body = json!({ "id": id, "agent": attached.agent_id, "copied": attached.copied });
    Ok(created(&id, &body))
}

/// The body of a request for an edit.
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
    // The refusal of a session that is not there has a status of its own.
    drop(SessionClient::join(&sessions, &id).await?);
    match sessions.edit(&id, edit).await.error {
        Some(why) => Err(Problem::unprocessable(why)),
        None => Ok(StatusCode::NO_CONTENT),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    agent_id: Option<String>,
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
        agent_id: which.agent_id,
        state,
        text: which.text,
        cursor: which.cursor,
        cwd: which.cwd,
        archived: which.archived,
        limit: which.limit,
        ..SessionsList::new(request()?)
    };
    match (&shared.options.peers, peer) {
        // Another host puts it together with others.
        (_, Peer::OtherHost(_)) => Ok(Body(json!(list::own(&shared, &principal, asked).await?))),
        (Some(peers), _) => Ok(Body(json!(
            list::merged(&shared, &principal, &**peers, asked).await?
        ))),
        (None, _) => {
            let listed = list::own(&shared, &principal, asked).await?;
            Ok(Body(
                json!({ "sessions": listed.sessions, "next": listed.next }),
            ))
        }
    }
}

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
    let mut shown = serde_json::to_value(&client.attached).unwrap_or_default();
    shown["id"] = json!(id);
    let hosts = shared.options.peers.as_ref().map(|peers| peers.hosts());
    if let Some(own) = hosts.and_then(|hosts| hosts.into_iter().find(|host| host.is_this)) {
        shown["host"] = json!(own.id);
    }
    Ok(Body(shown))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    from: Option<u64>,
    limit: Option<u64>,
}

pub(super) async fn history(
    State(shared): Gate,
    Extension(principal): Asks,
    SessionPath(id): SessionPath,
    Query(part): Query<Part>,
) -> Answer<Body<Value>> {
    let sessions = shared.sessions_for(&principal);
    // A `to` would make `next` one of that range only: entries behind the page would be lost to the client.
    let asked = SessionHistory {
        request_id: request()?,
        from: part.from,
        to: None,
    };
    let read = sessions.history(&id, &asked).await;
    let (Some(entries), None) = (read.entries, read.error) else {
        return Err(Problem::no_session());
    };
    let entries = entries.iter().map(|entry| entry.get());
    let (entries, next) = first_page(entries.collect(), read.next, part.limit);
    let entries: Vec<Box<RawValue>> = entries
        .into_iter()
        .filter_map(|entry| {
            let entry = without_path(entry);
            RawValue::from_string(entry.into_owned()).ok()
        })
        .collect();
    Ok(Body(json!({ "entries": entries, "next": next })))
}

/// The number of an entry of the journal.
#[derive(Debug, Deserialize)]
struct NumberedEntry {
    seq: u64,
}

/// Cuts entries to a page of at most `limit`, and of at least one. `next` is the `from` of what
/// follows the entries; returned with the page is that of what follows the page.
fn first_page(
    mut entries: Vec<&str>,
    next: Option<u64>,
    limit: Option<u64>,
) -> (Vec<&str>, Option<u64>) {
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit.max(1)).unwrap_or(usize::MAX)
    });
    let Some(after) = entries.get(limit) else {
        return (entries, next);
    };
    let after = serde_json::from_str(after)
        .map(|NumberedEntry { seq }| seq)
        .ok();
    entries.truncate(limit);
    (entries, after.or(next))
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
            // It leaves the memory when no one has listened for a while.
            Err(RemoveError::InUse) if Instant::now() < until => sleep(LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
    let (uploads, id) = (shared.uploads.clone(), id.clone());
    blocking(move || uploads.remove_session(&id)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_every_limit_join_to_the_whole_history() {
        // Retention has taken the first entries, and damage some in the middle.
        let history: Vec<(u64, String)> = (40..=60)
            .filter(|seq| !(45..=47).contains(seq))
            .map(|seq| (seq, format!("{{\"type\":\"output\",\"seq\":{seq}}}")))
            .collect();
        let whole: Vec<&str> = history.iter().map(|(_, entry)| &**entry).collect();
        // The journal answers with as many entries as fit.
        for most in 1..=history.len() {
            let read = |from: u64| {
                let mut rest = history.iter().filter(|(seq, _)| *seq >= from);
                let entries: Vec<_> = rest
                    .by_ref()
                    .take(most)
                    .map(|(_, entry)| &**entry)
                    .collect();
                (entries, rest.next().map(|(seq, _)| *seq))
            };
            for limit in (0..=history.len() as u64 + 1)
                .map(Some)
                .chain([None, Some(u64::MAX)])
            {
                let mut joined = Vec::new();
                let mut from = Some(1);
                while let Some(begin) = from {
                    let (entries, behind) = read(begin);
                    let (page, next) = first_page(entries, behind, limit);
                    assert!(!page.is_empty(), "{most} {limit:?}");
                    assert!(limit.is_none_or(|limit| page.len() as u64 <= limit.max(1)));
                    joined.extend(page);
                    from = next;
                }
                assert_eq!(joined, whole, "{most} {limit:?}");
            }
        }
    }
}
