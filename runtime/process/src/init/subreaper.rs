//! An init without a namespace: the subreaper of its program's descendants, or just its program's parent.
//!
//! Orphans become children of a subreaper, so "no child is left" means "no descendant is left".

use std::os::fd::OwnedFd;
use std::thread;

use rustix::io::Errno;
use rustix::process::{
    PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal,
};

use super::bridge;
use super::program::{self, News, Reaped};
use super::report::SetupStep;
use super::{InitOptions, Keep, NOT_STARTED, Ties};
use crate::isolation::MountIdentity;
use crate::system::init as system;
use crate::system::proc::{self, Stat};

/// First and maximum wait, in milliseconds, for descendants that were sent SIGKILL before all are
/// searched again.
const LOOK_AGAIN: (i64, i64) = (2, 128);

pub(super) fn run(
    options: &InitOptions,
    Ties {
        mut report,
        mut lifeline,
        signals,
    }: Ties,
) -> i32 {
    let adopts = options.keep == Keep::Reaper;
    if let Err(error) = outlive(lifeline.is_some(), adopts) {
        return report.refuse(SetupStep::Adoption, &error.into());
    }
    if options.places.iter().any(is_replaced) {
        return report.refuse(SetupStep::Places, &Errno::STALE.into());
    }
    // Before the program, which may connect at once.
    let bridge = match options
        .bridge
        .as_ref()
        .map(|(port, _)| bridge::listen(*port))
        .transpose()
    {
        Ok(bridge) => bridge,
        Err(error) => return report.refuse(SetupStep::Bridge, &error),
    };
    let program = match program::start(options, &mut report) {
        Ok(program) => program,
        Err(code) => return code,
    };
    if let (Some(bridge), Some((_, socket))) = (bridge, options.bridge.clone()) {
        // Without a thread to spare the program has no network; it runs all the same.
        let _ = thread::Builder::new()
            .name("bridge".into())
            .spawn(move || bridge.run(socket));
    }
    let news = program.attend(&signals, lifeline.as_mut());
    if adopts {
        end_all(&signals);
    } else if matches!(news, News::HostGone) {
        program.kill();
    }
    program::run_after(&options.after);
    match news {
        News::Ended(status) => program::end_as(status),
        News::HostGone => {
            system::die_by(Signal::KILL.as_raw());
            NOT_STARTED
        }
    }
}

/// Returns true unless a path has the same file as when its host granted it. A path that cannot be
/// reached is out of the program's reach, too.
fn is_replaced(((device, inode), path): &MountIdentity) -> bool {
    match rustix::fs::lstat(path) {
        Ok(found) => (found.st_dev, found.st_ino) != (*device, *inode),
        Err(error) => error != Errno::ACCESS,
    }
}

/// Outlives the host for as long as it takes to end everything, and becomes the parent of orphans.
fn outlive(has_host: bool, adopts: bool) -> Result<(), Errno> {
    if has_host {
        set_parent_process_death_signal(Some(program::HOST_DIED))?;
    }
    if adopts {
        set_child_subreaper(Some(getpid()))
    } else {
        Ok(())
    }
}

/// Kills every descendant, and returns when none is left.
///
/// First all are stopped: who is stopped forks no more. One that forked before it was stopped has
/// left a child that the next round finds.
fn end_all(signals: &OwnedFd) {
    let (mut rest, longest) = LOOK_AGAIN;
    loop {
        let all = descendants();
        for signal in [Signal::STOP, Signal::KILL] {
            for process in all.iter().filter(|process| !process.is_zombie) {
                send(process, signal);
            }
        }
        match program::reap(None) {
            Reaped::NoneLeft => return,
            Reaped::Some => continue,
            Reaped::Child(_) | Reaped::All => {}
        }
        // Woken by each end.
        let mut watched = [rustix::event::PollFd::new(
            signals,
            rustix::event::PollFlags::IN,
        )];
        let wait = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: rest * 1_000_000,
        };
        let _ = rustix::event::poll(&mut watched, Some(&wait));
        rest = longest.min(rest * 2);
        while system::next_signal(signals).is_some() {}
    }
}

/// All processes that descend from this one.
fn descendants() -> Vec<Stat> {
    proc::descendants(getpid())
}

/// Signals a process, unless its number means another one by now.
fn send(process: &Stat, signal: Signal) {
    let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty()) else {
        return;
    };
    if Stat::read(process.pid).is_some_and(|now| now.started == process.started) {
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}
