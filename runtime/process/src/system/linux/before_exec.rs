//! Actions of the child between fork and exec.
//!
//! There the child is one thread of a copy of a many-threaded program: a lock that another thread
//! held stays locked forever. So nothing here allocates, locks or logs; each step is a system call.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use libc::{c_int, c_uint, c_ulong, pid_t};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The first descriptor that no child may inherit.
const FIRST_PRIVATE_DESCRIPTOR: c_int = 3;

/// Limit of the fallback for kernels without `close_range`: a limit of a billion must not hang a
/// start.
const LAST_DESCRIPTOR_WALKED: c_int = 65_536;

/// The highest signal number of the kernel, real-time ones included.
const LAST_SIGNAL: usize = 64;

/// Settings of a child.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    /// Descriptors of the host that it inherits, under the same numbers.
    pub(crate) kept: Vec<RawFd>,
    /// When it ends by itself.
    pub(crate) death: Death,
    /// Reaction to SIGINT and SIGTERM.
    pub(crate) stop: StopSignals,
    /// Limits.
    pub(crate) confinement: Confinement,
    /// Effect of setuid programs.
    pub(crate) privileges: Privileges,
    /// Session keyring.
    pub(crate) keys: Keys,
}

/// Enforcement of a child's limits.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    /// Files of cgroups that it joins by writing `0`.
    pub(crate) entrances: Vec<OwnedFd>,
    /// Resource limits that it sets.
    pub(crate) limits: Vec<(Resource, Rlimit)>,
}

/// When a child ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Death {
    /// Killed when the host ends.
    #[default]
    WithHost,
    /// When it has cleaned up behind the host.
    AfterHost,
}

/// Reaction of a child to SIGINT and SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StopSignals {
    /// The program decides.
    #[default]
    Heard,
    /// Nothing: they are meant for the program that it runs.
    Ignored,
}

/// Privileges that a program executed by a child may gain beyond the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Privileges {
    /// Never (`PR_SET_NO_NEW_PRIVS`): setuid programs run as the user that starts them.
    #[default]
    Kept,
    /// As the system has it. A rootless container client needs setuid programs to map user numbers.
    Gained,
}

/// Owner of a child's session keyring. Every process with a keyring can read its content, in any
/// namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Keys {
    /// The host's.
    #[default]
    Shared,
    /// A new one, empty.
    Own,
}

/// Makes `command` start as the leader of its own session, tied to the life of the calling thread.
///
/// Must be called, and the command spawned, on the permanent spawner thread: the parent-death signal follows
/// the thread that forks.
pub(crate) fn install(command: &mut Command, manner: Manner) {
    let host = std::process::id().cast_signed();
    // SAFETY: `become_child` is async-signal-safe: system calls only, no allocation, no lock. It
    // reads what it captured and touches no memory that is shared with the host.
    unsafe { command.pre_exec(move || become_child(host, &manner)) };
}

