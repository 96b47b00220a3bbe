//! A session of the stub: its inputs in their order, the running turn, and the messages that have
//! arrived.
//!
//! The reading thread puts messages in and never waits; the session's two workers take them out.
//! The first worker serves the start and then turn after turn; the second executes rules and
//! answers, so that they do not wait for a turn.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::action::{Message, WaitCondition};
use crate::watched::Watched;

/// The most arrivals that a session remembers for its waits.
const MAX_SEEN: usize = 16_384;
/// Interval at which a wait checks whether its own turn has ended, for a wait in another session,
/// which is not woken by it.
const LOOK: Duration = Duration::from_millis(20);

/// A session, shared by its workers and the reading thread.
#[derive(Debug)]
pub(super) struct StubSession {
    pub(super) id: String,
    state: Watched<StubState>,
}

#[derive(Debug, Default)]
pub(super) struct StubState {
    /// The extensions that were agreed on.
    pub(super) agreed: Vec<String>,
    /// True if `session.ready` is owed.
    pub(super) ready: bool,
    pub(super) exchange_dir: Option<String>,
    pub(super) closed: bool,
    pub(super) paused: bool,
    pub(super) turn: Option<StubTurn>,
    /// The inputs that wait for their turn.
    pub(super) inputs: VecDeque<StubInput>,
    /// Tasks of the second worker.
    pub(super) errands: VecDeque<WorkerTask>,
    pub(super) second_worker: bool,
    pub(super) arrived: u64,
    pub(super) seen: VecDeque<ArrivedMessage>,
}

/// A `user.input` that begins a turn.
#[derive(Clone, Debug)]
pub(super) struct StubInput {
    pub(super) content: String,
    pub(super) turn_id: Option<String>,
    /// Place among the arrivals of the session.
    pub(super) arrival: u64,
    /// `stop` came before its turn had begun.
    pub(super) stopped: bool,
}

/// The turn that was begun last.
#[derive(Clone, Debug)]
pub(super) struct StubTurn {
    pub(super) id: Option<String>,
    pub(super) arrival: u64,
    pub(super) open: bool,
    /// `stop` has come, and it is answered by default.
    pub(super) stopped: bool,
    /// True if its actions handle `stop` themselves.
    pub(super) handles_stop: bool,
}

/// Work for the second worker.
#[derive(Debug)]
pub(super) enum WorkerTask {
    /// The rule for a message type, with the arrival that set it off.
    Rule { kind: String, arrival: u64 },
    /// A message to be written.
    Emit(Message),
    /// The instructions of a steer, for the running turn.
    Instructions { content: String, arrival: u64 },
}

/// A message that has arrived, for the waits.
#[derive(Debug)]
pub(super) struct ArrivedMessage {
    arrival: u64,
    kind: String,
    request_id: Option<String>,
    taken: bool,
}

impl StubSession {
    pub(super) fn new(id: &str, state: StubState) -> Self {
        Self {
            id: id.to_owned(),
            state: Watched::new(state),
        }
    }

    /// Reads the state.
    pub(super) fn look<R>(&self, read: impl FnOnce(&StubState) -> R) -> R {
        read(&self.state.lock())
    }

    /// Changes the state; all that wait look again.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut StubState) -> R) -> R {
        self.state.change(change)
    }

    pub(super) fn agreed_on(&self, extension: &str) -> bool {
        self.state
            .lock()
            .agreed
            .iter()
            .any(|name| name == extension)
    }

    /// Notes an arrival and returns its place.
    pub(super) fn arrive(&self, kind: &str, request_id: Option<&str>) -> u64 {
        self.with(|state| {
            state.arrived += 1;
            if state.seen.len() == MAX_SEEN {
                state.seen.pop_front();
            }
            state.seen.push_back(ArrivedMessage {
                arrival: state.arrived,
                kind: kind.to_owned(),
                request_id: request_id.map(str::to_owned),
                taken: false,
            });
            state.arrived
        })
    }

    /// Returns the arrival from which a wait in this session searches: the one of its open turn,
    /// otherwise the last.
    pub(super) fn since(&self) -> u64 {
        let state = self.state.lock();
        let open = state.turn.as_ref().filter(|turn| turn.open);
        open.map_or(state.arrived, |turn| turn.arrival)
    }

    /// The id of the open turn.
    pub(super) fn open_turn(&self) -> Option<String> {
        let state = self.state.lock();
        let open = state.turn.as_ref().filter(|turn| turn.open);
        open.and_then(|turn| turn.id.clone())
    }

    /// Waits until something holds, a deadline passes, or the caller gives up. True when it holds.
    pub(super) fn wait(
        &self,
        deadline: Option<Instant>,
        gives_up: impl Fn() -> bool,
        mut holds: impl FnMut(&mut StubState) -> bool,
    ) -> bool {
        loop {
            let rest = deadline.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
            if self
                .state
                .wait_within(rest.min(LOOK), |state| holds(state).then_some(()))
                .is_some()
            {
                return true;
            }
            if rest.is_zero() || gives_up() {
                return false;
            }
        }
    }

    /// Waits for work of the first worker. None when the session is closed.
    pub(super) fn next_input(&self) -> Option<StubInput> {
        self.state.wait(|state| {
            if state.closed {
                return Some(None);
            }
            let input = state.inputs.pop_front()?;
            state.turn = Some(StubTurn {
                id: input.turn_id.clone(),
                arrival: input.arrival,
                open: true,
                stopped: input.stopped,
                handles_stop: false,
            });
            Some(Some(input))
        })
    }

    /// Waits for work of the second worker. None when the session is closed and nothing is left.
    pub(super) fn next_errand(&self) -> Option<WorkerTask> {
        self.state.wait(|state| {
            let errand = state.errands.pop_front();
            if errand.is_none() && state.closed {
                state.second_worker = false;
                return Some(None);
            }
            errand.map(Some)
        })
    }
}

impl StubState {
    /// Takes the first arrival that is wanted, if there is one.
    pub(super) fn take(&mut self, wanted: &WaitCondition, since: u64) -> bool {
        let found = self.seen.iter_mut().find(|seen| {
            !seen.taken
                && seen.arrival > since
                && seen.kind == wanted.kind
                && (wanted.request_id.is_none() || wanted.request_id == seen.request_id)
        });
        found.is_some_and(|seen| {
            seen.taken = true;
            true
        })
    }

    /// Marks the running turn as stopped, or the input that is about to become it.
    pub(super) fn stop(&mut self, turn_id: Option<&str>) {
        let means = |id: &Option<String>| turn_id.is_none() || id.as_deref() == turn_id;
        match &mut self.turn {
            Some(turn) if turn.open => turn.stopped |= means(&turn.id),
            _ => {
                if let Some(next) = self.inputs.front_mut() {
                    next.stopped |= means(&next.turn_id);
                }
            }
        }
    }

    /// Ends the turn of that arrival, or whichever is open.
    pub(super) fn end_turn(&mut self, arrival: Option<u64>) {
        if let Some(turn) = &mut self.turn
            && arrival.is_none_or(|a| a == turn.arrival)
        {
            turn.open = false;
        }
    }
}
