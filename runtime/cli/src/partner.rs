//! With whom a conversation is: a session of this process's host, or one of a journal, which another host may run.

use std::path::Path;

use anstyle::Style;
use anyhow::anyhow;
use trunkline_host::{
    Event, FileError, Host, Session, TurnNo,
    protocol::{RequestId, SessionInfo, SessionUpdate, StopReason},
};

use crate::{command::after_refused_file, fault::Fault};

mod entries;
mod journaled;

pub(crate) use journaled::{Access, Journaled};

/// The session of a conversation.
pub(crate) enum Partner {
    /// Of the host in this process.
    Own(Session),
    /// Of a journal.
    Journaled(Box<Journaled>),
}

/// What comes from a session.
#[derive(Debug)]
pub(crate) enum Heard {
    /// What every host reports.
    Event(Event),
    /// A person said something, elsewhere or earlier.
    Said(String),
    /// A request was settled elsewhere, or earlier.
    Decided { request_id: RequestId, text: String },
    /// Something else that a journal says.
    Note {
        mark: &'static str,
        style: Style,
        text: String,
    },
    /// Nothing to show.
    Nothing,
}

/// Why a file was not given to the agent.
#[derive(Debug)]
pub(crate) struct NotGiven {
    pub(crate) why: anyhow::Error,
    /// What to do about it.
    pub(crate) next: Option<String>,
}

impl From<FileError> for NotGiven {
    fn from(error: FileError) -> Self {
        Self {
            next: after_refused_file(&error),
            why: anyhow!(error),
        }
    }
}

/// Whether no agent of a host has said anything yet.
pub(crate) fn is_unheard(host: &Host) -> bool {
    host.agents()
        .iter()
        .all(|agent| agent.counters.lines_in == 0)
}

impl Partner {
    /// Waits for what comes next. `None` when nothing more will.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        match self {
            Self::Own(session) => session.next_event().await.map(Heard::Event),
            Self::Journaled(session) => session.next().await,
        }
    }

    /// Sends an input, which begins a turn.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) fn send(&mut self, text: &str) -> anyhow::Result<TurnNo> {
        match self {
            Self::Own(session) => {
                let turn = session.send(text)?;
                let no = turn.no();
                turn.detach();
                Ok(no)
            }
            Self::Journaled(session) => session.send(text),
        }
    }

    /// Stops a turn.
    pub(crate) fn stop_turn(&mut self, turn: TurnNo) {
        match self {
            Self::Own(session) => session.stop_turn(turn, StopReason::User),
            Self::Journaled(session) => session.stop_turn(turn),
        }
    }

    /// Changes options; gives the values in force.
    ///
    /// # Errors
    /// Why they were not changed.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> anyhow::Result<SessionInfo> {
        match self {
            Self::Own(session) => Ok(session.update(update).await?),
            Self::Journaled(session) => session.update(update).await,
        }
    }

    /// Gives the agent a file.
    ///
    /// # Errors
    /// Why it was not given.
    pub(crate) async fn deliver_file(&mut self, path: &Path) -> Result<(), NotGiven> {
        match self {
            Self::Own(session) => Ok(session.deliver_file(path.to_owned(), None, None).await?),
            Self::Journaled(session) => session
                .deliver_file(path)
                .await
                .map_err(|why| NotGiven { why, next: None }),
        }
    }

    /// Whether the agent has said nothing yet, neither in this session nor, under a host of this process, in another.
    pub(crate) fn is_unheard(&self, host: Option<&Host>) -> bool {
        match self {
            Self::Own(_) => host.is_some_and(is_unheard),
            Self::Journaled(session) => !session.is_heard(),
        }
    }

    /// That the host of the session is there.
    ///
    /// # Errors
    /// That it has ended, and what to do.
    pub(crate) fn must_be_there(&self) -> Result<(), Fault> {
        match self {
            Self::Journaled(session) if session.is_lost() => Err(session.lost()),
            Self::Own(_) | Self::Journaled(_) => Ok(()),
        }
    }

    /// The turn that runs though this conversation did not begin it.
    pub(crate) fn running(&self) -> Option<TurnNo> {
        match self {
            Self::Own(_) => None,
            Self::Journaled(session) => session.running(),
        }
    }

    /// Whether the session takes no further input.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Own(session) => session.is_closed(),
            Self::Journaled(session) => session.is_closed(),
        }
    }
}
