//! Ends of turns, sessions and processes, as data.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};
use trunkline_protocol::{
    Category, ClosedReason, Delivered, Failure, SessionClosed, Status, StopReason, TurnComplete,
};

use crate::TurnNo;

/// The one end of a turn ([turn.7]).
#[derive(Debug, Clone)]
pub struct TurnEnd {
    /// The number of the turn.
    pub turn: TurnNo,
    /// The cause of the end.
    pub cause: Cause,
    /// The status of the end.
    pub status: Status,
    /// The adapter's `turn.complete`. `None` if the host made the end, or the message has no fields
    /// of its own.
    pub complete: Option<Box<TurnComplete>>,
    /// The failure. `None` if there was none.
    pub error: Option<Failure>,
    /// The delivery of the input to the agent ([process.4]).
    pub delivered: Delivered,
    /// The exit of the adapter's process. `None` unless it ended the turn.
    pub exit: Option<ExitStatus>,
    /// The end of the process's stderr, if the process ended the turn. [`TurnEnd::stderr_lines`] is
    /// an extract of it.
    pub stderr_tail: Option<String>,
    /// The time from the begin of the turn to its end: from its input's write, or from the end of
    /// the turn before it if the input was written ahead of that. Zero if the turn did not begin.
    pub took: Duration,
}

/// The most lines of stderr that [`TurnEnd::stderr_lines`] returns.
pub const MAX_STDERR_LINES: usize = 32;

/// The longest line of stderr that [`TurnEnd::stderr_lines`] returns, in bytes. Longer ones are
/// cut.
pub const MAX_STDERR_LINE_BYTES: usize = 1024;

impl TurnEnd {
    /// Returns true if the turn completed its task.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.status == Status::Completed
    }

    /// Returns the last lines of the process's stderr that are not blank: at most
    /// [`MAX_STDERR_LINES`], each cut at [`MAX_STDERR_LINE_BYTES`].
    #[must_use]
    pub fn stderr_lines(&self) -> Vec<String> {
        let tail = self.stderr_tail.as_deref().unwrap_or_default();
        let mut lines: Vec<String> = tail
            .lines()
            .rev()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .take(MAX_STDERR_LINES)
            .map(|line| line[..line.floor_char_boundary(MAX_STDERR_LINE_BYTES)].to_owned())
            .collect();
        lines.reverse();
        lines
    }
}

/// The cause of a turn's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The adapter sent `turn.complete`.
    Complete,
    /// Stopped before its input was written ([turn.11]).
    StoppedUnsent,
    /// The adapter's process ended.
    ProcessExit,
    /// The adapter's stdout ended while the process lived.
    EndOfStream,
    /// `start_timeout` passed before the process sent a message.
    StartTimeout,
    /// The process could not be started, or failed too often.
    StartFailed,
    /// `turn_timeout` passed.
    TurnTimeout,
    /// `inactivity_timeout` passed.
    Inactivity,
    /// A stop was not answered within `stop_timeout` ([turn.8]).
    StopUnanswered,
    /// The adapter ended the session ([session.8]).
    SessionClosed,
    /// The user closed the session.
    Closed,
    /// The host shuts down.
    Shutdown,
    /// The `turn.complete` was too long for a line, or the input for the adapter.
    Oversize,
    /// `max_turn_output`, `max_output_rate` or the spool's limit was reached.
    Limit,
    /// The agent used as many tokens as the input or the session allows (`max_tokens`).
    MaxTokens,
    /// The agent called the same tools over and over (`tool_loop`).
    ToolLoop,
    /// An option that must be enforced is not ([ext.7]).
    Refused,
}

impl Cause {
    /// The cause as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::StoppedUnsent => "stopped_unsent",
            Self::ProcessExit => "process_exit",
            Self::EndOfStream => "end_of_stream",
            Self::StartTimeout => "start_timeout",
            Self::StartFailed => "start_failed",
            Self::TurnTimeout => "turn_timeout",
            Self::Inactivity => "inactivity_timeout",
            Self::StopUnanswered => "stop_unanswered",
            Self::SessionClosed => "session_closed",
            Self::Closed => "closed",
            Self::Shutdown => "shutdown",
            Self::Oversize => "oversize",
            Self::Limit => "limit",
            Self::MaxTokens => "max_tokens",
            Self::ToolLoop => "tool_loop",
            Self::Refused => "refused",
        }
    }

    /// The error category that reports it on the wire ([ext.6]). `None` if it is no failure.
    #[must_use]
    pub const fn category(self) -> Option<Category> {
        match self {
            Self::Complete | Self::StoppedUnsent | Self::Closed | Self::Shutdown => None,
            Self::ProcessExit | Self::EndOfStream | Self::SessionClosed => {
                Some(Category::ProcessExit)
            }
            Self::StartTimeout | Self::TurnTimeout | Self::Inactivity => Some(Category::Timeout),
            Self::StartFailed => Some(Category::NotInstalled),
            Self::StopUnanswered => Some(Category::StopUnanswered),
            Self::Oversize | Self::Limit => Some(Category::Oversize),
            Self::MaxTokens => Some(Category::UsageLimit),
            Self::ToolLoop => Some(Category::ToolLoop),
            Self::Refused => Some(Category::Protocol),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The end of a process: by itself with a code, or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExitStatus {
    /// Exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (_, Some(signal)) => write!(f, "killed by signal {signal}"),
            (Some(code), None) => write!(f, "exit status {code}"),
            (None, None) => f.write_str("an unknown exit status"),
        }
    }
}

