//! Handling of a journal that cannot be written: open turns end, and hubs receive the ends before
//! these are stored ([journal.11]).
//!
//! Nothing is dropped: entries wait, and are stored in order when the disk works again.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_protocol::{
    AdapterBody, Category, Delivered, Failure, Status, StopReason, TurnComplete, TurnId,
};

use super::{GivenTurn, QueuedItem, SessionActor};
use crate::{ends, entry::Reply};

/// Interval at which a session with waiting entries checks whether the journal is stalled.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// Time that the agent has to end its turn.
const STOP: Duration = Duration::from_secs(10);

/// Reaction of a session to a stalled journal.
#[derive(Debug, Default)]
pub(super) struct JournalStall {
    /// The reason for the stall, and the deadline until which the running turn may end by itself.
    on: Option<(String, Instant)>,
}

impl JournalStall {
    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Notes that the journal stores entries again.
    pub(super) fn end(&mut self) {
        self.on = None;
    }

    /// Returns the time of the next check of the journal.
    pub(super) fn look(&self, waits: bool) -> Option<Instant> {
        waits.then(|| Instant::now() + LOOK)
    }

    fn failure(&self) -> Failure {
        let why = self
            .on
            .as_ref()
            .map_or("the journal is stalled", |(why, _)| why);
        Failure::new(Category::Other, format!("{why}; the turn was ended"))
    }
}

impl SessionActor {
    /// Returns the reason that the journal stores nothing at the moment.
    pub(super) fn stalled(&self) -> Option<trunkline_journal::NotStored> {
        self.log.journal()?.journal.stalled()
    }

    pub(super) fn check_journal(&mut self) {
        let Some(why) = self.stalled() else {
            return;
        };
        match &self.stall.on {
            None => self.begin_stall(why.to_string()),
            Some((_, until)) if !self.given.is_empty() && Instant::now() > *until => {
                // Dropping the agent's session closes it.
                self.session = None;
                self.settle_all(StopReason::Stopped);
                self.end_running(Delivered::Unknown);
            }
            Some(_) => {}
        }
    }

    /// Ends everything that is open: queued inputs at once, the running turn by a stop.
    pub(super) fn begin_stall(&mut self, why: String) {
        // The journal logs a warning, once for all sessions.
        tracing::debug!(session = %self.id, "{why}");
        self.stall.on = Some((why, Instant::now() + STOP));
        for (_, turn, end) in std::mem::take(&mut self.unstored_ends) {
            self.send_provisional_end(&turn, &end);
        }
        let (inputs, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|ordered| matches!(ordered, QueuedItem::Input(..)));
        self.queue = rest.into();
        let message = self.stall.failure().message.unwrap_or_default();
        let end = self.stalled_end(Delivered::No);
        self.take_back(&end, &message);
        for input in inputs {
            if let QueuedItem::Input(turn, _) = input {
                self.end_turn(turn, self.stalled_end(Delivered::No), None);
            }
        }
        let Some(session) = &self.session else {
            return;
        };
        let mut stopped = Vec::new();
        for given in &self.given {
            if let GivenTurn {
                id, no: Some(no), ..
            } = given
            {
                session.stop_turn(*no, StopReason::Policy);
                stopped.push(id.clone());
            }
        }
        for turn in stopped {
            self.revoke_answers(Some(&turn), StopReason::Policy);
        }
    }

    fn end_running(&mut self, delivered: Delivered) {
        for given in std::mem::take(&mut self.given) {
            self.end_turn(given.id, self.stalled_end(delivered), None);
        }
    }

    fn stalled_end(&self, delivered: Delivered) -> TurnComplete {
        TurnComplete {
            error: Some(self.stall.failure()),
            ..ends::failed(delivered)
        }
    }

    /// Returns the end of the running turn to report while the journal is stalled: a stop is
    /// replaced by a failure with its reason.
    pub(super) fn end_in_stall(&self, end: TurnComplete) -> TurnComplete {
        if self.stall.is_on() && end.status == Some(Status::Stopped) {
            let status = Some(Status::Failed);
            let error = Some(self.stall.failure());
            return TurnComplete {
                status,
                error,
                stop_reason: None,
                ..end
            };
        }
        end
    }

    /// Sends an end to every listener before it is stored; it comes again as an entry.
    pub(super) fn send_provisional_end(&mut self, turn: &TurnId, end: &TurnComplete) {
        let listeners: Vec<_> = self.listeners.keys().copied().collect();
        for listener in listeners {
            let mut reply = Reply::new(Some(turn.clone()), AdapterBody::from(end.clone()));
            reply.is_provisional = true;
            self.send_reply(listener, reply);
        }
    }
}
