//! Unread events that exceed memory: on disk, bounded, in one unlinked file per host.
//!
//! One thread does all reading and writing of this file; both begin at the first overflow. The link
//! hands over buffers and never waits; [`Pressure`] reports a disk that is too slow, and then the
//! link pauses reading.

mod disk;

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use futures_util::task::AtomicWaker;
use trunkline_core::share::may_take;
use trunkline_protocol::{AdapterMessage, Envelope, SessionId};

use self::disk::Disk;
use crate::{
    Event, EventKind, TurnNo, TurnScope,
    config::Buffers,
    mailbox::{Mailbox, Slot},
};

/// Bytes per write and per read.
const BLOCK_BYTES: usize = 256 * 1024;
/// Limit of memory for one mailbox's events that cannot be written to disk: requests, files and
/// their marks.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The memory budget, the spool, and the room for files of one host.
#[derive(Debug)]
pub(crate) struct Store {
    in_memory: AtomicUsize,
    pub(crate) limits: Buffers,
    folder: PathBuf,
    queue: Arc<Queue>,
    running: Mutex<bool>,
    /// Bytes of the copies of files.
    files: AtomicU64,
    /// Number of mailboxes that ever overflowed: names the next.
    mailboxes: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
    closed: AtomicBool,
    /// Bytes on disk, or on their way there, that were not read back.
    on_disk: AtomicU64,
}

#[derive(Debug)]
enum Job {
    Write {
        mailbox: Mailbox,
        number: u64,
        at: u64,
        block: Vec<u8>,
        pressure: Arc<Pressure>,
        failed: Arc<AtomicBool>,
    },
    Load {
        mailbox: Mailbox,
        number: u64,
        from: u64,
        to: u64,
    },
    /// No one reads what this mailbox has on disk.
    Forget { number: u64 },
}

/// Number of one link's bytes that wait for the disk.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    bytes: AtomicUsize,
    /// All that ever went to disk.
    spooled: AtomicUsize,
    /// The driver whose reading pauses.
    reader: AtomicWaker,
}

impl Pressure {
    /// Returns true if reading must pause.
    pub(crate) fn is_high(&self, limit: usize) -> bool {
        self.bytes.load(Ordering::Acquire) > limit
    }

    /// Returns ready if reading may continue; wakes the driver when it may.
    pub(crate) fn poll_eased(&self, limit: usize, cx: &mut Context<'_>) -> Poll<()> {
        self.reader.register(cx.waker());
        if self.is_high(limit) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Returns the number of bytes written to disk so far.
    pub(crate) fn spooled(&self) -> usize {
        self.spooled.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.spooled.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.reader.wake();
    }
}

impl Store {
    /// A store that spools into a file in this folder.
    pub(crate) fn new(folder: PathBuf, limits: Buffers) -> Self {
        Self {
            in_memory: AtomicUsize::new(0),
            limits,
            folder,
            queue: Arc::default(),
            running: Mutex::new(false),
            files: AtomicU64::new(0),
            mailboxes: AtomicU64::new(0),
        }
    }

    /// Takes bytes of the memory budget, if there are as many.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        if self.in_memory.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limits.mailboxes {
            return true;
        }
        self.release(bytes);
        false
    }

    /// Takes bytes of the memory budget for what was read back from disk: at most a block for each reader.
    pub(crate) fn reserve_always(&self, bytes: usize) {
        self.in_memory.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes of the memory budget back.
    pub(crate) fn release(&self, bytes: usize) {
        self.in_memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes room for the copy of a file, for a session whose copies take `own` bytes, if there is as much.
    pub(crate) fn take_disk(&self, own: u64, more: u64) -> bool {
        let taken = self
            .files
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
                may_take(own, more, self.limits.host_files.saturating_sub(taken))
                    .then(|| taken + more)
            });
        taken.is_ok()
    }

    /// Gives the room of copies back that are gone.
    pub(crate) fn give_disk_back(&self, bytes: u64) {
        self.files.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Begins what a mailbox has on disk. The first of a host opens the file and starts the thread
    /// that has it.
    pub(crate) fn open_backlog(&self) -> io::Result<Backlog> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*running {
            let queue = self.queue.clone();
            let disk = Disk::new(tempfile::tempfile_in(&self.folder)?);
            std::thread::Builder::new()
                .name("trunkline-spool".to_owned())
                .spawn(move || serve(&queue, disk))?;
            *running = true;
        }
        Ok(Backlog {
            number: self.mailboxes.fetch_add(1, Ordering::Relaxed),
            queue: self.queue.clone(),
            read: 0,
            handed: 0,
            block: Vec::new(),
            in_block: None,
            reserved: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            loading: false,
            failed: Arc::default(),
        })
    }
}

