//! Phase of each session, by the rules of the protocol crate.

use trunkline_protocol::rules::{RequestPhase, SessionPhase, TurnPhase};

pub(super) struct Turn {
    pub(super) id: String,
    pub(super) phase: TurnPhase,
    pub(super) stopped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    Never,
    Answered,
    Withdrawn,
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) phase: RequestPhase,
    pub(super) past: Past,
    pub(super) question: bool,
    pub(super) turn: Option<usize>,
    /// Something has happened that may have settled it, as far as the wire shows.
    pub(super) shaken: bool,
}

pub(super) const UNASKED: Request = Request {
    phase: RequestPhase::Settled,
    past: Past::Never,
    question: false,
    turn: None,
    shaken: false,
};

pub(super) struct Seat {
    pub(super) phase: SessionPhase,
    /// The host wrote to it before any start.
    pub(super) stranger: bool,
    pub(super) closed_by_host: bool,
    pub(super) closed_by_adapter: bool,
    pub(super) rich: bool,
    pub(super) idle_stop: bool,
    pub(super) turns: Vec<Turn>,
    pub(super) requests: [Request; 4],
}

impl Seat {
    pub(super) fn new(phase: SessionPhase) -> Self {
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

    pub(super) fn running(&self) -> Option<usize> {
        self.turns
            .iter()
            .position(|turn| turn.phase != TurnPhase::Ended)
    }

    /// Returns the phase of the turn for the adapter, which serves one at a time.
    pub(super) fn served(&self, turn: usize) -> TurnPhase {
        match self.turns[turn].phase {
            TurnPhase::Running if self.running() != Some(turn) => TurnPhase::Queued,
            phase => phase,
        }
    }
}
