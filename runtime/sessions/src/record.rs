//! A record of sessions that other hosts read, too: what is stored there outlives this machine.

use std::{
    collections::HashMap,
    fmt::Debug,
    fs::File,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use trunkline_journal::{Journal, SessionKey, Settled, Ticket};
use trunkline_protocol::SessionId;

use crate::tail::from_number;

/// How many sessions with dropped entries are remembered for those who get them again.
const REMEMBERED: usize = 4096;

/// Stores what happens in sessions where other hosts find it. A host with one shows nothing that is
/// not stored there; its journal is a copy.
pub trait Record: Debug + Send + Sync {
    /// The name of this host, as it stands in `host.fact` where it takes a session over.
    fn host(&self) -> &str;

    /// Stores a batch behind all that is stored of its session. Of each session one is on its way
    /// at a time. Resolves when it is decided, and waits as long as that takes: a store that cannot
    /// be reached is waited for.
    ///
    /// Two batches of one session, epoch and `first` are the same batch only where both have the
    /// same content; a caller that got an error stores no other one in its stead under this epoch,
    /// but for [`NotRecorded::Refused`].
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// Dropped, the batch may or may not be stored.
    fn store(&self, batch: Batch) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Removes all of a session that this host owns under this epoch.
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// Dropped, it may or may not be removed.
    fn remove(
        &self,
        session: &SessionId,
        epoch: u64,
    ) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Stores the content of a file under its SHA-256 in hex, before an entry that names it. It
    /// goes with the session. Waits as [`Record::store`] does.
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// Dropped, it may or may not be stored.
    fn keep_file(
        &self,
        session: &SessionId,
        file: PathBuf,
        sha256: String,
    ) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Writes the content that is stored under a SHA-256 in hex into a new file. Whether there is
    /// one: what does not have this SHA-256 is an error.
    ///
    /// # Errors
    /// Why it cannot be had whole.
    ///
    /// # Cancel safety
    /// Dropped, a part of it may be written.
    fn fetch_file(
        &self,
        session: &SessionId,
        sha256: &str,
        into: File,
    ) -> BoxFuture<'static, io::Result<bool>>;

    /// Why no new work should be begun: the record cannot be reached, say. A fragment that reads
    /// after a colon.
    fn trouble(&self) -> Option<String>;
}

/// What is stored of a session at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The session.
    pub session: SessionId,
    /// The epoch under which its host owned it.
    pub epoch: u64,
    /// The number of the first entry; of the next one where there are none.
    pub first: u64,
    /// How many entries there are.
    pub count: u32,
    /// Their lines, each with its end.
    pub lines: Bytes,
    /// What is known of the session beside its entries, as of these, where that is stored with
    /// them.
    pub facts: Option<Bytes>,
    /// Whether the facts are as of all of this batch and say that nothing is open. Without facts:
    /// `false`.
    pub is_settled: bool,
    /// Marks, as the journal keeps them: up to the next facts. They come behind the facts of the
    /// same batch.
    pub marks: Vec<Bytes>,
}

impl Batch {
    /// The number of the last entry; of the one before `first` where there are none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.facts.is_none() && self.marks.is_empty()
    }

    /// Puts it into a journal which has the entries up to `known`.
    pub(crate) fn put(&self, journal: &Journal, key: SessionKey, known: u64) -> Ticket {
        let mut ticket = Ticket::stored();
        let from = self.first.max(known + 1);
        if self.last() >= from {
            let lines = from_number(&self.lines, self.first, from);
            let count = u32::try_from(self.last() + 1 - from).unwrap_or(self.count);
            ticket = journal.put_entries(key, self.epoch, from, count, lines);
        }
        if matches!(ticket.ended(), Some(Err(_))) {
            // Refused: neither do its facts and marks follow.
            return ticket;
        }
        if let Some(facts) = &self.facts {
            let settled = if self.is_settled {
                Settled::Yes
            } else {
                Settled::No
            };
            ticket = journal.put_facts(key, self.epoch, self.last().max(known), facts, settled);
        }
        for mark in &self.marks {
            ticket = journal.put_mark(key, self.epoch, self.last().max(known), mark);
        }
        ticket
    }
}

/// Why a batch is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecorded {
    /// Another host owns the session: this one stops to serve it at once.
    #[error("another host has taken the session over")]
    Fenced,
    /// The record has more of the session than this host has copied, of an earlier epoch: copy it,
    /// and adopt again.
    #[error("the record has more of the session than this host has copied")]
    Behind,
    /// It is never stored, and the session can go on without it. A fragment that reads after a
    /// colon.
    #[error("the record does not take it: {0}")]
    Refused(String),
}

/// A record as all sessions of a host share it.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) record: Arc<dyn Record>,
    dropped: Arc<DroppedEntries>,
}

/// Entries that were written and are not in the record.
#[derive(Debug, Default)]
struct DroppedEntries {
    total: AtomicU64,
    of: Mutex<HashMap<SessionId, u64>>,
}

impl Recording {
    pub(crate) fn new(record: Arc<dyn Record>) -> Self {
        Self {
            record,
            dropped: Arc::default(),
        }
    }

    /// Notes entries that no one will hear of.
    pub(crate) fn drop_entries(&self, id: &SessionId, count: u64) {
        tracing::warn!(session = %id, count, "entries that are not in the record are dropped");
        self.dropped.total.fetch_add(count, Ordering::Relaxed);
        let mut of = self
            .dropped
            .of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if of.len() < REMEMBERED || of.contains_key(id) {
            *of.entry(id.clone()).or_default() += count;
        }
    }

    /// How many entries of a session were dropped since this was asked last.
    pub(crate) fn take_dropped(&self, id: &SessionId) -> u64 {
        self.dropped
            .of
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id)
            .unwrap_or(0)
    }

    /// Why nothing new is begun, as a sentence.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.record
            .trouble()
            .map(|why| format!("the record cannot be written: {why}"))
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.total.load(Ordering::Relaxed)
    }
}
