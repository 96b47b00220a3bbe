//! Sessions: open, list, show, read, copy, edit and close.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Extension, Json as Body,
    http::{HeaderMap, header},
    response::{NoContent, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use tokio::time::{Instant, sleep};
use trunkline_protocol::{
    AdapterBody, CopiedContext, HostBody, HostMessage, LostEntries, RequestId, SessionAttached,
    SessionClose, SessionEdit, SessionFork, SessionId, SessionState, SessionsList,
};
use trunkline_sessions::{EntryBody, HistoryRange, RemoveError, StreamItem, without_path};

use super::{Json, Query, SessionPath, agents::continue_conversation, all_read, blocking, message};
use crate::{
    auth::{
        authorizer::{authorize, may_set},
        principal::Principal,
    },
    gateway::Shared,
    http::{
        connection::Peer,
        idempotency::{self, key_of},
        operation::{CreatedAt, EitherAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
        session_client::{ReceivedMessage, SessionClient},
    },
    peers::{
        list::{self, SessionPage},
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    /// The agent; the default one if absent.
    pub(crate) agent: Option<String>,
    /// The agent's own conversation that the session continues, with its history, in its folder; one
    /// that `listConversations` lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    native_session_id: Option<String>,
    #[serde(default)]
    #[cfg_attr(
        test,
        schemars(schema_with = "crate::http::operation::tests::start_options")
    )]
    options: Map<String, Value>,
}

answers! {
    /// A session that a request has created.
    pub(super) struct CreatedSession {
        id: SessionId,
        agent: String,
    }

    /// A session that a request has created as a copy.
    pub(super) struct ForkedSession {
        id: SessionId,
        agent: String,
        /// What the agent of the copy gets: a copy of its own conversation, or a new one with a
        /// transcript; null if there is no turn to copy.
        copied: Option<CopiedContext>,
    }
}

pub(super) async fn open(
    context: RequestContext,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Json(mut new): Json<NewSession>,
) -> Answer<EitherAnswer<CreatedAt<CreatedSession>, Response>> {
    let RequestContext { shared, principal } = &context;
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
        return Err(Problem::unsupported(
            "hosts of a cluster share no conversations of agents, so `native_session_id` has no effect here",
        ));
    }
    let id = match placement::place_session(shared, principal, &peer, &headers, &new).await? {
        SessionPlacement::Here(id) => id,
        SessionPlacement::Answered(response) => return Ok(EitherAnswer::Second(response)),
    };
    let mut options = new.options;
    options
        .keys()
        .filter(|name| !matches!(&***name, "cwd" | "add_dirs"))
        .try_for_each(|name| may_set(shared, principal, &agent, name))?;
    let title = match options.remove("title") {
        None => None,
        Some(Value::String(title)) => Some(title),
        Some(_) => return Err(Problem::unprocessable("`title` must be a string")),
    };
    let message = message(&id, "session.start", options.clone())?;
    authorize(shared, principal, &message, Some(&agent))?;
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
        continue_conversation(shared, principal, &agent, native, &mut start).await?;
    }
    let sessions = context.sessions();
    if key_of(&headers)?.is_some() || matches!(peer, Peer::OtherHost(_)) {
        // The answer to an earlier request of this key may be lost.
        if let Ok(known) = SessionClient::join(&sessions, &id).await {
            let other = known.attached.agent_id;
            if other != agent {
                return Err(Problem::unprocessable(format!(
                    "Idempotency-Key: an earlier request opened a session of the agent {other} with this key; \
                     use a new key for each request"
                )));
            }
            return Ok(EitherAnswer::First(created_at(
                &id.clone(),
                CreatedSession { id, agent },
            )));
        }
    }
    let mut listener = sessions.start(&id, &agent, *start, None, title.as_deref())?;
    let stored = tokio::time::timeout(STORED, listener.next(&mut Vec::new())).await;
    if !matches!(stored, Ok(Ok(StreamItem::Entries))) {
        return Err(Problem::unavailable(
            "the journal does not store the session in time",
        ));
    }
    Ok(EitherAnswer::First(created_at(
        &id.clone(),
        CreatedSession { id, agent },
    )))
}

