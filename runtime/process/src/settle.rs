//! Waiting for what dropped children leave behind.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Number of children, from the first preparation of their start, whose resources are not all
/// released.
static LEFT: Mutex<usize> = Mutex::new(0);

/// Rung when there are none.
static NONE_LEFT: Condvar = Condvar::new();

/// Counts a child until it is dropped.
#[derive(Debug)]
pub(crate) struct Mark(());

impl Mark {
    pub(crate) fn new() -> Self {
        *LEFT.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        if *left == 0 {
            NONE_LEFT.notify_all();
        }
    }
}

/// Waits until every child of this program is reaped and its private folder removed; whether that
/// came in time. Blocks.
///
/// For the end of a program, after its runtime: dropping a [`Child`](crate::Child) leaves the rest
/// to a thread, which ends with the program. It ends no child: one that something still holds is
/// waited for in vain.
#[must_use]
pub fn settle(longest: Duration) -> bool {
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = NONE_LEFT.wait_timeout_while(left, longest, |left| *left > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}
