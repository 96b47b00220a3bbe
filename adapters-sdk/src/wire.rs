//! The one way out: every message of every session passes here, whole and in its session's order.
//!
//! ```text
//! turn ── put ──┬─ nothing of the session waits, the batch is short ──▶ batch ──┐
//!               └─ otherwise ──▶ the session's line ── deficit round robin ─────┴─▶ one write
//! ```
//!
//! A session that writes more than the host reads waits in [`Wire::room`] and keeps no other session from the pipe.
//! Ends, requests and answers are put without asking for room: they never wait behind the budget ([permission.5]).

mod line;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use line::Line;

/// How many bytes are written ahead of the pipe. Short, so that a `stop` passes soon through a flood.
const AHEAD: usize = 64 * 1024;

/// What a session may add to a batch when its turn comes.
const QUANTUM: i64 = 16 * 1024;

/// What all sessions together hold, softly: each gets its share of it.
const BUDGET: usize = 1024 * 1024;

/// The largest share of one session.
const MOST: usize = 256 * 1024;

/// The smallest share of one session, however many there are.
const LEAST: usize = 16 * 1024;

/// What a paused session holds before its turns wait ([flow.3]).
const PAUSED: usize = 64 * 1024;

/// What is kept of answers to `ping` for a host that does not read.
const URGENT: usize = 64 * 1024;

/// Names a session on the wire: never used twice, unlike the host's ids.
pub(crate) type Key = u64;

/// The buffers between the sessions and the pipe.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    buffers: Mutex<Buffers>,
    /// There is something to write, or nothing more will come.
    more: Notify,
}

#[derive(Debug, Default)]
struct Buffers {
    /// Messages of the pipe itself.
    urgent: Vec<u8>,
    /// The next write.
    batch: Vec<u8>,
    /// The sessions that hold something or are paused.
    lines: HashMap<Key, Line>,
    /// Those that wait for their turn. May name sessions that are gone.
    ring: VecDeque<Key>,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// What is held is still written.
    Finishing,
    /// The pipe is gone; everything is dropped.
    Broken,
}

/// What paused a session's messages or let them go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Pause,
    Resume,
}

