//! An input that adds to the running turn.

use trunkline_protocol::SteerResult;

use crate::{Session, session::QueuedSteer};

/// A text that the user adds to a turn that runs. Dropping it refuses it ([turn.10]).
#[derive(Debug)]
pub struct Steer {
    session: Session,
    serial: u64,
    steer: QueuedSteer,
    answered: bool,
}

impl Steer {
    pub(crate) fn new(session: Session, serial: u64, steer: QueuedSteer) -> Self {
        Self {
            session,
            serial,
            steer,
            answered: false,
        }
    }

    /// The text.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.steer.content
    }

    /// Reports to the host that the agent has it, and returns the text.
    pub fn accept(mut self) -> String {
        self.answer(true, None);
        std::mem::take(&mut self.steer.content)
    }

    /// Reports to the host that the agent did not take it, and why.
    pub fn refuse(mut self, reason: impl Into<String>) {
        self.answer(false, Some(reason.into()));
    }

    fn answer(&mut self, delivered: bool, reason: Option<String>) {
        if !std::mem::replace(&mut self.answered, true) {
            let message_id = self.steer.message_id.take();
            self.session.0.steered(
                self.serial,
                SteerResult {
                    message_id,
                    delivered,
                    reason,
                },
            );
        }
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        self.answer(false, Some("the turn did not take it".to_owned()));
    }
}
