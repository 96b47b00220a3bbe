//! The turns of one session as its hub counts them ([turn.1], [turn.9]).
//!
//! ```text
//!            the host takes it           its end
//! Waiting ───────────────────▶ Given ─────────────▶ gone
//!    │                                                ▲
//!    └──── refused: Refused ── its turn to end ───────┘
//! ```

use std::collections::VecDeque;

use trunkline_host::TurnNo;
use trunkline_protocol::{TurnComplete, TurnId};

/// How many ended turns are remembered by the hub's id, for what comes late.
const REMEMBERED: usize = 64;

/// How many turns of one session may be open. An input more is dropped and counted: a hub that sends so many reads no
/// answer.
const OPEN: usize = 4096;

/// Names an input within its session, from the hub on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial(u64);

/// One turn that the hub waits for.
#[derive(Debug)]
pub(super) struct OpenTurn {
    /// The hub's own id of it, where it gave one.
    pub(super) hub: Option<TurnId>,
    serial: Serial,
    pub(super) stage: Stage,
}

/// How far a turn is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its input waits behind a file.
    Waiting,
    /// The host has it.
    Given(TurnNo),
    /// The host did not take it; this is its end.
    Refused(Box<TurnComplete>),
}

/// The turns that the hub waits for, in the order of their inputs.
#[derive(Debug, Default)]
pub(super) struct Turns {
    open: VecDeque<OpenTurn>,
    ended: VecDeque<(TurnNo, TurnId)>,
    serials: u64,
}

impl Turns {
    /// Takes an input; nothing where too many are open.
    pub(super) fn begin(&mut self, hub: Option<TurnId>) -> Option<Serial> {
        if self.open.len() >= OPEN {
            return None;
        }
        self.serials += 1;
        let serial = Serial(self.serials);
        self.open.push_back(OpenTurn { hub, serial, stage: Stage::Waiting });
        Some(serial)
    }

    /// Says how the host took an input.
    pub(super) fn set(&mut self, serial: Serial, stage: Stage) {
        if let Some(turn) = self.open.iter_mut().find(|turn| turn.serial == serial) {
            turn.stage = stage;
        }
    }

    /// The hub's id of a turn of the host, also of one that ended lately.
    pub(super) fn hub_id(&self, no: TurnNo) -> Option<TurnId> {
        let open = self.open.iter().find(|turn| turn.is(no));
        let ended = || self.ended.iter().find(|(ended, _)| *ended == no).map(|(_, hub)| hub.clone());
        open.map_or_else(ended, |turn| turn.hub.clone())
    }

    /// The hub's id of the turn that runs, if one does.
    pub(super) fn running(&self) -> Option<TurnId> {
        self.open
            .front()
            .filter(|turn| matches!(turn.stage, Stage::Given(_)))
            .and_then(|turn| turn.hub.clone())
    }

    /// Ends a turn of the host; nothing where the hub does not wait for it.
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

    /// The turn that a `stop` means: the named one, else the first that has not ended ([turn.4], [turn.9]).
    pub(super) fn meant_by(&self, named: Option<&TurnId>) -> Option<(Serial, &Stage)> {
        let meant = match named {
            None => self.open.front(),
            Some(id) => self.open.iter().find(|turn| turn.hub.as_ref() == Some(id)),
        };
        meant.map(|turn| (turn.serial, &turn.stage))
    }

    /// Takes out the first turn, if it was refused: those before it have ended.
    pub(super) fn take_refused_first(&mut self) -> Option<(Option<TurnId>, Box<TurnComplete>)> {
        let turn = self.open.pop_front()?;
        match turn.stage {
            Stage::Refused(end) => Some((turn.hub, end)),
            Stage::Waiting | Stage::Given(_) => {
                self.open.push_front(turn);
                None
            }
        }
    }

    /// Takes out a turn that was refused, wherever it stands.
    pub(super) fn take_refused(&mut self) -> Option<(Option<TurnId>, Box<TurnComplete>)> {
        let at = self.open.iter().position(|turn| matches!(turn.stage, Stage::Refused(_)))?;
        match self.open.remove(at)? {
            OpenTurn { hub, stage: Stage::Refused(end), .. } => Some((hub, end)),
            OpenTurn { .. } => None,
        }
    }

    /// Takes out the first turn.
    pub(super) fn take_first(&mut self) -> Option<OpenTurn> {
        self.open.pop_front()
    }

    /// Whether the hub waits for none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl OpenTurn {
    fn is(&self, no: TurnNo) -> bool {
        matches!(self.stage, Stage::Given(given) if given == no)
    }
}
