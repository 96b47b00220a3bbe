//! An init with a PID namespace: one process outside that the host knows, one inside that is the
//! first.
//!
//! ```text
//!  host ── outer ─┤ inner (process 1) ── program ── …
//! ```
//!
//! The end of `outer`, whatever its cause, is the end of `inner` by the parent-death signal, and
//! the end of `inner` is the end of every process in the namespace: the kernel sees to both.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal, setsid};
use rustix::thread::{CapabilitySet, UnshareFlags, remove_capability_from_bounding_set};

use super::program::{self, News};
use super::report::{Reporter, SetupStep};
use super::{InitOptions, Ties};
use crate::system::init::{self as system, Forked};

pub(super) fn run(
    options: &InitOptions,
    Ties {
        mut report,
        mut lifeline,
        signals,
    }: Ties,
) -> i32 {
    let (users, alive, outcome) = match prepare() {
        Ok(prepared) => prepared,
        Err((step, error)) => return report.refuse(step, &error),
    };
    match system::fork() {
        Err(error) => report.refuse(SetupStep::First, &error),
        Ok(Forked::Parent(inner)) => {
            drop((report, outcome.1, alive.0));
            // Failing that, the pipes live as long as the program and this process do: longer than
            // they should.
            let _ = program::release_pipes();
            let pass_on = program::pass_on_to(inner);
            let status = match program::attend(inner, &signals, lifeline.as_mut(), pass_on) {
                News::Ended(status) => status,
                News::HostGone => {
                    program::pass_on_to(inner)(Signal::KILL);
                    // The kernel reports its end when every process of the namespace has ended.
                    program::wait_for(inner)
                }
            };
            drop(alive.1);
            program::end_as(told(&outcome.0).unwrap_or(status))
        }
        Ok(Forked::Child) => {
            drop((outcome.0, alive.1, lifeline));
            inner(options, &signals, users, &alive.0, &outcome.1, &mut report)
        }
    }
}

type FdPair = (OwnedFd, OwnedFd);

/// Owner of the user namespace that contains the PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    /// The host's.
    Host,
    /// A new one, because only there may a PID namespace be made.
    Own,
}

/// Makes the namespaces, of which the next child is the first process.
fn prepare() -> Result<(Users, FdPair, FdPair), (SetupStep, io::Error)> {
    let at = |step| move |error: io::Error| (step, error);
    let errno = |step| move |error: rustix::io::Errno| (step, io::Error::from(error));
    let alive = pipe_with(PipeFlags::CLOEXEC).map_err(errno(SetupStep::First))?;
    let outcome = pipe_with(PipeFlags::CLOEXEC).map_err(errno(SetupStep::First))?;
    let user = geteuid().as_raw();
    let group = getegid().as_raw();
    let wanted = UnshareFlags::NEWPID | UnshareFlags::NEWNS;
    let users = match system::unshare(wanted) {
        Ok(()) => Users::Host,
        Err(_) => {
            system::unshare(wanted | UnshareFlags::NEWUSER).map_err(at(SetupStep::Namespaces))?;
            map_users(user, group).map_err(at(SetupStep::Users))?;
            Users::Own
        }
    };
    Ok((users, alive, outcome))
}

/// Everybody keeps the number that they have outside.
fn map_users(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// The first process of the namespace.
fn inner(
    options: &InitOptions,
    signals: &OwnedFd,
    users: Users,
    alive: &OwnedFd,
    outcome: &OwnedFd,
    report: &mut Reporter,
) -> i32 {
    if let Err((step, error)) = settle(users, alive) {
        return report.refuse(step, &error);
    }
    let program = match program::start(options, report) {
        Ok(program) => program,
        Err(code) => return code,
    };
    match program.attend(signals, None) {
        News::Ended(status) => {
            // A host that is gone needs no status.
            let _ = rustix::io::write(outcome, &status.to_ne_bytes());
            0
        }
        News::HostGone => 0,
    }
}

fn settle(users: Users, alive: &OwnedFd) -> Result<(), (SetupStep, io::Error)> {
    let at = |step| move |error: rustix::io::Errno| (step, io::Error::from(error));
    // Signals to the outer process's group are not meant for this one.
    setsid().map_err(at(SetupStep::First))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(SetupStep::First))?;
    if is_over(alive) {
        return Err((SetupStep::First, rustix::io::Errno::PIPE.into()));
    }
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(at(SetupStep::Proc))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(at(SetupStep::Proc))?;
    if users == Users::Own {
        // In a user namespace of its own the superuser has every capability again; the program gets none.
        for capability in CapabilitySet::all().iter() {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    Ok(())
}

/// Returns true if the outer process ended before its death signal was set.
fn is_over(alive: &OwnedFd) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(alive.as_fd(), PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut watched, Some(&now)), Ok(1))
}

/// Returns the program's exit as the inner process reported it.
fn told(outcome: &OwnedFd) -> Option<i32> {
    let mut raw = [0u8; 4];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(outcome, &mut raw)).ok()?;
    (read == raw.len()).then(|| i32::from_ne_bytes(raw))
}
