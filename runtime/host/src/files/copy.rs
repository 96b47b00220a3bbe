//! A bounded copy of a checked file into a folder of ours.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use trunkline_protocol::{Hasher, Sha256};

use super::check::{CheckedFile, within};
use super::refusal::Refusal;

/// A copy that is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied {
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) sha256: Sha256,
}

/// Error of a copy.
pub(super) enum CopyError {
    /// Something has that name already; nothing was written.
    NameTaken,
    Refused(Refusal),
}

/// Copies `checked` to a new file `name` in `folder` and gives it `mode`. By reference where the
/// file system can, else byte by byte; either way no more is read than one byte above the limit, so
/// a file that grows meanwhile costs no more. One that is written meanwhile, or is not as it was
/// announced, is refused: no copy has parts of two versions. On any error nothing stays behind.
pub(super) fn copy_into(
    folder: BorrowedFd<'_>,
    name: &str,
    checked: &CheckedFile,
    mode: Mode,
) -> Result<Copied, CopyError> {
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

fn fill(copy: &File, checked: &CheckedFile, mode: Mode) -> Result<Copied, Refusal> {
    let storing = |error: io::Error| Refusal::Store(error.kind());
    checked.let_rest();
    let mut source = Hasher::new(checked.file().take(checked.limit().saturating_add(1)));
    let read = if clone_by_reference(copy, checked.file()) {
        io::copy(&mut source, &mut io::sink())
    } else {
        io::copy(&mut source, &mut &*copy)
    };
    read.map_err(|error| match error.kind() {
        kind @ (io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::FileTooLarge
        | io::ErrorKind::ReadOnlyFilesystem) => Refusal::Store(kind),
        kind => Refusal::Unreadable(kind),
    })?;
    let (size, sha256) = source.finish();
    within(size, checked.limit())?;
    checked.check_unchanged()?;
    checked.check_digest(sha256)?;
    rustix::fs::fchmod(copy, mode).map_err(|errno| storing(errno.into()))?;
    Ok(Copied { size, sha256 })
}

/// Shares the blocks of `source`, where both are on one file system that can; by handles, so that
/// no path is opened a second time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn clone_by_reference(copy: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn clone_by_reference(_copy: &File, _source: &File) -> bool {
    false
}
