//! The way of a turn's facts from the link that saw it end to the file.
//!
//! A link hands over what ended in one wake at once, without making a line of it. The thread takes all that has
//! gathered and makes the lines, so that a turn costs its link neither text nor a wake.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::{
    EndedTurn,
    file::{Cut, LogFile},
    record::Lines,
};

/// How many turns may wait to be written; one with the parts of several models counts for more ([`EndedTurn::weight`]).
const QUEUED: usize = 16 * 1024;

/// For how many turns the room is kept between batches.
const KEPT: usize = 1024;

/// How long the first of a batch waits for others: so many turns a second wake the thread a few times.
const GATHER: Duration = Duration::from_millis(100);

/// How many bytes of lines go to the file in one write, or a little more.
const BLOCK: usize = 64 * 1024;

/// The usage log of one host. Dropping it lets the thread write what waits, and waits for nothing.
#[derive(Debug)]
pub(crate) struct UsageLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do.
    more: Condvar,
    /// A batch was written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How the thread begins, until it runs.
    file: Option<LogFile>,
    waiting: Vec<EndedTurn>,
    /// The weight of all that wait.
    weight: usize,
    /// Turns that found no room since the last batch.
    dropped: u64,
    /// Whether a batch is on its way to the file.
    writing: bool,
    /// How many wait for all to be written.
    flushes: usize,
    closed: bool,
}

impl UsageLog {
    /// A log in this folder, which is made with the first line. `limit` is the size from which on a file is older.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        let state = State {
            file: Some(LogFile::new(folder, limit)),
            ..State::default()
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                more: Condvar::new(),
                written: Condvar::new(),
            }),
        }
    }

    /// Hands turns over that have ended, in order; never waits. `ended` is left empty.
    pub(crate) fn push(&self, ended: &mut Vec<EndedTurn>) {
        let mut state = self.shared.lock();
        if let Some(file) = state.file.take() {
            let shared = self.shared.clone();
            let name = "trunkline-usage".to_owned();
            if let Err(error) = std::thread::Builder::new()
                .name(name)
                .spawn(move || shared.serve(file))
            {
                tracing::warn!(%error, "no usage is logged: its thread cannot be started");
                state.closed = true;
            }
        }
        let before = state.weight;
        for ended in ended.drain(..) {
            let weight = ended.weight();
            if state.closed || state.weight + weight > QUEUED {
                state.dropped += 1;
            } else {
                state.weight += weight;
                state.waiting.push(ended);
            }
        }
        let half = QUEUED / 2;
        let is_due = (before == 0 && state.weight > 0) || (before < half && state.weight >= half);
        drop(state);
        if is_due {
            self.shared.more.notify_one();
        }
    }

    /// Whether a flush has something to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.lock().is_idle()
    }

    /// Waits until what was handed over is written, at most so long.
    pub(crate) fn flush(&self, within: Duration) {
        let mut state = self.shared.lock();
        state.flushes += 1;
        self.shared.more.notify_one();
        let waited = self
            .shared
            .written
            .wait_timeout_while(state, within, |state| !state.is_idle());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.flushes -= 1;
    }
}

impl Drop for UsageLog {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_one();
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.closed || (self.waiting.is_empty() && !self.writing)
    }

    /// Whether a batch that has begun to gather goes on.
    fn gathers(&self) -> bool {
        !self.closed && self.flushes == 0 && self.weight < QUEUED / 2
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes in the order in which it was asked, until the log is dropped.
    fn serve(&self, file: LogFile) {
        let mut writer = Writer {
            file,
            lost: 0,
            lost_ever: 0,
            said: 0,
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

struct Writer {
    file: LogFile,
    /// Turns that are not in the file, since its last line that said so.
    lost: u64,
    /// All of them.
    lost_ever: u64,
    /// How many of them the log has reported.
    said: u64,
}

impl Writer {
    /// Writes the lines of a batch, which is left empty.
    fn write(&mut self, batch: &mut Vec<EndedTurn>, dropped: u64) {
        if dropped > 0 {
            self.lose(dropped, None);
        }
        let (mut lines, mut block) = (Lines::new(), Vec::new());
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
        batch.shrink_to(KEPT);
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
            Err(Cut { written, why }) => {
                self.lose(count(lines) - count(&lines[..written]), Some(&why))
            }
        }
    }

    /// Counts turns that are not in the file, and says so whenever there are twice as many.
    fn lose(&mut self, turns: u64, why: Option<&io::Error>) {
        self.lost += turns;
        self.lost_ever += turns;
        if self.lost_ever >= 2 * self.said.max(1) || self.said == 0 {
            self.said = self.lost_ever;
            let (turns, why) = (self.lost_ever, why.map(ToString::to_string));
            let why = why
                .as_deref()
                .unwrap_or("more turns ended than could be written");
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
                usage_so_far.ended(
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
    fn what_was_handed_over_is_written_in_order_at_a_flush() {
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
        let shared = log.shared.clone();
        drop(log);
        let state = shared.lock();
        let unwritten = |state: &mut State| state.writing || !state.waiting.is_empty();
        let waited = shared
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
        // No one writes yet.
        let file = log.shared.lock().file.take().unwrap();
        log.push(&mut ended(0..10));
        log.push(&mut ended(10..QUEUED as u64 + 5));
        std::thread::scope(|threads| {
            threads.spawn(|| log.shared.serve(file));
            log.flush(LONG);
            log.shared.lock().closed = true;
            log.shared.more.notify_one();
        });
        let (turns, skipped) = turns(folder.path());
        assert_eq!(
            (turns.len(), skipped),
            (
                QUEUED,
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
