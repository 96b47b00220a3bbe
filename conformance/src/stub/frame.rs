//! Context of actions: their session and turn, and their interruption.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::action::{Action, Message};
use super::line;
use super::out::ClosedStdout;
use super::session::{StubInput, StubSession};
use super::state::Stub;

/// The context of a list of actions.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) stub: Arc<Stub>,
    pub(super) session: Arc<StubSession>,
    pub(super) turn_id: Option<String>,
    /// The turn that `complete` ends; without one, whichever is open.
    pub(super) turn: Option<u64>,
    /// The arrival after which a wait looks.
    pub(super) since: u64,
    /// The session and turn whose stop or close interrupts the list.
    interrupted_by: Option<(Arc<StubSession>, u64)>,
}

/// The list ends early: its turn was stopped, its session closed, or stdout is gone.
#[derive(Debug)]
pub(super) struct EarlyEnd;

impl Frame {
    /// For what belongs to no session.
    pub(super) fn of_pipe(stub: &Arc<Stub>) -> Self {
        Self::of_session(stub, &stub.pipe, 0)
    }

    /// For a session as it is now, outside the thread of its turns.
    pub(super) fn of_session(stub: &Arc<Stub>, session: &Arc<StubSession>, since: u64) -> Self {
        Self {
            stub: Arc::clone(stub),
            session: Arc::clone(session),
            turn_id: session.open_turn(),
            turn: None,
            since,
            interrupted_by: None,
        }
    }

    /// For a turn, which its stop and the close of its session interrupt.
    pub(super) fn of_turn(stub: &Arc<Stub>, session: &Arc<StubSession>, input: &StubInput) -> Self {
        Self {
            stub: Arc::clone(stub),
            session: Arc::clone(session),
            turn_id: input.turn_id.clone(),
            turn: Some(input.arrival),
            since: input.arrival,
            interrupted_by: Some((Arc::clone(session), input.arrival)),
        }
    }

    /// The same list in another session.
    pub(super) fn in_session(&self, session: &Arc<StubSession>) -> Self {
        Self {
            interrupted_by: self.interrupted_by.clone(),
            ..Self::of_session(&self.stub, session, session.since())
        }
    }

    /// The same place, but nothing interrupts it.
    pub(super) fn detached(&self) -> Self {
        Self {
            interrupted_by: None,
            ..self.clone()
        }
    }

    /// Carries out a list of actions.
    pub(super) fn perform(&self, actions: &[Action]) -> Result<(), EarlyEnd> {
        for action in actions {
            if self.interrupted() {
                return Err(EarlyEnd);
            }
            self.act(action)?;
        }
        Ok(())
    }

    pub(super) fn interrupted(&self) -> bool {
        let Some((session, arrival)) = &self.interrupted_by else {
            return false;
        };
        session.look(|state| {
            let turn = state.turn.as_ref().filter(|t| t.arrival == *arrival);
            state.closed || turn.is_some_and(|t| t.open && t.stopped && !t.handles_stop)
        })
    }

    /// Lets time pass.
    pub(super) fn sleep(&self, time: Duration) -> Result<(), EarlyEnd> {
        let deadline = Instant::now() + time;
        self.session
            .wait(Some(deadline), || self.interrupted(), |_| false);
        if self.interrupted() {
            return Err(EarlyEnd);
        }
        Ok(())
    }

    /// Writes one message.
    pub(super) fn emit(&self, message: &Message) -> Result<(), EarlyEnd> {
        self.emit_all(std::slice::from_ref(message))
    }

    /// Writes messages in one go.
    pub(super) fn emit_all(&self, messages: &[Message]) -> Result<(), EarlyEnd> {
        let lines: Vec<String> = messages.iter().map(|m| self.line(m)).collect();
        self.wait_for_flow();
        self.checked(self.stub.out.lines(&lines))?;
        for message in messages {
            self.note_end(message);
        }
        Ok(())
    }

    /// The line of a message in this place, without its LF.
    pub(super) fn line(&self, message: &Message) -> String {
        line::render(message, &self.session.id, self.agreed_turn_id().as_deref())
    }

    /// The turn's id where turns were agreed on.
    pub(super) fn agreed_turn_id(&self) -> Option<String> {
        let agreed = self.session.agreed_on("turns");
        self.turn_id.clone().filter(|_| agreed)
    }

    /// Writes one `output`.
    pub(super) fn say(&self, text: &str, channel: Option<&str>) -> Result<(), EarlyEnd> {
        self.emit(&message(
            json!({"type": "output", "content": text, "channel": channel}),
        ))
    }

    /// Writes the turn's end.
    pub(super) fn complete(&self, members: &Message) -> Result<(), EarlyEnd> {
        let mut members = members.clone();
        members.insert("type".to_owned(), "turn.complete".into());
        self.emit(&members)
    }

    /// A paused session holds its messages back ([flow.1]).
    pub(super) fn wait_for_flow(&self) {
        if self.session.agreed_on("flow") {
            let free = |state: &mut super::session::StubState| !state.paused || state.closed;
            self.session.wait(None, || false, free);
        }
    }

    pub(super) fn checked(&self, written: Result<(), ClosedStdout>) -> Result<(), EarlyEnd> {
        written.map_err(|ClosedStdout| {
            self.stub.broken();
            EarlyEnd
        })
    }

    /// The turn's own end, however it was written, ends it for the stub as well.
    pub(super) fn note_end(&self, message: &Message) {
        let is = |key: &str, value: &str| message.get(key).is_none_or(|v| v == value);
        let turn_id = self.turn_id.as_deref().unwrap_or("");
        if message.get("type") == Some(&Value::from("turn.complete"))
            && is("session_id", &self.session.id)
            && (is("turn_id", turn_id) || message["turn_id"].is_null())
        {
            self.session.with(|state| state.end_turn(self.turn));
        }
    }
}

/// The members of an object that was written down here.
pub(super) fn message(value: Value) -> Message {
    match value {
        Value::Object(members) => members,
        _ => Message::new(),
    }
}
