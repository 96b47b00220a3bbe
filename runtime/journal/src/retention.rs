//! Retention: removes old sessions, so that a journal does not grow forever.
//!
//! A wall clock can be wrong, and a removal cannot be undone. So ages are measured by a clock that
//! trusts the wall clock only as far as the journal has run ([`RetentionClock`]).

use std::{fmt, sync::Arc, time::Duration};

use crate::{SessionKey, journal::JournalState};

/// Limits of a journal. Whole sessions are removed, the longest inactive first; one that is not
/// settled stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Longest time since the last entry of a session. After a jump of the wall clock sessions stay
    /// longer: an hour in which the journal runs confirms a day of the clock.
    pub age: Option<Duration>,
    /// Most bytes of entries and facts.
    pub bytes: Option<u64>,
    /// Most sessions.
    pub sessions: Option<usize>,
}

impl Default for Retention {
    /// Thirty days, and any size.
    fn default() -> Self {
        Self {
            age: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            bytes: None,
            sessions: None,
        }
    }
}

/// Most sessions that one sweep removes, so that it does not hold up the log.
const MAX_REMOVED: usize = 1000;

/// The limit that a removed session was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    Age,
    Bytes,
    Sessions,
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Age => "its last entry is older than the journal's greatest age",
            Self::Bytes => "the journal has more bytes than its limit",
            Self::Sessions => "the journal has more sessions than its limit",
        })
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time of the wall clock that one unit of running time confirms.
const CATCH_UP: u32 = 24;

/// Lead of the wall clock from which on it is reported.
const REPORTED_LEAD: Duration = DAY;

/// The clock by which sessions age.
///
/// Follows the wall clock, but at most [`CATCH_UP`] times as fast as the journal runs, and a day
/// more for each opening, so that journals which are open for minutes a day keep up. The head file
/// keeps it between openings. A jump of the wall clock therefore ages no session until the journal
/// has run for a while under it; a jump back takes effect at once. Besides, a session must be too
/// old in two sweeps in a row.
#[derive(Debug)]
pub(crate) struct RetentionClock {
    /// The greatest time that is confirmed: milliseconds since 1970.
    confirmed: u64,
    /// The running time at the last sweep.
    uptime: Duration,
    /// The time of the last sweep.
    last_sweep: Option<u64>,
    is_lead_reported: bool,
}

impl RetentionClock {
    /// Starts from the clock of the last opening. Without one, pass the time of the last block.
    pub(crate) fn new(confirmed: u64) -> Self {
        Self {
            confirmed,
            uptime: Duration::ZERO,
            last_sweep: None,
            is_lead_reported: false,
        }
    }

    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Begins a sweep and returns the time by which it removes; `None` if it removes nothing by
    /// age.
    ///
    /// `wall` is the wall clock in milliseconds since 1970, `uptime` the monotonic time since the
    /// opening.
    pub(crate) fn begin_sweep(&mut self, wall: u64, uptime: Duration) -> Option<u64> {
        let passed = uptime.saturating_sub(self.uptime);
        self.uptime = self.uptime.max(uptime);
        let bonus = if self.last_sweep.is_none() {
            DAY
        } else {
            Duration::ZERO
        };
        let reachable = self
            .confirmed
            .saturating_add(millis(passed.saturating_mul(CATCH_UP)))
            .saturating_add(millis(bonus));
        self.confirmed = self.confirmed.max(wall.min(reachable));
        self.report_lead(wall);
        let now = wall.min(self.confirmed);
        let last = self.last_sweep.replace(now)?;
        Some(last.min(now))
    }

