//! What a relay tells of sessions.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Channel, ErrorEvent, Fact, FileOutput, HostFact, RelayBody,
    RelayMessage, SessionId, SessionsListResult, Stamp, ToolEnd, ToolUpdate,
};

use super::{Core, Out, Picture, is_of_pipe};
use crate::{
    rpc::Refusal,
    session::{Phase, TOOLS},
    update,
};

/// How long a new session waits for what its agent declares. What comes later is an update.
const DECLARES: Duration = Duration::from_secs(2);

impl Core {
    /// Takes what an adapter says, or the relay as one.
    pub(super) fn adapter(&mut self, message: AdapterMessage, stamp: &Stamp, now: Instant) {
        let AdapterMessage {
            session_id: id,
            turn_id,
            body,
            ..
        } = message;
        if is_of_pipe(&body) {
            if let AdapterBody::SessionsListResult(result) = body {
                self.listed(result);
            }
            return;
        }
        if !self.heard(&id, stamp) {
            return;
        }
        match body {
            AdapterBody::SessionInfo(info) => self.declared(&id, &info),
            AdapterBody::SessionClosed(closed) => {
                self.closed(&id, closed.reason, closed.error.as_ref())
            }
            AdapterBody::TurnComplete(end) => self.turn_ended(&id, turn_id.as_ref(), &end),
            body @ (AdapterBody::PermissionRequest(_) | AdapterBody::InputRequest(_)) => {
                self.requested(&id, body);
            }
            AdapterBody::PermissionCancel(cancel) => self.settled(&id, &cancel.request_id),
            body => self.event(&id, body),
        }
        self.caught_up(&id, now);
    }

    /// Takes what only a relay with a journal says.
    pub(super) fn of_relay(&mut self, message: RelayMessage, stamp: &Stamp, now: Instant) {
        let RelayMessage {
            session_id: id,
            turn_id,
            body,
            ..
        } = message;
        if !self.heard(&id, stamp) {
            return;
        }
        match body {
            RelayBody::SessionAttached(attached) => self.attached(&id, &attached),
            RelayBody::SessionRefused(refused) => self.refused(&id, &refused, now),
            RelayBody::HostFact(fact) => self.fact(&id, &fact, now),
            RelayBody::TurnBegin(begin) => {
                let shown = self
                    .sessions
                    .get(&id)
                    .is_some_and(|known| !known.is_own(begin.message_id.as_ref()));
                if shown && !begin.content.is_empty() {
                    let message = begin.message_id.as_ref().map(|id| id.as_str());
                    self.show(
                        &id,
                        &update::chunk("user_message_chunk", &begin.content, message),
                    );
                }
            }
            RelayBody::InputSteered(steered) => {
                self.show(
                    &id,
                    &update::chunk("user_message_chunk", &steered.content, None),
                );
            }
            RelayBody::RequestDecided(decided) => self.settled(&id, &decided.request_id),
            RelayBody::InputResult(result) => {
                let prompts = self.sessions.get_mut(&id).map(|known| &mut known.prompts);
                let meant = prompts.into_iter().flatten();
                for prompt in meant.filter(|prompt| prompt.input.message_id == result.message_id) {
                    prompt.stored = true;
                    // The relay may have had the id before.
                    if let Some(turn) = &turn_id {
                        prompt.turn.clone_from(turn);
                    }
                }
            }
            RelayBody::Lag(lag) => {
                if let Some(known) = self.sessions.get_mut(&id) {
                    known.seq = known.seq.max(lag.to);
                }
            }
            RelayBody::FileDelivered(_)
            | RelayBody::StopRequested(_)
            | RelayBody::SessionEdited(_)
            | RelayBody::SessionEditResult(_)
            | RelayBody::SessionHistoryResult(_) => {}
        }
        self.caught_up(&id, now);
    }

    /// Whether a line is of a session that the client has open; notes the entry that it is.
    fn heard(&mut self, id: &SessionId, stamp: &Stamp) -> bool {
        let Some(known) = self.sessions.get_mut(id) else {
            return false;
        };
        if let Some(seq) = stamp.seq {
            known.seq = seq;
            known.epoch = stamp.epoch;
        }
        true
    }

    /// Tells the client of something, if it is for its eyes.
    fn show(&mut self, id: &SessionId, update: &Value) {
        if self.sessions.get(id).is_some_and(|known| known.is_shown()) {
            self.update(id, update);
        }
    }

    /// What happens in a turn, or beside one.
    fn event(&mut self, id: &SessionId, body: AdapterBody) {
        let update = match body {
            AdapterBody::Output(output) => {
                let kind = match output.channel() {
                    Channel::Stdout | Channel::System | Channel::Question => "agent_message_chunk",
                    Channel::Stderr | Channel::Tool | Channel::Other(_) => "agent_thought_chunk",
                };
                update::chunk(
                    kind,
                    &output.content,
                    output.message_id.as_ref().map(|id| id.as_str()),
                )
            }
            AdapterBody::Thinking(thinking) => {
                let message = thinking.message_id.as_ref().map(|id| id.as_str());
                update::chunk("agent_thought_chunk", &thinking.content, message)
            }
            AdapterBody::Message(message) => {
                let kind = if message.role == "user" {
                    "user_message_chunk"
                } else {
                    "agent_message_chunk"
                };
                update::chunk(
                    kind,
                    &message.content,
                    message.message_id.as_ref().map(|id| id.as_str()),
                )
            }
            AdapterBody::ToolStart(start) => update::tool_start(&start),
            AdapterBody::ToolUpdate(update) => return self.tool_update(id, &update),
            AdapterBody::ToolEnd(end) => return self.tool_end(id, &end),
            AdapterBody::Plan(plan) => update::plan(&plan.entries),
            AdapterBody::FileOutput(file) => return self.file(id, file),
            AdapterBody::ContextUsage(usage) => {
                let Some(known) = self.sessions.get_mut(id) else {
                    return;
                };
                known.facts.in_context(&usage);
                let Some(update) = known.facts.usage_update() else {
                    return;
                };
                update
            }
            AdapterBody::Error(error) => return self.error(id, &error),
            // Pieces of what comes whole at the turn's end, and what ACP has no word for.
            _ => return,
        };
        self.show(id, &update);
    }

