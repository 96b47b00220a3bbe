//! Reads the entries of one session, in order.

use std::{
    collections::VecDeque, fs::File, io, ops::RangeInclusive, os::unix::fs::FileExt, path::Path,
    sync::Arc,
};

use crate::{
    ReadError, SessionKey,
    block::ChunkKind,
    index::FactsLocation,
    journal::JournalState,
    opening,
    segment::{self, ChunkLocation},
};

/// The result of one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadBatch {
    /// The lines of these entries were appended.
    Lines(RangeInclusive<u64>),
    /// These entries are damaged or lost. The next read begins behind them.
    Missing(RangeInclusive<u64>),
    /// All entries that are stored so far were read.
    End,
}

/// Reads the stored entries of one session from a number on, with those that are stored later.
/// Holds one file open at a time.
///
/// Journals of older programs can have two lines of one number, if two writers continued a session
/// at once. A reader returns the line that was stored first. Entries that were stored behind a
/// later number are [missing](ReadBatch::Missing).
#[derive(Debug)]
pub struct Reader {
    state: Arc<JournalState>,
    session: SessionKey,
    next: u64,
    /// The chunks with the entries from `next` on, as far as they were looked up.
    chunks: VecDeque<(u32, ChunkLocation)>,
    file: Option<(u32, File)>,
}

impl Reader {
    pub(crate) fn new(state: Arc<JournalState>, session: SessionKey, from: u64) -> Self {
        Self {
            state,
            session,
            next: from.max(1),
            chunks: VecDeque::new(),
            file: None,
        }
    }

    /// The number of the entry that is read next.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Appends the lines of the next entries to `lines`: about `most` bytes, and one entry at
    /// least. Blocks for reads of the disk.
    ///
    /// # Errors
    /// The file system's own. Nothing is skipped: a later call reads the same again.
    pub fn next(&mut self, lines: &mut Vec<u8>, most: usize) -> Result<ReadBatch, ReadError> {
        let first = self.next;
        let begin = lines.len();
        loop {
            if self.chunks.is_empty() {
                self.find_next_chunks()?;
            }
            let Some((segment, chunk)) = self.chunks.front().copied() else {
                break;
            };
            // The entries before were stored first.
            if chunk.end() <= self.next {
                self.chunks.pop_front();
                continue;
            }
            let read = lines.len() - begin;
            if read > 0 && (chunk.first > self.next || read + chunk.bytes as usize > most) {
                break;
            }
            if chunk.first > self.next {
                let missing = self.next..=chunk.first - 1;
                self.next = chunk.first;
                return Ok(ReadBatch::Missing(missing));
            }
            if self.append_chunk(segment, &chunk, lines)? {
                self.next = chunk.end();
            } else if self.next > first {
                break;
            } else {
                let missing = self.next..=chunk.end() - 1;
                self.next = chunk.end();
                return Ok(ReadBatch::Missing(missing));
            }
        }
        if self.next > first {
            return Ok(ReadBatch::Lines(first..=self.next - 1));
        }
        // Entries that were counted and are in no segment.
        let index = self.state.lock_index();
        let last = index.slot(self.session).map_or(0, |slot| slot.last);
        if last >= self.next {
            let missing = self.next..=last;
            self.next = last + 1;
            return Ok(ReadBatch::Missing(missing));
        }
        Ok(ReadBatch::End)
    }

