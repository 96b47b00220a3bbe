//! What was used: one line for each ended turn, in a file of the host's state folder.
//!
//! A [`Host`](crate::Host) that is asked to ([`HostBuilder::usage_log`](crate::HostBuilder::usage_log)) appends to
//! `usage.jsonl` ([`FILE_NAME`]) when a turn has ended: when it was, which agent and session it was of, how it ended, the model, the tokens, the cost. Nothing of what was said
//! is in it. From 16 MiB on the file becomes `usage.jsonl.1` ([`OLDER_NAME`]), in place of an earlier one, and a new one
//! begins. Several hosts may share the folder: whole lines go in with one write at the file's end.
//!
//! ```json
//! {"time":"2026-03-01T12:00:00.250Z","agent":"claude","session":"s-1","turn":3,"status":"completed","model":"sonnet","cost_usd":0.0213,"usage":{"input_tokens":1200,"output_tokens":340},"duration_ms":5120}
//! ```
//!
//! No turn waits for the file, and none makes its line: the facts wait in a bounded queue for a thread that makes the
//! lines, many at a time. Turns that find no room there, or that cannot be written, are counted, and the next line that is written says how many: `{"time":…,"dropped":12}`.
//!
//! [`read`] gives the lines back.

mod file;
mod log;
mod reader;
mod record;

pub use reader::{Skipped, read};
pub use record::{Part, Record, Tokens};

pub(crate) use log::UsageLog;
pub(crate) use record::{EndedTurn, SessionUsage};

/// The name of the file, in the state folder.
pub const FILE_NAME: &str = "usage.jsonl";

/// The name of the older file that is kept.
pub const OLDER_NAME: &str = "usage.jsonl.1";

/// Held while the file is renamed.
const LOCK_NAME: &str = "usage.lock";
