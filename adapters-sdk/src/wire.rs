//! The one way out: every message of every session passes here, whole and in its session's order.
//!
//! ```text
//! turn ── put ──┬─ nothing of the session waits, the batch is short ──▶ batch ──┐
//!               └─ otherwise ──▶ the session's line ── deficit round robin ─────┴─▶ one write
//! ```
//!
//! A session that writes more than the host reads waits in [`Wire::room`] and keeps no other
//! session from the pipe. Ends, requests and answers are put without asking for room: they never
//! wait behind the budget ([permission.5]).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};
use trunkline_pipe::{Class, Fair, Flow, Key, Rounds, Turns};

/// Bytes that are written ahead of the pipe. Few, so that a `stop` passes soon through a flood.
const AHEAD: usize = 64 * 1024;

/// Bytes that a session may add to a batch in its turn.
const QUANTUM: usize = 16 * 1024;

/// Soft limit of bytes that all sessions hold; each gets its share of it.
const BUDGET: usize = 1024 * 1024;

/// The largest share of one session.
const MOST: usize = 256 * 1024;

/// The smallest share of one session, however many there are.
const LEAST: usize = 16 * 1024;

/// Limit of bytes that a paused session holds before its turns wait ([flow.3]).
const PAUSED: usize = 64 * 1024;

/// Limit of kept answers to `ping`, in bytes, for a host that does not read.
const URGENT: usize = 64 * 1024;

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
    /// Messages that did not fit in it, or are held back.
    fair: Fair,
    /// Wakes the turns of sessions that wait for room.
    waiting: HashMap<Key, Arc<Notify>>,
    /// The sessions that gave to a write, while it is made.
    gave: Vec<Key>,
    phase: WirePhase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WirePhase {
    #[default]
    Open,
    /// Held messages are still written.
    Finishing,
    /// The pipe is gone; everything is dropped.
    Broken,
}

impl Buffers {
    /// Wakes what waits for room in a session.
    fn wake(&mut self, key: Key) {
        if let Some(waiting) = self.waiting.remove(&key) {
            waiting.notify_waiters();
        }
    }

    fn wake_all(&mut self) {
        for (_, waiting) in self.waiting.drain() {
            waiting.notify_waiters();
        }
    }
}

impl Wire {
    /// Adds a whole line of a session. Never waits.
    pub(crate) fn put(&self, key: Key, line: Vec<u8>) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        if buffers.phase == WirePhase::Broken {
            return;
        }
        if buffers.batch.len() < AHEAD && !buffers.fair.has(key) {
            buffers.batch.extend_from_slice(&line);
        } else {
            buffers.fair.push(key, line, Class::Event);
        }
        self.more.notify_one();
    }

    /// Adds a line that overtakes everything: an answer of the pipe itself.
    pub(crate) fn put_urgent(&self, line: &[u8]) {
        let mut buffers = self.lock();
        if buffers.phase != WirePhase::Broken && buffers.urgent.len() + line.len() <= URGENT {
            buffers.urgent.extend_from_slice(line);
            self.more.notify_one();
        }
    }

    /// Waits until the session may add more.
    ///
    /// A session that holds nothing has room, whatever the others hold. With `over`, it may hold so
    /// many bytes more.
    ///
    /// # Cancel safety
    /// Nothing is lost: it takes nothing.
    pub(crate) async fn room(&self, key: Key, over: usize) {
        loop {
            let woken = {
                let mut buffers = self.lock();
                let held = buffers.fair.bytes(key);
                if held == 0 {
                    return;
                }
                let share = if buffers.fair.is_paused(key) {
                    PAUSED
                } else {
                    (BUDGET / buffers.fair.sessions().max(1)).clamp(LEAST, MOST)
                };
                if held < share + over {
                    return;
                }
                // Made under the lock: it is woken by every change after this one.
                buffers
                    .waiting
                    .entry(key)
                    .or_default()
                    .clone()
                    .notified_owned()
            };
            woken.await;
        }
    }

    /// Holds a session's messages back, or lets them go ([flow.1]).
    pub(crate) fn flow(&self, key: Key, flow: Flow) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        if flow == Flow::Pause && buffers.phase != WirePhase::Open {
            return;
        }
        buffers.fair.flow(key, flow);
        if flow == Flow::Resume {
            buffers.wake(key);
            // Even where nothing waits: the next batch forgets what holds nothing.
            self.more.notify_one();
        }
    }

    /// Returns the number of waiting bytes of the session.
    pub(crate) fn held(&self, key: Key) -> usize {
        self.lock().fair.bytes(key)
    }

    /// Returns true if the session's messages are held back.
    pub(crate) fn is_paused(&self, key: Key) -> bool {
        self.lock().fair.is_paused(key)
    }

    /// Drops what a session still holds: it has fallen silent ([session.4]).
    pub(crate) fn purge(&self, key: Key) {
        let mut buffers = self.lock();
        buffers.fair.purge(key);
        buffers.wake(key);
    }

    /// Says that nothing more will be paused: [`Wire::drain`] returns when all is written.
    pub(crate) fn finish(&self) {
        let mut buffers = self.lock();
        let buffers = &mut *buffers;
        if buffers.phase == WirePhase::Open {
            buffers.phase = WirePhase::Finishing;
            buffers.fair.resume_all();
            buffers.wake_all();
        }
        self.more.notify_one();
    }

    /// Drops everything: the pipe is gone.
    pub(crate) fn fail(&self) {
        let mut buffers = self.lock();
        buffers.phase = WirePhase::Broken;
        (buffers.urgent, buffers.batch) = (Vec::new(), Vec::new());
        buffers.fair = Fair::default();
        buffers.wake_all();
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
        if out.len() < AHEAD {
            let turns = Turns {
                quantum: QUANTUM,
                batch: AHEAD - out.len(),
                rounds: Rounds::Full,
            };
            buffers.fair.take(turns, out, &mut buffers.gave);
            while let Some(key) = buffers.gave.pop() {
                buffers.wake(key);
            }
        }
        if out.is_empty() {
            buffers.fair.forgive();
        }
        buffers.phase != WirePhase::Open
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wire of a link, shared with its sessions.
pub(crate) type SharedWire = Arc<Wire>;

#[cfg(test)]
mod tests;
