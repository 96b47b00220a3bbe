//! The folders that files may be taken from.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::confined::{SEARCH, open_folder};

/// The allowed roots of a session, each held open: what a root means does not change when its path
/// does.
///
/// Cheap to clone; a session's roots are its agent's plus its own. Dropping the last clone closes
/// the handles.
#[derive(Clone, Default)]
pub struct Roots {
    roots: Vec<Arc<Root>>,
}

/// An allowed folder.
pub(super) struct Root {
    /// As it was given: what the adapter knows.
    named: PathBuf,
    /// Path without links, as an adapter that resolves its own directory writes it.
    real: PathBuf,
    handle: OwnedFd,
}

/// A folder that may become a root, and the target of its path at that time.
///
/// A root is opened anew for each file, and a program that may write above it can turn a folder on
/// the way into a link to anywhere. So links are followed once, before anything hostile runs; from
/// then on the target itself is opened, without any link. The folder need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    named: PathBuf,
    real: PathBuf,
}

impl Pinned {
    /// Follows the links on the way to a folder, or to the existing part of the way.
    ///
    /// # Errors
    ///
    /// The path is not absolute, is `/`, climbs with `..` below a missing folder, or cannot be
    /// read.
    pub fn new(path: &Path) -> Result<Self, RootError> {
        if !path.is_absolute() {
            return Err(RootError::NotAbsolute(path.to_owned()));
        }
        let failed = |source| RootError::Open {
            path: path.to_owned(),
            source,
        };
        let mut there = Err(failed(io::ErrorKind::NotFound.into()));
        for above in path.ancestors() {
            match std::fs::canonicalize(above) {
                Ok(real) => {
                    there = Ok((real, path.strip_prefix(above).unwrap_or(Path::new(""))));
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let (real, rest) = there?;
        if rest
            .components()
            .any(|component| !matches!(component, Component::Normal(_)))
        {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let real = if rest.as_os_str().is_empty() {
            real
        } else {
            real.join(rest)
        };
        if real.parent().is_none() {
            return Err(RootError::WholeFileSystem(path.to_owned()));
        }
        Ok(Self {
            named: path.to_owned(),
            real,
        })
    }

    /// A folder whose path is known to have no link, such as one that the host has made.
    #[must_use]
    pub fn exactly(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            named: path.clone(),
            real: path,
        }
    }

    /// The folder as it was named.
    pub(crate) fn named(&self) -> &Path {
        &self.named
    }

    /// The folder, without links.
    pub fn real(&self) -> &Path {
        &self.real
    }
}

/// A folder that cannot be an allowed root; the texts read after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The path is not absolute.
    #[error("allow the folder `{0}`: it is not an absolute path")]
    NotAbsolute(PathBuf),
    /// The path is the root of the file system, which would confine nothing.
    #[error("allow the folder `{0}`: it is the whole file system; name a folder in it")]
    WholeFileSystem(PathBuf),
    /// The folder is missing, not a directory, or closed to this user.
    #[error("allow the folder `{path}`")]
    Open {
        /// The folder.
        path: PathBuf,
        /// The system's error.
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
        self.allow_pinned(&Pinned::new(path)?)
    }

    /// Adds a folder whose place is known, which must exist. No link is followed.
    ///
    /// # Errors
    ///
    /// When it is `/`, or does not open as a directory.
    pub fn allow_pinned(&mut self, pinned: &Pinned) -> Result<(), RootError> {
        let Pinned { named, real } = pinned;
        let failed = |source| RootError::Open {
            path: named.clone(),
            source,
        };
        let rest = match real.strip_prefix("/") {
            Ok(rest) if rest.as_os_str().is_empty() => {
                return Err(RootError::WholeFileSystem(named.clone()));
            }
            Ok(rest) => rest,
            Err(_) => return Err(RootError::NotAbsolute(named.clone())),
        };
        if self
            .roots
            .iter()
            .any(|root| root.real == *real && root.named == *named)
        {
            return Ok(());
        }
        let flags = SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let whole =
            rustix::fs::open("/", flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let handle = open_folder(whole.as_fd(), rest)
            .map_err(|refusal| failed(io::Error::other(refusal)))?;
        self.roots.push(Arc::new(Root {
            named: named.clone(),
            real: real.clone(),
            handle,
        }));
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

    /// Returns the innermost root that contains `path`, which has no `..`, by its text, and the
    /// rest below it.
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
