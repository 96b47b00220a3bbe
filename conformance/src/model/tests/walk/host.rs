//! The host's half of the walk.

use serde_json::Value;
use trunkline_protocol::HostKind;
use trunkline_protocol::rules::{
    RequestPhase, RequestRule, RequestStep, SessionPhase, SessionRule, TurnPhase, TurnStep,
};

use super::messages::{fill, message, put};
use super::seats::{Past, Seat, Turn, UNASKED};
use super::{REQUESTS, SESSIONS, Step, Walk};
use crate::clauses::Side;
use crate::model::Message;
use crate::run::EXTENSIONS;

impl Walk {
    pub(super) fn host_step(&mut self, at: usize) -> Step {
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
            // A pause would hold back messages that this walk lets the adapter send.
            || kind == HostKind::FlowPause && rule == SessionRule::Accept
        {
            return Ok(());
        }
        let mut message = message(
            kind.as_str(),
            if rule == SessionRule::Pipe {
                ""
            } else {
                SESSIONS[at]
            },
        );
        let over: &[&str] = if seat.closed_by_host {
            &["session.4"]
        } else {
            &["session.8"]
        };
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
        self.say(
            Side::Host,
            &message,
            if again { &["session.2"] } else { &[] },
        )?;
        if !self.seats[at].rich {
            return Ok(());
        }
        let mut ready = super::messages::message("session.ready", SESSIONS[at]);
        ready.insert("extensions".to_owned(), names.into());
        ready.insert("input_modes".to_owned(), vec![Value::from("queue")].into());
        self.say(Side::Adapter, &ready, &[])
    }

    pub(super) fn close(&mut self, at: usize) -> Step {
        let seat = &mut self.seats[at];
        seat.phase = SessionPhase::Closed;
        for turn in seat
            .turns
            .iter_mut()
            .filter(|turn| turn.phase != TurnPhase::Ended)
        {
            turn.phase = (self.rules.turn)(turn.phase, TurnStep::Abort)
                .map_err(|illegal| illegal.to_string())?;
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
                let phase = (self.rules.turn)(TurnPhase::Queued, TurnStep::Begin)
                    .map_err(|i| i.to_string())?;
                seat.turns.push(Turn {
                    id,
                    phase,
                    stopped: false,
                });
                fill(&mut message, kind);
                self.say(Side::Host, &message, &[])
            }
            HostKind::Stop => self.stop(at, message),
            HostKind::PermissionResponse | HostKind::InputResponse => {
                self.answer(at, kind, message)
            }
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
            turn.phase = (self.rules.turn)(turn.phase, TurnStep::Stop)
                .map_err(|illegal| illegal.to_string())?;
            turn.stopped |= turn.phase != TurnPhase::Ended;
        }
        self.say(Side::Host, &message, &[])?;
        turn.map_or(Ok(()), |turn| self.deny_all_of(at, turn))
    }

    /// Writes the denials of a host at a stop and at the end of a turn ([permission.3]).
    pub(super) fn deny_all_of(&mut self, at: usize, turn: usize) -> Step {
        for (index, id) in REQUESTS.into_iter().enumerate() {
            let request = &mut self.seats[at].requests[index];
            if request.phase == RequestPhase::Pending && request.turn == Some(turn) {
                if (self.rules.request)(request.phase, RequestStep::Deny) != RequestRule::Settle {
                    return Err("the end of a turn does not deny what is pending".to_owned());
                }
                request.phase = RequestPhase::Settled;
                request.past = Past::Answered;
                let kind = if request.question {
                    "input.response"
                } else {
                    "permission.response"
                };
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
        let expected: &[&str] = match (
            (self.rules.request)(request.phase, RequestStep::Answer),
            request.past,
        ) {
            (RequestRule::Settle, _) => &[],
            (RequestRule::Ignore, Past::Never) if approved => &["permission.3"],
            (RequestRule::Ignore, Past::Never | Past::Answered) => &["permission.2"],
            (RequestRule::Ignore, Past::Withdrawn) if approved => &["permission.3"],
            // A denial of a withdrawn request has no effect.
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
}
