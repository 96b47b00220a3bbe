//! The turn that is being served.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use trunkline_protocol::{
    Failure, MessageId, Status, StopReason, ToolCallId, TurnComplete, TurnId, rules::TurnPhase,
};

/// A turn from its begin to its one end. Taking it out of its session is what ends it.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    /// Tells this turn from every other of the session, even where the host gives no ids.
    pub(super) serial: u64,
    pub(super) id: Option<TurnId>,
    pub(super) phase: TurnPhase,
    pub(super) stop_reason: Option<StopReason>,
    /// Cancelled by a stop, and by the end.
    pub(super) stop: CancellationToken,
    /// Cancelled when the handler has had its time: its future is dropped.
    pub(super) cut: CancellationToken,
    pub(super) open_tools: Vec<ToolCallId>,
    pub(super) steers: VecDeque<Steer>,
    pub(super) steered: Arc<Notify>,
}

/// An input that adds to the running turn and was not taken yet.
#[derive(Debug)]
pub(crate) struct Steer {
    pub(crate) message_id: Option<MessageId>,
    pub(crate) content: String,
}

/// Origin of a turn's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOrigin {
    /// The handler returned: an earlier stop makes it `stopped`.
    Returned,
    /// The handler called `finish`: it remains as it is.
    Said,
}

impl RunningTurn {
    /// Returns true if the turn ends as stopped, whatever its handler has returned.
    pub(super) fn is_overruled(&self, verdict: EndOrigin) -> bool {
        self.phase == TurnPhase::Stopping && verdict == EndOrigin::Returned
    }

    /// Returns the end to write.
    pub(super) fn end(&self, end: TurnComplete, verdict: EndOrigin) -> TurnComplete {
        if self.is_overruled(verdict) {
            return stopped(self.stop_reason);
        }
        let stop_reason = end.stop_reason.clone();
        let reason = self.stop_reason.map(|reason| reason.as_str().to_owned());
        TurnComplete {
            status: Some(end.status_or_completed()),
            stop_reason: stop_reason.or(reason.filter(|_| end.status == Some(Status::Stopped))),
            ..end
        }
    }
}

/// The end of a turn with this status and error.
pub(crate) fn ended(status: Status, error: Option<Failure>) -> TurnComplete {
    TurnComplete {
        status: Some(status),
        error,
        ..TurnComplete::default()
    }
}

/// The end of a turn that was stopped.
pub(super) fn stopped(reason: Option<StopReason>) -> TurnComplete {
    TurnComplete {
        stop_reason: reason.map(|reason| reason.as_str().to_owned()),
        ..ended(Status::Stopped, None)
    }
}
