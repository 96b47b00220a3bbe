//! A value that threads change and wait on.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A value behind a lock, and those that wait for it to change.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    /// Watches a value.
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    /// The value as it is. A thread that panicked has left it whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value; all that wait look again.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `look` finds something.
    pub(crate) fn wait<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut value = self.lock();
        loop {
            if let Some(found) = look(&mut value) {
                return found;
            }
            value = self
                .changed
                .wait(value)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same for some time at most.
    pub(crate) fn wait_within<R>(
        &self,
        within: Duration,
        mut look: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let deadline = Instant::now() + within;
        let mut value = self.lock();
        loop {
            let found = look(&mut value);
            let left = deadline.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() {
                return found;
            }
            value = self
                .changed
                .wait_timeout(value, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
