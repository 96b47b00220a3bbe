//! The way of what passed from the link to the file: a bounded queue, and a thread that empties it.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    Content, OpenError, Wire, WireEvent, WireSink,
    file::LogFile,
    lines::{LONGEST, MARGIN},
    secrets,
    writer::Writer,
};

/// How many bytes may wait to be written. What comes then is dropped, and counted.
pub const QUEUE: usize = 8 * 1024 * 1024;

/// How many more may be taken by messages that say which values are secret.
const RESERVE: usize = QUEUE;

/// What an entry counts for besides its bytes.
const ENTRY: usize = 64;

/// Between the bytes of entries, so that a search for secrets finds no word that two of them make.
const SEPARATOR: u8 = b'\n';

/// How long the first of a batch waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// What is kept of the room for a batch, in bytes.
const KEPT: usize = 512 * 1024;

/// The size at which a file becomes the older one, unless it is set: 64 MiB.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The least size: smaller files would hold little but headers.
const LEAST_FILE_BYTES: u64 = 64 * 1024;

/// Where a log goes, and what is in it.
#[derive(Debug, Clone)]
pub struct WireLogOptions {
    path: PathBuf,
    content: Content,
    file_bytes: u64,
}

impl WireLogOptions {
    /// A log of whole lines in this file, of 64 MiB and an older file of as much.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            content: Content::Full,
            file_bytes: FILE_BYTES,
        }
    }

    /// Sets how much of each line is kept.
    #[must_use]
    pub fn content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Sets the size at which the file becomes `FILE.1`, in bytes; at least 64 KiB.
    #[must_use]
    pub fn file_bytes(self, bytes: u64) -> Self {
        Self {
            file_bytes: bytes.max(LEAST_FILE_BYTES),
            ..self
        }
    }

    pub(crate) fn kept(&self) -> Content {
        self.content
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A log in a file. Dropping it lets the thread write what waits, and waits for nothing; [`WireSink::flush`] waits.
pub struct WireLog {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl fmt::Debug for WireLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireLog").finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    began: Instant,
    state: Mutex<State>,
    /// There is something to do.
    more: Condvar,
    /// A batch was written.
    written: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    batch: Batch,
    /// What found no room since the last entry, by the run of the adapter.
    lost: Vec<Lost>,
    /// Whether a batch is on its way to the file.
    writing: bool,
    /// How many wait for all to be written.
    flushes: usize,
    closed: bool,
}

/// Entries, and the bytes that they have, one behind the other.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
}

pub(crate) struct Entry {
    /// Nanoseconds since the log began.
    pub(crate) t: u64,
    pub(crate) process: u32,
    /// How many bytes of the batch are its own.
    pub(crate) length: usize,
    /// How many more were left out.
    pub(crate) omitted: u64,
    pub(crate) what: What,
}

pub(crate) enum What {
    Started {
        agent: Box<str>,
        pid: Option<u32>,
    },
    /// Why, in the batch's bytes.
    NotStarted,
    ToAdapter,
    FromAdapter,
    Stderr,
    StdinClosed,
    StdoutEnded,
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    Lost(Lost),
}

/// What is missing of one run of an adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) process: u32,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    /// Whether the adapter's output has a gap, so that a line under way is broken.
    pub(crate) of_output: bool,
    /// Whether a message is among it that may have said what is secret.
    pub(crate) of_secrets: bool,
}

impl Batch {
    /// Each entry with its bytes.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        let mut at = 0;
        self.entries.iter().map(move |entry| {
            let bytes = match entry.what {
                What::Lost(_) => return (entry, &[][..]),
                _ => &self.bytes[at..at + entry.length],
            };
            at += entry.length + 1;
            (entry, bytes)
        })
    }

    fn weight(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.bytes.shrink_to(KEPT);
        self.entries.shrink_to(KEPT / ENTRY);
    }
}

impl WireLog {
    /// Begins a log. What is at the path must be a wire log, which becomes `FILE.1`, or nothing.
    ///
    /// # Errors
    /// When the file cannot be made, or what is at its place is not a log of this kind.
    pub fn open(options: &WireLogOptions) -> Result<Self, OpenError> {
        let began = SystemTime::now();
        let file = LogFile::open(&options.path, options.file_bytes)?;
        let shared = Arc::new(Shared {
            began: Instant::now(),
            state: Mutex::default(),
            more: Condvar::new(),
            written: Condvar::new(),
        });
        let mut writer = Writer::new(file, options, began);
        writer.begin();
        let thread = shared.clone();
        let work = move || thread.serve(&mut writer);
        std::thread::Builder::new()
            .name("trunkline-wire".to_owned())
            .spawn(work)
            .map_err(OpenError::Thread)?;
        let path = std::path::absolute(&options.path).unwrap_or_else(|_| options.path.clone());
        Ok(Self { shared, path })
    }

    #[cfg(test)]
    pub(crate) fn unserved() -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            state: Mutex::default(),
            more: Condvar::new(),
            written: Condvar::new(),
        });
        (
            Self {
                shared: shared.clone(),
                path: PathBuf::new(),
            },
            shared,
        )
    }
}

impl Drop for WireLog {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_one();
    }
}

