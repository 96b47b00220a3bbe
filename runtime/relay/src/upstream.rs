//! The way to the hub: every message passes here, whole, in its session's order and in its turn ([relay.6]).
//!
//! ```text
//! session task ── Outlet::put ──▶ the session's queue ── deficit round robin ──┐
//! dispatch ── pong, session.ready, lists ──▶ control queue ── first ───────────┴─▶ one write
//! ```
//!
//! Nothing that was put is dropped. What bounds it: events wait for [`Outlet::room`]; answers do not wait, so while too
//! many of them are unread the relay takes no further message of the hub ([`Upstream::is_answered`]).

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};
use trunkline_pipe::{Class, Fair, Flow, Key, Rounds, Turns};
use trunkline_protocol::{AdapterMessage, Recipient, TooLong};

use crate::counters::LiveCounters;

/// How many bytes are written ahead of the pipe, unless one message alone is larger.
const AHEAD: usize = 256 * 1024;

/// What a session may write when its turn comes ([relay.6]).
const QUANTUM: usize = 64 * 1024;

/// One round a batch: a session's task puts more as soon as it has room.
const TURNS: Turns = Turns {
    quantum: QUANTUM,
    batch: AHEAD,
    rounds: Rounds::One,
};

/// A session takes no event from the host while so many of its bytes wait for the pipe.
const ROOM: usize = 64 * 1024;

/// A session takes no further input while so many of its bytes wait.
const FULL: usize = 1024 * 1024;

/// The relay takes no further message of the hub while more bytes of answers wait for it ([relay.6]).
const ANSWERS: usize = 1024 * 1024;

/// A pause ends when it would hold back more bytes of answers ([relay.5]): the relay must not stop reading the hub for
/// what only a message of the hub can let go.
const HELD_ANSWERS: usize = 64 * 1024;

/// What waits for the hub.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    state: Mutex<State>,
    /// There is something to write, or nothing more will come.
    more: Notify,
    /// The hub has read answers.
    read: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Messages that overtake.
    control: Vec<u8>,
    fair: Fair,
    gates: HashMap<Key, Arc<Gate>>,
    keys: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Open,
    /// What waits is still written.
    Finishing,
    /// The pipe is gone; everything is dropped.
    Broken,
}

/// Where one session's task waits for room, and where its end is seen.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    changed: Notify,
    /// Its last message has been put.
    last_put: AtomicBool,
    /// Its last message is being written: the hub may know that the session has ended.
    ended: AtomicBool,
}

impl Gate {
    /// Whether the hub may have seen the session's last message.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Upstream {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue for one session.
    pub(crate) fn outlet(self: &Arc<Self>) -> Outlet {
        let gate = Arc::new(Gate::default());
        let mut state = self.lock();
        state.keys += 1;
        let key = Key(state.keys);
        state.gates.insert(key, gate.clone());
        drop(state);
        Outlet {
            key,
            upstream: self.clone(),
            gate,
        }
    }

    /// Adds an answer that overtakes everything.
    pub(crate) fn put_control(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.phase != Phase::Broken {
            state.control.extend_from_slice(line);
            self.more.notify_one();
        }
    }

    /// Whether few enough answers wait for a further message of the hub to be taken.
    pub(crate) fn is_answered(&self) -> bool {
        self.lock().is_answered()
    }

    /// Waits until a further message of the hub may be taken. For one task.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn answered(&self) {
        while !self.is_answered() {
            self.read.notified().await;
        }
    }

    /// Says that nothing more will be put: [`Upstream::write`] returns when all is written.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
            state.fair.resume_all();
        }
        self.more.notify_one();
    }

    fn fail(&self) {
        let mut state = self.lock();
        state.phase = Phase::Broken;
        state.control = Vec::new();
        state.fair = Fair::default();
        for gate in state.gates.values() {
            gate.changed.notify_one();
        }
        self.read.notify_one();
    }

    /// Writes until [`Upstream::finish`] and nothing is left.
    ///
    /// # Errors
    /// The pipe's own: it is broken, and what waits and comes is dropped.
    pub(crate) async fn write(
        self: Arc<Self>,
        mut pipe: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (mut out, mut gave) = (Vec::new(), Vec::new());
        loop {
            let finishing = self.take(&mut out, &mut gave);
            if !out.is_empty() {
                let written = async {
                    pipe.write_all(&out).await?;
                    pipe.flush().await
                };
                if let Err(error) = written.await {
                    self.fail();
                    return Err(error);
                }
                // Those that have just got room put more before the next turns are given.
                tokio::task::yield_now().await;
            } else if finishing {
                return Ok(());
            } else {
                self.more.notified().await;
            }
        }
    }

    /// Fills the next batch and wakes those that gave to it. Whether nothing more will be put.
    fn take(&self, out: &mut Vec<u8>, gave: &mut Vec<Key>) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        out.clear();
        if out.capacity() > 2 * AHEAD {
            *out = Vec::new();
        }
        std::mem::swap(out, &mut state.control);
        state.fair.take(TURNS, out, gave);
        for key in gave.drain(..) {
            let Some(gate) = state.gates.get(&key) else {
                continue;
            };
            if gate.last_put.load(Ordering::Acquire) && state.fair.bytes(key) == 0 {
                gate.ended.store(true, Ordering::Release);
            }
            gate.changed.notify_one();
        }
        if out.is_empty() {
            state.fair.forgive();
        } else if state.is_answered() {
            self.read.notify_one();
        }
        state.phase != Phase::Open
    }
}

