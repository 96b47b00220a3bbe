//! Files of sessions: beside the journal, and in the record, where hosts that have the session
//! later find them.

use std::{io, path::PathBuf};

use trunkline_journal::{Journal, SessionKey};
use trunkline_protocol::SessionId;

use crate::{record::Recording, sessions::Sessions};

/// Where a session's files are kept.
#[derive(Debug)]
pub(crate) struct FileKeeper {
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) recording: Option<Recording>,
    pub(crate) id: SessionId,
}

impl FileKeeper {
    /// Keeps a file under its SHA-256 in hex, and says where it lies.
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

/// Does what waits for the disk.
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
        let (journal, recording) = (self.journal().clone(), self.shared().recording.clone());
        Some(FileKeeper {
            journal,
            key,
            recording,
            id: id.clone(),
        })
    }

    /// A file that is kept of a session, by its SHA-256 in hex. `None`: there is none, for who
    /// asks. One that was given at another host is fetched, and then kept here.
    ///
    /// # Errors
    /// The file system's own, and why what the record has of it cannot be fetched.
    ///
    /// # Cancel safety
    /// Dropped, the file may or may not be kept here.
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

    /// Keeps a file beside a session's entries under its SHA-256 in hex, as those are kept that the
    /// agent gives. No one may change it afterwards: where both are on one file system it is the
    /// same file.
    ///
    /// # Errors
    /// The file system's own, that the record does not take it, and that there is no such session
    /// for who asks.
    ///
    /// # Cancel safety
    /// A copy that has begun goes on; the record may or may not have it.
    pub async fn keep_file(&self, id: &SessionId, file: PathBuf, sha256: String) -> io::Result<()> {
        let keeper = self.keeper(id).await.ok_or(io::ErrorKind::NotFound)?;
        keeper.keep(file, sha256).await.map(drop)
    }
}

/// Whether this is a SHA-256 in hex, as names of files have it.
fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
