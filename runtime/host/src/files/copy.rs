//! A bounded copy of a checked file into a folder of ours.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::check::{CheckedFile, within};
use super::refusal::Refusal;

/// How a copy did not come about.
pub(super) enum CopyError {
    /// Something has that name already; nothing was written.
    NameTaken,
    Refused(Refusal),
}

/// Copies `checked` to a new file `name` in `folder` and gives it `mode`; its size in bytes comes back. By reference
/// where the file system can, else byte by byte up to one above the limit, so a file that grows meanwhile costs no
/// more. One that is written meanwhile is refused: no copy has parts of two versions. On any error nothing stays behind.
pub(super) fn copy_into(
    folder: BorrowedFd<'_>,
    name: &str,
    checked: &CheckedFile,
    mode: Mode,
) -> Result<u64, CopyError> {
    // EXCL follows no link at `name` either.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let copy = File::from(opened.map_err(|errno| match errno {
        Errno::EXIST => CopyError::NameTaken,
        other => CopyError::Refused(Refusal::Store(io::Error::from(other).kind())),
    })?);
    fill(&copy, checked, mode).map_err(|refusal| {
        // Best effort: the folder itself is ours and goes in the end.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        CopyError::Refused(refusal)
    })
}

fn fill(copy: &File, checked: &CheckedFile, mode: Mode) -> Result<u64, Refusal> {
    let storing = |error: io::Error| Refusal::Store(error.kind());
    checked.let_rest();
    if !clone_by_reference(copy, checked.file()) {
        let most = checked.limit().saturating_add(1);
        io::copy(&mut checked.file().take(most), &mut &*copy).map_err(|error| match error.kind() {
            kind @ (io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::ReadOnlyFilesystem) => Refusal::Store(kind),
            kind => Refusal::Unreadable(kind),
        })?;
    }
    let size = copy.metadata().map_err(storing)?.len();
    within(size, checked.limit())?;
    checked.check_unchanged()?;
    rustix::fs::fchmod(copy, mode).map_err(|errno| storing(errno.into()))?;
    Ok(size)
}

/// Shares the blocks of `source`, where both are on one file system that can; by handles, so that no path is opened
/// a second time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn clone_by_reference(copy: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn clone_by_reference(_copy: &File, _source: &File) -> bool {
    false
}
