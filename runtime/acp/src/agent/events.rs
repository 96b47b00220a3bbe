//! Events of sessions, as updates of the editor.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use trunkline_client::{Event, EventBody};
use trunkline_protocol::{
    AdapterBody, Channel, ErrorEvent, Fact, FileDelivered, FileOutput, HostFact, RelayBody,
    RequestId, SessionId, Sha256, ToolEnd, ToolUpdate,
};

use super::EditorAgent;
use crate::{
    picture,
    session::{Phase, TOOLS},
    update,
};

/// Timeout for the declarations of a new session's agent. Later ones are updates, but ACP has no
/// update that lists modes.
const DECLARATION_TIMEOUT: Duration = Duration::from_secs(2);

impl EditorAgent {
    /// Handles an event of a session.
    pub(super) async fn handle_event(&mut self, id: &SessionId, event: Event) {
        let seq = match &event.body {
            EventBody::Relay(RelayBody::Lag(lag)) => Some(lag.to),
            _ => event.stamp.seq,
        };
        self.handle_body(id, event).await;
        self.finish_join(id, seq);
    }

    async fn handle_body(&mut self, id: &SessionId, event: Event) {
        if let EventBody::Adapter(AdapterBody::TurnComplete(end)) = &event.body {
            return self.end_turn(id, &event, end);
        }
        match event.body {
            EventBody::Adapter(AdapterBody::SessionInfo(info)) => {
                self.update_facts(id, &info, event.stamp.time);
            }
            EventBody::Adapter(AdapterBody::SessionClosed(closed)) => {
                self.close_session(id, *closed)
            }
            EventBody::Adapter(
                body @ (AdapterBody::PermissionRequest(_) | AdapterBody::InputRequest(_)),
            ) if event.awaits_answer => self.handle_agent_request(id, body),
            EventBody::Adapter(AdapterBody::PermissionCancel(cancel)) => {
                self.settle_request(id, &cancel.request_id);
            }
            EventBody::Adapter(AdapterBody::FileOutput(file)) => self.show_file(id, &file).await,
            EventBody::Adapter(AdapterBody::Compaction(compaction))
                if self.editor.is_some_and(|editor| editor.compaction) =>
            {
                let seq = event.stamp.seq.unwrap_or_default();
                self.show(id, &update::compaction(&compaction, seq));
            }
            EventBody::Adapter(body) => self.show_body(id, body),
            EventBody::Relay(RelayBody::HostFact(fact)) => self.handle_fact(id, &fact),
            EventBody::Relay(RelayBody::TurnBegin(begin)) => {
                let message = begin.message_id.as_ref();
                let is_own = self.sessions.get(id).is_some_and(|it| it.is_own(message));
                if !is_own && !begin.content.is_empty() {
                    let message = message.map(|id| id.as_str());
                    self.show(
                        id,
                        &update::chunk("user_message_chunk", &begin.content, message),
                    );
                }
            }
            EventBody::Relay(RelayBody::InputSteered(steered)) => {
                self.show(
                    id,
                    &update::chunk("user_message_chunk", &steered.content, None),
                );
            }
            EventBody::Relay(RelayBody::SessionEdited(edited)) => {
                if let Some(title) = edited.title {
                    self.change_facts(id, |facts| facts.set_title(&title, event.stamp.time));
                }
            }
            EventBody::Relay(RelayBody::FileDelivered(file)) => {
                self.show_user_file(id, &file).await;
            }
            EventBody::Relay(RelayBody::RequestDecided(decided)) => {
                self.settle_request(id, &decided.request_id);
            }
            _ => {}
        }
    }

    /// Sends the editor an update of a session, if its events are shown.
    fn show(&mut self, id: &SessionId, update: &Value) {
        if self.sessions.get(id).is_some_and(|it| it.is_shown()) {
            self.update(id, update);
        }
    }

