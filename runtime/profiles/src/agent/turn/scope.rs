//! A turn, or the time between turns.

use tokio_util::sync::CancellationToken;
use trunkline_sdk::{Session, SessionInfo, Steer, Turn};

/// Receiver of events and requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'t> {
    Turn(&'t Turn),
    /// Between turns, until the next one wants the agent.
    Session(&'t Session, &'t CancellationToken),
}

impl Scope<'_> {
    pub(super) async fn stopped(&self) {
        match self {
            Self::Turn(turn) => turn.stopped().await,
            Self::Session(_, wanted) => wanted.cancelled().await,
        }
    }

    pub(super) async fn next_steer(&self) -> Option<Steer> {
        match self {
            Self::Turn(turn) => turn.next_steer().await,
            Self::Session(..) => None,
        }
    }

    pub(super) async fn working(&self) {
        if let Self::Turn(turn) = self {
            turn.working().await;
        }
    }

    pub(super) fn info(&self, info: SessionInfo) {
        match self {
            Self::Turn(turn) => turn.session().info(info),
            Self::Session(session, _) => session.info(info),
        }
    }
}
