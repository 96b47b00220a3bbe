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
    wakers: Mutex<Vec<Waker>>,
    is_set: Condvar,
}

impl WriteOutcome {
    fn lock_wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result and wakes all that wait. Only the first call has an effect.
    pub(crate) fn resolve(&self, result: Result<(), NotStored>) {
        let mut wakers = self.lock_wakers();
        if self.result.set(result).is_ok() {
            let woken = std::mem::take(&mut *wakers);
            drop(wakers);
            self.is_set.notify_all();
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

/// Resolves when something that was put is stored, or will not be. Dropping a ticket changes
/// nothing: the write is not cancelled.
///
/// # Cancel safety
/// Takes nothing.
#[derive(Debug, Clone)]
#[must_use = "what was put may fail to be stored"]
pub struct Ticket(pub(crate) Arc<WriteOutcome>);

impl Ticket {
    /// Returns a ticket of nothing, which is stored.
    pub fn stored() -> Self {
        Self::resolved(Ok(()))
    }

    pub(crate) fn resolved(result: Result<(), NotStored>) -> Self {
        let outcome = WriteOutcome::default();
        outcome.resolve(result);
        Self(Arc::new(outcome))
    }

    /// Returns the outcome, if it is decided.
    #[must_use]
    pub fn ended(&self) -> Option<Result<(), NotStored>> {
        self.0.result.get().cloned()
    }

    /// Blocks the thread until the outcome is decided.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn wait(&self) -> Result<(), NotStored> {
        let mut wakers = self.0.lock_wakers();
        loop {
            if let Some(result) = self.ended() {
                return result;
            }
            wakers = self
                .0
                .is_set
                .wait(wakers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until the outcome is decided or the timeout has passed.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), NotStored>> {
        let wakers = self.0.lock_wakers();
        if self.ended().is_none() {
            drop(
                self.0
                    .is_set
                    .wait_timeout(wakers, timeout)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.ended()
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
        let mut wakers = self.0.lock_wakers();
        if let Some(result) = self.ended() {
            return Poll::Ready(result);
        }
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
