//! The lock of a folder: one process has a journal open at a time.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::segment;

/// The file's name in the journal's folder.
const NAME: &str = "lock";

/// Timeout for the lock of a process that has ended or begun to end: the kernel may still close its
/// files, or its adapters may still end.
const ENDING_TIMEOUT: Duration = Duration::from_secs(6);
/// Timeout for the lock of any other process, which may have lost its hub at this moment.
const RUNNING_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The word that the holder adds when it begins to end.
const ENDING_MARK: &str = "ending";

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// Error of [`FolderLock::acquire`].
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process has it.
    Held(Option<u32>),
    Io(io::Error),
}

impl FolderLock {
    /// Acquires the lock and writes this process into it.
    pub(crate) fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(NAME);
        let file = segment::open(&path).map_err(LockError::Io)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = LockHolder::read_lock(&path);
                    let stays = holder
                        .as_ref()
                        .is_some_and(|holder| !holder.is_ending && holder.is_running());
                    let timeout = if stays {
                        RUNNING_TIMEOUT
                    } else {
                        ENDING_TIMEOUT
                    };
                    if begun.elapsed() > timeout {
                        return Err(LockError::Held(holder.map(|holder| holder.pid)));
                    }
                    sleep(RETRY_INTERVAL);
                }
                Err(error) => return Err(LockError::Io(error.into())),
            }
        }
        let text = LockHolder::this_process()
            .map(|own| format!("{} {}\n", own.pid, own.started))
            .unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.write_all_at(text.as_bytes(), 0))
            .map_err(LockError::Io)?;
        (&file).flush().map_err(LockError::Io)?;
        Ok(Self { _file: file })
    }
}

/// Notes that the holder, which is this process, begins to end. The next process waits for it.
pub(crate) fn mark_ending(folder: &Path) {
    let Some(own) = LockHolder::this_process() else {
        return;
    };
    let text = format!("{} {} {ENDING_MARK}\n", own.pid, own.started);
    let written =
        segment::open(&folder.join(NAME)).and_then(|file| file.write_all_at(text.as_bytes(), 0));
    if let Err(error) = written {
        tracing::debug!("the lock of the journal does not note that its holder ends: {error}");
    }
}

/// A process and its start time. A later process of the same number has another one.
#[derive(Debug, PartialEq, Eq)]
struct LockHolder {
    pid: u32,
    started: u64,
    is_ending: bool,
}

impl LockHolder {
    fn this_process() -> Option<Self> {
        let pid = std::process::id();
        Some(Self {
            pid,
            started: process_start(pid)?,
            is_ending: false,
        })
    }

    fn read_lock(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut words = text.split_ascii_whitespace();
        Some(Self {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            is_ending: words.next() == Some(ENDING_MARK),
        })
    }

    fn is_running(&self) -> bool {
        process_start(self.pid) == Some(self.started)
    }
}

/// Returns the start time of a process, in ticks since the boot; `None` if it has ended.
fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may have spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    (!is_dead).then(|| fields.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(folder.path()).unwrap();
        let own = std::process::id();
        assert!(
            matches!(FolderLock::acquire(folder.path()), Err(LockError::Held(Some(pid))) if pid == own)
        );
        drop(first);
        FolderLock::acquire(folder.path()).unwrap();
    }
}
