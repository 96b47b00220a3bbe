//! Opening a folder below a handle without following a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::refusal::Refusal;

/// Flags that open a directory to traverse it, not to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) const SEARCH: OFlags = OFlags::PATH;
/// Flags that open a directory to traverse it; this system has no narrower ones.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const SEARCH: OFlags = OFlags::RDONLY;

/// A way to open `folder` (relative, without `..`, not empty) below a root.
pub(super) type OpenFolder = fn(BorrowedFd<'_>, &Path) -> Result<OwnedFd, Refusal>;

/// Opens a folder below `root`: the kernel confines the whole walk where it can (`openat2`), else we take one
/// component at a time.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_folder(root: BorrowedFd<'_>, folder: &Path) -> Result<OwnedFd, Refusal> {
    use rustix::fs::ResolveFlags;

    /// Limit of retries of a walk that raced with a rename somewhere on the system.
    const RACES: usize = 32;

    let flags = SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RACES {
        match rustix::fs::openat2(root, folder, flags, Mode::empty(), resolve) {
            Ok(handle) => return Ok(handle),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Kernels before 5.6, and filters that answer for unknown calls.
            Err(Errno::NOSYS | Errno::PERM) => return walk_to_folder(root, folder),
            Err(errno) => return Err(Refusal::on_open(errno)),
        }
    }
    Err(Refusal::Changed)
}

/// Opens a folder below `root`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn open_folder(root: BorrowedFd<'_>, folder: &Path) -> Result<OwnedFd, Refusal> {
    walk_to_folder(root, folder)
}

/// Opens a folder below `root`, one component at a time: each is looked up in the handle of the one
/// before, and a link is not followed, so no rename on the way leads out.
pub(super) fn walk_to_folder(root: BorrowedFd<'_>, folder: &Path) -> Result<OwnedFd, Refusal> {
    let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    for component in folder.components() {
        let Component::Normal(name) = component else {
            return Err(Refusal::Outside);
        };
        let here = at.as_ref().map_or(root, AsFd::as_fd);
        let opened = rustix::fs::openat(here, name, flags, Mode::empty());
        let next = opened.map_err(|errno| match errno {
            // A link answers like a file here; a look distinguishes them, for the report only.
            Errno::NOTDIR if is_symlink(here, name) => Refusal::Symlink,
            other => Refusal::on_open(other),
        })?;
        at = Some(next);
    }
    at.ok_or(Refusal::NotRegular)
}

fn is_symlink(folder: BorrowedFd<'_>, name: &std::ffi::OsStr) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
