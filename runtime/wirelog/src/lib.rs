//! Keeps every line between a host and its adapters in a file: an adapter author's first tool.
//!
//! # Theory of operation
//!
//! A host hands all that passes between it and its adapters to a [`WireSink`]: bytes in both
//! directions, stderr, and the start and end of processes. An embedder may give its own. A
//! [`WireLog`] is one that writes a file: [`WireSink::take`] copies the bytes into a bounded queue
//! and returns; a thread splits them into lines, hides secrets, and writes records ([`Record`]).
//! What finds no room in the queue, or on the disk, is counted, and a record says how much is
//! missing and where. The file is bounded: at its limit it becomes `FILE.1`, and a new one begins
//! with a header of its own.
//!
//! The records are those of the recordings that `trunkline-conformance check` reads, with a few
//! more members and kinds.
//! [`Reader`] reads them back.
//!
//! # Secrets
//!
//! The thread hides what [`trunkline_redact`] knows, and besides: every value of `env` and
//! `variables` in a `session.start`, those of `env` and `headers` below its `mcp_servers`, and the
//! answers to `secret` fields. These are hidden wherever they stand from then on, up to the
//! session's end, if they have 12 bytes or more. What says which values are secret is never dropped
//! unnoticed: where it is, lines of that process are logged without their content.

#![forbid(unsafe_code)]

mod content;
mod file;
mod lines;
mod log;
pub mod queue;
mod read;
mod record;
mod secrets;
mod sink;
mod writer;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
mod tests;

pub use content::Content;
pub use file::OpenError;
pub use lines::{LONGEST, Lines, Piece};
pub use log::{QUEUE, WireLog, WireLogOptions};
pub use read::{Entry, Reader};
pub use record::{
    Header, OpenSession, Record, RecordEvent, RunningProcess, Text, VERSION, not_understood,
};
pub use sink::{Wire, WireDirection, WireEvent, WireSink};
