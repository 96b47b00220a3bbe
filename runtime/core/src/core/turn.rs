//! The running turn of a session: its progress, its deadlines, its end ([turn.*]).

use std::time::{Duration, Instant};

use trunkline_protocol::{
    AdapterBody, Delivered, Envelope, Extensions, Failure, Large, LogStream, Meta, Status, Stop,
    StopReason, ToolCallId, ToolEnd, TurnComplete,
    rules::{TurnPhase, TurnStep},
};

use super::{
    Core, Counter, Effect, Key, Reader,
    limits::TurnLimits,
    reason::{Circumstances, HostStop, Limit, host_failure, stopped_failure},
    session::Session,
};
use crate::{Cause, ProcessEnd, TurnEnd, TurnNo, TurnScope};

/// Limit of remembered open tool calls of a turn, so that the host can close those that the adapter
/// leaves open.
const OPEN_TOOLS: usize = 256;

/// A turn whose input was written and that has not ended: the running one, or one behind it.
///
/// ```text
///          written            stop: by the user, a deadline or a limit
/// Queued ───────────▶ Running ─────────────────────────────────────────▶ Stopping
///    │                   │ turn.complete, end of the process,               │ the same, or
///    │ stop, close,      │ close, an end that is too long                   │ `stop_timeout`
///    │ failed start      ▼                                                  │
///    └───────────────▶ ended, once: `Effect::End` ◀─────────────────────────┘
/// ```
///
/// A queued turn is a `Queued::Input`; `phase` distinguishes the other two. The deadlines of a turn
/// that was written ahead ([turn.3]) begin when it is the oldest ([`OpenTurn::start`]); only the
/// deadline of its stop begins with the stop.
#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) no: TurnNo,
    phase: TurnPhase,
    /// The time at which its input was given to the host.
    pub(super) given: Instant,
    /// The length of its input's text, in bytes.
    pub(super) input_bytes: usize,
    /// The time at which it became the oldest turn; until then the time of its input's write.
    pub(super) begun: Instant,
    /// The time since `begun` in which the host did not run.
    pub(super) stood_still: Duration,
    place: InputPlace,
    /// True if the adapter sent a message of it.
    answered: bool,
    pub(super) last_heard: Instant,
    /// The time at which it is stopped.
    pub(super) deadline: Option<Instant>,
    /// The time at which its stop counts as unanswered.
    pub(super) stop_deadline: Option<Instant>,
    /// The limit for which the host stopped it. `None` if its user did.
    stopped_by: Option<HostStop>,
    stop_reason: Option<StopReason>,
    /// True if its user knows of the present silence.
    pub(super) stalled: bool,
    /// True if it waits for its session's rate.
    pub(super) over_rate: bool,
    /// Bytes that came since the adapter was asked to hold it back.
    pub(super) held_bytes: u64,
    /// The reader that has much of it to read.
    pub(super) unread: Option<Reader>,
    output: u64,
    open_tools: Vec<ToolCallId>,
    pub(super) limits: TurnLimits,
    /// The tokens that it has used so far, as the agent reports it.
    pub(super) tokens: u64,
}

impl OpenTurn {
    /// A turn whose input is written now.
    pub(super) fn new(
        no: TurnNo,
        given: Instant,
        input_bytes: usize,
        limits: TurnLimits,
        now: Instant,
    ) -> Self {
        Self {
            no,
            phase: TurnPhase::Running,
            given,
            input_bytes,
            begun: now,
            stood_still: Duration::ZERO,
            place: InputPlace::Unreported,
            answered: false,
            last_heard: now,
            deadline: None,
            stop_deadline: None,
            stopped_by: None,
            stop_reason: None,
            stalled: false,
            over_rate: false,
            held_bytes: 0,
            unread: None,
            output: 0,
            open_tools: Vec::new(),
            limits,
            tokens: 0,
        }
    }

    /// Begins its deadlines: it is the oldest turn from now on. Returns the time that its input has
    /// waited for that.
    pub(super) fn start(&mut self, now: Instant) -> Duration {
        (self.begun, self.last_heard) = (now, now);
        self.stood_still = Duration::ZERO;
        self.deadline = self.limits.turn.and_then(|limit| limit.ends_at(now));
        now.saturating_duration_since(self.given)
    }

