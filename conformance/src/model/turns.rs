//! The turns of one session: what was asked, what has ended, what is late.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::clauses::Level;

use super::reading::Reading;
use super::shape::ShapeFault;

/// A `user.input` that is a turn.
#[derive(Clone, Debug)]
pub(crate) struct ModelTurn {
    pub(crate) id: Option<String>,
    written: u64,
    /// A `stop` named this turn, or may have meant it.
    pub(crate) stopped: bool,
    /// Messages that the host had read when it wrote a `stop` of this turn.
    stop_read: Option<u64>,
    ended: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Steers {
    sent: u32,
    answered: u32,
}

/// Turn that the `turn_id` of a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedTurn {
    Open(usize),
    Ended(usize),
    Steer,
    Nothing,
}

/// The ledger of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    all: Vec<ModelTurn>,
    open: BTreeSet<usize>,
    by_id: HashMap<String, usize>,
    steer_ids: HashSet<String>,
    steers: HashMap<String, Steers>,
    last_complete: u64,
    idle_stop: u64,
}

impl Turns {
    /// The turn that the adapter is serving, as far as was recorded.
    pub(crate) fn running(&self) -> Option<usize> {
        self.open.first().copied()
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &ModelTurn> {
        self.open.iter().map(|&index| &self.all[index])
    }

    pub(crate) fn named(&self, id: &str) -> NamedTurn {
        match self.by_id.get(id) {
            Some(&index) if self.open.contains(&index) => NamedTurn::Open(index),
            Some(&index) => NamedTurn::Ended(index),
            None if self.steer_ids.contains(id) => NamedTurn::Steer,
            None => NamedTurn::Nothing,
        }
    }

    /// Returns true if a turn has ended since `then`.
    pub(crate) fn ended_since(&self, then: u64) -> bool {
        self.last_complete > then
    }

    pub(crate) fn has_ended_any(&self) -> bool {
        self.last_complete > 0
    }

    /// When that turn ended.
    pub(crate) fn end_of(&self, turn: usize) -> Option<u64> {
        self.all.get(turn)?.ended
    }

    /// Returns true if that turn has ended, or a `stop` was written that may end it.
    pub(crate) fn may_be_over(&self, turn: usize) -> bool {
        self.all
            .get(turn)
            .is_none_or(|turn| turn.stopped || turn.ended.is_some())
    }

    /// Returns the messages that the host had read when it stopped that turn.
    pub(crate) fn stop_of(&self, turn: usize) -> Option<u64> {
        self.all.get(turn)?.stop_read
    }

    /// Takes an input that is a turn; `false` where its id was used before.
    pub(crate) fn begin(&mut self, id: Option<&str>, reading: &Reading) -> bool {
        let index = self.all.len();
        self.open.insert(index);
        self.all.push(ModelTurn {
            id: id.map(str::to_owned),
            written: reading.now,
            stopped: false,
            stop_read: None,
            ended: None,
        });
        match id {
            Some(id) => {
                let taken = self.steer_ids.contains(id);
                self.by_id.insert(id.to_owned(), index).is_none() && !taken
            }
            None => true,
        }
    }

    /// Takes a steer; `false` where its turn id was used before.
    pub(crate) fn steer(&mut self, turn_id: Option<&str>, message_id: Option<&str>) -> bool {
        if let Some(message_id) = message_id {
            self.steers.entry(message_id.to_owned()).or_default().sent += 1;
        }
        match turn_id {
            Some(id) => self.steer_ids.insert(id.to_owned()) && !self.by_id.contains_key(id),
            None => true,
        }
    }

    /// Takes a `stop`.
    pub(crate) fn stop(&mut self, id: Option<&str>, reading: &Reading) -> Result<(), ShapeFault> {
        let index = match id {
            None => match self.running() {
                Some(index) => index,
                None => {
                    self.idle_stop = reading.now;
                    return Ok(());
                }
            },
            Some(id) => match self.named(id) {
                NamedTurn::Open(index) => index,
                NamedTurn::Ended(_) | NamedTurn::Steer => return Ok(()),
                NamedTurn::Nothing => {
                    return Err(ShapeFault {
                        clause: "turn.9",
                        level: Level::Should,
                        text: format!("stop names {id:?}, which was not a turn"),
                    });
                }
            },
        };
        self.all[index].stopped = true;
        // If the host meant the previous turn, it has not read the requests of this one.
        self.all[index].stop_read = Some(reading.host);
        Ok(())
    }

    /// Takes a `stop` whose meaning hangs on what the adapter will agree to: any open turn may be meant.
    pub(crate) fn stop_any(&mut self) {
        for &index in &self.open {
            self.all[index].stopped = true;
        }
    }

    /// Takes a `turn.complete` of an adapter without `turns`.
    pub(crate) fn complete_oldest(&mut self, reading: &Reading) -> Result<usize, ShapeFault> {
        let Some(index) = self.running() else {
            let clause = if self.idle_stop > self.last_complete {
                "turn.5"
            } else {
                "turn.1"
            };
            return Err(must(
                clause,
                "turn.complete without an open turn".to_owned(),
            ));
        };
        self.end(index, reading);
        Ok(index)
    }

    /// Takes a `turn.complete` of an adapter with `turns`; `orderly` where it claims that the turn
    /// was served.
    pub(crate) fn complete(
        &mut self,
        id: Option<&str>,
        orderly: bool,
        reading: &Reading,
    ) -> (Option<usize>, Option<ShapeFault>) {
        let Some(id) = id else {
            // The adapter has no id to give where the host gave none.
            let nameless = self
                .open
                .iter()
                .copied()
                .find(|&index| self.all[index].id.is_none());
            return match nameless {
                Some(index) => {
                    self.end(index, reading);
                    (Some(index), None)
                }
                None => (
                    None,
                    Some(must("turn.9", "turn.complete without turn_id".to_owned())),
                ),
            };
        };
        match self.named(id) {
            NamedTurn::Open(index) => {
                let passed = self.running().filter(|&first| first != index);
                let jumped = passed
                    .filter(|_| orderly && !self.all[index].stopped)
                    .map(|first| {
                        let first = self.all[first].id.as_deref().unwrap_or("an earlier turn");
                        must(
                            "turn.3",
                            format!("{id:?} was served to its end before {first:?}"),
                        )
                    });
                self.end(index, reading);
                (Some(index), jumped)
            }
            NamedTurn::Ended(_) => (None, Some(must("turn.1", format!("{id:?} ended twice")))),
            NamedTurn::Steer => (
                None,
                Some(must(
                    "turn.10",
                    format!("the steer {id:?} got a turn.complete"),
                )),
            ),
            NamedTurn::Nothing => (
                None,
                Some(must(
                    "turn.9",
                    format!("turn.complete for {id:?}, which is not a turn"),
                )),
            ),
        }
    }

    /// Returns true if that open turn is behind another, and neither was stopped.
    pub(crate) fn is_behind(&self, turn: usize) -> bool {
        let earlier = self
            .running()
            .filter(|&first| first < turn && !self.all[first].stopped);
        earlier.is_some() && self.open.contains(&turn) && !self.all[turn].stopped
    }

    /// Takes a `steer.result`.
    pub(crate) fn steered(&mut self, message_id: Option<&str>) -> Result<(), ShapeFault> {
        let Some(id) = message_id else {
            return Err(must(
                "turn.10",
                "steer.result without message_id".to_owned(),
            ));
        };
        match self.steers.get_mut(id) {
            None => Err(must(
                "turn.10",
                format!("steer.result for {id:?}, which is not a steer"),
            )),
            Some(steers) if steers.answered == steers.sent => {
                Err(must("turn.10", format!("a second steer.result for {id:?}")))
            }
            Some(steers) => {
                steers.answered += 1;
                Ok(())
            }
        }
    }

    /// The steers without their result.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &str> {
        self.steers
            .iter()
            .filter(|(_, steers)| steers.answered < steers.sent)
            .map(|(id, _)| id.as_str())
    }

    /// An open turn whose input the adapter has certainly read: by a fence, or because it ended a later one.
    pub(crate) fn left_open(&self, reading: &Reading) -> Option<&ModelTurn> {
        let first = self.running()?;
        let turn = &self.all[first];
        let passed = self.all[first..].iter().any(|later| later.ended.is_some());
        (passed || reading.adapter_knows(turn.written)).then_some(turn)
    }

    fn end(&mut self, index: usize, reading: &Reading) {
        self.open.remove(&index);
        self.all[index].ended = Some(reading.now);
        self.last_complete = reading.now;
    }
}

fn must(clause: &'static str, text: String) -> ShapeFault {
    ShapeFault {
        clause,
        level: Level::Must,
        text,
    }
}
