//! Turns: an input and what follows, up to its end.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{CaseSession, ReceivedMessage, Trial};
use crate::verdict::{EvidenceGround, Outcome};

/// A turn that has ended.
#[derive(Debug, Clone)]
pub(crate) struct TurnSeen {
    /// Messages before its end, in order.
    pub messages: Vec<ReceivedMessage>,
    /// The `turn.complete`.
    pub end: ReceivedMessage,
    /// From the input to the end.
    pub took: Duration,
}

impl TurnSeen {
    /// Returns its messages of a type, without its end.
    pub(crate) fn of_kind<'a>(
        &'a self,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a ReceivedMessage> {
        self.messages.iter().filter(move |seen| seen.kind() == kind)
    }

    /// The text of its answer: `output` on channel `stdout`, joined.
    pub(crate) fn text(&self) -> String {
        self.on_channel("stdout")
    }

    /// The text on a channel, joined; an absent, null or empty channel is `stdout`.
    pub(crate) fn on_channel(&self, channel: &str) -> String {
        self.messages
            .iter()
            .map(|seen| seen.on_channel(channel))
            .collect()
    }
}

impl Trial {
    /// A text that makes a short ordinary turn.
    pub(crate) fn quick(&self) -> String {
        self.subject
            .recipes
            .quick
            .clone()
            .unwrap_or_else(|| "Reply with the single word ok.".to_owned())
    }

    /// Sends one input and reads its turn.
    ///
    /// # Errors
    ///
    /// The turn does not end in time: a failure under this case's clause.
    pub(crate) fn turn(
        &mut self,
        session: &CaseSession,
        content: impl Into<Value>,
    ) -> Outcome<TurnSeen> {
        let from = self.input(session, content)?;
        self.end_of(session, from)
    }

    /// A short ordinary turn.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub(crate) fn quick_turn(&mut self, session: &CaseSession) -> Outcome<TurnSeen> {
        let from = self.quick_input(session)?;
        self.end_of(session, from)
    }

    /// Waits for the session's next `turn.complete` that this case has not waited for, begun at
    /// `from`.
    ///
    /// If nothing arrives, a fresh session shows whether the program is alive, and after it some
    /// more time passes: a wait by itself proves nothing on a busy machine.
    ///
    /// # Errors
    ///
    /// It does not arrive: a failure under this case's clause.
    pub(crate) fn end_of(&mut self, session: &CaseSession, from: usize) -> Outcome<TurnSeen> {
        self.end_within(session, from, self.bounds.deadline)
    }

    /// The same where the end may take this long before anything is wrong, as after a `stop`.
    ///
    /// # Errors
    ///
    /// As [`Self::end_of`].
    pub(crate) fn end_within(
        &mut self,
        session: &CaseSession,
        from: usize,
        within: Duration,
    ) -> Outcome<TurnSeen> {
        let began = Instant::now();
        let earlier = self.ends.get(session.id()).copied().unwrap_or_default();
        let expected = format!("a `turn.complete` for {}", session.id());
        let end = match self.nth_end(session, earlier, within) {
            Some(end) => end,
            None => match self.late_end(session, earlier, began) {
                Ok(end) => end,
                Err((got, ground)) => {
                    return self.late_in(session, self.finding(expected, got, ground));
                }
            },
        };
        self.ends.insert(session.id().to_owned(), earlier + 1);
        let mut messages = self.seen_from(from);
        messages.retain(|seen| seen.session() == session.id() && seen.index < end.index);
        let took = end
            .at
            .saturating_sub(began.saturating_duration_since(self.history.began()));
        Ok(TurnSeen {
            messages,
            end,
            took,
        })
    }

    /// The same for a turn that writes much: while messages continue to arrive, it is not late. If
    /// several turns write at once, a busy machine may serve them one by one.
    ///
    /// # Errors
    ///
    /// As [`Self::end_of`].
    pub(crate) fn end_of_burst(&mut self, session: &CaseSession, from: usize) -> Outcome<TurnSeen> {
        let began = Instant::now();
        let nth = self.ends.get(session.id()).copied().unwrap_or_default();
        let mut come = 0;
        while self.nth_end(session, nth, self.bounds.deadline).is_none() {
            let now = self.messages_seen();
            if now == come || began.elapsed() > self.bounds.longest {
                break;
            }
            come = now;
        }
        self.end_of(session, from)
    }

    /// Returns the number of the program's messages.
    fn messages_seen(&self) -> usize {
        let mut count = 0;
        self.history.scan(0, |_, record| {
            count += usize::from(
                record.link == crate::history::PipePair::Upper
                    && record.adapter_message().is_some(),
            );
            None::<()>
        });
        count
    }

    /// A fence and a quiet window, then: as many `turn.complete` of the session as inputs ([turn.1]).
    ///
    /// # Errors
    ///
    /// A failure under this case's clause.
    pub(crate) fn settle_ledger(&mut self, session: &CaseSession) -> Outcome {
        self.settle()?;
        let mut inputs = 0;
        self.history.scan(0, |_, record| {
            let message = record
                .host_message()
                .filter(|message| crate::wire::session(message) == session.id())?;
            inputs += usize::from(crate::wire::kind(message) == "user.input");
            None::<()>
        });
        let ends = self.count(session, "turn.complete");
        self.demand(
            ends == inputs,
            format!("{inputs} `turn.complete` for {inputs} `user.input`"),
            ends,
        )
    }

    /// Waits for the end of the `nth` turn of a session, counted from 0.
    pub(crate) fn nth_end(
        &self,
        session: &CaseSession,
        nth: usize,
        within: Duration,
    ) -> Option<ReceivedMessage> {
        let mut count = 0;
        self.history.wait(0, within, |index, record| {
            let message = record.adapter_message()?;
            if record.link != crate::history::PipePair::Upper
                || crate::wire::kind(message) != "turn.complete"
                || crate::wire::session(message) != session.id()
            {
                return None;
            }
            count += 1;
            (count > nth)
                .then(|| ReceivedMessage::from_record(index, record))
                .flatten()
        })
    }

    /// The end of a turn that is overdue, or why there is none.
    fn late_end(
        &mut self,
        session: &CaseSession,
        nth: usize,
        began: Instant,
    ) -> Result<ReceivedMessage, (String, EvidenceGround)> {
        if let Some(exit) = self.exit_text() {
            return self
                .nth_end(session, nth, Duration::from_millis(200))
                .ok_or((exit, EvidenceGround::Seen));
        }
        let fence = self.fence();
        let more = match &fence {
            Ok(_) => self.bounds.deadline,
            // The fence was a wait of its own.
            Err(_) => self
                .bounds
                .longest
                .saturating_sub(began.elapsed())
                .min(self.bounds.deadline),
        };
        if let Some(end) = self.nth_end(session, nth, more) {
            return Ok(end);
        }
        Err(match (self.exit_text(), fence) {
            (Some(exit), _) => (exit, EvidenceGround::Seen),
            // A machine that serves another session in time is not what is slow.
            (None, Ok(took)) => (
                format!(
                    "no `turn.complete` for {:.1?}, while a turn of a fresh session was answered after {took:.1?}",
                    began.elapsed()
                ),
                if took * 4 > self.bounds.deadline {
                    EvidenceGround::Late
                } else {
                    EvidenceGround::Seen
                },
            ),
            (None, Err(_)) => (
                format!(
                    "no `turn.complete` for {:.1?}, and a fresh session was not served either",
                    began.elapsed()
                ),
                EvidenceGround::Late,
            ),
        })
    }
}
