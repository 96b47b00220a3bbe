//! The end of a turn: the signs of it that an agent gives, and the one judgement of them. Pure.
//!
//! Every agent feeds one [`EndSigns`], and [`EndSigns::judge`] decides for all of them. A turn is
//! completed only if no sign contradicts. Silence is no failure by itself ([turn.1]); beside
//! another bad sign it is.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use trunkline_sdk::protocol::{AdapterBody, Delivered, Failure};
use trunkline_sdk::{Category, Channel, Error, Status, TurnComplete};

use super::failure;
use super::process::ProcessEnd;

/// The most open tool calls that are remembered.
const MAX_OPEN_CALLS: usize = 4096;

/// The longest reason that is passed on, in characters.
const MAX_REASON_CHARS: usize = 100;

/// Ends whose reason this version does not know.
static UNKNOWN_REASONS: AtomicU64 = AtomicU64::new(0);

/// The end of a turn, by all of its signs.
#[derive(Debug)]
pub(crate) enum TurnEnd {
    /// The agent works on: a retry or a compaction is pending, or nothing has ended yet.
    NotOver,
    /// The turn has completed, for the agent's own reason.
    Completed(Option<String>),
    /// The turn has failed, was stopped or refused, or has reached a limit.
    Ended(Error),
}

impl TurnEnd {
    /// Completes the message of a turn that ended so.
    pub(crate) fn complete(self, end: TurnComplete) -> TurnComplete {
        let error = match self {
            Self::Completed(reason) => {
                return TurnComplete {
                    status: Some(Status::Completed),
                    stop_reason: end.stop_reason.or(reason),
                    ..end
                };
            }
            Self::Ended(error) => error,
            Self::NotOver => Error::new(Category::Timeout, "the agent did not end its turn"),
        };
        let TurnComplete { status, error, .. } = end_by(&error);
        TurnComplete {
            status,
            error,
            ..end
        }
    }
}

/// Work that keeps a turn open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PendingWork {
    /// The agent asks its model again.
    Retry,
    /// The agent makes room in its context.
    Compaction,
    /// A compaction has made room for another attempt, which has not begun.
    Continuation,
}

/// The agent's own report of the end.
#[derive(Debug, Default)]
enum EndReport {
    /// There is none.
    #[default]
    Missing,
    Success,
    Failure(Error),
    /// The exit of the process is the only one.
    Exit,
}

/// The last step of the model.
#[derive(Debug, Default)]
enum ModelStep {
    /// The agent reports none.
    #[default]
    Unknown,
    Open,
    /// Ended, for this reason in the agent's words; empty if the agent gives none.
    Ended(String),
}

/// Everything about a turn that bears on how it ended, collected while it runs.
#[derive(Debug, Default)]
pub(crate) struct EndSigns {
    report: EndReport,
    step: ModelStep,
    /// The reason for an early end.
    cut: Option<Error>,
    /// The end of the process, when it ended with the turn.
    exit: Option<ProcessEnd>,
    /// An error event that no success of the same work has followed.
    error: Option<Error>,
    /// A problem that matters only if the turn has no answer.
    doubt: Option<Error>,
    pending: HashSet<PendingWork>,
    open_calls: HashSet<String>,
    has_worked: bool,
    /// Text has come since the last tool call or step began.
    has_answer: bool,
    /// The user has denied a call, which the agent need not comment.
    was_denied: bool,
}

impl EndSigns {
    /// Notes an event of the turn: pieces of the answer, and tool calls of the agent itself.
    pub(crate) fn note_event(&mut self, event: &AdapterBody) {
        match event {
            AdapterBody::Output(output)
                if *output.channel() == Channel::Stdout
                    && output.parent_tool_call_id.is_none()
                    && !output.content.trim().is_empty() =>
            {
                self.note_answer();
            }
            AdapterBody::ToolStart(start) if start.parent_tool_call_id.is_none() => {
                self.open_call(start.tool_call_id.as_str());
            }
            AdapterBody::ToolEnd(end) if end.parent_tool_call_id.is_none() => {
                self.open_calls.remove(end.tool_call_id.as_str());
                if end.is_error == Some(true) {
                    let text = end.content.as_deref().unwrap_or("no reason is given");
                    let text = format!("a tool failed, and no answer followed: {text}");
                    self.doubt(Error::new(
                        failure::classify(&text, None),
                        failure::message(&text),
                    ));
                }
            }
            AdapterBody::Thinking(_) => self.note_success(),
            _ => {}
        }
    }

    /// A piece of the answer has come.
    pub(crate) fn note_answer(&mut self) {
        (self.has_answer, self.doubt) = (true, None);
        self.note_success();
    }

