//! The state machine of a turn: the events and deadlines that end it. No I/O; time is an argument.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::Error;
use trunkline_sdk::protocol::AdapterBody;

use super::dialect::{Dialect, DialectStep, Effect, EffectList, Grace};
use super::requests::UserReply;
use crate::agent::deadlines::{Passed, Watch};

/// End of reading an agent.
#[derive(Debug)]
pub(crate) struct TurnFinish {
    pub(crate) how: EndCause,
    /// The reason for an early end, if there was one.
    pub(crate) why: Option<Error>,
}

/// Event that ended the reading of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// The agent has ended the turn, and continues to run.
    Ended,
    /// Its output has ended.
    Closed,
    /// Neither happened in time.
    Late,
}

/// The phase of a turn.
///
/// ```text
/// Running ── the agent ends the turn ──► Finished(Ended)
///    │
///    ├────── the agent says its last ──► Ending ── time ──► Finished(Late)
///    │                                     │
///    ├── stop, deadline, failure ──────────┤
///    │                                     ▼
///    │         ┌── grace ───────────── Interrupted ── turn or output ends ──► Finished(Ended or Closed, why)
///    │         │                                   └─ time ─────────────────► Finished(Late, why)
///    │         └── no grace ────────────────────────────────────────────────► Finished(Late, why)
///    └── output ends (even when Ending) ────────────────────────────────────► Finished(Closed)
/// ```
#[derive(Debug)]
enum Phase {
    Running,
    Ending { until: Instant },
    Interrupted { why: Error, until: Instant },
    Finished(TurnFinish),
}

/// A turn, or the time between two. The caller passes on each event by a `handle_*` method,
/// executes the effects of [`poll_effect`](Self::poll_effect) until it returns none, and calls
/// [`handle_timeout`](Self::handle_timeout) at the time of [`timeout`](Self::timeout).
#[derive(Debug)]
pub(crate) struct Engine<D: Dialect> {
    dialect: D,
    /// The turn's deadlines; between turns there are none.
    watch: Option<Watch>,
    /// A deadline of the dialect, and the standstills since it was set, by which it is moved.
    moved: Option<(Instant, Duration)>,
    phase: Phase,
    /// The agent ends the turn because of a stop, and was asked to.
    is_stopped: bool,
    /// Requests that wait for the user.
    open: usize,
    out: EffectList<D::Command>,
}

impl<D: Dialect> Engine<D> {
    /// A turn that begins, with its deadlines.
    pub(crate) fn new(dialect: D, watch: Watch) -> Self {
        Self {
            watch: Some(watch),
            ..Self::between_turns(dialect)
        }
    }

    /// Creates the engine that reads an agent between turns, until it is stopped.
    pub(crate) fn between_turns(dialect: D) -> Self {
        Self {
            dialect,
            watch: None,
            moved: None,
            phase: Phase::Running,
            is_stopped: false,
            open: 0,
            out: EffectList::default(),
        }
    }

    /// Lets the dialect begin: what it wants done comes first.
    pub(crate) fn begin(mut self, begin: impl FnOnce(&mut D, &mut EffectList<D::Command>)) -> Self {
        begin(&mut self.dialect, &mut self.out);
        self
    }

    /// Returns true if a stop would have an effect.
    pub(super) fn takes_stop(&self) -> bool {
        self.is_open() && self.dialect.takes_stop()
    }

    /// Returns true if steers are accepted.
    pub(super) fn takes_steers(&self) -> bool {
        self.is_open() && self.dialect.takes_steers()
    }

