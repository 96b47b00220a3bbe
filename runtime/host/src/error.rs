//! Errors that a caller can act on.

use std::{fmt, path::PathBuf};

use thiserror::Error;
use trunkline_redact::TooManySecrets;

use crate::{
    config::{ConfigError, SessionOption},
    session_options::MAX_OUTPUT_SCHEMA_BYTES,
};

/// Error of a host's construction; the texts are sentences.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no folder for temporary files.
    #[error("failed to find the folder for temporary files; name one that exists by TMPDIR")]
    Folder(#[from] std::io::Error),
    /// A policy of the organisation could not be read, so it is unknown what may run.
    #[error("failed to {0}")]
    Policy(#[source] ConfigError),
}

/// Error of a running host's reconfiguration; the texts are sentences. Nothing has changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// A policy of the organisation could not be read, so it is unknown what may run.
    #[error("failed to {0}")]
    Policy(#[source] ConfigError),
    /// The default agent is none of the agents.
    #[error("default_agent: no agent is called {id:?}; there {}", known_agents(.known))]
    UnknownDefault {
        /// The id.
        id: String,
        /// The agents that there would be.
        known: Vec<String>,
    },
    /// So many earlier configurations have sessions, each with a process of its own.
    #[error("{}: sessions still use {limit} earlier configurations of {}, which is the limit; close some of them, and try again", no_more_changes(.agent.as_deref()), of_which(.agent.as_deref()))]
    TooManyEarlier {
        /// The agent of which there are too many; `None` if it is all agents together.
        agent: Option<String>,
        /// The limit.
        limit: usize,
    },
    /// The host is shutting down.
    #[error("the host is shutting down; its agents stay what they are")]
    Shutdown,
}

/// States what is not changed.
fn no_more_changes(agent: Option<&str>) -> String {
    agent.map_or_else(
        || "no agent is changed".to_owned(),
        |agent| format!("agent {agent:?} is not changed"),
    )
}

fn of_which(agent: Option<&str>) -> &'static str {
    if agent.is_some() { "it" } else { "agents" }
}

/// Reason why the organisation's policy forbids an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyRefusal {
    /// The policy's file.
    pub policy: PathBuf,
    /// The forbidden action; it reads after "failed to".
    pub reason: String,
}

impl PolicyRefusal {
    /// The error that opening a session on the agent gives.
    pub fn into_open_error(self, agent: &str) -> OpenError {
        OpenError::Refused {
            agent: agent.to_owned(),
            policy: self.policy,
            reason: self.reason,
        }
    }
}

impl fmt::Display for PolicyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "failed to {} (policy {})",
            self.reason,
            self.policy.display()
        )
    }
}

/// Error of a session's opening; the texts are sentences.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No agent has this id.
    #[error("no agent is called {id:?}; there {}", known_agents(.known))]
    UnknownAgent {
        /// The id.
        id: String,
        /// The agents that there are.
        known: Vec<String>,
    },
    /// A policy of the organisation forbids a setting of the agent's entry.
    #[error("agent {agent:?} may not run: failed to {reason} (policy {})", .policy.display())]
    Refused {
        /// The agent.
        agent: String,
        /// The policy's file.
        policy: PathBuf,
        /// The forbidden setting; reads after "failed to".
        reason: String,
    },
    /// `max_sessions` are open already.
    #[error("{}: {limit} are open, which is the limit; close one, or raise `max_sessions`", no_more_sessions(.agent.as_deref()))]
    TooManySessions {
        /// The agent with the limit; `None` for the limit of the whole host.
        agent: Option<String>,
        /// The limit.
        limit: usize,
    },
    /// Sessions work in so many folders that each have a process of their own.
    #[error(
        "agent {agent:?}: processes run in {limit} folders, which is the limit; close the sessions of one"
    )]
    TooManyFolders {
        /// The agent.
        agent: String,
        /// The limit, of all agents.
        limit: usize,
    },
    /// The adapter accepts no more simultaneous sessions.
    #[error(
        "open a session: the adapter of agent {agent:?} takes {limit} at a time, which are open; close one"
    )]
    AdapterFull {
        /// The agent.
        agent: String,
        /// Limit that the adapter declares.
        limit: usize,
    },
    /// The value of an option could widen the agent's configuration ([ext.7]).
    #[error("agent {agent:?}: {}", widens(.option))]
    WouldWiden {
        /// The agent.
        agent: String,
        /// The option.
        option: SessionOption,
    },
    /// The option `output_schema` is no JSON Schema of an object, or is too long.
    #[error(
        "agent {agent:?}: `output_schema` must be a JSON object of at most {MAX_OUTPUT_SCHEMA_BYTES} bytes"
    )]
    OutputSchema {
        /// The agent.
        agent: String,
    },
    /// The agent has `needs_cwd`, and the session names none.
    #[error(
        "agent {agent:?}: the session names no folder, and the folder of this host is the home folder or `/`, in which \
         an agent does not work by default; name a folder by the option `cwd`, or start the host in the folder of a project"
    )]
    NeedsFolder {
        /// The agent.
        agent: String,
    },
    /// `resume.fork` was asked for, and the agent has not declared `forks_sessions`: its adapter
    /// would continue the conversation itself.
    #[error(
        "agent {agent:?} is not known to fork conversations; leave out `resume.fork`, or begin a new one"
    )]
    CannotFork {
        /// The agent.
        agent: String,
    },
    /// The host's private folder, which it makes with its first session, could not be made.
    #[error(
        "failed to make the host's private folder; make room, or name another folder by TMPDIR"
    )]
    Folder(#[source] std::io::Error),
    /// The options contain more secrets than can be kept out of logs.
    #[error("agent {agent:?} gets no session: its options hold {source}")]
    TooManySecrets {
        /// The agent.
        agent: String,
        /// The exceeded bound.
        source: TooManySecrets,
    },
    /// The exchange folder could not be made.
    #[error(
        "failed to make the session's exchange folder; make room, or name another folder by TMPDIR"
    )]
    Exchange(#[source] std::io::Error),
    /// The host is shutting down.
    #[error("the host is shutting down; no session can be opened")]
    Shutdown,
}

