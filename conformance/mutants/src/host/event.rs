//! Events from the threads to the loop, bounded in bytes.

use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use trunkline_conformance_mutants::{
    lines::InputLine,
    locks::{lock, wait},
};

/// Bytes that a reader may be ahead of the loop.
const AHEAD: usize = 4 * 1024 * 1024;

/// An event.
#[derive(Debug)]
pub(crate) enum RelayEvent {
    /// A line of the hub.
    Hub(InputLine, Credit),
    /// The end of the hub's pipe, a signal, or a stdout without a reader ([relay.9]).
    End,
    /// The hub's pipe took something.
    Written,
    /// A line of the process of this number.
    Line(u64, InputLine, Credit),
    /// Its stdout has ended.
    StdoutEnd(u64),
    /// It has exited and waits to be reaped.
    Exited(u64),
}

/// Exit of a process, for people and for the wire.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        Self {
            code: status.code(),
            signal: status.signal(),
        }
    }
}

/// Bytes that a reader has handed over and that are not handled yet; given back on drop.
#[derive(Debug)]
pub(crate) struct Credit {
    from: Arc<Credits>,
    bytes: usize,
}

impl Drop for Credit {
    fn drop(&mut self) {
        *lock(&self.from.taken) -= self.bytes;
        self.from.given.notify_all();
    }
}

/// The bound of one reader.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    taken: Mutex<usize>,
    given: Condvar,
}

impl Credits {
    /// Waits until the loop has caught up enough for so many bytes.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Credit {
        let mut taken = lock(&self.taken);
        while *taken > 0 && *taken + bytes > AHEAD {
            taken = wait(&self.given, taken, Duration::MAX);
        }
        *taken += bytes;
        Credit {
            from: Arc::clone(self),
            bytes,
        }
    }
}
