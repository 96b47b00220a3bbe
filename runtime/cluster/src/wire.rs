//! Format of a session's batch in the cluster's journal: a line of JSON that describes it, and
//! bytes.
//!
//! A batch larger than the store's maximum is split into parts, and counts when the last is stored.

mod reader;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use trunkline_sessions::Batch;

pub use reader::BatchReader;

use crate::{row::MOST_EPOCH, store::is_name};

/// The largest batch, in bytes: an entry is a line of an adapter at most, and what waits with it is less.
const BATCH: usize = 64 * 1024 * 1024;

/// Maximum length of the line, in bytes. A batch has few marks.
const HEAD: usize = 4096;

/// Header of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Of this format.
    pub v: u32,
    /// The run of a host that wrote it.
    pub writer: String,
    /// Under which epoch of the session.
    pub epoch: u64,
    /// Number of the batch.
    pub batch: u64,
    /// Number of the part, from 1, and the number of parts.
    pub part: u32,
    /// See `part`.
    pub parts: u32,
    /// The number of the first entry.
    pub first: u64,
    /// Number of entries.
    pub count: u32,
    /// Their bytes.
    pub lines: usize,
    /// The bytes of each mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<usize>,
    /// The bytes of the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<usize>,
    /// True if nothing is open according to the facts.
    #[serde(default)]
    pub settled: bool,
}

/// Defect of a stored message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Not a batch.
    #[error("a message of the journal cannot be read: {0}")]
    Unreadable(String),
    /// Format of a later version of this program.
    #[error("a message of the journal has the format {0}, which this version does not know")]
    Version(u32),
    /// Entries are missing.
    #[error("the next entry of the journal is {found}, and {expected} was expected")]
    Gap {
        /// The number that should come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
}

/// Writes a batch as messages of `most` bytes.
#[must_use]
pub fn messages(batch: &Batch, writer: &str, number: u64, most: usize) -> Vec<Bytes> {
    let mut body = BytesMut::with_capacity(batch.lines.len());
    body.extend_from_slice(&batch.lines);
    batch
        .facts
        .iter()
        .chain(&batch.marks)
        .for_each(|part| body.extend_from_slice(part));
    let body = body.freeze();
    let room = most.saturating_sub(HEAD).max(1);
    let parts = body.len().div_ceil(room).max(1);
    let head = |part: usize| Head {
        v: 1,
        writer: writer.to_owned(),
        epoch: batch.epoch,
        batch: number,
        part: u32::try_from(part).unwrap_or(u32::MAX),
        parts: u32::try_from(parts).unwrap_or(u32::MAX),
        first: batch.first,
        count: batch.count,
        lines: batch.lines.len(),
        marks: batch.marks.iter().map(Bytes::len).collect(),
        facts: batch.facts.as_ref().map(Bytes::len),
        settled: batch.is_settled,
    };
    let message = |part: usize| {
        let chunk = &body[(part * room).min(body.len())..((part + 1) * room).min(body.len())];
        let mut message = serde_json::to_vec(&head(part + 1)).unwrap_or_default();
        message.push(b'\n');
        message.extend_from_slice(chunk);
        Bytes::from(message)
    };
    (0..parts).map(message).collect()
}

/// Splits a message into its header and its bytes.
///
/// # Errors
/// See [`Broken`].
pub fn head(message: &Bytes) -> Result<(Head, Bytes), Broken> {
    let unreadable = |why: &str| Broken::Unreadable(why.to_owned());
    let end = message
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| unreadable("it has no line"))?;
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let version: Version =
        serde_json::from_slice(&message[..end]).map_err(|error| unreadable(&error.to_string()))?;
    if version.v != 1 {
        return Err(Broken::Version(version.v));
    }
    let head: Head =
        serde_json::from_slice(&message[..end]).map_err(|error| unreadable(&error.to_string()))?;
    let is_part = (1..=head.parts).contains(&head.part);
    let is_within =
        (1..=MOST_EPOCH).contains(&head.epoch) && (1..=MOST_EPOCH).contains(&head.first);
    if is_part && is_within && head.batch < u64::MAX && is_name(&head.writer) {
        Ok((head, message.slice(end + 1..)))
    } else {
        Err(unreadable("its numbers cannot be"))
    }
}