    /// Shows a message of the agent.
    fn show_body(&mut self, id: &SessionId, body: AdapterBody) {
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
            AdapterBody::ToolUpdate(update) => return self.show_tool_update(id, &update),
            AdapterBody::ToolEnd(end) => return self.show_tool_end(id, &end),
            AdapterBody::Plan(plan) => update::plan(&plan.entries),
            AdapterBody::ContextUsage(usage) => {
                let Some(session) = self.sessions.get_mut(id) else {
                    return;
                };
                session.facts.set_context(&usage);
                let Some(update) = session.facts.usage_update() else {
                    return;
                };
                update
            }
            AdapterBody::Error(error) => {
                self.finish_start(id);
                return self.show_error(id, &error);
            }
            // Pieces of results that come whole at the turn's end, and messages without a counterpart.
            _ => return,
        };
        self.show(id, &update);
    }

    fn show_tool_update(&mut self, id: &SessionId, news: &ToolUpdate) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let call = &news.tool_call_id;
        let mut update = update::tool_update(call.as_str());
        if let Some(text) = &news.content {
            let mut tail = session.tools.remove(call).unwrap_or_default();
            update::add_to_tail(&mut tail, text);
            update["content"] = json!([update::text_content(&tail)]);
            if session.tools.len() < TOOLS {
                session.tools.insert(call.clone(), tail);
            }
        }
        if let Some(title) = &news.title {
            update["title"] = json!(title);
        }
        if let Some(locations) = update::locations(news.locations.as_ref()) {
            update["locations"] = locations;
        }
        for (name, json) in [("rawInput", &news.input), ("rawOutput", &news.data)] {
            if let Some(value) = json.as_ref().and_then(update::value) {
                update[name] = value;
            }
        }
        self.show(id, &update);
    }

    fn show_tool_end(&mut self, id: &SessionId, end: &ToolEnd) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let printed = session.tools.remove(&end.tool_call_id).unwrap_or_default();
        self.show(id, &update::tool_end(end, &printed));
    }

    async fn show_file(&mut self, id: &SessionId, file: &FileOutput) {
        if self.sessions.get(id).is_some_and(|it| it.is_shown()) {
            let content = picture::file_content(file, self.options.is_local).await;
            self.update(id, &update::block("agent_message_chunk", &content, None));
        }
    }

    /// Shows a file of the user, unless this editor has just sent it.
    async fn show_user_file(&mut self, id: &SessionId, file: &FileDelivered) {
        let sha256 = file.sha256.as_deref().and_then(Sha256::parse);
        let is_shown = self.sessions.get(id).is_some_and(|session| {
            session.is_shown() && !sha256.is_some_and(|sha256| session.is_own_file(&sha256))
        });
        if !is_shown {
            return;
        }
        let read = match sha256 {
            Some(sha256) if picture::is_sent_whole(file) => {
                self.store.read_file(id.clone(), sha256).await
            }
            _ => Ok(None),
        };
        let bytes = read.unwrap_or_else(|why| {
            tracing::warn!(session = %id, "failed to read a file of the user: {why}");
            None
        });
        let content = match (bytes, &file.file_mime_type) {
            (Some(bytes), Some(mime)) => picture::picture_content(mime, &bytes),
            _ => picture::name_content(file.file_name.as_deref().unwrap_or("file")),
        };
        self.update(id, &update::block("user_message_chunk", &content, None));
    }

    /// Shows an error that ends nothing. While options change it is the reason of a refusal.
    fn show_error(&mut self, id: &SessionId, error: &ErrorEvent) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.pending_changes > 0 {
            session.change_error = Some(error.message.clone());
            return;
        }
        let severity = if error.fatal == Some(true) {
            "error"
        } else {
            "warning"
        };
        self.notice(id, severity, &error.message);
    }

    /// Sends the editor a text that is no part of the conversation.
    fn notice(&mut self, id: &SessionId, severity: &str, text: &str) {
        let has_notices = self.editor.is_some_and(|editor| editor.notices);
        let update = if has_notices {
            json!({ "sessionUpdate": "notice", "severity": severity, "title": text })
        } else {
            update::chunk("agent_thought_chunk", &format!("{text}\n"), None)
        };
        self.show(id, &update);
    }

    fn handle_fact(&mut self, id: &SessionId, fact: &HostFact) {
        match fact.fact {
            Some(Fact::Opened) => {
                if let Some(session) = self.sessions.get_mut(id)
                    && let Phase::Starting { until, .. } = &mut session.phase
                {
                    *until = Some(Instant::now() + DECLARATION_TIMEOUT);
                }
            }
            // The ends of open turns follow it, with the reason.
            Some(Fact::Moved | Fact::ForkedFrom | Fact::Stalled) => {}
            Some(Fact::ProcessEnded | Fact::HostRestarted | Fact::Resumed) | None => {
                if let Some(text) = &fact.message {
                    self.notice(id, "warning", text);
                }
            }
        }
    }

    /// Asks the editor for an answer that the agent waits for; while history is read, later.
    pub(super) fn handle_agent_request(&mut self, id: &SessionId, body: AdapterBody) {
        let request = match &body {
            AdapterBody::PermissionRequest(request) => &request.request_id,
            AdapterBody::InputRequest(request) => &request.request_id,
            _ => return,
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.questions.contains_key(request) {
            return;
        }
        if let Phase::Joining(joining) = &mut session.phase {
            return joining.requests.push(body);
        }
        self.finish_start(id);
        self.ask(id, body);
    }

    /// Withdraws the question of a request that is settled.
    fn settle_request(&mut self, id: &SessionId, request: &RequestId) {
        let session = self.sessions.get_mut(id);
        if let Some(number) = session.and_then(|it| it.questions.remove(request)) {
            self.questions.remove(&number);
            self.withdraw(number);
        }
    }
}
