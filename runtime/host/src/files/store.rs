//! The host's own copies of the files it took.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use trunkline_protocol::Sha256;
use uuid::Uuid;

use super::check::CheckedFile;
use super::copy::{Copied, CopyError, copy_into};
use super::refusal::Refusal;

/// A private folder (0700) for copies, held open. Dropping it closes the handle and leaves the
/// files: a hub may still read them; [`StoreDir::remove`] takes all away.
#[derive(Debug)]
pub struct StoreDir {
    path: PathBuf,
    handle: OwnedFd,
}

/// A copy in a [`StoreDir`]: read-only, under a random name, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// The absolute path, as a hub sees it ([file.7]).
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub sha256: Sha256,
}

impl StoreDir {
    /// Opens the folder, made with its parents if missing, and closes it to other users.
    ///
    /// # Errors
    ///
    /// When it cannot be made or opened, is a link, or belongs to someone else.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty())?;
        if rustix::fs::fstat(&handle)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the folder for stored files belongs to another user",
            ));
        }
        rustix::fs::fchmod(&handle, Mode::RWXU)?;
        Ok(Self { path, handle })
    }

    /// The folder, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes one copy; a missing one is not an error.
    ///
    /// # Errors
    ///
    /// The file system's error.
    pub fn forget(&self, file: &StoredFile) -> io::Result<()> {
        let Some(name) = file.path.file_name() else {
            return Ok(());
        };
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the folder and every copy in it.
    ///
    /// # Errors
    ///
    /// The file system's error; some copies may be removed by then.
    pub fn remove(self) -> io::Result<()> {
        trunkline_process::remove_tree(&self.path)
    }
}

/// Copies a checked file into the host's store, by reference where the file system can. Bounded by
/// the limit it was checked by, even if it grows meanwhile; a file that is written meanwhile is
/// refused, and nothing stays behind.
///
/// # Errors
///
/// [`Refusal::TooLarge`], [`Refusal::Changed`], [`Refusal::OtherDigest`], [`Refusal::Unreadable`]
/// for the file, [`Refusal::Store`] for the store.
pub fn store(checked: &CheckedFile, dir: &StoreDir) -> Result<StoredFile, Refusal> {
    let name = Uuid::new_v4().simple().to_string();
    match copy_into(dir.handle.as_fd(), &name, checked, Mode::RUSR) {
        Ok(Copied { size, sha256 }) => Ok(StoredFile {
            path: dir.path.join(name),
            size,
            sha256,
        }),
        Err(CopyError::Refused(refusal)) => Err(refusal),
        // A random name of 122 bits that exists was put there to be found.
        Err(CopyError::NameTaken) => Err(Refusal::Store(io::ErrorKind::AlreadyExists)),
    }
}
