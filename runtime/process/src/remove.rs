//! Removes a tree of folders, however a hostile program made it.
//!
//! A removal level by level, like [`std::fs::remove_dir_all`], holds a stack frame and a descriptor
//! for each level, so some thousand levels end the program. Here no folder is entered that is
//! deeper than one level below the top. Folders found there are moved up under new names and
//! emptied in turn. This takes five descriptors and the same stack for any tree.

use std::ffi::{CStr, CString};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, fchmod, fstat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

/// Limit of passes, for a file system that does not list everything at once, or a program that
/// writes meanwhile.
const ROUNDS: usize = 16;

/// Limit of names that are tried for one folder that moves up. Later rounds find free names.
const NAMES_TRIED: usize = 1000;

/// Name prefix of folders that moved up.
const MOVED: &str = ".trunkline-removed-";

/// Removes a folder with its content. A missing folder is not an error; anything else, a link for
/// example, is removed itself. Blocks.
///
/// Links are not followed, mount points not entered, and every name is resolved in a folder that is
/// held open, so a program that swaps names meanwhile has no effect. Nested folders that deny
/// access to their owner are opened to the owner only. One entry that cannot be removed does not
/// stop the others.
///
/// # Errors
///
/// The first failure of the last attempt, if the folder still exists.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{path:?} names no folder to remove"),
        ));
    };
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let parent = match openat(
        CWD,
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(failed("open", parent, error)),
    };
    let top = match open_folder(&parent, name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return match unlinkat(&parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(failed("remove", name, error)),
            };
        }
        Err(error) => return Err(failed("open", name, error)),
    };
    let mut removal = Removal {
        top,
        moved: 0,
        taken: 0,
        has_removed: false,
        failure: None,
    };
    for left in (0..ROUNDS).rev() {
        removal.round();
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) if left > 0 && removal.is_worth_another_round() => {
            }
            Err(error) => {
                return Err(removal
                    .failure
                    .unwrap_or_else(|| failed("remove", name, error)));
            }
        }
    }
    Ok(())
}

struct Removal {
    top: OwnedFd,
    /// Number of names given to folders that moved up, and of those emptied.
    moved: u64,
    taken: u64,
    /// True if this round has removed something.
    has_removed: bool,
    /// The first of this round.
    failure: Option<io::Error>,
}

impl Removal {
    /// Looks through the top once, and through all that moves there meanwhile.
    fn round(&mut self) {
        self.has_removed = false;
        self.failure = None;
        match openat(&self.top, c".", FOLDER, Mode::empty()).and_then(Dir::new) {
            Ok(listing) => each(listing, |entry| match entry {
                Ok((name, kind)) => self.take(name, kind),
                Err(error) => self.note("read", ".", error),
            }),
            Err(error) => self.note("read", ".", error),
        }
        while self.taken < self.moved {
            let name = fresh(self.taken);
            self.taken += 1;
            self.take(name.as_c_str(), FileType::Unknown);
        }
    }

    fn is_worth_another_round(&self) -> bool {
        self.has_removed || self.failure.is_none()
    }

    /// Removes an entry of the top.
    fn take(&mut self, name: &CStr, kind: FileType) {
        if self.is_gone(unlink(&self.top, name, kind), name) {
            return;
        }
        let folder = match open_folder(&self.top, name) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return,
            Err(error) => return self.note("open", name, error),
        };
        match openat(&folder, c".", FOLDER, Mode::empty()).and_then(Dir::new) {
            Ok(listing) => each(listing, |entry| match entry {
                Ok((name, kind)) => {
                    if !self.is_gone(unlink(&folder, name, kind), name) {
                        self.move_up(&folder, name);
                    }
                }
                Err(error) => self.note("read", name, error),
            }),
            Err(error) => self.note("read", name, error),
        }
        if !self.is_gone(unlink(&self.top, name, FileType::Directory), name) {
            self.note("remove", name, Errno::NOTEMPTY);
        }
    }

    /// Returns true if an entry needs no more work: it is removed, or has failed. Otherwise it is a
    /// folder with content and no mount point, which the kernel reports as busy before it reports
    /// it as full.
    fn is_gone(&mut self, unlinked: Result<(), Errno>, name: &CStr) -> bool {
        match unlinked {
            Ok(()) => self.has_removed = true,
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return false,
            Err(error) => self.note("remove", name, error),
        }
        true
    }

    /// Moves a full folder to the top. A name that is taken is passed over: what has it goes in its turn.
    fn move_up(&mut self, folder: &OwnedFd, name: &CStr) {
        let mut is_opened = false;
        for _ in 0..NAMES_TRIED {
            let number = self.moved;
            self.moved += 1;
            match renameat(folder, name, &self.top, fresh(number).as_c_str()) {
                Ok(()) | Err(Errno::NOENT) => return,
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                // What gets another parent must be writable itself.
                Err(Errno::ACCESS) if !is_opened => {
                    is_opened = true;
                    let _ = open_folder(folder, name);
                }
                Err(error) => return self.note("move", name, error),
            }
        }
        self.note("move", name, Errno::EXIST);
    }

    fn note(&mut self, what: &str, name: impl Debug, error: Errno) {
        if self.failure.is_none() {
            self.failure = Some(failed(what, name, error));
        }
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a folder, which its owner may read, write and search then. Fails with `NOTDIR` for a link.
fn open_folder(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let folder = match openat(&at, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // A handle that needs no permission; by its link in /proc, no name is resolved again.
            let handle = openat(&at, name, FOLDER | OFlags::PATH, Mode::empty())?;
            let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
            chmodat(CWD, link, Mode::RWXU, AtFlags::empty()).map_err(|_| Errno::ACCESS)?;
            openat(&at, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(Mode::RWXU) {
        // A folder of another user: a failure matters only if it has content.
        let _ = fchmod(&folder, Mode::RWXU);
    }
    Ok(folder)
}

/// Gives every entry but `.` and `..` to `take`, which may remove it.
fn each(mut listing: Dir, mut take: impl FnMut(Result<(&CStr, FileType), Errno>)) {
    while let Some(entry) = listing.read() {
        match entry {
            Ok(entry) if entry.file_name() == c"." || entry.file_name() == c".." => {}
            Ok(entry) => take(Ok((entry.file_name(), entry.file_type()))),
            Err(error) => return take(Err(error)),
        }
    }
}

fn unlink(folder: &OwnedFd, name: &CStr, kind: FileType) -> Result<(), Errno> {
    if !matches!(kind, FileType::Directory | FileType::Unknown) {
        return unlinkat(folder, name, AtFlags::empty());
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTDIR) => unlinkat(folder, name, AtFlags::empty()),
        done => done,
    }
}

/// The name of a folder that moved up.
fn fresh(number: u64) -> CString {
    CString::new(format!("{MOVED}{number}")).expect("it holds no NUL")
}

fn failed(what: &str, name: impl Debug, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot {what} {name:?}: {error}"))
}

#[cfg(test)]
mod tests;
