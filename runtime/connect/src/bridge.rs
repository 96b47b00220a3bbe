//! The translation between a hub and the sessions of a host.
//!
//! Frames of the hub and events of sessions come in. Frames for the hub go to an outbox, and calls
//! on the host to a set of futures whose results come back in. No socket and no clock.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    time::Duration,
};

use trunkline_client::{Client, ClientError, Session as HostSession, SessionSet, SetItem};
use trunkline_protocol::{AgentEntry, PermissionResponse, RequestId, SessionId, StopReason};
use uuid::Uuid;

use crate::{
    ConnectOptions, WhenLost,
    files::UploadFolder,
    frame::{AgentCapabilities, HelloAgent, NativeSession, PermissionFrame, RuntimeHello, ToHub},
    joined::PIECE,
    outbox::{FrameOutbox, LossPolicy},
    session::BridgeSession,
    settings::AgentSettings,
    show,
};

mod from_host;
mod from_hub;
#[cfg(test)]
mod tests;

/// Sessions that are open at a time.
const MAX_SESSIONS: usize = 1024;

/// Requests that wait for a person.
const MAX_REQUESTS: usize = 1024;

/// The longest request that a person is asked, in bytes. A longer one is denied: a part of it could
/// mislead.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Timeout for the answer to a request. The hub itself answers each after 60 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);

/// Sessions that are remembered for a list.
const MAX_KNOWN_SESSIONS: usize = 256;

/// The text for a session of which the hub may have missed output.
const BROKEN_CONNECTION: &str =
    "The connection to the hub broke. The last output before this line may be missing.";

/// The effect of a hub's frame on its connection.
#[derive(PartialEq, Eq)]
pub(crate) enum FrameEffect {
    None,
    /// The hub accepts the runtime.
    Accepted,
    /// The hub refuses it.
    Refused(String),
    /// The token for the next connection.
    Token(String),
}

/// The hub's id of a session, and the host's, which is another one each time that it is opened.
type SessionKey = (String, SessionId);

/// The sessions of a hub.
pub(crate) struct SessionBridge {
    pub(crate) options: ConnectOptions,
    pub(crate) client: Client,
    /// Events of the sessions, and calls on the host.
    pub(crate) host: SessionSet<SessionKey, Self>,
    agents: Vec<AgentEntry>,
    settings: BTreeMap<String, AgentSettings>,
    /// By the hub's ids.
    sessions: BTreeMap<String, BridgeSession>,
    /// Requests that wait for an answer, by the ids that the hub has.
    requests: BTreeMap<String, PendingPermission>,
    /// Sessions that can be resumed, the last one last.
    known: VecDeque<(String, NativeSession)>,
    /// Sessions that were closed and cannot be resumed, the last one last.
    forgotten: VecDeque<String>,
    /// Sessions of which the hub may have missed something.
    marked: BTreeSet<String>,
    pub(crate) out: FrameOutbox,
    files: UploadFolder,
    is_up: bool,
    now: Duration,
}

/// A permission request that waits for a person.
#[derive(Debug, Clone)]
struct PendingPermission {
    /// The id at the host.
    request_id: RequestId,
    /// The request as the hub gets it.
    frame: PermissionFrame,
    /// True if it has an option that allows it permanently.
    has_always: bool,
    /// The time at which it is denied. `None` while the hub has not been asked.
    until: Option<Duration>,
}

impl SessionBridge {
    pub(crate) fn new(options: ConnectOptions, client: Client, files: UploadFolder) -> Self {
        Self {
            options,
            client,
            host: SessionSet::default(),
            agents: Vec::new(),
            settings: BTreeMap::new(),
            sessions: BTreeMap::new(),
            requests: BTreeMap::new(),
            known: VecDeque::new(),
            forgotten: VecDeque::new(),
            marked: BTreeSet::new(),
            out: FrameOutbox::default(),
            files,
            is_up: false,
            now: Duration::ZERO,
        }
    }

    /// Sets the time since the start, for all that follows.
    pub(crate) fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// Handles an event, or the result of a call.
    pub(crate) fn handle_item(&mut self, item: SetItem<SessionKey, Self>) {
        match item {
            SetItem::Event(key, next) => self.handle_event(&key, next),
            SetItem::Result(finish) => finish(self),
        }
    }

