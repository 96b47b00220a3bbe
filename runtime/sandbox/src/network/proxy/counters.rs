//! What a proxy counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a proxy has counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounters {
    /// Connections that were taken.
    pub accepted: u64,
    /// Requests and tunnels that were allowed and reached their target.
    pub allowed: u64,
    /// Requests and tunnels that were refused by the rules; each is one event.
    pub denied: u64,
    /// Those that failed otherwise: no address, no connection, too slow, cut off.
    pub failed: u64,
    /// Connections beyond the bound, refused at once.
    pub crowded: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    crowded: AtomicU64,
}

impl Counters {
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn allowed(&self) {
        self.allowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn crowded(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> ProxyCounters {
        ProxyCounters {
            accepted: self.accepted.load(Ordering::Relaxed),
            allowed: self.allowed.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            crowded: self.crowded.load(Ordering::Relaxed),
        }
    }
}
