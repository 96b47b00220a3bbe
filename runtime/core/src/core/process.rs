//! The process below the sessions: whether it runs, when it is started again, what its end does ([process.3] to
//! [process.5]).

use std::time::Instant;

use trunkline_protocol::{AgentState, Category, ErrorEvent, Failure, StopReason};

use super::{Core, Counter, Effect, WhyClosed, liveness::Liveness};
use crate::{
    Backoff, Cause, Ended, ProcessEnd, TurnScope, UpdateError,
    supervise::{Next, Supervisor},
};

/// The state of the process.
///
/// ```text
///       demand               it runs               it ends after a completed turn
/// Idle ────────▶ Starting ─────────────▶ Running ─────────────────────────────────▶ Idle
///                 ▲   │ `start_timeout`    │ `start_timeout` without a word
///                 │   ├────▶ Ending ◀──────┤
///        demand,  │   │        │ it ends   │ it ends before it completed a turn
///        in time  │   ▼        ▼           ▼
///                 └── Waiting (back-off), or Failed after too many
/// ```
///
/// A process that stands by is demanded at all times but while it has failed. A start that fails leads there too.
/// `handle_retry` makes it Idle, `handle_shutdown` Down for good.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// It does not run; the next session or input starts it.
    Idle,
    /// It is being started.
    Starting { since: Instant },
    /// It runs.
    Running { heard: bool, completed: bool },
    /// It is being ended; its end is still to come.
    Ending,
    /// A start failed; it is started again no sooner than this.
    Waiting { until: Instant },
    /// Starts failed too often.
    Failed { until: Instant, why: Failure },
    /// The host shuts down.
    Down,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) state: State,
    supervisor: Supervisor,
    started_before: bool,
    /// When an input began to wait for a start, or for the first message of the process.
    pub(super) waiting_since: Option<Instant>,
    pub(super) liveness: Liveness,
}

impl Process {
    pub(super) fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            state: State::Idle,
            supervisor: Supervisor::new(backoff, seed),
            started_before: false,
            waiting_since: None,
            liveness: Liveness::default(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether it said anything yet: until then inactivity rests.
    pub(super) fn was_heard(&self) -> bool {
        matches!(self.state, State::Running { heard: true, .. })
    }
}

impl Core {
    pub(super) fn process_is_up(&self) -> bool {
        self.process.is_up()
    }

    pub(super) fn hear_process(&mut self) {
        if let State::Running { heard, .. } = &mut self.process.state
            && !std::mem::replace(heard, true)
        {
            self.process.waiting_since = None;
        }
    }

    /// An input was written. Until the process has said anything, it waits for its first message.
    pub(super) fn wait_for_process(&mut self, now: Instant) {
        if matches!(self.process.state, State::Running { heard: false, .. }) {
            self.process.waiting_since.get_or_insert(now);
        }
    }

    pub(super) fn completed_a_turn(&mut self) {
        if let State::Running { completed, .. } = &mut self.process.state
            && !std::mem::replace(completed, true)
        {
            self.process.supervisor.worked();
        }
    }

    /// The state of the agent, as its users see it.
    #[must_use]
    pub fn agent_state(&self) -> AgentState {
        match self.process.state {
            State::Starting { .. } | State::Running { .. } | State::Ending => AgentState::Running,
            State::Failed { .. } => AgentState::Failed,
            State::Idle | State::Waiting { .. } | State::Down => AgentState::Idle,
        }
    }

    /// Something wants the process to run: starts it, once, or ends the inputs that wait where it has failed.
    pub(super) fn demand_process(&mut self, now: Instant) {
        match self.process.state.clone() {
            State::Idle => self.start_process(now),
            State::Failed { until, .. } if until <= now => self.start_process(now),
            State::Failed { why, .. } => self.end_waiting(Cause::StartFailed, &why),
            State::Starting { .. } | State::Ending | State::Waiting { .. } => {
                self.process.waiting_since.get_or_insert(now);
            }
            State::Running { .. } | State::Down => {}
        }
    }

    pub(super) fn start_process(&mut self, now: Instant) {
        self.process.state = State::Starting { since: now };
        self.process.waiting_since.get_or_insert(now);
        if std::mem::replace(&mut self.process.started_before, true) {
            self.count(Counter::Restart);
        }
        self.effect(Effect::Start);
    }

    /// Starts the process without a session, where the rules want one to stand by.
    pub fn handle_standby(&mut self, now: Instant) {
        if self.rules.standby && self.process.state == State::Idle {
            self.start_process(now);
        }
    }

