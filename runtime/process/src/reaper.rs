//! The permanent thread that reaps what was dropped, and removes its folders.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::owned::OwnedResources;
use crate::tree::reap;

/// Pause of the thread if the kernel cannot serve a `poll`, which only a lack of memory explains.
const REST: Duration = Duration::from_millis(50);

/// First and maximum wait between checks of a cgroup whose processes are dying.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// When it gives up on processes that SIGKILL does not end: the kernel itself waits, for a dead disk perhaps.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Remains of a dropped child.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// A killed process that must be reaped.
    pub(crate) dying: Option<Arc<OwnedFd>>,
    /// Resources to remove after that.
    pub(crate) owned: OwnedResources,
}

/// Holds at most one entry for each child that was alive, so it is bounded by what bounds them.
static INBOX: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

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
    thread::Builder::new()
        .name("trunkline-reaper".into())
        .spawn(move || run(&heard))?;
    let _ = BELL.set(bell);
    Ok(())
}

/// Leaves a dead or dying child to the thread. Does not block, and needs no runtime.
pub(crate) fn leave(orphan: Orphan) {
    INBOX
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(orphan);
    if let Some(bell) = BELL.get() {
        // Fails only when the counter is full, and then the thread has been woken often enough.
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

fn run(bell: &OwnedFd) {
    let mut dying: Vec<Orphan> = Vec::new();
    let mut clearing: Vec<Clearing> = Vec::new();
    loop {
        wait_for_news(
            bell,
            &dying,
            clearing.iter().map(|clearing| clearing.due).min(),
        );
        dying.append(&mut INBOX.lock().unwrap_or_else(PoisonError::into_inner));
        let now = Instant::now();
        // All are reaped before the first folder goes: a large folder must not keep zombies.
        let gone = dying.extract_if(.., |orphan| has_ended(orphan));
        clearing.extend(gone.map(|orphan| Clearing::begin(orphan.owned, now)));
        clearing.retain_mut(|clearing| !clearing.is_over(now));
    }
}

/// The resources of a child that has ended, while what ran in its cgroup is dying.
#[derive(Debug)]
struct Clearing {
    owned: OwnedResources,
    since: Instant,
    due: Instant,
    wait: Duration,
}

impl Clearing {
    fn begin(owned: OwnedResources, now: Instant) -> Self {
        Self {
            owned,
            since: now,
            due: now,
            wait: LOOK_AGAIN.0,
        }
    }

    /// Looks again if it is time; whether everything is gone, or given up.
    fn is_over(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        if self.owned.try_clear() {
            return true;
        }
        if now.duration_since(self.since) > GIVE_UP {
            std::mem::take(&mut self.owned).abandon();
            return true;
        }
        self.due = now + self.wait;
        self.wait = LOOK_AGAIN.1.min(self.wait * 2);
        false
    }
}

fn wait_for_news(bell: &OwnedFd, dying: &[Orphan], due: Option<Instant>) {
    let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
    // A second at most, so it fits.
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    let ended = dying.iter().filter_map(|orphan| orphan.dying.as_ref());
    let mut watched: Vec<PollFd<'_>> = std::iter::once(bell.as_fd())
        .chain(ended.map(|pidfd| pidfd.as_fd()))
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut watched, wait.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => {
            tracing::warn!(%error, "the reaper cannot watch its processes; it looks again");
            thread::sleep(REST);
        }
    }
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
}

fn has_ended(orphan: &Orphan) -> bool {
    match &orphan.dying {
        Some(pidfd) => !matches!(reap(pidfd), Ok(None)),
        None => true,
    }
}
