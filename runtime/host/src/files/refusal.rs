//! Refusals of files.

use std::io;

use rustix::io::Errno;

/// Reason why a file that a peer named was refused. An event, not a failure of the host ([file.4]);
/// the adapter continues to run.
///
/// It does not contain the path, which the caller still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The path does not start at the root of the file system.
    #[error("the path is not absolute")]
    NotAbsolute,
    /// The path has a NUL byte.
    #[error("the path has a NUL byte")]
    Nul,
    /// The path has a line break or another control character.
    #[error("the path has a control character")]
    ControlCharacter,
    /// The path climbs with `..`, even if it would come back.
    #[error("the path climbs with `..`")]
    Parent,
    /// The path is in no allowed folder.
    #[error("the path is outside every allowed folder")]
    Outside,
    /// No such file.
    #[error("the file does not exist")]
    Missing,
    /// The file, or a folder on the way to it, is a symbolic link.
    #[error("a symbolic link is on the path")]
    Symlink,
    /// A folder, FIFO, socket or device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has another name, which may be anywhere.
    #[error("the file has more than one hard link")]
    HardLinked,
    /// Larger than allowed, or grew beyond the limit during the copy.
    #[error("the file has {size} bytes, more than the {limit} allowed (`max_file_bytes`)")]
    TooLarge {
        /// The size seen, in bytes; while a file grows, at least this.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The size differs from the announced one.
    #[error(
        "the file has {size} bytes, not the {announced} that were announced; announce it when it is complete"
    )]
    OtherSize {
        /// The size seen, in bytes.
        size: u64,
        /// The size announced, in bytes.
        announced: u64,
    },
    /// The digest differs from the announced one.
    #[error(
        "the file's SHA-256 is not the one that was announced; announce it when it is complete"
    )]
    OtherDigest,
    /// Swapped, removed or written during the check or the copy.
    #[error("the file changed while it was taken")]
    Changed,
    /// The host may not or cannot read it.
    #[error("the file cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    /// The copies of the session's files, or the host's, take all the room that they may.
    #[error(
        "its {size} bytes do not fit beside the {kept} that are kept for the session until it closes (`session_files`, `host_files`)"
    )]
    NoRoom {
        /// The file's size, in bytes.
        size: u64,
        /// Bytes of the session's copies.
        kept: u64,
    },
    /// The copy could not be written: the host's own storage failed, not the file.
    #[error("the copy cannot be stored: {0}")]
    Store(io::ErrorKind),
}

impl Refusal {
    /// The refusal that an error on the way to the file means.
    pub(super) fn on_open(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            // What O_NOFOLLOW answers, on Linux and on the BSDs.
            Errno::LOOP | Errno::MLINK => Self::Symlink,
            Errno::XDEV => Self::Outside,
            // A socket, or a FIFO or device without its other side.
            Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => Self::NotRegular,
            other => Self::Unreadable(io::Error::from(other).kind()),
        }
    }
}
