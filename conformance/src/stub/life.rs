//! Liveness of a start of the stub, without process ids.
//!
//! A host may put its adapter into a PID namespace or a container, where every start has the same
//! pid, which belongs to another process outside. So each start holds a lock on a file of its own
//! beside the log, from before its first record to its end. The kernel releases the lock, however
//! the process ends; the descriptor is closed on exec, so no child keeps it. A stopped process
//! still holds it, a zombie does not.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Takes the lock of a start. It is held until the file is dropped, or the process ends.
pub(super) fn hold(log: &Path, start: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path(log, start))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Returns true if the start of this number, as recorded in the log at `log`, still runs.
#[must_use]
pub fn is_running(log: &Path, start: u32) -> bool {
    match File::open(path(log, start)) {
        // Only one that is free can be shared. What cannot be asked is not taken for gone.
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn path(log: &Path, start: u32) -> PathBuf {
    let mut path = OsString::from(log);
    path.push(format!(".{start}.lock"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_runs_while_its_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.jsonl");
        assert!(!is_running(&log, 1));
        let held = hold(&log, 1).unwrap();
        assert!(is_running(&log, 1) && !is_running(&log, 2));
        assert!(hold(&log, 1).is_err());
        drop(held);
        assert!(!is_running(&log, 1));
    }
}
