//! Waits between connection attempts: exponential back-off with jitter, and a limit in time.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// Limits of reconnecting: the same for a lost connection, and for a session that no host serves
/// for the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconnectPolicy {
    /// The wait before the first attempt; it doubles with each. 50 ms by default.
    pub first_delay: Duration,
    /// The longest wait. 2 s by default.
    pub max_delay: Duration,
    /// The time without progress after which the client gives up; zero to never reconnect. 60 s by
    /// default.
    ///
    /// Progress is an entry of a session, or a connection that lasts 10 s.
    pub give_up_after: Duration,
    /// If true, a session that no host serves when it is first opened or attached is refused at
    /// once, instead of after `give_up_after`. False by default.
    pub fail_fast: bool,
}

impl Default for ReconnectPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(50),
            max_delay: Duration::from_secs(2),
            give_up_after: Duration::from_secs(60),
            fail_fast: false,
        }
    }
}

impl ReconnectPolicy {
    /// Sets [`ReconnectPolicy::give_up_after`].
    #[must_use]
    pub fn give_up_after(mut self, limit: Duration) -> Self {
        self.give_up_after = limit;
        self
    }

    /// Sets [`ReconnectPolicy::fail_fast`].
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }
}

/// The attempts since the last progress.
#[derive(Debug, Default)]
pub struct ReconnectBackoff {
    attempts: u32,
    troubled_since: Option<Instant>,
}

impl ReconnectBackoff {
    /// Returns the wait before the next attempt; `None` when the time limit has passed.
    pub fn next_delay(&mut self, policy: &ReconnectPolicy, now: Instant) -> Option<Duration> {
        let since = *self.troubled_since.get_or_insert(now);
        if now.duration_since(since) >= policy.give_up_after {
            return None;
        }
        let doubled = policy.first_delay * 2u32.pow(self.attempts.min(20));
        self.attempts += 1;
        Some(jitter(doubled.min(policy.max_delay)))
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Half of the delay to all of it.
fn jitter(delay: Duration) -> Duration {
    let random = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
    delay.mul_f64(0.5 + random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_longest_and_end_with_the_limit() {
        let policy = ReconnectPolicy::default();
        let mut backoff = ReconnectBackoff::default();
        let start = Instant::now();
        let mut expected = policy.first_delay;
        while let Some(delay) = backoff.next_delay(&policy, Instant::now()) {
            assert!(delay >= expected / 2 && delay <= expected, "{delay:?}");
            expected = (expected * 2).min(policy.max_delay);
            tokio::time::advance(delay).await;
        }
        let elapsed = start.elapsed();
        let limit = policy.give_up_after;
        assert!(
            elapsed >= limit && elapsed < limit + policy.max_delay,
            "{elapsed:?}"
        );
        backoff.reset();
        assert!(backoff.next_delay(&policy, Instant::now()).is_some());
        let never = policy.give_up_after(Duration::ZERO);
        assert_eq!(
            ReconnectBackoff::default().next_delay(&never, Instant::now()),
            None
        );
    }
}
