//! The host's requests to a session, which its worker takes in the same order ([session.3]).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use trunkline_protocol::{
    Category, Extensions, Failure, FileInput, SessionInfo, Status, StopReason, TurnComplete,
};

use super::{
    core::{Core, CorePhase, Inner, State},
    job::{Job, Next, QueuedTurn},
    running::{ended, stopped},
    turning::not_delivered,
};

/// The most inputs that wait in one session.
const QUEUED_TURNS: usize = 1024;

/// The most bytes of inputs that wait in one session.
const QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// The most files and updates that wait in one session.
const QUEUED_OTHERS: usize = 4096;

impl Core {
    /// Takes a job of the host's. Never waits.
    pub(crate) fn take(self: &Arc<Self>, job: Job) {
        let mut inner = self.lock();
        match &inner.phase {
            CorePhase::Open => {}
            CorePhase::Told(closed) => {
                if let Job::Turn(turn) = job {
                    self.send(turn.id.clone(), (**closed).clone().into());
                    let with_turns = self.agreed.contains(Extensions::TURNS);
                    let status = with_turns.then_some(Status::Failed);
                    self.send(
                        turn.id,
                        TurnComplete {
                            status,
                            ..TurnComplete::default()
                        }
                        .into(),
                    );
                }
                return;
            }
            CorePhase::Shutting => {
                if let Job::Turn(turn) = job {
                    self.end_queued(&turn, stopped(Some(StopReason::Shutdown)));
                }
                return;
            }
            CorePhase::Closed => return,
        }
        match job {
            Job::Turn(mut turn) => {
                turn.input.files = std::mem::take(&mut inner.files);
                if let Some(ledger) = inner.ledger.as_mut().filter(|_| turn.large.is_none()) {
                    ledger.input(&turn.input.content);
                }
                let bytes = turn.input.content.len();
                if inner.queued_turns >= QUEUED_TURNS || inner.queued_bytes + bytes > QUEUED_BYTES {
                    return self.refuse(&mut inner, &turn);
                }
                inner.queued_turns += 1;
                inner.queued_bytes += bytes;
                inner.queue.push_back(Job::Turn(turn));
            }
            Job::File(file) => {
                if inner.files.len() >= QUEUED_OTHERS || inner.queue.len() >= QUEUED_OTHERS {
                    return tracing::warn!(session = %self.id, "too many files before an input; one left out");
                }
                inner.files.push(file.clone());
                inner.queue.push_back(Job::File(file));
            }
            Job::Update(_) if inner.queue.len() >= QUEUED_OTHERS => {
                self.send(None, SessionInfo::default().into());
            }
            Job::Start(_) | Job::Update(_) | Job::Refused(_) => inner.queue.push_back(job),
        }
        self.wake_worker(&mut inner);
    }

    pub(super) fn wake_worker(self: &Arc<Self>, inner: &mut Inner) {
        if inner.worker.is_none()
            && let Some(keeper) = self.ground.keeper.upgrade()
        {
            inner.worker = Some(CancellationToken::new());
            keeper.work(self.clone());
        }
    }

    /// Ends a turn that there is no room for. Where turns have ids at once, else in its order.
    pub(super) fn refuse(&self, inner: &mut Inner, turn: &QueuedTurn) {
        if self.agreed.contains(Extensions::TURNS) && turn.id.is_some() {
            self.end_queued(turn, busy());
        } else if let Some(Job::Refused(count)) = inner.queue.back_mut() {
            *count += 1;
        } else {
            inner.queue.push_back(Job::Refused(1));
        }
    }

    pub(super) fn end_queued(&self, turn: &QueuedTurn, end: TurnComplete) {
        for steer in &turn.steers {
            self.send(
                turn.id.clone(),
                not_delivered(steer, "the turn has ended").into(),
            );
        }
        self.send(turn.id.clone(), end.into());
    }

    /// The worker's first step: the author's state, and what cuts hooks that are not turns.
    pub(crate) fn begin_work(&self) -> (Option<State>, CancellationToken) {
        let mut inner = self.lock();
        (
            inner.state.take(),
            inner.worker.get_or_insert_default().clone(),
        )
    }

    /// The worker's next step; nothing when there is none, and then the worker has ended and given
    /// the state back.
    pub(crate) fn next(self: &Arc<Self>, state: &mut Option<State>) -> Option<Next> {
        let mut inner = self.lock();
        loop {
            if inner.is_over() {
                return Some(Next::Close);
            }
            let shutting = matches!(inner.phase, CorePhase::Shutting);
            match inner.queue.pop_front() {
                None if shutting => inner.phase = CorePhase::Closed,
                None => {
                    inner.worker = None;
                    inner.state = state.take();
                    return None;
                }
                Some(Job::Turn(turn)) => {
                    inner.forget_queued(&turn);
                    if shutting {
                        self.end_queued(&turn, stopped(Some(StopReason::Shutdown)));
                        continue;
                    }
                    return Some(self.begin_turn(&mut inner, turn));
                }
                Some(Job::Refused(count)) => {
                    for _ in 0..count {
                        self.send(None, busy().into());
                    }
                }
                Some(_) if shutting => {}
                Some(Job::Start(start)) => return Some(Next::Start(start)),
                Some(Job::File(file)) => return Some(Next::File(file)),
                Some(Job::Update(update)) => return Some(Next::Update(update)),
            }
        }
    }
}

impl Inner {
    /// Returns true if a file was refused, and forgets it.
    pub(super) fn forget_refused(&mut self, file: &FileInput) -> bool {
        let at = self.refused.iter().position(|refused| refused == file);
        at.map(|at| self.refused.remove(at)).is_some()
    }

    pub(super) fn forget_queued(&mut self, turn: &QueuedTurn) {
        self.queued_turns -= 1;
        self.queued_bytes -= turn.input.content.len();
    }
}

/// The end of a turn that there is no room for.
pub(super) fn busy() -> TurnComplete {
    let error = Failure::new(Category::Busy, "too many inputs wait in this session");
    ended(Status::Failed, Some(error))
}
