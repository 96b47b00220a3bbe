//! A turn's life: begun, stopped, added to, ended once ([turn.1], [turn.4], [turn.10]).

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;
use trunkline_protocol::{
    Large, SteerResult, StopReason, ToolCallId, ToolEnd, TurnComplete, TurnId,
    rules::{TurnPhase, TurnStep},
};

use super::{
    core::{Core, Inner},
    job::{BegunTurn, Job, Next, QueuedTurn},
    running::{EndOrigin, RunningTurn, Steer, stopped},
};

/// The most steers that a turn has not taken.
const QUEUED_STEERS: usize = 64;

/// A turn that is ended for its handler when its time is over.
#[derive(Debug)]
pub(crate) struct Late {
    core: Weak<Core>,
    serial: u64,
    cut: CancellationToken,
}

impl Late {
    /// Ends the turn if it has not ended, and drops its handler if it still runs.
    pub(crate) fn end(&self) {
        if let Some(core) = self.core.upgrade() {
            core.end_late(self.serial);
        }
        self.cut.cancel();
    }
}

impl Core {
    pub(super) fn begin_turn(&self, inner: &mut Inner, turn: QueuedTurn) -> Next {
        let QueuedTurn {
            id,
            mut input,
            large,
            steers,
        } = turn;
        input.files.retain(|file| !inner.forget_refused(file));
        inner.next_serial += 1;
        let running = RunningTurn {
            serial: inner.next_serial,
            id,
            phase: TurnPhase::Queued
                .after(TurnStep::Begin)
                .expect("a queued turn begins"),
            stop_reason: None,
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            open_tools: Vec::new(),
            steers,
            steered: Arc::default(),
        };
        let begun = BegunTurn {
            serial: running.serial,
            id: running.id.clone(),
            stop: running.stop.clone(),
            steered: running.steered.clone(),
        };
        inner.running = Some(running);
        Next::Turn(begun, input, large)
    }

    /// Returns the token that cancels the handler of a turn.
    pub(crate) fn cut_of(&self, serial: u64) -> CancellationToken {
        let inner = self.lock();
        let running = inner
            .running
            .as_ref()
            .filter(|running| running.serial == serial);
        running.map_or_else(
            || {
                let gone = CancellationToken::new();
                gone.cancel();
                gone
            },
            |running| running.cut.clone(),
        )
    }

    /// Ends a turn, unless it has ended ([turn.1]).
    pub(crate) fn end_turn(&self, serial: u64, end: TurnComplete, verdict: EndOrigin) {
        let (end, large) = self.place_end(serial, end);
        let mut inner = self.lock();
        self.end_running(&mut inner, Some(serial), (end, large), verdict);
    }

    pub(super) fn end_running(
        &self,
        inner: &mut Inner,
        serial: Option<u64>,
        (end, large): (TurnComplete, Option<Box<Large>>),
        verdict: EndOrigin,
    ) -> Option<RunningTurn> {
        let is_it = |running: &mut RunningTurn| {
            serial.is_none_or(|serial| running.serial == serial)
                && running.phase.after(TurnStep::Complete).is_ok()
        };
        let running = inner.running.take_if(is_it)?;
        let reason = (running.phase == TurnPhase::Stopping).then_some(StopReason::Stopped);
        inner.deny_requests(Some(running.serial), reason);
        running.stop.cancel();
        if !inner.is_over() {
            for call in &running.open_tools {
                self.send(running.id.clone(), unfinished(call.clone()).into());
            }
            for steer in &running.steers {
                self.send(
                    running.id.clone(),
                    not_delivered(steer, "the turn has ended").into(),
                );
            }
            let mut message = self.message(
                running.id.clone(),
                Box::new(running.end(end, verdict)).into(),
            );
            // The end of a stopped turn has no result.
            message.large = large.filter(|_| !running.is_overruled(verdict));
            self.try_send(message);
        }
        Some(running)
    }

    /// Ends a turn whose handler has had its time.
    pub(super) fn end_late(&self, serial: u64) {
        let mut inner = self.lock();
        let stopped = stopped(
            inner
                .running
                .as_ref()
                .and_then(|running| running.stop_reason),
        );
        self.end_running(
            &mut inner,
            Some(serial),
            (stopped, None),
            EndOrigin::Returned,
        );
    }