    fn report_lead(&mut self, wall: u64) {
        let lead = wall.saturating_sub(self.confirmed);
        if lead < millis(REPORTED_LEAD) {
            self.is_lead_reported = false;
        } else if !std::mem::replace(&mut self.is_lead_reported, true) {
            let days = lead / millis(DAY);
            let hours = lead / u64::from(CATCH_UP) / 3_600_000 + 1;
            tracing::warn!(
                "the clock is {days} days ahead of the time that the journal has recorded: sessions are removed by age only \
                 as the journal runs, all that are due in about {hours} hours; check the clock of this machine"
            );
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl JournalState {
    /// Returns the sessions that are over a limit. `now` is the time by which they age, if they do.
    pub(crate) fn find_over_limits(&self, now: Option<u64>) -> Vec<(SessionKey, RemovalReason)> {
        let limits = self.options.retention;
        let holds = self.lock_holds();
        let index = self.lock_index();
        let age = now.zip(limits.age);
        let oldest_kept = age.map_or(0, |(now, age)| now.saturating_sub(millis(age)));
        let mut bytes: u64 = index.segments.values().map(|usage| usage.kept).sum();
        let mut sessions = index.count_kept();
        let mut found = Vec::new();
        for (time, session) in index.oldest_first() {
            let reason = if time < oldest_kept {
                RemovalReason::Age
            } else if limits.bytes.is_some_and(|most| bytes > most) {
                RemovalReason::Bytes
            } else if limits.sessions.is_some_and(|most| sessions > most) {
                RemovalReason::Sessions
            } else {
                break;
            };
            if found.len() == MAX_REMOVED {
                break;
            }
            let Some(slot) = index.slot(session).filter(|slot| !slot.is_unsettled) else {
                continue;
            };
            if holds.contains_key(&session) {
                continue;
            }
            bytes = bytes.saturating_sub(slot.bytes);
            sessions -= 1;
            found.push((session, reason));
        }
        found
    }

    /// Removes sessions that are over a limit, on a thread of its own, and logs each.
    pub(crate) fn sweep(self: Arc<Self>, now: Option<u64>) {
        let found = self.find_over_limits(now).into_iter();
        let found = found.map(|(session, reason)| (session, Some(reason)));
        self.remove_in_background(found.collect());
    }

    pub(crate) fn log_removal(&self, session: SessionKey, reason: RemovalReason) {
        let name = self.name_session(session).unwrap_or_default();
        tracing::info!(
            session = name,
            key = session.0,
            "the journal removes a session: {reason}"
        );
    }

    fn name_session(&self, session: SessionKey) -> Option<String> {
        let location = self.lock_index().slot(session)?.facts?;
        let facts = self.read_facts(location).ok()??;
        self.options.session_name?(&facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, Options, Settled, journal::wall_clock};

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn days(count: u32) -> u64 {
        millis(DAY * count)
    }

    fn journal(retention: Retention) -> (tempfile::TempDir, Journal, Vec<SessionKey>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            retention,
            ..Options::default()
        };
        let (journal, _) = Journal::open(folder.path(), options).unwrap();
        let sessions = (0..4).map(|number| {
            let (session, _) = journal.create(&format!("s-{number}"), b"{}").unwrap();
            journal
                .put_entries(session, 1, 1, 1, &[b'x'; 1000])
                .detach();
            let settled = if number == 1 {
                Settled::No
            } else {
                Settled::Yes
            };
            journal
                .put_facts(session, 1, 1, b"{}", settled)
                .wait()
                .unwrap();
            session
        });
        let sessions = sessions.collect();
        (folder, journal, sessions)
    }

    fn found(journal: &Journal, now: u64) -> Vec<SessionKey> {
        let found = journal.state.find_over_limits(Some(now));
        assert!(
            found
                .iter()
                .all(|(_, reason)| *reason == RemovalReason::Age)
        );
        found.into_iter().map(|(session, _)| session).collect()
    }

    #[test]
    fn sessions_that_a_sweep_removes_are_counted() {
        let retention = Retention {
            sessions: Some(2),
            ..Retention::default()
        };
        let (_folder, journal, sessions) = journal(retention);
        journal.state.clone().sweep(None);
        while journal.retired() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(journal.sessions(), 2);
        assert!(journal.listed(sessions[1]).is_some(), "it is not settled");
    }

    #[test]
    fn what_is_old_goes_and_what_is_in_use_stays() {
        let (_folder, journal, sessions) = journal(Retention::default());
        let now = wall_clock();
        assert_eq!(found(&journal, now), []);
        assert_eq!(found(&journal, now + days(29)), []);
        assert_eq!(journal.state.find_over_limits(None), []);
        // The second is not settled.
        let late = now + days(31);
        assert_eq!(
            found(&journal, late),
            [sessions[0], sessions[2], sessions[3]]
        );
        let one = journal.hold(sessions[2]);
        let two = journal.hold(sessions[2]);
        assert_eq!(found(&journal, late), [sessions[0], sessions[3]]);
        drop(one);
        assert_eq!(found(&journal, late), [sessions[0], sessions[3]]);
        drop(two);
        assert_eq!(found(&journal, late).len(), 3);
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
            journal
                .state
                .find_over_limits(Some(wall_clock() + days(100))),
            [
                (sessions[0], RemovalReason::Sessions),
                (sessions[2], RemovalReason::Sessions)
            ]
        );
        let (_folder, journal, sessions) = self::journal(Retention {
            bytes: Some(3500),
            ..none
        });
        // A clock that is not confirmed does not matter to the size.
        assert_eq!(
            journal.state.find_over_limits(None),
            [(sessions[0], RemovalReason::Bytes)]
        );
    }

    #[test]
    fn one_look_at_a_wrong_clock_ages_nothing() {
        let start = days(20_000);
        let wrong = start + days(40);
        // Wrong from the opening on, and again at each of ten openings, as of a program that is
        // restarted.
        let mut confirmed = start;
        for _ in 0..10 {
            let mut clock = RetentionClock::new(confirmed);
            assert_eq!(clock.begin_sweep(wrong, MINUTE), None, "the first sweep");
            let now = clock.begin_sweep(wrong, 2 * MINUTE).unwrap();
            assert!(now < start + days(30), "{now}");
            confirmed = clock.confirmed();
        }

        // Wrong while the journal runs, then right again.
        let mut clock = RetentionClock::new(start);
        let mut uptime = Duration::ZERO;
        let mut sweep = |ahead: u64, clock: &mut RetentionClock| {
            uptime += MINUTE;
            let right = start + millis(uptime);
            clock
                .begin_sweep(right + ahead, uptime)
                .inspect(|now| assert!(*now <= right + days(2), "{now}"))
        };
        sweep(0, &mut clock);
        for _ in 0..60 {
            sweep(days(40), &mut clock);
        }
        let now = sweep(0, &mut clock).unwrap();
        assert!(now <= start + millis(62 * MINUTE), "back at once: {now}");
    }

    #[test]
    fn time_that_has_passed_is_confirmed() {
        let start = days(20_000);
        // The machine was off for forty days.
        let late = start + days(40);
        let mut clock = RetentionClock::new(start);
        let mut uptime = Duration::ZERO;
        let mut is_due = |limit: Duration| {
            while uptime < limit {
                uptime += MINUTE;
                let now = clock.begin_sweep(late + millis(uptime), uptime);
                if now.is_some_and(|now| now >= start + days(30)) {
                    return true;
                }
            }
            false
        };
        assert!(!is_due(24 * HOUR));
        assert!(is_due(48 * HOUR));

        // Ten minutes of each day keep up with the calendar.
        let mut confirmed = start;
        for day in 1..=100 {
            let mut clock = RetentionClock::new(confirmed);
            for minute in 1..=10 {
                clock.begin_sweep(start + days(day), MINUTE * minute);
            }
            confirmed = clock.confirmed();
        }
        assert_eq!(confirmed, start + days(100));
    }

    #[test]
    fn a_clock_that_was_behind_holds_nothing_up() {
        let start = days(20_000);
        let mut clock = RetentionClock::new(start);
        // A machine without a battery begins in 1970, and gets the time later.
        assert_eq!(clock.begin_sweep(0, MINUTE), None);
        assert_eq!(clock.begin_sweep(0, 2 * MINUTE), Some(0));
        assert_eq!(clock.begin_sweep(start, 3 * MINUTE), Some(0));
        assert_eq!(clock.begin_sweep(start, 4 * MINUTE), Some(start));
    }

    #[test]
    fn two_sweeps_in_a_row_must_agree() {
        let start = days(20_000);
        let ahead = millis(20 * MINUTE);
        let mut clock = RetentionClock::new(start);
        assert_eq!(clock.begin_sweep(start, MINUTE), None);
        let early = clock.begin_sweep(start + ahead, 2 * MINUTE).unwrap();
        assert_eq!(early, start, "one look at the later time");
        assert_eq!(
            clock.begin_sweep(start + 3, 3 * MINUTE),
            Some(start + 3),
            "the clock was set back"
        );
        clock.begin_sweep(start + ahead, 4 * MINUTE);
        assert_eq!(
            clock.begin_sweep(start + ahead, 5 * MINUTE),
            Some(start + ahead)
        );
    }

    /// Collects the events of a thread as text.
    #[derive(Default)]
    struct EventLog(std::sync::Mutex<String>);

    impl tracing::Subscriber for EventLog {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut log = self.0.lock().unwrap();
            log.push_str(event.metadata().target());
            event.record(
                &mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
                    log.push_str(&format!(" {field}={value:?}"));
                },
            );
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn a_removal_is_logged_with_its_session_and_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            session_name: Some(|facts| String::from_utf8(facts.to_vec()).ok()),
            ..Options::default()
        };
        let (journal, _) = Journal::open(folder.path(), options).unwrap();
        let (session, created) = journal.create("s-1", b"s-1").unwrap();
        created.wait().unwrap();
        let log = Arc::new(EventLog::default());
        // With a single subscriber, another test's thread could turn the event off for every thread.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(log.clone(), || {
            journal.state.log_removal(session, RemovalReason::Age);
        });
        let logged = log.0.lock().unwrap().clone();
        // The command line logs this target at this level.
        assert!(
            logged.starts_with("trunkline_journal::retention "),
            "{logged}"
        );
        for part in ["session=\"s-1\"", "key=1", "its last entry is older"] {
            assert!(logged.contains(part), "{logged}");
        }
    }
}
