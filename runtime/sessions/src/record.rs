//! Record of sessions that other hosts read, too: everything stored there outlives this machine.

use std::{
    collections::HashMap,
    fmt::Debug,
    fs::File,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use trunkline_journal::{Journal, SessionKey, Settled, Ticket};
use trunkline_protocol::SessionId;

use crate::{recorder::is_refused, tail::from_number};

/// Maximum number of sessions whose dropped entries are counted until they are adopted again.
const REMEMBERED: usize = 4096;

/// Storage for sessions that other hosts can read. A host with a record shows nothing that is not
/// stored there; its journal is a copy.
pub trait Record: Debug + Send + Sync {
    /// Returns the name of this host, for the `host.fact` with which it takes a session over.
    fn host(&self) -> &str;

    /// Stores a batch after everything that is stored of its session. Each session has one batch on
    /// its way at a time. Resolves when the outcome is decided, however long that takes: the call
    /// waits for a store that cannot be reached.
    ///
    /// Two batches of one session, epoch and `first` are the same batch only if both have the same
    /// content. A caller that got an error stores no other batch in its place under this epoch,
    /// except after [`NotRecorded::Refused`].
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the batch may or may not be stored.
    fn store(&self, batch: Batch) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Removes a session, with all its data, that this host owns under this epoch.
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the session may or may not be removed.
    fn remove(
        &self,
        session: &SessionId,
        epoch: u64,
    ) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Stores the content of a file under its SHA-256 in hex, before an entry that names it. The
    /// file is removed with the session. Waits as [`Record::store`] does.
    ///
    /// # Errors
    /// [`NotRecorded`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the file may or may not be stored.
    fn keep_file(
        &self,
        session: &SessionId,
        file: PathBuf,
        sha256: String,
    ) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Writes the content that is stored under a SHA-256 in hex into a new file. Returns `false` if
    /// there is none. Content that does not have this SHA-256 is an error.
    ///
    /// # Errors
    /// The reason that the file cannot be read completely.
    ///
    /// # Cancel safety
    /// If the future is dropped, a part of the file may be written.
    fn fetch_file(
        &self,
        session: &SessionId,
        sha256: &str,
        into: File,
    ) -> BoxFuture<'static, io::Result<bool>>;

    /// Returns the reason not to begin new work, for example that the record cannot be reached. The
    /// text is a fragment that reads after a colon.
    fn trouble(&self) -> Option<String>;
}

/// Part of a session that is stored at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The session.
    pub session: SessionId,
    /// The epoch under which its host owned it.
    pub epoch: u64,
    /// The number of the first entry, or of the next one if the batch has no entries.
    pub first: u64,
    /// The number of entries.
    pub count: u32,
    /// The lines of the entries, each with its end.
    pub lines: Bytes,
    /// Facts of the session as of these entries, if they are stored with them.
    pub facts: Option<Bytes>,
    /// Set if the facts are as of this whole batch and list nothing open. `false` without facts.
    pub is_settled: bool,
    /// Marks, as the journal keeps them: up to the next facts. They come after the facts of the
    /// same batch.
    pub marks: Vec<Bytes>,
}

impl Batch {
    /// Returns the number of the last entry, or of the one before `first` if the batch has no
    /// entries.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    /// Returns `true` if the batch contains nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.facts.is_none() && self.marks.is_empty()
    }

    /// Puts the batch into a journal that has the entries up to `known`.
    pub(crate) fn put(&self, journal: &Journal, key: SessionKey, known: u64) -> Ticket {
        let mut ticket = Ticket::stored();
        let from = self.first.max(known + 1);
        if self.last() >= from {
            let lines = from_number(&self.lines, self.first, from);
            let count = u32::try_from(self.last() + 1 - from).unwrap_or(self.count);
            ticket = journal.put_entries(key, self.epoch, from, count, lines);
        }
        if is_refused(&ticket) {
            // If the entries were rejected, their facts and marks do not follow either.
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

/// Reason that a batch is not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecorded {
    /// Another host owns the session: this one stops serving it at once.
    #[error("another host has taken the session over")]
    Fenced,
    /// The record has more of the session than this host has copied, from an earlier epoch. Copy
    /// it, and adopt again.
    #[error("the record has more of the session than this host has copied")]
    Behind,
    /// The batch is never stored, and the session can continue without it. The text is a fragment
    /// that reads after a colon.
    #[error("the record does not take it: {0}")]
    Refused(String),
}

/// A record, shared by all sessions of a host.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) record: Arc<dyn Record>,
    /// Number of entries by session that were written but are not in the record.
    dropped: Arc<Mutex<HashMap<SessionId, u64>>>,
}

impl Recording {
    pub(crate) fn new(record: Arc<dyn Record>) -> Self {
        Self {
            record,
            dropped: Arc::default(),
        }
    }

    /// Counts entries that no listener will receive.
    pub(crate) fn drop_entries(&self, id: &SessionId, count: u64) {
        tracing::warn!(session = %id, count, "entries that are not in the record are dropped");
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.len() < REMEMBERED || dropped.contains_key(id) {
            *dropped.entry(id.clone()).or_default() += count;
        }
    }

    /// Returns the number of dropped entries of a session since the last call.
    pub(crate) fn take_dropped(&self, id: &SessionId) -> u64 {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.remove(id).unwrap_or(0)
    }

    /// Returns the reason not to begin new work, as a sentence.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.record
            .trouble()
            .map(|why| format!("the record cannot be written: {why}"))
    }
}
