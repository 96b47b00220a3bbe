//! A random walk of the suite's model and the rules of the protocol crate together.
//!
//! Both were written from SPEC.md, independently. Nothing is in flight here: each side has read
//! everything before the next step, so that they must agree on each step that both cover.
//! `TRUNKLINE_SEED` chooses another walk, `MODEL_WALK_STEPS` its length.

mod adapter;
mod host;
mod messages;
mod seats;
mod twists;

use trunkline_protocol::rules::{
    self, Illegal, RequestPhase, RequestRule, RequestStep, SessionPhase, SessionRule, TurnPhase,
    TurnStep,
};
use trunkline_protocol::{AdapterKind, HostKind};

use self::messages::brief;
use self::seats::Seat;
use crate::clauses::{Level, Side};
use crate::model::{Breach, Debt, Message, Model, ModelKind};
use crate::rng::Rng;

const SESSIONS: [&str; 4] = ["s-0", "s-1", "s-2", "s-3"];
const REQUESTS: [&str; 4] = ["r-0", "r-1", "r-2", "r-3"];

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
            let taken = if self.dice.one_in(2) {
                self.host_step(seat)
            } else {
                self.adapter_step(seat)
            };
            taken
                .and_then(|()| {
                    if step % 512 == 0 {
                        self.compare_open()
                    } else {
                        Ok(())
                    }
                })
                .map_err(|wrong| {
                    format!(
                        "step {step}: {wrong}\nthe last messages:\n{}",
                        self.last.join("\n")
                    )
                })?;
        }
        Ok(())
    }

    /// Plays a message and demands that the model reports exactly the expected clauses.
    fn say(&mut self, by: Side, message: &Message, expected: &[&str]) -> Step {
        if self.last.len() == 12 {
            self.last.remove(0);
        }
        self.last.push(format!(
            "{} {}",
            if by == Side::Host { '>' } else { '<' },
            brief(message)
        ));
        let breaches = match by {
            Side::Host => self.model.host_says(message),
            Side::Adapter => self.model.adapter_says(message),
        };
        self.model.fence(Side::Host);
        self.model.fence(Side::Adapter);
        let told: Vec<_> = breaches
            .iter()
            .filter(|breach| both_speak_of(breach))
            .map(|b| b.clause)
            .collect();
        if told == expected {
            return Ok(());
        }
        Err(format!(
            "the model tells {told:?}, the rules {expected:?}; {breaches:?}"
        ))
    }

    /// Both count the same turns as open and the same requests as waiting.
    fn compare_open(&self) -> Step {
        let mut turns = Vec::new();
        let mut requests = Vec::new();
        for open in self.model.open() {
            match open.what {
                Debt::Turn { turn_id, .. } => turns.push((open.session, turn_id)),
                Debt::Permission { request_id, .. } | Debt::Question { request_id, .. } => {
                    requests.push((open.session, request_id));
                }
                _ => {}
            }
        }
        let mut our_turns = Vec::new();
        let mut our_requests = Vec::new();
        for (seat, id) in self.seats.iter().zip(SESSIONS) {
            if seat.phase == SessionPhase::Open {
                let open = seat
                    .turns
                    .iter()
                    .filter(|turn| turn.phase != TurnPhase::Ended);
                our_turns
                    .extend(open.map(|turn| (id.to_owned(), seat.rich.then(|| turn.id.clone()))));
                let pending = seat.requests.iter().zip(REQUESTS);
                let pending = pending.filter(|(request, _)| request.phase == RequestPhase::Pending);
                our_requests
                    .extend(pending.map(|(_, request)| (id.to_owned(), request.to_owned())));
            }
        }
        requests.sort();
        if turns == our_turns && requests == our_requests {
            return Ok(());
        }
        Err(format!(
            "open: {turns:?} and {our_turns:?}; waiting: {requests:?} and {our_requests:?}"
        ))
    }
}

/// Returns true if the tables of the protocol crate cover the broken clause.
fn both_speak_of(breach: &Breach) -> bool {
    match breach.clause {
        "ext.5" | "ext.9" => false,
        // A host that queues without leave, and output between turns that have no ids.
        "turn.3" => breach.by == Side::Adapter,
        "turn.2" => breach.level == Level::Must,
        _ => true,
    }
}

#[test]
fn the_model_and_the_rules_of_the_protocol_crate_agree() {
    let steps =
        std::env::var("MODEL_WALK_STEPS").map_or(200_000, |steps| steps.parse().expect("a number"));
    let mut walk = Walk::new(RULES, trunkline_testing::seed());
    if let Err(wrong) = walk.run(steps) {
        panic!("{wrong}");
    }
}
