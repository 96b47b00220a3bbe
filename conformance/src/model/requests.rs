//! The permission requests and questions of one session, which share one space of ids ([permission.4]).

use std::collections::{HashMap, HashSet};

use crate::clauses::Level;

use super::reading::Reading;
use super::shape::ShapeFault;
use super::turns::Turns;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestType {
    Permission,
    Question,
}

/// Answer of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostAnswer {
    Approved,
    Denied,
}

/// The latest request of an id.
#[derive(Clone, Debug)]
struct LatestRequest {
    ask: RequestType,
    mixed: bool,
    asked: u64,
    place: RequestScope,
    /// The adapter may have settled it without a word, or by what was in flight when it asked.
    loose: bool,
    replayed: bool,
    /// For the host the one before it may be pending still, and this one a bad message.
    doubted: bool,
    answered: Option<u64>,
    cancelled: Option<u64>,
    /// Number of answers that may still arrive, including those to earlier requests of the id.
    answers_due: u32,
}

/// Scope of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestScope {
    /// To this turn, by its id.
    Turn(usize),
    /// To no turn: neither a stop nor an end settles it.
    Outside,
    /// To the turn that seems to run, if one does: there are no ids.
    Perhaps(Option<usize>),
}

impl RequestScope {
    fn turn(self) -> Option<usize> {
        match self {
            Self::Turn(turn) => Some(turn),
            Self::Outside => None,
            Self::Perhaps(turn) => turn,
        }
    }
}

/// A request to be taken down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRequest {
    pub(crate) ask: RequestType,
    pub(crate) place: RequestScope,
    /// The adapter may settle it at a time of its own, without a word.
    pub(crate) loose: bool,
    /// A replay of an earlier request, which needs no answer.
    pub(crate) replayed: bool,
}

/// All requests of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    by_id: HashMap<String, LatestRequest>,
    bad: HashSet<String>,
    last_stop: u64,
}

impl Requests {
    /// Takes a `stop` that may concern any request of a turn, before or after the adapter reads it.
    pub(crate) fn stopped(&mut self, reading: &Reading) {
        self.last_stop = reading.now;
    }

    /// Takes a request that is not a message at all: the host owes it nothing.
    pub(crate) fn bad(&mut self, id: &str) {
        self.bad.insert(id.to_owned());
    }

    pub(crate) fn ask(
        &mut self,
        id: &str,
        new: NewRequest,
        turns: &Turns,
        reading: &Reading,
    ) -> Result<(), ShapeFault> {
        let stop_in_flight =
            new.place != RequestScope::Outside && !reading.adapter_knows(self.last_stop);
        let mut request = LatestRequest {
            ask: new.ask,
            mixed: false,
            asked: reading.now,
            place: new.place,
            loose: new.loose || new.replayed || stop_in_flight,
            replayed: new.replayed,
            doubted: false,
            answered: None,
            cancelled: None,
            answers_due: 1,
        };
        if let Some(old) = self.by_id.get(id) {
            let settled = old.loose
                || old.answered.is_some()
                || old.cancelled.is_some()
                || match old.place {
                    RequestScope::Outside => false,
                    RequestScope::Turn(turn) => {
                        turns.may_be_over(turn) || self.last_stop > old.asked
                    }
                    RequestScope::Perhaps(_) => {
                        turns.ended_since(old.asked) || self.last_stop > old.asked
                    }
                };
            if !settled {
                let text = format!("{id:?} is pending already");
                return Err(ShapeFault {
                    clause: "permission.4",
                    level: Level::Must,
                    text,
                });
            }
            request.loose |= old
                .answered
                .is_some_and(|then| !reading.adapter_knows(then));
            // What settled the old one for the host too: its withdrawal, the end of its turn, the
            // last answer.
            let ended = !old.doubted
                && old
                    .place
                    .turn()
                    .is_some_and(|turn| turns.end_of(turn).is_some());
            request.doubted = old.answers_due > 0 && old.cancelled.is_none() && !ended;
            request.mixed = old.mixed || old.ask != new.ask;
            // An answer to what the host knew to be withdrawn is not on its way.
            let withdrawn = old.cancelled.is_some_and(|then| reading.host_knows(then));
            if !withdrawn {
                request.answers_due = old.answers_due.saturating_add(1);
            }
        }
        self.by_id.insert(id.to_owned(), request);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, id: &str, reading: &Reading) -> Result<(), ShapeFault> {
        let Some(request) = self.by_id.get_mut(id) else {
            let text = format!("permission.cancel for {id:?}, which was never asked");
            return Err(ShapeFault {
                clause: "ext.5",
                level: Level::Should,
                text,
            });
        };
        request.cancelled.get_or_insert(reading.now);
        Ok(())
    }

    /// Takes the host's answer to `id`.
    pub(crate) fn answer(
        &mut self,
        id: &str,
        ask: RequestType,
        answer: HostAnswer,
        turns: &Turns,
        reading: &Reading,
    ) -> Result<(), ShapeFault> {
        let fault = |clause, level, text| {
            Err(ShapeFault {
                clause,
                level,
                text,
            })
        };
        let approved = answer == HostAnswer::Approved;
        let Some(request) = self.by_id.get_mut(id) else {
            return if self.bad.contains(id) {
                fault(
                    "msg.4",
                    Level::Must,
                    format!("{id:?} was a bad message and got an answer"),
                )
            } else if approved {
                fault(
                    "permission.3",
                    Level::Must,
                    format!("{id:?} was approved without a request"),
                )
            } else {
                fault(
                    "permission.2",
                    Level::Should,
                    format!("{id:?} was answered without a request"),
                )
            };
        };
        if request.ask != ask && !request.mixed {
            return fault(
                "ext.5",
                Level::Must,
                format!("{id:?} was answered as what it is not"),
            );
        }
        let settled = settled_by(request, turns, reading);
        request.answered = Some(reading.now);
        if request.answers_due == 0 {
            return fault(
                "permission.2",
                Level::Must,
                format!("{id:?} was answered twice"),
            );
        }
        request.answers_due -= 1;
        match settled {
            Some(cause) if approved => fault(
                "permission.3",
                Level::Must,
                format!("{id:?} was approved after {cause}"),
            ),
            _ => Ok(()),
        }
    }

    /// The requests that wait for the host, each with whether it must be denied by now.
    pub(crate) fn waiting<'a>(
        &'a self,
        turns: &'a Turns,
    ) -> impl Iterator<Item = (&'a str, RequestType, bool)> {
        self.by_id
            .iter()
            .filter(|(_, request)| request.answered.is_none() && !request.replayed)
            .filter_map(move |(id, request)| {
                let due = !request.doubted
                    && request.place.turn().is_some_and(|turn| {
                        turns.end_of(turn).is_some()
                            || turns
                                .stop_of(turn)
                                .is_some_and(|read| read >= request.asked)
                    });
                request
                    .cancelled
                    .is_none()
                    .then_some((id.as_str(), request.ask, due))
            })
    }
}

/// Returns what settled the request before the host wrote, as far as the host certainly knew.
fn settled_by(request: &LatestRequest, turns: &Turns, reading: &Reading) -> Option<&'static str> {
    if request
        .cancelled
        .is_some_and(|then| reading.host_knows(then))
    {
        return Some("it was withdrawn");
    }
    let turn = request.place.turn().filter(|_| !request.doubted)?;
    if turns
        .end_of(turn)
        .is_some_and(|then| reading.host_knows(then))
    {
        return Some("the end of its turn");
    }
    turns
        .stop_of(turn)
        .filter(|&read| read >= request.asked)
        .map(|_| "the stop of its turn")
}
