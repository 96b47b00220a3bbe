//! The pipe to the hub, shared by the sessions fairly and by bytes ([relay.5], [relay.6]).

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use trunkline_conformance_mutants::{outbox::Outbox, sleep};

use crate::spool::Spool;
use crate::switches::{Mutant::*, broken};

/// Bytes that a session may write in its turn.
const QUANTUM: i64 = 64 * 1024;
/// Bytes written ahead of the pipe.
const AHEAD: usize = 256 * 1024;

/// Everything that waits for the hub.
#[derive(Debug)]
pub(crate) struct Upstream {
    pipe: Outbox,
    folder: PathBuf,
    of_the_pipe: VecDeque<Vec<u8>>,
    queues: HashMap<u64, SessionQueue>,
    /// The sessions that have something to write, in their turn.
    ring: VecDeque<u64>,
    hoard: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct SessionQueue {
    lines: Spool,
    credit: i64,
    paused: bool,
    ringed: bool,
    count: usize,
    over: bool,
}

impl Upstream {
    pub(crate) fn new(pipe: Outbox, folder: PathBuf) -> Self {
        Self {
            pipe,
            folder,
            of_the_pipe: VecDeque::new(),
            queues: HashMap::new(),
            ring: VecDeque::new(),
            hoard: Vec::new(),
        }
    }

    /// Queues an answer that belongs to the pipe; it goes before all sessions.
    pub(crate) fn push_of_the_pipe(&mut self, line: Vec<u8>) {
        self.of_the_pipe.push_back(line);
        self.pump();
    }

    /// Queues a line of a session.
    pub(crate) fn push(&mut self, session: u64, line: Vec<u8>) {
        let session = if broken(UpstreamInTurnByArrival) {
            0
        } else {
            session
        };
        if broken(FloodInMemory) {
            self.hoard.push(line.clone());
            self.hoard.push(line.clone());
        }
        let queue = queue_of(&mut self.queues, &self.folder, session);
        if broken(FloodDropped) && queue.count > 1000 && line.starts_with(b"{\"type\":\"output\"") {
            return;
        }
        queue.count += 1;
        if broken(PipeHeld) && queue.paused {
            sleep(20);
        }
        if broken(SpoolOvertaken) && !queue.lines.is_empty() {
            queue.lines.push_front(line);
        } else if queue.lines.push(line).is_err() {
            crate::note("the disk takes no more: a message for the hub is lost");
        }
        self.ring_up(session);
        self.pump();
    }

    /// Holds back a session, or lets it go ([relay.5]).
    pub(crate) fn pause(&mut self, session: u64, paused: bool) {
        if broken(PauseIgnored) {
            return;
        }
        let sessions = if broken(PauseHoldsAll) {
            self.queues.keys().copied().collect()
        } else {
            vec![session]
        };
        for session in sessions {
            queue_of(&mut self.queues, &self.folder, session).paused = paused;
            self.ring_up(session);
        }
        self.pump();
    }

    pub(crate) fn is_paused(&self, session: u64) -> bool {
        self.queues.get(&session).is_some_and(|queue| queue.paused)
    }

    /// Forgets a session that has closed, and what waits of it ([session.4]).
    pub(crate) fn close(&mut self, session: u64) {
        if broken(CloseReleasesSpool) {
            self.pause(session, false);
            return;
        }
        self.queues.remove(&session);
    }

    /// Forgets a session when all of it is written: the relay has closed it.
    pub(crate) fn finish(&mut self, session: u64) {
        if let Some(queue) = self.queues.get_mut(&session) {
            queue.over = true;
            if queue.lines.is_empty() {
                self.queues.remove(&session);
            }
        }
    }

    /// Lets everything go that was held back: the relay ends ([relay.9]).
    pub(crate) fn release(&mut self) {
        let sessions: Vec<u64> = self.queues.keys().copied().collect();
        for session in sessions {
            self.pause(session, false);
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.pipe.is_broken()
            || self.of_the_pipe.is_empty() && self.ring.is_empty() && self.pipe.is_settled()
    }

    fn ring_up(&mut self, session: u64) {
        if let Some(queue) = self.queues.get_mut(&session)
            && !queue.ringed
            && !queue.paused
            && !queue.lines.is_empty()
        {
            queue.ringed = true;
            self.ring.push_back(session);
        }
    }

    /// Writes while the pipe is not too far ahead: deficit round robin.
    pub(crate) fn pump(&mut self) {
        while self.pipe.bytes() < AHEAD {
            let waits = broken(PingQueued) && !self.ring.is_empty();
            if let Some(line) = if waits {
                None
            } else {
                self.of_the_pipe.pop_front()
            } {
                self.pipe.push(line);
                continue;
            }
            let Some(&session) = self.ring.front() else {
                return;
            };
            let Some(queue) = self.queues.get_mut(&session) else {
                self.ring.pop_front();
                continue;
            };
            if queue.paused || queue.lines.is_empty() {
                queue.ringed = false;
                queue.credit = queue.credit.min(0);
                let over = queue.over && queue.lines.is_empty();
                self.ring.pop_front();
                if over {
                    self.queues.remove(&session);
                }
                continue;
            }
            if queue.credit <= 0 && !broken(FloodStarves) {
                queue.credit += QUANTUM;
                self.ring.rotate_left(1);
                continue;
            }
            match queue.lines.pop() {
                Ok(Some(line)) => {
                    queue.credit -= i64::try_from(line.len()).unwrap_or(QUANTUM);
                    queue.count -= 1;
                    self.pipe.push(line);
                }
                Ok(None) => {}
                Err(_) => drop(self.queues.remove(&session)),
            }
        }
    }
}

/// The queue of a session, which begins empty.
fn queue_of<'q>(
    queues: &'q mut HashMap<u64, SessionQueue>,
    folder: &Path,
    session: u64,
) -> &'q mut SessionQueue {
    queues.entry(session).or_insert_with(|| SessionQueue {
        lines: Spool::new(folder.to_owned()),
        ..SessionQueue::default()
    })
}
