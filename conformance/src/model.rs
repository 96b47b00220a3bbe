//! The suite's own model of the rules, written from SPEC.md alone: no bytes, no time, no processes.
//!
//! A [`Model`] follows one pair of pipes, message by message, and says which clauses each message breaks.
//! The order that it is given is the order of a recording: what one side wrote because of a message stands
//! after that message, so a recorder takes down what it writes *before* it writes it and what it reads
//! *after* it has read it. Beyond that messages cross freely, and the model says nothing that a crossing
//! could explain. What a side has read is known only from a [fence](Model::fence).

use serde_json::Value;

use crate::clauses::{Level, Side};

/// A parsed line.
pub type Message = serde_json::Map<String, Value>;

/// What stands on the adapter's end of the pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelKind {
    /// An adapter.
    #[default]
    Adapter,
    /// A relay: its hub may list agents, and write to the pipe before any session is ready ([ext.9]).
    Relay,
}

/// A rule that a message broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The clause, as SPEC.md names it.
    pub clause: &'static str,
    /// Who broke it.
    pub by: Side,
    /// How much it weighs; less than the clause's own level where only a weaker word of it was broken.
    pub level: Level,
    /// The session concerned; empty for the pipe.
    pub session: String,
    /// What happened.
    pub text: String,
}

/// Something that a side still has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Who owes it.
    pub by: Side,
    /// The session concerned; empty for the pipe.
    pub session: String,
    /// What is owed.
    pub what: Debt,
}

/// What can be owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Debt {
    /// The `turn.complete` of a turn ([turn.1]).
    Turn {
        /// Its id, where the host gave one.
        turn_id: Option<String>,
        /// Whether a `stop` concerned it.
        stopped: bool,
    },
    /// The `steer.result` of a steer ([turn.10]).
    Steer {
        /// The steer's own id.
        message_id: Option<String>,
    },
    /// The answer to a permission request ([permission.2]).
    Permission {
        /// Its id.
        request_id: String,
        /// Whether the host must deny it by now: its turn was stopped or has ended ([permission.3]).
        due: bool,
    },
    /// The answer to a question (section 11.6).
    Question {
        /// Its id.
        request_id: String,
        /// Whether the host must cancel it by now.
        due: bool,
    },
    /// The `tool.end` of a tool call whose turn has ended (section 11.2).
    Tool {
        /// The call.
        tool_call_id: String,
    },
    /// The `session.info` that answers a `session.update` (section 11.5).
    Info,
    /// The `pong` that answers a `ping` (section 11.8).
    Pong {
        /// What the `ping` carried.
        nonce: Value,
    },
    /// The answer to `sessions.list` or `agents.list`.
    List {
        /// What was asked.
        kind: &'static str,
        /// Its id.
        request_id: String,
    },
}

/// A point in a recording, up to which a fence vouches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// Follows one connection.
#[derive(Clone, Debug, Default)]
pub struct Model {
    kind: ModelKind,
    now: u64,
}

impl Model {
    /// A connection on which nothing was said.
    pub fn new(kind: ModelKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Takes a message that the host wrote.
    pub fn host_says(&mut self, message: &Message) -> Vec<Breach> {
        let _ = (message, self.kind);
        self.now += 1;
        Vec::new()
    }

    /// Takes a message that the adapter wrote.
    pub fn adapter_says(&mut self, message: &Message) -> Vec<Breach> {
        let _ = message;
        self.now += 1;
        Vec::new()
    }

    /// This point of the recording, for a later [`fence_at`](Self::fence_at).
    pub fn mark(&self) -> Mark {
        Mark(self.now)
    }

    /// `reader` has read all that its peer has said so far.
    pub fn fence(&mut self, reader: Side) {
        self.fence_at(reader, self.mark());
    }

    /// `reader` has read all that its peer had said at `mark`: what it writes from now on knows of it.
    pub fn fence_at(&mut self, reader: Side, mark: Mark) {
        let _ = (reader, mark);
    }

    /// All that either side still has to say, sessions that have ended left out.
    pub fn open(&self) -> Vec<Open> {
        Vec::new()
    }

    /// The turns that have not ended, of sessions that have not ended.
    pub fn open_turns(&self) -> Vec<Open> {
        Vec::new()
    }

    /// The answers that the host owes.
    pub fn owed(&self) -> Vec<Open> {
        Vec::new()
    }

    /// What is broken if nothing more is said: call it at rest, with everything read by both sides.
    pub fn finish(&self) -> Vec<Breach> {
        Vec::new()
    }
}
