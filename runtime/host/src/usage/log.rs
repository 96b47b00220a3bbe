//! The queue between the links, where turns end, and the thread that writes the file.
//!
//! A link hands over all turns that ended in one wake, without making lines of them. The thread takes all that have
//! gathered and makes the lines, so a turn costs its link neither text nor a wake.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::{
    EndedTurn,
    file::{LogFile, PartialWrite},
    record::LineWriter,
};

/// The most turns that wait to be written. One with long names or several models counts for more ([`EndedTurn::weight`]).
const MAX_QUEUED: usize = 16 * 1024;

/// The turns whose room is kept between batches.
const KEPT_CAPACITY: usize = 1024;

/// The time for which the first turn of a batch waits for others, so that many turns a second wake the thread a few times.
const GATHER: Duration = Duration::from_millis(100);

/// The size of one write to the file, in bytes. A write is at most one line longer.
const BLOCK: usize = 64 * 1024;

/// The usage log of one host. When it is dropped, the thread writes what waits; the drop does not wait for it.
#[derive(Debug)]
pub(crate) struct UsageLog {
    queue: Arc<TurnQueue>,
}

/// The turns that wait for the thread.
#[derive(Debug)]
struct TurnQueue {
    state: Mutex<QueueState>,
    /// Wakes the thread.
    more: Condvar,
    /// Wakes flushes after a batch.
    written: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The file, until the thread runs and has it.
    file: Option<LogFile>,
    waiting: Vec<EndedTurn>,
    /// The weight of all that wait.
    weight: usize,
    /// Turns that found no room since the last batch.
    dropped: u64,
    /// True while a batch is on its way to the file.
    writing: bool,
    /// The number of flushes that wait.
    flushes: usize,
    closed: bool,
}

impl UsageLog {
    /// Creates a log in this folder, which is made with the first line. A file of `limit` bytes becomes the older one.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        let state = QueueState {
            file: Some(LogFile::new(folder, limit)),
            ..QueueState::default()
        };
        Self {
            queue: Arc::new(TurnQueue {
                state: Mutex::new(state),
                more: Condvar::new(),
                written: Condvar::new(),
            }),
        }
    }

    /// Queues turns that have ended, in order, and leaves `ended` empty. Never waits.
    pub(crate) fn push(&self, ended: &mut Vec<EndedTurn>) {
        let mut state = self.queue.lock();
        if let Some(file) = state.file.take() {
            let queue = self.queue.clone();
            let name = "trunkline-usage".to_owned();
            if let Err(error) = std::thread::Builder::new()
                .name(name)
                .spawn(move || queue.serve(file))
            {
                tracing::warn!(%error, "failed to start the thread of the usage log; no usage is logged");
                state.closed = true;
            }
        }
        let before = state.weight;
        for ended in ended.drain(..) {
            let weight = ended.weight();
            if state.closed || state.weight + weight > MAX_QUEUED {
                state.dropped += 1;
            } else {
                state.weight += weight;
                state.waiting.push(ended);
            }
        }
        let half = MAX_QUEUED / 2;
        let is_due = (before == 0 && state.weight > 0) || (before < half && state.weight >= half);
        drop(state);
        if is_due {
            self.queue.more.notify_one();
        }
    }

    /// Returns true if nothing waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.lock().is_idle()
    }

    /// Waits until all queued turns are written, but not longer than `within`. Blocks.
    pub(crate) fn flush(&self, within: Duration) {
        let mut state = self.queue.lock();
        state.flushes += 1;
        self.queue.more.notify_one();
        let waited = self
            .queue
            .written
            .wait_timeout_while(state, within, |state| !state.is_idle());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.flushes -= 1;
    }
}

impl Drop for UsageLog {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_one();
    }
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.closed || (self.waiting.is_empty() && !self.writing)
    }

    /// Returns true if a batch waits for further turns.
    fn gathers(&self) -> bool {
        !self.closed && self.flushes == 0 && self.weight < MAX_QUEUED / 2
    }
}

impl TurnQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is queued, in order, until the log is dropped. The body of the thread.
    fn serve(&self, file: LogFile) {
        let mut writer = LogWriter {
            file,
            lost: 0,
            lost_ever: 0,
            reported: 0,
        };
        let mut batch = Vec::new();
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() {
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
                .wait_timeout_while(state, GATHER, |state| state.gathers());
            (state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut state.waiting, &mut batch);
            state.weight = 0;
            let dropped = std::mem::take(&mut state.dropped);
            state.writing = true;
            drop(state);
            writer.write(&mut batch, dropped);
            self.lock().writing = false;
            self.written.notify_all();
        }
    }
}

struct LogWriter {
    file: LogFile,
    /// Turns that are missing from the file and not counted by a line of it yet.
    lost: u64,
    /// All turns that are missing from the file.
    lost_ever: u64,
    /// The part of `lost_ever` that a warning has reported.
    reported: u64,
}

