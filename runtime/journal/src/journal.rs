//! The handle of an open journal, and the state that it shares with the thread that writes.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use hashbrown::{HashMap, hash_map::Entry};

use crate::{
    CreateError, NotStored, OpenError, OpeningReport, ReadError, Reader, Retention, SessionKey,
    Ticket,
    block::{BlockBuilder, ChunkKind, NewChunk},
    index::{SessionIndex, SessionLife, SessionSlot},
    lock, opening, segment,
    ticket::WriteOutcome,
};

/// Interval at which a waiting thread checks whether the journal is stalled.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Reads the name of a session in the bytes of its facts.
pub type ReadSessionName = fn(&[u8]) -> Option<String>;

/// Options of a journal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The guarantee of a ticket that is resolved.
    pub sync: SyncMode,
    /// Longest time of a write, with the tries after failures, before the journal counts as
    /// stalled.
    pub timeout: Duration,
    /// Bytes that may wait to be written. With more the journal [is full](Journal::is_full).
    pub waiting: usize,
    /// Size at which a segment gets no more blocks, in bytes.
    pub segment: u64,
    /// Limits beyond which sessions are removed.
    pub retention: Retention,
    /// Reads the name of a session in its facts. The log of the program names the sessions that
    /// retention removes, and a file `format` without a checksum is compared with the sessions.
    pub session_name: Option<ReadSessionName>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: SyncMode::Normal,
            timeout: Duration::from_secs(5),
            waiting: 64 << 20,
            segment: 64 << 20,
            retention: Retention::default(),
            session_name: None,
        }
    }
}

/// The guarantee of a ticket that is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SyncMode {
    /// Survives any end of the process, but not a power cut: the kernel writes to the disk in its
    /// own time, usually within half a minute.
    #[default]
    Normal,
    /// Survives a power cut.
    Full,
}

/// Note in the facts of a session: nothing or something is open in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Nothing is open: a later opening need not read the session.
    Yes,
    /// Something is open, a turn for instance: a later opening lists the session in
    /// [`OpeningReport::unsettled`].
    No,
}

/// The stored state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSession {
    /// The number of its last stored entry; 0 before the first.
    pub last: u64,
    /// The time at which its last entry was stored; before the first one, the time of its creation.
    pub active: SystemTime,
    /// The length of all that was stored of it, in bytes.
    pub bytes: u64,
    /// True if it was removed: nothing of it can be read then.
    pub is_removed: bool,
}

/// A position in the list of sessions. The list is in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    time: u64,
    key: SessionKey,
}

impl ListPosition {
    /// The session at this position, if the journal has it.
    #[must_use]
    pub fn session(self) -> SessionKey {
        self.key
    }

    /// Converts to two numbers, for use outside of the program.
    #[must_use]
    pub fn to_numbers(self) -> (u64, u64) {
        (self.time, self.key.0)
    }

    /// Converts from two numbers. Any two numbers are a position.
    #[must_use]
    pub fn from_numbers(numbers: (u64, u64)) -> Self {
        Self {
            time: numbers.0,
            key: SessionKey(numbers.1),
        }
    }
}

/// A session in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionListing {
    /// The session.
    pub key: SessionKey,
    /// The position behind which the next page of the list begins.
    pub position: ListPosition,
    /// The stored state.
    pub known: StoredSession,
}

/// An open journal. Clones are the same journal.
///
/// Everything is stored in the order in which it was put, and nothing is dropped while the journal
/// is open: a write that fails is repeated until it succeeds. After the last clone is dropped,
/// everything that waits is still written; [`Journal::close`] waits for that.
#[derive(Debug, Clone)]
pub struct Journal {
    pub(crate) state: Arc<JournalState>,
    /// Ends the thread with the last clone.
    writer: Arc<WriterHandle>,
    wake: WriterWake,
}

/// The time at which a put wakes the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterWake {
    AtOnce,
    /// With [`Journal::write_gathered`].
    Gathered,
}

