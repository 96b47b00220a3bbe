//! A session of the hub, and the session of the host that serves it.

use std::{collections::VecDeque, time::Duration};

use futures_util::future::{BoxFuture, Shared};
use trunkline_client::{ClientError, Session as HostSession, Turn as HostTurn};
use trunkline_protocol::{SessionId, SessionStart};

use crate::{ask::PendingQuestion, joined::OutputJoiner};

/// Inputs of a session without an end. The host has the same limit.
pub(crate) const MAX_OPEN_TURNS: usize = 64;

/// The handle of a session that is open at the host, or is being opened.
pub(crate) type OpeningSession = Shared<BoxFuture<'static, Result<HostSession, ClientError>>>;

/// A session of the hub that is open at the host, or is being opened.
#[derive(Debug)]
pub(crate) struct BridgeSession {
    /// Id at the host: a new one each time that it is opened.
    pub(crate) host_id: SessionId,
    pub(crate) handle: OpeningSession,
    /// The host's id of its agent.
    pub(crate) agent: String,
    /// True if the hub knows that it was opened.
    pub(crate) is_answered: bool,
    /// The agent's own id of it.
    pub(crate) native: Option<String>,
    /// Inputs without an end, the running one first.
    pub(crate) turns: VecDeque<HubTurn>,
    /// Messages for the running turn without a result.
    pub(crate) steers: Vec<String>,
    /// Output that is being joined.
    pub(crate) joined: OutputJoiner,
    /// A question that waits for an answer.
    pub(crate) question: Option<PendingQuestion>,
    pub(crate) opened: Duration,
    /// The time of the last message or event.
    pub(crate) used: Duration,
    /// Output of the running turn, in bytes.
    pub(crate) output: u64,
    /// The options of its opening.
    pub(crate) start: SessionStart,
    /// True if its host keeps a journal: such a session stays when its agent has no room.
    pub(crate) is_journaled: bool,
    /// Sessions that were closed to make room for it, since the agent last worked in it.
    pub(crate) closed_for_room: u8,
    /// The text of the last failure that was shown since the running turn began.
    pub(crate) last_failure: Option<String>,
    /// True if the agent has worked in it, so that a session that replaces it lacks something.
    pub(crate) has_context: bool,
    /// The first message, and the number of messages.
    pub(crate) first_prompt: String,
    pub(crate) messages: u64,
}

/// An input without an end.
#[derive(Debug)]
pub(crate) struct HubTurn {
    /// `None` until the input is on its way, which it is once its session is open.
    pub(crate) handle: Option<HostTurn>,
    /// The message of the hub that the end answers. `None` while a question of the turn waits: for
    /// the hub that is the end of a turn, and the answer begins another one.
    pub(crate) hub: Option<String>,
    /// The message, as long as it may have to be sent again.
    pub(crate) content: Option<String>,
}

impl BridgeSession {
    pub(crate) fn new(
        host_id: SessionId,
        handle: OpeningSession,
        agent: String,
        now: Duration,
    ) -> Self {
        Self {
            host_id,
            handle,
            agent,
            is_answered: false,
            native: None,
            turns: VecDeque::new(),
            steers: Vec::new(),
            joined: OutputJoiner::default(),
            question: None,
            opened: now,
            used: now,
            output: 0,
            start: SessionStart::default(),
            is_journaled: false,
            closed_for_room: 0,
            last_failure: None,
            has_context: false,
            first_prompt: String::new(),
            messages: 0,
        }
    }

    /// Returns true if nothing is under way in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.turns.is_empty()
            && self.question.is_none()
            && self.steers.is_empty()
            && self.joined.is_empty()
    }

    /// Returns true if this message of the hub is under way.
    pub(crate) fn has_message(&self, hub: &str) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|turn| turn.hub.as_deref() == Some(hub))
            || self.steers.iter().any(|steer| steer == hub)
    }
}