/// Returns the answer to a request that has created a session.
fn created_at<T>(id: &SessionId, body: T) -> CreatedAt<T> {
    let location = format!("/v1/sessions/{id}");
    WithStatus(([(header::LOCATION, location)], Body(body)))
}

/// Body of a request for a fork.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    /// Last entry of the copy; the source's if absent.
    #[cfg_attr(test, schemars(range(min = 1)))]
    seq: Option<u64>,
}

/// Opens a session as a copy of another one.
pub(super) async fn fork(
    context: RequestContext,
    SessionPath(source): SessionPath,
    headers: HeaderMap,
    Json(copy): Json<ForkBody>,
) -> Answer<CreatedAt<ForkedSession>> {
    context.shared.takes_work()?;
    let id = idempotency::session_id(&context.principal, &headers, Some(&source))?;
    let fork = SessionFork {
        source: source.to_string(),
        seq: copy.seq,
        ..SessionFork::default()
    };
    let sessions = context.sessions();
    let before = match key_of(&headers)? {
        Some(_) => SessionClient::join(&sessions, &id).await.ok(),
        None => None,
    };
    let attached = match before {
        Some(before) => before.attached,
        None => sessions.fork(&id, fork).await?.0,
    };
    let forked = ForkedSession {
        id: id.clone(),
        agent: attached.agent_id,
        copied: attached.copied,
    };
    Ok(created_at(&id, forked))
}

parameters! {
    /// Body of a request for an edit.
    pub(super) struct EditBody {
        /// At most 200 bytes, without characters that control the display; an empty title removes it.
        title: Option<String>,
        /// True if lists leave the session out.
        archived: Option<bool>,
    }
}

/// Changes the title of a session, or archives it.
pub(super) async fn edit(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Json(edit): Json<EditBody>,
) -> Answer<NoContent> {
    let edit = SessionEdit {
        request_id: request()?,
        title: edit.title,
        archived: edit.archived,
    };
    let sessions = context.sessions();
    // An unknown session has a status of its own.
    drop(SessionClient::join(&sessions, &id).await?);
    match sessions.edit(&id, edit).await.error {
        Some(why) => Err(Problem::unprocessable(why)),
        None => Ok(NoContent),
    }
}

parameters! {
    pub(super) struct ListQuery {
        /// Only sessions of this agent.
        agent: Option<String>,
        /// As `agent`; removed in a later version.
        #[cfg_attr(test, schemars(extend("deprecated" = true)))]
        agent_id: Option<String>,
        /// Only sessions in this state.
        #[cfg_attr(test, schemars(with = "Option<SessionState>"))]
        state: Option<String>,
        /// Only sessions with this text in title or id.
        text: Option<String>,
        /// The `next` of the previous page.
        cursor: Option<String>,
        /// Only sessions of this directory.
        cwd: Option<String>,
        /// `true`: only archived sessions; otherwise only the others.
        archived: Option<bool>,
        /// Maximum number; 50 if absent, 1,000 at most.
        limit: Option<u32>,
    }
}

pub(super) async fn listed(
    RequestContext { shared, principal }: RequestContext,
    Extension(peer): Extension<Peer>,
    Query(query): Query<ListQuery>,
) -> Answer<Body<SessionPage>> {
    let state = query.state.as_deref().map(state_of).transpose()?;
    let asked = SessionsList {
        agent_id: query.agent.or(query.agent_id),
        state,
        text: query.text,
        cursor: query.cursor,
        cwd: query.cwd,
        archived: query.archived,
        limit: query.limit,
        ..SessionsList::new(request()?)
    };
    let is_from_other_host = matches!(peer, Peer::OtherHost(_));
    let mut page = match &shared.options.peers {
        Some(peers) if !is_from_other_host => {
            list::list_all_sessions(&shared, &principal, &**peers, asked).await?
        }
        _ => list::list_own_sessions(&shared, &principal, asked).await?,
    };
    if !is_from_other_host {
        // Only the merge of lists uses them.
        page.cursors = None;
    }
    for session in &mut page.sessions {
        // The protocol's names stay for one version.
        session["id"] = session["session_id"].clone();
        session["agent"] = session["agent_id"].clone();
    }
    Ok(Body(page))
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
    RequestId::new("http").map_err(Problem::failed)
}

