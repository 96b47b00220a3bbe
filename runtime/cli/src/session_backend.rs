//! The session behind `chat`, `run` and `sessions attach`: one of this process's host, or one of a
//! journal, which another host may run.

use std::path::Path;

use anstyle::Style;
use anyhow::anyhow;
use trunkline_host::{
    Event, FileError, Host, Session, TurnNo,
    protocol::{RequestId, SessionInfo, SessionUpdate, StopReason},
};

use crate::{command::after_refused_file, error::CliError};

mod attached;
mod entries;

pub(crate) use attached::{AttachMode, AttachedSession};

/// The session of a conversation.
pub(crate) enum SessionBackend {
    /// A session of the host in this process, without a journal.
    Local(Session),
    /// A session of a journal.
    Attached(Box<AttachedSession>),
}

/// An event of a session, as it is shown to a person.
#[derive(Debug)]
pub(crate) enum DisplayEvent {
    /// An event that every host reports.
    Event(Event),
    /// An input of another client, or of an earlier time.
    Input(String),
    /// A request was settled by another client, or earlier.
    Decided { request_id: RequestId, text: String },
    /// Another entry of a journal.
    Note {
        mark: &'static str,
        style: Style,
        text: String,
    },
    /// Nothing to show.
    Nothing,
}

/// The reason why a file was not given to the agent.
#[derive(Debug)]
pub(crate) struct FileRefusal {
    pub(crate) error: anyhow::Error,
    /// The next step.
    pub(crate) next: Option<String>,
}

impl From<FileError> for FileRefusal {
    fn from(error: FileError) -> Self {
        Self {
            next: after_refused_file(&error),
            error: anyhow!(error),
        }
    }
}

/// Returns true if no agent of a host has written a line.
pub(crate) fn is_silent(host: &Host) -> bool {
    host.agents()
        .iter()
        .all(|agent| agent.counters.lines_in == 0)
}

impl DisplayEvent {
    fn note(mark: &'static str, style: Style, text: String) -> Self {
        Self::Note { mark, style, text }
    }
}

impl From<AttachedSession> for SessionBackend {
    fn from(session: AttachedSession) -> Self {
        Self::Attached(Box::new(session))
    }
}

impl SessionBackend {
    /// Waits for the next event. `None` at the session's end.
    ///
    /// # Cancel safety
    /// Cancelling loses no event.
    pub(crate) async fn next(&mut self) -> Option<DisplayEvent> {
        match self {
            Self::Local(session) => session.next_event().await.map(DisplayEvent::Event),
            Self::Attached(session) => session.next().await,
        }
    }

    /// Sends an input, which begins a turn.
    ///
    /// # Errors
    /// The reason why it was not sent.
    pub(crate) async fn send(&mut self, text: &str) -> anyhow::Result<TurnNo> {
        match self {
            Self::Local(session) => {
                let turn = session.send(text)?;
                let no = turn.no();
                turn.detach();
                Ok(no)
            }
            Self::Attached(session) => session.send(text).await,
        }
    }

    /// Stops a turn.
    pub(crate) fn stop_turn(&self, turn: TurnNo) {
        match self {
            Self::Local(session) => session.stop_turn(turn, StopReason::User),
            Self::Attached(session) => session.stop_turn(turn),
        }
    }

    /// Changes options. Returns the values in force.
    ///
    /// # Errors
    /// The reason why they were not changed.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> anyhow::Result<SessionInfo> {
        match self {
            Self::Local(session) => Ok(session.update(update).await?),
            Self::Attached(session) => session.update(update).await,
        }
    }

    /// Gives the agent a file.
    ///
    /// # Errors
    /// The reason why it was not given.
    pub(crate) async fn deliver_file(&mut self, path: &Path) -> Result<(), FileRefusal> {
        match self {
            Self::Local(session) => Ok(session.deliver_file(path.to_owned(), None, None).await?),
            Self::Attached(session) => session
                .deliver_file(path)
                .await
                .map_err(|error| FileRefusal { error, next: None }),
        }
    }

    /// Returns true if the agent has reported nothing yet, neither in this session nor, under a
    /// host of this process, in another.
    pub(crate) fn is_silent(&self, host: Option<&Host>) -> bool {
        match self {
            Self::Local(_) => host.is_some_and(is_silent),
            Self::Attached(session) => session.is_silent(),
        }
    }

    /// Checks that the session was not lost with its host.
    ///
    /// # Errors
    /// The host has ended; with the next step.
    pub(crate) fn check_host(&self) -> Result<(), CliError> {
        match self {
            Self::Attached(session) if session.is_lost() => Err(session.lost()),
            Self::Local(_) | Self::Attached(_) => Ok(()),
        }
    }

    /// The running turn, if this conversation did not begin it.
    pub(crate) fn running(&self) -> Option<TurnNo> {
        match self {
            Self::Local(_) => None,
            Self::Attached(session) => session.running(),
        }
    }

    /// Returns true if the session takes no further input.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Local(session) => session.is_closed(),
            Self::Attached(session) => session.is_closed(),
        }
    }

    /// The session of a journal.
    pub(crate) fn attached(&self) -> Option<&AttachedSession> {
        match self {
            Self::Local(_) => None,
            Self::Attached(session) => Some(session),
        }
    }

    /// Leaves a session of a journal, which continues. A local one is left to its host.
    pub(crate) async fn leave(self) {
        if let Self::Attached(session) = self {
            session.leave().await;
        }
    }

    /// Closes a session of a journal, and leaves it. A local one is left to its host.
    pub(crate) async fn close(self) {
        if let Self::Attached(session) = self {
            session.close().await;
        }
    }
}
