//! Every default, one constant each, named as in the configuration.

use std::time::Duration;

use trunkline_process::StopSteps;

/// From the spawn of a process to its first message while an input waits: package launchers download.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// From the write of an input to the end of its turn.
pub const TURN_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Silence of a process after which it is pinged.
pub const PING_AFTER: Duration = Duration::from_secs(30);
/// From a `stop` to the end of its turn, before the host ends it ([turn.8]).
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// `shutdown`: the waits of an orderly end ([process.2]).
pub const SHUTDOWN: StopSteps = StopSteps::DEFAULT;

/// The longest line from an adapter, and the least that `max_line` may be, in bytes ([frame.5]).
pub use trunkline_protocol::{MAX_LINE, MIN_MAX_LINE};
/// The tail of stderr that is kept, in bytes.
pub const STDERR_TAIL: usize = 64 * 1024;
/// The largest file that is taken or placed, in bytes.
pub const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Inputs that wait in one session, and as many steers, updates and files together; the next is
/// refused as `busy`.
pub const QUEUED_INPUTS: usize = 64;
/// Bytes that wait for one adapter's stdin; the next input is refused as `busy`.
pub const OUTBOX: usize = 64 * 1024 * 1024;

/// `output_burst`: bytes of one session that may come at once, where `max_output_rate` limits it.
pub const OUTPUT_BURST: u64 = 16 * 1024 * 1024;
/// `max_open_requests`: permissions and questions of one session that wait for an answer; the next is denied.
pub const MAX_OPEN_REQUESTS: usize = 4096;

/// `restart.base`: the first wait of the back-off, doubled at each failure, with full jitter.
pub const RESTART_BASE: Duration = Duration::from_millis(250);
/// `restart.cap`: the longest wait of the back-off.
pub const RESTART_CAP: Duration = Duration::from_secs(30);
/// `restart.failures`: failed starts within the window after which an agent is `failed`.
pub const RESTART_FAILURES: u32 = 5;
/// `restart.window`: how long a failed start counts.
pub const RESTART_WINDOW: Duration = Duration::from_secs(2 * 60);
/// `restart.retry`: when a `failed` agent may be tried again.
pub const RESTART_RETRY: Duration = Duration::from_secs(60);

/// `mailbox`: bytes of one turn that wait in memory for its consumer, before the spool.
pub const MAILBOX: usize = 256 * 1024;
/// `mailboxes`: bytes of a whole host that wait in memory for their consumers.
pub const MAILBOXES: usize = 256 * 1024 * 1024;
/// `backlog`: bytes of one adapter that are neither consumed nor spooled, before its link pauses reading.
pub const BACKLOG: usize = 64 * 1024 * 1024;
/// `spool`: bytes of one turn on disk, before its session ends with reason `limit`.
pub const SPOOL: u64 = 8 * 1024 * 1024 * 1024;
/// `spools`: bytes of all turns of a host on disk.
pub const SPOOLS: u64 = 64 * 1024 * 1024 * 1024;
/// `session_files`: bytes of the copies of one session's files; the next is refused.
pub const SESSION_FILES: u64 = 256 * 1024 * 1024;
/// `host_files`: bytes of the copies of all files of a host.
pub const HOST_FILES: u64 = 4 * 1024 * 1024 * 1024;

/// `usage_log`: whether each ended turn becomes a line of the usage log.
pub const USAGE_LOG: bool = true;
/// The size from which on the usage log is kept as the older file and begun anew, in bytes.
pub const USAGE_LOG_BYTES: u64 = 16 * 1024 * 1024;

/// `journal_max_age`: how long a session stays in a journal in which nothing happens.
pub const JOURNAL_MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Path of the organisation's policy.
pub const POLICY: &str = "/etc/trunkline/policy.json";

/// The command of a built-in adapter, before the name of its profile: the embedding program has none of them.
pub const PROFILE_COMMAND: [&str; 2] = ["trunkline", "adapter"];

/// The profile of the agent that a host without a configuration has, and its id.
pub const BUILT_IN_AGENT: &str = "echo";
