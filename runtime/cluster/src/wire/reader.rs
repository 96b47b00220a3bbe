//! Reads what is kept of a session, and passes over what no host has written.

use std::cmp::Ordering;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use trunkline_protocol::SessionId;
use trunkline_sessions::Batch;

use super::{BATCH, Broken, Head, head};
use crate::row::SessionRow;

/// Reassembles the messages of a session, in their stored order.
///
/// A batch counts if it is the next one of the run that writes this epoch, or the first one of a
/// later epoch, and if its entries continue the previous ones. All others were written without the
/// right, or are copies: they are skipped and counted. If one may be the rest of a record that has
/// lost a part, this is decided when a later batch counts, or at the [end](Self::end).
#[derive(Debug)]
pub struct BatchReader {
    session: SessionId,
    /// The last owner by the session's row: its run, and its epoch.
    owner: (String, u64),
    /// The head of the last message of the last batch that counts.
    last: Option<Head>,
    /// The number of the next entry.
    next: u64,
    /// Parts of a batch that is not whole.
    parts: Option<(Head, BytesMut)>,
    /// A message that does not continue the record, but might be right.
    doubt: Option<Broken>,
    skipped: u64,
}

impl BatchReader {
    /// Creates a reader for the session of this row, from any of its messages on.
    #[must_use]
    pub fn new(session: SessionId, row: &SessionRow) -> Self {
        let owner = (row.incarnation.clone(), row.epoch);
        Self {
            session,
            owner,
            last: None,
            next: 0,
            parts: None,
            doubt: None,
            skipped: 0,
        }
    }

    /// The epoch of the last batch that counts; 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.last.as_ref().map_or(0, |head| head.epoch)
    }

    /// The number of the last entry that counts; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last.as_ref().map_or(0, |_| self.next - 1)
    }

    /// Returns the number of skipped messages.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes the next message, and gives the batch that it makes whole, if that counts.
    ///
    /// A batch of which a part is missing was not stored: its writer has ended, or has been fenced.
    pub fn take(&mut self, message: &Bytes) -> Option<Batch> {
        let (head, chunk) = match head(message) {
            Ok(read) => read,
            Err(why @ Broken::Version(_)) => return self.doubt(why),
            Err(why) => return self.skip(&why.to_string()),
        };
        if let Some(last) = &self.last {
            let is_next = match head.epoch.cmp(&last.epoch) {
                Ordering::Less => return self.skip("it is of an earlier epoch"),
                Ordering::Equal if head.writer != last.writer => {
                    return self.skip("another host has the epoch");
                }
                Ordering::Equal if head.batch <= last.batch => return self.skip("it is a copy"),
                Ordering::Equal => head.batch == last.batch + 1,
                Ordering::Greater => head.batch == 0,
            };
            let (writer, epoch) = &self.owner;
            let is_foreign = head.epoch > *epoch || head.epoch == *epoch && head.writer != *writer;
            match is_next && head.first == self.next {
                true => {}
                false if is_foreign => return self.skip("who wrote it never had the session"),
                false => {
                    return self.doubt(Broken::Gap {
                        expected: self.next,
                        found: head.first,
                    });
                }
            }
        }
        let is_same = |before: &Head| {
            Head {
                part: before.part,
                ..head.clone()
            } == *before
        };
        let mut body = match self.parts.take() {
            Some((before, body)) if is_same(&before) && head.part <= before.part => {
                self.parts = Some((before, body));
                return self.skip("it is a copy of a part");
            }
            Some((before, body)) if is_same(&before) && head.part == before.part + 1 => body,
            // Of one that was begun again, with something else.
            _ if head.part == 1 => BytesMut::new(),
            before => {
                self.parts = before;
                return self.skip("a part before it is missing");
            }
        };
        if body.len() + chunk.len() > BATCH {
            return self.skip("it is too large");
        }
        body.extend_from_slice(&chunk);
        if head.part < head.parts {
            self.parts = Some((head, body));
            return None;
        }
        match whole(&self.session, &head, body.freeze()) {
            Some(batch) => {
                if self.doubt.take().is_some() {
                    self.skip("the record continues without it");
                }
                self.next = batch.last() + 1;
                self.last = Some(head);
                Some(batch)
            }
            None => self.skip("its sizes do not add up"),
        }
    }

    /// Ends the record: what was put off is decided.
    ///
    /// # Errors
    /// What is missing, or cannot be read.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.doubt.take().map_or(Ok(()), Err)
    }

    fn doubt(&mut self, why: Broken) -> Option<Batch> {
        match &self.doubt {
            Some(_) => self.skip("the record has nothing before it"),
            None => {
                self.doubt = Some(why);
                None
            }
        }
    }

    fn skip(&mut self, why: &str) -> Option<Batch> {
        self.skipped += 1;
        // Many are logged by few lines.
        if self.skipped.is_power_of_two() {
            tracing::warn!(session = %self.session, skipped = self.skipped, "a message of the journal does not count: {why}");
        }
        None
    }
}

