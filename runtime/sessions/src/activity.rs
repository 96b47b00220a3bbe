//! Current activity of a session in memory: written by its task, read by session lists.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_protocol::SessionState;

use crate::facts::SessionFacts;

/// Current activity of a session. Everything else in a list comes from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionActivity {
    pub(crate) state: SessionState,
    pub(crate) title: Option<String>,
    pub(crate) is_archived: bool,
    pub(crate) open_turns: usize,
    pub(crate) open_requests: usize,
}

/// Shared cell in which the task of a session publishes its activity. Clones share the cell.
#[derive(Debug, Clone)]
pub(crate) struct ActivityCell(Arc<Mutex<SessionActivity>>);

impl ActivityCell {
    pub(crate) fn new() -> Self {
        let none = SessionActivity {
            state: SessionState::Detached,
            title: None,
            is_archived: false,
            open_turns: 0,
            open_requests: 0,
        };
        Self(Arc::new(Mutex::new(none)))
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

    /// Publishes the current activity. Allocates only if the title has changed.
    pub(crate) fn set(&self, state: SessionState, facts: &SessionFacts) {
        let title = facts.shown_title();
        let open = &facts.open;
        let mut shown = self.lock();
        shown.state = state;
        shown.is_archived = facts.is_archived;
        shown.open_turns = open.turns.len();
        shown.open_requests = open.requests.len();
        if shown.title.as_deref() != title {
            shown.title = title.map(str::to_owned);
        }
    }
}
