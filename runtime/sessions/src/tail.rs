//! The newest stored entries of a session. Its listeners wait here, and read here while they keep
//! up.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::entry::{Entry, EntryContent, line_ranges};

/// Number of bytes that are kept for listeners that are a little behind. Others read the journal.
const KEPT: usize = 256 * 1024;

/// Number of bytes that a listener takes at once.
const TAKEN: usize = 64 * 1024;

/// Number of a listener of a session.
pub(crate) type ListenerNo = u64;

/// The newest entries, shared with the listeners.
#[derive(Debug)]
pub(crate) struct EntryTail {
    state: Mutex<TailState>,
    changed: Notify,
    /// Number of listeners that want the contents of entries beside their lines.
    content_listeners: AtomicUsize,
}

#[derive(Debug)]
struct TailState {
    /// The number of the last stored entry.
    stored: u64,
    chunks: VecDeque<EntryChunk>,
    bytes: usize,
    /// The last entry that each listener has taken.
    listeners: HashMap<ListenerNo, u64>,
    /// Number of listeners that lack a part of the first chunk. The count avoids that each of many
    /// listeners checks all others.
    lacking: usize,
    /// The reason that listeners get at the end of the stream, if already set.
    end: Option<StreamEnd>,
    is_over: bool,
}

/// Reasons for which the stream of a session ends for a listener. The session itself may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Another host has the session, or will have it.
    Moved,
    /// The host ends.
    HostEnding,
    /// The session left the memory of its host out of order: its record refused a batch, or its
    /// task failed.
    Interrupted,
    /// Too many replies waited for this listener. Its messages are ignored from now on.
    Overrun,
}

/// Entries that were stored together. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct EntryChunk {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) lines: Bytes,
    /// The content of each entry, or none if no listener wanted them when they were written.
    contents: Arc<[Arc<EntryContent>]>,
}

impl EntryChunk {
    /// Returns the lines from the number `from` on.
    pub(crate) fn lines_from(&self, from: u64) -> &[u8] {
        from_number(&self.lines, self.first, from.max(self.first))
    }

    /// Returns the entries from the number `from` on.
    pub(crate) fn entries_from(&self, from: u64) -> impl Iterator<Item = Entry> + '_ {
        let mut contents = self.contents.iter().cloned();
        line_ranges(&self.lines)
            .zip(self.first..)
            .map(move |(range, seq)| Entry::new(seq, self.lines.slice(range), contents.next()))
            .skip_while(move |entry| entry.seq() < from)
    }
}

/// Result of reading after an entry.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// Chunks in order, and the number of the last entry. The first chunk may begin before the
    /// requested entry.
    Chunks(Vec<EntryChunk>, u64),
    /// More entries follow, but up to this number they are only in the journal.
    Behind(u64),
    /// There is nothing to read yet.
    Nothing,
    /// The stream is over: nothing more will come.
    Over(StreamEnd),
}

