//! Progress of one run of an agent: what its lines mean, and the signs of the turn's end. Pure.

use serde_json::Value;
use trunkline_sdk::protocol::AdapterBody;
use trunkline_sdk::{Error, TurnComplete};

use super::json;
use crate::agent::end::EndSigns;
use crate::agent::process::ProcessEnd;

/// Reads the lines of one run: pure.
pub(crate) trait RunReader: Send {
    /// Takes one line, and notes its meaning.
    fn line(&mut self, line: &Value, run: &mut RunProgress);

    /// Notes the end of the process, and the events that are still due. Returns the message of the
    /// turn's end, to which the model is added.
    fn end(self, ended: &ProcessEnd, run: &mut RunProgress) -> TurnComplete;
}

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunEvent {
    /// An event of the turn.
    Event(AdapterBody),
    /// The agent's own id of the conversation.
    Session(String),
    /// The model that works.
    Model(String),
}

/// Progress of one run.
#[derive(Debug, Default)]
pub(crate) struct RunProgress {
    /// Signs of the turn's end. Events of the turn are noted here.
    pub(super) signs: EndSigns,
    /// True if the agent has written its last line, after which it exits soon.
    pub(super) is_over: bool,
    /// Reason for ending a run that would never end by itself.
    pub(super) failure: Option<Error>,
    /// The model that works, if the agent names it.
    pub(super) model: Option<String>,
    /// Events that were not passed on yet.
    pub(super) events: Vec<RunEvent>,
    /// True if the turn had any event.
    pub(super) has_events: bool,
    has_session: bool,
}

impl RunProgress {
    /// Notes an event of the turn.
    pub(super) fn emit(&mut self, event: impl Into<AdapterBody>) {
        let event = event.into();
        self.signs.note_event(&event);
        self.has_events = true;
        self.events.push(RunEvent::Event(event));
    }

    /// Notes the agent's own id of the conversation. The first one of a run counts.
    pub(super) fn session(&mut self, id: &str) {
        if !id.is_empty() && !std::mem::replace(&mut self.has_session, true) {
            self.events.push(RunEvent::Session(id.to_owned()));
        }
    }

    /// Notes the model, unless it is empty or known.
    pub(super) fn model(&mut self, model: &str) {
        if !model.is_empty() && self.model.as_deref() != Some(model) {
            self.model = Some(model.to_owned());
            self.events.push(RunEvent::Model(model.to_owned()));
        }
    }

    /// Notes a piece of the answer, unless it is empty.
    pub(super) fn output(&mut self, piece: &str, message_id: &str) {
        if !piece.is_empty() {
            self.emit(json::output(piece, message_id));
        }
    }

    /// Notes a piece of the model's thoughts, unless it is empty.
    pub(super) fn thinking(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.emit(json::thinking(piece));
        }
    }

    /// Notes the start of a tool call, unless its id is unusable.
    pub(super) fn tool_start(&mut self, id: &str, tool: &str, title: &str, input: Option<&Value>) {
        if let Some(mut start) = json::tool_start(id, tool, input) {
            start.title = (!title.is_empty()).then(|| title.to_owned());
            self.emit(start);
        }
    }

    /// Notes the end of a tool call, unless its id is unusable. `error` is the content of a call
    /// without output.
    pub(super) fn tool_end(&mut self, id: &str, output: &str, error: &str, failed: bool) {
        let content = if output.is_empty() { error } else { output };
        if let Some(end) = json::tool_end(id, content, failed) {
            self.emit(end);
        }
    }

    /// Ends the run. Returns the message of the turn's end. `why` is the reason for an early end.
    pub(super) fn end(
        &mut self,
        reader: impl RunReader,
        ended: &ProcessEnd,
        why: Option<Error>,
    ) -> TurnComplete {
        let end = reader.end(ended, self);
        self.signs.exit(ended);
        self.signs.cut(why);
        let end = TurnComplete {
            model: self.model.take(),
            ..end
        };
        std::mem::take(&mut self.signs).judge().complete(end)
    }
}
