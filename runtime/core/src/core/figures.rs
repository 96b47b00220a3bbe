//! Figures of a session and of its process at a moment.

use std::time::{Duration, Instant};

use trunkline_protocol::Failure;

use super::{Core, Key, process::State, queue::Queued, session::Session};
use crate::TurnNo;

/// Activity of a session.
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

/// Figures of a session at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Activity.
    pub state: SessionState,
    /// The turn that runs, and for how long.
    pub turn: Option<(TurnNo, Duration)>,
    /// Silence of the running turn. `None` if no turn runs, or if silence does not count: a request
    /// waits for an answer, or the session is held back.
    pub silent_for: Option<Duration>,
    /// Bytes of the adapter's messages for it, with line ends.
    pub bytes_in: u64,
    /// Inputs that wait for the turns before them, written ahead or not.
    pub queued_inputs: usize,
    /// Waiting time of the first of them.
    pub queue_age: Option<Duration>,
    /// Total time for which inputs had waited, of turns that have begun.
    pub queue_time: Duration,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// True if the adapter was asked to hold its messages back ([flow.1]).
    pub held_back: bool,
}

/// Phase of the process that serves the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessPhase {
    /// Not running; the next input starts it.
    Idle,
    /// Starting, or running without any output yet.
    Starting,
    /// Running, with output.
    Running,
    /// Ending.
    Ending,
    /// Ended too early; it is started again later.
    Waiting,
    /// Ended too early too often.
    Failed,
    /// The host shuts down.
    Down,
}

/// Figures of the process and of its sessions together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProcessFigures {
    /// Phase.
    pub phase: ProcessPhase,
    /// Time until it may be started again, if it waits or has failed.
    pub again_in: Option<Duration>,
    /// Cause of the failure.
    pub why: Option<Failure>,
    /// Turns that run.
    pub running_turns: usize,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// Longest silence of a running turn, if any counts.
    pub longest_silence: Option<Duration>,
    /// Time for which the answer to a `ping` has been overdue, if it is.
    pub suspected_for: Option<Duration>,
}

impl Core {
    /// Returns the figures of the process and of its sessions together. Visits every session.
    #[must_use]
    pub fn process_figures(&self, now: Instant) -> ProcessFigures {
        let rest = |until: Instant| Some(until.saturating_duration_since(now));
        let (phase, again_in, why) = match &self.process.state {
            State::Idle => (ProcessPhase::Idle, None, None),
            State::Starting { .. } | State::Running { heard: false, .. } => {
                (ProcessPhase::Starting, None, None)
            }
            State::Running { heard: true, .. } => (ProcessPhase::Running, None, None),
            State::Ending { .. } => (ProcessPhase::Ending, None, None),
            State::Waiting { until } => (ProcessPhase::Waiting, rest(*until), None),
            State::Failed { until, why, .. } => {
                (ProcessPhase::Failed, rest(*until), Some(why.clone()))
            }
            State::Down => (ProcessPhase::Down, None, None),
        };
        let mut figures = ProcessFigures {
            phase,
            again_in,
            why,
            running_turns: 0,
            open_requests: 0,
            longest_silence: None,
            suspected_for: self.process.liveness.suspected_for(now),
        };
        for session in self
            .sessions
            .iter()
            .filter_map(|slot| slot.session.as_ref())
        {
            let Some(work) = session.work.as_deref() else {
                continue;
            };
            figures.running_turns += usize::from(work.running.is_some());
            figures.open_requests += work.requests.len();
            figures.longest_silence = figures.longest_silence.max(session.silent_for(now));
        }
        figures
    }

    /// Returns the figures of a session. `None` after its end.
    #[must_use]
    pub fn figures(&self, key: Key, now: Instant) -> Option<Figures> {
        let index = self.index_of(key)?;
        Some(
            self.sessions
                .get(index as usize)?
                .session
                .as_ref()?
                .figures(now),
        )
    }
}

impl Session {
    /// Returns the silence of the running turn, if it counts.
    fn silent_for(&self, now: Instant) -> Option<Duration> {
        let work = self
            .work
            .as_deref()
            .filter(|work| work.requests.is_empty())?;
        let running = work
            .running
            .as_ref()
            .filter(|_| !self.paused && !self.held)?;
        Some(now.saturating_duration_since(running.last_heard))
    }

    fn figures(&self, now: Instant) -> Figures {
        let work = self.work.as_deref();
        let running = work.and_then(|work| work.running.as_ref());
        let given = |queued: &Queued| match queued {
            Queued::Input { given, .. } => Some(*given),
            Queued::File(..) | Queued::Update { .. } => None,
        };
        let inputs = || {
            let ahead = work.into_iter().flat_map(|work| &work.ahead);
            let queued = work.into_iter().flat_map(|work| &work.queue);
            ahead.map(|turn| turn.given).chain(queued.filter_map(given))
        };
        Figures {
            state: match running {
                Some(running) if running.is_stopping() => SessionState::Stopping,
                Some(_) => SessionState::Running,
                None if self.wire.is_some() => SessionState::Idle,
                None => SessionState::Unstarted,
            },
            turn: running.map(|running| (running.no, now.saturating_duration_since(running.begun))),
            silent_for: self.silent_for(now),
            bytes_in: self.bytes_in,
            queued_inputs: inputs().count(),
            queue_age: inputs()
                .next()
                .map(|given| now.saturating_duration_since(given)),
            queue_time: self.queue_time,
            open_requests: work.map_or(0, |work| work.requests.len()),
            held_back: self.held,
        }
    }
}