    /// The process runs.
    pub fn handle_started(&mut self, now: Instant) {
        if let State::Starting { .. } = self.process.state {
            self.process.state = State::Running {
                heard: false,
                completed: false,
            };
            self.process.waiting_since = None;
            self.start_waiting(now);
        }
    }

    /// The process could not be started: the inputs that wait end with the reason.
    pub fn handle_start_failed(&mut self, why: Failure, now: Instant) {
        if self.process.state == State::Down {
            return;
        }
        self.process.waiting_since = None;
        self.end_waiting(Cause::StartFailed, &why);
        self.process.state = match self.process.supervisor.failed(None, now) {
            Next::Wait(until) => State::Waiting { until },
            Next::Failed(until) => State::Failed { until, why },
        };
    }

    /// The process has ended, its output is read to the end: so have all turns of its sessions.
    pub fn handle_ended(&mut self, end: &ProcessEnd, now: Instant) {
        let cause = match end.why {
            Ended::Exit => Cause::ProcessExit,
            Ended::EndOfStream => Cause::EndOfStream,
            Ended::StartTimeout => Cause::StartTimeout,
        };
        let was = std::mem::replace(&mut self.process.state, State::Idle);
        self.process.liveness = Liveness::default();
        let completed = matches!(
            was,
            State::Running {
                completed: true,
                ..
            }
        );
        if was == State::Down {
            self.process.state = State::Down;
        } else if !completed {
            self.process.state = match self.process.supervisor.failed(end.exit.code, now) {
                Next::Wait(until) => State::Waiting { until },
                Next::Failed(until) => State::Failed {
                    until,
                    why: Self::failure_of(end),
                },
            };
        }
        self.wire.clear();
        self.last = None;
        self.used.clear();
        self.closed.clear();
        self.process.waiting_since = None;
        for index in self.indices() {
            if self.get(index).is_none_or(|session| session.wire.is_none()) {
                continue;
            }
            self.drop_requests(index, StopReason::Stopped);
            self.end_running(index, cause, Some(end), now);
            self.lose_wire(index);
            self.end_queued(index, cause, None, Some(end));
            self.fail_updates(index);
            let error = ErrorEvent {
                category: Some(Category::ProcessExit),
                message: format!("the adapter's process {}", end.how()),
                fatal: Some(false),
                ..ErrorEvent::default()
            };
            self.deliver(index, TurnScope::Outside, error.into(), None);
            if self.rules.close_on_exit {
                self.close_session(index, WhyClosed::ProcessEnded, now);
            }
        }
        // Sessions that came while it was ending want it to run.
        let waits = self.indices().any(|index| self.has_queue(index));
        if waits {
            self.demand_process(now);
        }
        self.handle_standby(now);
    }

    fn failure_of(end: &ProcessEnd) -> Failure {
        let mut why = format!("the adapter {} before it completed a turn", end.how());
        if let Some(tail) = end.stderr_tail.as_deref().filter(|tail| !tail.is_empty()) {
            why.push_str("; its last words on stderr:\n");
            why.push_str(tail);
        }
        Failure::new(Category::ProcessExit, why)
    }

    /// Answers updates that no one will answer any more.
    pub(super) fn fail_updates(&mut self, index: u32) {
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return;
        };
        for ticket in std::mem::take(&mut work.updates) {
            self.effect(Effect::Updated {
                ticket,
                result: Err(UpdateError::Closed),
            });
        }
    }

    /// Nothing is started any more.
    pub(super) fn process_down(&mut self) {
        self.process.state = State::Down;
    }

    /// Starts the process at once, if it has failed or waits for its next start. Does nothing otherwise.
    pub fn handle_retry(&mut self, now: Instant) {
        if matches!(
            self.process.state,
            State::Failed { .. } | State::Waiting { .. }
        ) {
            self.process.state = State::Idle;
            self.demand_process(now);
        }
    }

    /// Ends the inputs of all sessions that wait for a start.
    pub(super) fn end_waiting(&mut self, cause: Cause, why: &Failure) {
        for index in self.indices() {
            if self
                .get(index)
                .is_some_and(|session| session.wire.is_none())
            {
                self.end_queued(index, cause, Some(why), None);
            }
        }
    }

    pub(super) fn has_queue(&mut self, index: u32) -> bool {
        self.get(index).is_some_and(|session| {
            session
                .work
                .as_ref()
                .is_some_and(|work| !work.queue.is_empty())
        })
    }

    /// When the running turn of a session began.
    pub(super) fn begun(&mut self, index: u32) -> Option<Instant> {
        self.get(index)?.running().map(|running| running.begun)
    }
}
