//! What can fail.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::SessionKey;

/// Why a journal was not opened. The texts are sentences without a full stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it.
    #[error("the journal {} is in use{}; stop that process, or name another folder", folder.display(), by(*pid))]
    #[non_exhaustive]
    InUse {
        /// The journal's folder.
        folder: PathBuf,
        /// The process, where it could be found out.
        pid: Option<u32>,
    },
    /// A later version of this program wrote it.
    #[error(
        "the journal {} has format {found}, and this program knows formats up to {known}; update the program",
        folder.display()
    )]
    #[non_exhaustive]
    Newer {
        /// The journal's folder.
        folder: PathBuf,
        /// Its format.
        found: u64,
        /// The latest that is known here.
        known: u64,
    },
    /// There are segments, and nothing says of which format they are.
    #[error("there is no journal in {}: its file `format` is missing or damaged", folder.display())]
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
        /// What was not possible: `read`, say.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl OpenError {
    /// That of a journal that was opened, and cannot be written.
    #[must_use]
    pub fn not_written(folder: &Path, why: &NotStored) -> Self {
        let (folder, source) = (folder.to_owned(), io::Error::other(why.why.to_string()));
        Self::Io {
            folder,
            what: "written",
            source,
        }
    }
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(
        || " by another process".to_owned(),
        |pid| format!(" by the process {pid}"),
    )
}

/// Why something is not stored. The text is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal cannot be written: {why}")]
pub struct NotStored {
    pub(crate) why: Arc<str>,
}

/// Why a session was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The journal knows the id: of a session that it keeps, or of one that was removed.
    #[error("the journal has a session of this id already")]
    Exists(SessionKey),
}

/// Why entries were not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file system's own.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
}
