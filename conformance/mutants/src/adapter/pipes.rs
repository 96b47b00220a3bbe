//! How this adapter reads and writes its pipes: as SPEC.md says, or with one fault.

use std::{
    io::{self, StdinLock},
    os::fd::AsFd as _,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use trunkline_conformance_mutants::{
    lines::{self, LONGEST, Lines},
    outbox::{Fault, Outbox},
};

use crate::switches::{Mutant, broken};

/// The lines of the host.
pub(crate) fn stdin() -> Lines<StdinLock<'static>> {
    let longest = [
        (Mutant::Limit64k, 64 * 1024),
        (Mutant::Limit4m, 4 * 1024 * 1024),
        (Mutant::LimitBelow1m, 1024 * 1024 - 1),
    ];
    let faults = [
        (Mutant::DecodePerChunk, lines::Fault::DecodesReads),
        (Mutant::ReadIsLine, lines::Fault::ReadIsLine),
        (Mutant::OneLinePerRead, lines::Fault::LinesPerRead(1)),
        (Mutant::SplitAtUnicode, lines::Fault::SplitsAtUnicode),
        (Mutant::BomIsData, lines::Fault::KeepsBom),
    ];
    Lines::new(io::stdin().lock(), chosen(longest).unwrap_or(LONGEST), chosen(faults))
}

/// The lines to the host. Ends the process where stdout is broken ([process.1]).
pub(crate) fn stdout() -> io::Result<Outbox> {
    let faults = [
        (Mutant::BomOutput, Fault::Bom),
        (Mutant::BufferedStdout, Fault::KeepsBelow(8192)),
        (Mutant::FlushAtTurnEnd, Fault::KeepsUntil(b"\"turn.complete\"")),
        (Mutant::UnlockedWrites, Fault::Unlocked),
    ];
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Outbox::start(stdout, chosen(faults), |written| {
        if written.is_err() {
            broken_stdout();
        }
    }))
}

fn chosen<T, const N: usize>(faults: [(Mutant, T); N]) -> Option<T> {
    faults.into_iter().find(|(mutant, _)| broken(*mutant)).map(|(_, fault)| fault)
}

/// Ends the process when no one reads it, even while it has nothing to say ([process.1]).
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
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// No one reads any more.
fn broken_stdout() {
    if broken(Mutant::SurvivesBrokenStdout) {
        return;
    }
    if broken(Mutant::SpinsOnBrokenStdout) {
        loop {
            std::hint::spin_loop();
        }
    }
    std::process::exit(0);
}