impl Queue {
    fn hand(&self, job: Job) {
        self.jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(job);
        self.more.notify_one();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // No mailbox is left, so no reader waits for a job.
        let jobs = self
            .queue
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.queue.closed.store(true, Ordering::Release);
        drop(jobs);
        self.queue.more.notify_one();
    }
}

/// One mailbox's events on disk.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Names the mailbox to the thread.
    number: u64,
    queue: Arc<Queue>,
    /// Up to where it was read back.
    read: u64,
    /// Up to where blocks were handed to the writer.
    handed: u64,
    /// Events pushed since.
    block: Vec<u8>,
    /// Pressure of the link that waits for the block, while it is not empty.
    in_block: Option<Arc<Pressure>>,
    /// Part of the memory budget that the block uses.
    reserved: usize,
    /// Events that cannot be written, in order; each has a mark in the file.
    kept: VecDeque<Slot>,
    /// The bytes of `kept`.
    kept_bytes: usize,
    loading: bool,
    failed: Arc<AtomicBool>,
}

impl Backlog {
    /// Returns true if everything has been read back.
    pub(crate) fn is_drained(&self) -> bool {
        self.read == self.handed && self.block.is_empty() && !self.loading
    }

    /// Returns the number of bytes that have not been read back.
    pub(crate) fn unread(&self) -> u64 {
        self.handed + self.block.len() as u64 - self.read + self.kept_bytes as u64
    }

    /// Adds an event; gives it back when the spool is full or broken.
    pub(crate) fn push(
        &mut self,
        slot: Slot,
        mailbox: &Mailbox,
        pressure: &Arc<Pressure>,
        store: &Arc<Store>,
    ) -> Result<(), Box<Slot>> {
        let waiting = self.handed + self.block.len() as u64 - self.read;
        let left = store
            .limits
            .spools
            .saturating_sub(self.queue.on_disk.load(Ordering::Relaxed));
        let full = waiting > store.limits.spool
            || !may_take(waiting, slot.weight() as u64, left)
            || self.kept_bytes > KEPT_BYTES;
        if full || self.failed.load(Ordering::Acquire) {
            return Err(Box::new(slot));
        }
        let before = self.block.len();
        if let Some(kept) = record(&mut self.block, slot) {
            self.kept_bytes += kept.weight();
            self.kept.push_back(kept);
        }
        self.in_block = Some(pressure.clone());
        let added = self.block.len() - before;
        if store.reserve(added) {
            self.reserved += added;
        }
        // A block that the memory budget does not cover goes at once, however small.
        if self.block.len() >= BLOCK_BYTES || self.reserved < self.block.len() {
            self.hand_block(mailbox, store);
        }
        Ok(())
    }

    /// Asks for the next events to be read back.
    pub(crate) fn load(&mut self, mailbox: &Mailbox, store: &Arc<Store>) {
        if std::mem::replace(&mut self.loading, true) {
            return;
        }
        self.hand_block(mailbox, store);
        self.queue.hand(Job::Load {
            mailbox: mailbox.clone(),
            number: self.number,
            from: self.read,
            to: self.handed,
        });
    }

    /// Returns the bytes to release to the memory budget.
    pub(crate) fn take_reserved(&mut self) -> usize {
        std::mem::take(&mut self.reserved)
    }

