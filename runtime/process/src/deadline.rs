//! Deadlines of children, which also hold while their host is stopped.

use std::io;
use std::ops::Add;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::system::lifeline::{self, Sent};

/// The length of a deadline on its way to an init, in bytes.
pub(crate) const RECORD: usize = 8;

/// The clock of all deadlines. It continues while the machine sleeps and cannot be set.
const CLOCK: ClockId = ClockId::Boottime;

const NANOS: u64 = 1_000_000_000;

/// A time since boot, in nanoseconds, by `CLOCK_BOOTTIME`. The clock continues while the machine
/// sleeps, and all processes of a time namespace share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(u64);

impl BootInstant {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Self(
            seconds
                .saturating_mul(NANOS)
                .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0)),
        )
    }

    /// The moment so many nanoseconds after the machine's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the machine's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since an earlier moment; zero if that is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns true if a deadline at this moment has passed by `now`, including at the moment
    /// itself.
    #[must_use]
    pub const fn has_passed_by(self, now: Self) -> bool {
        self.0 <= now.0
    }

    pub(crate) const fn to_record(self) -> [u8; RECORD] {
        self.0.to_ne_bytes()
    }

    pub(crate) const fn from_record(record: [u8; RECORD]) -> Self {
        Self(u64::from_ne_bytes(record))
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    /// Adds a time; the maximum on overflow.
    fn add(self, time: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// Deadline of children, which holds while their host is stopped, starved or asleep.
///
/// The [init](crate::init) of each child with a deadline
/// ([`ChildSpec::deadline`](crate::ChildSpec)) kills the child's tree with SIGKILL at that time,
/// without the host. [`Deadline::extend`] postpones it for all running children and all future
/// ones. A container is removed at the deadline, which takes its engine a moment.
///
/// An init that is itself stopped or starved kills late, as does one on a machine that stands still
/// as a whole. Time in which the machine sleeps is counted.
///
/// Clones are the same deadline. The default has passed: nothing starts before it is extended.
#[derive(Debug, Clone, Default)]
pub struct Deadline(Arc<Mutex<DeadlineState>>);

#[derive(Debug)]
struct DeadlineState {
    until: BootInstant,
    /// The host's ends of the lifelines of children that run or start.
    lifelines: Vec<Weak<OwnedFd>>,
}

impl Default for DeadlineState {
    fn default() -> Self {
        Self {
            until: BootInstant(0),
            lifelines: Vec::new(),
        }
    }
}

impl Deadline {
    /// A deadline at a moment.
    #[must_use]
    pub fn new(until: BootInstant) -> Self {
        Self(Arc::new(Mutex::new(DeadlineState {
            until,
            ..DeadlineState::default()
        })))
    }

    /// Until when children may live now.
    #[must_use]
    pub fn until(&self) -> BootInstant {
        self.lock().until
    }

    /// Puts it off. Never blocks on a child. A moment that is not later than the one it has changes
    /// nothing.
    ///
    /// A child counts on it once its init has read it, and does not when its deadline passed before
    /// that: a tree whose deadline has passed dies, whatever comes after. Children that start from
    /// now on have the new one.
    pub fn extend(&self, until: BootInstant) {
        let mut state = self.lock();
        if until <= state.until {
            return;
        }
        if state.until.has_passed_by(BootInstant::now()) {
            state.lifelines.clear();
        }
        state.until = until;
        // An init that reads nothing has older ones before it, and kills no later than it may.
        state.lifelines.retain(|lifeline| {
            lifeline
                .upgrade()
                .is_some_and(|end| lifeline::send(&end, until.to_record()) != Sent::Gone)
        });
    }

    /// A lifeline over which this deadline reaches an init from now on: the init's end and the
    /// host's. `None` when it has passed.
    pub(crate) fn tie(&self) -> io::Result<Option<(OwnedFd, Arc<OwnedFd>)>> {
        let mut state = self.lock();
        if state.until.has_passed_by(BootInstant::now()) {
            return Ok(None);
        }
        let (held, own) = lifeline::pair()?;
        let own = Arc::new(own);
        lifeline::send(&own, state.until.to_record());
        state
            .lifelines
            .retain(|lifeline| lifeline.strong_count() > 0);
        state.lifelines.push(Arc::downgrade(&own));
        Ok(Some((held, own)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, DeadlineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_secs(600);

    /// The deadlines that have come over a lifeline.
    fn read(held: &OwnedFd) -> Vec<BootInstant> {
        let mut bytes = [0; RECORD * 16];
        let length = rustix::io::read(held, &mut bytes).unwrap();
        bytes[..length]
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(BootInstant::from_record)
            .collect()
    }

    #[test]
    fn the_clock_counts_the_time_that_the_machine_sleeps() {
        assert_eq!(CLOCK as i32, libc::CLOCK_BOOTTIME);
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let before: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!(
            BootInstant::now().as_nanos() as f64 / 1e9 >= before,
            "{uptime}"
        );
    }

    #[test]
    fn a_deadline_has_passed_at_its_moment_and_not_before() {
        let moment = BootInstant::from_nanos(7);
        assert!(moment.has_passed_by(moment) && !moment.has_passed_by(BootInstant::from_nanos(6)));
        assert_eq!(moment + Duration::MAX, BootInstant::from_nanos(u64::MAX));
    }

    #[test]
    fn every_child_that_runs_is_told_and_one_that_starts_has_the_newest() {
        let first = BootInstant::now() + FAR;
        let deadline = Deadline::new(first);
        let (one, _own) = deadline.tie().unwrap().unwrap();
        let later = first + FAR;
        deadline.clone().extend(later);
        let (other, _its_own) = deadline.tie().unwrap().unwrap();
        assert_eq!(
            (read(&one), read(&other), deadline.until()),
            (vec![first, later], vec![later], later)
        );
        // What is not later changes nothing.
        deadline.extend(first);
        deadline.extend(later);
        deadline.extend(later + FAR);
        assert_eq!(read(&one), [later + FAR]);
    }

    #[test]
    fn children_that_are_gone_are_forgotten() {
        let deadline = Deadline::new(BootInstant::now() + FAR);
        let kept = deadline.tie().unwrap().unwrap();
        for _ in 0..100 {
            deadline.tie().unwrap();
        }
        assert!(deadline.lock().lifelines.len() <= 2);
        drop(kept.0);
        deadline.extend(BootInstant::now() + FAR + FAR);
        assert!(deadline.lock().lifelines.is_empty());
    }

    #[test]
    fn what_runs_past_its_deadline_hears_of_no_other() {
        let deadline = Deadline::new(BootInstant::now() + Duration::from_millis(50));
        let (held, own) = deadline.tie().unwrap().unwrap();
        while !deadline.until().has_passed_by(BootInstant::now()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(deadline.tie().unwrap().is_none());
        let until = deadline.until();
        deadline.extend(BootInstant::now() + FAR);
        drop(own);
        assert_eq!(read(&held), [until]);
        assert!(deadline.tie().unwrap().is_some());
    }
}
