//! What passes between a host and its adapters, and who takes it.

use std::{fmt, path::PathBuf, time::Duration};

/// Takes all that passes between a host and its adapters.
///
/// It is called by the task that drives a link, between reading and writing, so it must not block. What it is handed is
/// as it passes, secrets included; only stderr was redacted before.
pub trait WireSink: fmt::Debug + Send + Sync {
    /// Takes what has just been read, or is about to be written.
    fn take(&self, wire: Wire<'_>);

    /// Waits until all that was taken is where it belongs, at most so long. Blocks. A host calls it at the end of its
    /// shutdown.
    fn flush(&self, within: Duration) {
        let _ = within;
    }

    /// The files that it writes, which nothing in a sandbox may see. A host asks before its adapters start. Each has to be
    /// there then, and what has its name later has to be one of them still: what lies over a file goes where the file goes.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Something that passed, and where.
#[derive(Debug, Clone, Copy)]
pub struct Wire<'a> {
    /// The agent's id.
    pub agent: &'a str,
    /// Which run of which adapter: counted from 1 over all adapters of a host.
    pub process: u32,
    /// What it is.
    pub event: WireEvent<'a>,
}

/// Something that passed.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// The adapter runs.
    Started {
        /// Its process id; none for an adapter that is reached over streams.
        pid: Option<u32>,
    },
    /// It did not start.
    NotStarted {
        /// Why, without secrets.
        why: &'a str,
    },
    /// One message of the host with its LF, before it is written.
    ToAdapter(&'a [u8]),
    /// What was read of the adapter's output: any number of lines, which may begin and end within one. [`Lines`] splits it.
    ///
    /// [`Lines`]: crate::Lines
    FromAdapter(&'a [u8]),
    /// A line of stderr without its LF, at most 8 KiB of it, without secrets.
    Stderr {
        /// The line.
        line: &'a str,
        /// How many bytes of its end were left out.
        omitted: u64,
    },
    /// The host has closed the adapter's input.
    StdinClosed,
    /// The adapter's output has ended.
    StdoutEnded,
    /// The process has ended.
    Exited {
        /// Its exit status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}
