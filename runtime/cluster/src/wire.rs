//! A batch of a session as it is kept in the journal of the cluster: a line of JSON that says what follows, and bytes.
//!
//! One that is larger than a store keeps at once goes in parts, and counts when the last is there.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use trunkline_protocol::SessionId;
use trunkline_sessions::Batch;

/// How much of a message the line takes at most. A batch has few marks.
const HEAD: usize = 4096;

/// What a message says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Of this format.
    pub v: u32,
    /// The run of a host that wrote it.
    pub writer: String,
    /// Under which epoch of the session.
    pub epoch: u64,
    /// Which of its batches.
    pub batch: u64,
    /// Which part of how many, from 1.
    pub part: u32,
    /// See `part`.
    pub parts: u32,
    /// The number of the first entry.
    pub first: u64,
    /// How many entries.
    pub count: u32,
    /// Their bytes.
    pub lines: usize,
    /// The bytes of each mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<usize>,
    /// The bytes of the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<usize>,
    /// Whether nothing is open as of the facts.
    #[serde(default)]
    pub settled: bool,
}

/// What is wrong with what is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is no batch.
    #[error("a message of the journal cannot be read: {0}")]
    Unreadable(String),
    /// It is of a later version of this program.
    #[error("a message of the journal has the format {0}, which this version does not know")]
    Version(u32),
    /// Entries are missing.
    #[error("the journal goes on with entry {found} where {expected} should be")]
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
    batch.facts.iter().chain(&batch.marks).for_each(|part| body.extend_from_slice(part));
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

/// Reads what a message says of itself, and what follows.
///
/// # Errors
/// See [`Broken`].
pub fn head(message: &Bytes) -> Result<(Head, Bytes), Broken> {
    let unreadable = |why: &str| Broken::Unreadable(why.to_owned());
    let end = message.iter().position(|byte| *byte == b'\n').ok_or_else(|| unreadable("it has no line"))?;
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
    Ok((head, message.slice(end + 1..)))
}

/// Puts the messages of a session together again, in the order in which they are kept.
#[derive(Debug)]
pub struct Reader {
    session: SessionId,
    /// The number of the next entry; `None` before the first.
    next: Option<u64>,
    /// The epoch of the last message.
    epoch: u64,
    /// Parts of a batch that is not whole.
    parts: Option<(Head, BytesMut)>,
}

