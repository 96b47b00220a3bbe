//! Locks of threads of which one may have panicked.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Locks a mutex, even one whose holder has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change, for so long at most.
pub fn wait<'a, T>(
    changed: &Condvar,
    state: MutexGuard<'a, T>,
    most: Duration,
) -> MutexGuard<'a, T> {
    let waited = changed.wait_timeout(state, most);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
