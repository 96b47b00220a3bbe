//! Frames of the hub, as calls on the host.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::FutureExt;
use tokio::{sync::oneshot, time::timeout};
use trunkline_client::{ClientError, Events, Input, Session as HostSession, Turn as HostTurn};
use trunkline_protocol::{
    Category, ClosedReason, FileInput, InputResponse, MessageId, PermissionResponse, Resume,
    SessionId, SessionStart, SessionUpdate, StopReason, SystemPromptMode,
};
use uuid::Uuid;

use super::{FrameEffect, MAX_SESSIONS, PendingPermission, SessionBridge, SessionKey, has_request};
use crate::{
    ToolDenial,
    ask::AnswerOutcome,
    files::{MAX_FILE, base_name},
    frame::{
        ConfigUpdate, FileUpload, FromHub, NativeList, PermissionDecision, SessionCreate, ToHub,
        UserMessage,
    },
    outbox::LossPolicy,
    session::{BridgeSession, HubTurn, MAX_OPEN_TURNS, OpeningSession},
    show,
};

/// The longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;

/// Sessions in a list.
const MAX_LISTED_SESSIONS: usize = 50;

/// Sessions that are closed to make room for another one: the one that has been idle for the longest
/// time, then one of the same agent, whose limit it may be.
const MAX_CLOSED_FOR_ROOM: u8 = 2;

/// The extension of a session whose host keeps a journal.
const JOURNAL: &str = "journal";

/// Timeout for an agent's answer to a change of its options.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a session that is opened.
struct SessionOpening<'a> {
    agent: &'a str,
    user: Option<String>,
    native: Option<String>,
    /// True if its history is shown again.
    history: bool,
    profile: Option<&'a str>,
}

/// The result of an opening, for the calls that wait for it.
type OpenedSender = oneshot::Sender<Result<HostSession, ClientError>>;

impl SessionBridge {
    /// Handles a frame.
    pub(crate) fn handle_frame(&mut self, text: &str) -> FrameEffect {
        match FromHub::parse(text) {
            Ok(FromHub::Ack(ack)) if self.is_up => {
                tracing::debug!(ack.ok, "a second hello.ack of the hub")
            }
            Ok(FromHub::Ack(ack)) if ack.ok => {
                self.accept();
                return FrameEffect::Accepted;
            }
            Ok(FromHub::Ack(ack)) => {
                // It is shown on a terminal.
                let why = ack.error.unwrap_or_default();
                return FrameEffect::Refused(
                    why.chars().filter(|c| !c.is_control()).take(256).collect(),
                );
            }
            Ok(FromHub::Token(token)) => {
                let is_good = !token.is_empty()
                    && token.len() <= MAX_TOKEN_BYTES
                    && token.chars().all(|c| c.is_ascii_graphic());
                if is_good {
                    return FrameEffect::Token(token);
                }
                tracing::warn!("the hub sent an invalid token; the token before is kept");
            }
            Ok(FromHub::Create(create)) => self.create(&create),
            Ok(FromHub::Message(message, is_for_turn)) => self.message(message, is_for_turn),
            Ok(FromHub::Stop(of)) => self.stop(&of.session_id),
            Ok(FromHub::Permission(decision)) => self.decide(&decision),
            Ok(FromHub::File(file)) => self.file(*file),
            Ok(FromHub::Config(update)) => self.update(&update),
            Ok(FromHub::NativeList(list)) => self.native_list(list),
            Ok(FromHub::Close(of)) => {
                self.end_session(&of.session_id, Some("the hub closed the session"))
            }
            Ok(FromHub::Ping) => self.out.push("", LossPolicy::Forgotten, &ToHub::Pong {}),
            Ok(FromHub::Unknown) => {
                tracing::debug!("the hub sent a frame of a type that is not known here")
            }
            Err(dropped) => tracing::warn!("a frame of the hub was dropped: {dropped}"),
        }
        FrameEffect::None
    }

    fn create(&mut self, create: &SessionCreate) {
        let id = &create.session_id;
        if self.sessions.contains_key(id) {
            return self.put_created(id, Ok(()));
        }
        let native = create
            .resume_session_id
            .clone()
            .filter(|native| !native.is_empty());
        let opening = SessionOpening {
            agent: &create.agent_id,
            user: create.user_id.clone(),
            history: native.is_some(),
            native,
            profile: create.prompt_profile.as_deref(),
        };
        if let Err(why) = self.open(id, opening) {
            self.put_created(id, Err(why));
        }
    }

