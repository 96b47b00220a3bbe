//! The way to the hub: every message passes here, whole, in its session's order and in its turn
//! ([relay.6]).
//!
//! ```text
//! session task ── Outlet::put ──▶ the session's queue ── deficit round robin ──┐
//! dispatch ── pong, session.ready, lists ──▶ control queue ── first ───────────┴─▶ one write
//! ```
//!
//! Nothing that was put is dropped. What bounds it: events wait for [`Outlet::room`]; answers do
//! not wait, so while too many of them are unread the relay takes no further message of the hub
//! ([`Upstream::is_answered`]).

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
use trunkline_protocol::{AdapterMessage, Recipient, SessionId, TooLong};

use crate::counters::LiveCounters;

/// Number of bytes that are written ahead of the pipe, unless one message is larger by itself.
const AHEAD: usize = 256 * 1024;

/// Number of bytes that a session may write in its turn ([relay.6]).
const QUANTUM: usize = 64 * 1024;

/// A single round per batch: a session's task puts more as soon as it has room.
const TURNS: Turns = Turns {
    quantum: QUANTUM,
    batch: AHEAD,
    rounds: Rounds::One,
};

/// Limit of a session's waiting bytes from which it takes no event of the host.
const ROOM: usize = 64 * 1024;

/// Limit of a session's waiting bytes from which it accepts no further input.
const FULL: usize = 1024 * 1024;

/// Limit of waiting bytes of answers above which the relay accepts no further message of the hub
/// ([relay.6]).
const ANSWERS: usize = 1024 * 1024;

/// Limit of bytes of answers that a pause may hold back ([relay.5]): the relay must not stop
/// reading the hub for answers that only a message of the hub can release.
const HELD_ANSWERS: usize = 64 * 1024;

/// The queues of all messages to the hub.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    state: Mutex<UpstreamState>,
    /// Notified if data is ready to write, or nothing more will come.
    more: Notify,
    /// Notified when the hub has read answers.
    read: Notify,
}

#[derive(Debug, Default)]
struct UpstreamState {
    /// Messages that overtake all others.
    control: Vec<u8>,
    fair: Fair,
    gates: HashMap<Key, Arc<OutletGate>>,
    keys: u64,
    phase: UpstreamPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum UpstreamPhase {
    #[default]
    Open,
    /// Waiting messages are still written.
    Finishing,
    /// The pipe is broken; everything is dropped.
    Broken,
}

/// Notifies one session's task of room in its queue, and records the session's end.
#[derive(Debug, Default)]
pub(crate) struct OutletGate {
    changed: Notify,
    /// Set when the session's last message has been put.
    last_put: AtomicBool,
    /// Set when its last message is being written: the hub may know that the session has ended.
    ended: AtomicBool,
}

impl OutletGate {
    /// Returns true if the hub may have seen the session's last message.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Upstream {
    fn lock(&self) -> MutexGuard<'_, UpstreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a queue for one session.
    pub(crate) fn outlet(self: &Arc<Self>) -> Outlet {
        let gate = Arc::new(OutletGate::default());
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
        if state.phase != UpstreamPhase::Broken {
            state.control.extend_from_slice(line);
            self.more.notify_one();
        }
    }

    /// Returns true if few enough answers wait to accept a further message of the hub.
    pub(crate) fn is_answered(&self) -> bool {
        self.lock().is_answered()
    }

    /// Waits until a further message of the hub may be accepted. For one task.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn wait_answered(&self) {
        while !self.is_answered() {
            self.read.notified().await;
        }
    }

    /// Finishes the queues: nothing more will be put, and [`Upstream::write`] returns when all is
    /// written.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == UpstreamPhase::Open {
            state.phase = UpstreamPhase::Finishing;
            state.fair.resume_all();
        }
        self.more.notify_one();
    }

    fn fail(&self) {
        let mut state = self.lock();
        state.phase = UpstreamPhase::Broken;
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
    /// The pipe's own error: it is broken, and all waiting and later messages are dropped.
    pub(crate) async fn write(
        self: Arc<Self>,
        mut pipe: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        let mut gave = Vec::new();
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
                // Sessions that have just got room put more before the next turns are given.
                tokio::task::yield_now().await;
            } else if finishing {
                return Ok(());
            } else {
                self.more.notified().await;
            }
        }
    }

    /// Fills the next batch and wakes the sessions that gave to it. Returns true if nothing more
    /// will be put.
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
        state.phase != UpstreamPhase::Open
    }
}

impl UpstreamState {
    fn is_answered(&self) -> bool {
        self.control.len() + self.fair.answers() <= ANSWERS
    }
}

/// The queue of a session to the hub. Dropping it keeps the messages that were put.
#[derive(Debug)]
pub(crate) struct Outlet {
    key: Key,
    upstream: Arc<Upstream>,
    gate: Arc<OutletGate>,
}

impl Outlet {
    /// Returns the key of the session's queue.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Returns the gate, which records the session's end.
    pub(crate) fn gate(&self) -> Arc<OutletGate> {
        self.gate.clone()
    }

    /// Adds a line. Never waits.
    pub(crate) fn put(&self, line: Vec<u8>, class: Class) {
        let mut state = self.upstream.lock();
        if state.phase == UpstreamPhase::Broken {
            return;
        }
        state.fair.push(self.key, line, class);
        self.upstream.more.notify_one();
    }

    /// Adds the last line: [`OutletGate::is_ended`] is true as soon as it is being written.
    pub(crate) fn put_last(&self, line: Vec<u8>) {
        self.gate.last_put.store(true, Ordering::Release);
        self.put(line, Class::Event);
    }

    /// Returns true if too much waits to accept a further input.
    pub(crate) fn is_full(&self) -> bool {
        self.upstream.lock().fair.bytes(self.key) >= FULL
    }

    /// Returns true if a pause holds back more answers than it may.
    pub(crate) fn holds_too_much(&self) -> bool {
        self.upstream.lock().fair.held_answers(self.key) > HELD_ANSWERS
    }

    /// Returns true if an event may be put.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.upstream.lock();
        let has_room = state.fair.bytes(self.key) < ROOM && !state.fair.is_paused(self.key);
        has_room || state.phase == UpstreamPhase::Broken
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
                if state.fair.bytes(self.key) == 0 || state.phase == UpstreamPhase::Broken {
                    return;
                }
            }
            self.gate.changed.notified().await;
        }
    }

    /// Holds messages back, or releases them in order ([flow.1]).
    pub(crate) fn flow(&self, flow: Flow) {
        let mut state = self.upstream.lock();
        if flow == Flow::Pause && state.phase != UpstreamPhase::Open {
            return;
        }
        state.fair.flow(self.key, flow);
        self.upstream.more.notify_one();
        self.gate.changed.notify_one();
    }

    /// Drops messages that are not written yet: the session sends nothing more ([session.4]).
    pub(crate) fn purge(&self) {
        self.upstream.lock().fair.purge(self.key);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.upstream.lock().gates.remove(&self.key);
    }
}

/// Writes a message in the form that its hub understands, and counts messages that were too long
/// for a line.
pub(crate) fn write_for(
    session: &SessionId,
    hub: &Recipient,
    message: AdapterMessage,
    counters: &LiveCounters,
    put: impl FnMut(Vec<u8>),
) {
    let kind = message.body.kind().as_str();
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
    counters.shortened.add_one();
}

#[cfg(test)]
mod tests;