/// The state that the handles share with the thread.
#[derive(Debug)]
pub(crate) struct JournalState {
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) epoch: u64,
    /// The key under which ids are hashed.
    pub(crate) hash_key: [u8; 32],
    /// Locked before [`JournalState::index`] when both are needed.
    pub(crate) pending: Mutex<PendingWrites>,
    /// Notified when there is something to write, or the journal is closed.
    pub(crate) wakes_writer: Condvar,
    /// The bytes that wait to be written or are being written, for readers without the lock.
    pub(crate) waiting_bytes: AtomicUsize,
    /// True if something was gathered since the last write, and no caller of
    /// [`Journal::leads_gathering`] knows.
    pub(crate) has_gathered: AtomicBool,
    /// The number of sessions that retention has removed.
    pub(crate) retired: AtomicU64,
    pub(crate) index: Mutex<SessionIndex>,
    /// The number of holds of each session.
    pub(crate) holds: Mutex<HashMap<SessionKey, usize>>,
}

/// The end of a session as of all that was put, stored or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LastPut {
    /// The number of its last entry.
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) is_removed: bool,
}

impl LastPut {
    fn from_slot(slot: &SessionSlot) -> Self {
        Self {
            number: slot.last,
            epoch: slot.epoch,
            is_removed: slot.life != SessionLife::Kept,
        }
    }
}

/// Everything that waits for a write.
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    pub(crate) block: BlockBuilder,
    pub(crate) outcome: Arc<WriteOutcome>,
    /// The outcome of the block that is being written.
    pub(crate) outcome_in_write: Option<Arc<WriteOutcome>>,
    /// The ends of the sessions in `block`.
    pub(crate) last_put: HashMap<SessionKey, LastPut>,
    /// The ends of the sessions in the block that is being written. Those of all others are in the
    /// index.
    pub(crate) last_in_write: HashMap<SessionKey, LastPut>,
    /// The bytes that are being written.
    pub(crate) writing: usize,
    /// The begin of the current write, and its last failure.
    pub(crate) since: Option<Instant>,
    pub(crate) failed: Option<NotStored>,
    /// True if the thread is to write what waits.
    pub(crate) is_due: bool,
    /// True while the thread waits for something to write. It is notified only then, because that is
    /// a system call.
    pub(crate) is_writer_idle: bool,
    /// True if the stall was logged.
    pub(crate) is_stall_logged: bool,
    /// True if the disk is full, and the reserve is in use.
    pub(crate) is_disk_full: bool,
    pub(crate) is_closing: bool,
    /// True if the thread has ended: nothing more is stored.
    pub(crate) is_over: bool,
}

impl PendingWrites {
    fn check_stalled(&mut self, timeout: Duration) -> Option<NotStored> {
        self.since.filter(|since| since.elapsed() > timeout)?;
        let why = self.failed.clone().unwrap_or_else(|| {
            NotStored::unwritable(format!("a write has taken longer than {timeout:?}"))
        });
        if !std::mem::replace(&mut self.is_stall_logged, true) {
            tracing::warn!(
                "{why}; new work is refused and open work ends until the journal can be written"
            );
        }
        Some(why)
    }
}

impl JournalState {
    pub(crate) fn lock_pending(&self) -> MutexGuard<'_, PendingWrites> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_index(&self) -> MutexGuard<'_, SessionIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_holds(&self) -> MutexGuard<'_, HashMap<SessionKey, usize>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a chunk that needs no order: the first of a session, or the record of its removal.
    pub(crate) fn put_chunk(&self, chunk: NewChunk<'_>) -> Ticket {
        let mut pending = self.lock_pending();
        if pending.is_over {
            return Ticket::refused(NotStored::unwritable("it is closed"));
        }
        if chunk.kind == ChunkKind::Removed {
            let mut last = self.last_put(&pending, chunk.session);
            last.is_removed = true;
            pending.last_put.insert(chunk.session, last);
        }
        self.push_chunks(pending, None, chunk, WriterWake::AtOnce)
    }

