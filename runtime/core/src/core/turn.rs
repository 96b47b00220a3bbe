//! The running turn of a session: what it has had, when it is due, how it ends ([turn.*]).

use std::time::Instant;

use trunkline_protocol::{
    AdapterBody, Category, Delivered, Envelope, Extensions, Failure, Large, Meta, Status, Stop,
    StopReason, ToolCallId, ToolEnd, TurnComplete,
    rules::{TurnPhase, TurnStep},
};

use super::{Core, Counter, Effect, Key, Reader};
use crate::{Cause, ProcessEnd, TurnEnd, TurnNo, TurnScope};

/// How many open tool calls of a turn are remembered, so that the host can close what the adapter leaves open.
const OPEN_TOOLS: usize = 256;

/// A turn whose input was written and that has not ended.
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
/// A queued turn is a `Queued::Input`; `phase` distinguishes the other two.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) no: TurnNo,
    phase: TurnPhase,
    /// When its input was handed to the writer.
    pub(super) begun: Instant,
    /// Where its input begins in all that was ever handed to the writer, in bytes.
    at: Option<u64>,
    /// Whether the adapter said anything of it.
    answered: bool,
    pub(super) last_heard: Instant,
    /// When it is to be stopped.
    pub(super) deadline: Option<Instant>,
    /// When its stop counts as unanswered.
    pub(super) stop_deadline: Option<Instant>,
    /// Why it was stopped, where that was not its user.
    stopped_by: Option<Cause>,
    stop_reason: Option<StopReason>,
    /// What its user reads of that, besides the cause.
    pub(super) why: Option<String>,
    /// Whether its user has learnt of the present silence.
    pub(super) stalled: bool,
    /// Whether it waits for its session's rate.
    pub(super) over_rate: bool,
    /// Bytes that came since the adapter was asked to hold it back.
    pub(super) held_bytes: u64,
    /// Who has much of it to read, if anyone.
    pub(super) unread: Option<Reader>,
    output: u64,
    open_tools: Vec<ToolCallId>,
}

