//! The reasons of ends that the host makes: which limit was reached, by its name in the
//! configuration, and what followed.

use std::{fmt, time::Duration};

use trunkline_protocol::{Category, Failure, format_duration};

use super::{
    Core, OutputRate,
    limits::{LimitSource, TimeLimit},
    process::NoiseLines,
};
use crate::{Cause, ProcessEnd, end::append_stderr};

/// A limit of the configuration, a session or an input. Its text is its name and its value:
/// `turn_timeout of 3 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Start(Duration),
    Turn(TimeLimit),
    Inactivity(TimeLimit),
    Stop(Duration),
    TurnOutput(u64),
    OutputRate(OutputRate),
    ToolLoop,
    Tokens(LimitSource, u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(time) => write!(f, "start_timeout of {}", format_duration(*time)),
            Self::Turn(limit) => limit.write("turn_timeout", f),
            Self::Inactivity(limit) => limit.write("inactivity_timeout", f),
            Self::Stop(time) => write!(f, "stop_timeout of {}", format_duration(*time)),
            Self::TurnOutput(bytes) => write!(f, "max_turn_output of {}", format_bytes(*bytes)),
            Self::OutputRate(rate) => write!(
                f,
                "max_output_rate of {} a second, after output_burst of {},",
                format_bytes(rate.bytes_per_second),
                format_bytes(rate.burst)
            ),
            Self::ToolLoop => f.write_str("tool_loop"),
            Self::Tokens(source, tokens) => write!(f, "{source}max_tokens of {tokens}"),
        }
    }
}

/// The limit for which the host stopped a turn.
#[derive(Debug)]
pub(super) struct HostStop {
    pub(super) cause: Cause,
    /// The limit that was reached, and the circumstances.
    pub(super) reached: String,
}

/// The circumstances of an end that the host makes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Circumstances<'a> {
    /// The stop by the host before the turn ended.
    pub(super) stop: Option<&'a HostStop>,
    /// The limit that ends it now.
    pub(super) limit: Option<Limit>,
    /// A suspended process of the adapter.
    pub(super) suspended: Option<u32>,
    /// The end of the process, if that ended the turn.
    pub(super) process: Option<&'a ProcessEnd>,
    /// The end of the stderr of a process that ended before.
    pub(super) stderr_tail: Option<&'a str>,
    /// True if the process runs and no message of it was read.
    pub(super) is_silent: bool,
    /// Lines of the process before its first message.
    pub(super) noise: Option<&'a NoiseLines>,
}

/// The sentence that names a limit that was reached, and a process that could not act since it was
/// suspended.
pub(super) fn limit_reached(limit: Limit, suspended: Option<u32>) -> String {
    format!("{limit} reached{}", suspended_note(suspended))
}

fn suspended_note(suspended: Option<u32>) -> String {
    suspended.map_or_else(String::new, |pid| {
        format!(
            " while process {pid} of the adapter was suspended (by SIGSTOP, SIGTSTP or a debugger; \
             resume it with `kill -CONT {pid}`)"
        )
    })
}

impl Core {
    /// Returns why the host stops a turn at a limit, with more about it if there is more to know.
    pub(super) fn stop_at(&self, cause: Cause, limit: Limit, more: Option<&str>) -> HostStop {
        let mut reached = limit_reached(limit, self.process.suspended);
        if let Some(more) = more {
            reached.push_str(": ");
            reached.push_str(more);
        }
        HostStop { cause, reached }
    }
}

/// Returns the failure that a person reads of an end that the host made. `None` if the cause is no
/// failure.
pub(super) fn host_failure(cause: Cause, circumstances: &Circumstances<'_>) -> Option<Failure> {
    let Circumstances {
        stop,
        limit,
        suspended,
        process,
        stderr_tail: _,
        is_silent,
        noise,
    } = circumstances;
    let category = match cause {
        Cause::SessionClosed => Category::Other,
        cause => cause.category()?,
    };
    let followed = match cause {
        Cause::Complete | Cause::StoppedUnsent | Cause::Closed | Cause::Shutdown => return None,
        Cause::ProcessExit => process.map_or_else(
            || "the adapter's process ended".to_owned(),
            |process| format!("the adapter's process {}", process.how()),
        ),
        Cause::EndOfStream => "the adapter closed its output".to_owned(),
        Cause::StartTimeout if process.is_some() => "the adapter was ended".to_owned(),
        Cause::StartTimeout => "the adapter did not start".to_owned(),
        Cause::StartFailed => "the adapter could not be started".to_owned(),
        Cause::TurnTimeout => "the turn was stopped".to_owned(),
        Cause::Inactivity => "no message of this session came, and the turn was stopped".to_owned(),
        Cause::StopUnanswered => "the agent did not stop".to_owned(),
        Cause::SessionClosed => "the adapter closed the session".to_owned(),
        Cause::Oversize => {
            "the end of the turn was longer than a line may be (`max_line`)".to_owned()
        }
        Cause::Limit => {
            "the turn put out more than it may and was stopped; raise the limit if it may"
                .to_owned()
        }
        Cause::ToolLoop | Cause::MaxTokens => "the turn was stopped".to_owned(),
        Cause::Refused => "the adapter does not enforce what was asked".to_owned(),
    };
    let mut text = String::new();
    if let Some(stop) = stop {
        text.push_str(&stop.reached);
        text.push_str("; ");
    }
    match limit {
        // The limit is the time that the agent had to stop.
        Some(limit) if cause == Cause::StopUnanswered => {
            text.push_str(&format!("{followed} within {limit}"));
            if stop.is_none() {
                text.push_str(&suspended_note(*suspended));
            }
        }
        Some(limit) => {
            text.push_str(&format!(
                "{}; {followed}",
                limit_reached(*limit, *suspended)
            ));
        }
        None => text.push_str(&followed),
    }
    let was_unread = match cause {
        Cause::StartTimeout => process.is_some(),
        Cause::TurnTimeout | Cause::StopUnanswered => *is_silent,
        _ => false,
    };
    if was_unread && let Some(noise) = noise {
        text.push_str(&noise.hint());
    }
    if let Some(tail) = process.and_then(|process| process.stderr_tail.as_deref()) {
        append_stderr(&mut text, tail);
    }
    Some(Failure::new(category, text))
}

/// Returns the failure of a turn that the host stopped and that the agent then ended with a failure
/// of its own.
pub(super) fn stopped_failure(stop: &HostStop, mut own: Failure) -> Failure {
    let ended = match own.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => format!("{}; the agent ended the turn: {message}", stop.reached),
        None => format!("{}; the agent ended the turn", stop.reached),
    };
    own.message = Some(ended);
    own.category = stop.cause.category();
    own
}

/// Formats a number of bytes for people.
fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = UNITS
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}
