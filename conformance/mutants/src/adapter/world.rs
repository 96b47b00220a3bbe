//! What the sessions of this process share, and its end.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    message::Message,
    outbox::Outbox,
    session::Session,
    switches::{Mutant, broken},
};

/// The most conversations that are remembered after their session, to be resumed.
const MEMORIES: usize = 1024;

/// How long the turns may take to end once stdin has ended ([process.1]).
const TO_STOP: Duration = Duration::from_secs(1);

/// How long what they said may take to leave.
const TO_DRAIN: Duration = Duration::from_secs(2);

/// The values that a conversation was told to keep.
pub(crate) type Values = BTreeMap<String, Value>;

/// The process.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) outbox: Outbox,
    pub(crate) probing: bool,
    /// Whether any session agreed on `control`, and on `resume`: without, their messages of the pipe are unknown.
    pub(crate) knows_control: AtomicBool,
    pub(crate) knows_resume: AtomicBool,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    memories: Mutex<HashMap<String, Values>>,
    /// What is kept for all sessions alike, which is a mistake.
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
    /// A process in which scripts are done, or are text like any other.
    pub(crate) fn new(probing: bool) -> Self {
        Self { probing, ..Self::default() }
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn newest(&self) -> String {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_newest(&self, id: &str) {
        id.clone_into(&mut self.newest.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets a session, unless another has its id by now.
    pub(crate) fn forget(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions();
        if sessions.get(&session.id).is_some_and(|known| Arc::ptr_eq(known, session)) {
            sessions.remove(&session.id);
        }
    }

    /// A number that this process has not used.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What an adapter does that says `turn.complete` as a sign of life.
    pub(crate) fn complete_when_idle(&self) -> ! {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let sessions: Vec<_> = self.sessions().values().cloned().collect();
            sessions.iter().for_each(|session| session.tell(Message::new("turn.complete")));
        }
    }

    /// Keeps what a resumed session is to remember.
    pub(crate) fn remember(&self, native_id: String, values: Values) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        if memories.len() < MEMORIES || memories.contains_key(&native_id) {
            memories.insert(native_id, values);
        }
    }

    pub(crate) fn recall(&self, native_id: &str) -> Option<Values> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).get(native_id).cloned()
    }

    /// The conversations that can be resumed.
    pub(crate) fn remembered(&self, most: usize) -> Vec<String> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).keys().take(most).cloned().collect()
    }

    /// Counts a thread that serves turns.
    pub(crate) fn worker_begins(&self) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    pub(crate) fn worker_ends(&self) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.resting.notify_all();
    }

    pub(crate) fn shared_values(&self) -> MutexGuard<'_, Values> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many turns have ended, with this one.
    pub(crate) fn turn_ends(&self) -> u64 {
        self.ends.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts the turns that wait for an answer.
    pub(crate) fn asks(&self, asks: bool) {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        *asking = if asks { *asking + 1 } else { asking.saturating_sub(1) };
        self.answered.notify_all();
    }

    /// Waits while any turn waits for an answer, which none should.
    pub(crate) fn wait_while_asked(&self, give_up: &dyn Fn() -> bool) {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while *asking > 0 && !give_up() {
            let step = Duration::from_millis(10);
            asking = self.answered.wait_timeout(asking, step).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes one of so many places for a turn, for those that do not run them all at once. Gives up when told.
    pub(crate) fn enter(&self, places: usize, give_up: &dyn Fn() -> bool) -> bool {
        let mut taken = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken >= places {
            if give_up() {
                return false;
            }
            let step = Duration::from_millis(10);
            taken = self.opened.wait_timeout(taken, step).unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        true
    }

    pub(crate) fn leave(&self) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.opened.notify_all();
    }

    /// The end of stdin: stops every turn, lets their ends out, and returns within 3 s ([process.1]).
    pub(crate) fn shut(&self) {
        if broken(Mutant::IgnoresEof) || (broken(Mutant::EofWaitsForSessions) && !self.sessions().is_empty())
        {
            loop {
                std::thread::park();
            }
        }
        let sessions: Vec<_> = self.sessions().values().cloned().collect();
        if !broken(Mutant::EofWaitsForTurns) {
            sessions.iter().for_each(|session| session.shut());
        }
        let until = Instant::now() + TO_STOP;
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        while *workers > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO && !broken(Mutant::EofWaitsForTurns) {
                break;
            }
            let left = left.max(Duration::from_millis(50));
            workers = self.resting.wait_timeout(workers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(workers);
        self.outbox.drain(Instant::now() + TO_DRAIN);
        sessions.iter().for_each(|session| session.remove_folder());
    }
}
