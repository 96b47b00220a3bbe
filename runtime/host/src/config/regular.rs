//! Reading a regular file, bounded, and without ever waiting for another process.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// Reason why a file was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The system's error.
    Failed(io::Error),
    /// A folder, FIFO, socket or device.
    NotRegular,
    /// More bytes than may be read.
    TooLarge,
}

impl From<rustix::io::Errno> for Unread {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// The bytes of the file, at most `limit` of them.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
    // NONBLOCK: a FIFO would wait for a writer. NOCTTY: a terminal would become ours.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let regular = |mode| match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(Unread::NotRegular),
    };
    // Opening some devices has an effect, so the path is checked before as well.
    regular(rustix::fs::stat(path)?.st_mode)?;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    regular(rustix::fs::fstat(&file)?.st_mode)?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(Unread::Failed)?;
    if bytes.len() as u64 > limit {
        Err(Unread::TooLarge)
    } else {
        Ok(bytes)
    }
}
