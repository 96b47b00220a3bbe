//! What a session has and takes at a moment.

use std::time::{Duration, Instant};

use super::{Core, Key, queue::Queued, session::Session};
use crate::TurnNo;

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionState {
    /// The adapter does not know it: its process does not run, or has ended since. The next input starts it.
    Unstarted,
    /// No turn runs.
    Idle,
    /// A turn runs.
    Running,
    /// A turn was asked to stop and has not ended.
    Stopping,
}

/// What a session has and takes at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// What it does.
    pub state: SessionState,
    /// The turn that runs, and for how long.
    pub turn: Option<(TurnNo, Duration)>,
    /// Bytes of the adapter's messages for it, with line ends.
    pub bytes_in: u64,
    /// Inputs that wait to be written.
    pub queued_inputs: usize,
    /// How long the first of them has waited.
    pub queue_age: Option<Duration>,
    /// How long the inputs that were written had waited, added up.
    pub queue_time: Duration,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// Whether the adapter was asked to hold its messages back ([flow.1]).
    pub held_back: bool,
}

impl Core {
    /// What a session has and takes now. `None` after its end.
    #[must_use]
    pub fn figures(&self, key: Key, now: Instant) -> Option<Figures> {
        let index = self.index_of(key)?;
        Some(self.sessions.get(index as usize)?.session.as_ref()?.figures(now))
    }
}

impl Session {
    fn figures(&self, now: Instant) -> Figures {
        let work = self.work.as_deref();
        let running = work.and_then(|work| work.running.as_ref());
        let given = |queued: &Queued| match queued {
            Queued::Input { given, .. } => Some(*given),
            Queued::File(..) | Queued::Update { .. } => None,
        };
        let inputs = || work.into_iter().flat_map(|work| &work.queue).filter_map(given);
        Figures {
            state: match running {
                Some(running) if running.is_stopping() => SessionState::Stopping,
                Some(_) => SessionState::Running,
                None if self.wire.is_some() => SessionState::Idle,
                None => SessionState::Unstarted,
            },
            turn: running.map(|running| (running.no, now.saturating_duration_since(running.begun))),
            bytes_in: self.bytes_in,
            queued_inputs: inputs().count(),
            queue_age: inputs().next().map(|given| now.saturating_duration_since(given)),
            queue_time: self.queue_time,
            open_requests: work.map_or(0, |work| work.requests.len()),
            held_back: self.held,
        }
    }
}
