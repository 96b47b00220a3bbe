//! Time in which this process did not run, measured by itself.

use std::time::{Duration, Instant};

/// Measures standstills of this process: time in which it did not run, because it was stopped
/// (SIGSTOP, Ctrl-Z, a debugger) or frozen (a cgroup, a paused virtual machine). Deadlines for the
/// silence of another program do not count that time.
///
/// The owner waits with a timer, and [measures](Self::measure) when it wakes: a wake that comes
/// much later than the timer should have fired is the end of a standstill. While a deadline runs,
/// the timer fires at least once every [`StandstillMeter::BEAT`], so that a standstill is noticed
/// whose end is before the deadline.
///
/// The clock is [`Instant`], as for the deadlines. On Linux it pauses while the machine
/// is suspended, so a suspend makes no deadline come early and is no standstill here.
/// [`BootInstant`](crate::BootInstant) is for deadlines that a suspend does not move.
#[derive(Debug)]
pub struct StandstillMeter {
    /// The time of the latest measurement.
    since: Instant,
    /// The time at which the process wakes at the latest. `None`: it waits for no timer.
    due: Option<Instant>,
}

impl StandstillMeter {
    /// The longest wait while a deadline runs. A standstill is noticed if it is longer than this
    /// and [`StandstillMeter::MAX_DELAY`] together.
    pub const BEAT: Duration = Duration::from_millis(500);

    /// The longest delay of a wake that a busy machine explains.
    pub const MAX_DELAY: Duration = Duration::from_secs(1);

    /// A meter that measures from this time on.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            since: now,
            due: None,
        }
    }

    /// Takes the time after the latest measurement at which a timer of the owner fires.
    pub fn expect_wake(&mut self, after: Duration) {
        self.due = self.since.checked_add(after);
    }

    /// Measures: returns the time since the latest measurement if the process stood still within
    /// it. All of that time counts, which is up to [`StandstillMeter::BEAT`] too much.
    pub fn measure(&mut self, now: Instant) -> Option<Duration> {
        let since = std::mem::replace(&mut self.since, now);
        let due = self.due.take()?;
        let is_late = now.saturating_duration_since(due) > Self::MAX_DELAY;
        is_late.then(|| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn only_a_wake_that_is_much_too_late_ends_a_standstill() {
        let begin = Instant::now();
        let mut meter = StandstillMeter::new(begin);
        for (wait, slept, standstill) in [
            (S, S, None),
            // A busy machine.
            (S, 2 * S, None),
            (
                S,
                Duration::from_millis(2001),
                Some(Duration::from_millis(2001)),
            ),
            (Duration::ZERO, 3600 * S, Some(3600 * S)),
            // Woken by something else than the timer.
            (60 * S, S, None),
        ] {
            let now = meter.since + slept;
            meter.expect_wake(wait);
            assert_eq!(meter.measure(now), standstill, "{slept:?} of {wait:?}");
        }
    }

    #[test]
    fn without_a_timer_the_process_may_rest_for_as_long_as_it_likes() {
        let begin = Instant::now();
        let mut meter = StandstillMeter::new(begin);
        assert_eq!(meter.measure(begin + 3600 * S), None);
        meter.expect_wake(S);
        assert_eq!(meter.measure(begin + 3601 * S), None);
        // The wait of before is over.
        assert_eq!(meter.measure(begin + 9000 * S), None);
    }
}
