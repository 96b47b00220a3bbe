//! The sessions of a journal, to be read even while a host has it.

use std::path::Path;

use trunkline_journal::{Journal, OpenError, ReadError, Reader, SessionKey};
use trunkline_protocol::{ListedSession, SessionId, SessionsList, SessionsListResult};

use crate::{facts::SessionFacts, list};

/// A journal that is looked at, as it is at this moment.
#[derive(Debug)]
pub struct Archive {
    journal: Journal,
}

impl Archive {
    /// Looks at the journal of a folder. Blocks for the disk, as all of this does.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Journal::look(folder).map(|journal| Self { journal })
    }

    /// Answers a `sessions.list` ([journal.12]), as a host with this journal would: no session
    /// runs.
    #[must_use]
    pub fn list(&self, asked: &SessionsList) -> SessionsListResult {
        list::answer(&self.journal, &(), None, asked).0
    }

    /// One session; `None` where there is none of this id.
    ///
    /// # Errors
    /// The file system's own.
    pub fn show(&self, id: &SessionId) -> Result<Option<ListedSession>, ReadError> {
        list::one(&self.journal, id)
    }

    /// The id of a session, where its facts can be read.
    #[must_use]
    pub fn name(&self, key: SessionKey) -> Option<String> {
        let facts = self.journal.facts(key).ok()??;
        SessionFacts::of_bytes(&facts).map(|facts| facts.id)
    }

    /// Reads the entries of a session from a number on; `None` where there is none of this id.
    #[must_use]
    pub fn read(&self, id: &SessionId, from: u64) -> Option<Reader> {
        self.journal
            .find(id.as_str())
            .map(|key| self.journal.read(key, from))
    }
}