impl Reader {
    /// One for the messages of a session, from any of them on.
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self { session, next: None, epoch: 0, parts: None }
    }

    /// The epoch of the last message; 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the last entry that was whole; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.next.map_or(0, |next| next - 1)
    }

    /// Takes the next message, and gives the batch that it makes whole.
    ///
    /// A batch of which a part is missing was not stored: its writer has ended, or has been fenced.
    ///
    /// # Errors
    /// See [`Broken`].
    pub fn take(&mut self, message: &Bytes) -> Result<Option<Batch>, Broken> {
        let (head, chunk) = head(message)?;
        if head.epoch < self.epoch {
            // No one who goes by the rules has written it.
            tracing::warn!(session = %self.session, epoch = head.epoch, "a batch of an earlier epoch is skipped");
            return Ok(None);
        }
        self.epoch = head.epoch;
        let goes_on = |before: &Head| {
            (&before.writer, before.epoch, before.batch, before.part + 1)
                == (&head.writer, head.epoch, head.batch, head.part)
        };
        let before = self.parts.take().filter(|(before, _)| goes_on(before));
        let mut body = match before {
            Some((_, body)) => body,
            None if head.part == 1 => BytesMut::new(),
            None => return Ok(None),
        };
        body.extend_from_slice(&chunk);
        if head.part < head.parts {
            self.parts = Some((head, body));
            return Ok(None);
        }
        self.whole(&head, body.freeze()).map(Some)
    }

    fn whole(&mut self, head: &Head, mut body: Bytes) -> Result<Batch, Broken> {
        let sizes = [head.lines].into_iter().chain(head.facts).chain(head.marks.iter().copied());
        if sizes.clone().try_fold(0_usize, usize::checked_add) != Some(body.len()) {
            return Err(Broken::Unreadable("its sizes do not add up".to_owned()));
        }
        let expected = self.next.unwrap_or(head.first);
        if head.first != expected {
            return Err(Broken::Gap { expected, found: head.first });
        }
        self.next = Some(head.first + u64::from(head.count));
        let mut take = |size: usize| body.split_to(size);
        Ok(Batch {
            session: self.session.clone(),
            epoch: head.epoch,
            first: head.first,
            count: head.count,
            lines: take(head.lines),
            facts: head.facts.map(&mut take),
            is_settled: head.settled,
            marks: head.marks.iter().map(|size| take(*size)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, first: u64, count: u32, bytes: usize) -> Batch {
        Batch {
            session: SessionId::new("s").unwrap(),
            epoch,
            first,
            count,
            lines: Bytes::from(vec![b'l'; bytes]),
            facts: Some(Bytes::from_static(b"facts")),
            is_settled: true,
            marks: vec![Bytes::from_static(b"m"), Bytes::from_static(b"ark")],
        }
    }

    fn read(reader: &mut Reader, messages: &[Bytes]) -> Vec<Batch> {
        messages.iter().filter_map(|message| reader.take(message).unwrap()).collect()
    }

    #[test]
    fn a_batch_is_the_same_again_in_one_message_or_in_many() {
        for (bytes, most) in [(0, 8192), (10, 8192), (100_000, HEAD + 1000), (20_000, 0)] {
            let batch = batch(3, 7, 2, bytes);
            let messages = messages(&batch, "w", 1, most);
            assert!(messages.iter().all(|message| message.len() <= most.max(HEAD)), "{bytes} {most}");
            let mut reader = Reader::new(batch.session.clone());
            assert_eq!(read(&mut reader, &messages), [batch]);
            assert_eq!(reader.epoch(), 3);
        }
    }

    #[test]
    fn what_was_not_stored_whole_or_under_a_later_epoch_does_not_count() {
        let mut reader = Reader::new(SessionId::new("s").unwrap());
        let mut kept = messages(&batch(1, 1, 2, 10), "a", 0, 8192);
        // The owner of epoch 1 ends within a batch; the next one writes the same numbers.
        let cut = messages(&batch(1, 3, 5, 10_000), "a", 1, HEAD + 1000);
        kept.extend_from_slice(&cut[..3]);
        kept.extend(messages(&batch(2, 3, 1, 5), "b", 0, 8192));
        kept.extend_from_slice(&cut[3..]);
        kept.extend(messages(&batch(2, 4, 1, 6), "b", 1, 8192));
        let firsts: Vec<_> = read(&mut reader, &kept).iter().map(|b| (b.epoch, b.first, b.count)).collect();
        assert_eq!(firsts, [(1, 1, 2), (2, 3, 1), (2, 4, 1)]);
    }

    #[test]
    fn what_is_missing_or_broken_is_said() {
        let mut reader = Reader::new(SessionId::new("s").unwrap());
        read(&mut reader, &messages(&batch(1, 1, 2, 10), "a", 0, 8192));
        let next = messages(&batch(1, 4, 1, 10), "a", 2, 8192);
        assert_eq!(reader.take(&next[0]), Err(Broken::Gap { expected: 3, found: 4 }));
        for text in ["", "x", "{}\n", "{\"v\":1}\n", "[]\nx"] {
            let taken = reader.take(&Bytes::copy_from_slice(text.as_bytes()));
            assert!(matches!(taken, Err(Broken::Unreadable(_))), "{text:?} {taken:?}");
        }
        assert_eq!(reader.take(&Bytes::from_static(b"{\"v\":2,\"new\":true}\n")), Err(Broken::Version(2)));
        let huge = Bytes::from_static(
            b"{\"v\":1,\"writer\":\"a\",\"epoch\":1,\"batch\":3,\"part\":1,\"parts\":1,\"first\":3,\"count\":1,\"lines\":18446744073709551615,\"facts\":2}\nx",
        );
        assert!(matches!(reader.take(&huge), Err(Broken::Unreadable(_))));
    }
}
