//! A host and an adapter that keep every rule, with pipes between them that take their time.
//!
//! The model must report nothing, for every order of messages and every place of the recorder.
//! `TRUNKLINE_SEED` chooses another play.

mod adapter;
mod host;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::clauses::{Level, Side};
use crate::model::{Mark, Message, Model, ModelKind};
use crate::rng::Rng;

/// Position of the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// In the host, as when the suite judges an adapter.
    Host,
    /// In the adapter, as the stub does.
    Adapter,
}

/// A turn; without ids it is identified only by its order.
struct Turn {
    id: String,
    stopping: bool,
}

#[derive(Default)]
struct Talk {
    rich: bool,
    /// As the host sees it.
    host_open: bool,
    ready_seen: bool,
    host_turns: VecDeque<String>,
    host_pending: BTreeMap<String, Option<String>>,
    written: usize,
    /// As the adapter sees it.
    adapter_open: bool,
    turns: VecDeque<Turn>,
    pending: BTreeMap<String, Option<String>>,
    paused: bool,
    tool: Option<String>,
}

struct Play {
    dice: Rng,
    seat: Seat,
    model: Model,
    down: VecDeque<Message>,
    up: VecDeque<Message>,
    talks: BTreeMap<String, Talk>,
    started: usize,
    marks: BTreeMap<String, Mark>,
    probes: usize,
    log: VecDeque<String>,
}

fn field<'a>(message: &'a Message, name: &str) -> &'a str {
    message
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl Play {
    fn new(seed: u64, seat: Seat) -> Self {
        Self {
            dice: Rng::new(seed | 1),
            seat,
            model: Model::new(ModelKind::Adapter),
            down: VecDeque::new(),
            up: VecDeque::new(),
            talks: BTreeMap::new(),
            started: 0,
            marks: BTreeMap::new(),
            probes: 0,
            log: VecDeque::new(),
        }
    }

    fn record(&mut self, by: Side, message: &Message) {
        if self.log.len() == 40 {
            self.log.pop_front();
        }
        self.log
            .push_back(format!("{by} {}", Value::from(message.clone())));
        // Probes are pings downwards and requests of ids never used again upwards: their answers are fences.
        let probe = match field(message, "type") {
            "ping" | "pong" => field(message, "nonce"),
            _ => Some(field(message, "request_id"))
                .filter(|id| id.starts_with("probe"))
                .unwrap_or_default(),
        }
        .to_owned();
        let breaches = match by {
            Side::Host => self.model.host_says(message),
            Side::Adapter => self.model.adapter_says(message),
        };
        match field(message, "type") {
            "ping" | "permission.request" if !probe.is_empty() => {
                self.marks.insert(probe, self.model.mark());
            }
            "pong" | "permission.response" => {
                if let Some(mark) = self.marks.remove(&probe) {
                    self.model.fence_at(by, mark);
                }
            }
            _ => {}
        }
        // Without ids, output between turns looks late and is not.
        let wrong = breaches
            .iter()
            .find(|breach| breach.level != Level::May && breach.clause != "turn.2");
        assert!(
            wrong.is_none(),
            "{wrong:?}\n{:?}: {:#?}",
            self.seat,
            self.log
        );
    }

    fn host_writes(&mut self, message: Value) {
        let Value::Object(message) = message else {
            unreachable!("messages are objects")
        };
        if self.seat == Seat::Host {
            self.record(Side::Host, &message);
        }
        self.down.push_back(message);
    }

    fn adapter_writes(&mut self, message: Value) {
        let Value::Object(message) = message else {
            unreachable!("messages are objects")
        };
        if self.seat == Seat::Adapter {
            self.record(Side::Adapter, &message);
        }
        self.up.push_back(message);
    }

    fn step(&mut self) {
        match self.dice.below(4) {
            0 => self.host_acts(),
            1 => self.adapter_acts(),
            2 => self.deliver_down(),
            _ => self.deliver_up(),
        }
    }

    fn pick(&mut self) -> Option<String> {
        let index = self.dice.below(self.talks.len().max(1));
        self.talks.keys().nth(index).cloned()
    }
}

fn check(seat: Seat) {
    let seed = trunkline_testing::seed();
    for round in 0..40 {
        let mut play = Play::new(seed.wrapping_mul(1000).wrapping_add(round), seat);
        for _ in 0..4000 {
            play.step();
        }
        // At rest: all is delivered, every turn ends, and what that asks for is delivered too.
        for id in play.talks.keys().cloned().collect::<Vec<_>>() {
            if play.talks[&id].ready_seen && play.talks[&id].host_open {
                play.host_writes(json!({"type": "flow.resume", "session_id": id}));
            }
        }
        for _ in 0..2 {
            while !(play.down.is_empty() && play.up.is_empty()) {
                play.deliver_down();
                play.deliver_up();
            }
            for id in play.talks.keys().cloned().collect::<Vec<_>>() {
                while play.talks[&id].adapter_open && !play.talks[&id].turns.is_empty() {
                    play.complete(&id, 0);
                }
            }
        }
        play.model.fence(Side::Host);
        play.model.fence(Side::Adapter);
        let mut missing = play.model.finish();
        // The adapter of this play answers neither updates nor steers while it is paused.
        missing.retain(|breach| !matches!(breach.clause, "ext.5" | "turn.10"));
        assert!(missing.is_empty(), "{missing:?}\n{seat:?}: {:#?}", play.log);
    }
}

#[test]
fn what_crosses_is_no_breach_as_the_host_sees_it() {
    check(Seat::Host);
}

#[test]
fn what_crosses_is_no_breach_as_the_adapter_sees_it() {
    check(Seat::Adapter);
}
