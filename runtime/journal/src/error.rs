//! Errors of the crate.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::SessionKey;

/// Error of [`Journal::open`](crate::Journal::open). The texts are sentences without a full stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the journal open.
    #[error(
        "the journal {} is in use{}; stop that process, or name another folder",
        folder.display(),
        describe_holder(*pid)
    )]
    #[non_exhaustive]
    InUse {
        /// The journal's folder.
        folder: PathBuf,
        /// The process, if its lock names it.
        pid: Option<u32>,
    },
    /// A later version of this program wrote the journal.
    #[error(
        "the journal {} has format {found}, and this program knows formats up to {known}; update the program",
        folder.display()
    )]
    #[non_exhaustive]
    Newer {
        /// The journal's folder.
        folder: PathBuf,
        /// Format of the file.
        found: u64,
        /// The latest format that this program knows.
        known: u64,
    },
    /// The file `format` is missing or damaged, and the log has no copy of it.
    #[error(
        "there is no journal in {}: its file `format` is missing or damaged, and no log in the folder has a copy of it; \
         name another folder, or restore the file from a backup",
        folder.display()
    )]
    #[non_exhaustive]
    NoJournal {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder cannot be read or written.
    #[error("the journal {} cannot be {what}: {source}", folder.display())]
    #[non_exhaustive]
    Io {
        /// The journal's folder.
        folder: PathBuf,
        /// The step that failed: `read`, for instance.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl OpenError {
    /// Converts the failure of the first write into a journal that was opened.
    #[must_use]
    pub fn not_written(folder: &Path, why: &NotStored) -> Self {
        let source = match why {
            NotStored::Unwritable { reason } => io::Error::other(reason.to_string()),
            other => io::Error::other(other.to_string()),
        };
        Self::Io {
            folder: folder.to_owned(),
            what: "written",
            source,
        }
    }
}

fn describe_holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || " by another process".to_owned(),
        |pid| format!(" by the process {pid}"),
    )
}

/// Reason why something is not stored. The texts are sentences without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored {
    /// The disk or the file system fails, or the journal is closed.
    #[error("the journal cannot be written: {reason}")]
    #[non_exhaustive]
    Unwritable {
        /// The cause.
        reason: Arc<str>,
    },
    /// The block does not follow what was put for its session before. Another writer has continued
    /// the session; nothing of the block is stored, and that writer is not affected.
    #[error(
        "entry {found} of epoch {epoch} does not continue session {} of the journal, where entry {expected} is next \
         and the last epoch is {last_epoch}; another writer has continued the session, so load it again",
        session.0
    )]
    #[non_exhaustive]
    OutOfOrder {
        /// The session.
        session: SessionKey,
        /// The number that the next entry must have.
        expected: u64,
        /// The number that the writer takes for the next one.
        found: u64,
        /// The epoch under which the session was written last.
        last_epoch: u64,
        /// The epoch of the refused writer.
        epoch: u64,
    },
    /// The session was removed.
    #[error("session {} of the journal was removed; start a new session", .0.0)]
    Removed(SessionKey),
}

impl NotStored {
    pub(crate) fn unwritable(reason: impl Into<Arc<str>>) -> Self {
        Self::Unwritable {
            reason: reason.into(),
        }
    }

    /// Reports whether the block was refused because it does not continue its session. The journal
    /// itself works, and to put the same block again is in vain.
    #[must_use]
    pub fn is_out_of_order(&self) -> bool {
        matches!(self, Self::OutOfOrder { .. })
    }
}

/// Error of [`Journal::create`](crate::Journal::create).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The journal has a session of this id, or had one that was removed.
    #[error("the journal has a session of this id already")]
    Exists(SessionKey),
}

/// Error of a read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file system's own error.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
}
