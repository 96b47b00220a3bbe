//! Health of an agent: its process, its figures, and a verdict in words.

mod rates;
mod verdict;

use std::time::Duration;

use trunkline_core::{Cause, ProcessPhase, TurnEnd};
use trunkline_protocol::{AgentState, Category, Liveness, Status};
use trunkline_redact as redact;

pub(crate) use self::rates::Meter;
pub use self::{rates::Rates, verdict::Verdict};
use crate::Counters;

/// Shown end of a process's standard error, in bytes.
pub(crate) const SHOWN_STDERR: usize = 4 * 1024;

/// Time without output after which a process or a turn is called silent.
const SILENT: Duration = Duration::from_secs(60);

/// Health of an agent. From [`Host::health`](crate::Host::health).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentHealth {
    /// The agent's id.
    pub agent: String,
    /// The state of its process, in short.
    pub state: AgentState,
    /// Reason why the organisation's policy forbids it, or why it has failed.
    pub why: Option<String>,
    /// Time until its process may be started again, if it waits for that or has failed.
    pub restart_in: Option<Duration>,
    /// The running process. An agent with one configuration has one at a time.
    pub process: Option<ProcessHealth>,
    /// End of the previous process, if there was one.
    pub last_end: Option<LastEnd>,
    /// Open sessions.
    pub sessions: usize,
    /// Turns that run.
    pub running_turns: usize,
    /// Permissions and questions that wait for an answer.
    pub open_requests: usize,
    /// The longest silence of a turn that runs. One that waits for an answer or is held back does not count.
    pub longest_silence: Option<Duration>,
    /// The latest turns, if they failed alike; `None` once one completes.
    pub failing: Option<FailingTurns>,
    /// Lines, bytes and turns a second.
    pub rates: Rates,
    /// The counters, since the host began or this configuration came.
    pub counters: Counters,
    /// Sessions that continue with an earlier configuration, each configuration in a process of its
    /// own.
    pub draining: usize,
    /// True if the agent was removed from the host: the figures are those of its remaining
    /// sessions.
    pub removed: bool,
}

/// A process of an agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessHealth {
    /// Process id. `None` for an adapter that is reached over streams.
    pub pid: Option<u32>,
    /// Running time.
    pub age: Duration,
    /// Time since its last byte on stdout.
    pub silent_for: Duration,
    /// True once a byte of it has come on stdout.
    pub was_heard: bool,
    /// Time for which the answer to a `ping` has been overdue, if it is.
    pub suspected_for: Option<Duration>,
    /// The end of its standard error: at most 4 KiB, without secrets.
    pub stderr_tail: String,
}

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastEnd {
    /// Exit in words, such as `ended with exit status 1`.
    pub how: String,
    /// Time since then.
    pub ago: Duration,
    /// The end of its standard error: at most 4 KiB, without secrets.
    pub stderr_tail: String,
}

/// The latest turns of an agent, which failed with one category. Turns that were stopped or refused
/// are not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailingTurns {
    /// Number of turns, at least 1.
    pub turns: u32,
    /// Their category. `None` if they named none.
    pub category: Option<Category>,
    /// Message of the last one on one line, at most 200 characters, without secrets.
    pub message: Option<String>,
}

impl FailingTurns {
    /// Counts the end of a turn: a completed one clears the state, a failure of another category begins anew.
    pub(crate) fn note(state: &mut Option<Self>, end: &TurnEnd) {
        match end.status {
            Status::Completed => *state = None,
            Status::Failed => Self::add(state, end),
            // A limit of the agent's own account; one that the host enforces is the user's.
            Status::Limit if end.cause == Cause::Complete => Self::add(state, end),
            Status::Limit | Status::Stopped | Status::Refused => {}
        }
    }

    fn add(state: &mut Option<Self>, end: &TurnEnd) {
        let category = end.error.as_ref().and_then(|error| error.category);
        let message = end
            .error
            .as_ref()
            .and_then(|error| error.message.as_deref());
        let before = state.as_ref().filter(|before| before.category == category);
        *state = Some(Self {
            turns: before.map_or(0, |before| before.turns).saturating_add(1),
            category,
            message: message.map(|message| verdict::one_line(&redact::text(message))),
        });
    }
}

impl AgentHealth {
    /// Returns the liveness of the process.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        match &self.process {
            None => Liveness::Down,
            Some(process) if process.suspected_for.is_some() => Liveness::Suspected,
            Some(process) if !process.was_heard => Liveness::Starting,
            Some(process) if process.silent_for > SILENT => Liveness::Alive,
            Some(_) if self.running_turns == 0 => Liveness::Answering,
            Some(_) if self.longest_silence.is_some_and(|silence| silence > SILENT) => {
                Liveness::Answering
            }
            Some(_) => Liveness::Progressing,
        }
    }

    /// The end of the standard error of the process that runs, or of the one before.
    #[must_use]
    pub fn stderr_tail(&self) -> &str {
        let of_last = || self.last_end.as_ref().map(|end| end.stderr_tail.as_str());
        let of_process = self
            .process
            .as_ref()
            .map(|process| process.stderr_tail.as_str());
        of_process
            .filter(|tail| !tail.is_empty())
            .or_else(of_last)
            .unwrap_or_default()
    }

    /// Returns the problem and the next step. A pure function of the figures.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::from_health(self)
    }
}

/// The end of a text of so many bytes at most, from the beginning of a line where there is one.
pub(crate) fn end_of(text: &str) -> &str {
    let Some(from) = text
        .len()
        .checked_sub(SHOWN_STDERR)
        .filter(|from| *from > 0)
    else {
        return text;
    };
    let from = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    let end = &text[from..];
    match end.find('\n') {
        Some(newline) if newline + 1 < end.len() => &end[newline + 1..],
        _ => end,
    }
}

/// Returns the name of the process's state, if no more is known of it.
pub(crate) fn state_of(phase: ProcessPhase) -> AgentState {
    match phase {
        ProcessPhase::Starting | ProcessPhase::Running | ProcessPhase::Ending => {
            AgentState::Running
        }
        ProcessPhase::Failed => AgentState::Failed,
        _ => AgentState::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_stderr_is_bounded_and_begins_with_a_line() {
        assert_eq!(end_of("short"), "short");
        let lines = "é line of thirty-two bytes here\n".repeat(1000);
        let end = end_of(&lines);
        assert!(
            end.len() <= SHOWN_STDERR && end.len() > SHOWN_STDERR - 64,
            "{}",
            end.len()
        );
        assert!(end.starts_with("é line") && end.ends_with("here\n"));
        assert_eq!(end_of(&"x".repeat(9000)).len(), SHOWN_STDERR);
    }
}
