//! Cues: the runner signals a stub to continue, without the host.
//!
//! A case that needs an order of events, such as a crash after a request was seen, cannot rely on
//! time: a busy machine stretches any delay. A cue is a file beside the log, which every start of
//! the stub sees in any namespace.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a cue. Only a case that has failed leaves it out.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Gives a cue to the stubs that log to `log`, for good.
///
/// # Errors
///
/// When its file cannot be made.
pub fn give(log: &Path, name: &str) -> io::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path(log, name))
        .map(drop)
}

pub(super) fn is_given(log: &Path, name: &str) -> bool {
    path(log, name).exists()
}

fn path(log: &Path, name: &str) -> PathBuf {
    let mut path = OsString::from(log);
    path.push(format!(".{name}.cue"));
    path.into()
}
