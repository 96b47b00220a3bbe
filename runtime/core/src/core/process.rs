//! The process below the sessions: its state, its restarts, its end ([process.3] to [process.5]).

use std::time::Instant;

use trunkline_protocol::{AgentState, Category, ErrorEvent, Failure, StopReason};

use super::{Core, Counter, Effect, WhyClosed, liveness::Liveness, reason::Circumstances};
use crate::{
    Backoff, Cause, Ended, ProcessEnd, TurnScope, UpdateError,
    end::append_stderr,
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
/// A process in standby is in demand at all times except while it has failed. A failed start leads
/// there too. `handle_retry` makes it Idle, `handle_shutdown` permanently Down. `handle_restart`
/// ends a process, after which it is Idle, and makes Waiting and Failed Idle.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Not running; the next session or input starts it.
    Idle,
    /// Starting.
    Starting { since: Instant },
    /// Running.
    Running { heard: bool, completed: bool },
    /// Being ended; the end has not been reported yet.
    Ending { is_restart: bool },
    /// A start failed; it is started again no sooner than this.
    Waiting { until: Instant },
    /// Starts failed too often.
    Failed {
        until: Instant,
        why: Failure,
        stderr_tail: Option<String>,
    },
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
    /// A process of its tree that is suspended, if there is one.
    pub(super) suspended: Option<u32>,
    /// Lines before the first message of the process.
    pub(super) noise: NoiseLines,
}

/// Lines of a process that are not JSON objects, before its first message.
#[derive(Debug, Clone, Default)]
pub(super) struct NoiseLines {
    count: u64,
    /// The start of the first one.
    first: String,
}

impl NoiseLines {
    const MAX_CHARS: usize = 40;

    /// Returns the hint for the author of an adapter that has sent no message.
    pub(super) fn hint(&self) -> String {
        let Self { count, first } = self;
        match count {
            // Most runtimes buffer a pipe.
            0 => "; no message was read from its stdout: is each line flushed?".to_owned(),
            1 => format!("; the only line on its stdout is not a message: {first:?}"),
            _ => format!("; {count} lines on its stdout are not messages, the first: {first:?}"),
        }
    }
}

impl Process {
    pub(super) fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            state: State::Idle,
            supervisor: Supervisor::new(backoff, seed),
            started_before: false,
            waiting_since: None,
            liveness: Liveness::default(),
            suspended: None,
            noise: NoiseLines::default(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Returns true if a message of it was read. Until then inactivity rests.
    pub(super) fn was_heard(&self) -> bool {
        matches!(self.state, State::Running { heard: true, .. })
    }
}

impl Core {
    /// Counts a line that is not a JSON object, until the first message of the process.
    pub(super) fn count_noise(&mut self, line: &str) {
        if self.process.was_heard() {
            return;
        }
        let noise = &mut self.process.noise;
        noise.count += 1;
        if noise.count == 1 {
            noise.first = line.chars().take(NoiseLines::MAX_CHARS).collect();
        }
    }

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

