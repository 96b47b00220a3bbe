//! An earlier turn that was cancelled, until its end: pure.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::{Category, Error};

use super::super::line::{Command, Message};
use super::taken;
use crate::agent::turn::{Dialect, Out};

/// Timeout for the end of a cancelled turn, before the next one takes another process.
pub(super) const UNFINISHED: Duration = Duration::from_secs(10);

/// An earlier turn whose end is awaited.
pub(super) struct Earlier {
    until: Instant,
    /// The end of the turn. An error is the reason why the next turn cannot run; none: the agent does not end it.
    pub(super) end: Result<(), Option<Error>>,
}

impl Earlier {
    /// The turn that must end by this time.
    pub(super) fn new(until: Instant) -> Self {
        let end = Err(None);
        Self { until, end }
    }
}

impl Dialect for Earlier {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, _: Instant, out: &mut Out<Command>) {
        self.end = match message {
            Message::Prompted(_) => Ok(()),
            Message::Taken => Err(Some(taken())),
            Message::Mute => Err(None),
            Message::Update(_)
            | Message::Request(..)
            | Message::Complete(_)
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
        let text = "the agent has not ended the turn that was stopped before";
        Error::new(Category::Timeout, text)
    }
}
