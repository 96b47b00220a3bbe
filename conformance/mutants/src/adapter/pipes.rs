//! Reads and writes the adapter's pipes: as in SPEC.md, or with one fault.

use std::{
    io::{self, Read, StdinLock},
    os::fd::AsFd as _,
    sync::{Condvar, Mutex},
};

use rustix::event::{PollFd, PollFlags, poll};
use trunkline_conformance_mutants::{
    lines::{self, LONGEST, LineReader},
    locks::lock,
    outbox::{Outbox, WriterFault},
    sleep,
};

use crate::switches::{Mutant::*, broken, find_fault};

/// The lines of the host.
pub(crate) fn stdin() -> LineReader<Reading<StdinLock<'static>>> {
    let longest = [
        (Limit64k, 64 * 1024),
        (Limit4m, 4 * 1024 * 1024),
        (LimitBelow1m, 1024 * 1024 - 1),
        (LongLineKept, usize::MAX),
    ];
    let faults = [
        (DecodePerChunk, lines::ReaderFault::DecodesReads),
        (ReadIsLine, lines::ReaderFault::ReadIsLine),
        (OneLinePerRead, lines::ReaderFault::LinesPerRead(1)),
        (SplitAtUnicode, lines::ReaderFault::SplitsAtUnicode),
        (BomIsData, lines::ReaderFault::KeepsBom),
    ];
    LineReader::new(
        Reading(io::stdin().lock()),
        find_fault(longest).unwrap_or(LONGEST),
        find_fault(faults),
    )
}

/// True if all input has been handled, so that the reader waits for more.
static IS_READING: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn set_reading(reading: bool) {
    *lock(&IS_READING.0) = reading;
    IS_READING.1.notify_all();
}

/// Waits until each line that came with the last one has been handled.
pub(crate) fn wait_for_the_rest_of_a_write() {
    let reading = lock(&IS_READING.0);
    drop(IS_READING.1.wait_while(reading, |reading| !*reading));
}

/// A pipe whose reads can be waited for.
#[derive(Debug)]
pub(crate) struct Reading<R>(R);

impl<R: Read> Read for Reading<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        set_reading(true);
        let read = self.0.read(buffer);
        set_reading(false);
        read
    }
}

/// The lines to the host. Ends the process where stdout is broken ([process.1]).
pub(crate) fn stdout() -> io::Result<Outbox> {
    let faults = [
        (BomOutput, WriterFault::Bom),
        (BufferedStdout, WriterFault::KeepsBelow(8192)),
        (
            FlushAtTurnEnd,
            WriterFault::KeepsUntil(b"\"turn.complete\""),
        ),
        (UnlockedWrites, WriterFault::Unlocked),
    ];
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Outbox::start(stdout, find_fault(faults), |written| {
        if written.is_err() {
            broken_stdout();
        }
    }))
}

/// Ends the process when its stdout has no reader, even while it has nothing to write
/// ([process.1]).
pub(crate) fn watch_stdout() {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().contains(PollFlags::ERR) => {
                broken_stdout();
                return;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        // What is not a pipe may report other things, over and over.
        sleep(500);
    }
}

/// Handles a stdout without a reader.
fn broken_stdout() {
    if broken(SurvivesBrokenStdout) {
        return;
    }
    if broken(SpinsOnBrokenStdout) {
        loop {
            std::hint::spin_loop();
        }
    }
    std::process::exit(0);
}
