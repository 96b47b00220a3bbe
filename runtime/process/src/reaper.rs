//! The permanent thread that reaps what was dropped, and removes its folders.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::private_dir::PrivateDir;
use crate::tree::reap;

/// How long the thread rests when the kernel cannot serve a `poll`, which only a lack of memory explains.
const REST: Duration = Duration::from_millis(50);

/// What a dropped child leaves behind.
#[derive(Debug)]
pub(crate) struct Remains {
    /// A process that has been killed and is to be reaped.
    pub(crate) dying: Option<Arc<OwnedFd>>,
    /// Its folder, removed after that.
    pub(crate) private: Option<PrivateDir>,
}

/// Holds at most one entry for each child that was alive, so it is bounded by what bounds them.
static INBOX: Mutex<Vec<Remains>> = Mutex::new(Vec::new());

/// Wakes the thread; set once it runs.
static BELL: OnceLock<OwnedFd> = OnceLock::new();

/// Starts the thread, once. Called before the first child exists, so that dropping one needs nothing new.
///
/// # Errors
///
/// When the system has no thread or descriptor to spare; a later call tries again.
pub(crate) fn ensure_running() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if BELL.get().is_some() {
        return Ok(());
    }
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let heard = bell.try_clone()?;
    thread::Builder::new().name("trunkline-reaper".into()).spawn(move || run(&heard))?;
    let _ = BELL.set(bell);
    Ok(())
}

/// Leaves a dead or dying child to the thread. Does not block, and needs no runtime.
pub(crate) fn leave(remains: Remains) {
    INBOX.lock().unwrap_or_else(PoisonError::into_inner).push(remains);
    if let Some(bell) = BELL.get() {
        // Fails only when the counter is full, and then the thread has been woken often enough.
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

fn run(bell: &OwnedFd) {
    let mut dying: Vec<Remains> = Vec::new();
    loop {
        wait_for_news(bell, &dying);
        dying.append(&mut INBOX.lock().unwrap_or_else(PoisonError::into_inner));
        // All are reaped before the first folder goes: a large folder must not keep zombies.
        let gone: Vec<Remains> = dying.extract_if(.., |remains| has_ended(remains)).collect();
        for Remains { private, .. } in gone {
            drop(private);
        }
    }
}

fn wait_for_news(bell: &OwnedFd, dying: &[Remains]) {
    let ended = dying.iter().filter_map(|remains| remains.dying.as_ref());
    let mut watched: Vec<PollFd<'_>> = std::iter::once(bell.as_fd())
        .chain(ended.map(|pidfd| pidfd.as_fd()))
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut watched, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => {
            tracing::warn!(%error, "the reaper cannot watch its processes; it looks again");
            thread::sleep(REST);
        }
    }
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
}

fn has_ended(remains: &Remains) -> bool {
    match &remains.dying {
        Some(pidfd) => !matches!(reap(pidfd), Ok(None)),
        None => true,
    }
}
