//! Counters of a host in a cluster: refusals, and the fates of its sessions.

use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of events of a kind that are logged individually.
const LINES: u64 = 64;

/// A counter. It only rises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts one that comes from outside. Whether it is worth a line of the log: a flood gets few.
    pub(crate) fn note(&self) -> bool {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        count <= LINES || count.is_power_of_two()
    }
}

/// All counts of a host, since it began.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages of the journal that do not count: what cannot be read, copies, and what was written
    /// without a right.
    pub(crate) batches_skipped: Count,
    /// Rows of hosts and sessions that no host can have written.
    pub(crate) rows_refused: Count,
    /// Letters that ask what cannot be answered.
    pub(crate) letters_refused: Count,
    /// Letters of connections that have ended, or take no more.
    pub(crate) letters_dropped: Count,
    /// Renewals of the lease that were not kept.
    pub(crate) renewals_failed: Count,
    /// Entries that the store refused permanently, because they were too large.
    pub(crate) puts_refused: Count,
    /// Sessions that this host took from another, or again.
    pub(crate) sessions_taken_over: Count,
    /// Sessions of this host that ended here because another host wrote in them.
    pub(crate) sessions_fenced: Count,
}

impl Counters {
    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("batches_skipped", &self.batches_skipped),
            ("rows_refused", &self.rows_refused),
            ("letters_refused", &self.letters_refused),
            ("letters_dropped", &self.letters_dropped),
            ("renewals_failed", &self.renewals_failed),
            ("puts_refused", &self.puts_refused),
            ("sessions_taken_over", &self.sessions_taken_over),
            ("sessions_fenced", &self.sessions_fenced),
        ];
        all.map(|(name, count)| (name, count.0.load(Ordering::Relaxed)))
            .to_vec()
    }
}
