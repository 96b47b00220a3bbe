//! Numbers of an agent: timeouts, bounds, restarts. The `runtime` section sets them for every
//! agent, an agent for itself. The numbers of a journal are set only by `runtime`.

use std::time::Duration;

use trunkline_process::StopSteps;

use super::defaults;

/// The time limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// `start_timeout`: from the spawn to the process's first message while an input waits; until
    /// then `inactivity` rests.
    pub start: Duration,
    /// `turn_timeout`: from the input's write to the end of its turn; then `stop`, then
    /// `stop_timeout`. `None` is no limit.
    pub turn: Option<Duration>,
    /// `inactivity_timeout`: between two messages of a session while a turn runs. `None` is no limit.
    pub inactivity: Option<Duration>,
    /// `stall_after`: how long a running turn is silent before its user learns of it. `None` is
    /// half of `inactivity`; zero is never.
    pub stall: Option<Duration>,
    /// `ping_after`: silence of the process after which it is pinged. `None` is never.
    pub ping: Option<Duration>,
    /// `stop_timeout`: from a `stop` to the end of its turn ([turn.8]).
    pub stop: Duration,
    /// `permission_timeout`: time until an unanswered request is denied. `None` waits as long as
    /// the turn.
    pub permission: Option<Duration>,
    /// `shutdown`: the steps of an orderly end ([process.2]).
    pub shutdown: StopSteps,
}

/// The limits of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `max_line`: the longest line from the adapter, in bytes; a longer one is skipped ([frame.5]).
    pub max_line: usize,
    /// `stderr_tail`: how much of the end of stderr is kept, in bytes.
    pub stderr_tail: usize,
    /// `max_file_bytes`: the largest file in either direction, in bytes.
    pub max_file_bytes: u64,
    /// `queued_inputs`: inputs that wait in one session, and as many steers, updates and files
    /// together; the next is refused as `busy`.
    pub queued_inputs: usize,
    /// `outbox`: bytes that wait for the adapter's stdin; the next input is refused as `busy`.
    pub outbox: usize,
    /// `max_sessions`: open sessions of this agent. `None` is no limit.
    pub max_sessions: Option<usize>,
    /// `max_turn_output`: bytes of output of one turn, which then ends with cause `limit`. `None`
    /// is no limit.
    pub max_turn_output: Option<u64>,
    /// `max_output_rate`: bytes per second of one session's messages while a turn runs. Beyond it
    /// the adapter is asked to hold the session back; if it cannot, or does not, the turn ends with
    /// cause `limit`. `None` is no limit.
    pub max_output_rate: Option<u64>,
    /// `output_burst`: bytes that may come at once, beyond `max_output_rate`.
    pub output_burst: u64,
    /// `max_open_requests`: permissions and questions of one session that wait for an answer; the
    /// next is denied.
    pub max_open_requests: usize,
}

/// The restarts of a process that ended: waits of `base` · 2ⁿ up to `cap`, with full jitter; after
/// `failures` failed starts within `window` the agent is `failed` until `retry` has passed or
/// someone asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// Failed starts that make an agent `failed`.
    pub failures: u32,
    /// The time for which a failed start counts.
    pub window: Duration,
    /// When a `failed` agent is tried again.
    pub retry: Duration,
}

/// Limits of a journal. Whole sessions are removed, the longest inactive first, but none with open
/// work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalLimits {
    /// `journal_max_age`: how long a session stays in which nothing happens. `None` is forever.
    pub max_age: Option<Duration>,
    /// `journal_max_bytes`: bytes of sessions, files aside. `None` is no limit.
    pub max_bytes: Option<u64>,
    /// `journal_max_sessions`: how many sessions. `None` is no limit.
    pub max_sessions: Option<usize>,
}

/// Durability of a journal's stored entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalSync {
    /// The end of the host, however it comes.
    #[default]
    Normal,
    /// A power cut, too.
    Full,
}

impl JournalSync {
    /// The word in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            max_age: Some(defaults::JOURNAL_MAX_AGE),
            max_bytes: None,
            max_sessions: None,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: defaults::START_TIMEOUT,
            turn: Some(defaults::TURN_TIMEOUT),
            inactivity: None,
            stall: None,
            ping: Some(defaults::PING_AFTER),
            stop: defaults::STOP_TIMEOUT,
            permission: None,
            shutdown: defaults::SHUTDOWN,
        }
    }
}

impl Timeouts {
    /// After how long a silence a turn's user learns of it. `None` is never.
    pub(crate) fn stall_after(&self) -> Option<Duration> {
        let half = || self.inactivity.map(|inactivity| inactivity / 2);
        self.stall.or_else(half).filter(|after| !after.is_zero())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line: defaults::MAX_LINE,
            stderr_tail: defaults::STDERR_TAIL,
            max_file_bytes: defaults::MAX_FILE_BYTES,
            queued_inputs: defaults::QUEUED_INPUTS,
            outbox: defaults::OUTBOX,
            max_sessions: None,
            max_turn_output: None,
            max_output_rate: None,
            output_burst: defaults::OUTPUT_BURST,
            max_open_requests: defaults::MAX_OPEN_REQUESTS,
        }
    }
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            base: defaults::RESTART_BASE,
            cap: defaults::RESTART_CAP,
            failures: defaults::RESTART_FAILURES,
            window: defaults::RESTART_WINDOW,
            retry: defaults::RESTART_RETRY,
        }
    }
}