    pub(super) fn put_created(&mut self, id: &str, opened: Result<(), String>) {
        let session = self.sessions.get_mut(id).filter(|_| opened.is_ok());
        let native_handle = session.and_then(|session| {
            session.is_answered = true;
            session.native.clone()
        });
        let created = ToHub::Created {
            session_id: id.to_owned(),
            ok: opened.is_ok(),
            error: opened.err(),
            native_handle,
        };
        self.out.push(id, LossPolicy::Again, &created);
    }

    /// Opens a session at the host, unless it is open.
    fn open(&mut self, id: &str, opening: SessionOpening<'_>) -> Result<(), String> {
        if self.sessions.contains_key(id) {
            return Ok(());
        }
        let agent = self
            .agent(opening.agent)
            .ok_or("this runtime has no such agent")?;
        let settings = self.settings.get(&agent).cloned().unwrap_or_default();
        let of_agent = || {
            self.sessions
                .values()
                .filter(|session| session.agent == agent)
                .count() as u64
        };
        if settings.max_sessions.is_some_and(|most| of_agent() >= most) {
            self.close_one(Some(&agent))?;
        }
        if self.sessions.len() >= MAX_SESSIONS {
            self.close_one(None)?;
        }
        let host_id = self.new_host_id()?;
        let instructions = show::instructions(opening.profile);
        let is_anew = opening.native.is_none() && self.forgotten.iter().any(|before| before == id);
        let resume = opening.native.clone().map(|native| Resume {
            native_session_id: Some(native),
            history: Some(opening.history),
            ..Resume::default()
        });
        let start = SessionStart {
            agent_id: Some(agent.clone()),
            user_id: opening.user.filter(|user| !user.is_empty()),
            resume,
            system_prompt: instructions.map(str::to_owned),
            system_prompt_mode: instructions.map(|_| SystemPromptMode::Append),
            denied_tools: Some(settings.denied_tools).filter(|tools| {
                !tools.is_empty() && self.tool_denial(&agent) == Some(ToolDenial::Adapter)
            }),
            ..SessionStart::default()
        };
        let (opened, handle) = opening_handle();
        let mut session = BridgeSession::new(host_id, handle, agent, self.now);
        session.start = start;
        session.native = opening.native;
        let key = (id.to_owned(), session.host_id.clone());
        self.sessions.insert(id.to_owned(), session);
        self.open_at_host(key, opened);
        if is_anew {
            self.forgotten.retain(|before| before != id);
            let text = "The session was closed meanwhile. The agent does not remember it.";
            self.show_note(id, text);
        }
        Ok(())
    }

    fn new_host_id(&self) -> Result<SessionId, String> {
        let host_id = format!("{}.{}", self.options.runtime_id, Uuid::new_v4().simple());
        SessionId::new(host_id).map_err(|error| error.to_string())
    }

    /// Opens a session at the host, unless the hub has closed it meanwhile.
    fn open_at_host(&self, key: SessionKey, opened: OpenedSender) {
        let Some(session) = self.sessions.get(&key.0).filter(|_| self.is_open(&key)) else {
            return;
        };
        let client = self.client.clone();
        let host_id = key.1.clone();
        let start = session.start.clone();
        self.host.call(
            async move { client.open_as(host_id, start).await },
            move |bridge: &mut Self, result| bridge.finish_open(&key, result, opened),
        );
    }