answers! {
    /// State of a session, as `session.attached` of the protocol.
    #[cfg_attr(test, schemars(rename = "Session"))]
    pub(super) struct ShownSession {
        id: SessionId,
        agent: String,
        #[serde(flatten)]
        attached: SessionAttached,
        /// Pattern that allows exactly the open permission of this id, for `always`. Has no permission that
        /// no pattern expresses.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        always_patterns: BTreeMap<String, String>,
        /// Host that has the session, if there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    }
}

pub(super) async fn show(
    context: RequestContext,
    SessionPath(id): SessionPath,
) -> Answer<Body<ShownSession>> {
    let client = SessionClient::join(&context.sessions(), &id).await?;
    Ok(Body(ShownSession {
        always_patterns: client.exact_rules().await,
        host: own_host(&context.shared),
        id,
        agent: client.attached.agent_id.clone(),
        attached: client.attached,
    }))
}

/// Returns the id of this host among several.
pub(super) fn own_host(shared: &Shared) -> Option<String> {
    let hosts = shared.options.peers.as_ref()?.hosts();
    hosts
        .into_iter()
        .find(|host| host.is_this)
        .map(|host| host.id)
}

parameters! {
    pub(super) struct HistoryQuery {
        /// Number of the first entry.
        #[cfg_attr(test, schemars(range(min = 1)))]
        from: Option<u64>,
        /// Reads the last entries before this number, or at the `end`. Not with `from`.
        #[cfg_attr(
            test,
            schemars(with = "Option<crate::http::operation::tests::EntryOrEnd>")
        )]
        before: Option<String>,
        /// Maximum number of entries.
        #[cfg_attr(test, schemars(range(min = 1)))]
        limit: Option<u64>,
    }
}

answers! {
    /// A page of a session's entries.
    pub(super) struct EntryPage {
        /// The entries in their order.
        #[cfg_attr(test, schemars(with = "Vec<crate::http::operation::tests::Entry>"))]
        entries: Vec<Box<RawValue>>,
        /// Entries of the page that the journal has lost.
        lost: Vec<LostEntries>,
        /// The `before` of the previous page; null on the first.
        previous: Option<u64>,
        /// The `from` of the next page; null on the last.
        next: Option<u64>,
        /// Number of the session's last entry.
        last: u64,
    }
}

/// Reads a page of a session's entries, from a number on or before one.
pub(super) async fn history(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Query(query): Query<HistoryQuery>,
) -> Answer<Body<EntryPage>> {
    let HistoryQuery {
        from,
        before,
        limit,
    } = query;
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
    let sessions = context.sessions();
    let limit = limit.unwrap_or(u64::MAX);
    let page = sessions.read_page(&id, range, limit).await?;
    let entries = page.entries.iter();
    Ok(Body(EntryPage {
        entries: entries
            .filter_map(|entry| RawValue::from_string(without_path(entry.get()).into_owned()).ok())
            .collect(),
        lost: page.lost,
        previous: page.previous,
        next: page.next,
        last: page.last,
    }))
}

parameters! {
    pub(super) struct CloseQuery {
        /// True if what is kept of the session is removed, too.
        #[serde(default)]
        remove: bool,
    }
}

pub(super) async fn close(
    RequestContext { shared, principal }: RequestContext,
    SessionPath(id): SessionPath,
    Query(query): Query<CloseQuery>,
) -> Answer<NoContent> {
    end(&shared, &principal, &id, query.remove).await?;
    Ok(NoContent)
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
        let closed = |received: ReceivedMessage<'_>| {
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
    let uploads = shared.uploads.clone();
    let id = id.clone();
    blocking(move || uploads.remove_session(&id)).await
}
