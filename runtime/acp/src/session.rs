//! A session that an editor has open.

use std::{collections::HashMap, path::PathBuf};

use serde_json::{Map, Value};
use tokio::time::Instant;
use trunkline_client::{Session, Turn};
use trunkline_protocol::{AdapterBody, MessageId, RequestId, SessionId, Sha256, ToolCallId};

use crate::{facts::Facts, rpc::Id};

/// The most tool calls of a session whose output is kept while they run. Of further ones the last
/// piece is shown.
pub(crate) const TOOLS: usize = 64;

/// A session of the host that an editor has open, or is opening.
#[derive(Debug)]
pub(crate) struct EditorSession {
    /// `None` until the host has opened or attached it.
    pub(crate) handle: Option<Session>,
    /// The number of the stream of its events. Items of another stream are from before it was
    /// attached again.
    pub(crate) stream: u64,
    pub(crate) phase: Phase,
    pub(crate) facts: Facts,
    /// True if the editor was given modes.
    pub(crate) shows_modes: bool,
    /// Prompts of this editor whose turns have not ended.
    pub(crate) prompts: Vec<Prompt>,
    /// Changes of options without an answer.
    pub(crate) pending_changes: usize,
    /// The last error while there were some: the reason of the agent that stays with its value.
    pub(crate) change_error: Option<String>,
    /// Requests of the agent that the editor was asked, by the number of the question.
    pub(crate) questions: HashMap<RequestId, u64>,
    /// Output of running tools.
    pub(crate) tools: HashMap<ToolCallId, String>,
}

/// The progress of opening a session.
#[derive(Debug)]
pub(crate) enum Phase {
    /// A new session that waits for the declarations of its agent, up to `until` once the host has
    /// opened it.
    Starting {
        request: Id,
        until: Option<Instant>,
        /// `None` for a session of `session/new`. For one that continues a conversation of its
        /// agent: true if the editor is shown the conversation.
        replays: Option<bool>,
    },
    /// A session whose history is read.
    Joining(Joining),
    /// The editor has it.
    Open,
}

/// A session whose history is read.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) request: Id,
    /// True if the editor is shown the history.
    pub(crate) replays: bool,
    /// The id of a copy, which the answer names.
    pub(crate) copy: Option<SessionId>,
    /// The last entry of the history, once that is known.
    pub(crate) last_seq: Option<u64>,
    /// Requests that wait for an answer. The editor is asked when the session is open.
    pub(crate) requests: Vec<AdapterBody>,
}

/// A prompt of the editor.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) request: Id,
    pub(crate) turn: Turn,
    pub(crate) files: Vec<PromptFile>,
}

/// A file of a prompt that this agent wrote, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PromptFile {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) sha256: Sha256,
}

impl Drop for PromptFile {
    fn drop(&mut self) {
        // The host has its own copy, or has refused it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl EditorSession {
    pub(crate) fn new(phase: Phase, stream: u64) -> Self {
        Self {
            handle: None,
            stream,
            phase,
            facts: Facts::default(),
            shows_modes: false,
            prompts: Vec::new(),
            pending_changes: 0,
            change_error: None,
            questions: HashMap::new(),
            tools: HashMap::new(),
        }
    }

    /// Returns true if its events are shown to the editor.
    pub(crate) fn is_shown(&self) -> bool {
        match &self.phase {
            Phase::Starting { replays, .. } => *replays == Some(true),
            Phase::Joining(joining) => joining.replays,
            Phase::Open => true,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// The request of the editor that opens it, while it is not open.
    pub(crate) fn opening_request(&self) -> Option<&Id> {
        match &self.phase {
            Phase::Starting { request, .. } => Some(request),
            Phase::Joining(joining) => Some(&joining.request),
            Phase::Open => None,
        }
    }

    /// Returns true if an input is a prompt of this editor.
    pub(crate) fn is_own(&self, message: Option<&MessageId>) -> bool {
        let mut prompts = self.prompts.iter();
        prompts.any(|prompt| Some(prompt.turn.message_id()) == message)
    }

    /// Returns true if a prompt of this editor brought a file with this digest.
    pub(crate) fn is_own_file(&self, sha256: &Sha256) -> bool {
        let mut files = self.prompts.iter().flat_map(|prompt| &prompt.files);
        files.any(|file| file.sha256 == *sha256)
    }

    /// The members of the answer to the request that opens the session.
    pub(crate) fn describe(&mut self) -> Map<String, Value> {
        let mut answer = Map::new();
        if let Some(modes) = self.facts.modes() {
            self.shows_modes = true;
            answer.insert("modes".to_owned(), modes);
        }
        let options = self.facts.options();
        if !options.is_empty() {
            answer.insert("configOptions".to_owned(), options.into());
        }
        answer
    }
}