    /// Puts a chunk of a writer, if it continues its session.
    ///
    /// `next` is the number that the writer takes for the next one.
    fn put_next(&self, epoch: u64, next: u64, chunk: NewChunk<'_>, wake: WriterWake) -> Ticket {
        let mut pending = self.lock_pending();
        if pending.is_over {
            return Ticket::refused(NotStored::unwritable("it is closed"));
        }
        let last = self.last_put(&pending, chunk.session);
        let expected = last.number.saturating_add(1);
        if last.is_removed || next != expected || epoch < last.epoch {
            drop(pending);
            let why = if last.is_removed {
                NotStored::Removed(chunk.session)
            } else {
                NotStored::OutOfOrder {
                    session: chunk.session,
                    expected,
                    found: next,
                    last_epoch: last.epoch,
                    epoch,
                }
            };
            tracing::warn!(kind = ?chunk.kind, "a block is refused: {why}");
            return Ticket::refused(why);
        }
        let is_new_epoch = epoch != last.epoch;
        let note = is_new_epoch.then(|| NewChunk::epoch_note(chunk.session, epoch));
        let added = match chunk.kind {
            ChunkKind::Entries => u64::from(chunk.count),
            _ => 0,
        };
        let last = LastPut {
            number: last.number.saturating_add(added),
            epoch,
            is_removed: false,
        };
        pending.last_put.insert(chunk.session, last);
        self.push_chunks(pending, note, chunk, wake)
    }

