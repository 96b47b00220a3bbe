//! The folder that belongs to one process ([process.6], [process.7]).

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::remove::remove_tree;

/// Prefix of its name.
pub(crate) const PREFIX: &str = "trunkline-";

/// A folder (0700) for one process: `tmp/`, its `TMPDIR`, and beside it `config.json` (0600).
///
/// Files that the child announces may come from its `TMPDIR`; the configuration may hold secrets,
/// so it is outside. Dropping removes everything and blocks meanwhile, so it is dropped where
/// blocking is allowed, after the process has ended.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    path: PathBuf,
    temp: PathBuf,
    config: Option<PathBuf>,
    /// True if it is removed, or left to the next host.
    is_settled: bool,
}

impl PrivateDir {
    /// Makes the folder under `root`. Blocks.
    pub(crate) fn create(root: &Path, config: Option<&[u8]>) -> io::Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(std::path::absolute(root)?)?
            .keep();
        let mut made = Self {
            temp: path.join("tmp"),
            path,
            config: None,
            is_settled: false,
        };
        DirBuilder::new().mode(0o700).create(&made.temp)?;
        if let Some(json) = config {
            let file = made.path.join("config.json");
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&file)?
                .write_all(json)?;
            made.config = Some(file);
        }
        Ok(made)
    }

    /// Returns its inode, which identifies it among all folders of the same name.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        Ok(fs::symlink_metadata(&self.path)?.ino())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn temp(&self) -> &Path {
        &self.temp
    }

    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Removes the configuration file, as soon as its reader has ended; the folder may still be
    /// wanted for files that the process announced with its last bytes.
    pub(crate) fn forget_config(&mut self) {
        let Some(file) = self.config.take() else {
            return;
        };
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(?file, %error, "could not remove a configuration file");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Removes everything; after a failure, again. Blocks.
    ///
    /// # Errors
    ///
    /// When the folder is still there.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        remove_tree(&self.path)?;
        self.is_settled = true;
        Ok(())
    }

    /// Leaves the folder where it is.
    pub(crate) fn leave(mut self) {
        self.is_settled = true;
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.is_settled
            && let Err(error) = self.remove()
        {
            tracing::warn!(path = ?self.path, %error, "could not remove a private folder");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_folder_is_private_and_the_configuration_lies_outside_tmpdir() {
        let root = tempfile::tempdir().unwrap();
        let mut dir = PrivateDir::create(root.path(), Some(b"{}")).unwrap();
        let config = dir.config().unwrap().to_owned();
        assert_eq!(mode(dir.path()), 0o700);
        assert_eq!(mode(dir.temp()), 0o700);
        assert_eq!(mode(&config), 0o600);
        assert_eq!(fs::read(&config).unwrap(), b"{}");
        assert!(!config.starts_with(dir.temp()));

        dir.forget_config();
        assert!(!config.exists());
        assert!(dir.temp().is_dir());
    }

    #[test]
    fn what_the_process_locked_is_removed_too() {
        let root = tempfile::tempdir().unwrap();
        let dir = PrivateDir::create(root.path(), None).unwrap();
        let deep = dir.temp().join("cache/deeper");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        fs::set_permissions(&deep, Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(deep.parent().unwrap(), Permissions::from_mode(0o000)).unwrap();
        drop(dir);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
