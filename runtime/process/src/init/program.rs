//! The program that an init runs: its start, the signals it is passed, how it ended.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::lifeline::Lifeline;
use super::options::InitOptions;
use super::report::{InitReport, Reporter};
use crate::environment;
use crate::system::init::{self as system, Role};

/// Timeout of the command that runs after a program.
const AFTER: Duration = Duration::from_secs(20);

/// Number of attempts.
const ATTEMPTS: usize = 3;

/// Interval between checks for its end.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Death signal of an init that outlives its host, besides the end of its pipe, whose other end
/// another process may hold open by mistake.
pub(super) const HOST_DIED: Signal = Signal::POWER;

/// Number of processes that are reaped before other events are checked.
const ONE_PASS: usize = 256;

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Exit code of a shell whose program was ended by a signal, minus the signal's number.
const BY_SIGNAL: i32 = 128;

/// Signals that are passed on to the program. SIGTERM also wakes stopped processes.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// A running program, the leader of its own process group.
#[derive(Debug)]
pub(super) struct Program(Pid);

/// Event that ended an init's wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum News {
    /// The process that it waited for ended, with this status of `wait`.
    Ended(i32),
    /// The host has gone, or wants the tree gone, or its deadline has passed.
    HostGone,
}

/// Starts the program and lets go of its pipes; reports how that went, unless one inside is to. An
/// error is the exit code.
pub(super) fn start(options: &InitOptions, report: &mut Reporter) -> Result<Program, i32> {
    let Some((program, args)) = options.command.split_first() else {
        // A trial: all that comes before a program has worked.
        report.send(InitReport::Started);
        return Err(0);
    };
    let mut command = Command::new(program);
    let lent = report.descriptor().filter(|_| options.holds_another);
    system::install(
        command.args(args),
        if options.holds_another {
            Role::Holder { lent }
        } else {
            Role::Program
        },
    );
    for (name, value) in std::env::vars_os() {
        if let Some(own) = environment::unshielded(&name) {
            command.env_remove(&name).env(own, value);
        }
    }
    match command.spawn() {
        Ok(child) => {
            let _ = release_pipes();
            if options.holds_another {
                report.leave();
            } else {
                report.send(InitReport::Started);
            }
            Ok(Program(Pid::from_child(&child)))
        }
        Err(error) => {
            report.send(InitReport::NotStarted(error.raw_os_error().unwrap_or(0)));
            Err(super::NOT_STARTED)
        }
    }
}

/// Replaces the three pipes by `/dev/null`: only the program may hold their ends.
pub(super) fn release_pipes() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open(OsStr::new("/dev/null"))?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

impl Program {
    /// Passes signals on and reaps whatever ends, until the program has ended or the host is gone.
    pub(super) fn attend(&self, signals: &OwnedFd, lifeline: Option<&mut Lifeline>) -> News {
        attend(self.0, signals, lifeline, |signal| {
            let _ = kill_process_group(self.0, signal);
        })
    }

    /// Kills its process group, and waits for its end.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.0, Signal::KILL);
        wait_for(self.0);
    }
}

/// Runs what comes after the program; again if it was not done in time. What it cannot do at all
/// the next host does.
pub(super) fn run_after(words: &[OsString]) {
    let Some((program, args)) = words.split_first() else {
        return;
    };
    for _ in 0..ATTEMPTS {
        let mut command = Command::new(program);
        system::install(command.args(args), Role::Program);
        if command.spawn().is_ok_and(ends_in_time) {
            return;
        }
    }
}

/// Waits for the end of a process, and makes one if it does not come in time.
fn ends_in_time(mut child: std::process::Child) -> bool {
    let end = Instant::now() + AFTER;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}

/// The same for any child of an init: passes signals on by `pass_on`.
pub(super) fn attend(
    child: Pid,
    signals: &OwnedFd,
    mut lifeline: Option<&mut Lifeline>,
    pass_on: impl Fn(Signal),
) -> News {
    loop {
        let wait = match reap(Some(child)) {
            Reaped::Child(status) => return News::Ended(status),
            // A program that ends without pause must not keep the rest from being looked at.
            Reaped::Some => Some(&NOW),
            Reaped::All | Reaped::NoneLeft => None,
        };
        let mut watched = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        watched.extend(lifeline.iter().flat_map(|lifeline| lifeline.watched()));
        // An error explains itself at the next turn: nothing but lack of memory can be meant.
        let _ = poll(&mut watched, wait);
        let found = watched.get(1).map_or(PollFlags::empty(), PollFd::revents);
        let mut gone = lifeline
            .as_mut()
            .is_some_and(|lifeline| lifeline.is_over(found));
        while let Some(number) = system::next_signal(signals) {
            gone |= number == HOST_DIED.as_raw();
            let Some(signal) = PASSED_ON
                .into_iter()
                .find(|signal| signal.as_raw() == number)
            else {
                continue;
            };
            pass_on(signal);
            if signal == Signal::TERM {
                pass_on(Signal::CONT);
            }
        }
        if gone {
            return News::HostGone;
        }
    }
}

/// Sends a signal to one process.
pub(super) fn pass_on_to(process: Pid) -> impl Fn(Signal) {
    move |signal| {
        let _ = kill_process(process, signal);
    }
}

/// Waits until a child that was killed has ended; gives its status.
pub(super) fn wait_for(child: Pid) -> i32 {
    let ended = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
    ended
        .ok()
        .flatten()
        .map_or(Signal::KILL.as_raw(), |(_, status)| status.as_raw())
}

/// Result of one pass of reaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// The child that was asked for has ended, with this status.
    Child(i32),
    /// As many as one pass reaps; there may be more.
    Some,
    /// All that have ended; others live.
    All,
    /// All: no process is left.
    NoneLeft,
}

/// Reaps ended processes, up to a number.
pub(super) fn reap(child: Option<Pid>) -> Reaped {
    for _ in 0..ONE_PASS {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == child => return Reaped::Child(status.as_raw()),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::All,
            Err(_) => return Reaped::NoneLeft,
        }
    }
    Reaped::Some
}

/// Ends this process as its program ended; returns the exit code when that is by a code, or when no
/// signal could.
pub(super) fn end_as(status: i32) -> i32 {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => {
            system::die_by(signal);
            BY_SIGNAL + signal
        }
        (None, None) => super::NOT_STARTED,
    }
}