    /// Begins the new calls, before a later frame of the hub is handled.
    pub(crate) fn begin_calls(&mut self) {
        while let Some(finish) = self.host.try_next_result() {
            finish(self);
        }
    }

    /// Takes the agents of the host.
    pub(crate) fn set_agents(&mut self, agents: Vec<AgentEntry>) {
        let wanted = self.options.agents.as_ref();
        let is_wanted = |agent: &AgentEntry| wanted.is_none_or(|wanted| wanted.contains(&agent.id));
        self.agents = agents.into_iter().filter(is_wanted).collect();
    }

    /// Returns a configured agent that the host does not have.
    pub(crate) fn missing_agent(&self) -> Option<String> {
        let has = |id: &String| self.agents.iter().any(|agent| agent.id == *id);
        let mut wanted = self.options.agents.iter().flatten();
        let missing = wanted.find(|id| !has(id)).cloned();
        missing.or_else(|| self.agents.is_empty().then(|| "at all".to_owned()))
    }

    /// The hub's id of an agent.
    fn hub_id(&self, agent: &str) -> String {
        if self.options.bare_ids {
            agent.to_owned()
        } else {
            format!("{}.{agent}", self.options.runtime_id)
        }
    }

    /// The first frame of a connection.
    pub(crate) fn hello(&self, token: &str) -> String {
        let agents = self.agents.iter().map(|agent| {
            let caps = agent.capabilities.clone().unwrap_or_default();
            HelloAgent {
                id: self.hub_id(&agent.id),
                profile: agent
                    .profile
                    .clone()
                    .unwrap_or_else(|| "external".to_owned()),
                name: agent.name.clone().unwrap_or_else(|| agent.id.clone()),
                caps: AgentCapabilities {
                    native_session_ids: caps.native_session_ids.unwrap_or(false),
                    turn_completion: caps.turn_completion.unwrap_or(true),
                    resume_attach: caps.resume_attach.unwrap_or(false),
                    exec_model: caps.exec_model.unwrap_or_else(|| "interactive".to_owned()),
                },
            }
        });
        ToHub::Hello(RuntimeHello {
            runtime_id: self.options.runtime_id.clone(),
            token: token.to_owned(),
            org_id: self.options.org.clone(),
            agents: agents.collect(),
        })
        .text()
    }

    /// The hub has accepted the runtime: waiting frames are sent.
    fn accept(&mut self) {
        self.is_up = true;
        let unasked = self
            .requests
            .extract_if(.., |_, pending| pending.until.is_none());
        for (_, pending) in unasked.collect::<Vec<_>>() {
            self.put_request(pending);
        }
        for session_id in std::mem::take(&mut self.marked) {
            let output = ToHub::Output {
                session_id: session_id.clone(),
                channel: "system".to_owned(),
                content: BROKEN_CONNECTION.to_owned(),
            };
            self.out
                .push_front(&session_id, LossPolicy::Marked, &output);
        }
    }

    /// The connection has broken.
    pub(crate) fn disconnected(&mut self) {
        self.is_up = false;
        self.marked.extend(self.out.broken());
        match self.options.lost {
            WhenLost::Deny => {
                for pending in std::mem::take(&mut self.requests).into_values() {
                    self.deny(
                        &pending,
                        StopReason::Policy,
                        "the connection to the hub broke",
                    );
                }
            }
            WhenLost::Wait => {
                let requests = self.requests.values_mut();
                requests.for_each(|pending| pending.until = None);
            }
        }
    }

    /// Denies requests without an answer in time, sends joined output, and closes idle sessions.
    pub(crate) fn tick(&mut self) {
        let now = self.now;
        let is_late = |pending: &PendingPermission| pending.until.is_some_and(|until| until <= now);
        let late = self.requests.extract_if(.., |_, pending| is_late(pending));
        for (_, pending) in late.collect::<Vec<_>>() {
            self.deny(&pending, StopReason::Timeout, "no one answered");
        }
        let mut due = Vec::new();
        let mut resting = Vec::new();
        for (id, session) in &mut self.sessions {
            due.extend(session.joined.due(now).map(|output| (id.clone(), output)));
            let settings = self.settings.get(&session.agent);
            let idle = settings.and_then(|settings| settings.idle);
            let lasts = settings.and_then(|settings| settings.lasts);
            let is_asked = || has_request(&self.requests, id);
            if session.is_idle()
                && (now.saturating_sub(session.used) >= idle.unwrap_or(self.options.idle)
                    || now.saturating_sub(session.opened) >= lasts.unwrap_or(Duration::MAX))
                && !is_asked()
            {
                resting.push(id.clone());
            }
        }
        for (id, (channel, content)) in due {
            self.put_output(&id, channel, content);
        }
        resting.iter().for_each(|id| self.close(id));
    }

