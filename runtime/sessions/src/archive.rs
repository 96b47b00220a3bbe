//! The sessions of a journal, to be read even while a host has it.

use std::{path::Path, time::SystemTime};

use serde::Serialize;
use trunkline_journal::{Journal, OpenError, Position, ReadError, Reader, SessionKey};
use trunkline_protocol::{SessionId, SessionsList, SessionsListResult};

use crate::{facts::Facts, list};

/// A journal that is looked at, as it is at this moment.
#[derive(Debug)]
pub struct Archive {
    journal: Journal,
}

/// What there is to know of a session without reading it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Its id.
    pub session_id: String,
    /// Its agent.
    pub agent_id: String,
    /// Its first input, or what the agent calls it.
    pub title: Option<String>,
    /// Its working directory, where the hub chose one.
    pub cwd: Option<String>,
    /// When it was opened, RFC 3339.
    pub created: String,
    /// When something last happened in it, RFC 3339.
    pub active: String,
    /// How many entries it has.
    pub entries: u64,
    /// What it takes in the journal, in bytes.
    pub bytes: u64,
    /// How many turns had no end when it was last looked at.
    pub open_turns: usize,
    /// Whether it takes no further input.
    pub is_closed: bool,
}

impl Archive {
    /// Looks at the journal of a folder. Blocks for the disk, as all of this does.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Journal::look(folder).map(|journal| Self { journal })
    }

    /// The sessions, the last active first, from behind a position; and the position of each.
    ///
    /// # Errors
    /// The file system's own.
    pub fn list(&self, behind: Option<Position>, most: usize) -> Result<Vec<(Position, Summary)>, ReadError> {
        let mut summaries = Vec::new();
        for listed in self.journal.list(behind, most) {
            // Without facts it cannot be named; a check does.
            if let Some(facts) = Facts::read(&self.journal, listed.key)? {
                summaries.push((listed.position, summary(facts, &listed.known)));
            }
        }
        Ok(summaries)
    }

    /// Answers a `sessions.list` ([journal.12]), as a host with this journal would: no session runs.
    #[must_use]
    pub fn answer(&self, asked: &SessionsList) -> SessionsListResult {
        list::answer(&self.journal, &(), asked)
    }

    /// One session; `None` where there is none of this id.
    ///
    /// # Errors
    /// The file system's own.
    pub fn show(&self, id: &SessionId) -> Result<Option<Summary>, ReadError> {
        let Some(key) = self.journal.find(id.as_str()) else { return Ok(None) };
        let facts = Facts::read(&self.journal, key)?.filter(|facts| facts.id == id.as_str());
        Ok(facts.zip(self.journal.known(key)).map(|(facts, known)| summary(facts, &known)))
    }

    /// The id of a session, where its facts can be read.
    #[must_use]
    pub fn name(&self, key: SessionKey) -> Option<String> {
        let facts = self.journal.facts(key).ok()??;
        Facts::of_bytes(&facts).map(|facts| facts.id)
    }

    /// Reads the entries of a session from a number on; `None` where there is none of this id.
    #[must_use]
    pub fn read(&self, id: &SessionId, from: u64) -> Option<Reader> {
        self.journal.find(id.as_str()).map(|key| self.journal.read(key, from))
    }
}

fn summary(facts: Facts, known: &trunkline_journal::Known) -> Summary {
    Summary {
        cwd: facts.cwd(),
        session_id: facts.id,
        agent_id: facts.agent,
        title: facts.title,
        created: facts.created,
        active: moment(known.active),
        entries: known.last,
        bytes: known.bytes,
        open_turns: facts.open.turns.len(),
        is_closed: facts.is_closed,
    }
}

fn moment(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