    /// Returns true if no byte of the input can have reached the agent.
    fn is_unwritten(&self, process: Option<&ProcessEnd>) -> bool {
        match (self.place, process) {
            (InputPlace::Nowhere, _) => true,
            (InputPlace::At(at), Some(process)) => at >= process.written,
            (InputPlace::At(_), None) | (InputPlace::Unreported, _) => false,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.phase == TurnPhase::Stopping
    }

    /// The inactivity deadline rested until now.
    pub(super) fn rested_until(&mut self, now: Instant) {
        self.last_heard = now;
        self.stalled = false;
    }

    /// Takes note of a message of the adapter.
    pub(super) fn hear(&mut self, body: &AdapterBody) {
        self.answered = true;
        match body {
            AdapterBody::Output(output) => self.output += output.content.len() as u64,
            AdapterBody::ToolStart(start) if self.open_tools.len() < OPEN_TOOLS => {
                self.open_tools.push(start.tool_call_id.clone());
            }
            AdapterBody::ToolEnd(end) => self.open_tools.retain(|open| *open != end.tool_call_id),
            _ => {}
        }
    }
}

/// Returns true for what a wrapped agent prints beside its protocol, and for facts of its run:
/// neither a sign of life nor an answer.
fn is_noise(body: &AdapterBody) -> bool {
    let AdapterBody::Log(log) = body else {
        return false;
    };
    matches!(
        log.stream,
        Some(LogStream::Raw | LogStream::Stderr | LogStream::Meta)
    )
}

/// The place of a turn's input in all bytes that were handed to the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputPlace {
    /// The driver has not reported it.
    Unreported,
    /// Written: the input begins at this byte.
    At(u64),
    /// Not handed to a writer, or the writer ended before it.
    Nowhere,
}

/// Parts of a message besides its body: `_meta`, and members in files.
pub(super) type Attached = (Option<Box<Meta>>, Option<Box<Large>>);

/// The origin of a turn's end, besides its cause: a message of the adapter, or the end of its process.
#[derive(Default)]
pub(super) struct EndOrigin<'a> {
    complete: Option<Box<TurnComplete>>,
    attached: Attached,
    process: Option<&'a ProcessEnd>,
}

/// The end of a turn whose input was never written.
pub(super) fn unsent(
    turn: TurnNo,
    cause: Cause,
    failure: Option<&Failure>,
    circumstances: Circumstances<'_>,
) -> TurnEnd {
    let process = circumstances.process;
    TurnEnd {
        turn,
        cause,
        status: host_status(cause),
        complete: None,
        error: error_of(failure, cause, &circumstances),
        delivered: Delivered::No,
        exit: process.map(|process| process.exit),
        stderr_tail: process
            .and_then(|process| process.stderr_tail.as_deref())
            .or(circumstances.stderr_tail)
            .map(str::to_owned),
        took: Duration::ZERO,
    }
}

/// The error of an end: the failure that brought it about, otherwise the host's own. It has a
/// message in any case.
fn error_of(
    failure: Option<&Failure>,
    cause: Cause,
    circumstances: &Circumstances<'_>,
) -> Option<Failure> {
    let own = host_failure(cause, circumstances);
    let Some(mut failure) = failure.cloned() else {
        return own;
    };
    if failure.message.is_none() {
        failure.message = own.and_then(|own| own.message);
    }
    Some(failure)
}

/// The status of a turn that the host ended.
fn host_status(cause: Cause) -> Status {
    match cause {
        Cause::Complete => Status::Completed,
        Cause::StoppedUnsent | Cause::Closed | Cause::Shutdown => Status::Stopped,
        Cause::Limit | Cause::MaxTokens => Status::Limit,
        Cause::Refused => Status::Refused,
        Cause::ProcessExit
        | Cause::EndOfStream
        | Cause::StartTimeout
        | Cause::StartFailed
        | Cause::TurnTimeout
        | Cause::Inactivity
        | Cause::StopUnanswered
        | Cause::SessionClosed
        | Cause::Oversize
        | Cause::ToolLoop => Status::Failed,
    }
}

