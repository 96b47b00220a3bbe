//! Instructions to the stub, in the content of inputs, and the expected output of its turns.

use serde_json::{Value, json};

use crate::{
    oracle, stub,
    trial::{CaseSession, Trial, TurnSeen},
    verdict::{Outcome, Stop},
};

/// The actions of a turn that answers with a text.
pub(crate) fn say_and_complete(text: &str) -> Value {
    json!([["say", text], ["complete"]])
}

impl Trial {
    /// The content of an input that has the stub carry out these actions. By [`CaseSession::id`]
    /// other instructions can name this session.
    ///
    /// # Errors
    ///
    /// When an action is wrong.
    pub(crate) fn instructions(session: &CaseSession, actions: &Value) -> Outcome<String> {
        stub::check_actions(actions)
            .map_err(|error| Stop::Harness(format!("instructions: {error}")))?;
        Ok(json!({"$stub":actions,"as":session.id()}).to_string())
    }

    /// Has the stub carry out actions in a turn of this session, and returns the input's place in
    /// the history.
    ///
    /// # Errors
    ///
    /// When an action is wrong, or the host cannot be started.
    pub(crate) fn instruct(&mut self, session: &CaseSession, actions: &Value) -> Outcome<usize> {
        let content = Self::instructions(session, actions)?;
        self.input(session, content)
    }

    /// Has the stub carry out actions, to the end of their turn.
    ///
    /// # Errors
    ///
    /// As [`Self::instruct`], and a failure when the turn does not end.
    pub(crate) fn act(&mut self, session: &CaseSession, actions: &Value) -> Outcome<TurnSeen> {
        let from = self.instruct(session, actions)?;
        self.end_of(session, from)
    }

    /// Begins a turn with a first output of the stub, and waits for that.
    ///
    /// # Errors
    ///
    /// As [`Self::instruct`], and a failure without any output.
    pub(crate) fn begin(&mut self, session: &CaseSession, actions: &Value) -> Outcome<usize> {
        let from = self.instruct(session, actions)?;
        self.expect(from, session, "output")?;
        Ok(from)
    }

    /// Begins a turn that lasts until it is stopped.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`].
    pub(crate) fn begin_busy(&mut self, session: &CaseSession) -> Outcome<usize> {
        self.begin(session, &json!([["say", "busy"]]))
    }

    /// Takes one turn, so that the adapter knows the session.
    ///
    /// # Errors
    ///
    /// As [`Self::act`].
    pub(crate) fn introduce(&mut self, session: &CaseSession) -> Outcome {
        self.act(session, &json!([["complete"]])).map(drop)
    }

    /// Opens a session that the adapter knows.
    ///
    /// # Errors
    ///
    /// As [`Self::act`].
    pub(crate) fn open_known(&mut self) -> Outcome<CaseSession> {
        let session = self.open()?;
        self.introduce(&session)?;
        Ok(session)
    }

    /// Has the stub carry out actions, and demands the text of their turn's answer.
    ///
    /// # Errors
    ///
    /// As [`Self::act`], and a failure at another text.
    pub(crate) fn demand_answer(
        &mut self,
        session: &CaseSession,
        actions: &Value,
        wanted: &str,
    ) -> Outcome {
        let turn = self.act(session, actions)?;
        self.demand_text(&turn, wanted)
    }

    /// Demands that a session is served: a word comes back.
    ///
    /// # Errors
    ///
    /// As [`Self::demand_answer`].
    pub(crate) fn demand_served(&mut self, session: &CaseSession, word: &str) -> Outcome {
        self.demand_answer(session, &say_and_complete(word), word)
    }

    /// Waits for the end of a turn, and demands the text of its answer.
    ///
    /// # Errors
    ///
    /// As [`Self::end_of`], and a failure at another text.
    pub(crate) fn demand_end(
        &mut self,
        session: &CaseSession,
        from: usize,
        wanted: &str,
    ) -> Outcome {
        let turn = self.end_of(session, from)?;
        self.demand_text(&turn, wanted)
    }

    /// Demands the text of a turn's answer.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand_text(&self, turn: &TurnSeen, wanted: &str) -> Outcome {
        let text = turn.text();
        self.demand(
            text == wanted,
            format!("the answer {}", shown(wanted)),
            shown(&text),
        )
    }

    /// Demands that a core-only hub got a note in a turn, on channel `system` ([relay.7]).
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand_told(&self, turn: &TurnSeen, what: &str) -> Outcome {
        let told = !turn.on_channel("system").is_empty();
        self.demand(
            told,
            format!("the hub learns {what}, on channel `system`"),
            "it is not",
        )
    }
}

fn shown(text: &str) -> String {
    oracle::shown(text.as_bytes())
}