/// The batch of a head and what follows it; `None` where they do not fit.
fn whole(session: &SessionId, head: &Head, mut body: Bytes) -> Option<Batch> {
    let sizes = [head.lines]
        .into_iter()
        .chain(head.facts)
        .chain(head.marks.iter().copied());
    let sum = sizes.clone().try_fold(0_usize, usize::checked_add);
    if sum != Some(body.len()) {
        return None;
    }
    let mut take = |size: usize| body.split_to(size);
    let lines = take(head.lines);
    let ends = memchr::memchr_iter(b'\n', &lines).count();
    let is_lines = ends == head.count as usize && lines.last().is_none_or(|last| *last == b'\n');
    (is_lines && epoch_of(&lines).is_none_or(|epoch| epoch <= head.epoch)).then(|| Batch {
        session: session.clone(),
        epoch: head.epoch,
        first: head.first,
        count: head.count,
        lines,
        facts: head.facts.map(&mut take),
        is_settled: head.settled,
        marks: head.marks.iter().map(|size| take(*size)).collect(),
    })
}

/// The epoch that the last entry itself has.
fn epoch_of(lines: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct StoredEntry {
        epoch: u64,
    }
    let last = lines
        .strip_suffix(b"\n")?
        .rsplit(|byte| *byte == b'\n')
        .next()?;
    serde_json::from_slice::<StoredEntry>(last)
        .ok()
        .map(|entry| entry.epoch)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{HEAD, messages},
        *,
    };
    use crate::ownership::{self, Me};

    /// Returns a batch whose lines have `bytes` bytes each.
    fn batch(epoch: u64, first: u64, count: u32, bytes: usize) -> Batch {
        let line = format!("{}\n", "l".repeat(bytes));
        Batch {
            session: SessionId::new("s").unwrap(),
            epoch,
            first,
            count,
            lines: Bytes::from(line.repeat(count as usize)),
            facts: Some(Bytes::from_static(b"facts")),
            is_settled: true,
            marks: vec![Bytes::from_static(b"m"), Bytes::from_static(b"ark")],
        }
    }

    /// Returns a reader for a session of this run and epoch.
    fn reader(incarnation: &str, epoch: u64) -> BatchReader {
        let me = Me {
            host: "h".to_owned(),
            incarnation: incarnation.to_owned(),
            storage: Vec::new(),
            digest: String::new(),
        };
        let row = SessionRow {
            epoch,
            ..ownership::opened(&me, "s", None, None)
        };
        BatchReader::new(SessionId::new("s").unwrap(), &row)
    }

    fn read(reader: &mut BatchReader, messages: &[Bytes]) -> Vec<(u64, u64, u32)> {
        let read = messages.iter().filter_map(|message| reader.take(message));
        read.map(|batch| (batch.epoch, batch.first, batch.count))
            .collect()
    }

    /// The batch in one message.
    fn one(batch: &Batch, writer: &str, number: u64) -> Bytes {
        messages(batch, writer, number, 1 << 20).remove(0)
    }

    #[test]
    fn a_batch_is_the_same_again_in_one_message_or_in_many() {
        for (bytes, most) in [(0, 8192), (10, 8192), (50_000, HEAD + 1000), (10_000, 0)] {
            let batch = batch(3, 7, 2, bytes);
            let messages = messages(&batch, "w", 1, most);
            assert!(
                messages
                    .iter()
                    .all(|message| message.len() <= most.max(HEAD)),
                "{bytes} {most}"
            );
            let mut reader = reader("w", 3);
            let read: Vec<_> = messages
                .iter()
                .filter_map(|message| reader.take(message))
                .collect();
            assert_eq!(read, [batch]);
            assert_eq!(
                (reader.epoch(), reader.skipped(), reader.end()),
                (3, 0, Ok(()))
            );
        }
    }

    #[test]
    fn what_was_not_stored_whole_or_under_a_later_epoch_does_not_count() {
        let mut reader = reader("b", 2);
        let mut kept = messages(&batch(1, 1, 2, 10), "a", 0, 8192);
        // The owner of epoch 1 ends within a batch; the next one writes the same numbers.
        let cut = messages(&batch(1, 3, 5, 2000), "a", 1, HEAD + 1000);
        kept.extend_from_slice(&cut[..3]);
        kept.extend(messages(&batch(2, 3, 1, 5), "b", 0, 8192));
        kept.extend_from_slice(&cut[3..]);
        kept.extend(messages(&batch(2, 4, 1, 6), "b", 1, 8192));
        assert_eq!(read(&mut reader, &kept), [(1, 1, 2), (2, 3, 1), (2, 4, 1)]);
        assert_eq!(
            (reader.skipped(), reader.end()),
            (cut.len() as u64 - 3, Ok(()))
        );
    }

    #[test]
    fn what_is_missing_is_said_at_the_end() {
        let mut reader = reader("a", 1);
        let gap = one(&batch(1, 4, 1, 10), "a", 2);
        let later = one(&batch(1, 5, 1, 10), "a", 3);
        assert_eq!(
            read(&mut reader, &[one(&batch(1, 1, 2, 10), "a", 0), gap, later]),
            [(1, 1, 2)]
        );
        assert_eq!(
            reader.end(),
            Err(Broken::Gap {
                expected: 3,
                found: 4
            })
        );
        let new = Bytes::from_static(b"{\"v\":2,\"new\":true}\n");
        assert_eq!(read(&mut reader, std::slice::from_ref(&new)), []);
        assert_eq!(reader.end(), Err(Broken::Version(2)));
        // One who had to know it wrote behind it.
        assert_eq!(
            read(&mut reader, &[new, one(&batch(1, 3, 1, 10), "a", 1)]),
            [(1, 3, 1)]
        );
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn what_was_written_without_a_right_or_again_does_not_count_and_the_record_goes_on() {
        let parts = messages(&batch(5, 4, 1, 3000), "a", 1, HEAD + 1000);
        assert_eq!(parts.len(), 4);
        let first = one(&batch(5, 1, 3, 10), "a", 0);
        let forged = [
            first.clone(),
            parts[0].clone(),
            one(&batch(5, 4, 1, 10), "b", 0),
            one(&batch(5, 4, 1, 10), "b", 1),
            one(&batch(4, 4, 1, 10), "a", 1),
            one(&batch(6, 9, 1, 10), "b", 0),
            one(&batch(6, 4, 1, 10), "b", 7),
            one(&batch(u64::MAX, 4, 1, 10), "b", 0),
            one(&batch(5, 4, 1, 10), "a b", 1),
            Bytes::from_static(b"garbage"),
            Bytes::from_static(b"[]\nx"),
            Bytes::new(),
        ];
        for forged in &forged {
            let within = [&first, &parts[0], &parts[1], forged, &parts[2], &parts[3]];
            let behind = [&first, &parts[0], &parts[1], &parts[2], &parts[3], forged];
            for kept in [within, behind] {
                let mut reader = reader("a", 5);
                assert_eq!(
                    read(&mut reader, &kept.map(Clone::clone)),
                    [(5, 1, 3), (5, 4, 1)],
                    "{forged:?}"
                );
                assert_eq!((reader.skipped(), reader.end()), (1, Ok(())), "{forged:?}");
            }
        }
    }

    #[test]
    fn a_head_that_lies_about_what_follows_does_not_count() {
        let first = one(&batch(1, 1, 1, 10), "a", 0);
        let good = batch(1, 2, 2, 4);
        let text = String::from_utf8(one(&good, "a", 1).to_vec()).unwrap();
        for (is, lie) in [
            ("\"lines\":10", "\"lines\":18446744073709551615"),
            ("\"lines\":10", "\"lines\":9"),
            ("\"count\":2", "\"count\":3"),
            ("\"count\":2", "\"count\":4294967295"),
            ("\"first\":2", "\"first\":0"),
            ("\"first\":2", "\"first\":18446744073709551615"),
            ("\"batch\":1", "\"batch\":18446744073709551615"),
            ("\"part\":1", "\"part\":2"),
            ("\"part\":1", "\"part\":0"),
            ("llll\nf", "lllllf"),
        ] {
            assert!(text.contains(is), "{text}");
            let mut reader = reader("a", 1);
            let lie = Bytes::from(text.replacen(is, lie, 1));
            let kept = [first.clone(), lie.clone(), one(&good, "a", 1)];
            assert_eq!(read(&mut reader, &kept), [(1, 1, 1), (1, 2, 2)], "{lie:?}");
            assert_eq!(reader.skipped(), 1);
        }
    }

    #[test]
    fn an_entry_of_a_later_epoch_than_its_batch_has_does_not_count() {
        for (epoch, expected) in [(1, 1), (2, 0), (u64::MAX, 0)] {
            let line = format!("{{\"seq\":1,\"epoch\":{epoch}}}\n");
            let batch = Batch {
                lines: line.into(),
                ..batch(1, 1, 1, 0)
            };
            assert_eq!(
                read(&mut reader("a", 1), &[one(&batch, "a", 0)]).len(),
                expected,
                "{epoch}"
            );
        }
    }

    #[test]
    fn parts_without_an_end_take_bounded_memory() {
        let mut reader = reader("a", 1);
        let most = 1 << 20;
        let one = messages(&batch(1, 1, 1, BATCH / 4), "a", 0, most);
        let head = |part: u32| {
            let (mut head, chunk) = head(&one[0]).unwrap();
            (head.part, head.parts) = (part, u32::MAX);
            let mut message = serde_json::to_vec(&head).unwrap();
            message.push(b'\n');
            message.extend_from_slice(&chunk);
            Bytes::from(message)
        };
        for part in 1..=200 {
            assert_eq!(reader.take(&head(part)), None);
            assert!(
                reader
                    .parts
                    .as_ref()
                    .is_none_or(|(_, body)| body.len() <= BATCH)
            );
        }
        assert!(reader.skipped() > 100);
        assert_eq!(read(&mut reader, &one), [(1, 1, 1)], "what follows is read");
    }
}
