//! The traffic between a host and its adapters, and its receiver.

use std::{fmt, path::PathBuf, time::Duration};

/// Takes all that passes between a host and its adapters.
///
/// It is called by the task that drives a link, between reading and writing, so it must not block.
/// What it is handed is as it passes, secrets included; only stderr was redacted before.
pub trait WireSink: fmt::Debug + Send + Sync {
    /// Takes what has just been read, or is about to be written.
    fn take(&self, wire: Wire<'_>);

    /// Returns true if it takes what passes in this direction; nothing else of it is handed over.
    /// It must always return the same.
    fn wants(&self, direction: WireDirection) -> bool {
        let _ = direction;
        true
    }

    /// Waits until all that was taken is where it belongs, at most so long. Blocks. A host calls it
    /// at the end of its shutdown.
    fn flush(&self, within: Duration) {
        let _ = within;
    }

    /// The files that it writes, which must be hidden in a sandbox. A host calls this before its
    /// adapters start. Each file must exist then, and a later file of the same name must be one of
    /// them, because a mount over a file moves with the file.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Something that passed, and where.
#[derive(Debug, Clone, Copy)]
pub struct Wire<'a> {
    /// The agent's id.
    pub agent: &'a str,
    /// Number of the adapter's run, from 1, over all adapters of a host.
    pub process: u32,
    /// The event.
    pub event: WireEvent<'a>,
}

/// A direction in which something passes, by which a sink chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireDirection {
    /// [`WireEvent::ToAdapter`].
    ToAdapter,
    /// [`WireEvent::FromAdapter`].
    FromAdapter,
    /// [`WireEvent::Stderr`].
    Stderr,
    /// [`WireEvent::ToAgent`].
    ToAgent,
    /// [`WireEvent::FromAgent`].
    FromAgent,
    /// Events of the adapter's process and its pipes, and missing lines.
    Process,
}

impl WireEvent<'_> {
    /// The direction in which it passed.
    #[must_use]
    pub fn direction(&self) -> WireDirection {
        match self {
            Self::ToAdapter(_) => WireDirection::ToAdapter,
            Self::FromAdapter(_) => WireDirection::FromAdapter,
            Self::Stderr { .. } => WireDirection::Stderr,
            Self::ToAgent { .. } => WireDirection::ToAgent,
            Self::FromAgent { .. } => WireDirection::FromAgent,
            Self::Started { .. }
            | Self::NotStarted { .. }
            | Self::StdinClosed
            | Self::StdoutEnded
            | Self::AgentLinesLost { .. }
            | Self::Exited { .. } => WireDirection::Process,
        }
    }
}

/// Something that passed.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum WireEvent<'a> {
    /// The adapter runs.
    Started {
        /// Process id; `None` for an adapter that is reached over streams.
        pid: Option<u32>,
    },
    /// The start failed.
    NotStarted {
        /// The cause, without secrets.
        why: &'a str,
    },
    /// A message of the host with its LF, before it is written.
    ToAdapter(&'a [u8]),
    /// A read of the adapter's output: any number of lines, the first and last possibly incomplete.
    /// [`Lines`] splits it.
    ///
    /// [`Lines`]: crate::Lines
    FromAdapter(&'a [u8]),
    /// A line of stderr without its LF, at most 8 KiB of it, without secrets.
    Stderr {
        /// The line.
        line: &'a str,
        /// Number of bytes omitted from its end.
        omitted: u64,
    },
    /// A line of a built-in adapter to the agent that it wraps, without its LF.
    ToAgent {
        /// The number of the agent process, counted from 1 in this run of the adapter.
        agent_process: u32,
        /// The line, about 1 MiB of it.
        line: &'a [u8],
        /// Bytes of its end that were left out.
        omitted: u64,
    },
    /// A line of the agent that a built-in adapter wraps, without its LF.
    FromAgent {
        /// As above.
        agent_process: u32,
        /// As above.
        line: &'a [u8],
        /// As above.
        omitted: u64,
    },
    /// Lines between a built-in adapter and its agent are missing here.
    AgentLinesLost {
        /// As above.
        agent_process: u32,
        /// The number of lines.
        lines: u64,
    },
    /// The host has closed the adapter's input.
    StdinClosed,
    /// The adapter's output has ended.
    StdoutEnded,
    /// The process has ended.
    Exited {
        /// Exit status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}
