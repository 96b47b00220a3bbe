//! The exchange folder of a session.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use trunkline_process::remove_tree;
use uuid::Uuid;

use super::copy::{CopyError, copy_into};
use super::judge::Judged;
use super::label;
use super::refusal::Refusal;

/// How many numbered names are tried before a random one.
const NUMBERED: usize = 100;

/// A session's private folder (0700) that host and adapter both use ([file.6]). Dropping it removes it with all it
/// holds; [`Exchange::close`] does the same and says whether it worked.
#[derive(Debug)]
pub struct Exchange {
    /// Empty once it is removed.
    folder: PathBuf,
}

/// A hub's file in the exchange folder: whole, the adapter's to read and to change, there until the session closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where it is, absolute: `file_path` of `file.input`.
    pub path: PathBuf,
    /// The label, made safe: `file_name` of `file.input`. The name in `path` may have a number more.
    pub file_name: String,
    /// Its size in bytes.
    pub size: u64,
}

impl Exchange {
    /// Makes a new folder in `parent`, which must exist.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let parent = std::path::absolute(parent)?;
        let private = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("exchange-").permissions(private).tempdir_in(parent)?;
        // The umask may have taken bits away.
        std::fs::set_permissions(made.path(), std::fs::Permissions::from_mode(0o700))?;
        Ok(Self { folder: made.keep() })
    }

    /// The folder, absolute: `session.start.exchange_dir`.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Copies a hub's file in, whole, under a name made of `label` (or of the path, [file.5]) that nothing in the
    /// folder has. `source` may be any regular file that this user can read: the hub is trusted to name it.
    ///
    /// # Errors
    ///
    /// As [`store`](super::store()); also [`Refusal::NotAbsolute`], [`Refusal::Missing`], [`Refusal::NotRegular`].
    /// Nothing stays behind then.
    pub fn place(&self, source: &Path, label: Option<&str>, max_bytes: u64) -> Result<Placed, Refusal> {
        let judged = Judged::of_hub(source, max_bytes)?;
        let file_name = label::file_name(label, source);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(self.path(), flags, Mode::empty())
            .map_err(|errno| Refusal::Store(io::Error::from(errno).kind()))?;
        let numbers = (2..=NUMBERED).map(|number| label::numbered(&file_name, &number.to_string()));
        let random =
            std::iter::once_with(|| label::numbered(&file_name, &Uuid::new_v4().simple().to_string()));
        for name in std::iter::once(file_name.clone()).chain(numbers).chain(random) {
            match copy_into(folder.as_fd(), &name, &judged, Mode::RUSR | Mode::WUSR) {
                Ok(size) => return Ok(Placed { path: self.path().join(name), file_name, size }),
                Err(CopyError::NameTaken) => {}
                Err(CopyError::Refused(refusal)) => return Err(refusal),
            }
        }
        Err(Refusal::Store(io::ErrorKind::AlreadyExists))
    }

    /// Removes the folder and all it holds.
    ///
    /// # Errors
    ///
    /// What the file system says, for example where the adapter left what belongs to another user.
    pub fn close(mut self) -> io::Result<()> {
        remove_tree(&std::mem::take(&mut self.folder))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty()
            && let Err(error) = remove_tree(&self.folder)
        {
            tracing::warn!(path = ?self.folder, %error, "could not remove an exchange folder");
        }
    }
}
