//! An init's report to its host: whether the program has started.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::write;

/// The length of a report on its pipe, in bytes.
pub(crate) const RECORD: usize = 6;

/// Outcome of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitReport {
    /// The program has started.
    Started,
    /// The system refused to start it, with this error.
    NotStarted(i32),
    /// The way to it was refused, with this error.
    NotKept(SetupStep, i32),
}

/// Step of an init before it starts the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetupStep {
    /// Makes namespaces.
    Namespaces,
    /// Says who the users of its namespace are.
    Users,
    /// Begins as the first process of its namespace.
    First,
    /// Shows the namespace's own processes in `/proc`.
    Proc,
    /// Becomes the parent of orphans.
    Adoption,
    /// Opens the port of its bridge.
    Bridge,
    /// Counts down to its deadline.
    Deadline,
    /// Compares the paths of a sandbox with those that were granted.
    Places,
}

const STEPS: [SetupStep; 8] = [
    SetupStep::Namespaces,
    SetupStep::Users,
    SetupStep::First,
    SetupStep::Proc,
    SetupStep::Adoption,
    SetupStep::Bridge,
    SetupStep::Deadline,
    SetupStep::Places,
];

impl InitReport {
    fn to_bytes(self) -> [u8; RECORD] {
        let (kind, step, errno) = match self {
            Self::Started => (b'S', 0, 0),
            Self::NotStarted(errno) => (b'E', 0, errno),
            Self::NotKept(step, errno) => (b'K', step as u8, errno),
        };
        let [a, b, c, d] = errno.to_le_bytes();
        [kind, step, a, b, c, d]
    }

    /// Reads a report; `None` when it is none.
    pub(crate) fn from_bytes([kind, step, errno @ ..]: [u8; RECORD]) -> Option<Self> {
        let errno = i32::from_le_bytes(errno);
        match kind {
            b'S' => Some(Self::Started),
            b'E' => Some(Self::NotStarted(errno)),
            b'K' => STEPS
                .get(usize::from(step))
                .map(|step| Self::NotKept(*step, errno)),
            _ => None,
        }
    }
}

impl SetupStep {
    /// Reads after "failed to".
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Namespaces => "make a PID namespace",
            Self::Users => "map the user into the namespace",
            Self::First => "begin the namespace",
            Self::Proc => "mount /proc in the namespace",
            Self::Adoption => "become a subreaper",
            Self::Bridge => "open the port of the network bridge",
            Self::Deadline => "begin before its deadline",
            Self::Places => {
                "mount the granted paths: one of them was replaced during the start; start again"
            }
        }
    }
}

/// The way to the host; one report goes over it.
#[derive(Debug)]
pub(super) struct Reporter(Option<OwnedFd>);

impl Reporter {
    pub(super) fn new(pipe: Option<OwnedFd>) -> Self {
        Self(pipe)
    }

    /// Leaves the report to another process that has the pipe.
    pub(super) fn leave(&mut self) {
        self.0 = None;
    }

    /// Returns the pipe, for a program that inherits it.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(super) fn send(&mut self, report: InitReport) {
        if let Some(pipe) = mem::take(&mut self.0) {
            // A host that is gone needs no report.
            let _ = write(&pipe, &report.to_bytes());
        }
    }

    /// Reports that a step was refused; gives the exit code.
    pub(super) fn refuse(&mut self, step: SetupStep, error: &io::Error) -> i32 {
        if self.0.is_none() {
            super::complain(&format!("failed to {}: {error}", step.text()));
        }
        self.send(InitReport::NotKept(step, error.raw_os_error().unwrap_or(0)));
        super::NOT_STARTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let refused = STEPS.map(|step| InitReport::NotKept(step, 1));
        for report in [InitReport::Started, InitReport::NotStarted(2)]
            .into_iter()
            .chain(refused)
        {
            assert_eq!(InitReport::from_bytes(report.to_bytes()), Some(report));
        }
        assert_eq!(InitReport::from_bytes([0; RECORD]), None);
        assert_eq!(InitReport::from_bytes([b'K', 99, 0, 0, 0, 0]), None);
    }
}
