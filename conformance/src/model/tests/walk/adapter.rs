//! The adapter's half of the walk.

use trunkline_protocol::AdapterKind;
use trunkline_protocol::rules::{RequestPhase, RequestRule, RequestStep, SessionRule, TurnStep};

use super::messages::{fill_adapter, message, put};
use super::seats::{Past, Request};
use super::{REQUESTS, SESSIONS, Step, Walk};
use crate::clauses::Side;
use crate::model::Message;

/// A turn that no host begins.
const NOWHERE: &str = "t-nowhere";

impl Walk {
    pub(super) fn adapter_step(&mut self, at: usize) -> Step {
        let likely = [
            AdapterKind::Output,
            AdapterKind::TurnComplete,
            AdapterKind::PermissionRequest,
            AdapterKind::PermissionCancel,
        ];
        let kind = if self.dice.one_in(2) {
            *self.dice.pick(&likely)
        } else {
            *self.dice.pick(AdapterKind::ALL)
        };
        let seat = &self.seats[at];
        let rule = (self.rules.from_adapter)(seat.phase, kind);
        let mut message = message(kind.as_str(), SESSIONS[at]);
        match rule {
            // Answers without a question are another matter.
            SessionRule::Pipe => Ok(()),
            SessionRule::IgnoreUnknown => {
                fill_adapter(&mut message, kind);
                let stranger = seat.stranger;
                self.say(
                    Side::Adapter,
                    &message,
                    if stranger { &["session.5"] } else { &["msg.1"] },
                )
            }
            SessionRule::IgnoreLate => {
                fill_adapter(&mut message, kind);
                let by_adapter = seat.closed_by_adapter;
                self.say(
                    Side::Adapter,
                    &message,
                    if by_adapter {
                        &["session.8"]
                    } else {
                        &["session.4"]
                    },
                )
            }
            _ if !seat.rich && !kind.extensions().is_empty() => Ok(()),
            SessionRule::Close => {
                if !self.dice.one_in(4) {
                    return Ok(());
                }
                let open = self.seats[at].running().is_some();
                self.seats[at].closed_by_adapter = true;
                self.close(at)?;
                self.say(
                    Side::Adapter,
                    &message,
                    if open { &["session.8"] } else { &[] },
                )
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
            AdapterKind::PermissionRequest | AdapterKind::InputRequest => {
                self.ask(at, kind, message)
            }
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
                let first_stopped = seat
                    .running()
                    .is_some_and(|first| seat.turns[first].stopped);
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
        let turn = if self.seats[at].rich {
            self.any_turn(at)
        } else {
            self.seats[at].running()
        };
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
        let expected: &[&str] = match (self.rules.turn)(seat.turns[turn].phase, TurnStep::Complete)
        {
            Err(_) => &["turn.1"],
            Ok(after) => {
                let jumped = (self.rules.turn)(seat.served(turn), TurnStep::Complete).is_err();
                seat.turns[turn].phase = after;
                seat.idle_stop = false;
                seat.requests
                    .iter_mut()
                    .for_each(|request| request.shaken |= !seat.rich);
                if jumped { &["turn.3"] } else { &[] }
            }
        };
        self.say(Side::Adapter, &message, expected)?;
        self.deny_all_of(at, turn)
    }

    fn ask(&mut self, at: usize, kind: AdapterKind, mut message: Message) -> Step {
        let index = self.dice.below(REQUESTS.len());
        let turn = if self.seats[at].rich && self.dice.one_in(4) {
            None
        } else {
            self.seats[at].running()
        };
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
                *request = Request {
                    phase: RequestPhase::Pending,
                    past: Past::Never,
                    question,
                    turn,
                    shaken,
                };
                &[]
            }
            rule => return Err(format!("{rule:?} a request")),
        };
        self.say(Side::Adapter, &message, expected)
    }
}
