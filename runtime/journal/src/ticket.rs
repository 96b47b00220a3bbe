//! Tickets: futures that resolve when something that was put is stored.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::NotStored;

/// The outcome of one write, and the tasks and threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    result: OnceLock<Result<(), NotStored>>,
    waiting: Mutex<Waiting>,
    is_set: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    tasks: Vec<Waker>,
    /// Set if a thread has blocked. Otherwise the condition variable is not notified, because that
    /// is a system call.
    has_threads: bool,
}

impl WriteOutcome {
    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result and wakes all that wait. Only the first call has an effect.
    pub(crate) fn resolve(&self, result: Result<(), NotStored>) {
        let mut waiting = self.lock_waiting();
        if self.result.set(result).is_err() {
            return;
        }
        let Waiting { tasks, has_threads } = std::mem::take(&mut *waiting);
        drop(waiting);
        if has_threads {
            self.is_set.notify_all();
        }
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Blocks the thread until the outcome is decided or the timeout has passed.
    fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), NotStored>> {
        let mut waiting = self.lock_waiting();
        if self.result.get().is_none() {
            waiting.has_threads = true;
            drop(
                self.is_set
                    .wait_timeout_while(waiting, timeout, |_| self.result.get().is_none())
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.result.get().cloned()
    }
}

/// Resolves when something that was put is stored, or will not be. Dropping a ticket changes
/// nothing: the write is not cancelled.
///
/// # Cancel safety
/// Takes nothing.
#[derive(Debug, Clone)]
#[must_use = "what was put may fail to be stored"]
pub struct Ticket(TicketState);

#[derive(Debug, Clone)]
enum TicketState {
    Decided(Result<(), NotStored>),
    Waiting(Arc<WriteOutcome>),
}

impl Ticket {
    /// Returns a ticket of nothing, which is stored.
    pub fn stored() -> Self {
        Self(TicketState::Decided(Ok(())))
    }

    pub(crate) fn refused(why: NotStored) -> Self {
        Self(TicketState::Decided(Err(why)))
    }

    pub(crate) fn of_write(outcome: Arc<WriteOutcome>) -> Self {
        Self(TicketState::Waiting(outcome))
    }

    /// Returns the outcome, if it is decided.
    #[must_use]
    pub fn ended(&self) -> Option<Result<(), NotStored>> {
        match &self.0 {
            TicketState::Decided(result) => Some(result.clone()),
            TicketState::Waiting(outcome) => outcome.result.get().cloned(),
        }
    }

    /// Blocks the thread until the outcome is decided.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn wait(&self) -> Result<(), NotStored> {
        loop {
            if let Some(result) = self.wait_timeout(Duration::MAX) {
                return result;
            }
        }
    }

    /// Blocks the thread until the outcome is decided or the timeout has passed.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), NotStored>> {
        match &self.0 {
            TicketState::Decided(result) => Some(result.clone()),
            TicketState::Waiting(outcome) => outcome.wait_timeout(timeout),
        }
    }

    /// Drops the ticket on purpose: the outcome is of no interest.
    pub fn detach(self) {}
}

impl Future for Ticket {
    type Output = Result<(), NotStored>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.ended() {
            return Poll::Ready(result);
        }
        let TicketState::Waiting(outcome) = &self.0 else {
            return Poll::Pending;
        };
        let mut waiting = outcome.lock_waiting();
        if let Some(result) = self.ended() {
            return Poll::Ready(result);
        }
        let tasks = &mut waiting.tasks;
        if !tasks.iter().any(|task| task.will_wake(context.waker())) {
            tasks.push(context.waker().clone());
        }
        Poll::Pending
    }
}
