//! The queue between the links, where turns end, and the thread that writes the file.
//!
//! A link hands over all turns that ended in one wake, without making lines of them. The thread
//! takes all that have gathered and makes the lines, so a turn costs its link neither text nor a
//! wake.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use trunkline_wirelog::queue::{BatchQueue, MissingCount, QueuedBatch};

use super::{
    EndedTurn,
    file::{LogFile, PartialWrite},
    record::LineWriter,
};

/// The most turns that wait to be written. One with long names or several models counts for more
/// ([`EndedTurn::weight`]).
const MAX_QUEUED: usize = 16 * 1024;

/// The turns whose room is kept between batches.
const KEPT_CAPACITY: usize = 1024;

/// The size of one write to the file, in bytes. A write is at most one line longer.
const BLOCK: usize = 64 * 1024;

/// The usage log of one host. When it is dropped, the thread writes what waits; the drop does not
/// wait for it.
#[derive(Debug)]
pub(crate) struct UsageLog {
    queue: Arc<BatchQueue<QueuedTurns>>,
    /// The file, until the thread runs and has it.
    file: Mutex<Option<LogFile>>,
}

/// The turns that wait for the thread.
#[derive(Debug, Default)]
struct QueuedTurns {
    turns: Vec<EndedTurn>,
    /// The weight of all turns.
    weight: usize,
    /// Turns that found no room.
    dropped: u64,
}

impl QueuedBatch for QueuedTurns {
    const ROOM: usize = MAX_QUEUED;
    const GATHER: Duration = Duration::from_millis(100);

    fn weight(&self) -> usize {
        self.weight
    }
}

impl Extend<EndedTurn> for QueuedTurns {
    fn extend<T: IntoIterator<Item = EndedTurn>>(&mut self, turns: T) {
        for turn in turns {
            let weight = turn.weight();
            if self.weight + weight > MAX_QUEUED {
                self.dropped += 1;
            } else {
                self.weight += weight;
                self.turns.push(turn);
            }
        }
    }
}

impl UsageLog {
    /// Creates a log in this folder, which is made with the first line. A file of `limit` bytes
    /// becomes the older one.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            queue: Arc::default(),
            file: Mutex::new(Some(LogFile::new(folder, limit))),
        }
    }

    /// Queues turns that have ended, in order, and leaves `ended` empty. Never waits.
    pub(crate) fn push(&self, ended: &mut Vec<EndedTurn>) {
        let mut unserved = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = unserved.take() {
            let queue = self.queue.clone();
            let name = "trunkline-usage".to_owned();
            if let Err(error) = std::thread::Builder::new()
                .name(name)
                .spawn(move || serve(&queue, file))
            {
                tracing::warn!(%error, "failed to start the thread of the usage log; no usage is logged");
                self.queue.close();
            }
        }
        drop(unserved);
        let turns = ended.drain(..);
        self.queue.push(|batch| batch.extend(turns));
    }

    /// Returns true if nothing waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Waits until all queued turns are written, but not longer than `within`. Blocks.
    pub(crate) fn flush(&self, within: Duration) {
        self.queue.flush(within);
    }
}

impl Drop for UsageLog {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Writes what is queued, in order, until the log is dropped. The body of the thread.
fn serve(queue: &BatchQueue<QueuedTurns>, file: LogFile) {
    let mut writer = LogWriter {
        file,
        lost: 0,
        missing: MissingCount::default(),
    };
    queue.serve(|_| {}, |batch| writer.write(batch));
}

struct LogWriter {
    file: LogFile,
    /// Turns that are missing from the file and not counted by a line of it yet.
    lost: u64,
    missing: MissingCount,
}

impl LogWriter {
    /// Writes the lines of a batch, which is left empty.
    fn write(&mut self, batch: &mut QueuedTurns) {
        if batch.dropped > 0 {
            self.lose(std::mem::take(&mut batch.dropped), None);
        }
        let mut lines = LineWriter::new();
        let mut block = Vec::new();
        for ended in batch.turns.drain(..) {
            lines.append(ended, &mut block);
            if block.len() >= BLOCK {
                self.append(&block);
                block.clear();
            }
        }
        if !block.is_empty() {
            self.append(&block);
        }
        batch.weight = 0;
        batch.turns.shrink_to(KEPT_CAPACITY);
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
        if let Some(turns) = self.missing.add(turns) {
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
        queue.flush(LONG);
        assert!(queue.is_idle());
        assert_eq!(turns(folder.path()).0, [1]);
    }

    #[test]
    fn turns_without_room_are_counted_and_the_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let log = UsageLog::new(folder.path().to_owned(), u64::MAX);
        // The thread does not run yet.
        let file = log.file.lock().unwrap().take().unwrap();
        log.push(&mut ended(0..10));
        log.push(&mut ended(10..MAX_QUEUED as u64 + 5));
        std::thread::scope(|threads| {
            threads.spawn(|| serve(&log.queue, file));
            log.flush(LONG);
            log.queue.close();
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