    pub(crate) fn count_waiting(&self, pending: &PendingWrites) {
        let bytes = pending.block.payload_bytes() + pending.writing;
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    fn push_chunks(
        &self,
        mut pending: MutexGuard<'_, PendingWrites>,
        note: Option<NewChunk<'_>>,
        chunk: NewChunk<'_>,
        wake: WriterWake,
    ) -> Ticket {
        if wake == WriterWake::Gathered && pending.block.is_empty() {
            self.has_gathered.store(true, Ordering::Relaxed);
        }
        for chunk in note.into_iter().chain([chunk]) {
            pending.block.push_chunk(chunk);
        }
        self.count_waiting(&pending);
        let ticket = Ticket::of_write(pending.outcome.clone());
        if wake == WriterWake::AtOnce {
            self.wake_writer(pending);
        }
        ticket
    }

    /// Makes the thread write what waits.
    fn wake_writer(&self, mut pending: MutexGuard<'_, PendingWrites>) {
        pending.is_due = true;
        let is_writer_idle = std::mem::take(&mut pending.is_writer_idle);
        drop(pending);
        if is_writer_idle {
            self.wakes_writer.notify_one();
        }
    }

    /// Returns the end of a session as of all that was put.
    fn last_put(&self, pending: &PendingWrites, session: SessionKey) -> LastPut {
        let in_flight = pending
            .last_put
            .get(&session)
            .or_else(|| pending.last_in_write.get(&session));
        in_flight.copied().unwrap_or_else(|| {
            let index = self.lock_index();
            index
                .slot(session)
                .map_or_else(LastPut::default, LastPut::from_slot)
        })
    }

    fn check_stalled(&self) -> Option<NotStored> {
        self.lock_pending().check_stalled(self.options.timeout)
    }

    pub(crate) fn wait_stored(&self, ticket: &Ticket) -> Result<(), NotStored> {
        loop {
            if let Some(result) = ticket.wait_timeout(STALL_CHECK_INTERVAL) {
                return result;
            }
            if let Some(why) = self.check_stalled() {
                return Err(why);
            }
        }
    }

    fn hash_id(&self, id: &str) -> u64 {
        hash_id(&self.hash_key, id)
    }
}

/// Hashes an id as the log has it.
pub(crate) fn hash_id(key: &[u8; 32], id: &str) -> u64 {
    let mac = hmac_sha256::HMAC::mac(id.as_bytes(), key);
    let mut hash = [0; 8];
    hash.copy_from_slice(&mac[..8]);
    // 0 means no id.
    u64::from_le_bytes(hash).max(1)
}

/// Keeps retention from removing a session that is in use.
#[derive(Debug)]
pub struct RetentionHold {
    state: Arc<JournalState>,
    session: SessionKey,
}

impl Drop for RetentionHold {
    fn drop(&mut self) {
        let mut holds = self.state.lock_holds();
        if let Entry::Occupied(mut count) = holds.entry(self.session) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Ends the thread when it is dropped.
#[derive(Debug)]
struct WriterHandle {
    state: Arc<JournalState>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl WriterHandle {
    fn close(&self) {
        self.state.lock_pending().is_closing = true;
        self.state.wakes_writer.notify_all();
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Journal {
    /// Opens the journal of a folder, or makes one, and begins a new epoch. Blocks for about a
    /// second for each gigabyte that the checkpoint does not have.
    ///
    /// # Errors
    /// See [`OpenError`]. Damage is no error: [`OpeningReport::damaged`] names it, and the rest can
    /// be read.
    pub fn open(folder: &Path, options: Options) -> Result<(Self, OpeningReport), OpenError> {
        let (state, thread, opened) = opening::open(folder, options)?;
        Ok((Self::new(state, Some(thread)), opened))
    }

    /// Opens the journal of a folder for reading, as it is at this moment. Takes no lock, so
    /// another process may have it open, and begins no epoch. Puts are refused.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn look(folder: &Path) -> Result<Self, OpenError> {
        Ok(Self::new(opening::open_to_read(folder)?, None))
    }

    pub(crate) fn new(
        state: Arc<JournalState>,
        thread: Option<std::thread::JoinHandle<()>>,
    ) -> Self {
        let writer = WriterHandle {
            state: state.clone(),
            thread: Mutex::new(thread),
        };
        Self {
            state,
            writer: Arc::new(writer),
            wake: WriterWake::AtOnce,
        }
    }

    /// Returns a handle that gathers: what is put through it is written after the next
    /// [`Journal::write_gathered`], or the next put through another handle.
    ///
    /// A write of many blocks costs little more than a write of one. A writer that shares the
    /// journal with others puts, lets the others put, and then calls `write_gathered`.
    #[must_use]
    pub fn gathering(&self) -> Self {
        Self {
            wake: WriterWake::Gathered,
            ..self.clone()
        }
    }

    /// Returns true to one caller for each write, which then calls [`Journal::write_gathered`].
    #[must_use]
    pub fn leads_gathering(&self) -> bool {
        self.state.has_gathered.swap(false, Ordering::Relaxed)
    }

    /// Writes what was gathered. Returns at once.
    pub fn write_gathered(&self) {
        let pending = self.state.lock_pending();
        if !pending.block.is_empty() {
            self.state.wake_writer(pending);
        }
    }

    /// The journal's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.state.folder
    }

    /// The number of this opening of the journal, from 1. Greater than each epoch under which a
    /// session was written before.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.state.epoch
    }

    /// Takes an id and puts the first facts of its session.
    ///
    /// # Errors
    /// [`CreateError::Exists`] if the journal has the id. Its session stays as it is.
    pub fn create(&self, id: &str, facts: &[u8]) -> Result<(SessionKey, Ticket), CreateError> {
        self.create_unless(id, facts, |_| true)
    }

    /// As [`Journal::create`], but the id of a removed session can be taken again.
    ///
    /// # Errors
    /// [`CreateError::Exists`] if the journal keeps a session of this id.
    pub fn create_again(
        &self,
        id: &str,
        facts: &[u8],
    ) -> Result<(SessionKey, Ticket), CreateError> {
        self.create_unless(id, facts, |slot| slot.life == SessionLife::Kept)
    }

    fn create_unless(
        &self,
        id: &str,
        facts: &[u8],
        is_taken: impl Fn(&SessionSlot) -> bool,
    ) -> Result<(SessionKey, Ticket), CreateError> {
        let hash = self.state.hash_id(id);
        let mut index = self.state.lock_index();
        if let Some(known) = index.find_id(hash)
            && index.slot(known).is_none_or(is_taken)
        {
            return Err(CreateError::Exists(known));
        }
        let session = index.next_key();
        index.reserve_id(session, hash);
        drop(index);
        let chunk = NewChunk {
            session,
            kind: ChunkKind::Facts,
            first: 0,
            count: 0,
            id: hash,
            bytes: facts,
        };
        Ok((session, self.state.put_chunk(chunk)))
    }

    /// Returns the session of an id, if the journal has it, removed ones too.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<SessionKey> {
        self.state.lock_index().find_id(self.state.hash_id(id))
    }

    /// Puts entries: `count` lines, each with its line feed, numbered from `first`. `epoch` is the
    /// writer's.
    ///
    /// The numbers of a session follow each other, from 1. Entries that do not follow the last that
    /// was *put*, stored or not, are refused, as are entries of an epoch older than the last: their
    /// ticket is [`NotStored::OutOfOrder`]. After a write that was given up, the next number is the
    /// one behind the last stored entry.
    pub fn put_entries(
        &self,
        session: SessionKey,
        epoch: u64,
        first: u64,
        count: u32,
        lines: &[u8],
    ) -> Ticket {
        let chunk = NewChunk {
            session,
            kind: ChunkKind::Entries,
            first,
            count,
            id: 0,
            bytes: lines,
        };
        self.state.put_next(epoch, first, chunk, self.wake)
    }

    /// Puts the facts of a session, as of all entries up to `last`, which must be the last that was
    /// put. Refused as [entries](Self::put_entries) are.
    pub fn put_facts(
        &self,
        session: SessionKey,
        epoch: u64,
        last: u64,
        facts: &[u8],
        settled: Settled,
    ) -> Ticket {
        let chunk = NewChunk {
            session,
            kind: ChunkKind::Facts,
            first: last,
            count: u32::from(settled == Settled::No),
            id: 0,
            bytes: facts,
        };
        self.state
            .put_next(epoch, last.saturating_add(1), chunk, self.wake)
    }

    /// Puts a mark behind the entry `last`: bytes that [`Journal::marks`] returns until the next
    /// facts are put. Refused as [entries](Self::put_entries) are.
    pub fn put_mark(&self, session: SessionKey, epoch: u64, last: u64, mark: &[u8]) -> Ticket {
        let chunk = NewChunk {
            session,
            kind: ChunkKind::Mark,
            first: last,
            count: 0,
            id: 0,
            bytes: mark,
        };
        self.state
            .put_next(epoch, last.saturating_add(1), chunk, self.wake)
    }

    /// Returns whether more waits to be written than [`Options::waiting`] allows. Callers should
    /// put no more then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.state.waiting_bytes.load(Ordering::Relaxed) > self.state.options.waiting
    }

