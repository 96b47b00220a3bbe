//! Which events end a turn, and when: a state machine without I/O. Time is an argument.

use std::ops::ControlFlow;

use tokio::time::Instant;
use trunkline_sdk::{Answer, Error};

use super::dialect::{Dialect, Effect, Grace, Out, Step};
use crate::agent::deadlines::{Passed, Watch};

/// How the reading of an agent ended.
#[derive(Debug)]
pub(crate) enum Finish {
    /// It has ended the turn, and goes on.
    Ended,
    /// Its output has ended by itself.
    Closed,
    /// It has said its last, and its output did not end in time.
    Lingers,
    /// The turn must end early, for this reason.
    Early(Error),
}

/// Where a turn is.
///
/// ```text
/// Running ── the agent ends the turn ──► Finished(Ended)
///    │
///    ├────── the agent says its last ──► Ending ── time ──► Finished(Lingers)
///    │                                     │
///    ├── stop, deadline, failure ──────────┤
///    │                                     ▼
///    │         ┌── grace ───────────── Interrupted ── time, or output ends ──► Finished(Early)
///    │         └── no grace ───────────────────────────────────────────────► Finished(Early)
///    └── output ends (also when Ending) ───────────────────────────────────► Finished(Closed)
/// ```
#[derive(Debug)]
enum Phase {
    Running,
    Ending { until: Instant },
    Interrupted { why: Error, until: Instant },
    Finished(Finish),
}

/// One turn. The caller passes on each thing that happens by a `handle_*` method, performs what
/// [`poll_effect`](Self::poll_effect) gives until it gives nothing, and calls [`handle_timeout`](Self::handle_timeout)
/// at the time of [`timeout`](Self::timeout).
#[derive(Debug)]
pub(crate) struct Engine<D> {
    dialect: D,
    watch: Watch,
    phase: Phase,
    /// The agent ends the turn because of a stop, and was asked to.
    is_stopped: bool,
    /// Questions that wait for the user.
    open: usize,
    out: Out,
}

impl<D: Dialect> Engine<D> {
    /// A turn that begins, with its deadlines.
    pub(crate) fn new(dialect: D, watch: Watch) -> Self {
        Self { dialect, watch, phase: Phase::Running, is_stopped: false, open: 0, out: Out::default() }
    }

    /// Whether a stop would change anything.
    pub(super) fn takes_stop(&self) -> bool {
        self.is_open() && self.dialect.takes_stop()
    }

    /// Whether inputs that the user adds are still answered.
    pub(super) fn takes_steers(&self) -> bool {
        self.is_open()
    }

    /// Whether nothing has asked for an early end.
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ending { .. }) && !self.is_stopped
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Running => self.dialect.deadline().into_iter().chain([self.watch.next()]).min(),
            Phase::Ending { until } | Phase::Interrupted { until, .. } => Some(*until),
            Phase::Finished(_) => None,
        }
    }

    /// The agent has sent a message.
    pub(super) fn handle_message(&mut self, message: D::Message, now: Instant) {
        self.dialect.message(message, now, &mut self.out);
        if std::mem::take(&mut self.out.is_alive) {
            self.watch.heard_at(now);
        }
    }

    /// The agent's output has ended.
    pub(super) fn handle_closed(&mut self) {
        self.finish(Finish::Closed);
    }

    /// The user has stopped the turn.
    pub(super) fn handle_stop(&mut self, now: Instant) {
        self.interrupt(Error::stopped(), now);
    }

    /// The user adds an input to the turn.
    pub(super) fn handle_steer(&mut self, number: u64, text: &str) {
        self.dialect.steer(number, text, &mut self.out);
    }

    /// The user has answered a question.
    pub(super) fn handle_answer(&mut self, number: u64, answer: &Answer, now: Instant) {
        self.open -= 1;
        if self.open == 0 {
            self.watch.resume_at(now);
        }
        self.dialect.answered(number, answer, &mut self.out);
    }

    /// What was to be done has failed, and the turn must end early.
    pub(super) fn handle_failure(&mut self, why: Error, now: Instant) {
        self.interrupt(why, now);
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match &self.phase {
            Phase::Running => {
                if self.dialect.deadline().is_some_and(|deadline| deadline <= now) {
                    let why = self.dialect.late();
                    return self.interrupt(why, now);
                }
                match self.watch.passed(now) {
                    Some(Passed::Deadline(why)) => self.interrupt(why, now),
                    Some(Passed::Quiet) => self.out.steps.push_back(Step::Effect(Effect::Working)),
                    None => {}
                }
            }
            Phase::Ending { until } | Phase::Interrupted { until, .. } if *until <= now => {
                self.finish(Finish::Lingers);
            }
            Phase::Ending { .. } | Phase::Interrupted { .. } | Phase::Finished(_) => {}
        }
    }

    /// What shall be done next; nothing once the turn has finished.
    pub(super) fn poll_effect(&mut self, now: Instant) -> Option<Effect> {
        while !matches!(self.phase, Phase::Finished(_)) {
            match self.out.steps.pop_front()? {
                Step::Effect(effect) => {
                    if matches!(effect, Effect::Ask(..)) {
                        self.open += 1;
                        self.watch.pause_at(now);
                    }
                    return Some(effect);
                }
                Step::End => self.finish(Finish::Ended),
                Step::Fail(why) => self.interrupt(why, now),
                Step::EndWithin(wait) => {
                    if matches!(self.phase, Phase::Running) {
                        self.phase = Phase::Ending { until: now + wait };
                    }
                }
            }
        }
        None
    }

    /// The dialect and how the turn finished, once it has.
    pub(super) fn into_finish(self) -> ControlFlow<(D, Finish), Self> {
        match self.phase {
            Phase::Finished(finish) => ControlFlow::Break((self.dialect, finish)),
            Phase::Running | Phase::Ending { .. } | Phase::Interrupted { .. } => ControlFlow::Continue(self),
        }
    }

    /// Ends the turn early. The first reason stands.
    fn interrupt(&mut self, why: Error, now: Instant) {
        if !matches!(self.phase, Phase::Running | Phase::Ending { .. }) {
            return;
        }
        match self.dialect.interrupt(&why, &mut self.out) {
            Grace::None => self.phase = Phase::Finished(Finish::Early(why)),
            Grace::For(wait) => self.phase = Phase::Interrupted { why, until: now + wait },
            Grace::AgentEnds => self.is_stopped = true,
        }
    }

    fn finish(&mut self, finish: Finish) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Interrupted { why, .. } => Phase::Finished(Finish::Early(why)),
            Phase::Finished(first) => Phase::Finished(first),
            Phase::Running | Phase::Ending { .. } => Phase::Finished(finish),
        };
    }
}
