//! The deadlines of the core: their names, their ends, the effects of their ends, and the next one
//! that is due.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use trunkline_protocol::{Extensions, StopReason};

use super::{
    Core, Effect, Rules,
    limits::TimeLimit,
    process::{Process, State},
    queue::{Queued, is_large},
    reason::Limit,
    session::Session,
    turn::{EndOrigin, OpenTurn},
};
use crate::{Cause, Ended};

/// Timeout for the adapter's first message, before which an update waits: it shows whether the
/// adapter knows `options`.
pub(super) const READY_WAIT: Duration = Duration::from_secs(5);

/// The most timers that are no longer needed, besides two a session.
const SPARE_TIMERS: usize = 1024;

/// A deadline. [`Timer::ends_at`] is its end, and [`Timer::postpone`] moves it by a standstill,
/// both without a `_` arm.
///
/// Timers of the process; [`Core::process_timeout`] acts on them:
///
/// | timer | set by | length | its end | standstill |
/// |---|---|---|---|---|
/// | `Start` | a start of the process; an input that waits for one | `start_timeout` | the starting process is killed; inputs that wait end with [`Cause::StartTimeout`] | moves it |
/// | `Restart` | a failed start, while an input waits or the process is in standby | the back-off | the process is started again | counts |
/// | `FirstMessage` | the first input written to a process of which no message was read | `start_timeout` | the process is killed, as [`Ended::StartTimeout`] | moves it |
/// | `Liveness` | each byte of a process that knows `ping`; rests while a request waits | `ping_after`, then 10 s | a `ping`; then the process is suspected | moves it |
///
/// Timers of a session; [`Core::session_timeout`] acts on them:
///
/// | timer | set by | length | its end | standstill |
/// |---|---|---|---|---|
/// | `Options` | `session.start` with a required option ([ext.7]) | `start_timeout` | the session is refused | moves it |
/// | `Request` | a permission or a question that waits for its answer | `permission_timeout` | it is denied, as `timeout` | moves it |
/// | `Stop` | a `stop` | `stop_timeout` | the turn ends with [`Cause::StopUnanswered`] ([turn.8]) | moves it |
/// | `Turn` | the begin of a turn: its input's write, or the end of the turn before it | `turn_timeout`, or less by the session or the input | the turn is stopped, for [`Cause::TurnTimeout`] | moves it |
/// | `Inactivity` | each message of the session while its turn runs; rests while a request waits, events are paused, or no message of the process was read | `inactivity_timeout`, or less as for `Turn` | the turn is stopped, for [`Cause::Inactivity`] | moves it |
/// | `Stall` | as `Inactivity` | `stall_after` | its user is informed of the silence, once ([`Effect::Stalled`]) | moves it |
/// | `Rate` | a message beyond `output_rate`, if the adapter can hold the session back | until half of the burst is free | it continues | counts |
/// | `Update` | an update, or an input too long for every reader, before the adapter's first message of the session | [`READY_WAIT`] | it is written, or refused as unsupported | moves it |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Start,
    Restart,
    FirstMessage,
    Liveness,
    Options,
    Request,
    Stop,
    Turn,
    Inactivity,
    Stall,
    Rate,
    Update,
}

impl Timer {
    /// The timers of the process, in the order in which they are examined: an input that has waited
    /// too long needs no new start.
    const OF_PROCESS: [Self; 4] = [
        Self::Start,
        Self::Restart,
        Self::FirstMessage,
        Self::Liveness,
    ];
    const OF_SESSION: [Self; 8] = [
        Self::Options,
        Self::Request,
        Self::Stop,
        Self::Turn,
        Self::Inactivity,
        Self::Stall,
        Self::Rate,
        Self::Update,
    ];

