//! The turns of one session as its hub counts them ([turn.1], [turn.9]).
//!
//! ```text
//!            the host takes it           its end
//! Waiting ───────────────────▶ Given ─────────────▶ gone
//!    │                                                ▲
//!    └── refused: sent at once, or Refused in order ──┘
//! ```

use std::collections::VecDeque;

use trunkline_host::TurnNo;
use trunkline_protocol::{TurnComplete, TurnId};

/// Number of ended turns that are remembered by the hub's id, for late output.
const REMEMBERED: usize = 64;

/// Maximum number of open turns in one session; refused ones that end alike count as one. A further
/// input is refused.
const OPEN: usize = 4096;

/// Id of an input within its session, from its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial(u64);

/// A turn that the hub waits for.
#[derive(Debug)]
pub(super) struct OpenTurn {
    /// The hub's own id of the turn, if it gave one.
    pub(super) hub: Option<TurnId>,
    serial: Serial,
    pub(super) stage: Stage,
}

/// The progress of a turn.
#[derive(Debug)]
pub(super) enum Stage {
    /// The input waits for a file.
    Waiting,
    /// The host has the turn.
    Given(TurnNo),
    /// The host did not accept it, nor the ones that followed: a number of ends, all alike. Only
    /// for a hub that does not know `turns`: it distinguishes ends only by their order, so these
    /// wait for earlier ends.
    Refused(Box<TurnComplete>, u64),
}

/// The turns that the hub waits for, in the order of their inputs.
#[derive(Debug, Default)]
pub(super) struct Turns {
    open: VecDeque<OpenTurn>,
    ended: VecDeque<(TurnNo, TurnId)>,
    serials: u64,
}

impl Turns {
    /// Adds an input.
    pub(super) fn begin(&mut self, hub: Option<TurnId>) -> Serial {
        self.serials += 1;
        let serial = Serial(self.serials);
        self.open.push_back(OpenTurn {
            hub,
            serial,
            stage: Stage::Waiting,
        });
        serial
    }

    /// Returns true if too many turns are open to give another one to the host.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() > OPEN
    }

    /// Sets the stage of an input.
    pub(super) fn set(&mut self, serial: Serial, stage: Stage) {
        if let Some(turn) = self.open.iter_mut().find(|turn| turn.serial == serial) {
            turn.stage = stage;
        }
    }

    /// Returns the hub's id of a turn of the host, also if the turn has ended lately.
    pub(super) fn hub_id(&self, no: TurnNo) -> Option<TurnId> {
        let open = self.open.iter().find(|turn| turn.is(no));
        let ended = || {
            self.ended
                .iter()
                .find(|(ended, _)| *ended == no)
                .map(|(_, hub)| hub.clone())
        };
        open.map_or_else(ended, |turn| turn.hub.clone())
    }

    /// Returns the hub's id of the running turn.
    pub(super) fn running(&self) -> Option<TurnId> {
        self.open
            .front()
            .filter(|turn| matches!(turn.stage, Stage::Given(_)))
            .and_then(|turn| turn.hub.clone())
    }

    /// Ends a turn of the host; `None` if the hub does not wait for it.
    pub(super) fn end(&mut self, no: TurnNo) -> Option<OpenTurn> {
        let at = self.open.iter().position(|turn| turn.is(no))?;
        let turn = self.open.remove(at)?;
        if let Some(hub) = &turn.hub {
            if self.ended.len() == REMEMBERED {
                self.ended.pop_front();
            }
            self.ended.push_back((no, hub.clone()));
        }
        Some(turn)
    }

    /// Returns the turn that a `stop` means: the named one, otherwise the first that the host has,
    /// otherwise the first that waits ([turn.4], [turn.9]). A refused one has ended.
    pub(super) fn meant_by(&self, named: Option<&TurnId>) -> Option<(Serial, &Stage)> {
        let first = |is: fn(&Stage) -> bool| self.open.iter().find(|turn| is(&turn.stage));
        let meant = match named {
            None => first(|stage| matches!(stage, Stage::Given(_)))
                .or_else(|| first(|stage| matches!(stage, Stage::Waiting))),
            Some(id) => self.open.iter().find(|turn| turn.hub.as_ref() == Some(id)),
        };
        meant.map(|turn| (turn.serial, &turn.stage))
    }

    /// Removes a turn by its serial.
    pub(super) fn take(&mut self, serial: Serial) -> Option<OpenTurn> {
        let at = self.open.iter().rposition(|turn| turn.serial == serial)?;
        self.open.remove(at)
    }

    /// Marks a turn as refused, with its end. The turn stays in its place.
    pub(super) fn refuse(&mut self, serial: Serial, end: TurnComplete) {
        let Some(at) = self.open.iter().rposition(|turn| turn.serial == serial) else {
            return;
        };
        self.open[at].stage = Stage::Refused(Box::new(end), 1);
        // With the later neighbour first: its place does not move.
        self.join(at + 1);
        self.join(at);
    }

    /// Refuses all open turns, each in its place.
    pub(super) fn refuse_all(&mut self, end: &TurnComplete) {
        for at in (0..self.open.len()).rev() {
            if !matches!(self.open[at].stage, Stage::Refused(..)) {
                self.open[at].stage = Stage::Refused(Box::new(end.clone()), 1);
            }
            self.join(at + 1);
        }
    }

    /// Merges two neighbours whose ends are alike, so that a million of them take no room. If too
    /// many turns are open, the reason of the first serves both.
    fn join(&mut self, at: usize) {
        let is_full = self.is_full();
        let (Some(second), Some(first)) = (
            self.open.get(at),
            at.checked_sub(1).map(|at| &self.open[at]),
        ) else {
            return;
        };
        let (Stage::Refused(end, count), Stage::Refused(other, more)) =
            (&first.stage, &second.stage)
        else {
            return;
        };
        if end == other || is_full {
            let count = count + more;
            self.open.remove(at);
            if let Stage::Refused(_, joined) = &mut self.open[at - 1].stage {
                *joined = count;
            }
        }
    }

    /// Returns true if the first turn was refused: all earlier ones have ended.
    pub(super) fn is_refused_first(&self) -> bool {
        matches!(
            self.open.front(),
            Some(OpenTurn {
                stage: Stage::Refused(..),
                ..
            })
        )
    }

    /// Removes one refused turn from the front and returns its end.
    pub(super) fn take_refused_first(&mut self) -> Option<Box<TurnComplete>> {
        match &mut self.open.front_mut()?.stage {
            Stage::Refused(end, count) if *count > 1 => {
                *count -= 1;
                Some(end.clone())
            }
            Stage::Refused(..) => match self.open.pop_front()?.stage {
                Stage::Refused(end, _) => Some(end),
                Stage::Waiting | Stage::Given(_) => None,
            },
            Stage::Waiting | Stage::Given(_) => None,
        }
    }

    /// Removes the first turn.
    pub(super) fn take_first(&mut self) -> Option<OpenTurn> {
        self.open.pop_front()
    }

    /// Returns true if the hub waits for no turn.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl OpenTurn {
    fn is(&self, no: TurnNo) -> bool {
        matches!(self.stage, Stage::Given(given) if given == no)
    }
}
