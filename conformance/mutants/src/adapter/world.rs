//! Facts that the sessions of this process share: what it remembers, counts and lets in. It knows no session.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use trunkline_conformance_mutants::locks::{lock, wait};

use serde_json::Value;

/// The most conversations that are remembered after their session, to be resumed.
const MEMORIES: usize = 1024;

/// Values stored for a conversation.
pub(crate) type Values = BTreeMap<String, Value>;

/// State of a conversation after its session.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    pub(crate) values: Values,
    /// The directory that it was in.
    pub(crate) cwd: Option<String>,
}

/// State shared by all sessions.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) probing: bool,
    /// True if any session agreed on `control`, and on `resume`: otherwise their messages of the
    /// pipe are unknown.
    pub(crate) knows_control: AtomicBool,
    pub(crate) knows_resume: AtomicBool,
    memories: Mutex<HashMap<String, Memory>>,
    /// Values shared by all sessions, which is a mistake.
    shared: Mutex<Values>,
    /// The session that was opened last, which should not matter.
    newest: Mutex<String>,
    serial: AtomicU64,
    workers: Mutex<usize>,
    resting: Condvar,
    gate: Mutex<usize>,
    asking: Mutex<usize>,
    ends: AtomicU64,
    opened: Condvar,
    answered: Condvar,
}

impl World {
    /// The facts of a process in which scripts are done, or are text like any other.
    pub(crate) fn new(probing: bool) -> Self {
        Self {
            probing,
            ..Self::default()
        }
    }

    pub(crate) fn newest(&self) -> String {
        lock(&self.newest).clone()
    }

    pub(crate) fn set_newest(&self, id: &str) {
        id.clone_into(&mut lock(&self.newest));
    }

    /// A number that this process has not used.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps what a resumed session is to remember.
    pub(crate) fn remember(&self, native_id: String, memory: Memory) {
        let mut memories = lock(&self.memories);
        if memories.len() < MEMORIES || memories.contains_key(&native_id) {
            memories.insert(native_id, memory);
        }
    }

    pub(crate) fn recall(&self, native_id: &str) -> Option<Memory> {
        lock(&self.memories).get(native_id).cloned()
    }

    /// Returns the conversations that can be resumed, of a directory or all, each with its own.
    pub(crate) fn remembered(
        &self,
        most: usize,
        cwd: Option<&str>,
    ) -> Vec<(String, Option<String>)> {
        let memories = lock(&self.memories);
        let known = memories
            .iter()
            .map(|(id, memory)| (id.clone(), memory.cwd.clone()));
        known
            .filter(|(_, of)| cwd.is_none_or(|cwd| of.as_deref() == Some(cwd)))
            .take(most)
            .collect()
    }

    /// Counts a thread that serves turns.
    pub(crate) fn worker_begins(&self) {
        *lock(&self.workers) += 1;
    }

    pub(crate) fn worker_ends(&self) {
        *lock(&self.workers) -= 1;
        self.resting.notify_all();
    }

    pub(crate) fn shared_values(&self) -> MutexGuard<'_, Values> {
        lock(&self.shared)
    }

    /// Returns the number of ended turns, including this one.
    pub(crate) fn turn_ends(&self) -> u64 {
        self.ends.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts the turns that wait for an answer.
    pub(crate) fn asks(&self, asks: bool) {
        let mut asking = lock(&self.asking);
        *asking = if asks {
            *asking + 1
        } else {
            asking.saturating_sub(1)
        };
        self.answered.notify_all();
    }

    /// Waits while any turn waits for an answer, which none should.
    pub(crate) fn wait_while_asked(&self, give_up: &dyn Fn() -> bool) {
        let mut asking = lock(&self.asking);
        while *asking > 0 && !give_up() {
            let step = Duration::from_millis(10);
            asking = wait(&self.answered, asking, step);
        }
    }

    /// Takes one of this many places for a turn, for variants that do not run them all at once.
    /// Stops waiting when `give_up` returns true.
    pub(crate) fn enter(&self, places: usize, give_up: &dyn Fn() -> bool) -> bool {
        let mut taken = lock(&self.gate);
        while *taken >= places {
            if give_up() {
                return false;
            }
            let step = Duration::from_millis(10);
            taken = wait(&self.opened, taken, step);
        }
        *taken += 1;
        true
    }

    pub(crate) fn leave(&self) {
        *lock(&self.gate) -= 1;
        self.opened.notify_all();
    }

    /// Waits until no thread serves turns, at most until `until`, if there is one.
    pub(crate) fn wait_for_workers(&self, until: Option<Instant>) {
        let mut workers = lock(&self.workers);
        while *workers > 0 {
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return;
            }
            let step = left.min(Duration::from_secs(1));
            workers = wait(&self.resting, workers, step);
        }
    }
}
