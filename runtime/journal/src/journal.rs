//! What others hold of a journal.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    CreateError, NotStored, OpenError, Opened, ReadError, Reader, Retention, SessionKey, Ticket,
    block::{Builder, Kind, Record},
    index::{Index, Life, Slot},
    lock, opening, segment,
    ticket::Batch,
};

/// How often one who waits looks whether the journal is stalled.
const LOOK: Duration = Duration::from_millis(50);

/// How a journal is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What is stored when a ticket says so.
    pub sync: Sync,
    /// How long a write may take, tries after failures included, before the journal counts as stalled.
    pub timeout: Duration,
    /// How much may wait to be written, in bytes: beyond it [`Journal::is_full`].
    pub waiting: usize,
    /// The size from which on a segment gets no more, in bytes.
    pub segment: u64,
    /// What is removed in time.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: Sync::Normal,
            timeout: Duration::from_secs(5),
            waiting: 64 << 20,
            segment: 64 << 20,
            retention: Retention::default(),
        }
    }
}

/// What stored means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sync {
    /// It survives the end of the process, however that comes, but not a power cut: the kernel writes it to the disk
    /// within its own time, half a minute say.
    #[default]
    Normal,
    /// It is on the disk.
    Full,
}

/// Whether the facts of a session say that something is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Nothing is: a later opening need not look at it.
    Yes,
    /// Something is, a turn for instance: a later opening finds it in [`Opened::unsettled`].
    No,
}

/// What a journal knows of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Known {
    /// The number of its last stored entry; 0 before the first.
    pub last: u64,
    /// When something was last stored of it.
    pub active: SystemTime,
    /// What was stored of it, in bytes.
    pub bytes: u64,
    /// Whether it was removed: then nothing of it is left to read.
    pub is_removed: bool,
}

/// A place in the list of sessions. The list is in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    time: u64,
    key: SessionKey,
}

impl Position {
    /// As two numbers, to be handed out.
    #[must_use]
    pub fn to_numbers(self) -> (u64, u64) {
        (self.time, self.key.0)
    }

    /// From the numbers that were handed out. Any others are a position too.
    #[must_use]
    pub fn of_numbers(numbers: (u64, u64)) -> Self {
        Self {
            time: numbers.0,
            key: SessionKey(numbers.1),
        }
    }
}

/// A session in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Which.
    pub key: SessionKey,
    /// Its place: the list goes on behind it.
    pub position: Position,
    /// What is known of it.
    pub known: Known,
}

/// A journal that is open. Clones are the same journal.
///
/// What is put is stored in the order in which it was put, and nothing of it is dropped while the journal is open: a write
/// that fails is tried again until it succeeds. Dropping the last clone lets what waits be written;
/// [`Journal::close`] waits for it.
#[derive(Debug, Clone)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    /// Ends the thread with the last of them.
    closer: Arc<Closer>,
}

/// What handles and thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) epoch: u64,
    /// Keeps the hashes of ids from being guessed.
    pub(crate) salt: [u8; 32],
    pub(crate) gathered: Mutex<Gathered>,
    /// There is something to write, or it is to end.
    pub(crate) more: Condvar,
    pub(crate) index: Mutex<Index>,
    /// How often each session is held.
    pub(crate) held: Mutex<HashMap<SessionKey, usize>>,
}

/// What waits for the next write.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) block: Builder,
    pub(crate) batch: Arc<Batch>,
    /// The bytes that are being written.
    pub(crate) writing: usize,
    /// Since when that is done, and why it failed until now.
    pub(crate) since: Option<Instant>,
    pub(crate) failed: Option<NotStored>,
    /// Whether the log says that it takes too long.
    pub(crate) is_told: bool,
    /// Whether the disk is full, and the reserve is in use.
    pub(crate) is_disk_full: bool,
    pub(crate) is_closing: bool,
    /// Whether the thread has ended: nothing more is stored.
    pub(crate) is_over: bool,
}

impl Gathered {
    fn stalled(&mut self, timeout: Duration) -> Option<NotStored> {
        self.since.filter(|since| since.elapsed() > timeout)?;
        let slow = || NotStored {
            why: format!("a write has taken longer than {timeout:?}").into(),
        };
        let why = self.failed.clone().unwrap_or_else(slow);
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!("{why}; nothing new is begun, and what is open ends, until it can");
        }
        Some(why)
    }
}

impl Shared {
    pub(crate) fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<SessionKey, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, record: Record<'_>) -> Ticket {
        let mut gathered = self.gathered();
        if gathered.is_over {
            let batch = Batch::default();
            batch.end(Err(NotStored {
                why: "it is closed".into(),
            }));
            return Ticket(Arc::new(batch));
        }
        let is_first = gathered.block.is_empty();
        gathered.block.push(record);
        let ticket = Ticket(gathered.batch.clone());
        drop(gathered);
        if is_first {
            self.more.notify_one();
        }
        ticket
    }

    fn stalled(&self) -> Option<NotStored> {
        self.gathered().stalled(self.options.timeout)
    }

    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<(), NotStored> {
        loop {
            if let Some(ended) = ticket.wait_for(LOOK) {
                return ended;
            }
            if let Some(why) = self.stalled() {
                return Err(why);
            }
        }
    }

    /// The hash under which an id is known.
    fn hash(&self, id: &str) -> u64 {
        let mac = hmac_sha256::HMAC::mac(id.as_bytes(), self.salt);
        let mut hash = [0; 8];
        hash.copy_from_slice(&mac[..8]);
        // 0 says that there is none.
        u64::from_le_bytes(hash).max(1)
    }
}

