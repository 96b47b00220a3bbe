//! Files of sessions, which entries name: they lie beside the log until their session is removed.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::{Journal, SessionKey, Sync, journal::Shared};

const FOLDER: &str = "files";

impl Journal {
    /// Keeps a file of a session under a name, which stands for its content, until the session is removed; says where it
    /// lies, absolute. It is whole when this returns. Where both are on one file system it is the same file, else a copy. Blocks for
    /// the disk.
    ///
    /// # Errors
    /// The file system's own. Nothing is left behind then.
    pub fn keep_file(&self, session: SessionKey, file: &Path, name: &str) -> io::Result<PathBuf> {
        let folder = self.shared.make_files(session)?;
        let kept = folder.join(name);
        match fs::hard_link(file, &kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(kept),
            Err(_) => copy(file, &folder, &kept)?,
            Ok(()) => {}
        }
        if self.shared.options.sync == Sync::Full {
            File::open(&kept)?.sync_all()?;
            File::open(&folder)?.sync_all()?;
        }
        Ok(kept)
    }

    /// A new file beside those of a session, to be written and then kept. Blocks for the disk.
    ///
    /// # Errors
    /// The file system's own.
    pub fn new_file(&self, session: SessionKey) -> io::Result<NewFile> {
        NewFile::new_in(&self.shared.make_files(session)?)
    }

    /// Where a kept file of a session lies; `None` where there is none of this name.
    #[must_use]
    pub fn kept_file(&self, session: SessionKey, name: &str) -> Option<PathBuf> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = std::path::absolute(self.shared.files(session))
            .ok()?
            .join(name);
        (is_name && path.is_file()).then_some(path)
    }
}

/// A file that is not whole yet, for this user alone. Its name is removed when it is dropped.
#[derive(Debug)]
pub struct NewFile(PathBuf);

impl NewFile {
    fn new_in(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("new-{}", Uuid::new_v4().simple()));
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It may have another name by now, and no longer this one.
        let _ = fs::remove_file(&self.0);
    }
}

/// Copies a file, so that it has its name when it is whole.
fn copy(file: &Path, folder: &Path, kept: &Path) -> io::Result<()> {
    let new = NewFile::new_in(folder)?;
    fs::copy(file, new.path())?;
    fs::rename(new.path(), kept)
}

impl Shared {
    fn make_files(&self, session: SessionKey) -> io::Result<PathBuf> {
        let folder = std::path::absolute(self.files(session))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(folder)
    }

    fn files(&self, session: SessionKey) -> PathBuf {
        self.folder.join(FOLDER).join(session.0.to_string())
    }

    pub(crate) fn remove_files(&self, session: SessionKey) -> io::Result<()> {
        match fs::remove_dir_all(self.files(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