    /// The time to the next [`Self::tick`].
    pub(crate) fn wakes_in(&self) -> Duration {
        let is_joining = self
            .sessions
            .values()
            .any(|session| !session.joined.is_empty());
        Duration::from_millis(if is_joining { 250 } else { 2000 })
    }

    /// Returns true if this is the session that the hub has open.
    fn is_open(&self, (id, host_id): &SessionKey) -> bool {
        let session = self.sessions.get(id);
        session.is_some_and(|session| session.host_id == *host_id)
    }

    /// Adds a call on a session, which begins when the session is open. Its result is of no
    /// interest once the session was closed.
    fn call_session<T: Send + 'static, F: Future<Output = Result<T, ClientError>> + Send>(
        &self,
        id: &str,
        call: impl FnOnce(HostSession) -> F + Send + 'static,
        finish: impl FnOnce(&mut Self, &str, Result<T, ClientError>) + Send + 'static,
    ) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let opening = session.handle.clone();
        let key = (id.to_owned(), session.host_id.clone());
        self.host.call(
            async move { call(opening.await?).await },
            move |bridge: &mut Self, result| {
                if bridge.is_open(&key) {
                    finish(bridge, &key.0, result);
                }
            },
        );
    }

    /// Adds a call on a session whose effect an event shows.
    fn begin_call<F: Future<Output = Result<(), ClientError>> + Send>(
        &self,
        id: &str,
        call: impl FnOnce(HostSession) -> F + Send + 'static,
    ) {
        self.call_session(id, call, log_failure);
    }

    /// Shows a text of the runtime.
    fn show_note(&mut self, id: &str, text: &str) {
        self.show(id, "system", text);
    }

    /// Shows a text on a channel, behind earlier output.
    fn show(&mut self, id: &str, channel: &str, text: &str) {
        self.flush(id);
        let mut rest = text.replace('\0', "\u{fffd}");
        while !rest.is_empty() {
            let next = rest.split_off(rest.floor_char_boundary(PIECE));
            self.put_output(id, channel.to_owned(), std::mem::replace(&mut rest, next));
        }
    }

    fn put_output(&mut self, id: &str, channel: String, content: String) {
        let output = ToHub::Output {
            session_id: id.to_owned(),
            channel,
            content,
        };
        self.out.push(id, LossPolicy::Marked, &output);
    }

    /// Sends the output that is being joined.
    fn flush(&mut self, id: &str) {
        let session = self.sessions.get_mut(id);
        if let Some((channel, content)) = session.and_then(|session| session.joined.take()) {
            self.put_output(id, channel, content);
        }
    }

    fn put_started(&mut self, id: &str, hub: &str) {
        let started = ToHub::Started {
            session_id: id.to_owned(),
            in_response_to: hub.to_owned(),
        };
        self.out.push(id, LossPolicy::Again, &started);
    }

    fn put_completed(&mut self, id: &str, hub: &str, exit_code: i32) {
        self.flush(id);
        let session = self.sessions.get(id);
        let completed = ToHub::Completed {
            session_id: id.to_owned(),
            in_response_to: hub.to_owned(),
            exit_code,
            native_handle: session.and_then(|session| session.native.clone()),
        };
        self.out.push(id, LossPolicy::Again, &completed);
    }

    /// Reports that a message ran no turn. If another one runs, the hub waits for it again.
    fn put_refused(&mut self, id: &str, hub: &str, why: &str) {
        self.put_started(id, hub);
        self.show_note(id, why);
        self.put_completed(id, hub, 1);
        self.start_first(id);
    }

    /// Reports that the first message without an end runs.
    fn start_first(&mut self, id: &str) {
        let session = self.sessions.get(id);
        let first = session.and_then(|session| session.turns.front()?.hub.clone());
        if let Some(hub) = first {
            self.put_started(id, &hub);
        }
    }

    /// Asks the hub about a request.
    fn put_request(&mut self, mut pending: PendingPermission) {
        // Unique among all runtimes of the hub, and among its connections.
        let id = Uuid::new_v4().to_string();
        pending.frame.request_id.clone_from(&id);
        pending.until = Some(self.now + ANSWER_TIMEOUT);
        let session_id = pending.frame.session_id.clone();
        let request = ToHub::Permission(pending.frame.clone());
        self.out.push(&session_id, LossPolicy::Forgotten, &request);
        self.requests.insert(id, pending);
    }

    fn answer_permission(&self, id: &str, response: PermissionResponse) {
        self.begin_call(id, async move |handle| {
            handle.answer_permission(response).await
        });
    }

    fn deny(&mut self, pending: &PendingPermission, reason: StopReason, why: &str) {
        let mut response = PermissionResponse::new(pending.request_id.clone(), false);
        response.reason = Some(reason);
        let frame = &pending.frame;
        self.answer_permission(&frame.session_id, response);
        let text = format!("denied: {}: {why}", show::cut(&frame.tool, 256));
        self.show_note(&frame.session_id, &text);
    }

    /// Ends all sessions: each turn gets its end with this reason.
    pub(crate) fn end_all(&mut self, why: &str) {
        for id in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.end_session(&id, Some(why));
        }
    }

    /// Closes a session at the host, and forgets it. The hub's next message opens it again.
    fn close(&mut self, id: &str) {
        self.close_then(id, |_| ());
    }

    /// Closes a session as [`Self::close`], and calls `then` when the host has closed it.
    fn close_then(&mut self, id: &str, then: impl FnOnce(&mut Self) + Send + 'static) {
        self.flush(id);
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        let opening = session.handle.clone();
        let closed_id = id.to_owned();
        self.host.call(
            async move { opening.await?.close().await },
            move |bridge: &mut Self, result| {
                log_failure(bridge, &closed_id, result);
                then(bridge);
            },
        );
        self.requests
            .retain(|_, pending| pending.frame.session_id != id);
        self.files.forget(id);
        if session.native.is_none() && session.has_context {
            self.forgotten.push_back(id.to_owned());
            if self.forgotten.len() > MAX_KNOWN_SESSIONS {
                self.forgotten.pop_front();
            }
        }
    }

    /// Ends a session before its idle limit: each of its turns gets an end, with the reason.
    fn end_session(&mut self, id: &str, why: Option<&str>) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let open: Vec<_> = session.turns.iter().map(|turn| turn.hub.clone()).collect();
        let is_answered = session.is_answered;
        if let Some(why) = why.filter(|_| is_answered && !open.is_empty()) {
            self.show_note(id, why);
        }
        for (place, hub) in open.into_iter().enumerate() {
            let Some(hub) = hub else { continue };
            if place > 0 {
                self.put_started(id, &hub);
            }
            self.put_completed(id, &hub, 1);
        }
        if !is_answered {
            let error = Some(why.unwrap_or("the session has ended").to_owned());
            let created = ToHub::Created {
                session_id: id.to_owned(),
                ok: false,
                error,
                native_handle: None,
            };
            self.out.push(id, LossPolicy::Again, &created);
        }
        self.close(id);
    }

    /// Remembers a session that can be resumed.
    fn remember(&mut self, id: &str) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let Some(native) = &session.native else {
            return;
        };
        let known = NativeSession {
            session_id: native.clone(),
            first_prompt: session.first_prompt.clone(),
            message_count: session.messages,
        };
        let agent = session.agent.clone();
        self.known
            .retain(|(_, before)| before.session_id != known.session_id);
        self.known.push_back((agent, known));
        if self.known.len() > MAX_KNOWN_SESSIONS {
            self.known.pop_front();
        }
    }
}

/// Notes the failure of a call whose effect an event shows, or the end of the session.
fn log_failure(_: &mut SessionBridge, id: &str, result: Result<(), ClientError>) {
    if let Err(cause) = result {
        tracing::debug!("a call on the session {id} failed: {cause}");
    }
}

/// Returns true if a request of the session waits for a person.
fn has_request(requests: &BTreeMap<String, PendingPermission>, id: &str) -> bool {
    let mut requests = requests.values();
    requests.any(|pending| pending.frame.session_id == id)
}