    /// Returns the time of its end, if it runs. Only timers of a session need one.
    fn ends_at(
        self,
        rules: &Rules,
        process: &Process,
        session: Option<&Session>,
    ) -> Option<Instant> {
        let work = session.and_then(|session| session.work.as_deref());
        let running = work.and_then(|work| work.running.as_ref());
        let unstopped = running.filter(|running| !running.is_stopping());
        match self {
            Self::Start => match process.state {
                State::Starting { since } => Some(since + rules.start_timeout),
                State::Waiting { .. } => process
                    .waiting_since
                    .map(|since| since + rules.start_timeout),
                State::Idle
                | State::Running { .. }
                | State::Ending { .. }
                | State::Failed { .. }
                | State::Down => None,
            },
            Self::Restart => match process.state {
                State::Waiting { until } => {
                    (rules.standby || process.waiting_since.is_some()).then_some(until)
                }
                State::Idle
                | State::Starting { .. }
                | State::Running { .. }
                | State::Ending { .. }
                | State::Failed { .. }
                | State::Down => None,
            },
            Self::FirstMessage => process
                .waiting_since
                .filter(|_| process.is_up() && !process.was_heard())
                .map(|since| since + rules.start_timeout),
            Self::Liveness => {
                let liveness = process.is_up().then_some(&process.liveness)?;
                liveness.ends_at(rules.ping_after)
            }
            Self::Options => session
                .filter(|session| session.options_due)
                .and_then(|session| session.started_at)
                .map(|at| at + rules.start_timeout),
            Self::Request => work?
                .requests
                .iter()
                .filter_map(|request| request.deadline)
                .min(),
            Self::Stop => session?
                .open_turns()
                .filter_map(|turn| turn.stop_deadline)
                .min(),
            Self::Turn => unstopped?.deadline,
            Self::Inactivity => {
                let running = unstopped?;
                running.limits.inactivity?.ends_at(running.last_heard)
            }
            Self::Stall => {
                Some(unstopped.filter(|running| !running.stalled)?.last_heard + rules.stall_after?)
            }
            Self::Rate => {
                unstopped.filter(|running| running.over_rate)?;
                Some(rules.output_rate?.goes_on_at(session?.even_at?))
            }
            Self::Update => {
                // An input or update that waits for the process or for its options is not due by itself.
                let started = session.filter(|session| !session.options_due)?.started_at?;
                let unready = session.is_some_and(|session| session.agreed.is_none());
                match work?.queue.front()? {
                    Queued::Update { given, .. } if process.is_up() => {
                        Some(started.max(*given) + READY_WAIT)
                    }
                    Queued::Input { input, .. }
                        if process.is_up() && unready && running.is_none() && is_large(input) =>
                    {
                        Some(started + READY_WAIT)
                    }
                    Queued::Update { .. } | Queued::Input { .. } | Queued::File(..) => None,
                }
            }
        }
    }

    /// Moves it by a time in which the host did not run, unless it measures the time of the world:
    /// a back-off and an output rate have passed meanwhile. Only timers of a session need one.
    fn postpone(self, by: Duration, process: &mut Process, session: Option<&mut Session>) {
        let postpone = |time: &mut Option<Instant>| {
            if let Some(time) = time {
                *time += by;
            }
        };
        match self {
            Self::Start => {
                if let State::Starting { since } = &mut process.state {
                    *since += by;
                }
                postpone(&mut process.waiting_since);
            }
            // `Start` has moved `waiting_since`, and `Turn` moves the begin of the turns by which
            // it is set anew.
            Self::FirstMessage => {}
            Self::Liveness => process.liveness.postpone(by),
            Self::Restart | Self::Rate => {}
            Self::Options => {
                if let Some(session) = session {
                    postpone(&mut session.started_at);
                }
            }
            Self::Request => {
                let work = session.and_then(|session| session.work.as_deref_mut());
                for request in work.into_iter().flat_map(|work| &mut work.requests) {
                    postpone(&mut request.deadline);
                }
            }
            Self::Stop => {
                for turn in session.into_iter().flat_map(Session::open_turns_mut) {
                    postpone(&mut turn.stop_deadline);
                }
            }
            Self::Turn => {
                if let Some(running) = session.and_then(Session::running) {
                    postpone(&mut running.deadline);
                    running.stood_still += by;
                }
            }
            Self::Inactivity => {
                if let Some(running) = session.and_then(Session::running) {
                    running.last_heard += by;
                }
            }
            // `Inactivity` has moved `last_heard`.
            Self::Stall => {}
            // `Options` has moved the start of the session.
            Self::Update => {
                let work = session.and_then(|session| session.work.as_deref_mut());
                for queued in work.into_iter().flat_map(|work| &mut work.queue) {
                    match queued {
                        Queued::Update { given, .. } => *given += by,
                        Queued::Input { .. } | Queued::File(..) => {}
                    }
                }
            }
        }
    }
}

