//! The folders that files may be taken from.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::confined::SEARCH;

/// The allowed roots of a session, each held open: what a root means does not change when its path does.
///
/// Cheap to clone; a session's roots are its agent's plus its own. Dropping the last clone closes the handles.
#[derive(Clone, Default)]
pub struct Roots {
    roots: Vec<Arc<Root>>,
}

/// One allowed folder.
pub(super) struct Root {
    /// As it was given: what the adapter was told.
    named: PathBuf,
    /// Without links: what an adapter that resolves its own directory says.
    real: PathBuf,
    handle: OwnedFd,
}

/// A folder that cannot be an allowed root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// It is not absolute.
    #[error("allow the folder `{0}`: it is not an absolute path")]
    NotAbsolute(PathBuf),
    /// It is the root of the file system, which would confine nothing.
    #[error("allow the folder `{0}`: it is the whole file system; name a folder in it")]
    WholeFileSystem(PathBuf),
    /// It is missing, not a directory, or closed to this user.
    #[error("allow the folder `{path}`")]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why it did not open.
        source: io::Error,
    },
}

impl Roots {
    /// No roots: every path is outside.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder, which must exist. Links on the way to it are followed once, here.
    ///
    /// # Errors
    ///
    /// When it is not absolute, is `/`, or does not open as a directory.
    pub fn allow(&mut self, path: &Path) -> Result<(), RootError> {
        if !path.is_absolute() {
            return Err(RootError::NotAbsolute(path.to_owned()));
        }
        let failed = |source| RootError::Open { path: path.to_owned(), source };
        let real = std::fs::canonicalize(path).map_err(failed)?;
        if real.parent().is_none() {
            return Err(RootError::WholeFileSystem(path.to_owned()));
        }
        if self.roots.iter().any(|root| root.real == real && root.named == path) {
            return Ok(());
        }
        let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&real, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        self.roots.push(Arc::new(Root { named: path.to_owned(), real, handle }));
        Ok(())
    }

    /// These roots and one more.
    ///
    /// # Errors
    ///
    /// As [`Roots::allow`].
    pub fn and(mut self, path: &Path) -> Result<Self, RootError> {
        self.allow(path)?;
        Ok(self)
    }

    /// The folders, without links.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real.as_path())
    }

    /// The innermost root that `path`, which has no `..`, lies in by its letters, and the rest below it.
    pub(super) fn holding<'p>(&self, path: &'p Path) -> Option<(&Root, &'p Path)> {
        self.roots
            .iter()
            .flat_map(|root| {
                [&root.named, &root.real]
                    .into_iter()
                    .filter_map(|dir| Some((&**root, path.strip_prefix(dir).ok()?)))
            })
            .min_by_key(|(_, rest)| rest.components().count())
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.paths()).finish()
    }
}
