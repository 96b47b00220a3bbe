//! When each session is due next: one entry a session, made earlier when needed and never moved back. What is left of
//! earlier times and of sessions that have ended is dropped when it is too much.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

/// The sessions by when they are due.
#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(Instant, u32)>>);

impl Timers {
    /// Makes a session due at this time, too. `armed` is its earliest entry, and is updated.
    pub(crate) fn arm(&mut self, armed: &mut Option<Instant>, due: Instant, index: u32) {
        if armed.is_none_or(|armed| due < armed) {
            *armed = Some(due);
            self.0.push(Reverse((due, index)));
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the entries that someone still needs.
    pub(crate) fn retain(&mut self, needed: impl Fn(Instant, u32) -> bool) {
        self.0.retain(|Reverse((due, index))| needed(*due, *index));
    }

    /// When the next session is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// The next session that is due by now.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, index))| index)
    }
}
