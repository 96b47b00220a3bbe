//! One session, as a client has it open.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use tokio::time::Instant;
use trunkline_protocol::{Json, MessageId, RequestId, ToolCallId, TurnId, UserInput};

use crate::{
    facts::{Facts, Setting},
    rpc::Id,
};

/// The most tool calls of a session whose output is kept while they run. Of further ones the last piece is shown.
pub(crate) const TOOLS: usize = 64;

/// A session that a client has open.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) phase: Phase,
    /// The last entry that was heard, and in which epoch.
    pub(crate) seq: u64,
    pub(crate) epoch: Option<u64>,
    /// Since when no host serves it, and when it is attached again, unless that is on its way.
    pub(crate) unserved: Option<(Instant, Option<Instant>)>,
    /// What an agent is to have again when another host serves the session.
    pub(crate) mcp_servers: Option<Json>,
    pub(crate) facts: Facts,
    /// Whether the client knows of modes.
    pub(crate) shows_modes: bool,
    /// Inputs of this client whose turns have not ended.
    pub(crate) prompts: VecDeque<Prompt>,
    /// Changes of options that wait for the agent's word.
    pub(crate) changes: VecDeque<Change>,
    /// Requests of the agent that the client was asked, by our number of the question.
    pub(crate) asked: HashMap<RequestId, u64>,
    /// What running tools have printed.
    pub(crate) tools: HashMap<ToolCallId, String>,
    /// The last error that ends nothing.
    pub(crate) error: Option<String>,
}

/// How far the session is open.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It is new. What its agent declares is waited for, up to a moment.
    Starting {
        id: Id,
        opened: bool,
        until: Option<Instant>,
    },
    /// Its history comes.
    Joining(Box<Joining>),
    /// It is open.
    Open,
}

/// A session whose history comes.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) id: Id,
    /// Whether the client wants to see it.
    pub(crate) replays: bool,
    /// The last entry of it, once that is known.
    pub(crate) last: Option<u64>,
    /// Requests that wait for an answer.
    pub(crate) open: HashSet<RequestId>,
    /// How the client is asked these, once the session is open.
    pub(crate) to_ask: Vec<trunkline_protocol::AdapterBody>,
}

/// An input of the client.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) id: Id,
    pub(crate) turn: TurnId,
    pub(crate) input: UserInput,
    pub(crate) meta: Option<trunkline_protocol::Meta>,
    /// What it brought, where it was put.
    pub(crate) files: Vec<std::path::PathBuf>,
    /// Whether the journal has it.
    pub(crate) stored: bool,
}

/// A change of an option.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) id: Id,
    pub(crate) setting: Setting,
    pub(crate) value: String,
    /// Whether the answer has all options.
    pub(crate) lists: bool,
}

impl Session {
    pub(crate) fn new(phase: Phase, mcp_servers: Option<Json>) -> Self {
        Self {
            phase,
            seq: 0,
            epoch: None,
            unserved: None,
            mcp_servers,
            facts: Facts::default(),
            shows_modes: false,
            prompts: VecDeque::new(),
            changes: VecDeque::new(),
            asked: HashMap::new(),
            tools: HashMap::new(),
            error: None,
        }
    }

    /// Whether what happens is for the client's eyes.
    pub(crate) fn is_shown(&self) -> bool {
        match &self.phase {
            Phase::Starting { .. } => false,
            Phase::Joining(joining) => joining.replays,
            Phase::Open => true,
        }
    }

    /// Whether it was attached, or opened.
    pub(crate) fn was_there(&self) -> bool {
        match &self.phase {
            Phase::Starting { .. } => false,
            Phase::Joining(joining) => joining.last.is_some(),
            Phase::Open => true,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether an input is this client's.
    pub(crate) fn is_own(&self, message: Option<&MessageId>) -> bool {
        message.is_some()
            && self
                .prompts
                .iter()
                .any(|prompt| prompt.input.message_id.as_ref() == message)
    }

    /// Takes the prompt whose turn has ended.
    pub(crate) fn ended(&mut self, turn: &TurnId) -> Option<Prompt> {
        let at = self
            .prompts
            .iter()
            .position(|prompt| prompt.turn == *turn)?;
        self.prompts.remove(at)
    }

    /// What the client learns of the session when it is open.
    pub(crate) fn opened(&mut self) -> serde_json::Map<String, Value> {
        let mut told = serde_json::Map::new();
        if let Some(modes) = self.facts.modes() {
            self.shows_modes = true;
            told.insert("modes".to_owned(), modes);
        }
        let options = self.facts.options();
        if !options.is_empty() {
            told.insert("configOptions".to_owned(), options.into());
        }
        told
    }
}