impl EntryTail {
    pub(crate) fn new(stored: u64) -> Self {
        let state = TailState {
            stored,
            chunks: VecDeque::new(),
            bytes: 0,
            listeners: HashMap::new(),
            lacking: 0,
            end: None,
            is_over: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            content_listeners: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TailState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a listener wants the contents of entries.
    pub(crate) fn wants_contents(&self) -> bool {
        self.content_listeners.load(Ordering::Relaxed) > 0
    }

    /// Counts a listener that wants the contents of entries. Entries written before have lines
    /// only.
    pub(crate) fn want_contents(&self) {
        self.content_listeners.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back [`EntryTail::want_contents`].
    pub(crate) fn want_no_contents(&self) {
        self.content_listeners.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes stored entries available to the listeners. `contents` must cover all entries;
    /// otherwise it is dropped.
    pub(crate) fn publish(
        &self,
        first: u64,
        last: u64,
        lines: Bytes,
        contents: Vec<Arc<EntryContent>>,
    ) {
        let mut state = self.lock();
        state.stored = last;
        if state.listeners.is_empty() {
            return;
        }
        state.bytes += lines.len();
        let is_whole = contents.len() as u64 == last + 1 - first;
        state.chunks.push_back(EntryChunk {
            first,
            last,
            lines,
            contents: contents.into_iter().filter(|_| is_whole).collect(),
        });
        if state.chunks.len() == 1 {
            state.count_lacking();
        }
        while state.bytes > KEPT && state.chunks.len() > 1 {
            state.drop_first();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Sets the reason that listeners get at the end of the stream, unless one is set.
    pub(crate) fn set_end(&self, end: StreamEnd) {
        self.lock().end.get_or_insert(end);
    }

    /// Ends the stream: nothing more will come.
    pub(crate) fn finish(&self) {
        self.lock().is_over = true;
        self.changed.notify_waiters();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    pub(crate) fn stored(&self) -> u64 {
        self.lock().stored
    }

    pub(crate) fn join(&self, listener: ListenerNo, after: u64) {
        let mut state = self.lock();
        state.listeners.insert(listener, after);
        state.count_lacking();
    }

    /// Returns the number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        self.lock().listeners.len()
    }

    pub(crate) fn leave(&self, listener: ListenerNo) {
        let mut state = self.lock();
        state.listeners.remove(&listener);
        state.count_lacking();
        state.drop_taken();
    }

    /// Returns the entries after `after` for a listener, about [`TAKEN`] bytes at most.
    pub(crate) fn take(&self, listener: ListenerNo, after: u64) -> ReadOutcome {
        let mut state = self.lock();
        if state.stored <= after {
            if !state.is_over {
                return ReadOutcome::Nothing;
            }
            return ReadOutcome::Over(state.end.unwrap_or(StreamEnd::Interrupted));
        }
        let first = state.chunks.front().map_or(u64::MAX, |chunk| chunk.first);
        if first > after + 1 {
            return ReadOutcome::Behind(first.saturating_sub(1).min(state.stored));
        }
        let from = state.chunks.partition_point(|chunk| chunk.last <= after);
        let mut chunks = Vec::new();
        let mut last = after;
        let mut bytes = 0;
        for chunk in state.chunks.range(from..) {
            if chunk.first > last + 1 || bytes >= TAKEN {
                break;
            }
            bytes += chunk.lines.len();
            last = chunk.last;
            chunks.push(chunk.clone());
        }
        if chunks.is_empty() {
            return ReadOutcome::Behind(state.stored);
        }
        state.has_taken(listener, last);
        ReadOutcome::Chunks(chunks, last)
    }

    /// Notes the last entry that a listener has read elsewhere.
    pub(crate) fn has_taken(&self, listener: ListenerNo, last: u64) {
        self.lock().has_taken(listener, last);
    }

    /// Returns a future that resolves when something has changed since it was made.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

impl TailState {
    fn has_taken(&mut self, listener: ListenerNo, last: u64) {
        let Some(taken) = self.listeners.get_mut(&listener) else {
            return;
        };
        let before = std::mem::replace(taken, last);
        let Some(first) = self.chunks.front() else {
            return;
        };
        if before < first.last && last >= first.last {
            self.lacking -= 1;
            self.drop_taken();
        }
    }

    /// Drops chunks that every listener has.
    fn drop_taken(&mut self) {
        while self.lacking == 0 && !self.chunks.is_empty() {
            self.drop_first();
        }
        if self.chunks.is_empty() {
            // An idle session keeps no capacity for chunks.
            self.chunks = VecDeque::new();
        }
    }

    fn drop_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.lines.len();
        }
        self.count_lacking();
    }

    fn count_lacking(&mut self) {
        let lacks = |first: &EntryChunk| {
            self.listeners
                .values()
                .filter(|taken| **taken < first.last)
                .count()
        };
        self.lacking = self.chunks.front().map_or(0, lacks);
    }
}

/// Returns the lines from the number `from` on. The first of `lines` has the number `first`.
pub(crate) fn from_number(lines: &[u8], first: u64, from: u64) -> &[u8] {
    let Some(before) = usize::try_from(from - first)
        .ok()
        .and_then(|skipped| skipped.checked_sub(1))
    else {
        return lines;
    };
    let end = memchr::memchr_iter(b'\n', lines)
        .nth(before)
        .map_or(lines.len(), |end| end + 1);
    &lines[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(numbers: std::ops::RangeInclusive<u64>) -> Bytes {
        numbers
            .flat_map(|number| format!("{number}\n").into_bytes())
            .collect()
    }

    fn publish(tail: &EntryTail, numbers: std::ops::RangeInclusive<u64>) {
        tail.publish(*numbers.start(), *numbers.end(), lines(numbers), Vec::new());
    }

    /// Returns the lines that a listener takes, or the number up to which it must read the journal.
    fn take_lines(tail: &EntryTail, listener: ListenerNo, after: u64) -> Result<Vec<u8>, u64> {
        match tail.take(listener, after) {
            ReadOutcome::Chunks(chunks, _) => Ok(chunks
                .iter()
                .flat_map(|chunk| chunk.lines_from(after + 1))
                .copied()
                .collect()),
            ReadOutcome::Behind(to) => Err(to),
            ReadOutcome::Nothing | ReadOutcome::Over(_) => Ok(Vec::new()),
        }
    }

    #[test]
    fn a_listener_reads_each_entry_once_and_the_room_is_given_back() {
        let tail = EntryTail::new(3);
        tail.join(1, 3);
        tail.join(2, 1);
        assert!(matches!(tail.take(1, 3), ReadOutcome::Nothing));
        assert_eq!(take_lines(&tail, 2, 1), Err(3));
        publish(&tail, 4..=6);
        publish(&tail, 7..=7);
        assert_eq!(take_lines(&tail, 2, 1), Err(3));
        assert_eq!(take_lines(&tail, 1, 3).unwrap(), lines(4..=7));
        assert_eq!(take_lines(&tail, 2, 5).unwrap(), lines(6..=7));
        assert_eq!(tail.lock().bytes, 0);
        tail.set_end(StreamEnd::HostEnding);
        tail.set_end(StreamEnd::Moved);
        tail.finish();
        assert!(matches!(
            tail.take(2, 7),
            ReadOutcome::Over(StreamEnd::HostEnding)
        ));
    }

    #[test]
    fn a_chunk_is_kept_until_the_last_of_many_has_it() {
        let tail = EntryTail::new(0);
        for listener in 0..100 {
            tail.join(listener, 0);
        }
        publish(&tail, 1..=2);
        publish(&tail, 3..=3);
        // One listener reads the journal, one leaves, one comes late and has a part.
        tail.has_taken(0, 1);
        tail.leave(1);
        tail.join(200, 1);
        for listener in 2..100 {
            assert!(matches!(tail.take(listener, 0), ReadOutcome::Chunks(_, 3)));
            assert!(matches!(tail.take(listener, 3), ReadOutcome::Nothing));
        }
        assert_eq!(tail.lock().chunks.len(), 2);
        tail.has_taken(0, 2);
        assert_eq!(tail.lock().chunks.len(), 2);
        tail.has_taken(200, 2);
        assert_eq!(tail.lock().chunks.len(), 1, "all have the first");
        tail.leave(0);
        tail.leave(200);
        let state = tail.lock();
        assert_eq!((state.chunks.len(), state.bytes), (0, 0));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let tail = EntryTail::new(0);
        tail.join(1, 0);
        for number in 1..=100 {
            tail.publish(number, number, vec![b'x'; 10_000].into(), Vec::new());
        }
        assert!(tail.lock().bytes <= KEPT);
        assert!(matches!(tail.take(1, 0), ReadOutcome::Behind(74..76)));
    }
}
