//! The suite's model and the rules of the protocol crate, walked together at random.
//!
//! Both were written from SPEC.md, apart from each other. Nothing is in flight here: each side has read all
//! before the next step, so that where both speak of a step they must say the same.
//! `MODEL_WALK_SEED` and `MODEL_WALK_STEPS` choose another walk.

use serde_json::Value;
use trunkline_protocol::rules::{
    self, Illegal, RequestPhase, RequestRule, RequestStep, SessionPhase, SessionRule, TurnPhase, TurnStep,
};
use trunkline_protocol::{AdapterKind, HostKind};

use super::{Breach, Debt, Message, Model, ModelKind};
use crate::clauses::{Level, Side};
use crate::rng::Rng;

const SESSIONS: [&str; 4] = ["s-0", "s-1", "s-2", "s-3"];
const REQUESTS: [&str; 4] = ["r-0", "r-1", "r-2", "r-3"];
const EXTENSIONS: [&str; 8] =
    ["turns", "events", "usage", "resume", "options", "questions", "flow", "control"];
/// A turn that no host begins.
const NOWHERE: &str = "t-nowhere";

/// The tables under comparison; a test may twist one.
#[derive(Clone, Copy)]
struct Rules {
    from_host: fn(SessionPhase, HostKind) -> SessionRule,
    from_adapter: fn(SessionPhase, AdapterKind) -> SessionRule,
    turn: fn(TurnPhase, TurnStep) -> Result<TurnPhase, Illegal>,
    request: fn(RequestPhase, RequestStep) -> RequestRule,
}

const RULES: Rules = Rules {
    from_host: rules::from_host,
    from_adapter: rules::from_adapter,
    turn: TurnPhase::after,
    request: rules::request,
};

struct Turn {
    id: String,
    phase: TurnPhase,
    stopped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    Never,
    Answered,
    Withdrawn,
}

#[derive(Clone, Copy)]
struct Request {
    phase: RequestPhase,
    past: Past,
    question: bool,
    turn: Option<usize>,
    /// Something has happened that may have settled it, as far as the wire shows.
    shaken: bool,
}

const UNASKED: Request =
    Request { phase: RequestPhase::Settled, past: Past::Never, question: false, turn: None, shaken: false };

struct Seat {
    phase: SessionPhase,
    /// The host wrote to it before any start.
    stranger: bool,
    closed_by_host: bool,
    closed_by_adapter: bool,
    rich: bool,
    idle_stop: bool,
    turns: Vec<Turn>,
    requests: [Request; 4],
}

impl Seat {
    fn new(phase: SessionPhase) -> Self {
        Self {
            phase,
            stranger: false,
            closed_by_host: false,
            closed_by_adapter: false,
            rich: false,
            idle_stop: false,
            turns: Vec::new(),
            requests: [UNASKED; 4],
        }
    }

    fn running(&self) -> Option<usize> {
        self.turns.iter().position(|turn| turn.phase != TurnPhase::Ended)
    }

    /// Where the turn stands for the adapter, which serves one at a time.
    fn served(&self, turn: usize) -> TurnPhase {
        match self.turns[turn].phase {
            TurnPhase::Running if self.running() != Some(turn) => TurnPhase::Queued,
            phase => phase,
        }
    }
}

struct Walk {
    rules: Rules,
    dice: Rng,
    model: Model,
    seats: [Seat; 4],
    last: Vec<String>,
}

type Step = Result<(), String>;

