//! Writing to the program: sessions, messages, raw bytes.

use std::{fmt::Display, time::Duration};

use serde_json::{Value, json};

use super::{ReceivedMessage, Trial};
use crate::{
    history::{PipePair, Record, RecordedEvent},
    process::Process,
    verdict::{EvidenceGround, Outcome, Stop},
    wire,
};

/// A session that the case opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CaseSession {
    id: String,
    /// True if each input of it begins a turn with its own `turn_id`.
    names_turns: bool,
}

impl CaseSession {
    /// Returns its id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A session under an id of the case's own choice.
    pub(crate) fn named(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            names_turns: false,
        }
    }

    /// The same; its inputs name their turns.
    pub(crate) fn naming_turns(self) -> Self {
        Self {
            names_turns: true,
            ..self
        }
    }
}

impl Trial {
    /// An id that this case has not used.
    pub(crate) fn fresh(&mut self, stem: &str) -> String {
        self.ids += 1;
        format!("{stem}-{}", self.ids)
    }

    /// Returns a unique token.
    pub(crate) fn token(&mut self) -> String {
        format!("token-{:016x}", self.rng.next_u64())
    }

    /// Opens a session without extensions.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn open(&mut self) -> Outcome<CaseSession> {
        let id = self.fresh("s");
        self.open_as(&id)
    }

    /// Opens as many sessions without extensions as the caller names.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn open_each<const N: usize>(&mut self) -> Outcome<[CaseSession; N]> {
        let ids: [String; N] = std::array::from_fn(|_| self.fresh("s"));
        for id in &ids {
            self.open_as(id)?;
        }
        Ok(ids.map(CaseSession::named))
    }

    /// Opens a session under an id.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn open_as(&mut self, id: &str) -> Outcome<CaseSession> {
        let session = CaseSession::named(id);
        self.tell(&session, "session.start", &json!({}))?;
        Ok(session)
    }

    /// Opens a session that offers extensions, with more members of `session.start`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn open_offering(
        &mut self,
        extensions: &[&str],
        more: &Value,
    ) -> Outcome<CaseSession> {
        let session = CaseSession::named(self.fresh("s"));
        let start = wire::with(json!({"protocol":1,"extensions":extensions}), more);
        self.tell(&session, "session.start", &start)?;
        Ok(session)
    }

    /// Sends an input and returns its place in the history.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn input(
        &mut self,
        session: &CaseSession,
        content: impl Into<Value>,
    ) -> Outcome<usize> {
        let mut members = json!({"content":content.into()});
        if session.names_turns {
            members["turn_id"] = self.fresh("turn").into();
        }
        self.tell(session, "user.input", &members)
    }

    /// Sends the input of a short ordinary turn.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn quick_input(&mut self, session: &CaseSession) -> Outcome<usize> {
        let quick = self.quick();
        self.input(session, quick)
    }

    /// Sends `stop`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn stop(&mut self, session: &CaseSession) -> Outcome<usize> {
        self.tell(session, "stop", &json!({}))
    }

    /// Sends `session.close`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn close(&mut self, session: &CaseSession) -> Outcome<usize> {
        self.tell(session, "session.close", &json!({}))
    }

    /// Sends a message that keeps every rule, and returns the length of the history before it.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a case writes its message in place"
    )]
    pub(crate) fn send(&mut self, message: Value) -> Outcome<usize> {
        self.write(wire::line_of(&message), Self::intent(false))
    }

    /// Sends a message that breaks a rule on purpose.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a case writes its message in place"
    )]
    pub(crate) fn send_deviant(&mut self, message: Value) -> Outcome<usize> {
        self.write(wire::line_of(&message), Self::intent(true))
    }

    /// Sends bytes as they are, of which something breaks a rule on purpose.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn raw(&mut self, bytes: impl Into<Vec<u8>>) -> Outcome<usize> {
        self.write(bytes.into(), Self::intent(true))
    }

    /// Sends bytes as they are, in one write; they keep every rule.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn raw_valid(&mut self, bytes: impl Into<Vec<u8>>) -> Outcome<usize> {
        self.write(bytes.into(), Self::intent(false))
    }

    /// Sends bytes in pieces, cut at offsets, with a pause at each cut.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn raw_in_pieces(
        &mut self,
        bytes: Vec<u8>,
        cuts: Vec<usize>,
        gap: Duration,
    ) -> Outcome<usize> {
        let process = self.process()?;
        let at = process.history().len();
        process.write_in_pieces(bytes, cuts, gap, Self::intent(false));
        Ok(at)
    }

    fn write(&mut self, bytes: Vec<u8>, intent: crate::history::Intent) -> Outcome<usize> {
        let process = self.process()?;
        let at = process.history().len();
        process.write(bytes, intent);
        Ok(at)
    }

    /// Waits until the pipe has taken all that was sent.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause when it has not in time.
    pub(crate) fn flushed(&mut self, within: Duration) -> Outcome {
        if self.process()?.flushed(within) {
            return Ok(());
        }
        let why = self
            .exit_text()
            .unwrap_or_else(|| "stdin was not read".to_owned());
        self.late(
            format!("what is written to stdin is read within {within:.1?}"),
            why,
        )
    }

    /// When the first line at or after a place of the history was written to the program.
    pub(crate) fn sent_at(&self, from: usize) -> Duration {
        let host = |_, record: &Record| {
            matches!(record.event, RecordedEvent::Host { .. }).then_some(record.at)
        };
        self.history.scan(from, host).unwrap_or_default()
    }

    /// Waits for a message from the program on the upper link, from a place on.
    pub(crate) fn wait(
        &self,
        from: usize,
        within: Duration,
        wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Option<ReceivedMessage> {
        self.history.wait(from, within, |index, record| {
            if record.link != PipePair::Upper || record.adapter_message().is_none() {
                return None;
            }
            ReceivedMessage::from_record(index, record).filter(&wanted)
        })
    }

    /// Waits for a message of a type for a session, and otherwise fails under this case's clause.
    ///
    /// # Errors
    ///
    /// The failure, with what came instead.
    pub(crate) fn expect(
        &self,
        from: usize,
        session: &CaseSession,
        kind: &str,
    ) -> Outcome<ReceivedMessage> {
        self.expect_within(from, session, kind, self.bounds.deadline)
    }

    /// The same with a time of its own.
    ///
    /// # Errors
    ///
    /// The failure, with what came instead.
    pub(crate) fn expect_within(
        &self,
        from: usize,
        session: &CaseSession,
        kind: &str,
        within: Duration,
    ) -> Outcome<ReceivedMessage> {
        let expected = format!("`{kind}` for {} within {within:.1?}", session.id());
        self.expect_that_within(from, session, expected, within, |seen| seen.kind() == kind)
    }

    /// Waits for a message for a session that is as wanted, else fails under this case's clause.
    ///
    /// # Errors
    ///
    /// The failure, with what came instead.
    pub(crate) fn expect_that_within(
        &self,
        from: usize,
        session: &CaseSession,
        expected: impl Display,
        within: Duration,
        wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Outcome<ReceivedMessage> {
        let of_session = |seen: &ReceivedMessage| seen.session() == session.id() && wanted(seen);
        match self.wait(from, within, of_session) {
            Some(seen) => Ok(seen),
            None => {
                let got = self
                    .exit_text()
                    .unwrap_or_else(|| self.what_came(from, session));
                self.late_in(session, self.finding(expected, got, EvidenceGround::Late))
            }
        }
    }

    /// In words, what came for a session from a place on.
    pub(crate) fn what_came(&self, from: usize, session: &CaseSession) -> String {
        let of_session = self.since(from, session);
        let kinds: Vec<String> = of_session
            .iter()
            .map(|seen| format!("`{}`", seen.kind()))
            .collect();
        match kinds.len() {
            0 => format!("nothing for {}", session.id()),
            1..=6 => kinds.join(", "),
            more => format!("{more} messages, the last {}", kinds[more - 3..].join(", ")),
        }
    }

    /// Closes the program's stdin once all is written.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn close_stdin(&mut self) -> Outcome {
        self.process()?.close_stdin();
        Ok(())
    }

    /// Runs something with the process.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn with_process<T>(&mut self, act: impl FnOnce(&Process) -> T) -> Outcome<T> {
        Ok(act(self.process()?))
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause when it lives on.
    pub(crate) fn exit_within(&mut self, within: Duration) -> Outcome<crate::process::Exit> {
        self.expect_gone();
        match self.process()?.wait_exit(within) {
            Some(exit) => Ok(exit),
            None => self.late(
                format!("the process ends within {within:.1?}"),
                "it is still running",
            ),
        }
    }

    /// Skips this case: the program lacks something that it needs.
    pub(crate) fn skip<T>(&self, what: impl Into<String>) -> Outcome<T> {
        Err(Stop::Skip(what.into()))
    }

    /// Ends the case without a verdict, for a reason.
    pub(crate) fn inconclusive<T>(&self, why: impl Into<String>) -> Outcome<T> {
        Err(Stop::Inconclusive(why.into()))
    }
}