impl LogWriter {
    /// Writes the lines of a batch, which is left empty.
    fn write(&mut self, batch: &mut Vec<EndedTurn>, dropped: u64) {
        if dropped > 0 {
            self.lose(dropped, None);
        }
        let mut lines = LineWriter::new();
        let mut block = Vec::new();
        for ended in batch.drain(..) {
            lines.append(ended, &mut block);
            if block.len() >= BLOCK {
                self.append(&block);
                block.clear();
            }
        }
        if !block.is_empty() {
            self.append(&block);
        }
        batch.shrink_to(KEPT_CAPACITY);
    }

    fn append(&mut self, lines: &[u8]) {
        let count = |lines: &[u8]| lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        match self.file.append(lines) {
            Ok(()) if self.lost > 0 => {
                let time = humantime::format_rfc3339_millis(SystemTime::now());
                let line = format!("{{\"time\":\"{time}\",\"dropped\":{}}}\n", self.lost);
                if self.file.append(line.as_bytes()).is_ok() {
                    self.lost = 0;
                }
            }
            Ok(()) => {}
            Err(PartialWrite { written, why }) => {
                self.lose(count(lines) - count(&lines[..written]), Some(&why))
            }
        }
    }

    /// Counts turns that are missing from the file, and warns whenever their number has doubled.
    fn lose(&mut self, turns: u64, why: Option<&io::Error>) {
        self.lost += turns;
        self.lost_ever += turns;
        if self.lost_ever >= 2 * self.reported.max(1) || self.reported == 0 {
            self.reported = self.lost_ever;
            let turns = self.lost_ever;
            let why = why.map_or_else(
                || "more turns ended than could be written".to_owned(),
                ToString::to_string,
            );
            tracing::warn!(turns, path = ?self.file.path(), why, "turns are missing from the usage log");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use trunkline_protocol::SessionId;

    use super::*;
    use crate::{
        TurnEnd, TurnNo,
        usage::{SessionUsage, Skipped, read},
    };

    const LONG: Duration = Duration::from_secs(60);

    fn ended(turns: std::ops::Range<u64>) -> Vec<EndedTurn> {
        let session = SessionId::new("s").unwrap();
        let mut usage_so_far = SessionUsage::default();
        turns
            .map(|turn| {
                usage_so_far.end_turn(
                    &"a".into(),
                    &session,
                    &TurnEnd::lost(TurnNo::new(turn)),
                    Instant::now(),
                )
            })
            .collect()
    }

    fn turns(folder: &std::path::Path) -> (Vec<u64>, Skipped) {
        let mut turns = Vec::new();
        let skipped = read(folder, |record| turns.extend(record.turn)).unwrap();
        (turns, skipped)
    }

    #[test]
    fn a_flush_waits_until_all_is_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = UsageLog::new(folder.path().join("new/state"), u64::MAX);
        assert!(log.is_idle());
        for turn in 0..50 {
            log.push(&mut ended(2 * turn..2 * turn + 2));
        }
        log.flush(LONG);
        assert!(log.is_idle());
        assert_eq!(
            turns(&folder.path().join("new/state")).0,
            (0..100).collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_waits_when_the_log_is_dropped_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let log = UsageLog::new(folder.path().to_owned(), u64::MAX);
        log.push(&mut ended(1..2));
        let queue = log.queue.clone();
        drop(log);
        let state = queue.lock();
        let unwritten = |state: &mut QueueState| state.writing || !state.waiting.is_empty();
        let waited = queue
            .written
            .wait_timeout_while(state, LONG, unwritten)
            .unwrap();
        assert!(!waited.1.timed_out());
        assert_eq!(turns(folder.path()).0, [1]);
    }

    #[test]
    fn turns_without_room_are_counted_and_the_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let log = UsageLog::new(folder.path().to_owned(), u64::MAX);
        // The thread does not run yet.
        let file = log.queue.lock().file.take().unwrap();
        log.push(&mut ended(0..10));
        log.push(&mut ended(10..MAX_QUEUED as u64 + 5));
        std::thread::scope(|threads| {
            threads.spawn(|| log.queue.serve(file));
            log.flush(LONG);
            log.queue.lock().closed = true;
            log.queue.more.notify_one();
        });
        let (turns, skipped) = turns(folder.path());
        assert_eq!(
            (turns.len(), skipped),
            (
                MAX_QUEUED,
                Skipped {
                    dropped: 5,
                    ..Skipped::default()
                }
            )
        );
    }

    #[test]
    fn a_folder_that_cannot_be_delays_no_one_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::write(&state, "").unwrap();
        let log = UsageLog::new(state.clone(), u64::MAX);
        log.push(&mut ended(1..2));
        log.flush(LONG);
        std::fs::remove_file(&state).unwrap();
        log.push(&mut ended(2..3));
        log.flush(LONG);
        assert_eq!(
            turns(&state),
            (
                vec![2],
                Skipped {
                    dropped: 1,
                    ..Skipped::default()
                }
            )
        );
    }
}
