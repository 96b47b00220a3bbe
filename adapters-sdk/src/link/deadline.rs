//! The time that a stopped turn has left. Kept here and not by its worker, so that a handler that
//! blocks its thread ends like any other.

use std::sync::PoisonError;

use tokio::time::Instant;

use super::Link;
use crate::session::Late;

impl Link {
    /// Gives a turn the grace, from now. All have the same one: the first added is the first due.
    pub(super) fn add_late(&self, late: Late) {
        let due = Instant::now() + self.terms.grace;
        self.late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back((due, late));
        self.late_added.notify_one();
    }

    /// Ends the turns whose time is over, forever.
    pub(crate) async fn end_late_turns(&self) {
        loop {
            let first = self
                .late
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .front()
                .map(|(due, _)| *due);
            match first {
                None => self.late_added.notified().await,
                Some(due) => {
                    tokio::time::sleep_until(due).await;
                    // Taken out one by one: ending a turn takes its session's lock, which must not
                    // be taken under this one.
                    while let Some(late) = self.due() {
                        late.end();
                    }
                }
            }
        }
    }

    fn due(&self) -> Option<Late> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = late.front().is_some_and(|(due, _)| *due <= Instant::now());
        is_due
            .then(|| late.pop_front())
            .flatten()
            .map(|(_, late)| late)
    }
}