impl Core {
    /// Stops the running turn, or the one that is named ([turn.4], [turn.9], [turn.11]). If none
    /// runs since the process has yet to start, the first that waits is the one that its user sees
    /// running.
    pub fn handle_stop(
        &mut self,
        key: Key,
        turn: Option<TurnNo>,
        reason: StopReason,
        now: Instant,
    ) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(session) = self.get(index) else {
            return;
        };
        let running = session.running().map(|running| running.no);
        let Some(turn) = turn.or(running).or_else(|| self.first_waiting(index)) else {
            return;
        };
        // A turn that waits ends here. Nothing is left to do of one that has ended.
        if self.unqueue(index, turn, reason) {
            self.flush(index, now);
        } else {
            self.stop_turn(index, turn, None, reason, now);
        }
    }

    /// Asks the running turn to stop, for a limit of the host.
    pub(super) fn stop_running(
        &mut self,
        index: u32,
        by: HostStop,
        reason: StopReason,
        now: Instant,
    ) {
        let running = self.get(index).and_then(|session| session.running());
        if let Some(turn) = running.map(|running| running.no) {
            self.stop_turn(index, turn, Some(by), reason, now);
        }
    }

    /// Asks an open turn to stop; `by` is the limit for which the host does it. `None`: its user does.
    pub(super) fn stop_turn(
        &mut self,
        index: u32,
        turn: TurnNo,
        by: Option<HostStop>,
        reason: StopReason,
        now: Instant,
    ) {
        let offered = self.rules.offered;
        let stop_timeout = self.rules.stop_timeout;
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        let with_turns = session.may_use(Extensions::TURNS, offered);
        let Some(wire) = session.wire.clone() else {
            return;
        };
        let Some(open) = session.open_turn(turn) else {
            return;
        };
        if open.phase != TurnPhase::Running {
            return;
        }
        let Ok(phase) = open.phase.after(TurnStep::Stop) else {
            return;
        };
        open.phase = phase;
        open.stopped_by = by;
        open.stop_reason = Some(reason);
        open.stop_deadline = Some(now + stop_timeout);
        // The turn's end is not held back ([flow.2]).
        self.settle_flow(index, now);
        let stop = Stop {
            reason: with_turns.then_some(reason),
        };
        let message = Envelope::new(wire, stop).of_turn(with_turns.then(|| turn.to_id()).flatten());
        self.effect(Effect::Write {
            key,
            input_of: None,
            message,
        });
        self.deny_requests_of(index, Some(turn), StopReason::Stopped);
        self.arm(index, now);
    }

    /// The adapter's `turn.complete`. One that ends nothing is counted ([turn.9]).
    pub(super) fn complete(
        &mut self,
        index: u32,
        named: Option<TurnNo>,
        complete: Option<Box<TurnComplete>>,
        attached: Attached,
        now: Instant,
    ) {
        let Some(session) = self.get(index) else {
            return;
        };
        let by_id = session.has_agreed(Extensions::TURNS);
        let turn = if by_id {
            named.filter(|named| session.open_turn(*named).is_some())
        } else {
            session.running().map(|running| running.no)
        };
        let Some(turn) = turn else {
            return self.count_of(index, Counter::StrayEnd);
        };
        if let Some(complete) = &complete {
            self.learn(index, complete);
            if let Some(usage) = &complete.usage {
                self.count_tokens(index, Some(turn), usage);
            }
        }
        self.completed_a_turn();
        let end = EndOrigin {
            complete,
            attached,
            process: None,
        };
        self.end_turn(index, turn, Cause::Complete, None, end, now);
        self.flush(index, now);
    }

    /// Ends the running turn without a message of the adapter.
    pub(super) fn end_running(&mut self, index: u32, cause: Cause, now: Instant) {
        let running = self.get(index).and_then(|session| session.running());
        if let Some(turn) = running.map(|running| running.no) {
            self.end_turn(index, turn, cause, None, EndOrigin::default(), now);
        }
    }

    /// Ends all turns whose input was written, in order. `failure` is what brought it about, if that has one.
    pub(super) fn end_open_turns(
        &mut self,
        index: u32,
        cause: Cause,
        failure: Option<&Failure>,
        process: Option<&ProcessEnd>,
        now: Instant,
    ) {
        while let Some(turn) = self
            .get(index)
            .and_then(|session| session.running())
            .map(|running| running.no)
        {
            let end = EndOrigin {
                process,
                ..EndOrigin::default()
            };
            self.end_turn(index, turn, cause, failure, end, now);
        }
    }

    /// Ends an open turn, once. The cause `Complete` yields to the limit for which the host stopped the turn.
    pub(super) fn end_turn(
        &mut self,
        index: u32,
        turn: TurnNo,
        cause: Cause,
        failure: Option<&Failure>,
        end: EndOrigin<'_>,
        now: Instant,
    ) {
        let EndOrigin {
            complete,
            attached: (meta, large),
            process,
        } = end;
        let key = self.key_of(index);
        let is_silent = self.process_is_up() && !self.process.was_heard();
        let limit = self.limit_of(cause);
        let suspended = self.process.suspended;
        let Some(session) = self.get(index) else {
            return;
        };
        let by_id = session.has_agreed(Extensions::TURNS);
        let has_events = session.has_agreed(Extensions::EVENTS);
        let Some((running, was_running)) = session.take_open_turn(turn, now) else {
            return;
        };
        session.add_tokens(running.tokens);
        let next_runs = session.running().is_some();
        self.running_turns -= usize::from(!next_runs);
        self.deny_requests_of(index, Some(turn), StopReason::Stopped);
        if was_running {
            self.settle_steers(index);
        }
        let is_unwritten = running.is_unwritten(process);
        if has_events {
            for tool_call_id in running.open_tools {
                let end = Box::new(ToolEnd {
                    is_error: Some(true),
                    ..ToolEnd::new(tool_call_id)
                });
                self.deliver(index, TurnScope::Running(turn), end.into(), None);
            }
        }
        let answered = running.answered || matches!(cause, Cause::Complete | Cause::Oversize);
        let reported = complete.as_ref().and_then(|complete| complete.status);
        let stop = running.stopped_by.as_ref();
        let cause = match (cause, stop) {
            (Cause::Complete, Some(stop)) => stop.cause,
            (cause, _) => cause,
        };
        let status = match (cause, running.phase) {
            (Cause::Complete, TurnPhase::Stopping) if !by_id => reported.unwrap_or(Status::Stopped),
            (Cause::Complete, _) => reported.unwrap_or(Status::Completed),
            (cause, _) => host_status(cause),
        };
        let mut complete = complete;
        if let (Status::Stopped, Some(reason)) = (status, running.stop_reason) {
            let complete = complete.get_or_insert_default();
            complete
                .stop_reason
                .get_or_insert_with(|| reason.as_str().to_owned());
        }
        let reported = complete.as_ref().and_then(|complete| complete.delivered);
        let delivered = match reported {
            // The host knows better, whatever the adapter reports.
            _ if is_unwritten => Delivered::No,
            Some(delivered) => delivered,
            None if answered => Delivered::Yes,
            None => Delivered::Unknown,
        };
        let own = complete
            .as_ref()
            .and_then(|complete| complete.error.clone());
        let error = match (own, stop) {
            (Some(own), Some(stop)) => Some(stopped_failure(stop, own)),
            (Some(own), None) => Some(own),
            (None, stop) => {
                let circumstances = Circumstances {
                    stop,
                    limit,
                    suspended,
                    process,
                    stderr_tail: None,
                    is_silent,
                    noise: Some(&self.process.noise),
                };
                error_of(failure, cause, &circumstances)
            }
        };
        let end = TurnEnd {
            turn,
            cause,
            status,
            error,
            complete,
            delivered,
            exit: process.map(|process| process.exit),
            stderr_tail: process.and_then(|process| process.stderr_tail.clone()),
            took: if was_running {
                now.saturating_duration_since(running.begun)
            } else {
                Duration::ZERO
            },
        };
        self.effect(Effect::End {
            key,
            end: Box::new(end),
            meta,
            large,
        });
        self.settle_flow(index, now);
        if next_runs {
            self.arm(index, now);
        }
    }

    /// The limit that a cause names by itself.
    pub(super) fn limit_of(&self, cause: Cause) -> Option<Limit> {
        match cause {
            Cause::StartTimeout => Some(Limit::Start(self.rules.start_timeout)),
            Cause::StopUnanswered => Some(Limit::Stop(self.rules.stop_timeout)),
            // A limit that stops a turn is in its `HostStop`.
            Cause::TurnTimeout
            | Cause::Inactivity
            | Cause::Limit
            | Cause::MaxTokens
            | Cause::ToolLoop => None,
            Cause::Complete
            | Cause::StoppedUnsent
            | Cause::ProcessExit
            | Cause::EndOfStream
            | Cause::StartFailed
            | Cause::SessionClosed
            | Cause::Closed
            | Cause::Shutdown
            | Cause::Oversize
            | Cause::Refused => None,
        }
    }

    /// Takes the place at which a turn's input begins in all bytes that were handed to the writer.
    /// `None`: there is no writer, and it will not be written ([process.4]).
    pub fn handle_written_at(&mut self, key: Key, turn: TurnNo, at: Option<u64>) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        if let Some(open) = self.get(index).and_then(|session| session.open_turn(turn)) {
            open.place = at.map_or(InputPlace::Nowhere, InputPlace::At);
        }
    }

    /// Takes note that the process's input is closed when this many of the bytes that were handed
    /// to the writer are written. Inputs behind them are not delivered ([process.4]).
    pub fn handle_input_closed(&mut self, written: u64) {
        for index in self.indices() {
            let session = self.get(index);
            for turn in session.into_iter().flat_map(Session::open_turns_mut) {
                if let InputPlace::At(at) = turn.place
                    && at >= written
                {
                    turn.place = InputPlace::Nowhere;
                }
            }
        }
    }

    /// Returns true if an input was handed to the writer: it may have been delivered.
    #[must_use]
    pub fn was_written(&self, key: Key, turn: TurnNo) -> bool {
        self.index_of(key)
            .and_then(|index| self.sessions.get(index as usize)?.session.as_ref())
            .is_some_and(|session| turn.get() <= session.written)
    }

    /// Takes note of a sign of life, which may belong to a turn; stops a turn that puts out more than it may.
    pub(super) fn hear(
        &mut self,
        index: u32,
        body: &AdapterBody,
        turn: Option<TurnNo>,
        now: Instant,
    ) {
        if is_noise(body) {
            return;
        }
        let limit = self.rules.max_turn_output;
        let Some(session) = self.get(index) else {
            return;
        };
        if let Some(running) = session.running() {
            running.rested_until(now);
        }
        let Some(open) = turn.and_then(|turn| session.open_turn(turn)) else {
            return;
        };
        open.hear(body);
        let turn = open.no;
        if let Some(limit) = limit.filter(|limit| open.output > *limit) {
            let stop = self.stop_at(Cause::Limit, Limit::TurnOutput(limit), None);
            self.stop_turn(index, turn, Some(stop), StopReason::Policy, now);
        }
    }

    /// Answers steers that the ended turn left open.
    fn settle_steers(&mut self, index: u32) {
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return;
        };
        for (_, ticket) in std::mem::take(&mut work.steers) {
            self.effect(Effect::Steered {
                ticket,
                result: Err(crate::SteerError::NoTurn),
            });
        }
    }
}

impl TurnEnd {
    /// The end of a turn whose host was dropped while its input may have been delivered.
    #[must_use]
    pub fn lost(turn: TurnNo) -> Self {
        Self {
            delivered: Delivered::Unknown,
            ..Self::unsent(turn, Cause::Shutdown, None)
        }
    }

    /// The end of a turn whose input did not reach the core, with the failure that kept it away.
    #[must_use]
    pub fn unsent(turn: TurnNo, cause: Cause, failure: Option<&Failure>) -> Self {
        unsent(turn, cause, failure, Circumstances::default())
    }
}
