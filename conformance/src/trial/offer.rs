//! Sessions with extensions: what was agreed on, and inputs that name their turn.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::{CaseSession, ReceivedMessage, Trial};
use crate::{
    verdict::{Outcome, Stop},
    wire,
};

impl Trial {
    /// The extensions that the program agrees on when all are offered.
    pub(crate) fn extensions(&self) -> Vec<&'static str> {
        let all = crate::run::EXTENSIONS.into_iter();
        all.filter(|name| self.subject.extensions.contains(*name))
            .collect()
    }

    /// Opens a session that offers these extensions, and waits until they are agreed on.
    ///
    /// # Errors
    ///
    /// As [`Self::agree`].
    pub(crate) fn agree_on(&mut self, extensions: &[&str]) -> Outcome<CaseSession> {
        Ok(self.agree(extensions, &json!({}))?.0)
    }

    /// Opens a session that offers these extensions, with more members of `session.start`, and
    /// waits until they are agreed on. Returns the `session.ready`, too.
    ///
    /// # Errors
    ///
    /// A failure when no `session.ready` comes, [`Stop::Unsupported`] when it leaves one of them
    /// out.
    pub(crate) fn agree(
        &mut self,
        extensions: &[&str],
        more: &Value,
    ) -> Outcome<(CaseSession, ReceivedMessage)> {
        let from = self.history.len();
        let session = self.open_offering(extensions, more)?;
        let ready = self.expect_within(
            from,
            &session,
            "session.ready",
            self.bounds.deadline + self.bounds.start,
        )?;
        let agreed = ready.list("extensions");
        match extensions
            .iter()
            .find(|name| !agreed.iter().any(|agreed| agreed == *name))
        {
            None => Ok((session, ready)),
            Some(lacks) => Err(Stop::Unsupported(format!(
                "extension `{lacks}`: it agrees when all are offered, not when {} is",
                extensions.join(", ")
            ))),
        }
    }

    /// Sends a message of a session that keeps every rule, given its type and further members.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn tell(
        &mut self,
        session: &CaseSession,
        kind: &str,
        members: &Value,
    ) -> Outcome<usize> {
        self.send(message(session, kind, members))
    }

    /// The same with something that breaks a rule on purpose.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn tell_deviant(
        &mut self,
        session: &CaseSession,
        kind: &str,
        members: &Value,
    ) -> Outcome<usize> {
        self.send_deviant(message(session, kind, members))
    }

    /// Announces a file.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn announce(
        &mut self,
        session: &CaseSession,
        name: &str,
        mime: &str,
        path: &Path,
    ) -> Outcome<usize> {
        let members = json!({"file_name":name,"file_mime_type":mime,"file_path":path});
        self.tell(session, "file.input", &members)
    }

    /// Sends an input that begins a turn of this id.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn input_as(
        &mut self,
        session: &CaseSession,
        turn: &str,
        content: &str,
    ) -> Outcome<usize> {
        self.tell(
            session,
            "user.input",
            &json!({"turn_id":turn,"content":content}),
        )
    }

    /// Sends a script in a turn of this id.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] when the probe lacks an operation.
    pub(crate) fn probe_as(
        &mut self,
        session: &CaseSession,
        turn: &str,
        ops: &Value,
    ) -> Outcome<usize> {
        self.may_probe(ops)?;
        self.input_as(session, turn, &Self::script(ops))
    }

    /// Begins a turn of this id that lasts until it is stopped.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] without the probe, a failure when no tick shows that it runs.
    pub(crate) fn busy_as(&mut self, session: &CaseSession, turn: &str) -> Outcome<usize> {
        let from = self.probe_as(session, turn, &json!([["until_stop"]]))?;
        self.expect(from, session, "output")?;
        Ok(from)
    }

    /// Waits for the `turn.complete` that names this turn.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause when it does not come.
    pub(crate) fn end_of_turn(
        &self,
        session: &CaseSession,
        turn: &str,
        from: usize,
        within: Duration,
    ) -> Outcome<ReceivedMessage> {
        let expected = format!("a `turn.complete` of {turn} within {within:.1?}");
        self.expect_that_within(from, session, expected, within, |seen| {
            seen.is_with("turn.complete", "turn_id", turn)
        })
    }
}

fn message(session: &CaseSession, kind: &str, members: &Value) -> Value {
    wire::with(json!({"type":kind,"session_id":session.id()}), members)
}