impl Walk {
    fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            dice: Rng::new(seed | 1),
            model: Model::new(ModelKind::Adapter),
            seats: std::array::from_fn(|_| Seat::new(SessionPhase::Unstarted)),
            last: Vec::new(),
        }
    }

    fn run(&mut self, steps: u64) -> Step {
        for step in 0..steps {
            let seat = self.dice.below(SESSIONS.len());
            let taken = if self.dice.one_in(2) { self.host_step(seat) } else { self.adapter_step(seat) };
            taken.and_then(|()| if step % 512 == 0 { self.compare_open() } else { Ok(()) }).map_err(
                |wrong| format!("step {step}: {wrong}\nthe last messages:\n{}", self.last.join("\n")),
            )?;
        }
        Ok(())
    }

    /// Plays a message and demands that the model tells just the expected clauses.
    fn say(&mut self, by: Side, message: &Message, expected: &[&str]) -> Step {
        if self.last.len() == 12 {
            self.last.remove(0);
        }
        self.last.push(format!("{} {}", if by == Side::Host { '>' } else { '<' }, brief(message)));
        let breaches = match by {
            Side::Host => self.model.host_says(message),
            Side::Adapter => self.model.adapter_says(message),
        };
        self.model.fence(Side::Host);
        self.model.fence(Side::Adapter);
        let told: Vec<_> = breaches.iter().filter(|breach| both_speak_of(breach)).map(|b| b.clause).collect();
        if told == expected {
            return Ok(());
        }
        Err(format!("the model tells {told:?}, the rules {expected:?}; {breaches:?}"))
    }

    fn host_step(&mut self, at: usize) -> Step {
        let mut kind = *self.dice.pick(HostKind::ALL);
        if matches!(kind, HostKind::SessionStart | HostKind::SessionClose)
            && self.seats[at].phase == SessionPhase::Open
            && !self.dice.one_in(4)
        {
            kind = HostKind::UserInput;
        }
        let seat = &self.seats[at];
        let rule = (self.rules.from_host)(seat.phase, kind);
        if rule == SessionRule::Accept && !seat.rich && !kind.extensions().is_empty()
            // A pause would hold back what this walk lets the adapter say.
            || kind == HostKind::FlowPause && rule == SessionRule::Accept
        {
            return Ok(());
        }
        let mut message = message(kind.as_str(), if rule == SessionRule::Pipe { "" } else { SESSIONS[at] });
        let over: &[&str] = if seat.closed_by_host { &["session.4"] } else { &["session.8"] };
        match rule {
            SessionRule::Pipe => {
                put(&mut message, "request_id", "q-1");
                self.say(Side::Host, &message, &[])
            }
            SessionRule::Open => self.start(at, message),
            SessionRule::IgnoreRepeated if kind == HostKind::SessionStart => {
                self.say(Side::Host, &message, &["session.1"])
            }
            SessionRule::IgnoreRepeated | SessionRule::IgnoreLate => {
                fill(&mut message, kind);
                self.seats[at].closed_by_host |= kind == HostKind::SessionClose;
                self.say(Side::Host, &message, over)
            }
            SessionRule::IgnoreUnknown => {
                fill(&mut message, kind);
                self.seats[at].stranger = true;
                self.say(Side::Host, &message, &["session.1"])
            }
            SessionRule::Close => {
                self.seats[at].closed_by_host = true;
                self.close(at)?;
                self.say(Side::Host, &message, &[])
            }
            SessionRule::Accept => self.host_says(at, kind, message),
        }
    }

    fn start(&mut self, at: usize, mut message: Message) -> Step {
        let again = self.seats[at].phase == SessionPhase::Closed;
        self.seats[at] = Seat::new(SessionPhase::Open);
        self.seats[at].rich = self.dice.one_in(2);
        let names: Vec<Value> = EXTENSIONS.iter().map(|&name| name.into()).collect();
        if self.seats[at].rich {
            message.insert("extensions".to_owned(), names.clone().into());
        }
        self.say(Side::Host, &message, if again { &["session.2"] } else { &[] })?;
        if !self.seats[at].rich {
            return Ok(());
        }
        let mut ready = self::message("session.ready", SESSIONS[at]);
        ready.insert("extensions".to_owned(), names.into());
        ready.insert("input_modes".to_owned(), vec![Value::from("queue")].into());
        self.say(Side::Adapter, &ready, &[])
    }

    fn close(&mut self, at: usize) -> Step {
        let seat = &mut self.seats[at];
        seat.phase = SessionPhase::Closed;
        for turn in seat.turns.iter_mut().filter(|turn| turn.phase != TurnPhase::Ended) {
            turn.phase =
                (self.rules.turn)(turn.phase, TurnStep::Abort).map_err(|illegal| illegal.to_string())?;
        }
        seat.requests = [UNASKED; 4];
        Ok(())
    }

    fn host_says(&mut self, at: usize, kind: HostKind, mut message: Message) -> Step {
        match kind {
            HostKind::UserInput => {
                let seat = &mut self.seats[at];
                let id = format!("t-{}", seat.turns.len());
                if seat.rich {
                    put(&mut message, "turn_id", &id);
                }
                // It is on the wire, and so past the queue of the host.
                let phase =
                    (self.rules.turn)(TurnPhase::Queued, TurnStep::Begin).map_err(|i| i.to_string())?;
                seat.turns.push(Turn { id, phase, stopped: false });
                fill(&mut message, kind);
                self.say(Side::Host, &message, &[])
            }
            HostKind::Stop => self.stop(at, message),
            HostKind::PermissionResponse | HostKind::InputResponse => self.answer(at, kind, message),
            _ => {
                fill(&mut message, kind);
                self.say(Side::Host, &message, &[])
            }
        }
    }

    fn stop(&mut self, at: usize, mut message: Message) -> Step {
        let named = self.seats[at].rich && !self.seats[at].turns.is_empty() && self.dice.one_in(2);
        let seat = &mut self.seats[at];
        let turn = if named {
            let turn = self.dice.below(seat.turns.len());
            put(&mut message, "turn_id", &seat.turns[turn].id);
            Some(turn)
        } else {
            let running = seat.running();
            seat.idle_stop |= running.is_none();
            seat.requests
                .iter_mut()
                .for_each(|request| request.shaken |= request.turn.is_some() || !seat.rich);
            running
        };
        if let Some(turn) = turn {
            let turn = &mut seat.turns[turn];
            turn.phase =
                (self.rules.turn)(turn.phase, TurnStep::Stop).map_err(|illegal| illegal.to_string())?;
            turn.stopped |= turn.phase != TurnPhase::Ended;
        }
        self.say(Side::Host, &message, &[])?;
        turn.map_or(Ok(()), |turn| self.deny_all_of(at, turn))
    }

    /// What a host writes at a stop and at the end of a turn ([permission.3]).
    fn deny_all_of(&mut self, at: usize, turn: usize) -> Step {
        for (index, id) in REQUESTS.into_iter().enumerate() {
            let request = &mut self.seats[at].requests[index];
            if request.phase == RequestPhase::Pending && request.turn == Some(turn) {
                if (self.rules.request)(request.phase, RequestStep::Deny) != RequestRule::Settle {
                    return Err("the end of a turn does not deny what is pending".to_owned());
                }
                request.phase = RequestPhase::Settled;
                request.past = Past::Answered;
                let kind = if request.question { "input.response" } else { "permission.response" };
                let mut message = message(kind, SESSIONS[at]);
                put(&mut message, "request_id", id);
                message.insert("approved".to_owned(), false.into());
                self.say(Side::Host, &message, &[])?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, at: usize, kind: HostKind, mut message: Message) -> Step {
        let index = self.dice.below(REQUESTS.len());
        let approved = self.dice.one_in(2) && kind == HostKind::PermissionResponse;
        let request = &mut self.seats[at].requests[index];
        if request.question != (kind == HostKind::InputResponse) {
            return Ok(());
        }
        let expected: &[&str] = match ((self.rules.request)(request.phase, RequestStep::Answer), request.past)
        {
            (RequestRule::Settle, _) => &[],
            (RequestRule::Ignore, Past::Never) if approved => &["permission.3"],
            (RequestRule::Ignore, Past::Never | Past::Answered) => &["permission.2"],
            (RequestRule::Ignore, Past::Withdrawn) if approved => &["permission.3"],
            // A denial of what was withdrawn says nothing that anyone acts on.
            (RequestRule::Ignore, Past::Withdrawn) => &[],
            (rule @ (RequestRule::Open | RequestRule::Reject), _) => {
                return Err(format!("{rule:?} an answer"));
            }
        };
        if request.past != Past::Never || request.phase == RequestPhase::Pending {
            request.past = Past::Answered;
        }
        request.phase = RequestPhase::Settled;
        put(&mut message, "request_id", REQUESTS[index]);
        message.insert("approved".to_owned(), approved.into());
        self.say(Side::Host, &message, expected)
    }

    fn adapter_step(&mut self, at: usize) -> Step {
        let likely = [
            AdapterKind::Output,
            AdapterKind::TurnComplete,
            AdapterKind::PermissionRequest,
            AdapterKind::PermissionCancel,
        ];
        let kind =
            if self.dice.one_in(2) { *self.dice.pick(&likely) } else { *self.dice.pick(AdapterKind::ALL) };
        let seat = &self.seats[at];
        let rule = (self.rules.from_adapter)(seat.phase, kind);
        let mut message = message(kind.as_str(), SESSIONS[at]);
        match rule {
            // Answers without a question are another matter.
            SessionRule::Pipe => Ok(()),
            SessionRule::IgnoreUnknown => {
                fill_adapter(&mut message, kind);
                let stranger = seat.stranger;
                self.say(Side::Adapter, &message, if stranger { &["session.5"] } else { &["msg.1"] })
            }
            SessionRule::IgnoreLate => {
                fill_adapter(&mut message, kind);
                let by_adapter = seat.closed_by_adapter;
                self.say(Side::Adapter, &message, if by_adapter { &["session.8"] } else { &["session.4"] })
            }
            _ if !seat.rich && !kind.extensions().is_empty() => Ok(()),
            SessionRule::Close => {
                if !self.dice.one_in(4) {
                    return Ok(());
                }
                let open = self.seats[at].running().is_some();
                self.seats[at].closed_by_adapter = true;
                self.close(at)?;
                self.say(Side::Adapter, &message, if open { &["session.8"] } else { &[] })
            }
            SessionRule::Accept => self.adapter_says(at, kind, message),
            SessionRule::Open | SessionRule::IgnoreRepeated => {
                Err(format!("{rule:?} of the adapter's {kind:?}"))
            }
        }
    }

    fn adapter_says(&mut self, at: usize, kind: AdapterKind, mut message: Message) -> Step {
        fill_adapter(&mut message, kind);
        match kind {
            AdapterKind::Output | AdapterKind::Thinking | AdapterKind::ToolUpdate => {
                self.emit(at, kind, message)
            }
            AdapterKind::TurnComplete => self.complete(at, message),
            AdapterKind::PermissionRequest | AdapterKind::InputRequest => self.ask(at, kind, message),
            AdapterKind::PermissionCancel => {
                let index = self.dice.below(REQUESTS.len());
                put(&mut message, "request_id", REQUESTS[index]);
                let request = &mut self.seats[at].requests[index];
                match (self.rules.request)(request.phase, RequestStep::Withdraw) {
                    RequestRule::Settle => {
                        request.phase = RequestPhase::Settled;
                        request.past = Past::Withdrawn;
                        self.say(Side::Adapter, &message, &[])
                    }
                    // It may have crossed the answer, so it is allowed.
                    RequestRule::Ignore => self.say(Side::Adapter, &message, &[]),
                    rule => Err(format!("{rule:?} a withdrawal")),
                }
            }
            AdapterKind::SessionReady | AdapterKind::SteerResult => Ok(()),
            _ => self.say(Side::Adapter, &message, &[]),
        }
    }

    /// A turn of the session, or one that is none.
    fn any_turn(&mut self, at: usize) -> Option<usize> {
        let turns = self.seats[at].turns.len();
        (turns > 0 && !self.dice.one_in(16)).then(|| {
            let back = self.dice.below(turns.min(4));
            turns - 1 - back
        })
    }

    fn emit(&mut self, at: usize, kind: AdapterKind, mut message: Message) -> Step {
        if !self.seats[at].rich || self.dice.one_in(4) {
            return self.say(Side::Adapter, &message, &[]);
        }
        let turn = self.any_turn(at);
        let seat = &self.seats[at];
        let mut expected: &[&str] = &[];
        match turn {
            None => {
                put(&mut message, "turn_id", NOWHERE);
                expected = &["turn.9"];
            }
            Some(turn) => {
                put(&mut message, "turn_id", &seat.turns[turn].id);
                let first_stopped = seat.running().is_some_and(|first| seat.turns[first].stopped);
                if (self.rules.turn)(seat.turns[turn].phase, TurnStep::Emit).is_err() {
                    expected = &["turn.2"];
                } else if (self.rules.turn)(seat.served(turn), TurnStep::Emit).is_err()
                    && kind == AdapterKind::Output
                    && !first_stopped
                {
                    expected = &["turn.3"];
                }
            }
        }
        self.say(Side::Adapter, &message, expected)
    }

    fn complete(&mut self, at: usize, mut message: Message) -> Step {
        let turn = if self.seats[at].rich { self.any_turn(at) } else { self.seats[at].running() };
        let seat = &mut self.seats[at];
        let Some(turn) = turn else {
            let expected = if seat.rich {
                put(&mut message, "turn_id", NOWHERE);
                "turn.9"
            } else if seat.idle_stop {
                "turn.5"
            } else {
                "turn.1"
            };
            return self.say(Side::Adapter, &message, &[expected]);
        };
        if seat.rich {
            put(&mut message, "turn_id", &seat.turns[turn].id);
        }
        let expected: &[&str] = match (self.rules.turn)(seat.turns[turn].phase, TurnStep::Complete) {
            Err(_) => &["turn.1"],
            Ok(after) => {
                let jumped = (self.rules.turn)(seat.served(turn), TurnStep::Complete).is_err();
                seat.turns[turn].phase = after;
                seat.idle_stop = false;
                seat.requests.iter_mut().for_each(|request| request.shaken |= !seat.rich);
                if jumped { &["turn.3"] } else { &[] }
            }
        };
        self.say(Side::Adapter, &message, expected)?;
        self.deny_all_of(at, turn)
    }

    fn ask(&mut self, at: usize, kind: AdapterKind, mut message: Message) -> Step {
        let index = self.dice.below(REQUESTS.len());
        let turn = if self.seats[at].rich && self.dice.one_in(4) { None } else { self.seats[at].running() };
        let seat = &mut self.seats[at];
        let request = &mut seat.requests[index];
        let question = kind == AdapterKind::InputRequest;
        // What both kinds have used is answered by either.
        if request.past != Past::Never && request.question != question {
            return Ok(());
        }
        put(&mut message, "request_id", REQUESTS[index]);
        if let Some(turn) = turn.filter(|_| seat.rich) {
            put(&mut message, "turn_id", &seat.turns[turn].id);
        }
        let expected: &[&str] = match (self.rules.request)(request.phase, RequestStep::Ask) {
            RequestRule::Reject if request.shaken => return Ok(()),
            RequestRule::Reject => &["permission.4"],
            RequestRule::Open => {
                let shaken = seat.rich && turn.is_some_and(|turn| seat.turns[turn].stopped);
                *request =
                    Request { phase: RequestPhase::Pending, past: Past::Never, question, turn, shaken };
                &[]
            }
            rule => return Err(format!("{rule:?} a request")),
        };
        self.say(Side::Adapter, &message, expected)
    }

    /// Both count the same turns as open and the same requests as waiting.
    fn compare_open(&self) -> Step {
        let (mut turns, mut requests) = (Vec::new(), Vec::new());
        for open in self.model.open() {
            match open.what {
                Debt::Turn { turn_id, .. } => turns.push((open.session, turn_id)),
                Debt::Permission { request_id, .. } | Debt::Question { request_id, .. } => {
                    requests.push((open.session, request_id));
                }
                _ => {}
            }
        }
        let (mut our_turns, mut our_requests) = (Vec::new(), Vec::new());
        for (seat, id) in self.seats.iter().zip(SESSIONS) {
            if seat.phase == SessionPhase::Open {
                let open = seat.turns.iter().filter(|turn| turn.phase != TurnPhase::Ended);
                our_turns.extend(open.map(|turn| (id.to_owned(), seat.rich.then(|| turn.id.clone()))));
                let pending = seat.requests.iter().zip(REQUESTS);
                let pending = pending.filter(|(request, _)| request.phase == RequestPhase::Pending);
                our_requests.extend(pending.map(|(_, request)| (id.to_owned(), request.to_owned())));
            }
        }
        requests.sort();
        if turns == our_turns && requests == our_requests {
            return Ok(());
        }
        Err(format!("open: {turns:?} and {our_turns:?}; waiting: {requests:?} and {our_requests:?}"))
    }
}

/// Whether the tables of the protocol crate have a word for the clause that was broken.
fn both_speak_of(breach: &Breach) -> bool {
    match breach.clause {
        "ext.5" | "ext.9" => false,
        // A host that queues without leave, and output between turns that have no ids.
        "turn.3" => breach.by == Side::Adapter,
        "turn.2" => breach.level == Level::Must,
        _ => true,
    }
}

fn message(kind: &str, session: &str) -> Message {
    let mut message = Message::new();
    put(&mut message, "type", kind);
    put(&mut message, "session_id", session);
    message
}

fn put(message: &mut Message, key: &str, value: &str) {
    message.insert(key.to_owned(), value.into());
}

/// What the type requires, as far as it is the same each time.
fn fill(message: &mut Message, kind: HostKind) {
    match kind {
        HostKind::UserInput => put(message, "content", "x"),
        HostKind::FileInput => fill_file(message),
        HostKind::PermissionResponse | HostKind::InputResponse => {
            put(message, "request_id", "r-0");
            message.insert("approved".to_owned(), false.into());
        }
        _ => {}
    }
}

fn fill_file(message: &mut Message) {
    put(message, "file_name", "a");
    put(message, "file_mime_type", "text/plain");
    put(message, "file_path", "/a");
}

fn fill_adapter(message: &mut Message, kind: AdapterKind) {
    let strings: &[&str] = match kind {
        AdapterKind::Output | AdapterKind::Thinking | AdapterKind::Log => &["content"],
        AdapterKind::Message => &["role", "content"],
        AdapterKind::PermissionRequest => &["request_id", "tool", "description", "resource"],
        AdapterKind::InputRequest => &["request_id", "prompt"],
        AdapterKind::PermissionCancel => &["request_id"],
        AdapterKind::ToolStart => &["tool_call_id", "tool"],
        AdapterKind::ToolUpdate | AdapterKind::ToolEnd => &["tool_call_id"],
        AdapterKind::Progress | AdapterKind::Error => &["message"],
        AdapterKind::Custom => &["name"],
        AdapterKind::FileOutput => return fill_file(message),
        AdapterKind::Plan => {
            message.insert("entries".to_owned(), Vec::<Value>::new().into());
            return;
        }
        AdapterKind::SteerResult => {
            put(message, "message_id", "m");
            message.insert("delivered".to_owned(), false.into());
            return;
        }
        _ => &[],
    };
    for name in strings {
        put(message, name, "x");
    }
}

fn brief(message: &Message) -> String {
    let mut text = String::new();
    for key in ["session_id", "type", "turn_id", "request_id"] {
        if let Some(Value::String(value)) = message.get(key) {
            text.push_str(value);
            text.push(' ');
        }
    }
    text
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_model_and_the_rules_of_the_protocol_crate_agree() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = setting("MODEL_WALK_SEED").unwrap_or(now.as_secs());
    let steps = setting("MODEL_WALK_STEPS").unwrap_or(1_000_000);
    println!("MODEL_WALK_SEED={seed} MODEL_WALK_STEPS={steps}");
    let mut walk = Walk::new(RULES, seed);
    if let Err(wrong) = walk.run(steps) {
        panic!("MODEL_WALK_SEED={seed}: {wrong}");
    }
}

/// A walk that could not fail would prove nothing: each twisted table must be caught.
#[test]
fn a_twisted_rule_is_caught() {
    use {RequestPhase as Q, RequestStep as A, TurnPhase as P, TurnStep as S};
    let twists = [
        (
            "a closed session takes a stop",
            Rules {
                from_host: |phase, kind| match (phase, kind) {
                    (SessionPhase::Closed, HostKind::Stop) => SessionRule::Accept,
                    _ => rules::from_host(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "an unknown session takes output",
            Rules {
                from_adapter: |phase, kind| match (phase, kind) {
                    (SessionPhase::Unstarted, AdapterKind::Output) => SessionRule::Accept,
                    _ => rules::from_adapter(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "session.closed ends nothing",
            Rules {
                from_adapter: |phase, kind| match (phase, kind) {
                    (SessionPhase::Open, AdapterKind::SessionClosed) => SessionRule::Accept,
                    _ => rules::from_adapter(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "a turn ends twice",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Ended, S::Complete) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "late output is in time",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Ended, S::Emit) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "a stop ends the turn by itself",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Running, S::Stop) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "queued turns are served out of order",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Queued, S::Complete) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "a pending id is asked again",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Pending, A::Ask) => RequestRule::Open,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
        (
            "a late answer counts",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Settled, A::Answer) => RequestRule::Settle,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
        (
            "a withdrawal is ignored",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Pending, A::Withdraw) => RequestRule::Ignore,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
    ];
    for (name, twisted) in twists {
        assert!(Walk::new(twisted, 7).run(20_000).is_err(), "{name}");
    }
}
