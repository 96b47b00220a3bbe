//! System calls of an init without a safe wrapper. It is one thread until its program runs.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::before_exec;

/// Side of a fork.
#[derive(Debug)]
pub(crate) enum Forked {
    /// The parent, and its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks.
///
/// # Errors
///
/// When the system is short of processes or memory.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: an init forks while it is one thread, so the child's copy of the program is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Pid::from_raw(child)
            .map(Forked::Parent)
            .ok_or_else(|| io::Error::other("fork gave no pid")),
    }
}

/// Leaves namespaces for new ones.
///
/// # Errors
///
/// When the kernel does not allow it here.
pub(crate) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: no caller asks for a descriptor table of its own, the one kind that could mislead
    // other threads.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces) }?)
}

/// A descriptor that was inherited under this number; the program will not inherit it.
///
/// # Errors
///
/// When there is none.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: `fcntl` on a number that is not open fails and changes nothing.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and an init asks once for each number that its host has named, before it
    // opens any other.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Blocks every signal, and gives a descriptor that they are read from.
///
/// # Errors
///
/// When the system is short of descriptors.
pub(crate) fn take_signals() -> io::Result<OwnedFd> {
    before_exec::block_signals_on_this_thread();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` writes the whole set before it is read; the descriptor is new and has no
    // other owner.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        let signals = libc::signalfd(-1, all.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(signals)?;
        Ok(OwnedFd::from_raw_fd(signals))
    }
}

/// The number of the next signal that has come in, if any.
pub(crate) fn next_signal(signals: &OwnedFd) -> Option<i32> {
    let mut record = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(signals, &mut record)).ok()?;
    // The number comes first in the kernel's record.
    let number = record.first_chunk::<4>().filter(|_| read == record.len())?;
    i32::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Role of a program that an init starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The program that is meant: default signals, and no descriptor beyond its pipes.
    Program,
    /// A program that makes a sandbox with another init in it. That init is lent a descriptor, and
    /// only it receives SIGINT and SIGTERM.
    Holder {
        /// The descriptor.
        lent: Option<RawFd>,
    },
}

/// Makes `command` start as the leader of its own session and process group, tied to the life of
/// this process.
pub(crate) fn install(command: &mut Command, role: Role) {
    let init = std::process::id().cast_signed();
    // SAFETY: system calls only, no allocation, no lock, captured integers.
    unsafe {
        command.pre_exec(move || {
            check(libc::setsid())?;
            before_exec::die_with(init)?;
            before_exec::close_descriptors_on_exec();
            before_exec::default_signals();
            if let Role::Holder { lent } = role {
                before_exec::ignore_stop_signals();
                if let Some(lent) = lent {
                    before_exec::lend(lent)?;
                }
            }
            Ok(())
        });
    }
}

/// Ends this process as its program ended: by this signal.
pub(crate) fn die_by(number: i32) {
    // SAFETY: integers and a live local set; the default disposition installs no code of ours.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(number, libc::SIG_DFL);
        let mut only = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), number);
        libc::kill(libc::getpid(), number);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
