//! The way of what passed from the link to the file: a bounded queue, and a thread that empties it.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    Content, OpenError, RecordEvent, Wire, WireEvent, WireSink,
    file::LogFile,
    lines::{LONGEST, MARGIN},
    queue::{BatchQueue, QueuedBatch},
    secrets,
    writer::Writer,
};

/// Limit of queued bytes. Lines beyond it are dropped and counted.
pub const QUEUE: usize = 8 * 1024 * 1024;

/// Additional room for messages that declare secrets, in bytes.
const RESERVE: usize = QUEUE;

/// Overhead that is counted for each entry, in bytes.
const ENTRY: usize = 64;

/// Between the bytes of entries, so that a search for secrets finds no word that two of them make.
const SEPARATOR: u8 = b'\n';

/// Capacity of a batch that is kept for reuse, in bytes.
const KEPT: usize = 512 * 1024;

/// The size at which a file becomes the older one, unless it is set: 64 MiB.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The least size: smaller files would hold little but headers.
const LEAST_FILE_BYTES: u64 = 64 * 1024;

/// Path and content of a log.
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

/// A log in a file. Dropping it lets the thread write what waits, and waits for nothing;
/// [`WireSink::flush`] waits.
pub struct WireLog {
    pub(crate) queue: Arc<BatchQueue<Batch>>,
    began: Instant,
    path: PathBuf,
}

impl fmt::Debug for WireLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireLog").finish_non_exhaustive()
    }
}

/// Entries, and the bytes that they have, one behind the other.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<LogEntry>,
    /// The lines that found no room since the last entry, by the run of the adapter.
    lost: Vec<Lost>,
}

pub(crate) struct LogEntry {
    /// Nanoseconds since the log began.
    pub(crate) t: u64,
    pub(crate) process: u32,
    /// Number of its bytes in the batch.
    pub(crate) length: usize,
    /// Number of omitted bytes.
    pub(crate) omitted: u64,
    pub(crate) what: LogContent,
}

pub(crate) enum LogContent {
    Started {
        agent: Box<str>,
        pid: Option<u32>,
    },
    /// The start failed; the cause is in the batch's bytes.
    NotStarted,
    ToAdapter,
    FromAdapter,
    Stderr,
    ToAgent(u32),
    FromAgent(u32),
    AgentLinesLost {
        agent_process: u32,
        lines: u64,
    },
    StdinClosed,
    StdoutEnded,
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    Lost(Lost),
}

/// Missing lines of one run of an adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) process: u32,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    /// True if the adapter's output has a gap, which breaks an unfinished line.
    pub(crate) of_output: bool,
    /// True if a missing message may have declared secrets.
    pub(crate) of_secrets: bool,
}

impl Lost {
    pub(crate) fn event(&self) -> RecordEvent {
        RecordEvent::Dropped {
            lines: self.lines,
            bytes: self.bytes,
        }
    }
}

impl Batch {
    /// Each entry with its bytes.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&LogEntry, &[u8])> {
        let mut at = 0;
        self.entries.iter().map(move |entry| {
            let bytes = match entry.what {
                LogContent::Lost(_) => return (entry, &[][..]),
                _ => &self.bytes[at..at + entry.length],
            };
            at += entry.length + 1;
            (entry, bytes)
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.bytes.shrink_to(KEPT);
        self.entries.shrink_to(KEPT / ENTRY);
    }
}

impl QueuedBatch for Batch {
    const ROOM: usize = QUEUE;
    const GATHER: Duration = Duration::from_millis(20);

    fn weight(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY
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
        let log = Self {
            queue: Arc::default(),
            began: Instant::now(),
            path: std::path::absolute(&options.path).unwrap_or_else(|_| options.path.clone()),
        };
        let mut writer = Writer::new(file, options, began);
        writer.begin();
        let queue = log.queue.clone();
        let instant = log.began;
        std::thread::Builder::new()
            .name("trunkline-wire".to_owned())
            .spawn(move || serve(&queue, instant, &mut writer))
            .map_err(OpenError::Thread)?;
        Ok(log)
    }

