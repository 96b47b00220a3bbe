//! The one writer: takes from the sessions in turn, a share each, and writes whole lines ([frame.8], [session.3]).

use std::{
    collections::VecDeque,
    fmt,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::switches::{Mutant, broken};

/// What one session gives to one write, unless a single message is longer.
const SHARE: usize = 64 * 1024;

/// The most that waits of the messages of the pipe, in bytes; the reader waits beyond it.
const PIPE_ROOM: usize = 1024 * 1024;

/// One of those who write in turn.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Takes whole lines for one write, of about `share` bytes. Called by the writer alone.
    fn take_lines(self: Arc<Self>, share: usize) -> String;
}

/// Who has something to write.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Arc<dyn Source>>,
    pipe: VecDeque<String>,
    pipe_bytes: usize,
    writing: bool,
}

impl Outbox {
    /// Puts a source in the line; it stands there once at most, which the source itself sees to.
    pub(crate) fn schedule(&self, source: Arc<dyn Source>) {
        self.lock().ready.push_back(source);
        self.changed.notify_all();
    }

    /// Sends a message of the pipe. It overtakes what the sessions have to say.
    pub(crate) fn send_of_pipe(&self, line: String) {
        let mut state = self.lock();
        while state.pipe_bytes > PIPE_ROOM {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.pipe_bytes += line.len();
        state.pipe.push_back(line);
        self.changed.notify_all();
    }

    /// Writes forever. Ends the process where stdout is broken ([process.1]).
    pub(crate) fn write_all(&self) {
        let (mut held, mut writers) = (Vec::new(), VecDeque::new());
        if broken(Mutant::BomOutput) {
            held.extend_from_slice(b"\xef\xbb\xbf");
        }
        loop {
            let lines = self.next();
            held.extend_from_slice(lines.as_bytes());
            if !must_wait(&held) {
                write(&held, &mut writers);
                held.clear();
            }
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits until all is written that may be, or the time is over.
    pub(crate) fn drain(&self, until: Instant) {
        let mut state = self.lock();
        while state.writing || !state.pipe.is_empty() || !state.ready.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn next(&self) -> String {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.pipe.pop_front() {
                state.pipe_bytes -= line.len();
                state.writing = true;
                return line;
            }
            if let Some(source) = state.ready.pop_front() {
                state.writing = true;
                drop(state);
                return source.take_lines(SHARE);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the bytes stay in the process, which they never do.
fn must_wait(held: &[u8]) -> bool {
    if broken(Mutant::BufferedStdout) {
        return held.len() < 8192;
    }
    broken(Mutant::FlushAtTurnEnd) && !held.windows(15).any(|part| part == b"\"turn.complete\"")
}

fn write(bytes: &[u8], writers: &mut VecDeque<JoinHandle<()>>) {
    if broken(Mutant::UnlockedWrites) && bytes.len() > PIECE {
        let bytes = bytes.to_vec();
        writers.push_back(std::thread::spawn(move || in_pieces(&bytes)));
        if writers.len() > 4 {
            let _ = writers.pop_front().map(JoinHandle::join);
        }
        return;
    }
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        broken_stdout();
    }
}

/// What a careless writer writes at once.
const PIECE: usize = 4096;

/// Writes as one of many threads, of which none waits for another.
fn in_pieces(bytes: &[u8]) {
    for piece in bytes.chunks(PIECE) {
        let mut rest = piece;
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), rest) {
                Ok(written) => rest = &rest[written..],
                Err(_) => broken_stdout(),
            }
        }
        std::thread::yield_now();
    }
}

/// No one reads any more.
pub(crate) fn broken_stdout() {
    if broken(Mutant::SurvivesBrokenStdout) {
        return;
    }
    if broken(Mutant::SpinsOnBrokenStdout) {
        loop {
            std::hint::spin_loop();
        }
    }
    std::process::exit(0);
}
