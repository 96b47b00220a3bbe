//! Pages of a session's entries, read from either end.

use std::ops::Range;

use serde_json::value::RawValue;
use trunkline_journal::{Journal, ReadBatch, ReadError, Reader, SessionKey};
use trunkline_protocol::{Json, LostEntries};

use crate::entry::line_ranges;

/// Maximum size of the entries on a page, in bytes, unless a single entry is larger, or a block of
/// the journal at the end of a page that is read [from its end](HistoryRange::Before).
const PAGE_BYTES: usize = 1024 * 1024;

/// Number of bytes of the journal to read at once.
const READ_BYTES: usize = 64 * 1024;

/// The end from which a page of entries is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryRange {
    /// The entries from this number on.
    From(u64),
    /// The last entries before this number. A number behind the last entry reads from the end.
    Before(u64),
}

/// A page of a session's entries.
#[derive(Debug)]
#[non_exhaustive]
pub struct HistoryPage {
    /// The entries in their order.
    pub entries: Vec<Json>,
    /// The entries of the page that the journal has lost, in their order.
    pub lost: Vec<LostEntries>,
    /// The number [before which](HistoryRange::Before) the page ahead ends; `None` on the first page.
    pub previous: Option<u64>,
    /// The number [from which](HistoryRange::From) the next page begins; `None` on the last page.
    pub next: Option<u64>,
    /// The number of the session's last entry.
    pub last: u64,
}

/// Reason that entries were not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The journal has no session with this id, or the visitor does not see it.
    #[error("the journal has no session with this id")]
    Unknown,
    /// The runtime shuts down.
    #[error("the host ends")]
    HostEnding,
    /// The file system's own reason.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reads a page of at most `limit` entries, and of at least one if there is one. Blocks for reads
/// of the disk.
pub(crate) fn read_page(
    journal: &Journal,
    key: SessionKey,
    range: HistoryRange,
    limit: u64,
) -> Result<HistoryPage, ReadError> {
    let count = || journal.known(key).map_or(0, |known| known.last);
    let limit = limit.max(1);
    let mut reader = journal.read(key, 1);
    let (end, most) = match range {
        HistoryRange::From(from) => {
            reader = journal.read(key, from);
            (from.max(1).saturating_add(limit), PAGE_BYTES - READ_BYTES)
        }
        HistoryRange::Before(before) => {
            let before = before.clamp(1, count() + 1);
            reader.turn_to_page(key, before, limit, PAGE_BYTES as u64)?;
            (before, usize::MAX)
        }
    };
    let from = reader.position();
    let mut lines = EntryLines::read_to(&mut reader, end, most)?;
    let cut = lines.cut(most);
    let entries = lines
        .iter()
        .filter_map(|(_, line)| serde_json::from_slice::<&RawValue>(line).ok())
        .filter_map(|line| Json::from_serialize(line).ok());
    let last = count();
    let next = cut.unwrap_or(reader.position().min(end));
    Ok(HistoryPage {
        entries: entries.collect(),
        lost: lines.lost_within(from..next),
        previous: (from > 1).then_some(from),
        next: Some(next).filter(|next| *next <= last),
        last,
    })
}

/// Lines of entries with their numbers.
#[derive(Debug, Default)]
pub(crate) struct EntryLines {
    bytes: Vec<u8>,
    lines: Vec<(u64, Range<usize>)>,
    lost: Vec<LostEntries>,
}

impl EntryLines {
    /// Reads the next lines of a reader, up to the one before `end`, or until they have more than
    /// `most` bytes.
    pub(crate) fn read_to(reader: &mut Reader, end: u64, most: usize) -> Result<Self, ReadError> {
        let mut lines = Self::default();
        while reader.position() < end && lines.bytes() <= most && lines.read(reader, end)? {}
        Ok(lines)
    }

    /// Appends the next lines of a reader, without those from `end` on. Returns `false` if the
    /// session has no more entries.
    fn read(&mut self, reader: &mut Reader, end: u64) -> Result<bool, ReadError> {
        let begin = self.bytes.len();
        match reader.next(&mut self.bytes, READ_BYTES)? {
            ReadBatch::Lines(numbers) => {
                let found = line_ranges(&self.bytes[begin..]).zip(numbers);
                let wanted = found.take_while(|(_, number)| *number < end);
                self.lines.extend(
                    wanted.map(|(line, number)| (number, begin + line.start..begin + line.end)),
                );
                Ok(true)
            }
            ReadBatch::Missing(numbers) => {
                let (from, to) = numbers.into_inner();
                self.lost.push(LostEntries { from, to });
                Ok(true)
            }
            ReadBatch::End => Ok(false),
        }
    }

