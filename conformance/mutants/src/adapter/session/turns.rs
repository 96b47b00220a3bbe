//! Turns: one at a time, in order, each with one end ([turn.1] to [turn.5], [turn.9], [turn.10]).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};
use trunkline_conformance_mutants::sleep;

use super::{
    ActiveOptions, AdapterPhase, AdapterSession, AdapterState, AdapterTurn, HostReply, ROOM,
    TurnAbort, TurnEnd,
};
use crate::{
    message::Message,
    pipes::wait_for_the_rest_of_a_write,
    switches::{Mutant::*, Variant::*, broken, varied},
};

/// The most that the inputs of one session may hold that wait, in bytes. Further ones fail as `busy`.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// The most inputs that wait. A session that is given more is ended.
const QUEUED: usize = 65_536;

/// The room of a thread that serves turns.
const STACK: usize = 512 * 1024;

/// An input that is a turn, or waits to be.
#[derive(Debug)]
pub(crate) struct TurnInput {
    /// Absent where there was no room to keep it.
    pub(crate) content: Option<String>,
    pub(crate) turn_id: Option<String>,
}

impl TurnInput {
    fn len(&self) -> usize {
        self.content.as_ref().map_or(0, String::len)
    }
}

/// The turn that runs.
#[derive(Debug, Default)]
pub(super) struct ActiveTurn {
    pub(super) serial: u64,
    pub(super) turn_id: Option<String>,
    /// The input, until a thread takes it.
    pub(super) input: Option<TurnInput>,
    /// The stop, with its reason, if there was one.
    pub(super) stop: Option<Option<String>>,
    /// Answers that it has not taken.
    pub(super) answers: VecDeque<(String, HostReply)>,
    /// Tool calls that it began and did not end.
    pub(super) tools: BTreeSet<String>,
    pub(super) outputs: usize,
    pub(super) steers: usize,
}

impl AdapterSession {
    /// Takes an input that is a turn.
    pub(crate) fn take_input(self: &Arc<Self>, input: TurnInput) {
        let mut state = self.lock();
        match &state.phase {
            AdapterPhase::Closed => return,
            AdapterPhase::Told(text) => {
                let text = text.clone();
                if !broken(EndedSessionSilent) {
                    self.send_last(
                        &mut state,
                        input.turn_id,
                        TurnEnd::failed("other", &text),
                        &text,
                    );
                }
                return;
            }
            AdapterPhase::Open => {}
        }
        state
            .ledger
            .input(input.content.as_deref().unwrap_or_default());
        if is_overlooked(&input, &state) {
            return;
        }
        if state.queue.len() >= QUEUED {
            drop(state);
            return self.end("limit", Some(("busy", "too many inputs wait".to_owned())));
        }
        let full = state.queued_bytes + input.len() > QUEUED_BYTES;
        let input = if full {
            TurnInput {
                content: None,
                ..input
            }
        } else {
            input
        };
        state.queued_bytes += input.len();
        state.queue.push_back(input);
        self.begin(&mut state);
    }

    /// Answers an input that adds to the running turn ([turn.10]).
    pub(crate) fn steer(
        self: &Arc<Self>,
        content: String,
        turn_id: Option<String>,
        message_id: Option<String>,
    ) {
        if broken(SteerIsTurn) {
            return self.take_input(TurnInput {
                content: Some(content),
                turn_id,
            });
        }
        let mut state = self.lock();
        if !state.is_open() {
            return;
        }
        let running = state
            .running
            .as_mut()
            .filter(|running| running.stop.is_none());
        let mut is_taken = !broken(SteerNeverDelivered);
        let running = running.map(|running| {
            running.steers += 1;
            is_taken &= running.steers > 1 || !varied(SecondSteer);
            running.turn_id.clone()
        });
        let delivered = running.is_some() && is_taken || broken(SteerAlwaysDelivered);
        let reason = if running.is_some() {
            "not now"
        } else {
            "no turn is running"
        };
        let result = Message::new("steer.result")
            .with_some("message_id", message_id)
            .with("delivered", delivered)
            .with_some("reason", (!delivered).then_some(reason))
            .in_turn(running.flatten());
        if delivered {
            state.ledger.input(&content);
        }
        self.send(&mut state, result);
        if broken(SteerCompletes) {
            self.send_end(&mut state, turn_id, TurnEnd::completed());
        }
    }

