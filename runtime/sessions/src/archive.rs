//! Read access to the sessions of a journal, even while a host has it.

use std::path::Path;

use trunkline_journal::{Journal, OpenError, ReadError, Reader, SessionKey};
use trunkline_protocol::{ListedSession, SessionId, SessionsList, SessionsListResult};

use crate::{facts::SessionFacts, list};

/// Read-only view of a journal at one moment.
#[derive(Debug)]
pub struct Archive {
    journal: Journal,
}

impl Archive {
    /// Opens the journal of a folder for reading. Blocks for the disk, as all methods of this type
    /// do.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Journal::look(folder).map(|journal| Self { journal })
    }

    /// Answers a `sessions.list` ([journal.12]), as a host with this journal and no running session
    /// would.
    #[must_use]
    pub fn list(&self, asked: &SessionsList) -> SessionsListResult {
        list::answer_list(&self.journal, &(), None, asked).0
    }

    /// Returns one session, or `None` if there is no session with this id.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn show(&self, id: &SessionId) -> Result<Option<ListedSession>, ReadError> {
        list::find_session(&self.journal, &(), None, id)
    }

    /// Returns the id of a session, if its facts can be read.
    #[must_use]
    pub fn name(&self, key: SessionKey) -> Option<String> {
        let facts = self.journal.facts(key).ok()??;
        SessionFacts::from_bytes(&facts).map(|facts| facts.id)
    }

    /// Reads the entries of a session from a number on. `None` if there is no session with this id.
    #[must_use]
    pub fn read(&self, id: &SessionId, from: u64) -> Option<Reader> {
        self.journal
            .find(id.as_str())
            .map(|key| self.journal.read(key, from))
    }
}
