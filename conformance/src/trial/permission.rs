//! Permissions: provoking a request with an effect that can be seen, and answering it.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use super::{CaseSession, ReceivedMessage, Trial};
use crate::{
    history::PipePair,
    verdict::{Finding, Outcome, Stop, Tier},
    wire,
};

/// A guarded action: the file that it creates shows whether it happened.
#[derive(Debug, Clone)]
pub(crate) struct GuardedAction {
    /// The file, which does not exist before.
    pub effect: PathBuf,
}

impl GuardedAction {
    /// Returns true if the action has happened.
    pub(crate) fn done(&self) -> bool {
        self.effect.exists()
    }

    /// The members of the request, for the probe.
    pub(crate) fn members(&self) -> Value {
        json!({"tool":"shell","description":"create a file","resource":self.effect,"effect":self.effect})
    }
}

/// A permission that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct AskedPermission {
    /// The `permission.request`.
    pub seen: ReceivedMessage,
    /// The place of the input that led to it.
    pub from: usize,
}

impl AskedPermission {
    /// Returns its `request_id`.
    pub(crate) fn id(&self) -> &str {
        self.seen.text("request_id")
    }
}

impl Trial {
    /// A guarded action that has not happened.
    pub(crate) fn action(&mut self) -> GuardedAction {
        let name = self.fresh("effect");
        GuardedAction {
            effect: self.path(&name),
        }
    }

    /// Provokes a request for an action: by the probe, else by recipe `permission`.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] without both, [`Stop::Inconclusive`] when the recipe provokes none, a failure
    /// when the probe does not ask.
    pub(crate) fn ask(
        &mut self,
        session: &CaseSession,
        ask: &GuardedAction,
    ) -> Outcome<AskedPermission> {
        if self.has_probe(&["ask"]) {
            let from = self.probe(session, &json!([["ask", ask.members()]]))?;
            let seen = self.expect(from, session, "permission.request")?;
            return Ok(AskedPermission { seen, from });
        }
        let Some(recipe) = self.subject.recipes.permission.clone() else {
            return self.skip("recipe `permission` or probe operation `ask`");
        };
        self.uses(Tier::Recipe);
        let text = recipe.replace("{effect_path}", &ask.effect.display().to_string());
        self.process()?.leave_requests_of(&text);
        for _ in 0..3 {
            let from = self.input(session, text.clone())?;
            let found = self.wait(from, self.bounds.longest, |seen| {
                seen.session() == session.id()
                    && matches!(seen.kind(), "permission.request" | "turn.complete")
            });
            match found {
                Some(seen) if seen.kind() == "permission.request" => {
                    return Ok(AskedPermission { seen, from });
                }
                Some(_) => {
                    self.end_of(session, from)?;
                }
                None => break,
            }
        }
        self.inconclusive("recipe `permission` did not provoke a permission request")
    }

    /// Returns the request that the session's turn waits for, in words, and its place in the
    /// history: a request whose turn has not ended.
    pub(super) fn pending(&self, session: &CaseSession) -> Option<(usize, String)> {
        let mut pending: Option<(usize, String, String, Option<Duration>)> = None;
        self.history.scan(0, |index, record| {
            let message = record.adapter_message().or(record.host_message())?;
            if record.link != PipePair::Upper || wire::session(message) != session.id() {
                return None;
            }
            let id = wire::text(message, "request_id");
            match wire::kind(message) {
                "permission.request" => {
                    pending = Some((
                        index,
                        id.to_owned(),
                        wire::text(message, "tool").to_owned(),
                        None,
                    ));
                }
                "turn.complete" => pending = None,
                "permission.response" => {
                    if let Some((place, _, _, answered)) =
                        pending.as_mut().filter(|(_, asked, ..)| asked == id)
                    {
                        (*place, *answered) = (index, Some(record.at));
                    }
                }
                _ => {}
            }
            None::<()>
        });
        let (place, id, tool, answered) = pending?;
        let answer = answered.map_or("was not answered".to_owned(), |at| {
            format!(
                "was answered at t={:.3}: does the answer reach what waits for it?",
                at.as_secs_f64()
            )
        });
        Some((
            place,
            format!(
                "{} waits for the permission `{id}` ({tool}), which {answer}",
                session.id()
            ),
        ))
    }

    /// Fails because something of a session was not seen in time; mentions a permission that its
    /// turn waits for.
    pub(super) fn late_in<T>(&self, session: &CaseSession, finding: Finding) -> Outcome<T> {
        let mut finding = finding;
        match self.pending(session) {
            Some((place, hint)) => (finding.record, finding.hint) = (Some(place), Some(hint)),
            None => finding.record = self.last_of(session),
        }
        Err(Stop::Fail(Box::new(finding)))
    }

    /// The place of the last message of a session.
    fn last_of(&self, session: &CaseSession) -> Option<usize> {
        let mut last = None;
        self.history.scan(0, |index, record| {
            let message = record.adapter_message().or(record.host_message())?;
            if record.link == PipePair::Upper && wire::session(message) == session.id() {
                last = Some(index);
            }
            None::<()>
        });
        last
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn answer(
        &mut self,
        session: &CaseSession,
        request: &AskedPermission,
        approved: bool,
    ) -> Outcome<usize> {
        self.tell(
            session,
            "permission.response",
            &json!({"request_id":request.id(),"approved":approved}),
        )
    }
}