/// Keeps retention from a session.
#[derive(Debug)]
pub struct Hold {
    shared: Arc<Shared>,
    session: SessionKey,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.shared.held();
        if let Entry::Occupied(mut count) = held.entry(self.session) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[derive(Debug)]
struct Closer {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Closer {
    fn close(&self) {
        self.shared.gathered().is_closing = true;
        self.shared.more.notify_all();
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Journal {
    /// Opens the journal of a folder, which is made where it is missing, and begins a new epoch. Takes about a second
    /// for each gigabyte that the checkpoint does not have, so it blocks.
    ///
    /// # Errors
    /// See [`OpenError`]. What is damaged is no error: [`Opened::damaged`] names it, and the rest can be read.
    pub fn open(folder: &Path, options: Options) -> Result<(Self, Opened), OpenError> {
        let (shared, thread, opened) = opening::open(folder, options)?;
        let closer = Closer {
            shared: shared.clone(),
            thread: Mutex::new(Some(thread)),
        };
        Ok((
            Self {
                shared,
                closer: Arc::new(closer),
            },
            opened,
        ))
    }

    /// Opens the journal of a folder to be read alone, as it is at this moment. Takes no lock, so that it may be in use,
    /// and begins no epoch. What is put is not stored.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn look(folder: &Path) -> Result<Self, OpenError> {
        let shared = opening::look(folder)?;
        let closer = Closer {
            shared: shared.clone(),
            thread: Mutex::new(None),
        };
        Ok(Self {
            shared,
            closer: Arc::new(closer),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Which opening of the journal this is, from 1.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.epoch
    }

    /// Takes an id and puts the first facts of its session.
    ///
    /// # Errors
    /// [`CreateError::Exists`] where the journal knows the id; what it knows is left as it is.
    pub fn create(&self, id: &str, facts: &[u8]) -> Result<(SessionKey, Ticket), CreateError> {
        self.take(id, facts, |_| false)
    }

    /// As [`Journal::create`], where the id of a session that was removed may be taken again.
    ///
    /// # Errors
    /// [`CreateError::Exists`] where the journal keeps a session of this id.
    pub fn create_again(
        &self,
        id: &str,
        facts: &[u8],
    ) -> Result<(SessionKey, Ticket), CreateError> {
        self.take(id, facts, |slot| slot.life != Life::Kept)
    }

    fn take(
        &self,
        id: &str,
        facts: &[u8],
        may_go: impl Fn(&Slot) -> bool,
    ) -> Result<(SessionKey, Ticket), CreateError> {
        let hash = self.shared.hash(id);
        let mut index = self.shared.index();
        if let Some(known) = index.find(hash)
            && !index.slot(known).is_some_and(may_go)
        {
            return Err(CreateError::Exists(known));
        }
        let session = index.next_key();
        index.reserve(session, hash);
        drop(index);
        let record = Record {
            session,
            kind: Kind::Facts,
            first: 0,
            count: 0,
            id: hash,
            bytes: facts,
        };
        Ok((session, self.shared.put(record)))
    }

    /// The session of an id, if the journal knows it, removed ones too.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<SessionKey> {
        self.shared.index().find(self.shared.hash(id))
    }

    /// Puts entries: `count` lines, each with its end, of which the first has the number `first`.
    ///
    /// The numbers of a session follow each other, from 1, over all that are stored: who puts them counts, and counts
    /// those again that were not stored.
    pub fn put_entries(&self, session: SessionKey, first: u64, count: u32, lines: &[u8]) -> Ticket {
        self.shared.put(Record {
            session,
            kind: Kind::Entries,
            first,
            count,
            id: 0,
            bytes: lines,
        })
    }

    /// Puts the facts of a session, as of all entries that were put before.
    pub fn put_facts(
        &self,
        session: SessionKey,
        last: u64,
        facts: &[u8],
        settled: Settled,
    ) -> Ticket {
        let count = u32::from(settled == Settled::No);
        self.shared.put(Record {
            session,
            kind: Kind::Facts,
            first: last,
            count,
            id: 0,
            bytes: facts,
        })
    }

    /// Puts a mark: bytes that [`Journal::marks`] gives back until the next facts are put.
    pub fn put_mark(&self, session: SessionKey, last: u64, mark: &[u8]) -> Ticket {
        self.shared.put(Record {
            session,
            kind: Kind::Mark,
            first: last,
            count: 0,
            id: 0,
            bytes: mark,
        })
    }

    /// Whether so much waits to be written that one should put no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let gathered = self.shared.gathered();
        gathered.block.bytes() + gathered.writing > self.shared.options.waiting
    }

    /// Why no new work should be begun: the journal is stalled, or the disk is full and what is under way is written
    /// to the reserve. `None` while all is well.
    #[must_use]
    pub fn trouble(&self) -> Option<NotStored> {
        let mut gathered = self.shared.gathered();
        let full = || NotStored {
            why: "the disk is full".into(),
        };
        gathered
            .stalled(self.shared.options.timeout)
            .or_else(|| gathered.is_disk_full.then(full))
    }

    /// Why nothing has been stored for longer than [`Options::timeout`], although something waits. Nothing of it is
    /// dropped: it is stored when the disk does its work again.
    #[must_use]
    pub fn stalled(&self) -> Option<NotStored> {
        self.shared.stalled()
    }

    /// How long a write may take before the journal counts as stalled.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.shared.options.timeout
    }

