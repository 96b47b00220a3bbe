//! A record as its host keeps it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use super::entry::{NO_TREE, StartedProcess, TreeRecord};

/// Limit of skipped names that are in use.
const NAMES_TRIED: usize = 1000;

/// The record of a live tree, locked. Dropping it removes it: the tree has ended.
#[derive(Debug)]
pub(crate) struct Record {
    /// `None` when it is to stay.
    path: Option<PathBuf>,
    file: Arc<File>,
}

impl Record {
    /// Writes a record into `dir`, which is made if it is missing. Blocks.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn create(dir: &Path, entry: &TreeRecord) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..NAMES_TRIED {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(name(
                entry.host.pid.as_raw_nonzero().get().cast_unsigned(),
                number,
            ));
            let made = OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path);
            let file = match made {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // From here on dropping it removes it.
            let mut record = Self {
                path: Some(path),
                file: Arc::new(file),
            };
            // A sweep holds the lock for as long as it takes to see that the file is empty, and to remove it.
            rustix::io::retry_on_intr(|| flock(&record.file, FlockOperation::LockExclusive))?;
            if record.file.metadata()?.nlink() == 0 {
                record.path = None;
                continue;
            }
            (&*record.file).write_all(entry.to_text().as_bytes())?;
            return Ok(record);
        }
        Err(Errno::EXIST.into())
    }

    /// Returns the writer that adds the first process after its start.
    pub(crate) fn writer(&self) -> Writer {
        Writer(Arc::clone(&self.file))
    }

    /// Leaves the record to a later sweep.
    pub(crate) fn abandon(mut self) {
        self.path = None;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(path) = self.path.take()
            && let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(?path, %error, "could not remove the record of a tree that has ended");
        }
    }
}

/// The record of the host's own folder, without a tree. Dropping it removes the record, not the
/// folder.
///
/// The folder's name begins with `trunkline-`, and other users may not write to it; any other
/// folder is not swept.
#[derive(Debug)]
pub struct FolderRecord(Record);

impl FolderRecord {
    /// Records `folder` in `records` until it is dropped: when this host is killed, the next one's
    /// [`sweep`](crate::sweep) removes it. Blocks.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn create(records: &Path, folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let mut entry = TreeRecord::of_this_host(NO_TREE)?;
        entry.folder = Some((fs::symlink_metadata(&folder)?.ino(), folder));
        Record::create(records, &entry).map(Self)
    }

    /// Leaves the record to the next host's sweep: the folder could not be removed.
    pub fn keep(self) {
        self.0.abandon();
    }
}

/// The way into a record.
#[derive(Debug)]
pub(crate) struct Writer(Arc<File>);

impl Writer {
    /// Adds the first process of the tree, a child of this process that is not reaped. Blocks.
    pub(crate) fn leader(&self, pid: u32) {
        let gone = || io::Error::other("/proc does not show it");
        let leader = Pid::from_raw(pid.cast_signed())
            .and_then(StartedProcess::from_pid)
            .ok_or_else(gone);
        let written = leader
            .and_then(|leader| (&*self.0).write_all(TreeRecord::leader_text(leader).as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "the record of a tree does not name its first process");
        }
    }
}

fn name(host: u32, number: u64) -> String {
    format!("tree-{host}-{number}")
}

/// Returns true for the file name of a record.
pub(super) fn is_name(name: &str) -> bool {
    let numbers = name
        .strip_prefix("tree-")
        .and_then(|rest| rest.split_once('-'));
    numbers
        .is_some_and(|(host, number)| host.parse::<u32>().is_ok() && number.parse::<u64>().is_ok())
}
