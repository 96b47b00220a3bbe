//! What a line of the host does.

use base64::{Engine, engine::general_purpose::STANDARD};
use trunkline_protocol::{
    AdapterBody, Channel, Context, ErrorEvent, Fact, FileOutput, HostFact, InputRequest,
    InputResponse, InputResult, OptionKind, Output, PermissionRequest, RelayBody, RequestDecided,
    RequestId, SessionInfo, SteerResult, Stop, StopReason, TurnBegin, TurnComplete, TurnId,
};
use uuid::Uuid;

use super::{
    AdapterMessage, Bridge, Lost, Pending, REQUEST_BYTES, REQUESTS, RelayMessage, ToHub, Unread,
    WhenLost,
};
use crate::{ask::Asked, files::base_name, frame::Metadata, show};

/// The most of a short text of the agent's, in bytes.
const TEXT: usize = 64 * 1024;

impl Bridge {
    /// Takes a line.
    pub(crate) fn host(&mut self, line: &str) {
        match AdapterMessage::parse(line) {
            Ok(message) => {
                if let AdapterBody::AgentsListResult(list) = message.body {
                    let wanted = self.rules.agents.as_ref();
                    let is_wanted = |id: &String| wanted.is_none_or(|wanted| wanted.contains(id));
                    self.agents = list
                        .agents
                        .into_iter()
                        .filter(|agent| is_wanted(&agent.id))
                        .collect();
                    self.asks_agents = false;
                } else if let Some(id) = self.wires.get(&message.session_id).cloned() {
                    self.touch(&id);
                    self.of_adapter(&id, message.turn_id.as_ref(), message.body);
                }
            }
            Err(Unread::UnknownType { .. }) => {
                let Ok(message) = RelayMessage::parse(line) else {
                    return;
                };
                if let Some(id) = self.wires.get(&message.session_id).cloned() {
                    self.of_relay(&id, message.turn_id, message.body);
                }
            }
            Err(unread) => tracing::debug!("a line of the host was not understood: {unread}"),
        }
    }

