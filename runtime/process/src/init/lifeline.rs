//! The lifeline of an init: the end of a pipe or a socket from its host, over which deadlines may
//! arrive.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, read, retry_on_intr};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::deadline::{BootInstant, RECORD};

/// Maximum of deadlines per read; the next read gets the rest.
const ONE_LOOK: usize = 64;

/// An init's end of its lifeline. Everything ends when the host closes the other end, or when a
/// deadline passes.
#[derive(Debug)]
pub(super) struct Lifeline {
    end: OwnedFd,
    deadline: Option<Countdown>,
}

/// A deadline that wakes its init.
#[derive(Debug)]
struct Countdown {
    until: BootInstant,
    timer: OwnedFd,
}

impl Lifeline {
    /// Takes ownership of an end; with `counts`, reads the first deadline from it.
    ///
    /// # Errors
    ///
    /// `ETIME` if that has passed, otherwise the system's error.
    pub(super) fn new(end: OwnedFd, counts: bool) -> io::Result<Self> {
        let mut lifeline = Self {
            end,
            deadline: None,
        };
        if counts {
            // The host has sent it before it started this process.
            let until = lifeline.newest()?.ok_or(Errno::PIPE)?;
            lifeline.deadline = Some(Countdown::new(until)?);
            if until.has_passed_by(BootInstant::now()) {
                return Err(Errno::TIME.into());
            }
        }
        Ok(lifeline)
    }

    /// Returns the descriptors to poll: its end, and the timer of its deadline.
    pub(super) fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Without a deadline nothing is written to it; only its end is an event.
        let news = if self.deadline.is_some() {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let timer = self.deadline.iter();
        std::iter::once(PollFd::from_borrowed_fd(self.end.as_fd(), news))
            .chain(timer.map(|count| PollFd::from_borrowed_fd(count.timer.as_fd(), PollFlags::IN)))
    }

    /// Returns true if everything must end, after a poll that returned these events for its end.
    pub(super) fn is_over(&mut self, found: PollFlags) -> bool {
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return true;
        }
        let Some(count) = &self.deadline else {
            return false;
        };
        // First: what comes after the deadline does not count.
        if count.until.has_passed_by(BootInstant::now()) {
            return true;
        }
        if !found.contains(PollFlags::IN) {
            return false;
        }
        match (self.newest(), &mut self.deadline) {
            (Ok(Some(until)), Some(count)) => count.put_off(until).is_err(),
            // Nothing else than the end of the host.
            _ => true,
        }
    }

    /// The last of the deadlines that have come; `None` at the end.
    fn newest(&self) -> io::Result<Option<BootInstant>> {
        let mut records = [0; RECORD * ONE_LOOK];
        let length = retry_on_intr(|| read(&self.end, &mut records))?;
        let (records, _) = records.as_chunks::<RECORD>();
        let whole = records.get(..length / RECORD).unwrap_or_default();
        Ok(whole.last().copied().map(BootInstant::from_record))
    }
}

impl Countdown {
    fn new(until: BootInstant) -> io::Result<Self> {
        // A `poll` with a timeout pauses while the machine sleeps.
        let timer = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let mut count = Self { until, timer };
        count.put_off(until)?;
        Ok(count)
    }

