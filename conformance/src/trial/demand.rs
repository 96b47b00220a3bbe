//! Findings of a case: failures, remarks, and demands on the history.

use std::{collections::BTreeSet, fmt::Display};

use serde_json::Value;

use super::{CaseSession, ReceivedMessage, Trial};
use crate::{
    clauses::Level,
    verdict::{EvidenceGround, Finding, Outcome, Stop},
};

impl Trial {
    /// A finding under this case's own clause.
    pub(crate) fn finding(
        &self,
        expected: impl Display,
        got: impl Display,
        ground: EvidenceGround,
    ) -> Finding {
        Finding {
            clause: self.case.clause.into(),
            level: self.case.level,
            check: "case",
            sent: String::new(),
            expected: expected.to_string(),
            got: got.to_string(),
            hint: None,
            ground,
            record: None,
        }
    }

    /// Fails because of something that was seen.
    pub(crate) fn fail<T>(&self, expected: impl Display, got: impl Display) -> Outcome<T> {
        Err(Stop::Fail(Box::new(self.finding(
            expected,
            got,
            EvidenceGround::Seen,
        ))))
    }

    /// Fails because something was not seen in time.
    pub(crate) fn late<T>(&self, expected: impl Display, got: impl Display) -> Outcome<T> {
        Err(Stop::Fail(Box::new(self.finding(
            expected,
            got,
            EvidenceGround::Late,
        ))))
    }

    /// Fails unless it holds.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand(&self, holds: bool, expected: impl Display, got: impl Display) -> Outcome {
        if holds {
            Ok(())
        } else {
            self.fail(expected, got)
        }
    }

    /// Records a finding of another clause or level and continues.
    pub(crate) fn found(
        &mut self,
        clause: &'static str,
        level: Level,
        expected: impl Display,
        got: impl Display,
    ) {
        let mut finding = self.finding(expected, got, EvidenceGround::Seen);
        finding.clause = clause.into();
        finding.level = level;
        self.findings.push(finding);
    }

    /// Records a broken SHOULD of this clause, unless it holds, and continues.
    pub(crate) fn should(&mut self, holds: bool, expected: impl Display, got: impl Display) {
        if !holds {
            self.found(self.case.clause, Level::Should, expected, got);
        }
    }

    /// Fails when the program wrote anything for a session that was never opened.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand_no_strangers(&self) -> Outcome {
        match self.for_strangers().first() {
            None => Ok(()),
            Some(seen) => self.fail(
                "no message for a session that was never opened",
                format!(
                    "`{}` with session_id {}",
                    seen.kind(),
                    seen.get("session_id").unwrap_or(&Value::Null)
                ),
            ),
        }
    }

    /// Fails when anything came for a session from a place on.
    ///
    /// # Errors
    ///
    /// The failure, with what came.
    pub(crate) fn demand_silence(
        &self,
        session: &CaseSession,
        from: usize,
        expected: impl Display,
    ) -> Outcome {
        self.demand(
            self.since(from, session).is_empty(),
            expected,
            self.what_came(from, session),
        )
    }

    /// Fails if something is answered, for a session or for none. Unsolicited messages may arrive
    /// at any time, so an answer is a message that arrives each time, of a type that does not
    /// arrive without a stimulus.
    ///
    /// # Errors
    ///
    /// The failure, with the message; the error of [`Self::settle`].
    pub(crate) fn demand_unanswered(
        &mut self,
        session: &CaseSession,
        expected: impl Display,
        act: impl Fn(&mut Self) -> Outcome,
    ) -> Outcome {
        let mut answers = self.kinds_while(session, &act)?;
        let mut own = BTreeSet::new();
        for _ in 0..2 {
            if answers.is_empty() {
                break;
            }
            own.append(&mut self.kinds_while(session, |_| Ok(()))?);
            answers = self.kinds_while(session, &act)?;
            answers.retain(|kind| !own.contains(kind));
        }
        let got: Vec<String> = answers.iter().map(|kind| format!("`{kind}`")).collect();
        self.demand(answers.is_empty(), expected, got.join(", "))
    }

    /// The types that come for a session or for none while something is done and has its time.
    fn kinds_while(
        &mut self,
        session: &CaseSession,
        act: impl Fn(&mut Self) -> Outcome,
    ) -> Outcome<BTreeSet<String>> {
        let from = self.history.len();
        act(self)?;
        self.settle()?;
        let mut came = self.seen_from(from);
        came.retain(|seen| seen.session() == session.id() || seen.session().is_empty());
        Ok(came.iter().map(|seen| seen.kind().to_owned()).collect())
    }

    /// Fails unless a member is as wanted; `null` where it is absent.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand_member(
        &self,
        seen: &ReceivedMessage,
        member: &str,
        wanted: impl Into<Value>,
    ) -> Outcome {
        let got = seen.value(member);
        let wanted = wanted.into();
        self.demand(
            got == wanted,
            format!("`{member}` of `{}`: {wanted}", seen.kind()),
            got,
        )
    }

    /// Fails unless a session has had exactly this many ends, after a fence and a quiet window.
    ///
    /// # Errors
    ///
    /// The failure, or the error of [`Self::settle`].
    pub(crate) fn demand_ends(&mut self, session: &CaseSession, wanted: usize) -> Outcome {
        self.settle()?;
        self.demand_ends_now(session, wanted)
    }

    /// The same where everything has come.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn demand_ends_now(&self, session: &CaseSession, wanted: usize) -> Outcome {
        let ends = self.count(session, "turn.complete");
        self.demand(
            ends == wanted,
            format!("{wanted} `turn.complete` for {}", session.id()),
            ends,
        )
    }
}
