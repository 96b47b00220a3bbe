//! An earlier turn that was left running, until its end: pure.

use serde_json::Value;
use tokio::time::Instant;
use trunkline_sdk::{Category, Error};

use super::super::inbox::Mail;
use super::super::process::{NOT_NOW, gone};
use super::line::{Call, Command, Message};
use super::taken;
use crate::agent::rpc::CallError;
use crate::agent::turn::{Dialect, Out};

/// The turn that is waited for.
pub(super) struct Earlier<'t> {
    thread: &'t str,
    /// The turn's id; empty until its beginning is reported.
    pub(super) turn: String,
    until: Instant,
    /// Reason for which the end cannot be awaited.
    pub(super) failure: Option<Error>,
}

impl<'t> Earlier<'t> {
    pub(super) fn new(thread: &'t str, turn: String, until: Instant) -> Self {
        Self {
            thread,
            turn,
            until,
            failure: None,
        }
    }

    /// Interrupts it, if its id is known.
    pub(super) fn interrupt(&mut self, out: &mut Out<Command>) {
        if !self.turn.is_empty() {
            out.send(Command::interrupt(self.thread, &self.turn));
        }
    }
}

impl Dialect for Earlier<'_> {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, _: Instant, out: &mut Out<Command>) {
        match message {
            Message::Mail(Mail::Notification { method, params }) => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                let id = params["turn"]["id"].as_str().unwrap_or_default();
                if method == "turn/started" && self.turn.is_empty() {
                    id.clone_into(&mut self.turn);
                    self.interrupt(out);
                } else if method == "turn/completed" && id == self.turn {
                    out.end();
                }
            }
            Message::Mail(Mail::Request { id, .. }) => out.send(Command::Refuse(id, NOT_NOW)),
            Message::Mail(Mail::Gone(ended)) => {
                self.failure = Some(gone(&ended));
                out.end();
            }
            Message::Mail(Mail::Taken) => {
                self.failure = Some(taken());
                out.end();
            }
            // No turn is active: it has ended.
            Message::Called(Call::Interrupt, Err(CallError::Rpc(_))) => out.end(),
            Message::Called(..) | Message::Mail(Mail::Alive | Mail::Overflow) => {}
        }
    }

    fn takes_steers(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn late(&mut self) -> Error {
        let text = "codex did not end the previous turn";
        Error::new(Category::Timeout, text)
    }
}