    /// Ends the running turn, or takes a queued one out ([turn.4], [turn.5], [turn.9]).
    pub(crate) fn stop(self: &Arc<Self>, turn_id: Option<String>, reason: Option<String>) {
        let mut state = self.lock();
        if !state.is_open() || broken(StopIgnored) {
            return;
        }
        if broken(StopWaitsForResume) && state.pauses > 0 {
            return;
        }
        let turn_id = turn_id.filter(|_| !broken(StopTakesAnyTurn));
        let running = state
            .running
            .as_ref()
            .map(|running| running.turn_id.clone());
        match (turn_id, running) {
            (None, None) => self.stop_idle(&mut state),
            (None, Some(_)) => self.stop_running(&mut state, reason),
            (Some(id), Some(Some(current))) if id == current => {
                self.stop_running(&mut state, reason)
            }
            (Some(id), _) => {
                let at = state
                    .queue
                    .iter()
                    .position(|input| input.turn_id.as_ref() == Some(&id));
                let queued = at
                    .filter(|_| !broken(QueuedStopIgnored))
                    .and_then(|at| state.queue.remove(at));
                if let Some(queued) = queued {
                    state.queued_bytes -= queued.len();
                    self.send_end(&mut state, Some(id), TurnEnd::undelivered(reason));
                }
            }
        }
    }

    fn stop_idle(self: &Arc<Self>, state: &mut AdapterState) {
        let after = broken(IdleStopCompletes) && state.ledger.has_inputs();
        let before = broken(EarlyStopCompletes) && !state.ledger.has_inputs();
        let just = broken(StopRaceCompletes)
            && state
                .ended_at
                .is_some_and(|at| at.elapsed() < Duration::from_millis(20));
        // The first of several stops may have ended the turn before the next one is read.
        let each = broken(EachStopCompletes) && state.stopped;
        if after || before || just || each {
            self.send_end(state, None, TurnEnd::completed());
        }
    }

    pub(super) fn stop_running(self: &Arc<Self>, state: &mut AdapterState, reason: Option<String>) {
        let Some(running) = &mut state.running else {
            return;
        };
        if running.stop.is_some() {
            if broken(EachStopCompletes) {
                let turn_id = running.turn_id.clone();
                self.send_end(state, turn_id, TurnEnd::completed());
            }
            return;
        }
        running.stop = Some(reason);
        state.stopped = true;
        if !broken(QuestionOutlivesStop)
            || state
                .requests
                .values()
                .all(|request| !request.is_question())
        {
            state.settle(broken(LateApprovalActs));
        }
        if broken(StopClearsQueue) {
            state.queue.clear();
        }
        state.deaf = broken(StopEndsService);
        self.changed.notify_all();
    }