/// The end of a session.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// The reason, as in `session.closed`.
    pub reason: ClosedReason,
    /// The failure. `None` if there was none.
    pub error: Option<Failure>,
}

/// The members of the `turn.complete` that reports it.
impl Serialize for TurnEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TurnComplete::from(self.clone()).serialize(serializer)
    }
}

/// The members of the `session.closed` that reports it.
impl Serialize for SessionEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SessionClosed {
            reason: Some(self.reason),
            error: self.error.clone(),
            cause: None,
        }
        .serialize(serializer)
    }
}

/// The adapter's report of the end, with what the host knows better.
impl From<TurnEnd> for TurnComplete {
    fn from(end: TurnEnd) -> Self {
        let stderr = end.stderr_lines();
        let TurnEnd {
            cause,
            status,
            complete,
            error,
            delivered,
            exit,
            stderr_tail,
            ..
        } = end;
        let mut complete = complete.map(|complete| *complete).unwrap_or_default();
        complete.status = Some(status);
        complete.delivered = Some(delivered);
        complete.error = error.map(|error| with_stderr(error, stderr_tail.as_deref(), stderr));
        if cause != Cause::Complete {
            complete.cause = Some(cause.as_str().to_owned());
        }
        if let Some(exit) = exit {
            (complete.exit_code, complete.signal) = (exit.code, exit.signal);
        }
        if status == Status::Stopped && complete.stop_reason.is_none() && cause == Cause::Shutdown {
            complete.stop_reason = Some(StopReason::Shutdown.as_str().to_owned());
        }
        complete
    }
}

/// Returns the failure with the end of stderr, unless it contains it already.
fn with_stderr(mut error: Failure, tail: Option<&str>, lines: Vec<String>) -> Failure {
    if !lines.is_empty() {
        error.stderr = Some(lines);
    }
    if let Some(tail) = tail {
        let message = error.message.get_or_insert_default();
        if !message.contains(tail) {
            append_stderr(message, tail);
        }
    }
    error
}

/// Appends the end of stderr to a sentence. [`TurnEnd::stderr_tail`] has the same text by itself.
pub(crate) fn append_stderr(sentence: &mut String, tail: &str) {
    if !tail.is_empty() {
        sentence.push_str("; its last words on stderr:\n");
        sentence.push_str(tail);
    }
}

/// The reason of a process's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Ended by itself, or by something besides the host.
    Exit,
    /// Closed its stdout and was ended by the host.
    EndOfStream,
    /// Ended by the host, since no message came within `start_timeout`.
    StartTimeout,
    /// Ended by the host, since its operator restarted the agent.
    Restart,
}

/// The end of a process.
#[derive(Debug, Clone)]
pub struct ProcessEnd {
    /// The reason of the end.
    pub why: Ended,
    /// The status of the end.
    pub exit: ExitStatus,
    /// The number of its processes that were killed because its memory was used up.
    pub memory_kills: u64,
    /// The end of its stderr.
    pub stderr_tail: Option<String>,
    /// The bytes that went into the pipe, of all that was handed to the writer.
    pub written: u64,
}

impl ProcessEnd {
    /// Describes the end for people, as the rest of a sentence about the process.
    #[must_use]
    pub fn how(&self) -> String {
        if self.why == Ended::Restart {
            return "was ended: the agent was restarted".to_owned();
        }
        let how = if self.exit.signal.is_some() {
            "was"
        } else {
            "ended with"
        };
        match self.memory_kills {
            0 => format!("{how} {}", self.exit),
            killed => format!(
                "{how} {}; its memory limit killed {killed} of its processes",
                self.exit
            ),
        }
    }
}
