//! Files of sessions, which entries name: they lie beside the log until their session is removed.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
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
        let folder = std::path::absolute(self.shared.files(session))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
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
}

impl Journal {
    /// Where a kept file of a session lies; `None` where there is none of this name.
    #[must_use]
    pub fn kept_file(&self, session: SessionKey, name: &str) -> Option<PathBuf> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = std::path::absolute(self.shared.files(session)).ok()?.join(name);
        (is_name && path.is_file()).then_some(path)
    }
}

/// Copies a file, so that it has its name when it is whole.
fn copy(file: &Path, folder: &Path, kept: &Path) -> io::Result<()> {
    let new = folder.join(format!("new-{}", Uuid::new_v4().simple()));
    let copied = fs::copy(file, &new).and_then(|_| fs::rename(&new, kept));
    if copied.is_err() {
        // It may not be there.
        let _ = fs::remove_file(new);
    }
    copied
}

impl Shared {
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
