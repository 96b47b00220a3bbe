//! Counters of a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounters {
    /// Accepted connections.
    pub accepted: u64,
    /// Requests and tunnels that were allowed and reached their target.
    pub allowed: u64,
    /// Requests and tunnels that were refused by the rules; each is one event.
    pub denied: u64,
    /// Requests and tunnels that failed otherwise: no address, no connection, too slow, cut off.
    pub failed: u64,
    /// Connections beyond the limit, refused at once.
    pub over_limit: u64,
}

#[derive(Debug, Default)]
pub(crate) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct AtomicCounters {
    pub(crate) accepted: AtomicCounter,
    pub(crate) allowed: AtomicCounter,
    pub(crate) denied: AtomicCounter,
    pub(crate) failed: AtomicCounter,
    pub(crate) over_limit: AtomicCounter,
}

impl AtomicCounters {
    pub(crate) fn read(&self) -> ProxyCounters {
        ProxyCounters {
            accepted: self.accepted.read(),
            allowed: self.allowed.read(),
            denied: self.denied.read(),
            failed: self.failed.read(),
            over_limit: self.over_limit.read(),
        }
    }
}