impl State {
    fn is_answered(&self) -> bool {
        self.control.len() + self.fair.answers() <= ANSWERS
    }
}

/// One session's queue to the hub. Dropping it leaves what was put.
#[derive(Debug)]
pub(crate) struct Outlet {
    key: Key,
    upstream: Arc<Upstream>,
    gate: Arc<Gate>,
}

impl Outlet {
    /// Names the session's queue.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Where the session's end is seen.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        self.gate.clone()
    }

    /// Adds a line. Never waits.
    pub(crate) fn put(&self, line: Vec<u8>, class: Class) {
        let mut state = self.upstream.lock();
        if state.phase == Phase::Broken {
            return;
        }
        state.fair.push(self.key, line, class);
        self.upstream.more.notify_one();
    }

    /// Adds the last line: [`Gate::is_ended`] as soon as it is being written.
    pub(crate) fn put_last(&self, line: Vec<u8>) {
        self.gate.last_put.store(true, Ordering::Release);
        self.put(line, Class::Event);
    }

    /// Whether too much waits for a further input to be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.upstream.lock().fair.bytes(self.key) >= FULL
    }

    /// Whether a pause holds back more answers than it may.
    pub(crate) fn holds_too_much(&self) -> bool {
        self.upstream.lock().fair.held_answers(self.key) > HELD_ANSWERS
    }

    /// Whether an event may be put.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.upstream.lock();
        let has_room = state.fair.bytes(self.key) < ROOM && !state.fair.is_paused(self.key);
        has_room || state.phase == Phase::Broken
    }

    /// Waits until an event may be taken from the host.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            self.gate.changed.notified().await;
        }
    }

    /// Waits until everything that was put is being written.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn drained(&self) {
        loop {
            {
                let state = self.upstream.lock();
                if state.fair.bytes(self.key) == 0 || state.phase == Phase::Broken {
                    return;
                }
            }
            self.gate.changed.notified().await;
        }
    }

    /// Holds back what is put, or lets it go in order ([flow.1]).
    pub(crate) fn flow(&self, flow: Flow) {
        let mut state = self.upstream.lock();
        if flow == Flow::Pause && state.phase != Phase::Open {
            return;
        }
        state.fair.flow(self.key, flow);
        self.upstream.more.notify_one();
        self.gate.changed.notify_one();
    }

    /// Drops what was put and is not written: the session has fallen silent ([session.4]).
    pub(crate) fn purge(&self) {
        self.upstream.lock().fair.purge(self.key);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.upstream.lock().gates.remove(&self.key);
    }
}

/// Writes a message in the form that its hub understands, and counts what was too long for a line.
pub(crate) fn write_for(
    hub: &Recipient,
    message: AdapterMessage,
    counters: &LiveCounters,
    put: impl FnMut(Vec<u8>),
) {
    let kind = message.body.kind().as_str();
    let session = message.session_id.clone();
    let max_line = hub.max_line;
    match hub.write(message, put) {
        Ok(lost) if lost.is_empty() => return,
        Ok(lost) => {
            tracing::debug!(%session, kind, ?lost, max_line, "a message was cut to the hub's longest line");
        }
        Err(TooLong { bytes }) => {
            tracing::warn!(%session, kind, bytes, max_line, "a message is too long for the hub");
        }
    }
    counters.shortened.one();
}

#[cfg(test)]
mod tests;
