//! One process has a journal at a time.

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

/// How long the lock of a process is waited for that has ended, or has said that it ends: the kernel may still be
/// closing its files, or its adapters may still be ending.
const ENDING: Duration = Duration::from_secs(6);
/// How long that of any other is waited for: it may have lost its hub in this moment.
const RUNS: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// What the holder adds to its name when it begins to end.
const MARK: &str = "ending";

/// Held as long as it is kept.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Why the lock was not got.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Another process has it.
    Held(Option<u32>),
    Io(io::Error),
}

impl Lock {
    /// Takes the lock and writes down who has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, Refused> {
        let path = folder.join(NAME);
        let file = segment::open(&path).map_err(Refused::Io)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = Holder::read(&path);
                    let stays = holder
                        .as_ref()
                        .is_some_and(|holder| !holder.is_ending && holder.runs());
                    if begun.elapsed() > if stays { RUNS } else { ENDING } {
                        return Err(Refused::Held(holder.map(|holder| holder.pid)));
                    }
                    sleep(LOOK);
                }
                Err(error) => return Err(Refused::Io(error.into())),
            }
        }
        let text = Holder::own()
            .map(|own| format!("{} {}\n", own.pid, own.started))
            .unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.write_all_at(text.as_bytes(), 0))
            .map_err(Refused::Io)?;
        (&file).flush().map_err(Refused::Io)?;
        Ok(Self { _file: file })
    }
}

/// Notes that the holder, which is this process, begins to end: the next one waits for it.
pub(crate) fn mark_ending(folder: &Path) {
    let noted = Holder::own().map(|own| format!("{} {} {MARK}\n", own.pid, own.started));
    let written =
        noted.map(|text| segment::open(&folder.join(NAME))?.write_all_at(text.as_bytes(), 0));
    if let Some(Err(error)) = written {
        tracing::debug!("the lock of the journal does not say that its holder ends: {error}");
    }
}

/// A process, and when it started: a number that is used again has another start.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    started: u64,
    is_ending: bool,
}

impl Holder {
    fn own() -> Option<Self> {
        let pid = std::process::id();
        Some(Self {
            pid,
            started: started(pid)?,
            is_ending: false,
        })
    }

    fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self {
            pid,
            started,
            is_ending: words.next() == Some(MARK),
        })
    }

    fn runs(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process started, in ticks since the boot; `None` where it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may have spaces.
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
        let first = Lock::take(folder.path()).unwrap();
        let own = std::process::id();
        assert!(matches!(Lock::take(folder.path()), Err(Refused::Held(Some(pid))) if pid == own));
        drop(first);
        Lock::take(folder.path()).unwrap();
    }
}
