//! A pipe that is written by a thread of its own, whole lines at a time ([frame.8]), or with one
//! fault. Other threads never wait for the peer's reading.
//!
//! Lines wait here, or with a [`Source`] of their own: output of a session of the broken adapter
//! stays with it until its turn ([session.3]). The broken host schedules its sessions itself, since
//! their output may wait on disk; it passes lines on.

use crate::locks::{lock, wait};
use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The most that is written in one call, unless a single line is longer.
const BATCH: usize = 64 * 1024;

/// Bytes that a writer without a lock writes at once.
const PIECE: usize = 4096;

/// A source of lines, which write in turn.
pub trait Source: fmt::Debug + Send + Sync {
    /// Takes whole lines for one write, of at most `most` bytes unless a single line is longer.
    fn take_lines(self: Arc<Self>, most: usize) -> Vec<u8>;
}

/// Fault or oddity of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterFault {
    /// Begins with a byte order mark.
    Bom,
    /// Keeps what it should write until it is so many bytes.
    KeepsBelow(usize),
    /// Keeps what it should write until this is among it.
    KeepsUntil(&'static [u8]),
    /// Writes what is long in pieces, from many threads, without a lock.
    Unlocked,
    /// Makes the producing thread wait until its line is written.
    PushWaits,
    /// Waits before each write.
    Slow(Duration),
}

/// Messages that wait for one pipe.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<SharedOutbox>);

#[derive(Debug)]
struct SharedOutbox {
    fault: Option<WriterFault>,
    state: Mutex<OutboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct OutboxState {
    lines: VecDeque<Vec<u8>>,
    /// The bytes of the lines, and of those that are being written.
    bytes: usize,
    ready: VecDeque<Arc<dyn Source>>,
    writing: bool,
    closing: bool,
    broken: bool,
}

impl OutboxState {
    fn is_settled(&self) -> bool {
        self.broken || !self.writing && self.lines.is_empty() && self.ready.is_empty()
    }
}

impl Outbox {
    /// Starts to write to `pipe`; `written` is called after each write, and the first error is the
    /// last call.
    pub fn start(
        pipe: OwnedFd,
        fault: Option<WriterFault>,
        written: impl Fn(io::Result<()>) + Send + 'static,
    ) -> Self {
        let state = Mutex::default();
        let changed = Condvar::new();
        let outbox = Self(Arc::new(SharedOutbox {
            fault,
            state,
            changed,
        }));
        let writer = outbox.clone();
        std::thread::spawn(move || writer.run(&Arc::new(File::from(pipe)), written));
        outbox
    }

    /// Appends a line, which overtakes all sources; it is dropped where the pipe is broken or closing.
    pub fn push(&self, line: Vec<u8>) {
        self.push_below(usize::MAX, line);
    }

    /// Appends a line once fewer than `most` bytes of lines wait.
    pub fn push_below(&self, most: usize, line: Vec<u8>) {
        let mut state = self.lock();
        while state.bytes >= most && !state.broken {
            state = self.wait(state);
        }
        if state.closing || state.broken {
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        self.0.changed.notify_all();
        while self.0.fault == Some(WriterFault::PushWaits) && !state.is_settled() {
            state = self.wait(state);
        }
    }

    /// Puts a source behind the others; the source itself ensures that it is queued once at most.
    pub fn schedule(&self, source: Arc<dyn Source>) {
        self.lock().ready.push_back(source);
        self.0.changed.notify_all();
    }

    /// The bytes of lines that wait or are being written.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns true if a write has failed.
    pub fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Returns true if everything is written, or nothing can be.
    pub fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }

    /// Waits until everything is written that may be, or the time is over.
    pub fn wait_until_settled(&self, until: Instant) {
        let mut state = self.lock();
        while !state.is_settled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = wait(&self.0.changed, state, left);
        }
    }

    /// Closes the pipe when the lines that wait are written.
    pub fn close(&self) {
        self.lock().closing = true;
        self.0.changed.notify_all();
    }

    fn run(self, pipe: &Arc<File>, written: impl Fn(io::Result<()>)) {
        let mut kept = Vec::new();
        let mut threads = VecDeque::new();
        if self.0.fault == Some(WriterFault::Bom) {
            kept.extend_from_slice(b"\xef\xbb\xbf");
        }
        while let Some((batch, of_lines)) = self.next() {
            kept.extend(batch);
            let result = match self.0.fault {
                Some(WriterFault::KeepsBelow(least)) if kept.len() < least => Ok(()),
                Some(WriterFault::KeepsUntil(end))
                    if !kept.windows(end.len()).any(|part| part == end) =>
                {
                    Ok(())
                }
                Some(WriterFault::Unlocked) if kept.len() > PIECE => {
                    write_unlocked(pipe, std::mem::take(&mut kept), &mut threads);
                    Ok(())
                }
                fault => {
                    if let Some(WriterFault::Slow(time)) = fault {
                        std::thread::sleep(time);
                    }
                    (&**pipe).write_all(&std::mem::take(&mut kept))
                }
            };
            let broken = result.is_err();
            let mut state = self.lock();
            state.bytes -= of_lines;
            state.writing = false;
            if broken {
                *state = OutboxState {
                    broken,
                    ..OutboxState::default()
                };
            }
            drop(state);
            self.0.changed.notify_all();
            written(result);
            if broken {
                return;
            }
        }
    }

    /// Returns the next bytes to write, and the length of those that waited here; `None` once it is
    /// closed.
    fn next(&self) -> Option<(Vec<u8>, usize)> {
        let mut state = self.lock();
        while state.lines.is_empty() && state.ready.is_empty() && !state.closing {
            state = self.wait(state);
        }
        state.writing = true;
        let mut batch = Vec::new();
        while let Some(line) = state.lines.pop_front() {
            batch.extend(line);
            if batch.len() + state.lines.front().map_or(0, Vec::len) > BATCH {
                break;
            }
        }
        if !batch.is_empty() {
            let length = batch.len();
            return Some((batch, length));
        }
        let Some(source) = state.ready.pop_front() else {
            state.writing = false;
            return None;
        };
        drop(state);
        Some((source.take_lines(BATCH), 0))
    }

    fn wait<'a>(&self, state: MutexGuard<'a, OutboxState>) -> MutexGuard<'a, OutboxState> {
        wait(&self.0.changed, state, Duration::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        lock(&self.0.state)
    }
}

/// Writes as one of many threads, of which none waits for another.
fn write_unlocked(pipe: &Arc<File>, bytes: Vec<u8>, threads: &mut VecDeque<JoinHandle<()>>) {
    let pipe = pipe.clone();
    threads.push_back(std::thread::spawn(move || {
        for piece in bytes.chunks(PIECE) {
            if (&*pipe).write_all(piece).is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }));
    if threads.len() > 4 {
        let _ = threads.pop_front().map(JoinHandle::join);
    }
}
