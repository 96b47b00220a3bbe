//! An earlier turn that was left running, until its end.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::{Category, Error, Status, Turn};

use super::dialect::{Dialect, EffectList};
use super::engine::Engine;
use super::run::{Pipe, run};
use crate::agent::deadlines::{Deadlines, Watch};
use crate::agent::report::TurnReport;

/// The longest wait for the end of an earlier turn, before the next one takes another process.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Reads an agent's messages for the end of an earlier turn. Pure.
pub(crate) trait EarlierTurn {
    type Message;
    type Command: Send;

    /// Sends what makes the agent end the turn, or answer at all.
    fn begin(&mut self, out: &mut EffectList<Self::Command>);

    /// Takes one message. Returns true once the turn has ended, and false if the agent does not end it.
    ///
    /// # Errors
    /// Why the next turn cannot run.
    fn message(
        &mut self,
        message: Self::Message,
        out: &mut EffectList<Self::Command>,
    ) -> Option<Result<bool, Error>>;
}

/// Waits for the end of an earlier turn. Returns false if the agent does not end it.
///
/// # Errors
/// Why this turn cannot run.
pub(crate) async fn finish_earlier<T: EarlierTurn>(
    earlier: T,
    silence: Option<Duration>,
    agent: &mut impl Pipe<Message = T::Message, Command = T::Command>,
    turn: &Turn,
    report: &mut TurnReport,
) -> (T, Result<bool, Error>) {
    let wait = silence.map_or(MAX_WAIT, |silence| silence.min(MAX_WAIT));
    let earlier = Earlier::new(earlier, Instant::now() + wait);
    let engine = Engine::new(earlier, Watch::new(Deadlines::default())).begin(Earlier::begin);
    let (earlier, finish) = run(engine, agent, turn, report).await;
    let end = match finish.why {
        Some(why) if why.status() == Status::Stopped => Err(why),
        Some(_) => Ok(false),
        None => earlier.end.unwrap_or(Ok(false)),
    };
    (earlier.turn, end)
}

/// An earlier turn whose end is awaited until a time.
pub(crate) struct Earlier<T> {
    turn: T,
    until: Instant,
    pub(crate) end: Option<Result<bool, Error>>,
}

impl<T: EarlierTurn> Earlier<T> {
    pub(crate) fn new(turn: T, until: Instant) -> Self {
        let end = None;
        Self { turn, until, end }
    }

    pub(crate) fn begin(&mut self, out: &mut EffectList<T::Command>) {
        self.turn.begin(out);
    }
}

impl<T: EarlierTurn> Dialect for Earlier<T> {
    type Message = T::Message;
    type Command = T::Command;

    fn message(&mut self, message: T::Message, _: Instant, out: &mut EffectList<T::Command>) {
        self.end = self.turn.message(message, out);
        if self.end.is_some() {
            out.end();
        }
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
