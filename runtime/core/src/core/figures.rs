//! What a session has and takes at a moment, and what the process below it does.

use std::time::{Duration, Instant};

use trunkline_protocol::Failure;

use super::{Core, Key, process::State, queue::Queued, session::Session};
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
    /// How long that turn has been silent. `None` where no turn runs, or its silence does not
    /// count: a request waits for an answer, or the session is held back.
    pub silent_for: Option<Duration>,
    /// Bytes of the adapter's messages for it, with line ends.
    pub bytes_in: u64,
    /// Inputs that wait for the turns before them, written ahead or not.
    pub queued_inputs: usize,
    /// How long the first of them has waited.
    pub queue_age: Option<Duration>,
    /// Total time for which inputs had waited, of turns that have begun.
    pub queue_time: Duration,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// Whether the adapter was asked to hold its messages back ([flow.1]).
    pub held_back: bool,
}

/// What the process below the sessions does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessPhase {
    /// It does not run; the next input starts it.
    Idle,
    /// It is being started, or runs and has said nothing yet.
    Starting,
    /// It runs and has been heard.
    Running,
    /// It is being ended.
    Ending,
    /// It ended too early; it is started again later.
    Waiting,
    /// It ended too early too often.
    Failed,
    /// The host shuts down.
    Down,
}

/// What the process below the sessions does, and its sessions together have.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProcessFigures {
    /// What it does.
    pub phase: ProcessPhase,
    /// When it may be started again, where it waits or has failed.
    pub again_in: Option<Duration>,
    /// Why it has failed.
    pub why: Option<Failure>,
    /// Turns that run.
    pub running_turns: usize,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// The longest silence of a turn that runs, where one counts.
    pub longest_silence: Option<Duration>,
    /// For how long the process has owed the answer to a `ping`, where that is too long.
    pub suspected_for: Option<Duration>,
}

impl Core {
    /// What the process does now, and what its sessions have together. Looks at every session.
    #[must_use]
    pub fn process_figures(&self, now: Instant) -> ProcessFigures {
        let rest = |until: Instant| Some(until.saturating_duration_since(now));
        let (phase, again_in, why) = match &self.process.state {
            State::Idle => (ProcessPhase::Idle, None, None),
            State::Starting { .. } | State::Running { heard: false, .. } => {
                (ProcessPhase::Starting, None, None)
            }
            State::Running { heard: true, .. } => (ProcessPhase::Running, None, None),
            State::Ending => (ProcessPhase::Ending, None, None),
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

    /// What a session has and takes now. `None` after its end.
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
    /// How long the running turn has been silent, where that counts.
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
