//! Events of sessions, as frames for the hub.

use base64::{Engine, engine::general_purpose::STANDARD};
use trunkline_client::{ClientError, Event, EventBody};
use trunkline_protocol::{
    AdapterBody, Channel, Context, Delivered, ErrorEvent, Fact, FileOutput, HostFact, InputRequest,
    InputResponse, OptionKind, Output, PermissionRequest, RelayBody, RequestDecided, RequestId,
    SessionInfo, StopReason, TurnBegin, TurnComplete,
};
use uuid::Uuid;

use super::{
    LossPolicy, MAX_REQUEST_BYTES, MAX_REQUESTS, PendingPermission, SessionBridge, SessionKey,
    ToHub, WhenLost,
};
use crate::{
    ask::PendingQuestion,
    files::{base_name, read_file},
    frame::{FileMetadata, PermissionFrame},
    show,
};

/// The longest short text of an agent that is shown, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

impl SessionBridge {
    /// Handles the next event of a session, or its end. Events of a closed session are dropped.
    pub(super) fn handle_event(
        &mut self,
        key: &SessionKey,
        next: Result<Option<Event>, ClientError>,
    ) {
        if !self.is_open(key) {
            return;
        }
        let id = &*key.0;
        let event = match next {
            Ok(Some(event)) => event,
            // Its `session.closed` came before.
            Ok(None) => return,
            Err(cause) => return self.end_opening(id, cause),
        };
        if let EventBody::Adapter(AdapterBody::TurnComplete(complete)) = &event.body {
            return self.end_turn(id, &event, complete);
        }
        match event.body {
            EventBody::Adapter(body) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.used = self.now;
                    if !matches!(
                        body,
                        AdapterBody::SessionInfo(_) | AdapterBody::SessionClosed(_)
                    ) {
                        session.has_context = true;
                        session.closed_for_room = 0;
                        if let Some(turn) = session.turns.front_mut() {
                            turn.content = None;
                        }
                    }
                }
                self.show_adapter(id, event.awaits_answer, body);
            }
            EventBody::Relay(body) => self.show_relay(id, event.is_own, body),
            EventBody::TooLong { bytes } => {
                let text = format!("a message of {bytes} bytes is not shown");
                self.show_note(id, &text);
            }
            _ => {}
        }
    }

    fn show_adapter(&mut self, id: &str, awaits_answer: bool, body: AdapterBody) {
        match body {
            AdapterBody::Output(output) => self.output(id, &output),
            AdapterBody::FileOutput(file) => self.file_output(id, &file),
            AdapterBody::PermissionRequest(request) if awaits_answer => {
                self.ask_permission(id, *request);
            }
            AdapterBody::PermissionCancel(cancel) => {
                self.settle_request(id, &cancel.request_id, "withdrawn")
            }
            AdapterBody::InputRequest(request) if awaits_answer => self.ask_question(id, *request),
            AdapterBody::SessionInfo(info) => self.note_info(id, &info),
            AdapterBody::SessionClosed(closed) => {
                let cause = ClientError::SessionClosed {
                    reason: closed.reason,
                    failure: closed.error.map(Box::new),
                };
                self.end_opening(id, cause);
            }
            AdapterBody::ToolStart(start) => {
                self.tool(id, start.history, &show::tool_start(&start))
            }
            AdapterBody::ToolEnd(end) => self.tool(id, end.history, &show::tool_end(&end)),
            AdapterBody::Message(message) if message.history == Some(true) => {
                let channel = if message.role == "user" {
                    "history_user"
                } else {
                    "history_assistant"
                };
                self.show(id, channel, &message.content);
            }
            AdapterBody::Plan(plan) if plan.history != Some(true) => {
                self.show_note(id, &show::plan(&plan))
            }
            // The end of the turn has the reason of a fatal one.
            AdapterBody::Error(ErrorEvent {
                message,
                fatal,
                history: None | Some(false),
                ..
            }) if fatal != Some(true) => {
                self.show_note(id, &show::cut(&message, MAX_TEXT_BYTES));
            }
            AdapterBody::Compaction(_) => self.show_note(id, "the agent's context was compacted"),
            // The hub has no frames for the others (docs/amurg.md).
            _ => {}
        }
    }

    fn show_relay(&mut self, id: &str, is_own: bool, body: RelayBody) {
        match body {
            RelayBody::HostFact(HostFact {
                fact: Some(Fact::ProcessEnded),
                message,
                ..
            }) => {
                let text = message.unwrap_or_else(|| "the agent's process ended".to_owned());
                self.show_failure(id, &text);
            }
            RelayBody::HostFact(HostFact {
                fact: Some(Fact::Resumed),
                context,
                ..
            }) => self.context(id, context),
            RelayBody::RequestDecided(RequestDecided {
                request_id,
                approved,
                ..
            }) => {
                let how = if approved == Some(true) {
                    "allowed elsewhere"
                } else {
                    "settled elsewhere"
                };
                self.settle_request(id, &request_id, how);
            }
            RelayBody::TurnBegin(TurnBegin { content, .. }) if !is_own => {
                let text = format!("asked elsewhere: {}", show::cut(&content, MAX_TEXT_BYTES));
                self.show_note(id, &text);
            }
            RelayBody::Lag(lag) => {
                let text = format!(
                    "entries {} to {} of the session are not shown",
                    lag.from, lag.to
                );
                self.show_note(id, &text);
            }
            _ => {}
        }
    }

    /// Shows a failure, unless the end of the turn or of its process has shown it.
    fn show_failure(&mut self, id: &str, text: &str) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let before = session.last_failure.as_ref();
        if before.is_some_and(|before| before.ends_with(text) || text.ends_with(before.as_str())) {
            return;
        }
        session.last_failure = Some(text.to_owned());
        self.show_note(id, &show::cut(text, MAX_TEXT_BYTES));
    }

    fn output(&mut self, id: &str, output: &Output) {
        if output.history == Some(true) {
            return self.show(id, "history_assistant", &output.content);
        }
        let now = self.now;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let most = self
            .settings
            .get(&session.agent)
            .and_then(|settings| settings.max_output)
            .unwrap_or(u64::MAX);
        let was_over = session.output > most;
        session.output += output.content.len() as u64;
        if session.output > most {
            if !was_over {
                self.begin_call(id, async |handle| {
                    handle.stop_running(StopReason::Policy).await
                });
                let text = format!("the turn is stopped: its output is longer than {most} bytes");
                self.show_note(id, &text);
            }
            return;
        }
        match output.channel() {
            channel @ (Channel::System | Channel::Question | Channel::Tool) => {
                self.show(id, channel.as_str(), &output.content);
            }
            // The hub's page could show another name as a person's words, or as a file.
            channel => {
                let name = if *channel == Channel::Stderr {
                    "stderr"
                } else {
                    "stdout"
                };
                for (channel, content) in session.joined.add(name, &output.content, now) {
                    self.put_output(id, channel, content);
                }
            }
        }
    }

    fn tool(&mut self, id: &str, history: Option<bool>, text: &str) {
        let is_history = history == Some(true);
        self.show(id, if is_history { "history_tool" } else { "tool" }, text);
    }

    pub(super) fn note_info(&mut self, id: &str, info: &SessionInfo) {
        if let Some(session) = self.sessions.get_mut(id)
            && info.native_session_id.is_some()
        {
            session.native.clone_from(&info.native_session_id);
        }
        self.context(id, info.context);
    }

    fn context(&mut self, id: &str, context: Option<Context>) {
        if context == Some(Context::Lost) {
            self.show_note(id, "The agent does not remember the earlier conversation.");
        }
    }

    fn end_turn(&mut self, id: &str, event: &Event, complete: &TurnComplete) {
        // A provisional end comes again as an entry.
        let session = self.sessions.get_mut(id);
        let Some(session) = session.filter(|_| !event.is_provisional()) else {
            return;
        };
        session.used = self.now;
        if complete.native_session_id.is_some() {
            session.native.clone_from(&complete.native_session_id);
        }
        if complete.clear_session == Some(true) {
            session.native = None;
        }
        let place = session.turns.iter().position(|turn| {
            let handle = turn.handle.as_ref();
            handle.is_some_and(|handle| event.ends(handle))
        });
        let Some(place) = place else {
            return;
        };
        let turn = &session.turns[place];
        let can_repeat = place == 0 && turn.hub.is_some() && turn.content.is_some();
        if can_repeat && show::is_full(complete) {
            // The end of a session without a journal comes next, and opens it again.
            if !session.is_journaled || self.resend_with_room(id) {
                return;
            }
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let hub = session.turns.remove(place).and_then(|turn| turn.hub);
        let text = show::end(complete);
        if place > 0 {
            if let Some(hub) = hub {
                self.put_refused(id, &hub, &text.unwrap_or_default());
            }
            return;
        }
        session.has_context |= complete.delivered != Some(Delivered::No);
        session.output = 0;
        session.question = None;
        if let Some(text) = text {
            self.show_failure(id, &text);
        }
        self.flush(id);
        if let Some(hub) = hub {
            self.put_completed(id, &hub, show::exit_code(complete));
        }
        self.remember(id);
        self.start_first(id);
    }

    fn ask_permission(&mut self, id: &str, request: PermissionRequest) {
        self.flush(id);
        let texts = [request.description, request.title].into_iter().flatten();
        let mut description = texts
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        if request.truncated == Some(true) {
            description.push_str("\n(not all of the request is shown)");
        }
        let mut options = request.options.iter().flatten();
        let pending = PendingPermission {
            request_id: request.request_id,
            frame: PermissionFrame {
                session_id: id.to_owned(),
                request_id: String::new(),
                tool: request.tool,
                description,
                resource: request.resource.unwrap_or_default(),
            },
            has_always: options.any(|option| option.kind == Some(OptionKind::AllowAlways)),
            until: None,
        };
        let frame = &pending.frame;
        let session = self.sessions.get(id);
        let settings = session.and_then(|session| self.settings.get(&session.agent));
        let is_denied =
            settings.is_some_and(|settings| settings.denied_tools.contains(&frame.tool));
        let bytes = frame.tool.len() + frame.description.len() + frame.resource.len();
        let why = match () {
            () if is_denied => "the hub's administrator has disallowed this tool",
            () if bytes > MAX_REQUEST_BYTES => "the request is too long to be read",
            () if self.requests.len() >= MAX_REQUESTS => "too many requests wait",
            () if self.is_up => return self.put_request(pending),
            () if self.options.lost == WhenLost::Deny => "there is no connection to the hub",
            () => return drop(self.requests.insert(Uuid::new_v4().to_string(), pending)),
        };
        self.deny(&pending, StopReason::Policy, why);
    }

    fn ask_question(&mut self, id: &str, request: InputRequest) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let request_id = request.request_id.clone();
        let asked = if session.question.is_some() {
            None
        } else {
            PendingQuestion::new(request)
        };
        let Some(asked) = asked else {
            let response = InputResponse {
                request_id,
                values: None,
                cancelled: Some(true),
            };
            self.answer_question(id, response);
            let text = "a question of the agent was not asked here: it wants a secret, or another one waits";
            return self.show_note(id, text);
        };
        let shown = asked.shown();
        session.question = Some(asked);
        // For the hub it ends the turn: only then the hub accepts a message, which is the answer.
        let hub = session.turns.front_mut().and_then(|turn| turn.hub.take());
        self.show(id, "question", &shown);
        if let Some(hub) = hub {
            self.put_completed(id, &hub, 0);
        }
    }

    /// Shows that a request was settled otherwise than by the hub, whose page still has it.
    fn settle_request(&mut self, id: &str, request_id: &RequestId, how: &str) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session
            .question
            .as_ref()
            .is_some_and(|question| question.request_id == *request_id)
        {
            session.question = None;
            return self.show_note(id, "the question is no longer open");
        }
        let is_it = |pending: &PendingPermission| {
            pending.frame.session_id == id && pending.request_id == *request_id
        };
        let mut settled = self.requests.extract_if(.., |_, pending| is_it(pending));
        if let Some((_, pending)) = settled.next() {
            let text = format!(
                "the request is {how}: {}",
                show::cut(&pending.frame.tool, 256)
            );
            self.show_note(id, &text);
        }
    }

    fn file_output(&mut self, id: &str, file: &FileOutput) {
        let name = base_name(
            file.file_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .unwrap_or(&file.file_path),
        );
        match read_file(file.file_path.as_ref()) {
            Ok(bytes) => {
                self.flush(id);
                let metadata = FileMetadata {
                    file_id: Uuid::new_v4().to_string(),
                    name,
                    mime_type: file
                        .file_mime_type
                        .clone()
                        .unwrap_or_else(|| "application/octet-stream".to_owned()),
                    size: bytes.len() as u64,
                };
                let sent = ToHub::File {
                    session_id: id.to_owned(),
                    metadata,
                    data: STANDARD.encode(bytes),
                };
                self.out.push(id, LossPolicy::Marked, &sent);
            }
            Err(why) => self.show_note(id, &format!("{name} was not sent: {why}")),
        }
    }
}
