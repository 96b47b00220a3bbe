//! Rates of a link's traffic.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::counters::LiveCounters;

/// Time that rates cover, unless the link is younger.
const WINDOW: Duration = Duration::from_secs(10);
/// Interval at which the counters are remembered.
const STEP: Duration = Duration::from_secs(1);

/// Rates of an agent's link in the last 10 s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Rates {
    /// Lines a second that the adapter wrote.
    pub lines_in: f64,
    /// Bytes a second that it wrote.
    pub bytes_in: f64,
    /// Bytes a second that were written to it.
    pub bytes_out: f64,
    /// Turns a second that began.
    pub turns: f64,
}

/// Remembers counters, to compute rates.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The last of each step, the oldest first: as many as a window has, and one before it.
    steps: VecDeque<Sample>,
    last: Sample,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    /// Lines in, bytes in, bytes out, turns.
    counts: [u64; 4],
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            steps: VecDeque::new(),
            last: Sample {
                at: now,
                counts: [0; 4],
            },
        }
    }

    /// Takes the counters as they are now. Cheap: called at each wake of a link.
    pub(crate) fn take(&mut self, counters: &LiveCounters, now: Instant) {
        let counts = [
            &counters.lines_in,
            &counters.bytes_in,
            &counters.bytes_out,
            &counters.turns,
        ];
        self.sample(counts.map(crate::counters::Count::get), now);
    }

    fn sample(&mut self, counts: [u64; 4], now: Instant) {
        if self
            .steps
            .back()
            .is_none_or(|step| now.saturating_duration_since(step.at) >= STEP)
        {
            // What stood until now: nothing of this wake counts for the time before it.
            self.steps.push_back(self.last);
            while self
                .steps
                .get(1)
                .is_some_and(|second| now.saturating_duration_since(second.at) >= WINDOW)
            {
                self.steps.pop_front();
            }
        }
        self.last = Sample { at: now, counts };
    }

    /// The rates up to now.
    pub(crate) fn rates(&self, now: Instant) -> Rates {
        let age = |sample: &Sample| now.saturating_duration_since(sample.at);
        if age(&self.last) >= WINDOW {
            return Rates::default();
        }
        // The last that is older than the window, or the first.
        let older = self.steps.iter().rev().find(|step| age(step) >= WINDOW);
        let before = older.or(self.steps.front()).copied().unwrap_or(self.last);
        let seconds = age(&before).clamp(STEP, WINDOW).as_secs_f64();
        let rate =
            |at: usize| self.last.counts[at].saturating_sub(before.counts[at]) as f64 / seconds;
        Rates {
            lines_in: rate(0),
            bytes_in: rate(1),
            bytes_out: rate(2),
            turns: rate(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_steady_flow_has_its_rate_and_a_pause_has_none() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        assert_eq!(meter.rates(start), Rates::default());
        for tenth in 1..=300_u32 {
            meter.sample(
                [u64::from(tenth), u64::from(tenth) * 100, 0, 0],
                start + S / 10 * tenth,
            );
        }
        let rates = meter.rates(start + 30 * S);
        assert!(
            (rates.lines_in - 10.0).abs() < 1.5 && (rates.bytes_in - 1000.0).abs() < 150.0,
            "{rates:?}"
        );
        assert!(meter.steps.len() <= 12, "{}", meter.steps.len());
        assert!(meter.rates(start + 35 * S).lines_in < 10.0);
        assert_eq!(meter.rates(start + 41 * S), Rates::default());
    }

    #[test]
    fn a_burst_after_a_pause_counts_for_the_window_that_has_it() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        meter.sample([1000, 0, 0, 0], start + S);
        meter.sample([1100, 0, 0, 0], start + 60 * S);
        let rates = meter.rates(start + 62 * S);
        assert!(rates.lines_in > 9.0 && rates.lines_in <= 100.0, "{rates:?}");
        assert_eq!(meter.rates(start + 80 * S), Rates::default());
    }
}
