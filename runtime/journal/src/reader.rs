//! Reads the entries of one session, in order.

use std::{
    collections::VecDeque, fs::File, io, ops::RangeInclusive, os::unix::fs::FileExt, sync::Arc,
};

use crate::{
    ReadError, SessionKey,
    block::Kind,
    index::FactsAt,
    journal::Shared,
    opening,
    segment::{self, Place},
};

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// Entries with these numbers; their lines were appended.
    Lines(RangeInclusive<u64>),
    /// Entries with these numbers are not there: damaged, or lost. Reading goes on behind them.
    Missing(RangeInclusive<u64>),
    /// There are no more, for now.
    End,
}

/// Reads the stored entries of one session from a number on. What is stored later is read too.
///
/// Holds one file open at a time.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    session: SessionKey,
    next: u64,
    /// Where the entries from `next` on are, as far as it was looked up.
    places: VecDeque<(u32, Place)>,
    file: Option<(u32, File)>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, session: SessionKey, from: u64) -> Self {
        Self {
            shared,
            session,
            next: from.max(1),
            places: VecDeque::new(),
            file: None,
        }
    }

    /// The number of the entry that is read next.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Appends the lines of the next entries to `lines`: about `most` bytes, and one entry at least. Blocks for reads of
    /// the disk.
    ///
    /// # Errors
    /// The file system's own. Nothing is skipped: a later call reads the same again.
    pub fn next(&mut self, lines: &mut Vec<u8>, most: usize) -> Result<Batch, ReadError> {
        let (first, begun) = (self.next, lines.len());
        loop {
            if self.places.is_empty() {
                self.look_up()?;
            }
            let Some((segment, place)) = self.places.front().copied() else {
                break;
            };
            if place.end() <= self.next {
                self.places.pop_front();
                continue;
            }
            let read = lines.len() - begun;
            if read > 0 && (place.first > self.next || read + place.bytes as usize > most) {
                break;
            }
            if place.first > self.next {
                let missing = self.next..=place.first - 1;
                self.next = place.first;
                return Ok(Batch::Missing(missing));
            }
            match self.take(segment, &place, lines)? {
                true => self.next = place.end(),
                false if self.next > first => break,
                false => {
                    let missing = self.next..=place.end() - 1;
                    self.next = place.end();
                    return Ok(Batch::Missing(missing));
                }
            }
        }
        if self.next > first {
            return Ok(Batch::Lines(first..=self.next - 1));
        }
        // What was counted and is nowhere.
        let last = self
            .shared
            .index()
            .slot(self.session)
            .map_or(0, |slot| slot.last);
        if last >= self.next {
            let missing = self.next..=last;
            self.next = last + 1;
            return Ok(Batch::Missing(missing));
        }
        Ok(Batch::End)
    }

    /// Finds the places of the entries from the next on, of one segment.
    fn look_up(&mut self) -> io::Result<()> {
        let index = self.shared.index();
        let Some((first, last)) = index.slot(self.session).map(|slot| slot.segments) else {
            return Ok(());
        };
        let newest = index
            .segments
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        drop(index);
        let from = self
            .file
            .as_ref()
            .map_or(first, |(number, _)| *number)
            .max(first);
        for number in from..=last {
            let places = self.shared.places(number, newest, self.session)?;
            let wanted = |place: &Place| place.kind == Kind::Entries && place.end() > self.next;
            self.places.extend(
                places
                    .into_iter()
                    .filter(wanted)
                    .map(|place| (number, place)),
            );
            if !self.places.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Appends the lines of a place, from the next entry on. Whether they are what was written.
    fn take(&mut self, segment: u32, place: &Place, lines: &mut Vec<u8>) -> io::Result<bool> {
        if self
            .file
            .as_ref()
            .is_none_or(|(number, _)| *number != segment)
        {
            match segment::open_to_read(&self.shared.segment(segment)) {
                Ok(file) => self.file = Some((segment, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some((_, file)) = &self.file else {
            return Ok(false);
        };
        let begin = lines.len();
        lines.resize(begin + place.bytes as usize, 0);
        let read = match file.read_exact_at(&mut lines[begin..], place.at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            read => {
                read?;
                place.is_whole(&lines[begin..])
            }
        };
        let skipped = usize::try_from(self.next - place.first).unwrap_or(usize::MAX);
        let from = match skipped {
            _ if !read => None,
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

impl Shared {
    /// The places of a session in a segment, in the order in which they were written.
    pub(crate) fn places(
        &self,
        number: u32,
        newest: u32,
        session: SessionKey,
    ) -> io::Result<Vec<Place>> {
        if number == newest {
            let index = self.index();
            let is_still = index
                .segments
                .last_key_value()
                .is_some_and(|(last, _)| *last == number);
            if is_still {
                return Ok(index.newest(session).to_vec());
            }
        }
        opening::places(&self.folder, number, session)
    }

    pub(crate) fn read_facts(&self, at: FactsAt) -> Result<Option<Vec<u8>>, ReadError> {
        let file = match segment::open_to_read(&self.segment(at.segment)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut facts = vec![0; at.bytes as usize];
        match file.read_exact_at(&mut facts, at.at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        Ok((crc32fast::hash(&facts) == at.sum).then_some(facts))
    }

    pub(crate) fn read_marks(&self, session: SessionKey) -> Result<Vec<Vec<u8>>, ReadError> {
        let index = self.index();
        let Some(slot) = index.slot(session) else {
            return Ok(Vec::new());
        };
        let newest = index
            .segments
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        let from = slot.facts.map_or(slot.segments.0, |facts| facts.segment);
        let (facts, last) = (slot.facts, slot.segments.1);
        drop(index);
        let mut marks = Vec::new();
        for number in from..=last {
            let behind = facts
                .filter(|facts| facts.segment == number)
                .map_or(0, |facts| facts.at);
            let mut places = self.places(number, newest, session)?;
            places.retain(|place| place.kind == Kind::Mark && place.at >= behind);
            if places.is_empty() {
                continue;
            }
            let file = segment::open_to_read(&self.segment(number))?;
            for place in places {
                let mut mark = vec![0; place.bytes as usize];
                file.read_exact_at(&mut mark, place.at)?;
                if place.is_whole(&mark) {
                    marks.push(mark);
                }
            }
        }
        Ok(marks)
    }
}
