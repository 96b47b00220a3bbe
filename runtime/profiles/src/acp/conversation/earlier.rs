//! An earlier turn that was cancelled, until its end: pure.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::{Category, Error};

use super::super::line::{Command, Message};
use super::taken;
use crate::agent::turn::{Dialect, Out};

/// How long an agent that did not end a cancelled turn in time has, before the next turn gives up.
pub(super) const UNFINISHED: Duration = Duration::from_secs(30);

/// The turn that is waited for.
pub(super) struct Earlier {
    pub(super) until: Instant,
    /// Why there is nothing to wait for.
    pub(super) failure: Option<Error>,
}

impl Dialect for Earlier {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, _: Instant, out: &mut Out<Command>) {
        self.failure = match message {
            Message::Prompted(_) => None,
            Message::Taken => Some(taken()),
            Message::Mute => {
                let text = "the agent answers nothing any more; the next input starts it again";
                Some(Error::new(Category::Timeout, text))
            }
            Message::Update(_)
            | Message::Request(..)
            | Message::Refused
            | Message::Lost(_)
            | Message::Read(_) => return,
        };
        out.end();
    }

    fn takes_steers(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn late(&mut self) -> Error {
        Error::new(
            Category::Timeout,
            "the agent has not ended the turn that was stopped before; close the session and resume it",
        )
    }
}