    /// Stops the running turn, or removes a queued one ([turn.4], [turn.9]). Nothing to stop:
    /// nothing happens.
    pub(crate) fn stop(self: &Arc<Self>, turn_id: Option<&TurnId>, reason: Option<StopReason>) {
        let mut inner = self.lock();
        if inner.is_over() {
            return;
        }
        let names = |id: &Option<TurnId>| turn_id.is_none() || id.as_ref() == turn_id;
        if inner
            .running
            .as_ref()
            .is_some_and(|running| names(&running.id))
        {
            return self.stop_running(&mut inner, reason);
        }
        // Nothing runs: what the host takes for the running turn is the first that waits.
        if turn_id.is_none() && inner.running.is_some() {
            return;
        }
        let waits = |job: &Job| matches!(job, Job::Turn(turn) if names(&turn.id));
        if let Some(at) = inner.queue.iter().position(waits)
            && let Some(Job::Turn(turn)) = inner.queue.remove(at)
        {
            inner.forget_queued(&turn);
            if TurnPhase::Queued.after(TurnStep::Stop) == Ok(TurnPhase::Ended) {
                self.end_queued(&turn, stopped(reason));
            }
        }
    }

    pub(super) fn stop_running(self: &Arc<Self>, inner: &mut Inner, reason: Option<StopReason>) {
        let Some(running) = &mut inner.running else {
            return;
        };
        if running.phase != TurnPhase::Running {
            return;
        }
        if let Ok(phase) = running.phase.after(TurnStep::Stop) {
            running.phase = phase;
        }
        running.stop_reason = reason;
        running.stop.cancel();
        self.count_down(running);
        let serial = running.serial;
        inner.deny_requests(Some(serial), Some(StopReason::Stopped));
    }

    /// Gives the handler of a turn the time that is left for it.
    pub(super) fn count_down(self: &Arc<Self>, RunningTurn { serial, cut, .. }: &RunningTurn) {
        if let Some(keeper) = self.ground.keeper.upgrade() {
            keeper.count_down(Late {
                core: Arc::downgrade(self),
                serial: *serial,
                cut: cut.clone(),
            });
        }
    }

    /// Adds a steer to the running turn, or reports that there is none ([turn.10]).
    pub(crate) fn steer(&self, steer: Steer) {
        let mut inner = self.lock();
        if inner.is_over() {
            return;
        }
        let Inner { running, queue, .. } = &mut *inner;
        let first = queue.iter_mut().find_map(|job| {
            if let Job::Turn(turn) = job {
                Some(turn)
            } else {
                None
            }
        });
        let (steers, wake) = match (running, first) {
            (Some(running), _) if running.phase == TurnPhase::Running => {
                (Some(&mut running.steers), Some(&running.steered))
            }
            (None, Some(turn)) => (Some(&mut turn.steers), None),
            (Some(_), _) | (None, None) => (None, None),
        };
        let why = match steers {
            _ if !self.ground.steerable => "the agent takes no input during a turn",
            None => "no turn is running",
            Some(steers) if steers.len() < QUEUED_STEERS => {
                steers.push_back(steer);
                return wake.into_iter().for_each(|wake| wake.notify_one());
            }
            Some(_) => "too many inputs wait for the turn",
        };
        let result = not_delivered(&steer, why);
        self.send(None, result.into());
    }

    pub(crate) fn next_steer(&self, serial: u64) -> Option<Steer> {
        let mut inner = self.lock();
        inner
            .running
            .as_mut()
            .filter(|running| running.serial == serial)?
            .steers
            .pop_front()
    }

    /// Says what became of a steer that the turn had taken.
    pub(crate) fn steered(&self, serial: u64, result: SteerResult) {
        let mut inner = self.lock();
        if !inner.is_over() {
            let turn_id = inner.speaks_for(Some(serial)).flatten();
            self.send(turn_id, result.into());
        }
    }
}

fn unfinished(tool_call_id: ToolCallId) -> ToolEnd {
    ToolEnd {
        is_error: Some(true),
        ..ToolEnd::new(tool_call_id)
    }
}

/// The answer to an input that the turn did not get.
pub(super) fn not_delivered(steer: &Steer, reason: &str) -> SteerResult {
    SteerResult {
        message_id: steer.message_id.clone(),
        delivered: false,
        reason: Some(reason.to_owned()),
    }
}
