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
        Self {
            age: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            bytes: None,
            sessions: None,
        }
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
        let Retention {
            age,
            bytes,
            sessions,
        } = self.options.retention;
        let held = self.held();
        let index = self.index();
        let oldest_kept = age.map_or(0, |age| {
            now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        });
        let mut kept: u64 = index.segments.values().map(|filled| filled.kept).sum();
        let mut count = index.kept();
        let mut over = Vec::new();
        for (time, session) in index.oldest() {
            let is_too_much =
                bytes.is_some_and(|most| kept > most) || sessions.is_some_and(|most| count > most);
            if (time >= oldest_kept && !is_too_much) || over.len() == MOST {
                break;
            }
            let Some(slot) = index.slot(session).filter(|slot| !slot.is_unsettled) else {
                continue;
            };
            if held.contains_key(&session) {
                continue;
            }
            kept = kept.saturating_sub(slot.bytes);
            count -= 1;
            over.push(session);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, Options, Settled};

    const DAY: u64 = 24 * 60 * 60 * 1000;

    fn journal(retention: Retention) -> (tempfile::TempDir, Journal, Vec<SessionKey>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            retention,
            ..Options::default()
        };
        let (journal, _) = Journal::open(folder.path(), options).unwrap();
        let sessions = (0..4).map(|number| {
            let (session, _) = journal.create(&format!("s-{number}"), b"{}").unwrap();
            journal.put_entries(session, 1, 1, &[b'x'; 1000]).detach();
            let settled = if number == 1 {
                Settled::No
            } else {
                Settled::Yes
            };
            journal
                .put_facts(session, 1, b"{}", settled)
                .wait()
                .unwrap();
            session
        });
        let sessions = sessions.collect();
        (folder, journal, sessions)
    }

    #[test]
    fn what_is_old_goes_and_what_is_in_use_stays() {
        let (_folder, journal, sessions) = journal(Retention::default());
        assert_eq!(journal.shared.over(now()), []);
        assert_eq!(journal.shared.over(now() + 29 * DAY), []);
        // The second is not settled.
        let late = now() + 31 * DAY;
        assert_eq!(
            journal.shared.over(late),
            [sessions[0], sessions[2], sessions[3]]
        );
        let (one, two) = (journal.hold(sessions[2]), journal.hold(sessions[2]));
        assert_eq!(journal.shared.over(late), [sessions[0], sessions[3]]);
        drop(one);
        assert_eq!(journal.shared.over(late), [sessions[0], sessions[3]]);
        drop(two);
        assert_eq!(journal.shared.over(late).len(), 3);
    }

    #[test]
    fn more_than_may_be_kept_goes_the_oldest_first() {
        let none = Retention {
            age: None,
            bytes: None,
            sessions: None,
        };
        let (_folder, journal, sessions) = self::journal(Retention {
            sessions: Some(2),
            ..none
        });
        assert_eq!(
            journal.shared.over(now() + 100 * DAY),
            [sessions[0], sessions[2]]
        );
        let (_folder, journal, sessions) = self::journal(Retention {
            bytes: Some(3500),
            ..none
        });
        assert_eq!(journal.shared.over(now()), [sessions[0]]);
    }
}
