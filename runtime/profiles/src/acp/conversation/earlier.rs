//! A prompt that was cancelled, until its answer: pure.

use trunkline_sdk::Error;

use super::super::line::{Command, Message};
use super::taken;
use crate::agent::turn::{EarlierTurn, EffectList};

/// A cancelled prompt. The agent is asked for a sign of life, as it may never answer.
pub(super) struct CancelledPrompt;

impl EarlierTurn for CancelledPrompt {
    type Message = Message;
    type Command = Command;

    fn begin(&mut self, out: &mut EffectList<Command>) {
        out.send(Command::Alive);
    }

    fn message(
        &mut self,
        message: Message,
        _: &mut EffectList<Command>,
    ) -> Option<Result<bool, Error>> {
        match message {
            Message::Prompted(_) => Some(Ok(true)),
            Message::Taken => Some(Err(taken())),
            Message::Mute => Some(Ok(false)),
            Message::Update(_)
            | Message::Request(..)
            | Message::Complete(_)
            | Message::Refused
            | Message::Lost(_)
            | Message::Read(_) => None,
        }
    }
}