    fn put_off(&mut self, until: BootInstant) -> io::Result<()> {
        // All zeroes would stop the timer.
        let at = std::time::Duration::from_nanos(until.as_nanos().max(1));
        let at = Timespec::try_from(at).map_err(|_| Errno::OVERFLOW)?;
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: at,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.until = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use rustix::event::poll;

    use super::*;
    use crate::deadline::Deadline;
    use crate::system::lifeline::{self, Sent};

    const FAR: Duration = Duration::from_secs(600);

    /// Returns the result of a check that waits at most this long.
    fn look(lifeline: &mut Lifeline, wait: Duration) -> bool {
        let mut watched: Vec<PollFd<'_>> = lifeline.watched().collect();
        let wait = Timespec::try_from(wait).unwrap();
        poll(&mut watched, Some(&wait)).unwrap();
        let found = watched[0].revents();
        drop(watched);
        lifeline.is_over(found)
    }

    #[test]
    fn its_timer_counts_the_time_that_the_machine_sleeps() {
        let deadline = Deadline::new(BootInstant::now() + FAR);
        let (held, _own) = deadline.tie().unwrap().unwrap();
        let lifeline = Lifeline::new(held, true).unwrap();
        let timer = &lifeline.deadline.as_ref().unwrap().timer;
        let told =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{}", timer.as_raw_fd())).unwrap();
        // The number of `CLOCK_BOOTTIME`, and `TFD_TIMER_ABSTIME`.
        assert!(
            told.contains("clockid: 7\n") && told.contains("settime flags: 01\n"),
            "{told}"
        );
    }

    #[test]
    fn a_deadline_wakes_it_and_an_extension_that_is_read_in_time_puts_it_off() {
        let first = BootInstant::now() + Duration::from_millis(200);
        let deadline = Deadline::new(first);
        let (held, _own) = deadline.tie().unwrap().unwrap();
        let mut lifeline = Lifeline::new(held, true).unwrap();
        for put_off in 1..=200 {
            deadline.extend(first + Duration::from_millis(put_off));
        }
        while !look(&mut lifeline, FAR) {}
        assert!((first + Duration::from_millis(200)).has_passed_by(BootInstant::now()));
    }

    #[test]
    fn an_extension_that_is_read_too_late_does_not_count() {
        let (held, own) = lifeline::pair().unwrap();
        let until = BootInstant::now() + Duration::from_millis(20);
        lifeline::send(&own, until.to_record());
        let mut lifeline = Lifeline::new(held, true).unwrap();
        while !until.has_passed_by(BootInstant::now()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        lifeline::send(&own, (until + FAR).to_record());
        assert!(look(&mut lifeline, FAR));
    }

    #[test]
    fn a_deadline_that_has_passed_already_is_refused() {
        let (held, own) = lifeline::pair().unwrap();
        lifeline::send(&own, BootInstant::now().to_record());
        let refused = Lifeline::new(held, true).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::TIME));
    }

    #[test]
    fn the_hosts_end_is_noticed_with_a_deadline_and_without() {
        let deadline = Deadline::new(BootInstant::now() + FAR);
        let (held, own) = deadline.tie().unwrap().unwrap();
        let mut lifeline = Lifeline::new(held, true).unwrap();
        assert!(!look(&mut lifeline, Duration::ZERO));
        drop(own);
        assert!(look(&mut lifeline, FAR));

        let (held, own) = crate::pipe::pair().unwrap();
        let mut lifeline = Lifeline::new(held, false).unwrap();
        assert!(!look(&mut lifeline, Duration::ZERO));
        drop(own);
        assert!(look(&mut lifeline, FAR));
    }

    #[test]
    fn an_init_that_reads_nothing_blocks_no_one_and_keeps_to_what_it_was_told() {
        let (held, own) = lifeline::pair().unwrap();
        let first = BootInstant::now() + FAR;
        let mut told = 0;
        while lifeline::send(&own, (first + Duration::from_nanos(told)).to_record()) == Sent::Whole
        {
            told += 1;
            assert!(told < 1_000_000, "it is bounded");
        }
        let mut lifeline = Lifeline::new(held, true).unwrap();
        // What waits is read, and then there is room again.
        while lifeline.deadline.as_ref().unwrap().until < first + Duration::from_nanos(told - 1) {
            assert!(!look(&mut lifeline, FAR));
        }
        assert_eq!(lifeline::send(&own, (first + FAR).to_record()), Sent::Whole);
        drop(lifeline);
        assert_eq!(lifeline::send(&own, (first + FAR).to_record()), Sent::Gone);
    }
}
