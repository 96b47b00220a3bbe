//! Files of sessions: stored beside the journal, and in the record for hosts that have the session
//! later.

use std::{io, path::PathBuf};

use trunkline_journal::{Journal, SessionKey};
use trunkline_protocol::SessionId;

use crate::{record::Recording, sessions::Sessions};

/// Storage for the files of one session.
#[derive(Debug)]
pub(crate) struct FileKeeper {
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) recording: Option<Recording>,
    pub(crate) id: SessionId,
}

impl FileKeeper {
    /// Stores a file under its SHA-256 in hex and returns its path.
    pub(crate) async fn keep(self, file: PathBuf, sha256: String) -> io::Result<PathBuf> {
        let Self {
            journal,
            key,
            recording,
            id,
        } = self;
        let name = sha256.clone();
        let kept = blocking(move || journal.keep_file(key, &file, &name)).await?;
        if let Some(recording) = recording {
            let recorded = recording.record.keep_file(&id, kept.clone(), sha256).await;
            recorded.map_err(io::Error::other)?;
        }
        Ok(kept)
    }
}

/// Runs work that blocks for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| io::Error::other("the host ends"))?
}

impl Sessions {
    async fn keeper(&self, id: &SessionId) -> Option<FileKeeper> {
        let key = self.find(id).await?;
        let journal = self.journal().clone();
        let recording = self.shared().recording.clone();
        Some(FileKeeper {
            journal,
            key,
            recording,
            id: id.clone(),
        })
    }

    /// Returns a stored file of a session by its SHA-256 in hex. `None` if this visitor can see no
    /// such file. A file that was stored at another host is fetched, and then kept here.
    ///
    /// # Errors
    /// Errors of the file system, and the reason that the record's copy cannot be fetched.
    ///
    /// # Cancel safety
    /// If the future is dropped, the file may or may not be kept here.
    pub async fn file(&self, id: &SessionId, sha256: &str) -> io::Result<Option<PathBuf>> {
        let Some(FileKeeper {
            journal,
            key,
            recording,
            id,
        }) = self.keeper(id).await
        else {
            return Ok(None);
        };
        let here = journal.kept_file(key, sha256);
        let Some(recording) = recording.filter(|_| here.is_none() && is_sha256(sha256)) else {
            return Ok(here);
        };
        let for_new = journal.clone();
        let (new, open) = blocking(move || {
            let new = for_new.new_file(key)?;
            let open = std::fs::File::options().write(true).open(new.path())?;
            Ok((new, open))
        })
        .await?;
        if !recording.record.fetch_file(&id, sha256, open).await? {
            return Ok(None);
        }
        let name = sha256.to_owned();
        blocking(move || journal.keep_file(key, new.path(), &name))
            .await
            .map(Some)
    }

    /// Stores a file beside a session's entries under its SHA-256 in hex, like the files of the
    /// agent. The file must not be changed afterwards: on the same file system both are the same
    /// file.
    ///
    /// # Errors
    /// Errors of the file system, a rejection by the record, or a session that does not exist for
    /// this visitor.
    ///
    /// # Cancel safety
    /// A copy that has begun is completed; the record may or may not have it.
    pub async fn keep_file(&self, id: &SessionId, file: PathBuf, sha256: String) -> io::Result<()> {
        if !is_sha256(&sha256) {
            let why = "the name of a kept file is its SHA-256 in lower-case hex";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let keeper = self.keeper(id).await.ok_or(io::ErrorKind::NotFound)?;
        keeper.keep(file, sha256).await.map(drop)
    }
}

/// Returns `true` for a SHA-256 in hex, as used in the names of files.
fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