    fn tool_update(&mut self, id: &SessionId, said: &ToolUpdate) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        let call = &said.tool_call_id;
        let mut update = update::tool_update(call.as_str());
        if let Some(text) = &said.content {
            let mut tail = known.tools.remove(call).unwrap_or_default();
            update::add_to_tail(&mut tail, text);
            update["content"] = json!([update::text_content(&tail)]);
            if known.tools.len() < TOOLS {
                known.tools.insert(call.clone(), tail);
            }
        }
        if let Some(title) = &said.title {
            update["title"] = json!(title);
        }
        for (name, json) in [("rawInput", &said.input), ("rawOutput", &said.data)] {
            if let Some(value) = json.as_ref().and_then(update::value) {
                update[name] = value;
            }
        }
        self.show(id, &update);
    }

    fn tool_end(&mut self, id: &SessionId, end: &ToolEnd) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        let printed = known.tools.remove(&end.tool_call_id).unwrap_or_default();
        self.show(id, &update::tool_end(end, &printed));
    }

    fn file(&mut self, id: &SessionId, file: FileOutput) {
        if !self.sessions.get(id).is_some_and(|known| known.is_shown()) {
            return;
        }
        let name = file.file_name.unwrap_or_else(|| "file".to_owned());
        let mime = file.file_mime_type.unwrap_or_default();
        let picture = Picture {
            session: id.clone(),
            path: file.file_path,
            name,
            mime,
        };
        self.out.to_client.push(Out::Picture(picture));
    }

    /// Something went wrong that ends nothing.
    fn error(&mut self, id: &SessionId, error: &ErrorEvent) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        if known.changes.is_empty() {
            let severity = if error.fatal == Some(true) {
                "error"
            } else {
                "warning"
            };
            return self.notice(id, severity, &error.message);
        }
        // Who waits for a change learns it from that, once the values come that are in force.
        known.error = Some(error.message.clone());
    }

    /// Says something to the person that is no part of the conversation.
    fn notice(&mut self, id: &SessionId, severity: &str, text: &str) {
        let update = match self.client.is_some_and(|client| client.notices) {
            true => json!({ "sessionUpdate": "notice", "severity": severity, "title": text }),
            false => update::chunk("agent_thought_chunk", &format!("{text}\n"), None),
        };
        self.show(id, &update);
    }

    fn fact(&mut self, id: &SessionId, fact: &HostFact, now: Instant) {
        match fact.fact {
            Some(Fact::Opened) => {
                let Some(known) = self.sessions.get_mut(id) else {
                    return;
                };
                if let Phase::Starting { opened, until, .. } = &mut known.phase {
                    (*opened, *until) = (true, Some(now + DECLARES));
                }
            }
            // The ends of what was open, which come behind it, say what a person needs to know.
            Some(Fact::Moved | Fact::ForkedFrom) => {}
            Some(Fact::ProcessEnded | Fact::HostRestarted | Fact::Resumed) | None => {
                if let Some(text) = &fact.message {
                    self.notice(id, "warning", text);
                }
            }
        }
    }

    /// The agent asks. Of history only what still waits is asked.
    pub(super) fn requested(&mut self, id: &SessionId, body: AdapterBody) {
        let request = match &body {
            AdapterBody::PermissionRequest(request) => &request.request_id,
            AdapterBody::InputRequest(request) => &request.request_id,
            _ => return,
        };
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        if known.asked.contains_key(request) {
            return;
        }
        match &mut known.phase {
            Phase::Open => self.ask(id, body),
            Phase::Joining(joining) => {
                if joining.open.contains(request) {
                    joining.to_ask.push(body);
                }
            }
            Phase::Starting { .. } => {
                self.has_opened(id);
                self.ask(id, body);
            }
        }
    }

    /// A request is settled: the client need not answer it.
    fn settled(&mut self, id: &SessionId, request: &trunkline_protocol::RequestId) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        if let Phase::Joining(joining) = &mut known.phase {
            joining.open.remove(request);
        }
        if let Some(number) = known.asked.remove(request) {
            self.asked.remove(&number);
            self.withdraw(number);
        }
    }

    fn listed(&mut self, result: SessionsListResult) {
        let Some(id) = self.lists.remove(&result.request_id) else {
            return;
        };
        if let Some(why) = result.error {
            return self.answer(&id, Err(Refusal::params(why)));
        }
        let sessions = result.sessions.into_iter().flatten().map(|session| {
            let mut told = json!({
                "sessionId": session.session_id,
                // One that began without works where the host does.
                "cwd": session.cwd.unwrap_or_else(|| self.options.home.clone()),
            });
            if let Some(title) = session.title {
                told["title"] = json!(title);
            }
            if let Some(active) = session.active {
                told["updatedAt"] = json!(active);
            }
            told
        });
        let mut told = json!({ "sessions": sessions.collect::<Vec<_>>() });
        if let Some(next) = result.next {
            told["nextCursor"] = json!(next);
        }
        self.answer(&id, Ok(told));
    }
}
