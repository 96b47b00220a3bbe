//! A host and an adapter that keep every rule, with pipes between them that take their time.
//!
//! Whatever crosses, and wherever the recorder sits, the model must find nothing to say. `MODEL_CROSSING_SEED`
//! chooses another play.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::{Mark, Message, Model, ModelKind};
use crate::clauses::{Level, Side};
use crate::rng::Rng;

const REQUESTS: [&str; 3] = ["r-0", "r-1", "r-2"];
const ALL: [&str; 8] = ["turns", "events", "usage", "resume", "options", "questions", "flow", "control"];

/// Where the recorder sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// In the host, as when the suite judges an adapter.
    Host,
    /// In the adapter, as the stub does.
    Adapter,
}

/// Whether a turn without ids can be told: by order alone.
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
    message.get(name).and_then(Value::as_str).unwrap_or_default()
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
        self.log.push_back(format!("{by} {}", Value::from(message.clone())));
        // Probes are pings downwards and requests of ids never used again upwards: their answers are fences.
        let probe = match field(message, "type") {
            "ping" | "pong" => field(message, "nonce"),
            _ => Some(field(message, "request_id")).filter(|id| id.starts_with("probe")).unwrap_or_default(),
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
        let wrong = breaches.iter().find(|breach| breach.level != Level::May && breach.clause != "turn.2");
        assert!(wrong.is_none(), "{wrong:?}\n{:?}: {:#?}", self.seat, self.log);
    }

    fn host_writes(&mut self, message: Value) {
        let Value::Object(message) = message else { unreachable!("messages are objects") };
        if self.seat == Seat::Host {
            self.record(Side::Host, &message);
        }
        self.down.push_back(message);
    }

    fn adapter_writes(&mut self, message: Value) {
        let Value::Object(message) = message else { unreachable!("messages are objects") };
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

    fn host_acts(&mut self) {
        if self.talks.len() < 4 {
            self.started += 1;
            let id = format!("s-{}", self.started);
            let rich = self.dice.one_in(2);
            let start = if rich {
                json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": ALL})
            } else {
                json!({"type": "session.start", "session_id": id})
            };
            self.talks.insert(id, Talk { rich, host_open: true, ..Talk::default() });
            return self.host_writes(start);
        }
        let Some(id) = self.pick() else { return };
        let roll = self.dice.below(16);
        let approved = self.dice.one_in(2);
        let steer = self.dice.one_in(4);
        let named = self.dice.one_in(2);
        let talk = self.talks.get_mut(&id).expect("a talk stays until it is removed");
        if !talk.host_open {
            return;
        }
        match roll {
            0..=4 => {
                let turn = format!("t-{}", talk.written);
                talk.written += 1;
                let mut input = json!({"type": "user.input", "session_id": id, "content": "x"});
                if talk.rich {
                    input["turn_id"] = turn.clone().into();
                }
                if talk.ready_seen && steer {
                    input["mode"] = "steer".into();
                    input["message_id"] = turn.into();
                } else if talk.rich && talk.ready_seen || talk.host_turns.is_empty() {
                    talk.host_turns.push_back(turn);
                } else {
                    // One turn at a time.
                    talk.written -= 1;
                    return;
                }
                self.host_writes(input);
            }
            5 | 6 => {
                let mut stop = json!({"type": "stop", "session_id": id});
                let turn = if talk.rich && named { talk.host_turns.back() } else { talk.host_turns.front() };
                let turn = turn.cloned();
                if talk.rich
                    && named
                    && let Some(turn) = &turn
                {
                    stop["turn_id"] = turn.clone().into();
                }
                self.host_writes(stop);
                if turn.is_some() {
                    self.host_denies(&id, turn.as_ref());
                }
            }
            7..=9 => {
                if let Some((request, _)) = talk.host_pending.pop_first() {
                    self.host_writes(json!({"type": "permission.response", "session_id": id,
                        "request_id": request, "approved": approved}));
                }
            }
            10 if talk.ready_seen => self.host_writes(json!({"type": "flow.pause", "session_id": id})),
            11 | 12 if talk.ready_seen => self.host_writes(json!({"type": "flow.resume", "session_id": id})),
            13 if talk.ready_seen => {
                self.probes += 1;
                let nonce = format!("probe-{}", self.probes);
                self.host_writes(json!({"type": "ping", "session_id": "", "nonce": nonce}));
            }
            14 if talk.ready_seen => self.host_writes(json!({"type": "session.update", "session_id": id})),
            15 if named => {
                talk.host_open = false;
                self.host_writes(json!({"type": "session.close", "session_id": id}));
            }
            _ => {}
        }
    }

    /// The denials that [permission.3] asks for.
    fn host_denies(&mut self, id: &str, turn: Option<&String>) {
        let talk = self.talks.get_mut(id).expect("a talk stays until it is removed");
        let settled: Vec<_> = talk
            .host_pending
            .extract_if(.., |_, of| of.as_ref() == turn)
            .map(|(request, _)| request)
            .collect();
        for request in settled {
            self.host_writes(json!({"type": "permission.response", "session_id": id,
                "request_id": request, "approved": false}));
        }
    }

    fn deliver_up(&mut self) {
        let Some(message) = self.up.pop_front() else { return };
        if self.seat == Seat::Host {
            self.record(Side::Adapter, &message);
        }
        let id = field(&message, "session_id").to_owned();
        let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.host_open) else { return };
        let request = field(&message, "request_id").to_owned();
        match field(&message, "type") {
            "session.ready" => talk.ready_seen = true,
            "permission.request" => {
                let turn = match field(&message, "turn_id") {
                    "" if talk.rich => None,
                    "" => talk.host_turns.front().cloned(),
                    turn => Some(turn.to_owned()),
                };
                talk.host_pending.entry(request.clone()).or_insert(turn);
                if request.starts_with("probe") {
                    talk.host_pending.remove(&request);
                    self.host_writes(json!({"type": "permission.response", "session_id": id,
                        "request_id": request, "approved": false}));
                }
            }
            "permission.cancel" => {
                talk.host_pending.remove(&request);
            }
            "turn.complete" => {
                let turn = match field(&message, "turn_id") {
                    "" => talk.host_turns.front().cloned(),
                    turn => Some(turn.to_owned()),
                };
                talk.host_turns.retain(|open| Some(open) != turn.as_ref());
                self.host_denies(&id, turn.as_ref());
            }
            "session.closed" => talk.host_open = false,
            _ => {}
        }
    }

    fn deliver_down(&mut self) {
        let Some(message) = self.down.pop_front() else { return };
        if self.seat == Seat::Adapter {
            self.record(Side::Host, &message);
        }
        let id = field(&message, "session_id").to_owned();
        let kind = field(&message, "type");
        if kind == "ping" {
            return self.adapter_writes(json!({"type": "pong", "session_id": "", "nonce": message["nonce"]}));
        }
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if kind == "session.start" {
            talk.adapter_open = true;
            if talk.rich {
                self.adapter_writes(json!({"type": "session.ready", "session_id": id, "protocol": 1,
                    "extensions": ALL, "input_modes": ["queue", "steer"]}));
            }
            return;
        }
        if !talk.adapter_open {
            return;
        }
        match kind {
            "user.input" if field(&message, "mode") == "steer" => {
                let answers = !talk.paused;
                if answers {
                    self.adapter_writes(json!({"type": "steer.result", "session_id": id,
                        "message_id": message["message_id"], "delivered": false}));
                }
            }
            "user.input" => {
                let id = field(&message, "turn_id").to_owned();
                talk.turns.push_back(Turn { id, stopping: false });
            }
            "stop" => {
                let named = field(&message, "turn_id");
                let front = talk.turns.front().map(|turn| turn.id.clone());
                let meant = if named.is_empty() { front } else { Some(named.to_owned()) };
                if let Some(turn) = talk.turns.iter_mut().find(|turn| Some(&turn.id) == meant.as_ref()) {
                    turn.stopping = true;
                    // Settled by itself; the host's denial is on its way and will be ignored.
                    talk.pending.retain(|_, of| of.as_ref() != meant.as_ref());
                }
            }
            "permission.response" => {
                talk.pending.remove(field(&message, "request_id"));
            }
            "flow.pause" => talk.paused = true,
            "flow.resume" => talk.paused = false,
            "session.update" if !talk.paused => {
                self.adapter_writes(json!({"type": "session.info", "session_id": id}));
            }
            "session.close" => talk.adapter_open = false,
            _ => {}
        }
    }

    fn adapter_acts(&mut self) {
        let Some(id) = self.pick() else { return };
        let (roll, request, outside) = (self.dice.below(16), self.dice.below(3), self.dice.one_in(4));
        let talk = self.talks.get_mut(&id).expect("a talk stays until it is removed");
        if !talk.adapter_open {
            if !talk.host_open && self.down.is_empty() && self.up.is_empty() {
                self.talks.remove(&id);
            }
            return;
        }
        if talk.paused {
            return;
        }
        let turn = talk.turns.front().map(|turn| turn.id.clone());
        let mark = |mut message: Value, turn: &Option<String>| {
            if let Some(turn) = turn.as_ref().filter(|turn| !turn.is_empty()) {
                message["turn_id"] = turn.clone().into();
            }
            message
        };
        match roll {
            0..=2 => {
                self.adapter_writes(mark(json!({"type": "output", "session_id": id, "content": "x"}), &turn))
            }
            3..=6 if turn.is_some() => self.complete(&id, 0),
            7 => {
                let stopped = talk.turns.iter().position(|turn| turn.stopping);
                if let Some(index) = stopped {
                    self.complete(&id, index);
                }
            }
            8..=11 => {
                let name = if roll == 11 {
                    self.probes += 1;
                    format!("probe-{}", self.probes)
                } else {
                    REQUESTS[request].to_owned()
                };
                if talk.pending.contains_key(&name) {
                    return;
                }
                let turn = if talk.rich && outside { None } else { turn };
                talk.pending.insert(name.clone(), turn.clone());
                self.adapter_writes(mark(
                    json!({"type": "permission.request", "session_id": id, "request_id": name,
                        "tool": "T", "description": "d", "resource": "r"}),
                    &turn,
                ));
            }
            12 if talk.rich => {
                if let Some((name, _)) = talk.pending.pop_first() {
                    self.adapter_writes(
                        json!({"type": "permission.cancel", "session_id": id, "request_id": name}),
                    );
                }
            }
            13 if talk.rich && turn.is_some() => match talk.tool.take() {
                Some(tool) => {
                    self.adapter_writes(json!({"type": "tool.end", "session_id": id, "tool_call_id": tool}))
                }
                None => {
                    talk.tool = Some("c".to_owned());
                    self.adapter_writes(
                        json!({"type": "tool.start", "session_id": id, "tool_call_id": "c", "tool": "T"}),
                    );
                }
            },
            14 if talk.rich && outside => {
                while !self.talks[&id].turns.is_empty() {
                    self.complete(&id, 0);
                }
                self.adapter_writes(json!({"type": "session.closed", "session_id": id}));
                self.talks.get_mut(&id).expect("a talk stays until it is removed").adapter_open = false;
            }
            _ => {}
        }
    }

    fn complete(&mut self, id: &str, index: usize) {
        let talk = self.talks.get_mut(id).expect("a talk stays until it is removed");
        let Some(turn) = talk.turns.remove(index) else { return };
        talk.pending.retain(|_, of| of.as_ref() != Some(&turn.id));
        let mut complete = json!({"type": "turn.complete", "session_id": id});
        if !turn.id.is_empty() {
            complete["turn_id"] = turn.id.into();
            complete["status"] = if turn.stopping { "stopped" } else { "completed" }.into();
        }
        self.adapter_writes(complete);
    }
}

fn check(seat: Seat) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = std::env::var("MODEL_CROSSING_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(now.map_or(1, |now| now.as_secs()));
    eprintln!("MODEL_CROSSING_SEED={seed}");
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
