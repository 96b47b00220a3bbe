//! Files of sessions, named by entries: kept beside the log until their session is removed.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::{Journal, SessionKey, SyncMode, journal::JournalState};

const FOLDER: &str = "files";

impl Journal {
    /// Keeps a file of a session, until the session is removed, and returns its absolute path.
    /// `name` identifies the content.
    ///
    /// The file is whole when this returns. It is a link if both are on one file system, otherwise
    /// a copy. Blocks for the disk.
    ///
    /// # Errors
    /// The file system's own. Nothing is left behind then.
    pub fn keep_file(&self, session: SessionKey, file: &Path, name: &str) -> io::Result<PathBuf> {
        let folder = self.state.make_session_folder(session)?;
        let kept = folder.join(name);
        match fs::hard_link(file, &kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(kept),
            Err(_) => copy_whole(file, &folder, &kept)?,
            Ok(()) => {}
        }
        if self.state.options.sync == SyncMode::Full {
            File::open(&kept)?.sync_all()?;
            File::open(&folder)?.sync_all()?;
        }
        Ok(kept)
    }

    /// Makes a new file beside a session's, for the caller to write and keep. Blocks for the disk.
    ///
    /// # Errors
    /// The file system's own.
    pub fn new_file(&self, session: SessionKey) -> io::Result<NewFile> {
        NewFile::new_in(&self.state.make_session_folder(session)?)
    }

    /// Returns the path of a kept file of a session, if one has this name.
    #[must_use]
    pub fn kept_file(&self, session: SessionKey, name: &str) -> Option<PathBuf> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = std::path::absolute(self.state.session_folder(session))
            .ok()?
            .join(name);
        (is_name && path.is_file()).then_some(path)
    }
}

/// A file that is not whole yet, readable by this user only. Dropping it removes its name.
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

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A kept file has another name by now, and may have lost this one.
        let _ = fs::remove_file(&self.0);
    }
}

/// Copies a file, so that the copy has its name only when it is whole.
fn copy_whole(file: &Path, folder: &Path, kept: &Path) -> io::Result<()> {
    let new = NewFile::new_in(folder)?;
    fs::copy(file, new.path())?;
    fs::rename(new.path(), kept)
}

impl JournalState {
    fn make_session_folder(&self, session: SessionKey) -> io::Result<PathBuf> {
        let folder = std::path::absolute(self.session_folder(session))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(folder)
    }

    fn session_folder(&self, session: SessionKey) -> PathBuf {
        self.folder.join(FOLDER).join(session.0.to_string())
    }

    pub(crate) fn remove_files(&self, session: SessionKey) -> io::Result<()> {
        match fs::remove_dir_all(self.session_folder(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
