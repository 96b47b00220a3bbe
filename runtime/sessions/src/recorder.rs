//! Writes the entries of one session: numbers them, puts them into the journal, and tells what follows when they are
//! stored.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use trunkline_journal::{Journal, NotStored, SessionKey, Settled, Ticket};
use trunkline_protocol::{Body, Envelope, Meta, SessionId, TurnId};

use crate::{
    facts::{Facts, now},
    tail::Tail,
};

/// How many bytes may wait to be stored before the session takes no further event.
const ROOM: usize = 256 * 1024;

/// The entries of one session on their way. `T` is what follows from them.
#[derive(Debug)]
pub(crate) struct Recorder<T> {
    journal: Journal,
    key: SessionKey,
    id: SessionId,
    tail: Arc<Tail>,
    /// The number of the next entry.
    next: u64,
    /// What was gathered since the last put: lines, the first one's number, what follows.
    lines: Vec<u8>,
    first: u64,
    then: Vec<T>,
    marks: Vec<Vec<u8>>,
    /// What was put and is not known to be stored.
    unstored: VecDeque<Unstored<T>>,
    unstored_bytes: usize,
    ending: String,
}

/// What was put and is not known to be stored.
#[derive(Debug)]
struct Unstored<T> {
    ticket: Ticket,
    first: u64,
    last: u64,
    lines: Bytes,
    then: Vec<T>,
}

/// What was put together is stored, or is not.
#[derive(Debug)]
pub(crate) struct Stored<T> {
    pub(crate) result: Result<(), NotStored>,
    pub(crate) then: Vec<T>,
}

impl<T> Recorder<T> {
    pub(crate) fn new(journal: Journal, key: SessionKey, id: SessionId, tail: Arc<Tail>) -> Self {
        let next = tail.stored() + 1;
        Self {
            journal,
            key,
            id,
            tail,
            next,
            lines: Vec::new(),
            first: next,
            then: Vec::new(),
            marks: Vec::new(),
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            ending: String::new(),
        }
    }

    /// Writes an entry, and says its number.
    pub(crate) fn entry<B: Body>(&mut self, turn: Option<TurnId>, body: B, meta: Option<Meta>) -> u64 {
        let message = Envelope { session_id: self.id.clone(), turn_id: turn, meta, large: None, body };
        message.write(&mut self.lines);
        // In place of the brace and the line's end.
        self.lines.truncate(self.lines.len() - 2);
        let seq = self.next;
        self.next += 1;
        use std::fmt::Write;
        self.ending.clear();
        let _ = writeln!(
            self.ending,
            ",\"seq\":{seq},\"epoch\":{},\"time\":\"{}\"}}",
            self.journal.epoch(),
            now()
        );
        self.lines.extend_from_slice(self.ending.as_bytes());
        seq
    }

    /// Says what follows when all that was written so far is stored.
    pub(crate) fn then(&mut self, then: T) {
        self.then.push(then);
    }

    /// Puts a mark behind the entries so far.
    pub(crate) fn mark(&mut self, mark: Vec<u8>) {
        self.marks.push(mark);
    }

    /// Hands what was gathered to the journal.
    pub(crate) fn flush(&mut self) {
        if self.lines.is_empty() && self.then.is_empty() && self.marks.is_empty() {
            return;
        }
        let last = self.next - 1;
        let lines = Bytes::from(std::mem::take(&mut self.lines));
        let count = u32::try_from(self.next - self.first).unwrap_or(u32::MAX);
        let mut ticket = None;
        if count > 0 {
            ticket = Some(self.journal.put_entries(self.key, self.first, count, &lines));
        }
        for mark in self.marks.drain(..) {
            ticket = Some(self.journal.put_mark(self.key, last, &mark));
        }
        // What follows from entries that were put before follows when those are stored.
        let ticket = ticket.or_else(|| self.unstored.back().map(|unstored| unstored.ticket.clone()));
        let ticket = ticket.unwrap_or_else(Ticket::stored);
        self.unstored_bytes += lines.len();
        let then = std::mem::take(&mut self.then);
        self.unstored.push_back(Unstored { ticket, first: self.first, last, lines, then });
        self.first = self.next;
    }

    /// Puts the facts, as of all that was written so far.
    pub(crate) fn facts(&mut self, facts: &Facts) -> Ticket {
        self.flush();
        let settled = if facts.open.is_empty() { Settled::Yes } else { Settled::No };
        self.journal.put_facts(self.key, self.next - 1, &facts.to_bytes(), settled)
    }

    /// The number of the last entry that was written.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Whether a further event may be taken.
    pub(crate) fn has_room(&self) -> bool {
        self.unstored_bytes + self.lines.len() < ROOM && !self.journal.is_full()
    }

    /// Whether all is stored.
    pub(crate) fn is_idle(&self) -> bool {
        self.unstored.is_empty() && self.lines.is_empty() && self.then.is_empty()
    }

    /// Whether so much was gathered that it should be put.
    pub(crate) fn is_due(&self) -> bool {
        self.lines.len() > ROOM / 4
    }

    /// Waits until the oldest that was put is stored, and tells the listeners. Never resolves where nothing was put.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn stored(&mut self) -> Stored<T> {
        let result = match self.unstored.front_mut() {
            Some(unstored) => (&mut unstored.ticket).await,
            None => std::future::pending().await,
        };
        let Some(unstored) = self.unstored.pop_front() else { std::future::pending().await };
        self.unstored_bytes -= unstored.lines.len();
        if unstored.last >= unstored.first {
            match &result {
                Ok(()) => self.tail.publish(unstored.first, unstored.last, unstored.lines),
                Err(why) => {
                    let (from, to) = (unstored.first, unstored.last);
                    tracing::warn!(session = %self.id, from, to, "entries are lost: {why}");
                }
            }
        }
        Stored { result, then: unstored.then }
    }

    /// How many of what is to follow are meant.
    pub(crate) fn count(&self, mut is_meant: impl FnMut(&T) -> bool) -> usize {
        let thens = self.unstored.iter().flat_map(|unstored| &unstored.then).chain(&self.then);
        thens.filter(|then| is_meant(then)).count()
    }

    /// Takes back what was to follow from entries that are not stored yet.
    pub(crate) fn take_back(&mut self, mut is_meant: impl FnMut(&T) -> bool) -> Vec<T> {
        let thens = self.unstored.iter_mut().map(|unstored| &mut unstored.then).chain([&mut self.then]);
        thens.flat_map(|then| then.extract_if(.., |then| is_meant(then)).collect::<Vec<_>>()).collect()
    }
}