/// Blocks every signal on the calling thread, permanently.
///
/// A fork copies the caller's mask. With all signals blocked, none of the host's handlers can run
/// in the child before the child has restored the defaults; otherwise a handler that writes to a
/// pipe of the host would disturb the host.
pub(crate) fn block_signals_on_this_thread() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` writes the whole set that it is given, and `pthread_sigmask` only reads it after.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
    }
}

fn become_child(host: pid_t, manner: &Manner) -> io::Result<()> {
    own_session()?;
    match manner.death {
        Death::WithHost => die_with(host)?,
        Death::AfterHost => {}
    }
    match manner.keys {
        Keys::Shared => {}
        Keys::Own => own_keys()?,
    }
    join(&manner.confinement.entrances)?;
    no_core_file()?;
    close_descriptors_on_exec();
    for descriptor in &manner.kept {
        lend(*descriptor)?;
    }
    // Last: a limit of few open files would hide descriptors from the walk over all.
    set_limits(&manner.confinement.limits)?;
    match manner.privileges {
        Privileges::Kept => no_new_privileges()?,
        Privileges::Gained => {}
    }
    default_signals();
    match manner.stop {
        StopSignals::Heard => {}
        StopSignals::Ignored => ignore_stop_signals(),
    }
    Ok(())
}

/// Keeps a descriptor open over exec.
pub(super) fn lend(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: integer arguments only; one that is not open fails and changes nothing.
    check(unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) })
}

/// Ignores SIGINT and SIGTERM from now on, over exec too.
pub(super) fn ignore_stop_signals() {
    // SAFETY: ignoring a signal installs no code.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}

/// Moves the calling process, of one thread, into cgroups; its descendants are born there.
fn join(entrances: &[OwnedFd]) -> io::Result<()> {
    for entrance in entrances {
        // No heap and no `errno`: rustix makes the system call itself.
        rustix::io::retry_on_intr(|| rustix::io::write(entrance, b"0"))?;
    }
    Ok(())
}

/// Leaves the host's session keyring for a new one.
fn own_keys() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: c_int = 1;
    // SAFETY: no name is given, so the kernel reads no memory.
    let joined = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            ptr::null::<libc::c_char>(),
        )
    };
    if joined != -1 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // A kernel without keys, or a filter around the host that forbids them, to the child as well.
        Some(libc::ENOSYS | libc::EPERM) => Ok(()),
        _ => Err(error),
    }
}

fn set_limits(limits: &[(Resource, Rlimit)]) -> io::Result<()> {
    for (resource, limit) in limits {
        setrlimit(*resource, *limit)?;
    }
    Ok(())
}

fn no_new_privileges() -> io::Result<()> {
    // SAFETY: integer arguments only. The promise survives exec and cannot be taken back.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as c_ulong, 0, 0, 0) })
}

/// Leaves the host's session: own group to be signalled as one, no controlling terminal to prompt on.
fn own_session() -> io::Result<()> {
    // SAFETY: takes nothing, touches no memory.
    check(unsafe { libc::setsid() })
}

/// Asks for SIGKILL when the spawner thread ends, that is, when the host does.
pub(super) fn die_with(host: pid_t) -> io::Result<()> {
    // SAFETY: integer arguments only. The request survives exec.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong, 0, 0, 0) })?;
    // SAFETY: neither call touches memory. A host that died before the request is noticed here: the
    // child has another parent already, and no host is left for an error report.
    unsafe {
        if libc::getppid() != host {
            libc::_exit(127);
        }
    }
    Ok(())
}

/// Disables core files: one would contain the child's secrets, in a working directory.
fn no_core_file() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live, initialised local.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) })
}

/// Marks everything above standard error close-on-exec, whatever its opener and flags.
pub(super) fn close_descriptors_on_exec() {
    // SAFETY: integer arguments only; the descriptors stay open until exec, so the pipe by which
    // the standard library reports a failed exec continues to work.
    let marked = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_PRIVATE_DESCRIPTOR as c_uint,
            c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as c_uint,
        )
    };
    if marked == 0 {
        return;
    }
    // Older kernels, and containers whose filter does not know the call.
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live local; `fcntl` on a number that is not open fails and changes nothing.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let end = c_int::try_from(limit.rlim_cur)
            .unwrap_or(c_int::MAX)
            .min(LAST_DESCRIPTOR_WALKED);
        for descriptor in FIRST_PRIVATE_DESCRIPTOR..end {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Puts every disposition and the mask back: exec keeps what is ignored and blocked, and a child that ignores
/// SIGPIPE or SIGTERM because its host did would not notice its end.
pub(super) fn default_signals() {
    // The C library refuses to touch the signals that it keeps for itself, and a host may have been
    // started with those ignored too; so the kernel is asked. All zeroes means default handler, no
    // flags, empty mask, whatever the order of the fields; the array is larger than the kernel's
    // structure anywhere.
    let default = [0u64; 8];
    let set_size = LAST_SIGNAL / 8;
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the kernel only reads `default`, which lives until after the call, and installs no
    // code; it refuses SIGKILL and SIGSTOP without effect. `sigemptyset` writes the whole set
    // before it is read.
    unsafe {
        for number in 1..=LAST_SIGNAL {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                set_size,
            );
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