    /// The user has denied a tool call: silence after it is an answer.
    pub(crate) fn note_denial(&mut self) {
        self.was_denied = true;
    }

    /// The model has asked for a tool call, which its end closes.
    pub(crate) fn open_call(&mut self, id: &str) {
        self.has_answer = false;
        if self.open_calls.len() < MAX_OPEN_CALLS {
            self.open_calls.insert(id.to_owned());
        }
        self.note_success();
    }

    /// A step of the model begins.
    pub(crate) fn begin_step(&mut self) {
        (self.step, self.has_answer, self.has_worked) = (ModelStep::Open, false, true);
    }

    /// A step of the model has ended, for this reason in the agent's words.
    pub(crate) fn end_step(&mut self, reason: &str) {
        self.step = ModelStep::Ended(reason.chars().take(MAX_REASON_CHARS).collect());
        self.has_worked = true;
        if matches!(
            StepEnd::from_reason(reason),
            StepEnd::Finished | StepEnd::InWork
        ) {
            self.note_success();
        }
    }

    /// Notes an error event. It counts unless a success of the same work follows.
    pub(crate) fn note_error(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// The work that an earlier error was about has succeeded.
    pub(crate) fn note_success(&mut self) {
        (self.error, self.has_worked) = (None, true);
        self.pending.remove(&PendingWork::Retry);
    }

    /// Notes a problem that counts only if no answer follows.
    pub(crate) fn doubt(&mut self, error: Error) {
        self.doubt = Some(error);
    }

    /// Notes a line that is not an event. One that begins as an event is broken: what it had is lost.
    pub(crate) fn note_noise(&mut self, line: &[u8]) {
        if line.trim_ascii_start().starts_with(b"{") {
            let text = "a line of the agent is broken JSON, and no answer followed";
            self.doubt(Error::new(Category::Protocol, text));
        }
    }

    /// Notes whether this work keeps the turn open.
    pub(crate) fn set_pending(&mut self, work: PendingWork, is_pending: bool) {
        if is_pending {
            self.pending.insert(work);
        } else {
            self.pending.remove(&work);
        }
    }

    /// Returns true if a retry or a compaction keeps the turn open.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The agent reports the end of the turn.
    pub(crate) fn report(&mut self, report: Result<(), Error>) {
        self.report = match report {
            Ok(()) => EndReport::Success,
            Err(error) => EndReport::Failure(error),
        };
    }

    /// The agent reports the end of a turn by nothing but its exit.
    pub(crate) fn report_by_exit(&mut self) {
        self.report = EndReport::Exit;
    }

    /// The process has ended with the turn.
    pub(crate) fn exit(&mut self, ended: &ProcessEnd) {
        self.exit = Some(ended.clone());
    }

    /// This side has ended the turn early.
    pub(crate) fn cut(&mut self, why: Option<Error>) {
        self.cut = why;
    }

    /// The last error event that counts, if there is one.
    pub(crate) fn last_error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Judges the end of the turn.
    pub(crate) fn judge(mut self) -> TurnEnd {
        let is_reported = !matches!(self.report, EndReport::Missing);
        let has_succeeded = matches!(self.report, EndReport::Success);
        match self.cut.take() {
            // What was complete before the stop reached the agent stays so.
            Some(stop) if stop.status() == Status::Stopped && has_succeeded => {
                match self.judge_signs() {
                    TurnEnd::Ended(_) => TurnEnd::Ended(stop),
                    end => end,
                }
            }
            Some(why) => TurnEnd::Ended(why),
            None if self.exit.is_none() && (self.is_pending() || !is_reported) => TurnEnd::NotOver,
            None => self.judge_signs(),
        }
    }

    fn judge_signs(self) -> TurnEnd {
        if let EndReport::Failure(error) = self.report {
            return TurnEnd::Ended(error);
        }
        if let Some(error) = self.error {
            return TurnEnd::Ended(error);
        }
        if let Some(ended) = &self.exit {
            let is_reported = match self.report {
                EndReport::Missing => false,
                EndReport::Exit => self.has_worked && ended.exit.success(),
                EndReport::Success | EndReport::Failure(_) => true,
            };
            let is_failure = !ended.is_forced && ended.exit.code.is_some_and(|code| code != 0);
            if !is_reported || is_failure {
                return TurnEnd::Ended(ended.error());
            }
        }
        let unfinished = |what: &str| {
            TurnEnd::Ended(Error::other(format!(
                "the agent ended the turn in its work: {what}"
            )))
        };
        if !self.pending.is_empty() {
            return unfinished("another attempt was pending");
        }
        let reason = match &self.step {
            ModelStep::Ended(reason) => reason.as_str(),
            ModelStep::Unknown | ModelStep::Open => "",
        };
        match StepEnd::from_reason(reason) {
            StepEnd::InWork => return unfinished(&format!("its last step ended for {reason:?}")),
            StepEnd::Aborted => return TurnEnd::Ended(Error::stopped()),
            StepEnd::Refused => {
                return TurnEnd::Ended(Error::refused("the model declined to answer"));
            }
            StepEnd::Limit(category, text) => return TurnEnd::Ended(Error::limit(category, text)),
            StepEnd::CutOff => {
                let text = "the model's stream broke off; the answer is not whole";
                return TurnEnd::Ended(Error::new(Category::Overloaded, text));
            }
            StepEnd::Unknown if !self.has_answer => {
                let text = format!("the agent ended the turn without an answer, for {reason:?}");
                return TurnEnd::Ended(Error::other(text).code(reason));
            }
            StepEnd::Unknown => {
                let count = UNKNOWN_REASONS.fetch_add(1, Ordering::Relaxed) + 1;
                tracing::warn!(
                    reason,
                    count,
                    "a turn completed for a reason that is not known here"
                );
            }
            StepEnd::Finished => {}
        }
        if !self.has_answer && !self.was_denied {
            if let Some(doubt) = self.doubt {
                return TurnEnd::Ended(doubt);
            }
            if matches!(self.step, ModelStep::Open) {
                return unfinished("its last step did not end");
            }
            if !self.open_calls.is_empty() {
                return unfinished("a tool call did not end");
            }
        }
        TurnEnd::Completed(Some(reason.to_owned()).filter(|reason| !reason.is_empty()))
    }
}

/// The meaning of the reason for which a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepEnd {
    Finished,
    /// A tool was to run, and the model to be asked again.
    InWork,
    CutOff,
    Aborted,
    Refused,
    Limit(Category, &'static str),
    Unknown,
}

impl StepEnd {
    /// Reads a reason, in the words of any agent.
    fn from_reason(reason: &str) -> Self {
        let output = "the model has reached its output limit";
        match reason {
            "" | "completed" | "end_turn" | "stop" | "stop_sequence" => Self::Finished,
            "pause_turn" | "tool-calls" | "toolUse" | "tool_calls" | "tool_use" => Self::InWork,
            "error" | "other" | "unknown" => Self::CutOff,
            "aborted" | "cancelled" => Self::Aborted,
            "content-filter" | "content_filter" | "refusal" => Self::Refused,
            "length" | "max_tokens" => Self::Limit(Category::ContextExhausted, output),
            "model_context_window_exceeded" => {
                Self::Limit(Category::ContextExhausted, "the model's context is full")
            }
            "max_turn_requests" => Self::Limit(
                Category::MaxTurns,
                "the model was asked as often as it may be in one turn",
            ),
            _ => Self::Unknown,
        }
    }
}

/// Returns true if a step that ended for this reason has no whole answer.
pub(crate) fn is_cut_off(reason: &str) -> bool {
    StepEnd::from_reason(reason) == StepEnd::CutOff
}

/// The message that ends a turn by an error. A stop has no failure.
pub(crate) fn end_by(error: &Error) -> TurnComplete {
    let failure = error.failure().clone();
    TurnComplete {
        status: Some(error.status()),
        error: (failure != Failure::default()).then_some(failure),
        ..TurnComplete::default()
    }
}

/// The message that ends a turn whose input was not written to the agent.
pub(crate) fn undelivered(error: &Error) -> TurnComplete {
    TurnComplete {
        delivered: Some(Delivered::No),
        ..end_by(error)
    }
}

/// Adds to a deadline what the agent reported last: its last error event and the end of its stderr.
/// The category is the one that they name.
pub(crate) fn explain_timeout(timeout: Error, last_error: Option<&Error>, stderr: &str) -> Error {
    if timeout.failure().category != Some(Category::Timeout) {
        return timeout;
    }
    let stderr = super::process::last_lines(stderr);
    let named = last_error
        .and_then(|error| error.failure().category)
        .filter(|category| *category != Category::Other);
    let category = named.unwrap_or_else(|| match failure::classify(&stderr, None) {
        Category::Other => Category::Timeout,
        category => category,
    });
    let mut text = timeout.to_string();
    if let Some(error) = last_error {
        text.push_str(&format!("; its last error: {error}"));
    }
    if !stderr.is_empty() {
        text.push_str(&format!("; its stderr: {stderr}"));
    }
    failure::with_category(category, text, None)
}

#[cfg(test)]
mod tests;
