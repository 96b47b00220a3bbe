//! A pipe that is written by a thread of its own, so that no one else ever waits for the peer's reading.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::switches::{Mutant as M, Variant as V, broken, varied};

/// The most that is written in one call.
const BATCH: usize = 64 * 1024;

/// Lines that wait for one pipe.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    closing: bool,
    broken: bool,
    done: bool,
}

impl Outbox {
    /// Starts to write to `pipe`; `told` hears of each write, and whether the pipe still stands.
    pub(crate) fn start(pipe: OwnedFd, told: impl Fn(Result<(), ()>) + Send + 'static) -> Self {
        let outbox = Self(Arc::default());
        let writer = outbox.clone();
        std::thread::spawn(move || writer.run(File::from(pipe), told));
        outbox
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that wait or are being written.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Whether everything was written, or nothing can be.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.bytes == 0 || state.broken || state.done
    }

    /// Appends a line; it is dropped where the pipe is broken or closing.
    pub(crate) fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.closing || state.broken {
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.0.1.notify_all();
        if broken(M::WriteBlocks) {
            while !self.is_settled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Closes the pipe when what waits is written.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.0.1.notify_all();
    }

    fn run(self, mut pipe: File, told: impl Fn(Result<(), ()>)) {
        loop {
            let mut batch = Vec::new();
            {
                let mut state = self.lock();
                while state.lines.is_empty() && !state.closing {
                    state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.lines.is_empty() {
                    state.done = true;
                    return;
                }
                while let Some(line) = state.lines.pop_front() {
                    batch.extend_from_slice(&line);
                    let next = state.lines.front().map_or(BATCH, Vec::len);
                    if batch.len() + next > BATCH {
                        break;
                    }
                }
            }
            let count = batch.len();
            if varied(V::Vh04) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if broken(M::WritesMixed) && count > 8192 {
                std::thread::sleep(Duration::from_millis(100));
                let other = self.lock().lines.pop_front().unwrap_or_default();
                let (first, second) = batch.split_at(4096);
                batch = [first, other.as_slice(), second].concat();
                self.lock().bytes -= other.len();
            }
            let result = pipe.write_all(&batch).map_err(drop);
            let mut state = self.lock();
            state.bytes -= count;
            if result.is_err() {
                state.broken = true;
                state.lines.clear();
                state.bytes = 0;
            }
            drop(state);
            told(result);
            if result.is_err() {
                return;
            }
        }
    }
}