    /// Closes the longest idle session, then opens again this one, which the host refused at a limit.
    /// Its messages are sent again. Returns false if no session can be closed, or if that was tried
    /// before without success.
    pub(super) fn reopen_with_room(&mut self, id: &str) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return false;
        };
        let has_all = session.turns.iter().all(|turn| turn.content.is_some());
        let Some(oldest) = self.session_for_room(id).filter(|_| has_all) else {
            return false;
        };
        let Ok(host_id) = self.new_host_id() else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let (opened, handle) = opening_handle();
        session.host_id = host_id.clone();
        session.handle = handle;
        session.closed_for_room += 1;
        let mut messages = Vec::new();
        for turn in &mut session.turns {
            turn.handle = None;
            messages.extend(turn.hub.clone().zip(turn.content.clone()));
        }
        let key = (id.to_owned(), host_id);
        self.close_then(&oldest, |bridge| bridge.open_at_host(key, opened));
        for (hub, content) in messages {
            let message_id = MessageId::new(&hub).ok();
            self.send_input(id, hub, message_id, content);
        }
        true
    }

    /// Closes the longest idle session, then sends again the first message of this one, which a host
    /// with a journal refused at a limit. Returns false as [`SessionBridge::reopen_with_room`].
    pub(super) fn resend_with_room(&mut self, id: &str) -> bool {
        let Some(oldest) = self.session_for_room(id) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        session.closed_for_room += 1;
        let first = session.turns.front_mut();
        let Some((hub, content)) = first.and_then(|turn| {
            turn.handle = None;
            turn.hub.clone().zip(turn.content.clone())
        }) else {
            return false;
        };
        let id = id.to_owned();
        self.close_then(&oldest, move |bridge| {
            // The journal has the id of the message for the turn that has ended.
            bridge.send_input(&id, hub, None, content);
        });
        true
    }

    /// Returns the session to close to make room for another one.
    fn session_for_room(&self, id: &str) -> Option<String> {
        let session = self.sessions.get(id)?;
        if session.closed_for_room >= MAX_CLOSED_FOR_ROOM {
            return None;
        }
        // The agent can have a limit of its own.
        let agent = (session.closed_for_room > 0).then_some(&*session.agent);
        self.longest_idle(agent, Some(id))
    }

    /// Takes the host's answer when a session was opened: its calls begin now.
    fn finish_open(
        &mut self,
        key: &SessionKey,
        result: Result<(HostSession, Events), ClientError>,
        opened: OpenedSender,
    ) {
        let id = &*key.0;
        let (handle, events) = match result {
            Ok(session) => session,
            Err(_) if !self.is_open(key) => return,
            Err(cause) => return self.end_opening(id, cause),
        };
        let info = handle.ready().map(|ready| ready.info.clone());
        let extensions = handle.ready().and_then(|ready| ready.extensions.as_ref());
        let is_journaled = extensions.is_some_and(|names| names.iter().any(|name| name == JOURNAL));
        // A session that the hub has closed meanwhile has the call that closes it.
        let _ = opened.send(Ok(handle));
        self.host.watch(key.clone(), events);
        if !self.is_open(key) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.is_journaled = is_journaled;
        let is_answered = session.is_answered;
        self.note_info(id, &info.unwrap_or_default());
        if !is_answered {
            self.put_created(id, Ok(()));
        }
    }

    /// Ends a session that the host has ended or did not open, unless it can be opened again.
    pub(super) fn end_opening(&mut self, id: &str, cause: ClientError) {
        if !(is_full(&cause) && self.reopen_with_room(id)) {
            self.end_session(id, Some(&show::cause(cause)));
        }
    }

    /// The host's id of an agent that the hub has: its own id, or one with the runtime's before it.
    /// A session keeps the id under which its agent was registered when it was created.
    fn agent(&self, hub_id: &str) -> Option<String> {
        let is_known = |id: &str| self.agents.iter().any(|agent| agent.id == id);
        let prefixed = hub_id
            .strip_prefix(&self.options.runtime_id)
            .and_then(|id| id.strip_prefix('.'));
        let forms = if self.options.bare_ids {
            [Some(hub_id), prefixed]
        } else {
            [prefixed, Some(hub_id)]
        };
        let mut forms = forms.into_iter().flatten();
        forms.find(|id| is_known(id)).map(str::to_owned)
    }

    /// The way in which an agent's tools are denied.
    pub(super) fn tool_denial(&self, agent: &str) -> Option<ToolDenial> {
        let entry = self.agents.iter().find(|entry| entry.id == agent)?;
        (self.options.tool_denial)(entry.profile.as_deref()?)
    }

    /// The session that has been idle for the longest time, of an agent or of all.
    pub(super) fn longest_idle(&self, agent: Option<&str>, except: Option<&str>) -> Option<String> {
        let idle = self.sessions.iter().filter(|(id, session)| {
            agent.is_none_or(|agent| session.agent == agent)
                && except != Some(id.as_str())
                && session.is_idle()
                && !has_request(&self.requests, id)
        });
        let oldest = idle.min_by_key(|(_, session)| session.used);
        oldest.map(|(id, _)| id.clone())
    }

    /// Closes the session that has been idle for the longest time.
    fn close_one(&mut self, agent: Option<&str>) -> Result<(), String> {
        let oldest = self.longest_idle(agent, None);
        let oldest = oldest.ok_or("too many sessions work at the same time")?;
        self.close(&oldest);
        Ok(())
    }

    fn message(&mut self, message: UserMessage, is_for_turn: bool) {
        let UserMessage {
            session_id: id,
            message_id: hub,
            content,
            agent_id,
            ..
        } = message;
        let opening = SessionOpening {
            agent: &agent_id,
            user: message.user_id,
            native: message.native_handle.filter(|native| !native.is_empty()),
            history: false,
            profile: message.prompt_profile.as_deref(),
        };
        let was_open = self.sessions.contains_key(&id);
        if let Err(why) = self.open(&id, opening) {
            return self.put_refused(&id, &hub, &why);
        }
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        // The hub knows it, since it has sent a message.
        session.is_answered |= !was_open;
        if session.has_message(&hub) {
            return tracing::warn!("the hub sent a message twice");
        }
        session.used = now;
        session.messages += 1;
        if session.first_prompt.is_empty() {
            session.first_prompt = show::cut(&content, 200);
        }
        if session.question.is_some() {
            return self.answer(&id, &hub, &content);
        }
        let running = session.turns.front().and_then(|turn| turn.handle.as_ref());
        if is_for_turn
            && session.steers.len() < MAX_OPEN_TURNS
            && let Some(running) = running.cloned()
        {
            return self.steer(&id, hub, content, &running);
        }
        let message_id = MessageId::new(&hub).ok();
        self.begin_turn(&id, hub, message_id, content);
    }

    /// Sends an input, which begins a turn or waits for those before it.
    fn begin_turn(
        &mut self,
        id: &str,
        hub: String,
        message_id: Option<MessageId>,
        content: String,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.turns.len() >= MAX_OPEN_TURNS {
            return self.put_refused(id, &hub, "too many messages wait");
        }
        let is_first = session.turns.is_empty();
        session.turns.push_back(HubTurn {
            handle: None,
            hub: Some(hub.clone()),
            content: (is_first || !session.has_context).then(|| content.clone()),
        });
        if is_first {
            session.output = 0;
            session.last_failure = None;
            self.put_started(id, &hub);
        }
        self.send_input(id, hub, message_id, content);
    }

    pub(super) fn send_input(
        &mut self,
        id: &str,
        hub: String,
        message_id: Option<MessageId>,
        content: String,
    ) {
        let mut input = Input::text(content);
        input.message_id = message_id;
        self.call_session(
            id,
            async move |handle| handle.send(input).await,
            move |bridge, id, sent| bridge.finish_send(id, hub, sent),
        );
    }

    /// Takes the turn of an input that is on its way.
    fn finish_send(&mut self, id: &str, hub: String, sent: Result<HostTurn, ClientError>) {
        let mut turn = match sent {
            Ok(turn) => turn,
            // The end of the session comes, and opens it again or ends the turn.
            Err(cause) if is_full(&cause) => return,
            Err(cause) => return self.refuse_turn(id, &hub, &show::cause(cause)),
        };
        let turns = self.sessions.get_mut(id).map(|session| &mut session.turns);
        let mut turns = turns.into_iter().flatten();
        if let Some(open) = turns.find(|open| open.hub.as_ref() == Some(&hub)) {
            open.handle = Some(turn.clone());
        }
        self.call_session(
            id,
            async move |_| turn.accepted().await,
            move |bridge, id, accepted| {
                if accepted.is_ok_and(|accepted| accepted.duplicate) {
                    bridge.refuse_turn(id, &hub, "this message was sent before");
                }
            },
        );
    }

    /// Ends the turn of an input that the host did not take.
    fn refuse_turn(&mut self, id: &str, hub: &str, why: &str) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let is_meant = |turn: &HubTurn| turn.hub.as_deref() == Some(hub);
        let place = session.turns.iter().position(is_meant);
        if place
            .and_then(|place| session.turns.remove(place))
            .is_some()
        {
            self.put_refused(id, hub, why);
        }
    }

    /// Adds a message to the running turn. One that does not reach it is a turn of its own.
    fn steer(&mut self, id: &str, hub: String, content: String, running: &HostTurn) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.steers.push(hub.clone());
        let turn_id = running.id();
        let mut input = Input::text(content.clone());
        input.message_id = MessageId::new(&hub).ok();
        self.call_session(
            id,
            async move |handle| handle.steer(turn_id, input).await,
            move |bridge, id, result| {
                if let Some(session) = bridge.sessions.get_mut(id) {
                    session.steers.retain(|steer| *steer != hub);
                }
                if !result.is_ok_and(|result| result.delivered) {
                    // The journal has the id of the message for the steer.
                    bridge.begin_turn(id, hub, None, content);
                }
            },
        );
    }

    /// Answers the question that waits by a message, which for the hub continues the turn.
    fn answer(&mut self, id: &str, hub: &str, content: &str) {
        self.put_started(id, hub);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(question) = &mut session.question else {
            return;
        };
        let request_id = question.request_id.clone();
        match question.answer(content) {
            AnswerOutcome::Next(why) => {
                let shown = question.shown();
                if let Some(why) = why {
                    self.show_note(id, &why);
                }
                self.show(id, "question", &shown);
                self.put_completed(id, hub, 0);
            }
            AnswerOutcome::Whole(values) => {
                session.question = None;
                let runs = session
                    .turns
                    .front_mut()
                    .map(|turn| turn.hub.replace(hub.to_owned()));
                let response = InputResponse {
                    request_id,
                    values: Some(values),
                    cancelled: None,
                };
                self.answer_question(id, response);
                match runs {
                    // The message that it answered ends now.
                    Some(Some(before)) => self.put_completed(id, &before, 0),
                    Some(None) => {}
                    None => self.put_completed(id, hub, 0),
                }
            }
        }
    }

    pub(super) fn answer_question(&self, id: &str, response: InputResponse) {
        self.begin_call(id, async move |handle| {
            handle.answer_question(response).await
        });
    }

    fn stop(&mut self, id: &str) {
        self.begin_call(id, async |handle| {
            handle.stop_running(StopReason::User).await
        });
        let ok = self.sessions.contains_key(id);
        let ack = ToHub::StopAck {
            session_id: id.to_owned(),
            ok,
            error: (!ok).then(|| "the session is not open".to_owned()),
        };
        self.out.push(id, LossPolicy::Forgotten, &ack);
    }

    fn decide(&mut self, decision: &PermissionDecision) {
        let is_it = |pending: &PendingPermission| pending.frame.session_id == decision.session_id;
        let asked = self.requests.get(&decision.request_id).is_some_and(is_it);
        let pending = asked.then(|| self.requests.remove(&decision.request_id));
        let Some(pending) = pending.flatten() else {
            return tracing::debug!("the hub decided about a request that does not wait");
        };
        let mut response = PermissionResponse::new(pending.request_id, decision.approved);
        response.reason = Some(StopReason::User);
        response.always_allow =
            (decision.approved && pending.has_always && decision.always_allow == Some(true))
                .then_some(true);
        self.answer_permission(&pending.frame.session_id, response);
    }

    fn file(&mut self, file: FileUpload) {
        let id = file.session_id;
        let name = base_name(&file.metadata.name);
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            let text = format!(
                "{name} was not given to the agent: send a message first, which opens the session"
            );
            return self.show_note(&id, &text);
        };
        session.used = now;
        let file_path = match self.keep_file(&id, &name, &file.data) {
            Ok(path) => path,
            Err(why) => return self.show_refused_file(&id, &name, &why),
        };
        let input = FileInput {
            file_name: Some(name.clone()),
            file_mime_type: Some(file.metadata.mime_type).filter(|kind| !kind.is_empty()),
            file_path,
            ..FileInput::default()
        };
        self.call_session(
            &id,
            async move |handle| handle.place_file(input).await,
            move |bridge, id, placed| {
                if let Err(cause) = placed {
                    bridge.show_refused_file(id, &name, &show::cause(cause));
                }
            },
        );
    }

    /// Writes a file that the hub has in Base64. Returns its path.
    fn keep_file(&mut self, id: &str, name: &str, data: &str) -> Result<String, String> {
        if data.len() > MAX_FILE.div_ceil(3) * 4 + 4 {
            return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
        }
        let bytes = STANDARD.decode(data).map_err(|_| "it is not whole")?;
        let path = self.files.keep(id, name, &bytes)?;
        let path = path.into_os_string().into_string();
        path.map_err(|_| "its folder has a name that is not UTF-8".to_owned())
    }

    fn show_refused_file(&mut self, id: &str, name: &str, why: &str) {
        let text = format!("{name} was not given to the agent: {why}");
        self.show_note(id, &text);
    }

    fn update(&mut self, update: &ConfigUpdate) {
        let error = self.apply_update(update).err();
        if let Some(why) = &error {
            let agent = show::cut(&update.agent_id, 256);
            tracing::warn!("the hub's settings of the agent {agent:?} are not applied: {why}");
        }
        let ack = ToHub::ConfigAck {
            agent_id: show::cut(&update.agent_id, 256),
            ok: error.is_none(),
            error,
        };
        self.out.push("", LossPolicy::Forgotten, &ack);
    }

    /// Applies limits of an administrator, also to open sessions.
    fn apply_update(&mut self, update: &ConfigUpdate) -> Result<(), String> {
        let agent = self.agent(&update.agent_id);
        let agent = agent.ok_or("this runtime has no such agent")?;
        let before = self.settings.get(&agent).cloned().unwrap_or_default();
        let mut settings = before.clone();
        settings.apply(update)?;
        let denied = settings.denied_tools.clone();
        let has_changed = before.denied_tools != denied;
        let denial = self.tool_denial(&agent);
        if has_changed {
            check_denied_tools(&denied, denial)?;
        }
        self.settings.insert(agent.clone(), settings);
        let by_adapter = has_changed && denial == Some(ToolDenial::Adapter);
        let open = self.sessions.iter();
        for (id, _) in open.filter(|(_, it)| it.agent == agent && by_adapter) {
            let update = SessionUpdate {
                denied_tools: Some(denied.clone()),
                ..SessionUpdate::default()
            };
            self.call_session(
                id,
                async move |handle| {
                    // An agent without options does not answer.
                    let updated = timeout(UPDATE_TIMEOUT, handle.update(update));
                    updated.await.map_or(Ok(()), |result| result.map(drop))
                },
                |bridge, id, updated| {
                    if let Err(cause) = updated {
                        bridge.show_note(id, &show::cause(cause));
                    }
                },
            );
        }
        Ok(())
    }

    /// Answers with the sessions that this connector has had: a host does not list the agents' own.
    fn native_list(&mut self, list: NativeList) {
        let agent = self.agent(&list.agent_id);
        let known = self
            .known
            .iter()
            .rev()
            .filter(|(of, _)| Some(of) == agent.as_ref());
        let sessions = known
            .take(MAX_LISTED_SESSIONS)
            .map(|(_, session)| session.clone())
            .collect();
        let response = ToHub::Native {
            agent_id: list.agent_id,
            request_id: list.request_id,
            sessions,
        };
        self.out.push("", LossPolicy::Forgotten, &response);
    }
}