    /// Waits until all that was put is stored, or the journal is stalled. Blocks the thread.
    ///
    /// # Errors
    /// Why it is not stored.
    pub fn wait(&self, ticket: &Ticket) -> Result<(), NotStored> {
        self.shared.wait(ticket)
    }

    /// What is known of a session, as far as it is stored.
    #[must_use]
    pub fn known(&self, session: SessionKey) -> Option<Known> {
        self.shared.index().slot(session).map(known)
    }

    /// How many sessions are kept.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.index().kept()
    }

    /// The kept sessions, the last active first, from behind a position; `most` of them at most. The order is that of
    /// whole seconds.
    #[must_use]
    pub fn list(&self, behind: Option<Position>, most: usize) -> Vec<Listed> {
        let index = self.shared.index();
        let behind = behind.map(|position| (position.time, position.key));
        let listed = |(time, key)| {
            let known = known(index.slot(key)?);
            Some(Listed {
                key,
                position: Position { time, key },
                known,
            })
        };
        index.recent(behind).filter_map(listed).take(most).collect()
    }

    /// One session as it stands in the list; `None` where it is not kept.
    #[must_use]
    pub fn listed(&self, session: SessionKey) -> Option<Listed> {
        let index = self.shared.index();
        let slot = index.slot(session)?;
        let position = Position {
            time: slot.listed()?,
            key: session,
        };
        Some(Listed {
            key: session,
            position,
            known: known(slot),
        })
    }

    /// The stored facts of a session. Blocks for a read of the disk.
    ///
    /// # Errors
    /// The file system's own. Facts that are missing or damaged are `None`.
    pub fn facts(&self, session: SessionKey) -> Result<Option<Vec<u8>>, ReadError> {
        let at = self
            .shared
            .index()
            .slot(session)
            .and_then(|slot| slot.facts);
        at.map_or(Ok(None), |at| self.shared.read_facts(at))
    }

    /// The marks of a session since its last facts. Blocks for reads of the disk.
    ///
    /// # Errors
    /// The file system's own.
    pub fn marks(&self, session: SessionKey) -> Result<Vec<Vec<u8>>, ReadError> {
        self.shared.read_marks(session)
    }

    /// Reads the stored entries of a session from the number `from` on.
    #[must_use]
    pub fn read(&self, session: SessionKey, from: u64) -> Reader {
        Reader::new(self.shared.clone(), session, from)
    }

    /// Removes a session and leaves no byte of it in the log; a hash of its id stays. Blocks for reads and writes of the
    /// disk.
    ///
    /// # Errors
    /// Why that is not done; a later opening of the journal goes on with it.
    pub fn remove(&self, session: SessionKey) -> Result<(), NotStored> {
        self.shared.remove(session)
    }

    /// Keeps retention from a session until this is dropped: it is in use.
    #[must_use]
    pub fn hold(&self, session: SessionKey) -> Hold {
        *self.shared.held().entry(session).or_default() += 1;
        Hold {
            shared: self.shared.clone(),
            session,
        }
    }

    /// Notes in the folder that this process begins to end, so that the next one waits for it for some seconds.
    pub fn mark_ending(&self) {
        lock::mark_ending(&self.shared.folder);
    }

    /// Lets all that waits be written, and closes the journal for all clones. Blocks for it.
    ///
    /// # Errors
    /// Why the last of it is not stored.
    pub fn close(self) -> Result<(), NotStored> {
        self.closer.close();
        let thread = self
            .closer
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // It does not panic; if it did, what waited was not stored.
            if thread.join().is_err() {
                return Err(NotStored {
                    why: "its thread has ended".into(),
                });
            }
        }
        self.shared.gathered().failed.clone().map_or(Ok(()), Err)
    }
}

fn known(slot: &Slot) -> Known {
    Known {
        last: slot.last,
        active: SystemTime::UNIX_EPOCH + Duration::from_millis(slot.active),
        bytes: slot.bytes,
        is_removed: slot.life != Life::Kept,
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Shared {
    /// The file of a segment.
    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        segment::path(&self.folder, number)
    }
}
