//! Provoking a behaviour: by the probe where the adapter has one, else by a recipe of its author.

use serde_json::{Value, json};

use super::{CaseSession, ReceivedMessage, Trial, TurnSeen, answer_of};
use crate::verdict::{Outcome, Stop, Tier};

/// Number of attempts of a recipe.
const ATTEMPTS: usize = 3;

impl Trial {
    /// Returns true if the probe has these operations.
    pub(crate) fn has_probe(&self, ops: &[&str]) -> bool {
        ops.iter().all(|op| self.subject.probe_ops.contains(*op))
    }

    /// The content of an input that makes the probe do these operations.
    pub(crate) fn script(ops: &Value) -> String {
        json!({"$probe":1,"do":ops}).to_string()
    }

    /// Returns the content of an input that makes the probe output a text.
    pub(crate) fn echo(text: &str) -> String {
        json!({"$probe":1,"do":[["echo"]],"text":text}).to_string()
    }

    /// Sends a script, and returns its place in the history. The turn continues.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] if the probe lacks an operation.
    pub(crate) fn probe(&mut self, session: &CaseSession, ops: &Value) -> Outcome<usize> {
        self.may_probe(ops)?;
        let script = Self::script(ops);
        self.input(session, script)
    }

    /// Runs a script to the end of its turn.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] when the probe lacks an operation, [`Stop::Unsupported`] when it refuses one,
    /// a failure when the turn does not end.
    pub(crate) fn probe_turn(&mut self, session: &CaseSession, ops: &Value) -> Outcome<TurnSeen> {
        let from = self.probe(session, ops)?;
        let turn = self.end_of(session, from)?;
        Self::supported(&turn.messages)?;
        Ok(turn)
    }

    /// The script of an `echo` with a text; its turn's answer is the text.
    ///
    /// # Errors
    ///
    /// As [`Self::probe_turn`].
    pub(crate) fn probe_echo(&mut self, session: &CaseSession, text: &str) -> Outcome<String> {
        self.may_probe(&json!([["echo"]]))?;
        let content = Self::echo(text);
        let turn = self.turn(session, content)?;
        Self::supported(&turn.messages)?;
        Ok(turn.text())
    }

    /// The object that an operation answered with: one in the text that holds `"$probe":1` and the member.
    pub(crate) fn probe_answer(messages: &[ReceivedMessage], member: &str) -> Option<Value> {
        let text = answer_of(messages);
        let mut from = 0;
        while let Some(at) = text[from..].find('{').map(|place| from + place) {
            let mut objects = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            from = match objects.next() {
                Some(Ok(answer))
                    if answer.get("$probe").is_some() && answer.get(member).is_some() =>
                {
                    return Some(answer);
                }
                Some(Ok(_)) => at + objects.byte_offset(),
                _ => at + 1,
            };
        }
        None
    }

    /// Returns the `report` of a session: `inputs`, `files`, `permissions`.
    ///
    /// # Errors
    ///
    /// As [`Self::probe_turn`].
    pub(crate) fn report(&mut self, session: &CaseSession) -> Outcome<Value> {
        let turn = self.probe_turn(session, &json!([["report"]]))?;
        match Self::probe_answer(&turn.messages, "inputs") {
            Some(report) => Ok(report),
            None => self.fail("the probe's report", format!("the text {:?}", turn.text())),
        }
    }

    /// Begins a turn that lasts until it is stopped. Returns the place of its input.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] without probe and recipe; [`Stop::Inconclusive`] when the recipe's turn ends by itself.
    pub(crate) fn busy(&mut self, session: &CaseSession) -> Outcome<usize> {
        if self.has_probe(&["until_stop"]) {
            let from = self.probe(session, &json!([["until_stop"]]))?;
            // A tick shows that the turn runs.
            self.expect(from, session, "output")?;
            return Ok(from);
        }
        let Some(long) = self.subject.recipes.long.clone() else {
            return self.skip("recipe `long` or probe operation `until_stop`");
        };
        self.uses(Tier::Recipe);
        // A program that is still starting would read the input and what follows it together.
        self.fence()?;
        let from = self.input(session, long)?;
        // It runs when it has had the time of several turns and has not ended; a serial adapter
        // answers no fence now.
        let ended = |seen: &ReceivedMessage| seen.is_of(session, "turn.complete");
        if self.wait(from, self.quiet(), ended).is_some() {
            return self.inconclusive("recipe `long` ended by itself before it could be stopped");
        }
        Ok(from)
    }

    /// Begins a turn that lasts a while and ends by itself.
    ///
    /// # Errors
    ///
    /// As [`Self::probe`].
    pub(crate) fn sleeping(&mut self, session: &CaseSession, millis: u64) -> Outcome<usize> {
        self.probe(session, &json!([["sleep", millis]]))
    }

    /// Returns the content of an input that makes the adapter repeat a text: by the probe,
    /// otherwise by recipe `nonce`. `None`: this adapter cannot be asked to.
    pub(crate) fn asking_back(&mut self, text: &str) -> Option<String> {
        if self.has_probe(&["echo"]) {
            self.uses(Tier::Probe);
            return Some(Self::echo(text));
        }
        let nonce = self.subject.recipes.nonce.clone()?;
        self.uses(Tier::Recipe);
        Some(nonce.replace("{nonce}", text))
    }

    /// Makes a turn fail inside, by the probe or recipe `error`.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] without both.
    pub(crate) fn failing(&mut self, session: &CaseSession) -> Outcome<usize> {
        if self.has_probe(&["fail"]) {
            return self.probe(session, &json!([["fail", "asked to fail"]]));
        }
        let Some(error) = self.subject.recipes.error.clone() else {
            return self.skip("recipe `error` or probe operation `fail`");
        };
        self.uses(Tier::Recipe);
        self.input(session, error)
    }

    /// Has a file sent: by the probe with this name, type and size, else by recipe `file_out`.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] without both, [`Stop::Inconclusive`] when the recipe provokes none.
    pub(crate) fn file_sent(
        &mut self,
        session: &CaseSession,
        name: &str,
        mime: &str,
        bytes: usize,
    ) -> Outcome<ReceivedMessage> {
        let of_file = |turn: TurnSeen| {
            turn.messages
                .into_iter()
                .find(|seen| seen.kind() == "file.output")
        };
        if self.has_probe(&["file"]) {
            let turn = self.probe_turn(session, &json!([["file", name, mime, bytes]]))?;
            return match of_file(turn) {
                Some(file) => Ok(file),
                None => self.fail("a `file.output` before the turn ends", "none"),
            };
        }
        let Some(recipe) = self.subject.recipes.file_out.clone() else {
            return self.skip("recipe `file_out` or probe operation `file`");
        };
        self.uses(Tier::Recipe);
        for _ in 0..ATTEMPTS {
            if let Some(file) = of_file(self.turn(session, recipe.clone())?) {
                return Ok(file);
            }
        }
        self.inconclusive("recipe `file_out` did not provoke a `file.output`")
    }

    /// Fails over to `unsupported` when the probe refused an operation.
    pub(crate) fn supported(messages: &[ReceivedMessage]) -> Outcome {
        match Self::probe_answer(messages, "unsupported") {
            Some(answer) => Err(Stop::Unsupported(format!(
                "probe operation {}",
                answer["unsupported"]
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn may_probe(&mut self, ops: &Value) -> Outcome {
        let names = ops
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|op| op.get(0)?.as_str());
        for name in names {
            if !self.subject.probe_ops.contains(name) {
                return self.skip(format!("probe operation `{name}`"));
            }
        }
        self.uses(Tier::Probe);
        Ok(())
    }
}
