//! Events of a case, byte for byte and timed: recorded first, judged later.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    watched::Watched,
    wire::{Message, Parsed},
};

mod log;
mod transcript;

pub(crate) use self::{
    log::{ProcessRun, Recording},
    transcript::{read_recording, write_transcript},
};

/// The pipe pair on which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PipePair {
    /// Between the runner, as host or hub, and the program under test.
    Upper,
    /// Between a host under test and one process of the stub, by its place among those in the case,
    /// from 1. Not by a pid: adapters in PID namespaces of their own may all have the same.
    Lower(u32),
    /// Between a host under test and a hub of its journal, by the place of the hub among those in
    /// the case, from 1: a hub can reconnect, and there may be several at a time.
    Hub(u32),
}

/// Intent of the runner's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Keeps every rule; if not, the suite has a bug (O-SELF).
    Valid,
    /// Breaks a rule on purpose; the peer's reaction is tested.
    Deviant,
}

/// An event.
#[derive(Debug, Clone)]
pub(crate) enum RecordedEvent {
    /// Bytes from the host's side to the adapter's side: one line with its end, or a piece of one.
    Host {
        /// The bytes, with the LF if one was written.
        bytes: Arc<[u8]>,
        /// The line as a message.
        parsed: Arc<Parsed>,
        /// Intent of the write.
        intent: Intent,
    },
    /// A line from the adapter's side to the host's side.
    Adapter {
        /// The bytes without the LF.
        bytes: Arc<[u8]>,
        /// The line as a message.
        parsed: Arc<Parsed>,
        /// True if an LF ended it.
        ended: bool,
        /// Intent; used for the stub's writes.
        intent: Intent,
    },
    /// Output on the program's stderr.
    Stderr(Arc<[u8]>),
    /// The program was started.
    Started {
        /// Process id, if known: not on the lower links.
        pid: Option<u32>,
    },
    /// The program has ended.
    Exited {
        /// Exit status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The host's side closed the adapter's stdin.
    StdinClosed,
    /// The adapter's stdout ended.
    StdoutEnded,
    /// Everything that the host's side had written before `upto` has been read by the peer: a fresh
    /// session's turn, begun after it, was answered.
    Fence {
        /// The length of the history when the fence was begun.
        upto: usize,
    },
    /// Actions of the stub besides reading and writing, as it logged them.
    Act(serde_json::Value),
    /// A remark of the runner.
    Note(String),
}

/// An event, when and where.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Since the case began.
    pub at: Duration,
    /// On which pipes.
    pub link: PipePair,
    /// The event.
    pub event: RecordedEvent,
}

impl Record {
    /// The message that the adapter's side of this link wrote, if this is one.
    pub(crate) fn adapter_message(&self) -> Option<&Message> {
        match &self.event {
            RecordedEvent::Adapter { parsed, .. } => parsed.message(),
            _ => None,
        }
    }

    /// The message that the host's side of this link wrote, if this is one.
    pub(crate) fn host_message(&self) -> Option<&Message> {
        match &self.event {
            RecordedEvent::Host { parsed, .. } => parsed.message(),
            _ => None,
        }
    }
}

/// A history, and the pipe pair of which something is recorded there.
#[derive(Debug, Clone)]
pub(crate) struct Tape {
    /// The history.
    pub history: Arc<History>,
    /// The pipes.
    pub link: PipePair,
}

impl Tape {
    /// Appends what happens now.
    pub(crate) fn push(&self, event: RecordedEvent) {
        self.history.push(self.link, event);
    }
}

/// A history that threads append to and cases wait on.
#[derive(Debug)]
pub(crate) struct History {
    began: Instant,
    records: Watched<Vec<Record>>,
}

impl History {
    /// Begins now.
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            records: Watched::default(),
        })
    }

    /// Appends what happens now and returns its place.
    pub(crate) fn push(&self, link: PipePair, event: RecordedEvent) -> usize {
        self.records.change(|records| {
            // Taken under the lock, so that time never runs backwards on a link.
            records.push(Record {
                at: self.began.elapsed(),
                link,
                event,
            });
            records.len() - 1
        })
    }

    /// Appends an event at `at`, an instant of the same clock. A peer's log arrives late: records
    /// are in the order of arrival at the runner, and a comparison across links sorts by time.
    pub(crate) fn push_at(&self, at: Instant, link: PipePair, event: RecordedEvent) {
        let at = at.saturating_duration_since(self.began);
        self.records
            .change(|records| records.push(Record { at, link, event }));
    }

    /// When it began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.lock().len()
    }

    /// All records so far.
    pub(crate) fn snapshot(&self) -> Vec<Record> {
        self.records.lock().clone()
    }

    /// Looks at the records from `from` on, now and whenever there are more, until `look` finds
    /// something or the time is over. Each record is shown once.
    pub(crate) fn wait<T>(
        &self,
        from: usize,
        within: Duration,
        mut look: impl FnMut(usize, &Record) -> Option<T>,
    ) -> Option<T> {
        let mut next = from;
        self.records.wait_within(within, |records| {
            let found = (next..records.len()).find_map(|index| look(index, &records[index]));
            next = next.max(records.len());
            found
        })
    }

    /// Runs `look` over the records from `from` on, without a copy.
    pub(crate) fn scan<T>(
        &self,
        from: usize,
        mut look: impl FnMut(usize, &Record) -> Option<T>,
    ) -> Option<T> {
        let records = self.records.lock();
        (from..records.len()).find_map(|index| look(index, &records[index]))
    }
}
