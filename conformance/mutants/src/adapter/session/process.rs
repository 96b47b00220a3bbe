//! The process: its open sessions, the facts and the writer that they share, and its end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use trunkline_conformance_mutants::{locks::lock, outbox::Outbox, sleep};

use super::{AdapterSession, AdapterTurn, TurnAbort, TurnEnd};
use crate::{
    message::Message,
    switches::{Mutant::*, broken},
    world::World,
};

/// Time for the turns to end after the end of stdin ([process.1]).
const TO_STOP: Duration = Duration::from_secs(1);

/// Time for their output to be written.
const TO_DRAIN: Duration = Duration::from_secs(2);

/// The most that waits of the messages of the pipe, in bytes; the reader waits beyond it.
const PIPE_ROOM: usize = 1024 * 1024;

/// Serves one turn. An input for which there was no room has no content.
pub(crate) type Agent = fn(&AdapterTurn, Option<String>) -> Result<TurnEnd, TurnAbort>;

/// Resources of every session.
#[derive(Debug)]
pub(crate) struct AdapterProcess {
    pub(crate) world: World,
    pub(crate) outbox: Outbox,
    pub(super) agent: Agent,
    sessions: Mutex<HashMap<String, Arc<AdapterSession>>>,
}

impl AdapterProcess {
    /// A process whose turns are served by `agent`.
    pub(crate) fn new(world: World, outbox: Outbox, agent: Agent) -> Self {
        Self {
            world,
            outbox,
            agent,
            sessions: Mutex::default(),
        }
    }

    /// Sends a message of the pipe. It overtakes the sessions' output.
    pub(crate) fn send_of_pipe(&self, line: String) {
        self.outbox.push_below(PIPE_ROOM, line.into_bytes());
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<AdapterSession>>> {
        lock(&self.sessions)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<AdapterSession>> {
        self.sessions().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<AdapterSession>> {
        self.sessions().values().cloned().collect()
    }

    /// Stops the turns of every session, which no message may do.
    pub(crate) fn stop_all(&self) {
        self.all()
            .iter()
            .for_each(|session| session.stop(None, None));
    }

    /// Forgets a session, unless another has its id by now.
    pub(crate) fn forget(&self, session: &Arc<AdapterSession>) {
        let mut sessions = self.sessions();
        if sessions
            .get(&session.id)
            .is_some_and(|known| Arc::ptr_eq(known, session))
        {
            sessions.remove(&session.id);
        }
    }

    /// Behaves as an adapter that sends `turn.complete` as a sign of life.
    pub(crate) fn complete_when_idle(&self) -> ! {
        loop {
            sleep(1_000);
            self.all()
                .iter()
                .for_each(|session| session.tell(Message::new("turn.complete")));
        }
    }

    /// Behaves as an adapter that works without a turn ([turn.6]).
    pub(crate) fn speak_between_turns(&self) -> ! {
        loop {
            sleep(100);
            self.all()
                .iter()
                .for_each(AdapterSession::speak_between_turns);
        }
    }

    /// The end of stdin: stops every turn, lets their ends out, and returns within 3 s ([process.1]).
    pub(crate) fn shut(&self) {
        if broken(IgnoresEof) || (broken(EofWaitsForSessions) && !self.sessions().is_empty()) {
            loop {
                std::thread::park();
            }
        }
        let sessions = self.all();
        if broken(EofWaitsForTurns) {
            self.world.wait_for_workers(None);
        } else {
            sessions.iter().for_each(|session| session.shut());
            self.world.wait_for_workers(Some(Instant::now() + TO_STOP));
        }
        self.outbox.wait_until_settled(Instant::now() + TO_DRAIN);
        sessions.iter().for_each(|session| session.remove_folder());
    }
}