    /// Returns why no new work should begin: the journal is stalled, or the disk is full and open
    /// work is written to the reserve.
    #[must_use]
    pub fn trouble(&self) -> Option<NotStored> {
        let mut pending = self.state.lock_pending();
        pending
            .check_stalled(self.state.options.timeout)
            .or_else(|| {
                pending
                    .is_disk_full
                    .then(|| NotStored::unwritable("the disk is full"))
            })
    }

    /// Returns why nothing was stored for longer than [`Options::timeout`], although something
    /// waits. Nothing of it is dropped: it is stored when the disk works again.
    #[must_use]
    pub fn stalled(&self) -> Option<NotStored> {
        self.state.check_stalled()
    }

    /// [`Options::timeout`] of this journal.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.state.options.timeout
    }

    /// Waits until the ticket is resolved, or the journal is stalled. Blocks the thread.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn wait(&self, ticket: &Ticket) -> Result<(), NotStored> {
        self.write_gathered();
        self.state.wait_stored(ticket)
    }

    /// Returns a ticket for all that was put of a session so far: once it resolves,
    /// [`Journal::known`] and reads have it.
    pub fn pending_ticket(&self, session: SessionKey) -> Ticket {
        let pending = self.state.lock_pending();
        if pending.last_put.contains_key(&session) {
            return Ticket::of_write(pending.outcome.clone());
        }
        match &pending.outcome_in_write {
            Some(outcome) if pending.last_in_write.contains_key(&session) => {
                Ticket::of_write(outcome.clone())
            }
            _ => Ticket::stored(),
        }
    }

    /// Returns the stored state of a session.
    #[must_use]
    pub fn known(&self, session: SessionKey) -> Option<StoredSession> {
        self.state.lock_index().slot(session).map(to_stored)
    }

    /// Returns the number of kept sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.state.lock_index().count_kept()
    }

    /// Returns the number of sessions that [`Retention`] has removed since the journal was opened.
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.state.retired.load(Ordering::Acquire)
    }

    /// Lists the kept sessions behind a position, `most` at most, in descending order of the time
    /// of their last entry in whole seconds.
    ///
    /// Facts and marks move no session: one that gets no entry meanwhile is on exactly one page.
    #[must_use]
    pub fn list(&self, behind: Option<ListPosition>, most: usize) -> Vec<SessionListing> {
        let index = self.state.lock_index();
        let behind = behind.map(|position| (position.time, position.key));
        let to_listing = |(time, key)| {
            let known = to_stored(index.slot(key)?);
            Some(SessionListing {
                key,
                position: ListPosition { time, key },
                known,
            })
        };
        index
            .newest_first(behind)
            .filter_map(to_listing)
            .take(most)
            .collect()
    }

    /// Lists the kept sessions behind a session, `most` at most, in the order of their keys: an entry
    /// moves no session.
    #[must_use]
    pub fn list_by_key(&self, behind: Option<SessionKey>, most: usize) -> Vec<SessionListing> {
        let index = self.state.lock_index();
        let keys = index.kept_keys(behind).take(most).collect::<Vec<_>>();
        drop(index);
        keys.into_iter()
            .filter_map(|key| self.listed(key))
            .collect()
    }

    /// Returns one session as [`Journal::list`] has it, if it is kept.
    #[must_use]
    pub fn listed(&self, session: SessionKey) -> Option<SessionListing> {
        let index = self.state.lock_index();
        let slot = index.slot(session)?;
        let position = ListPosition {
            time: slot.listed_at()?,
            key: session,
        };
        Some(SessionListing {
            key: session,
            position,
            known: to_stored(slot),
        })
    }

    /// Reads the stored facts of a session; `None` if they are missing or damaged. Blocks for a
    /// read of the disk.
    ///
    /// # Errors
    /// The file system's own.
    pub fn facts(&self, session: SessionKey) -> Result<Option<Vec<u8>>, ReadError> {
        let index = self.state.lock_index();
        let location = index.slot(session).and_then(|slot| slot.facts);
        drop(index);
        location.map_or(Ok(None), |location| self.state.read_facts(location))
    }

    /// Reads the marks of a session since its last facts. Blocks for reads of the disk.
    ///
    /// # Errors
    /// The file system's own.
    pub fn marks(&self, session: SessionKey) -> Result<Vec<Vec<u8>>, ReadError> {
        self.state.read_marks(session)
    }

    /// Returns a reader of the stored entries of a session, from the number `from` on.
    #[must_use]
    pub fn read(&self, session: SessionKey, from: u64) -> Reader {
        Reader::new(self.state.clone(), session, from)
    }

    /// Removes a session and overwrites each byte of it in the log; a hash of its id stays. Blocks
    /// for reads and writes of the disk.
    ///
    /// # Errors
    /// Why it is not finished; a later opening of the journal finishes it.
    pub fn remove(&self, session: SessionKey) -> Result<(), NotStored> {
        self.state.remove_session(session)
    }

    /// Keeps retention from removing a session until the returned hold is dropped.
    #[must_use]
    pub fn hold(&self, session: SessionKey) -> RetentionHold {
        *self.state.lock_holds().entry(session).or_default() += 1;
        RetentionHold {
            state: self.state.clone(),
            session,
        }
    }

    /// Notes in the folder that this process begins to end, so that the next one waits for it for
    /// some seconds.
    pub fn mark_ending(&self) {
        lock::mark_ending(&self.state.folder);
    }

    /// Closes the journal for all clones, after everything that waits is written. Blocks for it.
    ///
    /// # Errors
    /// Why the last of it is not stored.
    pub fn close(self) -> Result<(), NotStored> {
        self.writer.close();
        let thread = self
            .writer
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // It does not panic; if it did, what waited was not stored.
            if thread.join().is_err() {
                return Err(NotStored::unwritable("its thread has ended"));
            }
        }
        self.state.lock_pending().failed.clone().map_or(Ok(()), Err)
    }
}

fn to_stored(slot: &SessionSlot) -> StoredSession {
    StoredSession {
        last: slot.last,
        active: SystemTime::UNIX_EPOCH + Duration::from_millis(slot.active),
        bytes: slot.bytes,
        is_removed: slot.life != SessionLife::Kept,
    }
}

/// Reads the wall clock: milliseconds since 1970.
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl JournalState {
    pub(crate) fn segment_path(&self, number: u32) -> PathBuf {
        segment::path(&self.folder, number)
    }
}