impl Wire {
    /// Adds a whole line of a session. Never waits.
    pub(crate) fn put(&self, key: Key, line: Vec<u8>) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        if buffers.phase == Phase::Broken {
            return;
        }
        match buffers.lines.get_mut(&key) {
            None if buffers.batch.len() < AHEAD => buffers.batch.extend_from_slice(&line),
            None => {
                buffers.lines.entry(key).or_default().push(line);
                buffers.ring.push_back(key);
            }
            Some(waiting) => {
                if waiting.is_empty() && !waiting.paused {
                    buffers.ring.push_back(key);
                }
                waiting.push(line);
            }
        }
        self.more.notify_one();
    }

    /// Adds a line that overtakes everything: an answer of the pipe itself.
    pub(crate) fn put_urgent(&self, line: &[u8]) {
        let mut buffers = self.lock();
        if buffers.phase != Phase::Broken && buffers.urgent.len() + line.len() <= URGENT {
            buffers.urgent.extend_from_slice(line);
            self.more.notify_one();
        }
    }

    /// Waits until the session may add more.
    ///
    /// A session that holds nothing has room, whatever the others hold. With `over`, it may hold so many bytes more.
    ///
    /// # Cancel safety
    /// Nothing is lost: it takes nothing.
    pub(crate) async fn room(&self, key: Key, over: usize) {
        loop {
            let woken = {
                let buffers = self.lock();
                let Some(line) = buffers.lines.get(&key) else { return };
                let share = if line.paused {
                    PAUSED
                } else {
                    (BUDGET / buffers.lines.len().max(1)).clamp(LEAST, MOST)
                };
                if line.is_empty() || line.bytes() < share + over {
                    return;
                }
                // Made under the lock: it is woken by every change after this one.
                line.drained.clone().notified_owned()
            };
            woken.await;
        }
    }

    /// Holds a session's messages back, or lets them go ([flow.1]).
    pub(crate) fn flow(&self, key: Key, flow: Flow) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        match flow {
            Flow::Pause => {
                if buffers.phase == Phase::Open {
                    buffers.lines.entry(key).or_default().paused = true;
                }
            }
            Flow::Resume => {
                let Some(line) = buffers.lines.get_mut(&key) else { return };
                if !std::mem::take(&mut line.paused) {
                    return;
                }
                line.drained.notify_waiters();
                if line.is_empty() {
                    buffers.lines.remove(&key);
                } else {
                    buffers.ring.push_back(key);
                    self.more.notify_one();
                }
            }
        }
    }

    /// How many bytes of the session wait.
    pub(crate) fn held(&self, key: Key) -> usize {
        self.lock().lines.get(&key).map_or(0, Line::bytes)
    }

    /// Whether the session's messages are held back.
    pub(crate) fn is_paused(&self, key: Key) -> bool {
        self.lock().lines.get(&key).is_some_and(|line| line.paused)
    }

    /// Drops what a session still holds: it has fallen silent ([session.4]).
    pub(crate) fn purge(&self, key: Key) {
        if let Some(line) = self.lock().lines.remove(&key) {
            line.drained.notify_waiters();
        }
    }

    /// Says that nothing more will be paused: [`Wire::drain`] returns when all is written.
    pub(crate) fn finish(&self) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        if buffers.phase == Phase::Open {
            buffers.phase = Phase::Finishing;
            for (key, line) in &mut buffers.lines {
                if std::mem::take(&mut line.paused) {
                    line.drained.notify_waiters();
                    buffers.ring.push_back(*key);
                }
            }
        }
        self.more.notify_one();
    }

    /// Drops everything: the pipe is gone.
    pub(crate) fn fail(&self) {
        let mut buffers = self.lock();
        buffers.phase = Phase::Broken;
        (buffers.urgent, buffers.batch) = (Vec::new(), Vec::new());
        buffers.ring.clear();
        for (_, line) in buffers.lines.drain() {
            line.drained.notify_waiters();
        }
        self.more.notify_one();
    }

    /// Writes until [`Wire::finish`] and nothing is left, one write for all that waits.
    ///
    /// # Errors
    /// The pipe's own: it is broken, and so is the wire from then on.
    pub(crate) async fn drain(&self, mut pipe: impl AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut out = Vec::new();
        loop {
            let finishing = self.take(&mut out);
            if !out.is_empty() {
                let written = async {
                    pipe.write_all(&out).await?;
                    pipe.flush().await
                };
                if let Err(error) = written.await {
                    self.fail();
                    return Err(error);
                }
            } else if finishing {
                return Ok(());
            } else {
                self.more.notified().await;
            }
        }
    }

    /// Swaps in the next batch and fills it up, in turn, from the sessions that wait.
    fn take(&self, out: &mut Vec<u8>) -> bool {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        out.clear();
        if out.capacity() > 4 * AHEAD {
            *out = Vec::new();
        }
        std::mem::swap(out, &mut buffers.batch);
        if !buffers.urgent.is_empty() {
            out.splice(..0, std::mem::take(&mut buffers.urgent));
        }
        while out.len() < AHEAD {
            let Some(key) = buffers.ring.pop_front() else { break };
            let Some(line) = buffers.lines.get_mut(&key) else { continue };
            if line.paused {
                continue;
            }
            line.take_turn(QUANTUM, out);
            line.drained.notify_waiters();
            if line.is_empty() {
                buffers.lines.remove(&key);
            } else {
                buffers.ring.push_back(key);
            }
        }
        buffers.phase != Phase::Open
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wire of a link, shared with its sessions.
pub(crate) type SharedWire = Arc<Wire>;

#[cfg(test)]
mod tests;