    /// Drops the lines behind the first `most` bytes, except the first line. Returns the number of
    /// the first one that was dropped.
    fn cut(&mut self, most: usize) -> Option<u64> {
        let kept = self.lines.iter().position(|(_, line)| line.end > most)?;
        let kept = kept.max(1);
        let dropped = self.lines.get(kept)?.0;
        self.lines.truncate(kept);
        Some(dropped)
    }

    /// Returns the parts of lost entries with these numbers.
    fn lost_within(&self, numbers: Range<u64>) -> Vec<LostEntries> {
        let within = self.lost.iter().map(|lost| LostEntries {
            from: lost.from.max(numbers.start),
            to: lost.to.min(numbers.end - 1),
        });
        within.filter(|lost| lost.from <= lost.to).collect()
    }

    /// Returns the size of everything that was read, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.lines
            .iter()
            .map(|(number, line)| (*number, &self.bytes[line.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use tempfile::TempDir;
    use trunkline_journal::Options;

    use super::*;

    const SMALL: u64 = 64 * 1024;

    /// Stores a session of `count` entries of about `bytes` bytes, in blocks of up to five entries,
    /// with another session between them, in segments of this size.
    fn stored(count: u64, bytes: usize, segment: u64) -> (TempDir, Journal, SessionKey) {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.segment = segment;
        let (journal, _) = Journal::open(folder.path(), options).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let (other, _) = journal.create("o", b"{}").unwrap();
        let content = "x".repeat(bytes);
        let line = |id: &str, seq: u64| {
            format!("{{\"id\":\"{id}\",\"seq\":{seq},\"content\":\"{content}\"}}\n")
        };
        let mut seq = 1;
        while seq <= count {
            let block = (seq % 5 + 1).min(count - seq + 1);
            for (id, session) in [("o", other), ("s", key)] {
                let lines: String = (seq..seq + block).map(|seq| line(id, seq)).collect();
                let count = u32::try_from(block).unwrap();
                let stored = journal.put_entries(session, 1, seq, count, lines.as_bytes());
                journal.wait(&stored).unwrap();
            }
            seq += block;
        }
        (folder, journal, key)
    }

    fn numbers(page: &HistoryPage) -> Vec<u64> {
        let seq = |entry: &Json| serde_json::from_str::<serde_json::Value>(entry.get()).unwrap();
        page.entries
            .iter()
            .map(|entry| seq(entry)["seq"].as_u64().unwrap())
            .collect()
    }

    /// Returns the numbers of a page's entries and of those that are lost, in their order.
    fn all_numbers(page: &HistoryPage) -> Vec<u64> {
        let mut all = numbers(page);
        all.extend(page.lost.iter().flat_map(|lost| lost.from..=lost.to));
        all.sort_unstable();
        all
    }

    #[test]
    fn pages_from_the_end_join_to_the_history_that_is_read_from_its_beginning() {
        let (_folder, journal, key) = stored(300, 1000, SMALL);
        for limit in [1, 3, 7, 299, 300, 301, u64::MAX] {
            let mut forward = Vec::new();
            let mut next = Some(1);
            while let Some(from) = next {
                let page = read_page(&journal, key, HistoryRange::From(from), limit).unwrap();
                assert!(!page.entries.is_empty() && page.entries.len() as u64 <= limit);
                forward.extend(numbers(&page));
                next = page.next;
            }
            let mut backward = Vec::new();
            let mut pages = 0;
            let mut previous = Some(u64::MAX);
            while let Some(before) = previous {
                let page = read_page(&journal, key, HistoryRange::Before(before), limit).unwrap();
                assert!(!page.entries.is_empty() && page.entries.len() as u64 <= limit);
                assert_eq!(page.last, 300);
                assert_eq!(page.next, (before <= 300).then_some(before));
                backward.splice(0..0, numbers(&page));
                previous = page.previous;
                pages += 1;
            }
            assert_eq!(forward, (1..=300).collect::<Vec<_>>(), "{limit}");
            assert_eq!(backward, forward, "{limit}");
            assert!(limit != 3 || pages == 100, "{pages} pages");
        }
    }

    #[test]
    fn a_page_is_bounded_in_bytes_and_has_the_entries_next_to_its_end() {
        let (_folder, journal, key) = stored(60, 100_000, 64 * 1024 * 1024);
        let page = read_page(&journal, key, HistoryRange::Before(50), u64::MAX).unwrap();
        let found = numbers(&page);
        assert!(found.len() < 15 && found.last() == Some(&49), "{found:?}");
        assert_eq!(page.previous, Some(found[0]));
        let page = read_page(&journal, key, HistoryRange::From(2), u64::MAX).unwrap();
        let found = numbers(&page);
        assert!(found.len() < 15 && found[0] == 2, "{found:?}");
        let none = read_page(&journal, key, HistoryRange::Before(1), 5).unwrap();
        assert!(none.entries.is_empty() && none.previous.is_none());
        assert_eq!(none.next, Some(1));
    }

    #[test]
    fn a_large_block_is_cut_at_the_end_of_a_page_and_read_on_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let content = "x".repeat(100_000);
        // The second block begins below the limit of a page and ends far above it.
        for (first, count) in [(1, 9), (10, 12)] {
            let lines: String = (first..first + count)
                .map(|seq| format!("{{\"seq\":{seq},\"content\":\"{content}\"}}\n"))
                .collect();
            let count = u32::try_from(count).unwrap();
            let stored = journal.put_entries(key, 1, first, count, lines.as_bytes());
            journal.wait(&stored).unwrap();
        }
        let mut read = Vec::new();
        let mut next = Some(1);
        while let Some(from) = next {
            let page = read_page(&journal, key, HistoryRange::From(from), u64::MAX).unwrap();
            let bytes: usize = page.entries.iter().map(|entry| entry.get().len()).sum();
            assert!(bytes <= PAGE_BYTES, "{bytes} bytes");
            read.extend(numbers(&page));
            next = page.next;
        }
        assert_eq!(read, (1..=21).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_turns_to_another_session_reads_nothing_of_the_one_before() {
        for segment in [SMALL, 64 * 1024 * 1024] {
            let (_folder, journal, key) = stored(60, 100_000, segment);
            let other = journal.find("o").unwrap();
            let mut reader = journal.read(key, 1);
            for (key, id, before) in [(key, "s", 30), (other, "o", 20), (key, "s", 40)] {
                reader.turn_to_page(key, before, 3, u64::MAX).unwrap();
                assert_eq!(reader.position(), before - 3);
                let lines = EntryLines::read_to(&mut reader, before, usize::MAX).unwrap();
                let read: Vec<_> = lines
                    .iter()
                    .map(|(seq, line)| (seq, String::from_utf8_lossy(line)[7..8].to_owned()))
                    .collect();
                let expected: Vec<_> = (before - 3..before)
                    .map(|seq| (seq, id.to_owned()))
                    .collect();
                assert_eq!(read, expected);
            }
        }
    }

    /// The segments of the beginning are overwritten: a page that read them would be damaged.
    #[test]
    fn the_end_is_read_without_the_beginning_and_pages_name_lost_entries() {
        let (folder, journal, key) = stored(2000, 300, SMALL);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(folder.path().join("00000001.log"))
            .unwrap();
        let size = file.metadata().unwrap().len();
        file.write_all_at(&vec![b'x'; usize::try_from(size).unwrap()], 0)
            .unwrap();
        let end = read_page(&journal, key, HistoryRange::Before(u64::MAX), 200).unwrap();
        assert_eq!(numbers(&end), (1801..=2000).collect::<Vec<_>>());
        assert_eq!((end.previous, end.last), (Some(1801), 2000));

        assert!(end.lost.is_empty());

        let all: Vec<u64> = (1..=2000).collect();
        let mut forward = Vec::new();
        let mut next = Some(1);
        while let Some(from) = next {
            let page = read_page(&journal, key, HistoryRange::From(from), 50).unwrap();
            forward.extend(all_numbers(&page));
            next = page.next;
        }
        assert_eq!(forward, all);
        let mut backward = Vec::new();
        let mut read = Vec::new();
        let mut previous = Some(u64::MAX);
        while let Some(before) = previous {
            let page = read_page(&journal, key, HistoryRange::Before(before), 50).unwrap();
            backward.splice(0..0, all_numbers(&page));
            read.splice(0..0, numbers(&page));
            previous = page.previous;
        }
        assert_eq!(backward, all);
        assert!(read[0] > 1 && read.len() > 1500, "{}", read.len());
    }
}