impl Core {
    /// The time at which [`Core::handle_timeout`] is due next. `None`: no deadline is set.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ends_at = |timer: Timer| timer.ends_at(&self.rules, &self.process, None);
        let process = Timer::OF_PROCESS.into_iter().filter_map(ends_at);
        process.chain(self.timers.next()).min()
    }

    /// Takes a time in which the host did not run: it was stopped or frozen, or its machine was.
    /// That is no silence of the adapter, so the deadlines for it move by that time. Call it before
    /// anything else that happened meanwhile.
    pub fn handle_standstill(&mut self, length: Duration) {
        for timer in Timer::OF_PROCESS {
            timer.postpone(length, &mut self.process, None);
        }
        for slot in &mut self.sessions {
            for timer in Timer::OF_SESSION {
                timer.postpone(length, &mut self.process, slot.session.as_mut());
            }
        }
    }

    /// Returns true while a turn runs or an input waits for the process: its deadlines are short
    /// enough that the caller looks for standstills meanwhile.
    #[must_use]
    #[inline]
    pub fn is_waiting_for_adapter(&self) -> bool {
        self.running_turns > 0 || self.process.waiting_since.is_some()
    }

    /// Ends all waits whose deadline has passed by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop_due(now) {
            self.session_timeout(index, now);
        }
        self.process_timeout(now);
    }

    /// Makes a session due when its next timer ends.
    pub(super) fn arm(&mut self, index: u32, now: Instant) {
        let Some(session) = self
            .sessions
            .get_mut(index as usize)
            .and_then(|slot| slot.session.as_mut())
        else {
            return;
        };
        let ends_at = |timer: Timer| timer.ends_at(&self.rules, &self.process, Some(session));
        if let Some(due) = Timer::OF_SESSION.into_iter().filter_map(ends_at).min() {
            self.timers.arm(&mut session.armed, due.max(now), index);
        }
        if self.timers.len() > 2 * self.sessions.len() + SPARE_TIMERS {
            let sessions = &self.sessions;
            let armed = |index: u32| sessions.get(index as usize)?.session.as_ref()?.armed;
            self.timers.retain(|due, index| armed(index) == Some(due));
        }
    }

    /// Does what is due in a session.
    fn session_timeout(&mut self, index: u32, now: Instant) {
        let Some(session) = self
            .sessions
            .get_mut(index as usize)
            .and_then(|slot| slot.session.as_mut())
        else {
            return;
        };
        if session.armed.is_none_or(|armed| armed > now) {
            return;
        }
        session.armed = None;
        let options = Timer::Options.ends_at(&self.rules, &self.process, Some(session));
        if options.is_some_and(|at| at <= now) {
            return self.refuse_unenforced(index, now);
        }
        self.request_timeout(index, now);
        self.turn_timeout(index, now);
        self.rate_timeout(index, now);
        if self.has_queue(index) {
            self.flush(index, now);
        }
        self.rest(index);
        self.arm(index, now);
    }

    /// Stops or ends a turn whose time is over: `Stop`, `Turn` and `Inactivity`.
    fn turn_timeout(&mut self, index: u32, now: Instant) {
        let was_heard = self.process.was_heard();
        let stall_after = self.rules.stall_after;
        let Some(session) = self.get(index) else {
            return;
        };
        let by_id = session.has_agreed(Extensions::TURNS);
        let rests = session.paused
            || session.held
            || !was_heard
            || session
                .work
                .as_ref()
                .is_some_and(|work| !work.requests.is_empty());
        let is_unanswered =
            |turn: &&OpenTurn| turn.stop_deadline.is_some_and(|deadline| deadline <= now);
        let unanswered = session.open_turns().find(is_unanswered);
        if let Some(turn) = unanswered.map(|turn| turn.no) {
            self.end_turn(
                index,
                turn,
                Cause::StopUnanswered,
                None,
                EndOrigin::default(),
                now,
            );
            if !by_id {
                self.replace_wire(index);
            }
            return self.flush(index, now);
        }
        let Some(running) = session.running().filter(|running| !running.is_stopping()) else {
            return;
        };
        if running.deadline.is_some_and(|deadline| deadline <= now) {
            let Some(limit) = running.limits.turn else {
                return;
            };
            let took = now.saturating_duration_since(running.begun + running.stood_still);
            let took = limit.excess(took, "the turn ran");
            let stop = self.stop_at(Cause::TurnTimeout, Limit::Turn(limit), took.as_deref());
            return self.stop_running(index, stop, StopReason::Timeout, now);
        }
        let is_over = |limit: &TimeLimit| {
            let end = limit.ends_at(running.last_heard);
            end.is_some_and(|end| end <= now)
        };
        if rests {
            // Silence counts from the end of the rest.
            running.rested_until(now);
        } else if let Some(limit) = running.limits.inactivity.filter(is_over) {
            let silence = now.saturating_duration_since(running.last_heard);
            let silence = limit.excess(silence, "it was silent");
            let limit = Limit::Inactivity(limit);
            let stop = self.stop_at(Cause::Inactivity, limit, silence.as_deref());
            self.stop_running(index, stop, StopReason::Timeout, now);
        } else if stall_after.is_some_and(|after| running.last_heard + after <= now) {
            self.tell_stall(index, now);
        }
    }

    /// Reports the silence of a turn that runs and does not rest, once.
    pub(super) fn tell_stall(&mut self, index: u32, now: Instant) {
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        if session.paused
            || session.held
            || session
                .work
                .as_ref()
                .is_some_and(|work| !work.requests.is_empty())
        {
            return;
        }
        let Some(running) = session
            .running()
            .filter(|running| !running.stalled && !running.is_stopping())
        else {
            return;
        };
        running.stalled = true;
        let inactivity = running.limits.inactivity;
        let silence = inactivity.and_then(|limit| limit.ends_at(running.last_heard));
        let deadline = silence.into_iter().chain(running.deadline).min();
        let turn = running.no;
        let silent_for = now.saturating_duration_since(running.last_heard);
        let deadline_in = deadline.map(|deadline| deadline.saturating_duration_since(now));
        self.effect(Effect::Stalled {
            key,
            turn,
            silent_for,
            deadline_in,
        });
    }

    /// Does the first thing that is due of the process: each leads to another state.
    fn process_timeout(&mut self, now: Instant) {
        let is_due = |timer: &Timer| {
            timer
                .ends_at(&self.rules, &self.process, None)
                .is_some_and(|ends_at| ends_at <= now)
        };
        match Timer::OF_PROCESS.into_iter().find(is_due) {
            Some(Timer::Start) => {
                if let State::Starting { .. } = self.process.state {
                    self.kill_process(Ended::StartTimeout);
                } else {
                    self.process.waiting_since = None;
                }
                self.end_waiting(Cause::StartTimeout, None, None);
            }
            Some(Timer::Restart) => self.start_process(now),
            Some(Timer::Liveness) => self.liveness_timeout(now),
            Some(Timer::FirstMessage) => {
                // The first input to wait may have been stopped since; while none waits, silence is allowed.
                self.process.waiting_since = self
                    .indices()
                    .filter_map(|index| self.waits_since(index))
                    .min();
                if self
                    .process
                    .waiting_since
                    .is_some_and(|since| since + self.rules.start_timeout <= now)
                {
                    self.kill_process(Ended::StartTimeout);
                }
            }
            _ => {}
        }
    }
}

/// The sessions by the time at which they are due: one entry a session, moved to an earlier time
/// when needed and never back. Entries of earlier times and of ended sessions are dropped when they
/// are too many.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, u32)>>);

impl Timers {
    /// Makes a session due at this time, too. `armed` is its earliest entry, and is updated.
    fn arm(&mut self, armed: &mut Option<Instant>, due: Instant, index: u32) {
        if armed.is_none_or(|armed| due < armed) {
            *armed = Some(due);
            self.0.push(Reverse((due, index)));
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the entries that are still needed.
    fn retain(&mut self, needed: impl Fn(Instant, u32) -> bool) {
        self.0.retain(|Reverse((due, index))| needed(*due, *index));
    }

    /// The time at which the next session is due.
    fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// The next session that is due by now.
    fn pop_due(&mut self, now: Instant) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, index))| index)
    }
}
