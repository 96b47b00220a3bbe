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
    segment::{self, ChunkLocation, SegmentDirectory},
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
/// Holds two files of one segment open, also if it [turns](Reader::turn_to_page) to another session.
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
    /// The segment in which chunks were looked up last.
    segment: u32,
    file: Option<(u32, File)>,
    directory: Option<(u32, SegmentDirectory)>,
}

impl Reader {
    pub(crate) fn new(state: Arc<JournalState>, session: SessionKey, from: u64) -> Self {
        Self {
            state,
            session,
            next: from.max(1),
            chunks: VecDeque::new(),
            segment: 0,
            file: None,
            directory: None,
        }
    }

    /// Turns to a session, so that the entries right before `before` are read next: at most
    /// `entries` of them, about `most` bytes, and one entry at least. Blocks for reads of the index
    /// on disk, from its end, and reads no entry.
    ///
    /// # Errors
    /// The file system's own.
    pub fn turn_to_page(
        &mut self,
        session: SessionKey,
        before: u64,
        entries: u64,
        most: u64,
    ) -> Result<(), ReadError> {
        (self.session, self.segment) = (session, 0);
        self.chunks.clear();
        // If the entries ahead are lost, they are reported.
        let earliest = before.saturating_sub(entries).max(1);
        self.next = earliest;
        let Some((first, last, newest)) = self.segments() else {
            return Ok(());
        };
        let mut from = before;
        let mut bytes = 0;
        for number in (first..=last).rev() {
            let chunks = self.find_chunks(number, newest)?;
            for chunk in chunks.iter().rev() {
                if chunk.kind != ChunkKind::Entries || chunk.first >= from {
                    continue;
                }
                bytes += u64::from(chunk.bytes);
                if from < before && bytes > most {
                    self.next = from;
                } else {
                    from = chunk.first.max(earliest);
                }
                if self.next == from {
                    if first == last {
                        self.keep_chunks(number, chunks);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads the stored facts of a session, as [`Journal::facts`](crate::Journal::facts) does.
    ///
    /// # Errors
    /// The file system's own.
    pub fn facts(&mut self, session: SessionKey) -> Result<Option<Vec<u8>>, ReadError> {
        let index = self.state.lock_index();
        let location = index.slot(session).and_then(|slot| slot.facts);
        drop(index);
        let Some(location) = location else {
            return Ok(None);
        };
        Ok(match self.open_segment(location.segment)? {
            Some(file) => read_facts_of(file, location)?,
            None => None,
        })
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
        let Some((first, last, newest)) = self.segments() else {
            return Ok(());
        };
        for number in self.segment.max(first)..=last {
            let chunks = self.find_chunks(number, newest)?;
            self.keep_chunks(number, chunks);
            if !self.chunks.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the first and the last segment that may have something of the session, and the
    /// newest segment of all.
    fn segments(&self) -> Option<(u32, u32, u32)> {
        let index = self.state.lock_index();
        let (first, last) = index.slot(self.session)?.segments;
        Some((first, last, index.newest_segment()))
    }

    /// Adds the chunks of a segment with entries from the next one on.
    fn keep_chunks(&mut self, number: u32, chunks: Vec<ChunkLocation>) {
        let is_wanted =
            |chunk: &ChunkLocation| chunk.kind == ChunkKind::Entries && chunk.end() > self.next;
        let wanted = chunks.into_iter().filter(is_wanted);
        self.chunks.extend(wanted.map(|chunk| (number, chunk)));
        if !self.chunks.is_empty() {
            self.segment = number;
        }
    }

    /// Finds the chunks of the session in a segment, in the order in which they were written.
    fn find_chunks(&mut self, number: u32, newest: u32) -> io::Result<Vec<ChunkLocation>> {
        if number == newest {
            return self.state.find_chunks(number, newest, self.session);
        }
        let folder = &self.state.folder;
        if self
            .directory
            .as_ref()
            .is_none_or(|(open, _)| *open != number)
        {
            let directory = opening::open_directory(folder, number)?;
            self.directory = directory.map(|directory| (number, directory));
        }
        let directory = self.directory.as_ref().map(|(_, directory)| directory);
        opening::find_chunks_by(directory, folder, number, self.session)
    }

    /// Returns the file of a segment; `None` if it was removed.
    fn open_segment(&mut self, segment: u32) -> io::Result<Option<&File>> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != segment) {
            self.file = match segment::open_to_read(&self.state.segment_path(segment)) {
                Ok(file) => Some((segment, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(self.file.as_ref().map(|(_, file)| file))
    }

    /// Appends the lines of a chunk, from the next entry on. Returns whether they are what was
    /// written.
    fn append_chunk(
        &mut self,
        segment: u32,
        chunk: &ChunkLocation,
        lines: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let next = self.next;
        let Some(file) = self.open_segment(segment)? else {
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
        let skipped = usize::try_from(next - chunk.first).unwrap_or(usize::MAX);
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
    read_facts_of(&file, location)
}

fn read_facts_of(file: &File, location: FactsLocation) -> io::Result<Option<Vec<u8>>> {
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