    #[cfg(test)]
    pub(crate) fn unserved() -> Self {
        Self {
            queue: Arc::default(),
            began: Instant::now(),
            path: PathBuf::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn serve(&self, writer: &mut Writer) {
        serve(&self.queue, self.began, writer);
    }
}

/// Writes in the order in which it was handed over, until the log is dropped. The body of the thread.
fn serve(queue: &BatchQueue<Batch>, began: Instant, writer: &mut Writer) {
    queue.serve(
        |batch| batch.enter_lost(since(began)),
        |batch| {
            writer.write(batch);
            batch.clear();
        },
    );
}

/// The nanoseconds since the log began.
fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for WireLog {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl WireSink for WireLog {
    fn take(&self, wire: Wire<'_>) {
        let process = wire.process;
        let (what, bytes, omitted) = match wire.event {
            WireEvent::Started { pid } => (
                LogContent::Started {
                    agent: wire.agent.into(),
                    pid,
                },
                &[][..],
                0,
            ),
            WireEvent::NotStarted { why } => (LogContent::NotStarted, why.as_bytes(), 0),
            WireEvent::ToAdapter(line) => {
                let kept = &line[..line.len().min(LONGEST + MARGIN)];
                (
                    LogContent::ToAdapter,
                    kept,
                    (line.len() - kept.len()) as u64,
                )
            }
            WireEvent::FromAdapter(chunk) => (LogContent::FromAdapter, chunk, 0),
            WireEvent::Stderr { line, omitted } => (LogContent::Stderr, line.as_bytes(), omitted),
            WireEvent::ToAgent {
                agent_process,
                line,
                omitted,
            } => (LogContent::ToAgent(agent_process), line, omitted),
            WireEvent::FromAgent {
                agent_process,
                line,
                omitted,
            } => (LogContent::FromAgent(agent_process), line, omitted),
            WireEvent::AgentLinesLost {
                agent_process,
                lines,
            } => (
                LogContent::AgentLinesLost {
                    agent_process,
                    lines,
                },
                &[][..],
                0,
            ),
            WireEvent::StdinClosed => (LogContent::StdinClosed, &[][..], 0),
            WireEvent::StdoutEnded => (LogContent::StdoutEnded, &[][..], 0),
            WireEvent::Exited { code, signal } => (LogContent::Exited { code, signal }, &[][..], 0),
        };
        // The time is taken under the lock, so that the log is in the order of time.
        self.queue.push(|batch| {
            let t = since(self.began);
            let length = bytes.len();
            batch.push(
                LogEntry {
                    t,
                    process,
                    length,
                    omitted,
                    what,
                },
                bytes,
            );
        });
    }

    fn flush(&self, within: Duration) {
        self.queue.flush(within);
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

impl Batch {
    fn push(&mut self, entry: LogEntry, bytes: &[u8]) {
        // Start and end of a process are few, and weigh little.
        let is_content = matches!(
            entry.what,
            LogContent::ToAdapter
                | LogContent::FromAdapter
                | LogContent::Stderr
                | LogContent::ToAgent(_)
                | LogContent::FromAgent(_)
        );
        let tells = matches!(entry.what, LogContent::ToAdapter) && secrets::may_tell(bytes);
        let room = QUEUE + if tells { RESERVE } else { 0 };
        let weight = self.weight();
        if is_content && weight > 0 && weight + bytes.len() + ENTRY > room {
            return self.lose(&entry, bytes, tells);
        }
        self.enter_lost(entry.t);
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(SEPARATOR);
        self.entries.push(entry);
    }

    /// Appends an entry for each run of an adapter that has lost something.
    fn enter_lost(&mut self, t: u64) {
        self.entries
            .extend(self.lost.drain(..).map(|lost| LogEntry {
                t,
                process: lost.process,
                length: 0,
                omitted: 0,
                what: LogContent::Lost(lost),
            }));
    }

    fn lose(&mut self, entry: &LogEntry, bytes: &[u8], tells: bool) {
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
            LogContent::FromAdapter => memchr::memchr_iter(b'\n', bytes).count().max(1) as u64,
            _ => 1,
        };
        lost.bytes += bytes.len() as u64 + entry.omitted;
        lost.of_output |= matches!(entry.what, LogContent::FromAdapter);
        lost.of_secrets |= tells;
    }
}