    /// Makes the next input the running turn, and sees that a thread serves it.
    fn begin(self: &Arc<Self>, state: &mut AdapterState) {
        if state.running.is_none() {
            let Some(input) = state.queue.pop_front() else {
                return;
            };
            state.queued_bytes -= input.len();
            state.stopped = false;
            state.running = Some(ActiveTurn {
                serial: self.process.world.serial(),
                turn_id: input.turn_id.clone(),
                input: Some(input),
                ..ActiveTurn::default()
            });
            if broken(ValuesOfOneTurn) {
                state.values.clear();
            }
        }
        if state.worker {
            return;
        }
        state.worker = true;
        self.process.world.worker_begins();
        let session = self.clone();
        let thread = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                session.serve();
                session.process.world.worker_ends();
            });
        if thread.is_err() {
            self.process.world.worker_ends();
            state.worker = false;
            let ended = state
                .running
                .take()
                .into_iter()
                .map(|running| running.turn_id);
            let ended: Vec<_> = ended
                .chain(state.queue.drain(..).map(|input| input.turn_id))
                .collect();
            for turn_id in ended {
                self.send_end(
                    state,
                    turn_id,
                    TurnEnd::failed("other", "there is no thread to serve it"),
                );
            }
        }
    }

    fn serve(self: &Arc<Self>) {
        while let Some((turn, input)) = self.next_turn() {
            let places = if varied(Serial) { 1 } else { usize::MAX };
            if broken(AskBlocksAll) {
                self.process
                    .world
                    .wait_while_asked(&|| turn.over().is_err());
            }
            let ended = match self.process.world.enter(places, &|| turn.over().is_err()) {
                true => {
                    if broken(OverlapLost) {
                        // A turn may end between two inputs of one write, and lose neither.
                        wait_for_the_rest_of_a_write();
                    }
                    let ended = (self.process.agent)(&turn, input);
                    self.process.world.leave();
                    ended
                }
                false => Err(turn.over().err().unwrap_or(TurnAbort::Stopped)),
            };
            match ended {
                Ok(end) => self.finish(&turn, end),
                Err(TurnAbort::Stopped) => self.finish(&turn, TurnEnd::stopped()),
                Err(TurnAbort::Closed) => {}
            }
        }
    }

    /// Waits for room, so that a paused session does not pile up ends ([flow.3]).
    fn next_turn(self: &Arc<Self>) -> Option<(AdapterTurn, Option<String>)> {
        let mut state = self.lock();
        loop {
            if state.running.is_none() && !state.is_closed() {
                self.begin(&mut state);
            }
            let full = state.out_bytes > ROOM;
            let closed = state.is_closed() && !broken(SpeaksAfterClose);
            match &mut state.running {
                Some(running) if !closed && (!full || running.stop.is_some()) => {
                    let content = running.input.take().and_then(|input| input.content);
                    let serial = running.serial;
                    let turn_id = running.turn_id.clone();
                    return Some((
                        AdapterTurn {
                            session: self.clone(),
                            turn_id,
                            serial,
                        },
                        content,
                    ));
                }
                Some(_) if !closed => state = self.wait(state, None),
                _ => {
                    state.worker = false;
                    return None;
                }
            }
        }
    }

    /// Ends a turn, by its one `turn.complete`.
    fn finish(self: &Arc<Self>, turn: &AdapterTurn, mut end: TurnEnd) {
        if varied(SlowStop) && end.is_stopped() {
            sleep(4_000);
        }
        let mut state = self.lock();
        if state
            .running
            .as_ref()
            .is_none_or(|running| running.serial != turn.serial)
        {
            return;
        }
        let Some(running) = state.running.take() else {
            return;
        };
        state.settle(false);
        if let Some(reason) = running.stop {
            end = end.after_stop(reason);
        }
        if !broken(ToolLeftOpen) {
            self.end_tools(&mut state, &running.tools, &running.turn_id);
        }
        if broken(UpdateForgotten) {
            state.options = state.first_options.clone();
        }
        if broken(StartForgotten) {
            state.options = ActiveOptions::default();
        }
        state.ended_at = Some(Instant::now());
        if !is_forgotten(&end, running.outputs, self.process.world.turn_ends()) {
            self.send_end(&mut state, running.turn_id.clone(), end.clone());
        }
        if broken(PauseEndsWithTurn) {
            state.pauses = 0;
            self.schedule(&mut state);
        }
        self.changed.notify_all();
        drop(state);
        self.speak_after_the_end(running.turn_id, &end);
    }

    pub(super) fn end_tools(
        self: &Arc<Self>,
        state: &mut AdapterState,
        tools: &BTreeSet<String>,
        turn_id: &Option<String>,
    ) {
        for tool_call_id in tools {
            let end = Message::new("tool.end")
                .with("tool_call_id", tool_call_id.as_str())
                .with("is_error", true);
            self.send(state, end.in_turn(turn_id.clone()));
        }
    }

    /// Messages that some variants send too late or twice.
    fn speak_after_the_end(self: &Arc<Self>, turn_id: Option<String>, end: &TurnEnd) {
        if broken(OutputAfterEnd) {
            sleep(20);
            self.tell(Message::output("one more thing").in_turn(turn_id.clone()));
        }
        if broken(TickAfterStop) && end.is_stopped() {
            sleep(40);
            self.tell(Message::output("tick").in_turn(turn_id.clone()));
        }
        if broken(LateDouble) {
            sleep(150);
            self.send_end(&mut self.lock(), turn_id, end.clone());
        }
    }
}

impl AdapterState {
    pub(super) fn going(&self, serial: u64) -> Result<(), TurnAbort> {
        if self.is_closed() && broken(SpeaksAfterClose) {
            return Ok(());
        }
        match &self.running {
            Some(running) if running.serial == serial && !self.is_closed() => {
                if running.stop.is_some() {
                    Err(TurnAbort::Stopped)
                } else {
                    Ok(())
                }
            }
            _ => Err(TurnAbort::Closed),
        }
    }
}

/// Inputs that some do not see.
fn is_overlooked(input: &TurnInput, state: &AdapterState) -> bool {
    let content = input.content.as_deref().unwrap_or_default();
    (broken(EmptyInputSkipped) && content.is_empty())
        || (broken(BlankInputSkipped) && content.trim().is_empty())
        || (broken(CommandsSwallowed) && content.starts_with('/'))
        || (broken(OverlapLost) && state.running.is_some())
        || (broken(FourthInputLost) && state.ledger.inputs() == 4)
        || (broken(LongQueueLost) && state.queue.len() >= 3)
        || state.deaf
}

/// Ends that some do not write.
fn is_forgotten(end: &TurnEnd, outputs: usize, ends: u64) -> bool {
    (broken(StopWithoutEnd) && end.is_stopped())
        || (broken(FailureWithoutEnd) && end.is_failed())
        || (broken(SilentTurnWithoutEnd) && outputs == 0)
        || (broken(HundredthEndLost) && ends.is_multiple_of(100))
}
