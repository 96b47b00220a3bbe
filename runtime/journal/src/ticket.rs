//! When something is stored.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::NotStored;

/// What waits for one write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    ended: OnceLock<Result<(), NotStored>>,
    wakers: Mutex<Vec<Waker>>,
    end: Condvar,
}

impl Batch {
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, once.
    pub(crate) fn end(&self, result: Result<(), NotStored>) {
        let mut wakers = self.wakers();
        if self.ended.set(result).is_ok() {
            let woken = std::mem::take(&mut *wakers);
            drop(wakers);
            self.end.notify_all();
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

/// Says when what was put is stored. Dropping it changes nothing: what was put is stored all the same.
///
/// As a future it resolves when that is decided.
///
/// # Cancel safety
/// Takes nothing.
#[derive(Debug, Clone)]
#[must_use = "what was put may fail to be stored"]
pub struct Ticket(pub(crate) Arc<Batch>);

impl Ticket {
    /// That of nothing, which is stored.
    pub fn stored() -> Self {
        let batch = Batch::default();
        batch.end(Ok(()));
        Self(Arc::new(batch))
    }

    /// Whether it is stored, as far as that is decided.
    #[must_use]
    pub fn ended(&self) -> Option<Result<(), NotStored>> {
        self.0.ended.get().cloned()
    }

    /// Blocks the thread until that is decided.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn wait(&self) -> Result<(), NotStored> {
        let mut wakers = self.0.wakers();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            wakers = self
                .0
                .end
                .wait(wakers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until that is decided, or the time is up.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<Result<(), NotStored>> {
        let wakers = self.0.wakers();
        if self.ended().is_none() {
            drop(
                self.0
                    .end
                    .wait_timeout(wakers, time)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.ended()
    }

    /// Lets what was put go its way.
    pub fn detach(self) {}
}

impl Future for Ticket {
    type Output = Result<(), NotStored>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ended) = self.ended() {
            return Poll::Ready(ended);
        }
        let mut wakers = self.0.wakers();
        if let Some(ended) = self.ended() {
            return Poll::Ready(ended);
        }
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
