//! Ends of turns, requests and sessions.

use serde_json::value::RawValue;

use super::{Usage, names, objects};
use crate::{
    Json,
    field::{Member, Why},
};

/// The most lines in [`Failure::stderr`]; a reader keeps the last ones.
pub const MAX_FAILURE_LINES: usize = 32;

/// The longest line in [`Failure::stderr`], in bytes; a reader keeps its beginning.
pub const MAX_FAILURE_LINE: usize = 1024;

objects! {
    /// The failure.
    #[derive(Default)]
    pub struct Failure {
        /// The kind of failure ([ext.6]).
        pub category: Option<Category>,
        /// The text for a person.
        pub message: Option<String>,
        /// The agent's own code.
        pub code: Option<String>,
        /// When trying again makes sense, RFC 3339.
        pub retry_at: Option<String>,
        /// The last lines of the process's standard error, redacted: at most 32 of at most 1 KiB.
        pub stderr: Option<Vec<String>> = last_lines,
    }

    /// Ends a turn: the one answer to its `user.input` ([turn.1]). Without fields it has completed.
    #[derive(Default)]
    pub struct TurnComplete {
        /// The status; absent: completed (`turns`).
        pub status: Option<Status>,
        /// Reason in the agent's words, or the reason of the `stop` (`turns`).
        pub stop_reason: Option<String>,
        /// The failure (`turns`).
        pub error: Option<Failure>,
        /// The cause of an end that the host made, such as `turn_timeout`; absent: the adapter ended the turn
        /// (`turns`). Later versions add names.
        pub cause: Option<String>,
        /// The delivery of the input to the agent (`turns`).
        pub delivered: Option<Delivered>,
        /// The exit code of a process that ended the turn by ending (`turns`).
        pub exit_code: Option<i32>,
        /// The signal that ended it (`turns`).
        pub signal: Option<i32>,
        /// A summary of the work, in a few words (`turns`).
        pub summary: Option<String>,
        /// The results, as the agent names them (`turns`).
        pub artifacts: Option<Json>,
        /// The answer as data (`turns`).
        pub result: Option<Json>,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The time that it took, in milliseconds (`turns`).
        pub duration_ms: Option<u64>,
        /// The number of requests to the model (`turns`).
        pub num_turns: Option<u64>,
        /// The model (`turns`).
        pub model: Option<String>,
        /// Provider of the model (`turns`).
        pub provider: Option<String>,
        /// The usage, with scope `turn` (`usage`).
        pub usage: Option<Usage>,
        /// The agent's own id of the session (`resume`).
        pub native_session_id: Option<String>,
        /// The `resume.params` to resume from here (`resume`).
        pub session_params: Option<Json>,
        /// True if the state to resume from is no longer valid (`resume`).
        pub clear_session: Option<bool>,
    }

    /// The adapter ends the session; its last message of the id ([session.8]).
    #[derive(Default)]
    pub struct SessionClosed {
        /// Reason.
        pub reason: Option<ClosedReason>,
        /// The failure.
        pub error: Option<Failure>,
        /// The cause of an end that the host made, as in `turn.complete`.
        pub cause: Option<String>,
    }

    /// The answer to a steer: did it reach the running turn? ([turn.10]).
    #[derive(Default)]
    pub struct SteerResult {
        /// The input that is meant.
        pub message_id: Option<crate::MessageId>,
        /// True if it did.
        pub delivered: bool,
        /// Reason why not.
        pub reason: Option<String>,
    }
}

names! {
    /// The status of a turn's end.
    pub enum Status {
        /// The task is complete.
        Completed = "completed",
        /// By `stop`, or since the host shuts down.
        Stopped = "stopped",
        /// Something went wrong.
        Failed = "failed",
        /// The model or agent declined.
        Refused = "refused",
        /// Turns, tokens or budget were used up.
        Limit = "limit",
    }

    /// The delivery of an input to the agent.
    pub enum Delivered {
        /// The adapter answered something of that turn.
        Yes = "yes",
        /// Not written.
        No = "no",
        /// Written, without any reply.
        Unknown = "unknown",
    }

    /// Reason why an adapter ended a session.
    pub enum ClosedReason {
        /// There is nothing more to do.
        Finished = "finished",
        /// The session cannot continue.
        Failed = "failed",
        /// The adapter does not accept this session.
        Refused = "refused",
        /// There is no agent of that id ([relay.1]).
        UnknownAgent = "unknown_agent",
        /// A limit is reached.
        Limit = "limit",
        /// The host speaks a version that it cannot serve ([ext.2]).
        Protocol = "protocol",
        /// The adapter shuts down.
        Shutdown = "shutdown",
    }

    /// The kind of a failure ([ext.6]).
    pub enum Category {
        /// A deadline passed.
        Timeout = "timeout",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// The model's context is full.
        ContextExhausted = "context_exhausted",
        /// The most turns were taken.
        MaxTurns = "max_turns",
        /// Asked too often.
        RateLimit = "rate_limit",
        /// A quota is used up.
        UsageLimit = "usage_limit",
        /// Credentials are missing or wrong.
        Auth = "auth",
        /// A payment is due.
        Billing = "billing",
        /// The provider is overloaded.
        Overloaded = "overloaded",
        /// There is no such model.
        ModelNotFound = "model_not_found",
        /// There is no such session to resume.
        SessionNotFound = "session_not_found",
        /// A permission was denied.
        PermissionDenied = "permission_denied",
        /// The same tool call over and over.
        ToolLoop = "tool_loop",
        /// The agent's program is not there.
        NotInstalled = "not_installed",
        /// The peer broke the protocol.
        Protocol = "protocol",
        /// The process ended.
        ProcessExit = "process_exit",
        /// The host ended, and another one has its journal.
        HostRestart = "host_restart",
        /// A file was not taken.
        FileRefused = "file_refused",
        /// A line or an output was too large.
        Oversize = "oversize",
        /// A queue is full.
        Busy = "busy",
        /// A stop was not answered.
        StopUnanswered = "stop_unanswered",
        /// Anything else.
        Other = "other",
    }
}

/// Keeps the last lines, each up to its bound.
fn last_lines(raw: Option<&RawValue>) -> Result<Option<Vec<String>>, Why> {
    let mut lines: Option<Vec<String>> = Member::read(raw)?;
    if let Some(lines) = &mut lines {
        lines.drain(..lines.len().saturating_sub(MAX_FAILURE_LINES));
        for line in lines {
            line.truncate(line.floor_char_boundary(MAX_FAILURE_LINE));
        }
    }
    Ok(lines)
}

impl Failure {
    /// Creates a failure of this kind with a message.
    #[must_use]
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self {
            category: Some(category),
            message: Some(message.into()),
            ..Self::default()
        }
    }
}

impl TurnComplete {
    /// The status of the turn's end; an absent one means completed.
    #[must_use]
    pub fn status_or_completed(&self) -> Status {
        self.status.unwrap_or(Status::Completed)
    }
}