    /// The first of what was kept.
    fn take_kept(&mut self) -> Option<Slot> {
        let kept = self.kept.pop_front()?;
        self.kept_bytes = self.kept_bytes.saturating_sub(kept.weight());
        Some(kept)
    }

    fn hand_block(&mut self, mailbox: &Mailbox, store: &Arc<Store>) {
        let Some(pressure) = self.in_block.take() else {
            return;
        };
        let block = std::mem::take(&mut self.block);
        store.release(self.take_reserved());
        pressure.add(block.len());
        let at = self.handed;
        self.handed += block.len() as u64;
        self.queue
            .on_disk
            .fetch_add(block.len() as u64, Ordering::Relaxed);
        let number = self.number;
        let failed = self.failed.clone();
        self.queue.hand(Job::Write {
            mailbox: mailbox.clone(),
            number,
            at,
            block,
            pressure,
            failed,
        });
    }

    /// Says up to where it was read back.
    fn read_up_to(&mut self, at: u64) {
        self.queue
            .on_disk
            .fetch_sub(at - self.read, Ordering::Relaxed);
        self.read = at;
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.read_up_to(self.handed);
        self.queue.hand(Job::Forget {
            number: self.number,
        });
    }
}

/// The spool's thread: writes and reads in the order in which it was asked.
fn serve(queue: &Queue, mut disk: Disk) {
    loop {
        let mut jobs = queue.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            match jobs.pop_front() {
                Some(job) => break job,
                None if queue.closed.load(Ordering::Acquire) => return,
                None => {
                    jobs = queue
                        .more
                        .wait(jobs)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        };
        drop(jobs);
        match job {
            Job::Write {
                mailbox,
                number,
                at,
                block,
                pressure,
                failed,
            } => {
                if let Err(error) = disk.write(number, &block, at) {
                    tracing::warn!(%error, "unread output cannot be written to disk; its session ends");
                    failed.store(true, Ordering::Release);
                }
                pressure.sub(block.len());
                drop(mailbox);
            }
            Job::Load {
                mailbox,
                number,
                from,
                to,
            } => {
                let read = read_back(&disk, number, from, to);
                let used = read.as_ref().map_or(to - from, |(_, used)| *used);
                mailbox.loaded(|backlog| {
                    backlog.loading = false;
                    backlog.read_up_to(from + used);
                    match read {
                        Ok((records, _)) => records
                            .into_iter()
                            .filter_map(|record| record.or_else(|| backlog.take_kept()))
                            .collect(),
                        // A block that cannot be read back is lost and replaced by a report. Its
                        // marks are lost, too.
                        Err(_) => {
                            backlog.kept_bytes = 0;
                            std::iter::once(lost())
                                .chain(backlog.kept.drain(..))
                                .collect()
                        }
                    }
                });
                // Frees the disk, while no reader waits for the mailbox.
                disk.forget_before(number, from + used);
            }
            Job::Forget { number } => disk.forget(number),
        }
    }
}

// A record: its kind, its place, the turn, the time in nanoseconds since 1970, the length of the
// line, the line.
const LINE: u8 = 0;
const KEPT: u8 = 1;
const HEAD_BYTES: usize = 1 + 1 + 8 + 8 + 4;

/// Appends the record of an event; gives back what stays in memory.
fn record(block: &mut Vec<u8>, slot: Slot) -> Option<Slot> {
    let (event, large) = match slot {
        Slot::Event(event) => (event, None),
        Slot::Large(event, large) => (*event, Some(large)),
        pending @ Slot::Pending(_) => return keep(block, pending),
    };
    let Event {
        scope,
        kind,
        meta,
        time,
    } = event;
    let body = match kind.into_body() {
        Ok(body) => body,
        Err(kind) => {
            let event = Event {
                scope,
                kind,
                meta,
                time,
            };
            return keep(
                block,
                match large {
                    None => Slot::Event(event),
                    Some(large) => Slot::Large(Box::new(event), large),
                },
            );
        }
    };
    let (mark, turn) = match scope {
        TurnScope::Running(turn) => (0, turn.get()),
        TurnScope::Outside => (1, 0),
        TurnScope::Ended(turn) => (2, turn.get()),
    };
    block.extend_from_slice(&[LINE, mark]);
    block.extend_from_slice(&turn.to_le_bytes());
    block.extend_from_slice(&nanos_since_1970(time).to_le_bytes());
    let length = block.len();
    block.extend_from_slice(&[0; 4]);
    let mut message: AdapterMessage = Envelope::new(any_session(), body);
    (message.meta, message.large) = (meta.map(|meta| *meta), large);
    message.write(block);
    let bytes = u32::try_from(block.len() - length - 4).unwrap_or(u32::MAX);
    block[length..length + 4].copy_from_slice(&bytes.to_le_bytes());
    None
}

fn keep(block: &mut Vec<u8>, slot: Slot) -> Option<Slot> {
    block.extend_from_slice(&[KEPT; 1]);
    block.extend_from_slice(&[0; HEAD_BYTES - 1]);
    Some(slot)
}

/// The time in nanoseconds since 1970, which fit until 2554.
fn nanos_since_1970(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A name for the lines on disk, which belong to one mailbox anyway.
fn any_session() -> SessionId {
    SessionId::new("s").unwrap_or_else(|_| SessionId::none())
}

/// Returns the report that replaces events that could not be read back.
fn lost() -> Slot {
    let message = "events could not be read back from disk".to_owned();
    let error = trunkline_protocol::ErrorEvent {
        message,
        ..Default::default()
    };
    Slot::Event(Event::new(TurnScope::Outside, EventKind::Error(error)))
}

/// Reads whole records from a range: the events, with nothing for each that was kept, and how many
/// bytes they took.
fn read_back(disk: &Disk, number: u64, from: u64, to: u64) -> io::Result<(Vec<Option<Slot>>, u64)> {
    let to = disk.good_until(number, to);
    if to <= from {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut wanted = (to - from).min(BLOCK_BYTES as u64);
    loop {
        let mut block = vec![0; usize::try_from(wanted).map_err(io::Error::other)?];
        disk.read(number, &mut block, from)?;
        let mut records = Vec::new();
        let mut used = 0;
        while let Some((record, length)) = first_record(&block[used..]) {
            records.push(record);
            used += length;
        }
        if used > 0 {
            return Ok((records, used as u64));
        }
        if wanted >= to - from {
            return Ok((vec![Some(lost())], to - from));
        }
        wanted = (2 * wanted).min(to - from);
    }
}

fn first_record(bytes: &[u8]) -> Option<(Option<Slot>, usize)> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (&[what, mark], numbers) = head.split_first_chunk()?;
    let (turn, numbers) = numbers.split_first_chunk()?;
    let (nanos, length) = numbers.split_first_chunk()?;
    if what == KEPT {
        return Some((None, HEAD_BYTES));
    }
    let length = u32::from_le_bytes(*length.first_chunk()?) as usize;
    let line = rest.get(..length)?;
    let turn = TurnNo::new(u64::from_le_bytes(*turn));
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::from_le_bytes(*nanos));
    let scope = match mark {
        0 => TurnScope::Running(turn),
        1 => TurnScope::Outside,
        _ => TurnScope::Ended(turn),
    };
    let event = std::str::from_utf8(line)
        .ok()
        .and_then(|line| AdapterMessage::parse(line.trim_end()).ok());
    let event = event.and_then(|message| {
        let kind = EventKind::from_body(message.body)?;
        let event = Event {
            scope,
            kind,
            meta: message.meta.map(Box::new),
            time,
        };
        Some(match message.large {
            Some(large) => Slot::Large(Box::new(event), large),
            None => Slot::Event(event),
        })
    });
    // Our own writes can be read back; an event that cannot would leave a gap, so an error replaces
    // it.
    Some((Some(event.unwrap_or_else(lost)), HEAD_BYTES + length))
}
