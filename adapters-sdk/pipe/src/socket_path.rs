//! Paths of Unix sockets of any length.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Limit for the path of a socket's address, without its zero byte. macOS has 103, Linux 107.
const MAX_ADDRESS_PATH: usize = 103;

/// A path to bind or connect a Unix socket at, short enough for an address.
///
/// A longer path is replaced by one through its opened folder (`/proc/self/fd`), which holds as
/// long as this value lives. A system without `/proc` takes short paths only.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    _folder: Option<File>,
}

impl SocketPath {
    /// The path of a socket. Opens the folder if the path is long.
    ///
    /// # Errors
    /// The folder cannot be opened, or the path names no file.
    pub fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= MAX_ADDRESS_PATH {
            return Ok(Self {
                path: path.to_owned(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            let error = format!("{} names no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        };
        let folder = File::open(folder)?;
        let opened = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(Self {
            path: opened.join(name),
            _folder: Some(folder),
        })
    }

    /// The short path. It is valid only while `self` lives.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_is_bound_and_connected_at_a_path_of_any_length() {
        let folder = tempfile::tempdir().unwrap();
        for length in [1, 60, 200, 250] {
            let deep = folder.path().join("d".repeat(length));
            std::fs::create_dir(&deep).unwrap();
            let path = deep.join("host.sock");
            let _listener = UnixListener::bind(SocketPath::new(&path).unwrap().as_path()).unwrap();
            assert!(path.exists(), "{length}");
            UnixStream::connect(SocketPath::new(&path).unwrap().as_path()).unwrap();
        }
        let missing = folder.path().join("m".repeat(200)).join("host.sock");
        let error = SocketPath::new(&missing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
