//! What is removed in time, so that a journal does not grow forever.

use std::{sync::Arc, time::Duration};

use crate::{
    SessionKey,
    journal::{Shared, now},
};

/// How long sessions are kept, and how much of them. Whole sessions are removed, the longest inactive first; one that
/// is not settled stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// For how long a session stays in which nothing happens.
    pub age: Option<Duration>,
    /// How many bytes of entries and facts are kept.
    pub bytes: Option<u64>,
    /// How many sessions are kept.
    pub sessions: Option<usize>,
}

impl Default for Retention {
    /// Thirty days, however much that is.
    fn default() -> Self {
        Self { age: Some(Duration::from_secs(30 * 24 * 60 * 60)), bytes: None, sessions: None }
    }
}

/// How many sessions one sweep removes, so that the log is not held up.
const MOST: usize = 1000;

impl Shared {
    /// Removes what is to go, on a thread of its own.
    pub(crate) fn sweep_beside(self: Arc<Self>) {
        let over = self.over(now());
        self.remove_beside(over);
    }

    /// The sessions that are to go.
    pub(crate) fn over(&self, now: u64) -> Vec<SessionKey> {
        let Retention { age, bytes, sessions } = self.options.retention;
        let index = self.index();
        let oldest_kept =
            age.map_or(0, |age| now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)));
        let mut kept: u64 = index.segments.values().map(|filled| filled.kept).sum();
        let mut count = index.kept();
        let mut over = Vec::new();
        for (time, session) in index.oldest() {
            let is_too_much =
                bytes.is_some_and(|most| kept > most) || sessions.is_some_and(|most| count > most);
            if (time >= oldest_kept && !is_too_much) || over.len() == MOST {
                break;
            }
            let Some(slot) = index.slot(session).filter(|slot| !slot.is_unsettled) else { continue };
            kept = kept.saturating_sub(slot.bytes);
            count -= 1;
            over.push(session);
        }
        over
    }
}