    /// Notes that an input was written. Until the first message of the process, it waits for that.
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
            State::Starting { .. } | State::Running { .. } | State::Ending { .. } => {
                AgentState::Running
            }
            State::Failed { .. } => AgentState::Failed,
            State::Idle | State::Waiting { .. } | State::Down => AgentState::Idle,
        }
    }

    /// Starts the process, once, or ends the inputs that wait if it has failed.
    pub(super) fn demand_process(&mut self, now: Instant) {
        match self.process.state.clone() {
            State::Idle => self.start_process(now),
            State::Failed { until, .. } if until <= now => self.start_process(now),
            State::Failed {
                why, stderr_tail, ..
            } => self.end_waiting(Cause::StartFailed, Some(&why), stderr_tail.as_deref()),
            State::Starting { .. } | State::Ending { .. } | State::Waiting { .. } => {
                self.process.waiting_since.get_or_insert(now);
            }
            State::Running { .. } | State::Down => {}
        }
    }

    pub(super) fn start_process(&mut self, now: Instant) {
        self.process.state = State::Starting { since: now };
        self.process.noise = NoiseLines::default();
        self.process.waiting_since.get_or_insert(now);
        if std::mem::replace(&mut self.process.started_before, true) {
            self.count(Counter::Restart);
        }
        self.effect(Effect::Start);
    }

    /// Starts the process without a session, if the rules demand standby.
    pub fn handle_standby(&mut self, now: Instant) {
        if self.rules.standby && self.process.state == State::Idle {
            self.start_process(now);
        }
    }

    /// Takes the start of the process.
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

    /// Takes the reason for which the process could not be started: the inputs that wait end with it.
    pub fn handle_start_failed(&mut self, why: Failure, now: Instant) {
        if self.process.state == State::Down {
            return;
        }
        self.process.waiting_since = None;
        self.end_waiting(Cause::StartFailed, Some(&why), None);
        self.process.state = match self.process.supervisor.failed(None, now) {
            Next::Wait(until) => State::Waiting { until },
            Next::Failed(until) => State::Failed {
                until,
                why,
                stderr_tail: None,
            },
        };
    }

    /// Takes the end of the process, after all of its output: it ends all turns of its sessions.
    pub fn handle_ended(&mut self, end: &ProcessEnd, now: Instant) {
        let cause = match end.why {
            Ended::Exit | Ended::Restart => Cause::ProcessExit,
            Ended::EndOfStream => Cause::EndOfStream,
            Ended::StartTimeout => Cause::StartTimeout,
        };
        let was = std::mem::replace(&mut self.process.state, State::Idle);
        self.process.liveness = Liveness::default();
        let is_failure = !matches!(
            was,
            State::Running {
                completed: true,
                ..
            } | State::Ending { is_restart: true }
        );
        if was == State::Down {
            self.process.state = State::Down;
        } else if is_failure {
            self.process.state = match self.process.supervisor.failed(end.exit.code, now) {
                Next::Wait(until) => State::Waiting { until },
                Next::Failed(until) => State::Failed {
                    until,
                    why: Self::failure_of(end),
                    stderr_tail: end.stderr_tail.clone(),
                },
            };
        }
        self.wire.clear();
        self.last = None;
        self.used.clear();
        self.closed.clear();
        self.process.waiting_since = None;
        let noise = self.process.noise.clone();
        let circumstances = Circumstances {
            limit: self.limit_of(cause),
            suspended: self.process.suspended,
            process: Some(end),
            noise: Some(&noise),
            ..Circumstances::default()
        };
        for index in self.indices() {
            if self.get(index).is_none_or(|session| session.wire.is_none()) {
                continue;
            }
            self.drop_requests(index, StopReason::Stopped);
            self.end_open_turns(index, cause, None, Some(end), now);
            self.lose_wire(index);
            self.end_queued(index, cause, None, circumstances);
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
        self.process.suspended = None;
        // Sessions that came while it was ending want it to run.
        let waits = self.indices().any(|index| self.has_queue(index));
        if waits {
            self.demand_process(now);
        }
        self.handle_standby(now);
    }

    fn failure_of(end: &ProcessEnd) -> Failure {
        let mut why = format!("the adapter {} before it completed a turn", end.how());
        append_stderr(&mut why, end.stderr_tail.as_deref().unwrap_or_default());
        Failure::new(Category::ProcessExit, why)
    }

    /// Answers the updates that the adapter will not answer.
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

    /// Starts no process again.
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

    /// Ends the process, as [`Ended::Restart`]; the next input starts another one. Its end is no
    /// failed start, and earlier ones count no more: without a process, a back-off ends at once.
    pub fn handle_restart(&mut self, now: Instant) {
        self.process.supervisor.worked();
        match &mut self.process.state {
            State::Starting { .. } | State::Running { .. } => self.kill_process(Ended::Restart),
            State::Ending { is_restart } => *is_restart = true,
            State::Waiting { .. } | State::Failed { .. } => {
                self.process.state = State::Idle;
                if self.process.waiting_since.is_some() {
                    self.start_process(now);
                }
                self.handle_standby(now);
            }
            State::Idle | State::Down => {}
        }
    }

    /// Ends the process; its end is still to come.
    pub(super) fn kill_process(&mut self, why: Ended) {
        let is_restart = why == Ended::Restart;
        self.process.state = State::Ending { is_restart };
        self.effect(Effect::Kill(why));
    }

    /// Ends the inputs of all sessions that wait for a start. `failure` is what brought it about,
    /// if that has one.
    pub(super) fn end_waiting(
        &mut self,
        cause: Cause,
        failure: Option<&Failure>,
        stderr_tail: Option<&str>,
    ) {
        let circumstances = Circumstances {
            limit: self.limit_of(cause),
            stderr_tail,
            ..Circumstances::default()
        };
        for index in self.indices() {
            if self
                .get(index)
                .is_some_and(|session| session.wire.is_none())
            {
                self.end_queued(index, cause, failure, circumstances);
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

    /// The time from which the running turn of a session waits for the process: its begin, moved by
    /// standstills.
    pub(super) fn waits_since(&mut self, index: u32) -> Option<Instant> {
        self.get(index)?
            .running()
            .map(|running| running.begun + running.stood_still)
    }

    /// Takes the number of a process of the adapter's tree that is suspended, or that none is: the
    /// reason of an end that a deadline brings names it. Call it before [`Core::handle_timeout`].
    pub fn handle_suspended(&mut self, pid: Option<u32>) {
        self.process.suspended = pid;
    }
}
