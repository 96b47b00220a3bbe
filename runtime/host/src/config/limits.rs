//! The numbers of an agent: timeouts, bounds, restarts. The `runtime` section sets them for every agent, an agent for
//! itself.

use std::time::Duration;

use super::defaults;
use super::error::ConfigError;
use super::reader::{Field, Reader};

/// How long the host waits for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// `start_timeout`: from the spawn to the process's first message while an input waits; until then `inactivity`
    /// rests.
    pub start: Duration,
    /// `turn_timeout`: from the input's write to the end of its turn; then `stop`, then `stop_timeout`. `None` is no
    /// limit.
    pub turn: Option<Duration>,
    /// `inactivity_timeout`: between two messages of a session while a turn runs. `None` is no limit.
    pub inactivity: Option<Duration>,
    /// `stop_timeout`: from a `stop` to the end of its turn ([turn.8]).
    pub stop: Duration,
    /// `permission_timeout`: until a request that no one answers is denied. `None` waits as long as the turn.
    pub permission: Option<Duration>,
    /// `shutdown`: the steps of an orderly end ([process.2]).
    pub shutdown: Shutdown,
}

/// How long each step of an orderly end of a process may take before the next ([process.2]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// After the sessions were closed.
    pub close: Duration,
    /// After stdin was closed.
    pub eof: Duration,
    /// After SIGTERM; then SIGKILL.
    pub term: Duration,
}

/// How much of what an agent may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `max_line`: the longest line from the adapter, in bytes; a longer one is skipped ([frame.5]).
    pub max_line: usize,
    /// `stderr_tail`: how much of the end of stderr is kept, in bytes.
    pub stderr_tail: usize,
    /// `max_file_bytes`: the largest file in either direction, in bytes.
    pub max_file_bytes: u64,
    /// `queued_inputs`: inputs that wait in one session; the next is refused as `busy`.
    pub queued_inputs: usize,
    /// `outbox`: bytes that wait for the adapter's stdin; the next input is refused as `busy`.
    pub outbox: usize,
    /// `max_sessions`: open sessions of this agent. `None` is no limit.
    pub max_sessions: Option<usize>,
    /// `max_turn_output`: bytes of output of one turn, which then ends with cause `limit`. `None` is no limit.
    pub max_turn_output: Option<u64>,
}

/// How a process that ended is started again: waits of `base` · 2ⁿ up to `cap`, with full jitter; after `failures`
/// failed starts within `window` the agent is `failed` until `retry` has passed or someone asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// Failed starts that make an agent `failed`.
    pub failures: u32,
    /// How long a failed start counts.
    pub window: Duration,
    /// When a `failed` agent is tried again.
    pub retry: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: defaults::START_TIMEOUT,
            turn: Some(defaults::TURN_TIMEOUT),
            inactivity: None,
            stop: defaults::STOP_TIMEOUT,
            permission: None,
            shutdown: Shutdown::default(),
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { close: defaults::SHUTDOWN_CLOSE, eof: defaults::SHUTDOWN_EOF, term: defaults::SHUTDOWN_TERM }
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

impl Timeouts {
    pub(super) fn read(&mut self, reader: &Reader<'_>) -> Result<(), ConfigError> {
        reader.set("start_timeout", &mut self.start, Field::positive_duration)?;
        reader.set("turn_timeout", &mut self.turn, Field::optional_duration)?;
        reader.set("inactivity_timeout", &mut self.inactivity, Field::optional_duration)?;
        reader.set("stop_timeout", &mut self.stop, Field::duration)?;
        reader.set("permission_timeout", &mut self.permission, Field::optional_duration)?;
        if let Some(field) = reader.get("shutdown") {
            let shutdown = field.object(&["close", "eof", "term"], &[])?;
            shutdown.set("close", &mut self.shutdown.close, Field::duration)?;
            shutdown.set("eof", &mut self.shutdown.eof, Field::duration)?;
            shutdown.set("term", &mut self.shutdown.term, Field::duration)?;
        }
        Ok(())
    }
}

impl Limits {
    /// Reads all but `max_sessions`, which in the `runtime` section means the whole host.
    pub(super) fn read(&mut self, reader: &Reader<'_>) -> Result<(), ConfigError> {
        reader.set("max_line", &mut self.max_line, |f| memory(f, defaults::MIN_MAX_LINE as u64))?;
        reader.set("stderr_tail", &mut self.stderr_tail, |f| memory(f, 0))?;
        reader.set("max_file_bytes", &mut self.max_file_bytes, |f| f.size(0))?;
        reader.set("queued_inputs", &mut self.queued_inputs, |f| number(f, 1))?;
        reader.set("outbox", &mut self.outbox, |f| memory(f, 1))?;
        reader.set("max_turn_output", &mut self.max_turn_output, |f| f.size(0).map(none_if_zero))
    }
}

impl Restart {
    pub(super) fn read(&mut self, reader: &Reader<'_>) -> Result<(), ConfigError> {
        let Some(field) = reader.get("restart") else { return Ok(()) };
        let restart = field.object(&["base", "cap", "failures", "window", "retry"], &[])?;
        restart.set("base", &mut self.base, Field::positive_duration)?;
        restart.set("cap", &mut self.cap, Field::positive_duration)?;
        restart.set("failures", &mut self.failures, |f| {
            u32::try_from(f.count(1)?).map_err(|_| f.invalid("it is too large"))
        })?;
        restart.set("window", &mut self.window, Field::positive_duration)?;
        restart.set("retry", &mut self.retry, Field::positive_duration)?;
        if self.cap < self.base {
            return Err(field.invalid("`cap` is below `base`"));
        }
        Ok(())
    }
}

/// A number of sessions, of which 0 means no limit.
pub(super) fn sessions(field: &Field<'_>) -> Result<Option<usize>, ConfigError> {
    Ok(Some(number(field, 0)?).filter(|number| *number != 0))
}

/// 0 as no limit.
pub(super) fn none_if_zero(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|bytes| *bytes != 0)
}

/// A size that must fit into memory.
pub(super) fn memory(field: &Field<'_>, least: u64) -> Result<usize, ConfigError> {
    usize::try_from(field.size(least)?).map_err(|_| field.invalid("it is too large"))
}

fn number(field: &Field<'_>, least: u64) -> Result<usize, ConfigError> {
    usize::try_from(field.count(least)?).map_err(|_| field.invalid("it is too large"))
}
