//! Output rate of a session. Above its limit the adapter is asked to hold it back; if that does not
//! help, its turn ends. Other sessions are not delayed.

use std::time::{Duration, Instant};

use trunkline_protocol::{AdapterKind, Extensions, StopReason};

use super::{Core, reason::Limit};
use crate::Cause;

/// Limit of a session's message rate while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRate {
    /// Bytes a second, with line ends.
    pub bytes_per_second: u64,
    /// Bytes that may come at once.
    pub burst: u64,
}

/// Limit of bytes from a session that was asked to wait: the content of pipes and adapter by then.
const AFTER_PAUSE: u64 = 4 * 1024 * 1024;

impl OutputRate {
    /// Returns the time for this many bytes.
    fn time(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the time at which a session above its rate may continue: when half of its burst is
    /// free.
    pub(super) fn goes_on_at(self, even_at: Instant) -> Instant {
        even_at
            .checked_sub(self.time(self.burst / 2))
            .unwrap_or(even_at)
    }
}

impl Core {
    /// Holds a message of a session against its rate.
    pub(super) fn limit_rate(&mut self, index: u32, kind: AdapterKind, bytes: u64, now: Instant) {
        let Some(rate) = self.rules.output_rate else {
            return;
        };
        let Some(session) = self.get(index) else {
            return;
        };
        let waits = session.has_agreed(Extensions::FLOW);
        let was_held = session.held;
        let since = session.even_at.map_or(now, |even_at| even_at.max(now));
        let Some(running) = session.running().filter(|running| !running.is_stopping()) else {
            return;
        };
        // What is not used of the rate lapses; the burst is how far ahead of it a session may be.
        let even_at = since.checked_add(rate.time(bytes)).unwrap_or(since);
        // The end of a turn is no reason to end it.
        let is_over = even_at - now > rate.time(rate.burst) && kind != AdapterKind::TurnComplete;
        running.held_bytes += if was_held { bytes } else { 0 };
        let goes_on = !waits || running.held_bytes > AFTER_PAUSE;
        let was_over = running.over_rate;
        running.over_rate |= is_over;
        session.even_at = Some(even_at);
        if is_over && goes_on {
            let stop = self.stop_at(Cause::Limit, Limit::OutputRate(rate), None);
            self.stop_running(index, stop, StopReason::Policy, now);
        } else if is_over && !was_over {
            self.settle_flow(index, now);
            self.arm(index, now);
        }
    }

    /// Releases a session whose rate is within its limit again.
    pub(super) fn rate_timeout(&mut self, index: u32, now: Instant) {
        let Some(rate) = self.rules.output_rate else {
            return;
        };
        let Some(session) = self.get(index) else {
            return;
        };
        let is_even = session
            .even_at
            .is_none_or(|even_at| rate.goes_on_at(even_at) <= now);
        if let Some(running) = session
            .running()
            .filter(|running| running.over_rate && is_even)
        {
            running.over_rate = false;
            self.settle_flow(index, now);
        }
    }
}
