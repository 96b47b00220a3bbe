//! The usage log: one line for each ended turn, in a file of the host's state folder.
//!
//! With [`HostBuilder::usage_log`](crate::HostBuilder::usage_log) a [`Host`](crate::Host) appends a
//! line to `usage.jsonl` ([`FILE_NAME`]) when a turn has ended: its time, agent, session and
//! number, the hub's names for user, task and run, the status, the model, the tokens and the cost.
//! Nothing that users or agents wrote is in it. At 16 MiB the file becomes `usage.jsonl.1`
//! ([`OLDER_NAME`]), in place of an earlier one, and a new file begins. Several hosts may share the
//! folder: each appends whole lines with one write.
//!
//! ```json
//! {"time":"2026-03-01T12:00:00.250Z","agent":"claude","session":"s-1","turn":3,"user":"u-7","task":"issue-12",
//!  "run":"2","status":"completed","model":"sonnet","cost_usd":0.0213,
//!  "usage":{"input_tokens":1200,"output_tokens":340},"duration_ms":5120}
//! ```
//!
//! No turn waits for the file: its facts wait in a bounded queue for a thread that makes the lines,
//! many at a time. Turns that find no room in the queue, or that cannot be written, are counted,
//! and a line of the file has the count: `{"time":…,"dropped":12}`.
//!
//! [`read`] reads the lines back.

mod file;
mod log;
mod reader;
mod record;

pub use reader::{Skipped, read};
pub use record::{ModelPart, Tokens, UsageRecord};

pub(crate) use log::UsageLog;
pub(crate) use record::{EndedTurn, SessionUsage};

/// The name of the file, in the state folder.
pub const FILE_NAME: &str = "usage.jsonl";

/// The name of the older file that is kept.
pub const OLDER_NAME: &str = "usage.jsonl.1";

/// The lock that is held while the file is renamed.
const LOCK_NAME: &str = "usage.lock";