    fn touch(&mut self, id: &str) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.used = self.now;
        }
    }

    fn of_adapter(&mut self, id: &str, turn: Option<&TurnId>, body: AdapterBody) {
        match body {
            AdapterBody::Output(output) => self.output(id, &output),
            AdapterBody::TurnComplete(complete) => self.turn_end(id, turn, &complete),
            AdapterBody::FileOutput(file) => self.file_output(id, &file),
            AdapterBody::PermissionRequest(request) => self.permission(id, *request),
            AdapterBody::PermissionCancel(cancel) => {
                self.settled(id, &cancel.request_id, "withdrawn")
            }
            AdapterBody::InputRequest(request) => self.question(id, *request),
            AdapterBody::SessionReady(ready) => {
                self.info(id, &ready.info);
                if self
                    .sessions
                    .get(id)
                    .is_some_and(|session| !session.is_answered)
                {
                    self.put_created(id, Ok(()));
                }
            }
            AdapterBody::SessionInfo(info) => self.info(id, &info),
            AdapterBody::SessionClosed(closed) => self.over(id, Some(&show::closed(&closed))),
            AdapterBody::SteerResult(result) => self.steered(id, &result),
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
                self.show(id, "system", &show::plan(&plan))
            }
            // The end of the turn tells a fatal one.
            AdapterBody::Error(ErrorEvent {
                message,
                fatal,
                history: None | Some(false),
                ..
            }) if fatal != Some(true) => {
                self.show(id, "system", &show::cut(&message, TEXT));
            }
            AdapterBody::Compaction(_) => {
                self.show(id, "system", "the agent's context was compacted")
            }
            // The hub has no place for them: docs/amurg.md lists these.
            _ => {}
        }
    }

    fn of_relay(&mut self, id: &str, turn: Option<TurnId>, body: RelayBody) {
        match body {
            RelayBody::SessionRefused(refused) => {
                let why = refused
                    .message
                    .unwrap_or_else(|| "the host opens no session".to_owned());
                self.over(id, Some(&why));
            }
            RelayBody::InputResult(result) => self.taken_input(id, turn, &result),
            RelayBody::HostFact(HostFact {
                fact: Some(Fact::ProcessEnded),
                message,
                ..
            }) => {
                let text = message.unwrap_or_else(|| "the agent's process ended".to_owned());
                self.show(id, "system", &show::cut(&text, TEXT));
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
                self.settled(id, &request_id, how);
            }
            RelayBody::TurnBegin(TurnBegin { content, .. }) => {
                let is_own = |session: &crate::session::Session| {
                    session
                        .turns
                        .iter()
                        .any(|open| Some(&open.id) == turn.as_ref())
                };
                if !self.sessions.get(id).is_some_and(is_own) {
                    self.show(
                        id,
                        "system",
                        &format!("asked elsewhere: {}", show::cut(&content, TEXT)),
                    );
                }
            }
            RelayBody::Lag(lag) => {
                let text = format!(
                    "entries {} to {} of the session are not shown",
                    lag.from, lag.to
                );
                self.show(id, "system", &text);
            }
            _ => {}
        }
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
                let wire = session.wire.clone();
                self.say(
                    &wire,
                    None,
                    Stop {
                        reason: Some(StopReason::Policy),
                    },
                );
                self.show(
                    id,
                    "system",
                    &format!("the turn is stopped: its output is longer than {most} bytes"),
                );
            }
            return;
        }
        match output.channel() {
            channel @ (Channel::System | Channel::Question | Channel::Tool) => {
                self.show(id, channel.as_str(), &output.content);
            }
            // A name of the agent's own could be one that the hub's page shows as a person's words, or as a file.
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
        self.show(
            id,
            if history == Some(true) {
                "history_tool"
            } else {
                "tool"
            },
            text,
        );
    }

    fn info(&mut self, id: &str, info: &SessionInfo) {
        if let Some(session) = self.sessions.get_mut(id)
            && info.native_session_id.is_some()
        {
            session.native.clone_from(&info.native_session_id);
        }
        self.context(id, info.context);
    }

    fn context(&mut self, id: &str, context: Option<Context>) {
        if context == Some(Context::Lost) {
            self.show(
                id,
                "system",
                "The agent does not remember what was said before.",
            );
        }
    }

    fn turn_end(&mut self, id: &str, turn: Option<&TurnId>, complete: &TurnComplete) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if complete.native_session_id.is_some() {
            session.native.clone_from(&complete.native_session_id);
        }
        if complete.clear_session == Some(true) {
            session.native = None;
        }
        // An end that came before, without its entry, is over.
        let place = session.turns.iter().position(|open| Some(&open.id) == turn);
        let Some(ended) = place.and_then(|place| session.turns.remove(place)) else {
            return;
        };
        let text = show::end(complete);
        if place != Some(0) {
            if let Some(hub) = ended.hub {
                self.put_refused(id, &hub, &text.unwrap_or_default());
            }
            return;
        }
        session.output = 0;
        session.question = None;
        let next = session.turns.front().and_then(|turn| turn.hub.clone());
        if let Some(text) = text {
            self.show(id, "system", &show::cut(&text, TEXT));
        }
        self.flush(id);
        if let Some(hub) = ended.hub {
            self.put_completed(id, &hub, show::exit_code(complete));
        }
        self.remember(id);
        if let Some(hub) = next {
            self.put_started(id, &hub);
        }
    }

    fn taken_input(&mut self, id: &str, turn: Option<TurnId>, result: &InputResult) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let message = result.message_id.as_ref();
        let Some(place) = session
            .turns
            .iter()
            .position(|open| Some(&open.message) == message)
        else {
            return;
        };
        if result.duplicate == Some(true) {
            let Some(hub) = session.turns.remove(place).and_then(|turn| turn.hub) else {
                return;
            };
            self.put_refused(id, &hub, "this message was sent before");
        } else if let (Some(open), Some(turn)) = (session.turns.get_mut(place), turn) {
            open.id = turn;
        }
    }

    fn steered(&mut self, id: &str, result: &SteerResult) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let place = session
            .steers
            .iter()
            .position(|steer| Some(&steer.message) == result.message_id.as_ref());
        let Some(steer) = place.and_then(|place| session.steers.remove(place)) else {
            return;
        };
        if !result.delivered {
            // With an id of its own: that of the steer has been used.
            self.turn(id, &steer.hub, None, steer.content);
        }
    }

    fn permission(&mut self, id: &str, request: PermissionRequest) {
        if request.history == Some(true) {
            return;
        }
        self.flush(id);
        let always = |kind: Option<OptionKind>| kind == Some(OptionKind::AllowAlways);
        let texts = [request.description, request.title].into_iter().flatten();
        let mut description = texts
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        if request.truncated == Some(true) {
            description.push_str("\n(not all of the request is shown)");
        }
        let mut pending = Pending {
            session: id.to_owned(),
            request_id: request.request_id,
            tool: request.tool,
            description,
            resource: request.resource.unwrap_or_default(),
            has_always: request
                .options
                .iter()
                .flatten()
                .any(|option| always(option.kind)),
            until: None,
        };
        let bytes = pending.tool.len() + pending.description.len() + pending.resource.len();
        let why = match () {
            () if bytes > REQUEST_BYTES => "the request is too long to be read",
            () if self.requests.len() >= REQUESTS => "too many requests wait",
            () if self.is_up => return self.put_request(&mut pending),
            () if self.rules.lost == WhenLost::Deny => "there is no connection to the hub",
            () => return drop(self.requests.insert(Uuid::new_v4().to_string(), pending)),
        };
        self.deny(&pending, StopReason::Policy, why);
    }

    fn question(&mut self, id: &str, request: InputRequest) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let (wire, request_id) = (session.wire.clone(), request.request_id.clone());
        let asked = if session.question.is_some() {
            None
        } else {
            Asked::new(request)
        };
        let Some(asked) = asked else {
            self.say(
                &wire,
                None,
                InputResponse {
                    request_id,
                    values: None,
                    cancelled: Some(true),
                },
            );
            let text = "a question of the agent was not asked here: it wants a secret, or another one waits";
            return self.show(id, "system", text);
        };
        let shown = asked.shown();
        session.question = Some(asked);
        // For the hub it ends the turn: only then it takes a message, which is the answer.
        let hub = session.turns.front_mut().and_then(|turn| turn.hub.take());
        self.show(id, "question", &shown);
        if let Some(hub) = hub {
            self.put_completed(id, &hub, 0);
        }
    }

    /// A request has been settled otherwise than by the hub, which cannot take it back from its page.
    fn settled(&mut self, id: &str, request_id: &RequestId, how: &str) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session
            .question
            .as_ref()
            .is_some_and(|question| question.request_id == *request_id)
        {
            session.question = None;
            return self.show(id, "system", "the question is not open any more");
        }
        let is_it = |pending: &Pending| pending.session == id && pending.request_id == *request_id;
        let found = self
            .requests
            .iter()
            .find(|(_, pending)| is_it(pending))
            .map(|(key, _)| key.clone());
        if let Some(pending) = found.and_then(|key| self.requests.remove(&key)) {
            let text = format!("the request is {how}: {}", show::cut(&pending.tool, 256));
            self.show(id, "system", &text);
        }
    }

    fn file_output(&mut self, id: &str, file: &FileOutput) {
        let name = base_name(
            file.file_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .unwrap_or(&file.file_path),
        );
        match self.files.read(file.file_path.as_ref()) {
            Ok(bytes) => {
                self.flush(id);
                let metadata = Metadata {
                    file_id: Uuid::new_v4().to_string(),
                    name,
                    mime_type: file
                        .file_mime_type
                        .clone()
                        .unwrap_or_else(|| "application/octet-stream".to_owned()),
                    size: bytes.len() as u64,
                };
                let (session_id, data) = (id.to_owned(), STANDARD.encode(bytes));
                self.out.push(
                    id,
                    Lost::Marked,
                    &ToHub::File {
                        session_id,
                        metadata,
                        data,
                    },
                );
            }
            Err(why) => self.show(id, "system", &format!("{name} was not sent: {why}")),
        }
    }
}