    /// Looks up the chunks of the next entries, in one segment.
    fn find_next_chunks(&mut self) -> io::Result<()> {
        let index = self.state.lock_index();
        let Some((first, last)) = index.slot(self.session).map(|slot| slot.segments) else {
            return Ok(());
        };
        let newest = index.newest_segment();
        drop(index);
        let from = self.file.as_ref().map_or(first, |(number, _)| *number);
        for number in from.max(first)..=last {
            let chunks = self.state.find_chunks(number, newest, self.session)?;
            let is_wanted =
                |chunk: &ChunkLocation| chunk.kind == ChunkKind::Entries && chunk.end() > self.next;
            self.chunks.extend(
                chunks
                    .into_iter()
                    .filter(is_wanted)
                    .map(|chunk| (number, chunk)),
            );
            if !self.chunks.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Appends the lines of a chunk, from the next entry on. Returns whether they are what was
    /// written.
    fn append_chunk(
        &mut self,
        segment: u32,
        chunk: &ChunkLocation,
        lines: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let is_open = self
            .file
            .as_ref()
            .is_some_and(|(number, _)| *number == segment);
        if !is_open {
            match segment::open_to_read(&self.state.segment_path(segment)) {
                Ok(file) => self.file = Some((segment, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some((_, file)) = &self.file else {
            return Ok(false);
        };
        let begin = lines.len();
        lines.resize(begin + chunk.bytes as usize, 0);
        let is_whole = match file.read_exact_at(&mut lines[begin..], chunk.at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            read => {
                read?;
                chunk.is_whole(&lines[begin..])
            }
        };
        let skipped = usize::try_from(self.next - chunk.first).unwrap_or(usize::MAX);
        let from = match skipped {
            _ if !is_whole => None,
            0 => Some(0),
            _ => memchr::memchr_iter(b'\n', &lines[begin..])
                .nth(skipped - 1)
                .map(|end| end + 1),
        };
        match from {
            Some(from) => drop(lines.drain(begin..begin + from)),
            None => lines.truncate(begin),
        }
        Ok(from.is_some())
    }
}

/// Reads facts; `None` if they are missing or damaged.
pub(crate) fn read_facts(folder: &Path, location: FactsLocation) -> io::Result<Option<Vec<u8>>> {
    let file = match segment::open_to_read(&segment::path(folder, location.segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut facts = vec![0; location.bytes as usize];
    match file.read_exact_at(&mut facts, location.at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    Ok((crc32fast::hash(&facts) == location.sum).then_some(facts))
}

impl JournalState {
    /// Finds the chunks of a session in a segment, in the order in which they were written.
    pub(crate) fn find_chunks(
        &self,
        number: u32,
        newest: u32,
        session: SessionKey,
    ) -> io::Result<Vec<ChunkLocation>> {
        if number == newest {
            let index = self.lock_index();
            if index.newest_segment() == number {
                return Ok(index.chunks_in_newest(session).to_vec());
            }
        }
        opening::find_chunks(&self.folder, number, session)
    }

    /// Finds the number from which to read a page that ends before an entry. Looks at the chunks of
    /// the session from the newest one back.
    pub(crate) fn find_page_start(
        &self,
        session: SessionKey,
        before: u64,
        entries: u64,
        most: u64,
    ) -> io::Result<u64> {
        let earliest = before.saturating_sub(entries).max(1);
        let index = self.lock_index();
        let Some((first, last)) = index.slot(session).map(|slot| slot.segments) else {
            return Ok(earliest);
        };
        let newest = index.newest_segment();
        drop(index);
        let mut from = before;
        let mut bytes = 0;
        for number in (first..=last).rev() {
            for chunk in self.find_chunks(number, newest, session)?.iter().rev() {
                if chunk.kind != ChunkKind::Entries || chunk.first >= from {
                    continue;
                }
                bytes += u64::from(chunk.bytes);
                if from < before && bytes > most {
                    return Ok(from);
                }
                from = chunk.first.max(earliest);
                if from == earliest {
                    return Ok(earliest);
                }
            }
        }
        // The entries ahead are lost, and a reader reports them.
        Ok(earliest)
    }

    pub(crate) fn read_facts(&self, location: FactsLocation) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(read_facts(&self.folder, location)?)
    }

    pub(crate) fn read_marks(&self, session: SessionKey) -> Result<Vec<Vec<u8>>, ReadError> {
        let index = self.lock_index();
        let Some(slot) = index.slot(session) else {
            return Ok(Vec::new());
        };
        let newest = index.newest_segment();
        let facts = slot.facts;
        let last = slot.segments.1;
        let from = facts.map_or(slot.segments.0, |facts| facts.segment);
        drop(index);
        let mut marks = Vec::new();
        for number in from..=last {
            let behind = facts
                .filter(|facts| facts.segment == number)
                .map_or(0, |facts| facts.at);
            let mut chunks = self.find_chunks(number, newest, session)?;
            chunks.retain(|chunk| chunk.kind == ChunkKind::Mark && chunk.at >= behind);
            if chunks.is_empty() {
                continue;
            }
            let file = segment::open_to_read(&self.segment_path(number))?;
            for chunk in chunks {
                let mut mark = vec![0; chunk.bytes as usize];
                file.read_exact_at(&mut mark, chunk.at)?;
                if chunk.is_whole(&mark) {
                    marks.push(mark);
                }
            }
        }
        Ok(marks)
    }
}
