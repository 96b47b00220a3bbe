//! Unix sockets at paths of any length.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, chmodat, fstat, openat, statat, unlinkat};

/// The longest path of a socket (`sun_path`, without its zero byte).
const MAX_PATH: usize = 107;

/// A bound socket's place in its folder; dropping it removes the socket, and nothing that took its place.
#[derive(Debug)]
pub struct SocketFile {
    folder: OwnedFd,
    name: OsString,
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds a socket at `path`, which must not exist.
    ///
    /// Any user who can reach it may connect, including a user of a container, if its folder is
    /// private (no rights for group and others); otherwise only the owner.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
        let (folder, name) = open_folder(path)?;
        let listener = UnixListener::bind(path_to(&folder, &name, path))?;
        let made = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let file = Self {
            name,
            identity: identity(&made),
            folder,
        };
        let private = fstat(&file.folder).is_ok_and(|folder| {
            Mode::from_raw_mode(folder.st_mode)
                .intersection(Mode::RWXG | Mode::RWXO)
                .is_empty()
        });
        let mode = if private { 0o666 } else { 0o600 };
        chmodat(
            &file.folder,
            &file.name,
            Mode::from_raw_mode(mode),
            AtFlags::empty(),
        )?;
        Ok((listener, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| identity(&found) == self.identity);
        if ours {
            // If the folder is gone or not writable, the failure cannot be reported anywhere.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Connects to the socket at `path`.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= MAX_PATH {
        return UnixStream::connect(path);
    }
    let (folder, name) = open_folder(path)?;
    UnixStream::connect(path_to(&folder, &name, path))
}

/// Returns a path of the same socket that is short enough, if possible.
fn path_to(folder: &OwnedFd, name: &OsStr, path: &Path) -> PathBuf {
    if path.as_os_str().len() <= MAX_PATH {
        return path.to_owned();
    }
    Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

fn open_folder(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
    let name = path.file_name().ok_or_else(invalid)?.to_owned();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((openat(CWD, folder, flags, Mode::empty())?, name))
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}
