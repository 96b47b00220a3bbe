//! Current activity of a session in memory: written by its task, read by session lists.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use trunkline_protocol::{SessionState, TurnId};

use crate::{
    changes::{PERMISSION, QUESTION, SessionChange},
    facts::{SessionFacts, now},
};

/// Current activity of a session. Everything else in a list comes from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionActivity {
    pub(crate) state: SessionState,
    pub(crate) title: Option<String>,
    pub(crate) is_archived: bool,
    pub(crate) running: Option<TurnId>,
    pub(crate) open_turns: usize,
    pub(crate) requests: Vec<WaitingRequest>,
}

/// A request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct WaitingRequest {
    id: String,
    #[serde(rename = "request")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [PERMISSION, QUESTION])))]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<TurnId>,
    /// Time at which it was opened, RFC 3339. `None` if the session is not in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

impl SessionActivity {
    fn new(state: SessionState) -> Self {
        Self {
            state,
            title: None,
            is_archived: false,
            running: None,
            open_turns: 0,
            requests: Vec::new(),
        }
    }

    /// Returns the activity of a session that is not in memory.
    pub(crate) fn of_stored(facts: &SessionFacts) -> Self {
        let mut activity = Self::new(if facts.is_closed {
            SessionState::Closed
        } else {
            SessionState::Detached
        });
        activity.apply(facts, || None);
        activity
    }

    /// Updates everything but the state and the running turn. Allocates only for what has changed.
    fn apply(&mut self, facts: &SessionFacts, since: impl Fn() -> Option<String>) {
        self.is_archived = facts.is_archived;
        self.open_turns = facts.open.turns.len();
        let title = facts.shown_title();
        if self.title.as_deref() != title {
            self.title = title.map(str::to_owned);
        }
        let open = &facts.open.requests;
        self.requests
            .retain(|known| open.iter().any(|request| request.id.0.as_str() == known.id));
        for request in open {
            let id = request.id.0.as_str();
            if !self.requests.iter().any(|known| known.id == id) {
                self.requests.push(WaitingRequest {
                    id: id.to_owned(),
                    kind: if request.is_question {
                        QUESTION
                    } else {
                        PERMISSION
                    },
                    turn_id: request.turn.as_ref().map(|turn| turn.0.clone()),
                    since: since(),
                });
            }
        }
    }

    /// Returns this state of a session as a change of it.
    pub(crate) fn to_change(&self, change: &'static str, id: &str, seq: u64) -> SessionChange {
        SessionChange {
            subject: "session",
            change,
            session_id: id.to_owned(),
            seq,
            title: self.title.clone(),
            state: Some(self.state),
            archived: self.is_archived.then_some(true),
            turn_id: self.running.clone(),
            ..SessionChange::default()
        }
    }
}

/// Shared cell in which the task of a session publishes its activity. Clones share the cell.
#[derive(Debug, Clone)]
pub(crate) struct ActivityCell(Arc<Mutex<SessionActivity>>);

impl ActivityCell {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(SessionActivity::new(
            SessionState::Detached,
        ))))
    }

    fn lock(&self) -> MutexGuard<'_, SessionActivity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> SessionState {
        self.lock().state
    }

    pub(crate) fn get(&self) -> SessionActivity {
        self.lock().clone()
    }

    /// Publishes the current activity. Returns the name of the change if a list shows one.
    pub(crate) fn set(
        &self,
        state: SessionState,
        running: Option<&TurnId>,
        facts: &SessionFacts,
    ) -> Option<&'static str> {
        let mut shown = self.lock();
        let change = if shown.state != state || shown.running.as_ref() != running {
            Some("state")
        } else if shown.is_archived != facts.is_archived {
            Some("archived")
        } else {
            (shown.title.as_deref() != facts.shown_title()).then_some("title")
        };
        shown.state = state;
        if shown.running.as_ref() != running {
            shown.running = running.cloned();
        }
        shown.apply(facts, || Some(now()));
        change
    }
}