    /// Returns true if no early end was requested.
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ending { .. }) && !self.is_stopped
    }

    /// The deadline of the dialect, moved by the standstills since it was set.
    fn dialect_deadline(&self) -> Option<Instant> {
        let deadline = self.dialect.deadline()?;
        match self.moved {
            Some((of, by)) if of == deadline => Some(deadline + by),
            _ => Some(deadline),
        }
    }

    /// Takes a time in which this process did not run: every deadline moves by it.
    pub(super) fn handle_standstill(&mut self, length: Duration) {
        if let Some(watch) = &mut self.watch {
            watch.postpone(length);
        }
        if let (Some(set), Some(moved)) = (self.dialect.deadline(), self.dialect_deadline()) {
            self.moved = Some((set, moved - set + length));
        }
        match &mut self.phase {
            Phase::Ending { until } | Phase::Interrupted { until, .. } => *until += length,
            Phase::Running | Phase::Finished(_) => {}
        }
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Running => {
                let watch = self.watch.as_ref().map(Watch::next);
                self.dialect_deadline().into_iter().chain(watch).min()
            }
            Phase::Ending { until } | Phase::Interrupted { until, .. } => Some(*until),
            Phase::Finished(_) => None,
        }
    }

    /// The time by which a turn that must end early has ended in any case.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Interrupted { until, .. } => Some(*until),
            Phase::Running | Phase::Ending { .. } | Phase::Finished(_) => None,
        }
    }

    /// The agent has sent a message.
    pub(super) fn handle_message(&mut self, message: D::Message, now: Instant) {
        self.dialect.message(message, now, &mut self.out);
        if let (Some(watch), true) = (&mut self.watch, std::mem::take(&mut self.out.is_alive)) {
            watch.heard(now);
        }
    }

    /// Handles the end of the agent's output, or of its input.
    pub(super) fn handle_closed(&mut self) {
        self.finish(EndCause::Closed);
    }

    /// Handles a command that was not sent: the agent no longer accepts input.
    pub(super) fn handle_unsent_command(&mut self) {
        if self.dialect.needs_input() {
            self.finish(EndCause::Closed);
        }
    }

    /// The user has stopped the turn.
    pub(super) fn handle_stop(&mut self, now: Instant) {
        self.interrupt(Error::stopped(), now);
    }

    /// The user adds an input to the turn.
    pub(super) fn handle_steer(&mut self, number: u64, text: &str) {
        self.dialect.steer(number, text, &mut self.out);
    }

    /// An input that the user added was not sent.
    pub(super) fn handle_not_steered(&mut self) {
        self.dialect.not_steered();
    }

    /// The user has replied to a request, or it was withdrawn.
    pub(super) fn handle_reply(&mut self, id: &str, reply: Option<UserReply>, now: Instant) {
        self.open -= 1;
        if let (Some(watch), 0) = (&mut self.watch, self.open) {
            watch.resume(now);
        }
        if let Some(reply) = reply {
            self.dialect.replied(id, reply, &mut self.out);
        }
    }

    /// An event found no room.
    pub(super) fn handle_unsent(&mut self, event: AdapterBody) {
        self.dialect.unsent(event);
    }

    /// Handles a failed effect: the turn must end early.
    pub(super) fn handle_failure(&mut self, why: Error, now: Instant) {
        self.interrupt(why, now);
    }

    /// The host has held the turn back until now, so that the agent was not read: silence counts from here.
    pub(super) fn handle_host_wait(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.rested(now);
        }
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match &self.phase {
            Phase::Running => {
                if self
                    .dialect_deadline()
                    .is_some_and(|deadline| deadline <= now)
                {
                    let why = self.dialect.late();
                    return self.interrupt(why, now);
                }
                match self.watch.as_mut().and_then(|watch| watch.passed(now)) {
                    Some(Passed::Deadline(why)) => self.interrupt(why, now),
                    Some(Passed::Quiet) => self
                        .out
                        .steps
                        .push_back(DialectStep::Effect(Effect::Working)),
                    None => {}
                }
            }
            Phase::Ending { until } | Phase::Interrupted { until, .. } if *until <= now => {
                self.finish(EndCause::Late);
            }
            Phase::Ending { .. } | Phase::Interrupted { .. } | Phase::Finished(_) => {}
        }
    }

    /// Returns the next effect; `None` once the turn has finished.
    pub(super) fn poll_effect(&mut self, now: Instant) -> Option<Effect<D::Command>> {
        while !matches!(self.phase, Phase::Finished(_)) {
            match self.out.steps.pop_front()? {
                DialectStep::Effect(effect) => {
                    if matches!(effect, Effect::Ask(..)) {
                        self.open += 1;
                        if let Some(watch) = &mut self.watch {
                            watch.pause(now);
                        }
                    }
                    return Some(effect);
                }
                DialectStep::End => self.finish(EndCause::Ended),
                DialectStep::Fail(why) => self.interrupt(why, now),
                DialectStep::EndWithin(wait) => {
                    if matches!(self.phase, Phase::Running) {
                        self.phase = Phase::Ending { until: now + wait };
                    }
                }
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn phase_for_test(&self) -> impl std::fmt::Debug {
        &self.phase
    }

    /// The dialect and how the turn finished, once it has.
    pub(super) fn into_finish(self) -> ControlFlow<(D, TurnFinish), Self> {
        match self.phase {
            Phase::Finished(finish) => ControlFlow::Break((self.dialect, finish)),
            Phase::Running | Phase::Ending { .. } | Phase::Interrupted { .. } => {
                ControlFlow::Continue(self)
            }
        }
    }

    /// Ends the turn early. The first reason counts.
    fn interrupt(&mut self, why: Error, now: Instant) {
        if !matches!(self.phase, Phase::Running | Phase::Ending { .. }) {
            return;
        }
        match self.dialect.interrupt(&why, &mut self.out) {
            Grace::None => {
                self.phase = Phase::Finished(TurnFinish {
                    how: EndCause::Late,
                    why: Some(why),
                })
            }
            Grace::For(wait) => {
                self.phase = Phase::Interrupted {
                    why,
                    until: now + wait,
                }
            }
            Grace::AgentEnds => self.is_stopped = true,
        }
    }

    fn finish(&mut self, how: EndCause) {
        self.phase = Phase::Finished(match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Interrupted { why, .. } => TurnFinish {
                how,
                why: Some(why),
            },
            Phase::Finished(first) => first,
            Phase::Running | Phase::Ending { .. } => TurnFinish { how, why: None },
        });
    }
}
