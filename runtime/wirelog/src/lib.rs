//! Logs every line between a host and its adapters to a file: the first tool of an adapter author.
//!
//! # Theory of operation
//!
//! A host passes all traffic with its adapters to a [`WireSink`]: bytes in both directions, stderr,
//! and the start and end of processes. An embedder may supply its own. A [`WireLog`] writes a file:
//! [`WireSink::take`] copies the bytes into a bounded queue and returns; a thread splits them into
//! lines, hides secrets, and writes records ([`Record`]). If the queue or the disk is full, lines
//! are dropped and counted, and a record gives their number and place. The file is bounded: at its
//! limit it becomes `FILE.1`, and a new one begins with its own header.
//!
//! The records are those of the recordings that `trunkline-conformance check` reads, with a few
//! more members and kinds. [`Reader`] reads them.
//!
//! # Secrets
//!
//! The thread hides what [`trunkline_redact`] knows, and in addition every value of `env` and
//! `variables` in a `session.start`, the values of `env` and `headers` below its `mcp_servers`, and
//! the answers to `secret` fields. Values of 12 bytes or more are hidden everywhere from then on
//! until the session's end. A message that declares secrets is never dropped unnoticed: if one is,
//! lines of that process are logged without their content.

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
#[allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]
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
