//! A bounded queue of log entries, and the loop of the thread that writes them.
//!
//! Entries gather for a moment before the thread takes them, so that many entries a second wake it
//! a few times.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Entries that wait for the thread of a log.
pub trait QueuedBatch: Default {
    /// The weight of a full batch. At half of it the thread waits for no further entries.
    const ROOM: usize;
    /// The time for which the first entry of a batch waits for others.
    const GATHER: Duration;

    /// The weight of all entries; 0 if there are none.
    fn weight(&self) -> usize;
}

/// The queue between those that log and the thread that writes.
#[derive(Debug, Default)]
pub struct BatchQueue<B> {
    state: Mutex<QueueState<B>>,
    /// Wakes the thread.
    more: Condvar,
    /// Wakes flushes after a batch.
    written: Condvar,
}

#[derive(Debug, Default)]
struct QueueState<B> {
    waiting: B,
    /// True while a batch is on its way to the file.
    writing: bool,
    /// The number of flushes that wait.
    flushes: usize,
    closed: bool,
}

impl<B: QueuedBatch> QueueState<B> {
    fn is_idle(&self) -> bool {
        self.waiting.weight() == 0 && !self.writing
    }

    /// Returns true if a batch waits for further entries.
    fn gathers(&self) -> bool {
        !self.closed && self.flushes == 0 && self.waiting.weight() < B::ROOM / 2
    }
}

impl<B: QueuedBatch> BatchQueue<B> {
    fn lock(&self) -> MutexGuard<'_, QueueState<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds entries to the waiting batch, under the queue's lock. A closed queue takes none. Never
    /// waits for the thread.
    pub fn push(&self, add: impl FnOnce(&mut B)) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let before = state.waiting.weight();
        add(&mut state.waiting);
        let after = state.waiting.weight();
        drop(state);
        let half = B::ROOM / 2;
        if (before == 0 && after > 0) || (before < half && after >= half) {
            self.more.notify_one();
        }
    }

    /// Returns true if nothing waits to be written.
    pub fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// Waits until all queued entries are written, but not longer than `within`. Blocks.
    pub fn flush(&self, within: Duration) {
        let mut state = self.lock();
        state.flushes += 1;
        self.more.notify_one();
        let waited = self
            .written
            .wait_timeout_while(state, within, |state| !state.is_idle());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.flushes -= 1;
    }

    /// Ends [`BatchQueue::serve`] once the waiting entries are written.
    pub fn close(&self) {
        self.lock().closed = true;
        self.more.notify_one();
    }

    /// Writes batches in order until the queue is closed. The body of the thread.
    ///
    /// `seal` completes each batch under the queue's lock; `write` writes it and leaves it empty.
    pub fn serve(&self, seal: impl Fn(&mut B), mut write: impl FnMut(&mut B)) {
        let mut batch = B::default();
        loop {
            let mut state = self.lock();
            while state.waiting.weight() == 0 {
                if state.closed {
                    return;
                }
                state = self
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let gathered = self
                .more
                .wait_timeout_while(state, B::GATHER, |state| state.gathers());
            (state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut state.waiting, &mut batch);
            seal(&mut batch);
            state.writing = true;
            drop(state);
            write(&mut batch);
            self.lock().writing = false;
            self.written.notify_all();
        }
    }

    #[cfg(test)]
    pub(crate) fn take(&self) -> B {
        std::mem::take(&mut self.lock().waiting)
    }
}

/// The number of entries that are missing from a log, for a warning whenever it has doubled.
#[derive(Debug, Default)]
pub struct MissingCount {
    all: u64,
    /// The part of `all` that a warning has reported.
    reported: u64,
}

impl MissingCount {
    /// Counts entries. Returns the number of all missing entries if a warning is due.
    pub fn add(&mut self, more: u64) -> Option<u64> {
        self.all += more;
        let is_due = self.reported == 0 || self.all >= 2 * self.reported;
        if is_due {
            self.reported = self.all.max(1);
        }
        is_due.then_some(self.all)
    }
}