impl Running {
    pub(super) fn begin(no: TurnNo, deadline: Option<Instant>, now: Instant) -> Self {
        Self {
            no,
            phase: TurnPhase::Running,
            begun: now,
            at: None,
            answered: false,
            last_heard: now,
            deadline,
            stop_deadline: None,
            stopped_by: None,
            stop_reason: None,
            why: None,
            stalled: false,
            over_rate: false,
            held_bytes: 0,
            unread: None,
            output: 0,
            open_tools: Vec::new(),
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

    /// Takes note that the adapter said something of it.
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

/// What a message carries besides its body: `_meta`, and members that lie in files.
pub(super) type Attached = (Option<Box<Meta>>, Option<Box<Large>>);

/// The end of a turn whose input was never written.
pub(super) fn unsent(
    turn: TurnNo,
    cause: Cause,
    failure: Option<&Failure>,
    end: Option<&ProcessEnd>,
) -> TurnEnd {
    TurnEnd {
        turn,
        cause,
        status: host_status(cause),
        complete: None,
        error: failure
            .cloned()
            .or_else(|| host_failure(cause, end, false, None)),
        delivered: Delivered::No,
        exit: end.map(|end| end.exit),
        stderr_tail: end.and_then(|end| end.stderr_tail.clone()),
        took: std::time::Duration::ZERO,
    }
}

/// How a turn ended that the host ended.
fn host_status(cause: Cause) -> Status {
    match cause {
        Cause::Complete => Status::Completed,
        Cause::StoppedUnsent | Cause::Closed | Cause::Shutdown => Status::Stopped,
        Cause::Limit => Status::Limit,
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

/// What an author looks at first when no message came: most runtimes buffer a pipe.
const UNREAD: &str = "; no message was read from its stdout: is each line flushed?";

/// What a person reads of an end that the host made, with the reason where the cause has one. `silent`: the process runs, and
/// no message of it was read.
fn host_failure(
    cause: Cause,
    end: Option<&ProcessEnd>,
    silent: bool,
    why: Option<&str>,
) -> Option<Failure> {
    let category = cause.category()?;
    let exit = || end.map_or_else(|| "ended".to_owned(), ProcessEnd::how);
    let mut text = match cause {
        Cause::Complete | Cause::StoppedUnsent | Cause::Closed | Cause::Shutdown => return None,
        Cause::ProcessExit => format!("the adapter's process {}", exit()),
        Cause::EndOfStream => "the adapter closed its output".to_owned(),
        Cause::StartTimeout => "the adapter said nothing within `start_timeout`".to_owned(),
        Cause::StartFailed => "the adapter could not be started".to_owned(),
        Cause::TurnTimeout => "the turn took longer than `turn_timeout`".to_owned(),
        Cause::Inactivity => {
            "the adapter said nothing of this session for `inactivity_timeout`".to_owned()
        }
        Cause::StopUnanswered => "the adapter did not stop within `stop_timeout`".to_owned(),
        Cause::SessionClosed => "the adapter ended the session".to_owned(),
        Cause::Oversize => {
            "the end of the turn was longer than a line may be (`max_line`)".to_owned()
        }
        Cause::Limit => "the turn put out more than it may".to_owned(),
        Cause::ToolLoop => "the agent goes in circles (`tool_loop`)".to_owned(),
        Cause::Refused => "the adapter does not enforce what was asked".to_owned(),
    };
    if let Some(why) = why {
        text.push_str(": ");
        text.push_str(why);
    }
    let was_late = matches!(cause, Cause::TurnTimeout | Cause::StopUnanswered);
    if cause == Cause::StartTimeout || silent && was_late {
        text.push_str(UNREAD);
    }
    if let Some(tail) = end.and_then(|end| end.stderr_tail.as_deref())
        && !tail.is_empty()
    {
        text.push_str("; its last words on stderr:\n");
        text.push_str(tail);
    }
    let category = if cause == Cause::SessionClosed {
        Category::Other
    } else {
        category
    };
    Some(Failure::new(category, text))
}

impl Core {
    /// Stops the running turn, or the one that is named ([turn.4], [turn.9], [turn.11]). Where none runs since the
    /// process has yet to start, the first that waits is the one that its user sees running.
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
        let running = self
            .get(index)
            .and_then(|session| session.running())
            .map(|running| running.no);
        match turn.or(running).or_else(|| self.first_waiting(index)) {
            Some(turn) if Some(turn) == running => self.stop_running(index, None, reason, now),
            // Waiting: it ends here. Ended already: nothing happens.
            Some(turn) if self.unqueue(index, turn, reason) => self.flush(index, now),
            Some(_) | None => {}
        }
    }

    /// Tells the running turn to stop; `by` is what ends it then, where that is not its user.
    pub(super) fn stop_running(
        &mut self,
        index: u32,
        by: Option<Cause>,
        reason: StopReason,
        now: Instant,
    ) {
        let (offered, stop_timeout) = (self.rules.offered, self.rules.stop_timeout);
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        let with_turns = session.may_use(Extensions::TURNS, offered);
        let Some(wire) = session.wire.clone() else {
            return;
        };
        let Some(running) = session.running() else {
            return;
        };
        if running.phase != TurnPhase::Running {
            return;
        }
        let Ok(phase) = running.phase.after(TurnStep::Stop) else {
            return;
        };
        running.phase = phase;
        running.stopped_by = by;
        running.stop_reason = Some(reason);
        running.stop_deadline = Some(now + stop_timeout);
        let turn = running.no;
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
        (meta, large): Attached,
        now: Instant,
    ) {
        let Some(session) = self.get(index) else {
            return;
        };
        let by_id = session.has_agreed(Extensions::TURNS);
        let running = session.running().map(|running| running.no);
        if running.is_none() || (by_id && named != running) {
            return self.count_of(index, Counter::StrayEnd);
        }
        if let Some(complete) = &complete {
            self.learn(index, complete);
        }
        self.completed_a_turn();
        self.end_turn(index, Cause::Complete, complete, (meta, large), None, now);
        self.flush(index, now);
    }

    /// Ends the running turn without a word of the adapter's.
    pub(super) fn end_running(
        &mut self,
        index: u32,
        cause: Cause,
        process: Option<&ProcessEnd>,
        now: Instant,
    ) {
        self.end_turn(index, cause, None, (None, None), process, now);
    }

    /// Ends the running turn, once. `cause` yields to why it was stopped.
    fn end_turn(
        &mut self,
        index: u32,
        cause: Cause,
        complete: Option<Box<TurnComplete>>,
        (meta, large): Attached,
        process: Option<&ProcessEnd>,
        now: Instant,
    ) {
        let key = self.key_of(index);
        let silent = self.process_is_up() && !self.process.was_heard();
        let Some(session) = self.get(index) else {
            return;
        };
        let by_id = session.has_agreed(Extensions::TURNS);
        let has_events = session.has_agreed(Extensions::EVENTS);
        let Some(running) = session.work.as_mut().and_then(|work| work.running.take()) else {
            return;
        };
        let turn = running.no;
        self.deny_requests_of(index, Some(turn), StopReason::Stopped);
        self.settle_steers(index);
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
        let said = complete.as_ref().and_then(|complete| complete.status);
        let cause = if cause == Cause::Complete {
            running.stopped_by.unwrap_or(cause)
        } else {
            cause
        };
        let status = match (cause, running.phase) {
            (Cause::Complete, TurnPhase::Stopping) if !by_id => said.unwrap_or(Status::Stopped),
            (Cause::Complete, _) => said.unwrap_or(Status::Completed),
            (cause, _) => host_status(cause),
        };
        let mut complete = complete;
        if let (Status::Stopped, Some(reason)) = (status, running.stop_reason) {
            let complete = complete.get_or_insert_default();
            complete
                .stop_reason
                .get_or_insert_with(|| reason.as_str().to_owned());
        }
        let delivered = match (
            complete.as_ref().and_then(|complete| complete.delivered),
            process,
        ) {
            (Some(delivered), _) => delivered,
            (None, _) if answered => Delivered::Yes,
            (None, None) => Delivered::Unknown,
            (None, Some(process)) => {
                let written = running.at.is_none_or(|at| at < process.written);
                if written {
                    Delivered::Unknown
                } else {
                    Delivered::No
                }
            }
        };
        let end = TurnEnd {
            turn,
            cause,
            status,
            error: complete
                .as_ref()
                .and_then(|complete| complete.error.clone())
                .or_else(|| host_failure(cause, process, silent, running.why.as_deref())),
            complete,
            delivered,
            exit: process.map(|process| process.exit),
            stderr_tail: process.and_then(|process| process.stderr_tail.clone()),
            took: now.saturating_duration_since(running.begun),
        };
        self.effect(Effect::End {
            key,
            end: Box::new(end),
            meta,
            large,
        });
        self.settle_flow(index, now);
    }

    /// Takes the place of the running turn's input in all that was handed to the writer.
    pub fn handle_written_at(&mut self, key: Key, turn: TurnNo, at: u64) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        if let Some(running) = self.get(index).and_then(|session| session.running())
            && running.no == turn
        {
            running.at = Some(at);
        }
    }

    /// Takes note of a sign of life; stops a turn that puts out more than it may.
    pub(super) fn hear(&mut self, index: u32, body: &AdapterBody, in_turn: bool, now: Instant) {
        let limit = self.rules.max_turn_output;
        let Some(running) = self.get(index).and_then(|session| session.running()) else {
            return;
        };
        running.rested_until(now);
        if !in_turn {
            return;
        }
        running.hear(body);
        if limit.is_some_and(|limit| running.output > limit) {
            self.stop_running(index, Some(Cause::Limit), StopReason::Policy, now);
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
    /// The end of a turn whose link is gone without a word: the host itself was dropped.
    #[must_use]
    pub fn lost(turn: TurnNo) -> Self {
        Self::unsent(turn, Cause::Shutdown)
    }

    /// The end of a turn that the core never saw.
    #[must_use]
    pub fn unsent(turn: TurnNo, cause: Cause) -> Self {
        unsent(turn, cause, None, None)
    }
}
