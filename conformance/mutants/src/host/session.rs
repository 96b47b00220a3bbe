//! A conversation of the hub, and its sessions on the wire below.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use trunkline_conformance_mutants::json::quote;

use crate::files::private_folder;
use crate::message::Message;
use crate::schema::ExtensionSet;

/// Limit of ended turns that are remembered, to distinguish late messages from foreign ones.
const ENDED: usize = 1024;

/// A session of the hub. It outlives the sessions of the wire beneath it ([process.5]).
#[derive(Debug, Default)]
pub(crate) struct HubSession {
    pub(crate) id: String,
    /// Number in the upstream pipe; an id may recur, this does not.
    pub(crate) key: u64,
    pub(crate) agent: usize,
    /// Agreement with the hub.
    pub(crate) hub: ExtensionSet,
    /// The hub's `session.start`.
    pub(crate) start: Message,
    /// The restrictions that the agent must honour before an input is written ([ext.7]).
    pub(crate) restrictions: Vec<String>,
    pub(crate) exchange: PathBuf,
    pub(crate) files: u64,
    pub(crate) wire: Option<WireSession>,
    pub(crate) turn: Option<HubTurn>,
    pub(crate) held: VecDeque<HeldMessage>,
    /// Requests and questions that are open; they share their ids ([permission.4]).
    pub(crate) requests: Vec<HubRequest>,
    /// Steers that were passed on and are not answered.
    pub(crate) steers: Vec<String>,
    /// Calls that the adapter began, of the running turn.
    pub(crate) tools: Vec<String>,
    /// Updates that were passed on and are not answered.
    pub(crate) updates: usize,
    /// Values in force, as the adapter last reported them.
    pub(crate) facts: Vec<(String, String)>,
    /// Native id to resume with.
    pub(crate) native: Option<String>,
    pub(crate) params: Option<String>,
    /// True if there was an earlier wire session.
    pub(crate) restarted: bool,
    /// Reason why it accepts no inputs, for a hub that cannot be sent an end ([session.8]).
    pub(crate) ended: Option<String>,
    /// True if it must be forgotten.
    pub(crate) gone: bool,
    pub(crate) minted: u64,
    pub(crate) approved: HashSet<String>,
    pub(crate) strays: usize,
    /// Output that a broken host lets others overtake.
    pub(crate) overtaken: Option<Message>,
}

impl HubSession {
    /// Returns true if a turn with a written input runs.
    pub(crate) fn is_running(&self) -> bool {
        self.turn
            .as_ref()
            .is_some_and(|turn| turn.written.is_some())
    }

    /// The stop of the turn, if one was written.
    pub(crate) fn stop(&self) -> Option<&WrittenStop> {
        self.turn.as_ref()?.stop.as_ref()
    }

    /// Returns the agreement with the adapter.
    pub(crate) fn agreed(&self) -> ExtensionSet {
        self.wire
            .as_ref()
            .map_or(ExtensionSet::CORE, WireSession::agreed)
    }

    /// Names the turn that runs, if one does, in a message.
    pub(crate) fn name_turn(&self, message: &mut Message) {
        if let Some(turn) = &self.turn {
            message.set("turn_id", quote(&turn.id));
        }
    }

    /// Makes the folder for files if it is missing; returns true if it exists.
    pub(crate) fn make_exchange(&self) -> bool {
        self.exchange.is_dir() || private_folder(&self.exchange).is_ok()
    }
}

/// Messages that are held back, in their order ([turn.11]).
#[derive(Debug)]
pub(crate) enum HeldMessage {
    Input(HubTurn),
    File(Message),
    Update(Message, Instant),
}

/// A session of the wire.
#[derive(Debug)]
pub(crate) struct WireSession {
    pub(crate) process: u64,
    pub(crate) id: String,
    /// Agreement with the adapter; unknown before its first message ([ext.2]).
    pub(crate) agreed: Option<ExtensionSet>,
    pub(crate) steers: bool,
    /// Maximum length of a line that the adapter reads, if it reported one ([frame.11]).
    pub(crate) max_line: Option<usize>,
    /// True if the hub still needs the fact about the context ([process.5]).
    pub(crate) owes_context: bool,
    /// Information of the adapter about itself while that is due.
    pub(crate) infos: Vec<Message>,
    pub(crate) since: Instant,
    /// Ended turns: from the id on the wire to the hub's id.
    pub(crate) turns: HashMap<String, String>,
    pub(crate) order: VecDeque<String>,
}

impl WireSession {
    pub(crate) fn new(process: u64, id: String) -> Self {
        Self {
            process,
            id,
            agreed: None,
            steers: false,
            max_line: None,
            owes_context: false,
            infos: Vec::new(),
            since: Instant::now(),
            turns: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(crate) fn agreed(&self) -> ExtensionSet {
        self.agreed.unwrap_or_default()
    }

    /// Remembers a turn that has ended.
    pub(crate) fn end(&mut self, turn: &HubTurn) {
        self.turns.insert(turn.wire_id.clone(), turn.id.clone());
        self.order.push_back(turn.wire_id.clone());
        if self.order.len() > ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.turns.remove(&oldest);
        }
    }
}

/// A turn, from its acceptance to its one end ([turn.7]).
#[derive(Debug)]
pub(crate) struct HubTurn {
    /// Id towards the hub.
    pub(crate) id: String,
    /// Id on the wire.
    pub(crate) wire_id: String,
    pub(crate) input: Message,
    pub(crate) written: Option<Instant>,
    pub(crate) answered: bool,
    pub(crate) heard: Instant,
    pub(crate) stop: Option<WrittenStop>,
}

/// A stop that was written.
#[derive(Debug)]
pub(crate) struct WrittenStop {
    pub(crate) at: Instant,
    pub(crate) reason: Option<String>,
    /// True if a broken host must still write it.
    pub(crate) due: bool,
}

impl HubTurn {
    pub(crate) fn new(id: String, input: Message) -> Self {
        Self {
            wire_id: id.clone(),
            id,
            input,
            written: None,
            answered: false,
            heard: Instant::now(),
            stop: None,
        }
    }

    /// Returns the delivery state of the input ([process.4]).
    pub(crate) fn delivered(&self) -> &'static str {
        match (self.written, self.answered) {
            (None, _) => "no",
            (Some(_), false) => "unknown",
            (Some(_), true) => "yes",
        }
    }
}

/// A permission request or a question that waits for the hub.
#[derive(Debug)]
pub(crate) struct HubRequest {
    pub(crate) id: String,
    pub(crate) question: bool,
    /// The turn, by its id on the wire; none where it was made outside.
    pub(crate) turn: Option<String>,
    /// The options, by their id, with whether they allow.
    pub(crate) options: Vec<(String, Option<bool>)>,
    pub(crate) at: Instant,
}

/// End of a turn that its adapter does not end.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForcedEnd {
    pub(crate) status: &'static str,
    pub(crate) category: Option<&'static str>,
    pub(crate) text: String,
    pub(crate) exit: crate::event::Exit,
    pub(crate) reason: Option<&'static str>,
}

impl ForcedEnd {
    pub(crate) fn failed(category: &'static str, text: impl Into<String>) -> Self {
        Self {
            status: "failed",
            category: Some(category),
            text: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn stopped(reason: &'static str) -> Self {
        Self {
            status: "stopped",
            reason: Some(reason),
            ..Self::default()
        }
    }
}
