//! What one agent's messages mean for a turn.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, ErrorEvent};
use trunkline_sdk::{Answer, Category, Error, Question, SessionInfo};

/// Reads one agent's messages during a turn, and says what to do about them. Pure: no I/O and no clock.
pub(crate) trait Dialect {
    /// What is read from the agent.
    type Message;

    /// Takes one message.
    fn message(&mut self, message: Self::Message, now: Instant, out: &mut Out);

    /// The turn must end early: writes what asks the agent to, and says how long it is still read.
    fn interrupt(&mut self, why: &Error, out: &mut Out) -> Grace {
        let _ = (why, out);
        Grace::None
    }

    /// Whether a stop still changes how the turn ends.
    fn takes_stop(&self) -> bool {
        true
    }

    /// An input that the user adds to the turn. It is answered by [`Out::steered`].
    fn steer(&mut self, number: u64, text: &str, out: &mut Out) {
        let _ = text;
        out.steered(number, Err("the agent takes no input during a turn".to_owned()));
    }

    /// The user's answer to a question of [`Out::ask`].
    fn answered(&mut self, number: u64, answer: &Answer, out: &mut Out) {
        let _ = (number, answer, out);
    }

    /// A deadline beside those that are configured for every agent.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The failure of a turn whose [`deadline`](Self::deadline) has passed.
    fn late(&mut self) -> Error {
        Error::stopped()
    }
}

/// How long an agent is still read once its turn must end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The turn ends now.
    None,
    /// Until the agent ends its output, at most so long.
    For(Duration),
    /// The agent ends the turn as it does any other. Its deadlines still hold.
    AgentEnds,
}

/// What shall be done, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Emit an event of the turn.
    Emit(AdapterBody),
    /// Send news of the session.
    Info(Box<SessionInfo>),
    /// Write a line to the agent.
    Write(String),
    /// Ask the user. Until the answer the deadlines stand still.
    Ask(u64, Box<Question>),
    /// Answer an input that the user added to the turn: taken, or why not.
    Steered(u64, Result<(), String>),
    /// Say that quiet work goes on.
    Working,
}

/// A step of a dialect: an effect, or a change of the turn itself.
#[derive(Debug)]
pub(super) enum Step {
    Effect(Effect),
    Fail(Error),
    EndWithin(Duration),
    End,
}

/// Collects what a [`Dialect`] wants done, in order.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(super) steps: VecDeque<Step>,
    pub(super) is_alive: bool,
}

impl Out {
    /// The agent works: its silence begins anew.
    pub(crate) fn alive(&mut self) {
        self.is_alive = true;
    }

    /// Emits an event of the turn.
    pub(crate) fn emit(&mut self, event: impl Into<AdapterBody>) {
        self.effect(Effect::Emit(event.into()));
    }

    /// Says that a line of this many bytes was left out.
    pub(crate) fn left_out(&mut self, bytes: u64) {
        self.emit(ErrorEvent {
            category: Some(Category::Oversize),
            message: format!("a line of {bytes} bytes of the agent was left out"),
            fatal: Some(false),
            ..ErrorEvent::default()
        });
    }

    /// Sends news of the session.
    pub(crate) fn info(&mut self, info: SessionInfo) {
        self.effect(Effect::Info(Box::new(info)));
    }

    /// Writes a line to the agent.
    pub(crate) fn write(&mut self, line: &impl ToString) {
        self.effect(Effect::Write(line.to_string()));
    }

    /// Asks the user; the answer comes by [`Dialect::answered`].
    pub(crate) fn ask(&mut self, number: u64, question: Question) {
        self.effect(Effect::Ask(number, Box::new(question)));
    }

    /// Answers [`Dialect::steer`].
    pub(crate) fn steered(&mut self, number: u64, result: Result<(), String>) {
        self.effect(Effect::Steered(number, result));
    }

    /// The turn has failed, and must end early.
    pub(crate) fn fail(&mut self, why: Error) {
        self.steps.push_back(Step::Fail(why));
    }

    /// The agent has said its last: it has so long to end its output. No other deadline holds from now on.
    pub(crate) fn end_within(&mut self, wait: Duration) {
        self.steps.push_back(Step::EndWithin(wait));
    }

    /// The agent has ended the turn, and goes on.
    pub(crate) fn end(&mut self) {
        self.steps.push_back(Step::End);
    }

    fn effect(&mut self, effect: Effect) {
        self.steps.push_back(Step::Effect(effect));
    }
}