impl WireSink for WireLog {
    fn take(&self, wire: Wire<'_>) {
        let process = wire.process;
        let (what, bytes, omitted) = match wire.event {
            WireEvent::Started { pid } => (
                What::Started {
                    agent: wire.agent.into(),
                    pid,
                },
                &[][..],
                0,
            ),
            WireEvent::NotStarted { why } => (What::NotStarted, why.as_bytes(), 0),
            WireEvent::ToAdapter(line) => {
                let kept = &line[..line.len().min(LONGEST + MARGIN)];
                (What::ToAdapter, kept, (line.len() - kept.len()) as u64)
            }
            WireEvent::FromAdapter(chunk) => (What::FromAdapter, chunk, 0),
            WireEvent::Stderr { line, omitted } => (What::Stderr, line.as_bytes(), omitted),
            WireEvent::StdinClosed => (What::StdinClosed, &[][..], 0),
            WireEvent::StdoutEnded => (What::StdoutEnded, &[][..], 0),
            WireEvent::Exited { code, signal } => (What::Exited { code, signal }, &[][..], 0),
        };
        let mut state = self.shared.lock();
        // Taken under the lock, so that the log is in the order of time.
        let t = u64::try_from(self.shared.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = state.batch.weight();
        state.take(
            Entry {
                t,
                process,
                length: bytes.len(),
                omitted,
                what,
            },
            bytes,
        );
        let after = state.batch.weight();
        drop(state);
        if before == 0 || (before < QUEUE / 2 && after >= QUEUE / 2) {
            self.shared.more.notify_one();
        }
    }

    fn flush(&self, within: Duration) {
        let mut state = self.shared.lock();
        state.flushes += 1;
        self.shared.more.notify_one();
        let waited = self
            .shared
            .written
            .wait_timeout_while(state, within, |state| !state.is_idle());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.flushes -= 1;
    }

    /// The log, and the older one, which is made empty where there is none yet.
    fn files(&self) -> Vec<PathBuf> {
        let older = LogFile::make_older(&self.path);
        if let Err(why) = &older {
            tracing::warn!(path = ?self.path, %why, "the older file of the wire log cannot be made, so no sandbox hides it");
        }
        std::iter::once(self.path.clone()).chain(older).collect()
    }
}

impl State {
    fn take(&mut self, entry: Entry, bytes: &[u8]) {
        // Start and end of a process are few, and weigh little.
        let is_content = matches!(
            entry.what,
            What::ToAdapter | What::FromAdapter | What::Stderr
        );
        let tells = matches!(entry.what, What::ToAdapter) && secrets::may_tell(bytes);
        let room = QUEUE + if tells { RESERVE } else { 0 };
        let weight = self.batch.weight();
        if is_content && weight > 0 && weight + bytes.len() + ENTRY > room {
            return self.lose(&entry, bytes, tells);
        }
        for lost in self.lost.drain(..) {
            let what = What::Lost(lost);
            self.batch.entries.push(Entry {
                t: entry.t,
                process: lost.process,
                length: 0,
                omitted: 0,
                what,
            });
        }
        self.batch.bytes.extend_from_slice(bytes);
        self.batch.bytes.push(SEPARATOR);
        self.batch.entries.push(entry);
    }

    fn lose(&mut self, entry: &Entry, bytes: &[u8], tells: bool) {
        let at = self
            .lost
            .iter()
            .position(|lost| lost.process == entry.process)
            .unwrap_or_else(|| {
                self.lost.push(Lost {
                    process: entry.process,
                    ..Lost::default()
                });
                self.lost.len() - 1
            });
        let lost = &mut self.lost[at];
        lost.lines += match entry.what {
            What::FromAdapter => memchr::memchr_iter(b'\n', bytes).count().max(1) as u64,
            _ => 1,
        };
        lost.bytes += bytes.len() as u64 + entry.omitted;
        lost.of_output |= matches!(entry.what, What::FromAdapter);
        lost.of_secrets |= tells;
    }

    fn is_idle(&self) -> bool {
        self.batch.entries.is_empty() && self.lost.is_empty() && !self.writing
    }

    fn has_work(&self) -> bool {
        !self.batch.entries.is_empty() || !self.lost.is_empty()
    }

    /// Whether a batch that has begun to gather goes on.
    fn gathers(&self) -> bool {
        !self.closed && self.flushes == 0 && self.batch.weight() < QUEUE / 2
    }
}

#[cfg(test)]
impl Shared {
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.more.notify_one();
    }

    pub(crate) fn take_batch(&self) -> Batch {
        std::mem::take(&mut self.lock().batch)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes in the order in which it was handed over, until the log is dropped.
    pub(crate) fn serve(&self, writer: &mut Writer) {
        let mut batch = Batch::default();
        loop {
            let mut state = self.lock();
            while !state.has_work() {
                if state.closed {
                    return;
                }
                state = self
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let gathered = self
                .more
                .wait_timeout_while(state, GATHER, |state| state.gathers());
            (state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut state.batch, &mut batch);
            let t = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            for lost in state.lost.drain(..) {
                let what = What::Lost(lost);
                batch.entries.push(Entry {
                    t,
                    process: lost.process,
                    length: 0,
                    omitted: 0,
                    what,
                });
            }
            state.writing = true;
            drop(state);
            writer.write(&batch);
            batch.clear();
            self.lock().writing = false;
            self.written.notify_all();
        }
    }
}
