//! One session of the hub's, and the session of the host that serves it.

use std::{collections::VecDeque, time::Duration};

use trunkline_protocol::{MessageId, SessionId, TurnId};

use crate::{ask::Asked, joined::Joined};

/// Inputs of a session that have no end yet; the host's own bound is the same.
pub(crate) const TURNS: usize = 64;

/// A session that is open at the host.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id at the host: a new one each time that it is opened.
    pub(crate) wire: SessionId,
    /// Its agent, by its id at the host.
    pub(crate) agent: String,
    /// Whether the hub knows that it was opened.
    pub(crate) is_answered: bool,
    /// The agent's own id of it.
    pub(crate) native: Option<String>,
    /// Inputs without an end, the running one first.
    pub(crate) turns: VecDeque<Turn>,
    /// Inputs for the running turn whose result is not known.
    pub(crate) steers: VecDeque<Steer>,
    /// Output that is being joined.
    pub(crate) joined: Joined,
    /// A question that waits for an answer.
    pub(crate) question: Option<Asked>,
    pub(crate) opened: Duration,
    /// When something last happened in it.
    pub(crate) used: Duration,
    /// Output of the running turn, in bytes.
    pub(crate) output: u64,
    /// What was said first, and how much was said.
    pub(crate) first_prompt: String,
    pub(crate) messages: u64,
}

/// An input that has no end yet.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    /// The input's own id at the host.
    pub(crate) message: MessageId,
    /// The message of the hub that its end answers. `None` while a question of it waits: for the hub that is the end of a
    /// turn, and the answer begins another one.
    pub(crate) hub: Option<String>,
}

/// An input for the running turn.
#[derive(Debug)]
pub(crate) struct Steer {
    pub(crate) message: MessageId,
    pub(crate) hub: String,
    pub(crate) content: String,
}

impl Session {
    pub(crate) fn new(wire: SessionId, agent: String, now: Duration) -> Self {
        Self {
            wire,
            agent,
            is_answered: false,
            native: None,
            turns: VecDeque::new(),
            steers: VecDeque::new(),
            joined: Joined::default(),
            question: None,
            opened: now,
            used: now,
            output: 0,
            first_prompt: String::new(),
            messages: 0,
        }
    }

    /// Whether nothing goes on in it.
    pub(crate) fn rests(&self) -> bool {
        self.turns.is_empty()
            && self.question.is_none()
            && self.steers.is_empty()
            && self.joined.is_empty()
    }

    /// Whether a message of the hub is under way already.
    pub(crate) fn has(&self, hub: &str) -> bool {
        self.turns
            .iter()
            .any(|turn| turn.hub.as_deref() == Some(hub))
            || self.steers.iter().any(|steer| steer.hub == hub)
    }
}