/// States whose limit is reached.
fn no_more_sessions(agent: Option<&str>) -> String {
    agent.map_or_else(
        || "no more sessions on this host".to_owned(),
        |agent| format!("no more sessions on agent {agent:?}"),
    )
}

/// States that a session may not set an option, and how it can be allowed.
fn widens(option: &SessionOption) -> String {
    format!(
        "a session may not set `{option}` to this, which its agent's configuration does not allow; to allow it, add \
         \"{option}\" to `session_may` in the agent's entry, or start `trunkline serve` with `--session-may {option}`"
    )
}

fn known_agents(known: &[String]) -> String {
    match known {
        [] => "is none".to_owned(),
        [one] => format!("is {one:?}"),
        many => format!("are {}", many.join(", ")),
    }
}

/// Error of a process's description; the texts read after "failed to".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A variable has no value.
    #[error(transparent)]
    Env(#[from] crate::config::EnvError),
    /// The host's private folder could not be made.
    #[error("make the host's private folder; make room, or name another folder by TMPDIR")]
    Folder(#[source] std::io::Error),
}

/// Reason why an input was not accepted; the texts are sentences. Nothing has happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Too many inputs (`queued_inputs`) or bytes (`outbox`) wait already.
    #[error("too much is waiting for the adapter already; try again when a turn has ended")]
    Busy,
    /// The session or its host has ended.
    #[error("the session has ended; open another")]
    Closed,
}

/// Reason why options were not changed; the texts are sentences.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The adapter does not know `options`.
    #[error("the adapter cannot change options of a live session; open another session with them")]
    Unsupported,
    /// The value of this option could widen the agent's configuration ([ext.7]).
    #[error("{}", widens(.0))]
    WouldWiden(SessionOption),
    /// Too many (`queued_inputs`) wait for an answer already, or too many bytes (`outbox`) for the adapter.
    #[error("too much is waiting for the adapter already; try again when some of it was answered")]
    Busy,
    /// The session has ended.
    #[error("the session has ended; open another")]
    Closed,
}

impl From<trunkline_core::UpdateError> for UpdateError {
    fn from(error: trunkline_core::UpdateError) -> Self {
        match error {
            trunkline_core::UpdateError::Closed => Self::Closed,
            trunkline_core::UpdateError::Unsupported => Self::Unsupported,
        }
    }
}

/// Reason why a file was not delivered; the texts are sentences.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file was refused.
    #[error("the file was refused: {0}")]
    Refused(crate::files::Refusal),
    /// The file could not be copied.
    #[error("failed to copy the file")]
    Io(#[from] std::io::Error),
    /// Too many (`queued_inputs`) wait already, or too many bytes (`outbox`) for the adapter.
    #[error("too much is waiting for the adapter already; try again when a turn has ended")]
    Busy,
    /// The session has ended.
    #[error("the session has ended; open another")]
    Closed,
}

impl From<crate::files::Refusal> for FileError {
    /// The refusal's text is part of this error's; as a source it would be shown twice.
    fn from(refusal: crate::files::Refusal) -> Self {
        Self::Refused(refusal)
    }
}
