//! The dialect of an agent: its messages, translated for a turn.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, Output};
use trunkline_sdk::{Category, Error, SessionInfo};

use super::requests::{UserReply, UserRequest};
use crate::agent::failure;

/// The longest piece of text in one event, in bytes: not every host reads longer lines.
const LONGEST_PIECE: usize = 512 * 1024;

/// Reads an agent's messages during a turn, and collects the effects. Pure: no I/O and no clock.
pub(crate) trait Dialect {
    /// A message from the agent.
    type Message;

    /// A command to the agent.
    type Command: Send;

    /// Takes one message.
    fn message(
        &mut self,
        message: Self::Message,
        now: Instant,
        out: &mut EffectList<Self::Command>,
    );

    /// Asks the agent to end the turn early. Returns how long it is still read.
    fn interrupt(&mut self, why: &Error, out: &mut EffectList<Self::Command>) -> Grace {
        let _ = (why, out);
        Grace::None
    }

    /// Returns true if a stop still changes how the turn ends.
    fn takes_stop(&self) -> bool {
        true
    }

    /// Returns true if an input that the user adds can be answered now. Otherwise it waits.
    fn takes_steers(&self) -> bool {
        true
    }

    /// An input that the user adds to the turn. It is answered by [`EffectList::steered`] or
    /// [`EffectList::steer`].
    fn steer(&mut self, number: u64, text: &str, out: &mut EffectList<Self::Command>) {
        let _ = text;
        out.steered(
            number,
            Err("the agent takes no input during a turn".to_owned()),
        );
    }

    /// The command of [`EffectList::steer`] was not sent: the agent takes no more input.
    fn not_steered(&mut self) {}

    /// Returns true if an agent that takes no more input has ended.
    fn needs_input(&self) -> bool {
        true
    }

    /// The user's reply to a request of [`EffectList::ask`].
    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<Self::Command>) {
        let _ = (id, reply, out);
    }

    /// An event between turns that found no room before the next turn.
    fn unsent(&mut self, event: AdapterBody) {
        tracing::debug!(kind = ?event.kind(), "an event between turns found no room");
    }

    /// A deadline beside those that are configured for every agent.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The last error that the agent has reported and not recovered from, which may explain its silence.
    fn last_error(&self) -> Option<&Error> {
        None
    }

    /// The failure of a turn whose [`deadline`](Self::deadline) has passed.
    fn late(&mut self) -> Error {
        Error::stopped()
    }
}

/// Grace of an agent whose turn must end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The turn ends now.
    None,
    /// Until the agent ends the turn or its output, at most so long.
    For(Duration),
    /// The agent ends the turn as it does any other. Its deadlines still hold.
    AgentEnds,
}

/// Something to do, in this order.
#[derive(Debug)]
pub(crate) enum Effect<C> {
    /// Emit an event of the turn.
    Emit(AdapterBody),
    /// Log a line that is not the agent's protocol.
    LogLine(Bytes),
    /// Give the host a file.
    File(NewFile),
    /// Send news of the session.
    Info(Box<SessionInfo>),
    /// Send this to the agent.
    Send(C),
    /// Ask the user. Until the reply the deadlines are paused.
    Ask(String, UserRequest),
    /// Withdraw what the user is asked.
    Withdraw(String),
    /// Answer an input that the user added to the turn: taken, or why not.
    Steered(u64, Result<(), String>),
    /// Send this to the agent. Once that is done, an input that the user added is taken.
    Steer(u64, C),
    /// Report that quiet work continues.
    Working,
}

/// A file for the host.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Vec<u8>,
    /// Text in its place if the file cannot be given.
    pub(crate) instead: Option<Output>,
}

/// A step of a dialect: an effect, or a change of the turn itself.
#[derive(Debug)]
pub(super) enum DialectStep<C> {
    Effect(Effect<C>),
    Fail(Error),
    EndWithin(Duration),
    End,
}

/// Collects what a [`Dialect`] wants done, in order.
#[derive(Debug)]
pub(crate) struct EffectList<C> {
    pub(super) steps: VecDeque<DialectStep<C>>,
    pub(super) is_alive: bool,
}

impl<C> Default for EffectList<C> {
    fn default() -> Self {
        Self {
            steps: VecDeque::new(),
            is_alive: false,
        }
    }
}

impl<C> EffectList<C> {
    /// The agent works: its silence begins anew.
    pub(crate) fn alive(&mut self) {
        self.is_alive = true;
    }

    /// Emits an event of the turn.
    pub(crate) fn emit(&mut self, event: impl Into<AdapterBody>) {
        self.effect(Effect::Emit(event.into()));
    }

    /// Emits text in pieces that every host reads.
    pub(crate) fn output(&mut self, mut output: Output) {
        while output.content.len() > LONGEST_PIECE {
            let rest = output
                .content
                .split_off(output.content.floor_char_boundary(LONGEST_PIECE));
            self.emit(output.clone());
            output.content = rest;
        }
        if !output.content.is_empty() {
            self.emit(output);
        }
    }

    /// Logs a line that is not the agent's protocol.
    pub(crate) fn log_line(&mut self, line: Bytes) {
        self.effect(Effect::LogLine(line));
    }

    /// Reports a line of this many bytes that was left out.
    pub(crate) fn left_out(&mut self, bytes: u64) {
        let message = format!("a line of {bytes} bytes of the agent was left out");
        self.emit(failure::warning(Category::Oversize, message));
    }

    /// Gives the host a file of the turn.
    pub(crate) fn file(&mut self, file: NewFile) {
        self.effect(Effect::File(file));
    }

    /// Sends news of the session.
    pub(crate) fn info(&mut self, info: SessionInfo) {
        self.effect(Effect::Info(Box::new(info)));
    }

    /// Sends something to the agent.
    pub(crate) fn send(&mut self, command: C) {
        self.effect(Effect::Send(command));
    }

    /// Asks the user; the reply comes by [`Dialect::replied`].
    pub(crate) fn ask(&mut self, id: impl Into<String>, ask: impl Into<UserRequest>) {
        self.effect(Effect::Ask(id.into(), ask.into()));
    }

    /// Withdraws what the user is asked; no reply comes.
    pub(crate) fn withdraw(&mut self, id: impl Into<String>) {
        self.effect(Effect::Withdraw(id.into()));
    }

    /// Answers [`Dialect::steer`].
    pub(crate) fn steered(&mut self, number: u64, result: Result<(), String>) {
        self.effect(Effect::Steered(number, result));
    }

    /// Sends an input that the user added, which the agent has taken once it is sent.
    pub(crate) fn steer(&mut self, number: u64, command: C) {
        self.effect(Effect::Steer(number, command));
    }

    /// The turn has failed, and must end early.
    pub(crate) fn fail(&mut self, why: Error) {
        self.steps.push_back(DialectStep::Fail(why));
    }

    /// The agent has sent its last message: it has so long to end its output. No other deadline
    /// holds from now on.
    pub(crate) fn end_within(&mut self, wait: Duration) {
        self.steps.push_back(DialectStep::EndWithin(wait));
    }

    /// The agent has ended the turn, and lives on.
    pub(crate) fn end(&mut self) {
        self.steps.push_back(DialectStep::End);
    }

    /// Does this after all that was wanted so far.
    pub(crate) fn append(&mut self, mut after: Self) {
        self.steps.append(&mut after.steps);
        self.is_alive |= after.is_alive;
    }

    fn effect(&mut self, effect: Effect<C>) {
        self.steps.push_back(DialectStep::Effect(effect));
    }
}
