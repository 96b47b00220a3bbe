//! Live trees on disk, so that a restarted host ends what a power cut or SIGKILL left.
//!
//! One small file for each tree, written before its first process exists and removed after its last
//! has gone. The host holds a lock on it meanwhile, which the kernel takes from it when it ends,
//! whatever its end: a record that can be locked has no host. Two hosts that share the folder, also
//! from PID namespaces of their own, do not meet.

use std::path::PathBuf;

mod entry;
mod kept;
mod orphans;
mod search;

pub(crate) use self::entry::TreeRecord;
pub use self::kept::FolderRecord;
pub(crate) use self::kept::Record;
pub use self::orphans::sweep;

/// Result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Trees whose host is gone, and which are gone too by now.
    pub trees: usize,
    /// Processes of theirs that still ran, and were killed.
    pub processes: usize,
    /// Folders and cgroups of theirs that were removed.
    pub folders: usize,
    /// Trees that could not be ended: a process that SIGKILL does not end yet, a folder that cannot
    /// be removed. Their records stay for the next sweep.
    pub unfinished: Vec<PathBuf>,
    /// Files that are not records, or that name things which no host has made. They and what they
    /// name are left untouched.
    pub refused: Vec<(PathBuf, String)>,
}