/// The handle of a session that is being opened, and the sender that resolves it.
fn opening_handle() -> (OpenedSender, OpeningSession) {
    let (opened, handle) = oneshot::channel();
    let handle = async move { handle.await.unwrap_or(Err(ClientError::Detached)) };
    (opened, handle.boxed().shared())
}

/// Returns true if the host refused a session at its limit or at the limit of the agent.
fn is_full(cause: &ClientError) -> bool {
    let ClientError::SessionClosed {
        reason: Some(ClosedReason::Limit),
        failure: Some(failure),
    } = cause
    else {
        return false;
    };
    failure.category == Some(Category::Busy)
}

/// Checks that tools can be denied.
///
/// # Errors
/// The reason why not, for the hub's administrator.
fn check_denied_tools(tools: &[String], denial: Option<ToolDenial>) -> Result<(), String> {
    let is_pattern = |tool: &&String| tool.contains(['(', '*']);
    match (denial, tools.iter().find(is_pattern)) {
        (None, _) => Err(
            "disallowed_tools is refused: the agent's adapter does not enforce it, nor does it ask \
             about every call; deny tools in the runtime's own configuration"
                .to_owned(),
        ),
        (Some(ToolDenial::Permission), Some(pattern)) => Err(format!(
            "disallowed_tools is refused: for this agent it has names of tools, and {} is a pattern",
            show::cut(pattern, 256)
        )),
        (Some(ToolDenial::Permission), None) | (Some(ToolDenial::Adapter), _) => Ok(()),
    }
}
