//! A turn that was left running, until its end: pure.

use serde_json::Value;
use trunkline_sdk::Error;

use super::super::process::{NOT_NOW, gone};
use super::line::{Command, Message, ServerCall};
use super::taken;
use crate::agent::rpc::{CallError, InboxArrival, InboxMessage};
use crate::agent::turn::{EarlierTurn, EffectList};

/// A turn that is interrupted.
pub(super) struct InterruptedTurn<'t> {
    pub(super) thread: &'t str,
    /// The turn's id; empty until its beginning is reported.
    pub(super) turn: String,
}

impl EarlierTurn for InterruptedTurn<'_> {
    type Message = Message;
    type Command = Command;

    /// Interrupts it, if its id is known.
    fn begin(&mut self, out: &mut EffectList<Command>) {
        if !self.turn.is_empty() {
            out.send(Command::interrupt(self.thread, &self.turn));
        }
    }

    fn message(
        &mut self,
        message: Message,
        out: &mut EffectList<Command>,
    ) -> Option<Result<bool, Error>> {
        match message {
            Message::Arrival(InboxArrival::Mail(InboxMessage::Notification { method, params })) => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                let id = params["turn"]["id"].as_str().unwrap_or_default();
                if method == "turn/started" && self.turn.is_empty() {
                    id.clone_into(&mut self.turn);
                    self.begin(out);
                } else if method == "turn/completed" && id == self.turn {
                    return Some(Ok(true));
                }
                None
            }
            Message::Arrival(InboxArrival::Mail(InboxMessage::Request { id, .. })) => {
                out.send(Command::Refuse(id, NOT_NOW));
                None
            }
            Message::Gone(ended) => Some(Err(gone(&ended))),
            Message::Arrival(InboxArrival::Taken) => Some(Err(taken())),
            // No turn is active: it has ended.
            Message::Called(ServerCall::Interrupt, Err(CallError::Rpc(_))) => Some(Ok(true)),
            Message::Called(..)
            | Message::Arrival(InboxArrival::Mail(InboxMessage::Alive) | InboxArrival::Lost(_)) => {
                None
            }
        }
    }
}
