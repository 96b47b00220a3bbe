//! One conversation of the hub, and what stands for it on the wire below.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use trunkline_conformance_mutants::json::quote;

use crate::files::private_folder;
use crate::message::Message;
use crate::schema::Exts;

/// The turns whose end is remembered, to tell late messages from foreign ones.
const ENDED: usize = 1024;

/// A session of the hub. It outlives the sessions of the wire beneath it ([process.5]).
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Its number in the upstream pipe; an id may come back, this does not.
    pub(crate) key: u64,
    pub(crate) agent: usize,
    /// What was agreed on with the hub.
    pub(crate) hub: Exts,
    /// What the hub said when it opened the session.
    pub(crate) start: Message,
    /// The restrictions that the agent must honour before an input is written ([ext.7]).
    pub(crate) restrictions: Vec<String>,
    pub(crate) exchange: PathBuf,
    pub(crate) files: u64,
    pub(crate) wire: Option<Wire>,
    pub(crate) turn: Option<Turn>,
    pub(crate) held: VecDeque<Held>,
    /// Requests and questions that are open; they share their ids ([permission.4]).
    pub(crate) requests: Vec<Request>,
    /// Steers that were passed on and are not answered.
    pub(crate) steers: Vec<String>,
    /// Calls that the adapter began, of the running turn.
    pub(crate) tools: Vec<String>,
    /// Updates that were passed on and are not answered.
    pub(crate) updates: usize,
    /// What is in force, as the adapter last told it.
    pub(crate) facts: Vec<(String, String)>,
    /// What to resume with.
    pub(crate) native: Option<String>,
    pub(crate) params: Option<String>,
    /// Whether a wire session came before the present one.
    pub(crate) restarted: bool,
    /// Why it takes no more inputs, for a hub that cannot be told of an end ([session.8]).
    pub(crate) ended: Option<String>,
    /// Whether it is to be forgotten.
    pub(crate) gone: bool,
    pub(crate) minted: u64,
    pub(crate) approved: HashSet<String>,
    pub(crate) strays: usize,
    /// Output that a broken host lets others overtake.
    pub(crate) overtaken: Option<Message>,
}

impl Session {
    /// Whether a turn runs whose input is written.
    pub(crate) fn is_running(&self) -> bool {
        self.turn
            .as_ref()
            .is_some_and(|turn| turn.written.is_some())
    }

    /// The stop of the turn, if one was written.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.turn.as_ref()?.stop.as_ref()
    }

    /// What was agreed on below.
    pub(crate) fn agreed(&self) -> Exts {
        self.wire.as_ref().map_or(Exts::CORE, Wire::agreed)
    }

    /// Names the turn that runs, if one does, in a message.
    pub(crate) fn name_turn(&self, message: &mut Message) {
        if let Some(turn) = &self.turn {
            message.set("turn_id", quote(&turn.id));
        }
    }

    /// The folder for files, made if it is missing; whether it is there.
    pub(crate) fn make_exchange(&self) -> bool {
        self.exchange.is_dir() || private_folder(&self.exchange).is_ok()
    }
}

/// What is held back, in the order in which it was given ([turn.11]).
#[derive(Debug)]
pub(crate) enum Held {
    Input(Turn),
    File(Message),
    Update(Message, Instant),
}

/// A session of the wire.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) process: u64,
    pub(crate) id: String,
    /// What was agreed on below; not known before the adapter's first message ([ext.2]).
    pub(crate) agreed: Option<Exts>,
    pub(crate) steers: bool,
    /// The longest line that the adapter reads, where it said so ([frame.11]).
    pub(crate) max_line: Option<usize>,
    /// Whether the hub has yet to hear what became of the context ([process.5]).
    pub(crate) owes_context: bool,
    /// What the adapter told of itself while that is owed.
    pub(crate) infos: Vec<Message>,
    pub(crate) since: Instant,
    /// The turns that have ended: from their id on the wire to that of the hub.
    pub(crate) turns: HashMap<String, String>,
    pub(crate) order: VecDeque<String>,
}

impl Wire {
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

    pub(crate) fn agreed(&self) -> Exts {
        self.agreed.unwrap_or_default()
    }

    /// Remembers a turn that has ended.
    pub(crate) fn end(&mut self, turn: &Turn) {
        self.turns.insert(turn.wire_id.clone(), turn.id.clone());
        self.order.push_back(turn.wire_id.clone());
        if self.order.len() > ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.turns.remove(&oldest);
        }
    }
}

/// One turn, from its acceptance to its one end ([turn.7]).
#[derive(Debug)]
pub(crate) struct Turn {
    /// Its id towards the hub.
    pub(crate) id: String,
    /// Its id on the wire.
    pub(crate) wire_id: String,
    pub(crate) input: Message,
    pub(crate) written: Option<Instant>,
    pub(crate) answered: bool,
    pub(crate) heard: Instant,
    pub(crate) stop: Option<Stop>,
}

/// A stop that was written.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) at: Instant,
    pub(crate) reason: Option<String>,
    /// Whether a broken host has yet to write it.
    pub(crate) due: bool,
}

impl Turn {
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

    /// Whether the input reached the agent ([process.4]).
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
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) question: bool,
    /// The turn, by its id on the wire; none where it was made outside.
    pub(crate) turn: Option<String>,
    /// The options, by their id, with whether they allow.
    pub(crate) options: Vec<(String, Option<bool>)>,
    pub(crate) at: Instant,
}

/// How a turn ends that its adapter does not end.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    pub(crate) status: &'static str,
    pub(crate) category: Option<&'static str>,
    pub(crate) text: String,
    pub(crate) exit: crate::event::Exit,
    pub(crate) reason: Option<&'static str>,
}

impl End {
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
