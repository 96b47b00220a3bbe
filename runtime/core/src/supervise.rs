//! When a process that ended is started again: capped exponential back-off with full jitter, then `failed`.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The numbers of the back-off ([protocol section 10], `restart`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The most that is waited after the first failure; doubles with each.
    pub base: Duration,
    /// The most that is waited at all.
    pub cap: Duration,
    /// So many failed starts within the window make the agent `failed`.
    pub failures: u32,
    /// The window.
    pub window: Duration,
    /// After so long a failed agent is tried again.
    pub retry: Duration,
}

/// Consequence of a failed start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Restart at this time.
    Wait(Instant),
    /// Failed, with a retry at this time.
    Failed(Instant),
}

/// Exit code for wrong usage or configuration: a retry will not help.
pub(crate) const USAGE_EXIT: i32 = 2;

/// Remembers failed starts.
#[derive(Debug)]
pub(crate) struct Supervisor {
    backoff: Backoff,
    failed: VecDeque<Instant>,
    seed: u64,
}

impl Supervisor {
    pub(crate) fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            backoff,
            failed: VecDeque::new(),
            seed: seed | 1,
        }
    }

    /// A start has failed.
    pub(crate) fn failed(&mut self, exit_code: Option<i32>, now: Instant) -> Next {
        while self
            .failed
            .front()
            .is_some_and(|at| *at + self.backoff.window < now)
        {
            self.failed.pop_front();
        }
        self.failed.push_back(now);
        let count = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        if exit_code == Some(USAGE_EXIT) || count >= self.backoff.failures {
            self.failed.clear();
            return Next::Failed(now + self.backoff.retry);
        }
        let most = self
            .backoff
            .base
            .saturating_mul(1 << (count - 1).min(16))
            .min(self.backoff.cap);
        Next::Wait(now + most.mul_f64(self.unit()))
    }

    /// A process did its work: what failed before counts no more.
    pub(crate) fn worked(&mut self) {
        self.failed.clear();
    }

    /// A number from 0 to 1 (xorshift; jitter needs no more).
    fn unit(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_millis(250),
        cap: Duration::from_secs(30),
        failures: 5,
        window: Duration::from_secs(120),
        retry: Duration::from_secs(60),
    };

    #[test]
    fn waits_grow_within_their_bounds_and_the_fifth_failure_is_the_last() {
        let now = Instant::now();
        for seed in 0..1000 {
            let mut supervisor = Supervisor::new(BACKOFF, seed * 7919);
            for attempt in 0..4 {
                let Next::Wait(until) = supervisor.failed(None, now) else {
                    panic!("failed too early")
                };
                assert!(until - now <= BACKOFF.base * (1 << attempt));
            }
            assert_eq!(
                supervisor.failed(None, now),
                Next::Failed(now + BACKOFF.retry)
            );
        }
    }

    #[test]
    fn a_usage_error_is_final_at_once() {
        let now = Instant::now();
        assert_eq!(
            Supervisor::new(BACKOFF, 1).failed(Some(2), now),
            Next::Failed(now + BACKOFF.retry)
        );
    }

    #[test]
    fn failures_outside_the_window_do_not_count() {
        let mut supervisor = Supervisor::new(BACKOFF, 1);
        let mut now = Instant::now();
        for _ in 0..50 {
            assert!(matches!(supervisor.failed(None, now), Next::Wait(_)));
            now += Duration::from_secs(40);
        }
    }
}
