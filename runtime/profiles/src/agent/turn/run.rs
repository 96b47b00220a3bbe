//! Joins a turn's engine to the turn, the agent's messages and the clock. Decides nothing.

use std::collections::HashMap;
use std::ops::ControlFlow;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use trunkline_sdk::{Error, Steer, Turn};

use super::dialect::{Dialect, Effect, Out, Step};
use super::engine::{Engine, Finish};
use crate::agent::deadlines::at;
use crate::agent::lines::Line;
use crate::agent::process::{Agent, InputClosed};
use crate::agent::report::Report;

/// What is read from an agent, and written to it.
pub(crate) trait Pipe {
    type Message;

    /// The next message; nothing once there will be none.
    ///
    /// # Cancel safety
    /// No message is lost.
    fn next(&mut self) -> impl Future<Output = Option<Self::Message>> + Send;

    /// Writes a line; waits while the agent reads too slowly.
    fn write(&mut self, line: String) -> impl Future<Output = Result<(), InputClosed>> + Send;
}

impl Pipe for Agent {
    type Message = Line;

    fn next(&mut self) -> impl Future<Output = Option<Line>> + Send {
        Self::next(self)
    }

    async fn write(&mut self, line: String) -> Result<(), InputClosed> {
        self.input()?.line(line).await
    }
}

/// Reads an agent until its turn has finished. The agent itself is left as it is.
pub(crate) async fn run<D: Dialect>(
    mut engine: Engine<D>,
    agent: &mut impl Pipe<Message = D::Message>,
    turn: &Turn,
    report: &mut Report,
) -> (D, Finish) {
    let mut questions = FuturesUnordered::new();
    let mut steers = HashMap::new();
    let mut count = 0_u64;
    let mut is_quiet = false;
    loop {
        while let Some(effect) = engine.poll_effect(Instant::now()) {
            match effect {
                Effect::Emit(event) => {
                    if let Err(why) = report.emit(turn, event).await {
                        engine.handle_failure(why, Instant::now());
                    }
                }
                Effect::Info(info) => turn.session().info(*info),
                // An agent that takes no input any more has ended.
                Effect::Write(line) => {
                    if agent.write(line).await.is_err() {
                        engine.handle_closed();
                    }
                }
                Effect::Ask(number, question) => {
                    questions.push(async move { (number, turn.ask(*question).await) });
                }
                Effect::Steered(number, result) => match (steers.remove(&number), result) {
                    (Some(steer), Ok(())) => drop(Steer::accept(steer)),
                    (Some(steer), Err(why)) => steer.refuse(why),
                    (None, _) => {}
                },
                Effect::Working => is_quiet = true,
            }
        }
        engine = match engine.into_finish() {
            ControlFlow::Break(finished) => return finished,
            ControlFlow::Continue(running) => running,
        };
        // What ends the turn comes before messages, which may never end.
        tokio::select! {
            biased;
            () = turn.stopped(), if engine.takes_stop() => engine.handle_stop(Instant::now()),
            () = at(engine.timeout()) => engine.handle_timeout(Instant::now()),
            Some((number, answer)) = questions.next() => engine.handle_answer(number, &answer, Instant::now()),
            Some(steer) = turn.next_steer(), if engine.takes_steers() => {
                count += 1;
                engine.handle_steer(count, steer.content());
                steers.insert(count, steer);
            }
            // It waits for room while the host does not read, and nothing else waits for it.
            () = turn.working(), if is_quiet => is_quiet = false,
            message = agent.next() => {
                is_quiet = false;
                match message {
                    Some(message) => engine.handle_message(message, Instant::now()),
                    None => engine.handle_closed(),
                }
            }
        }
    }
}

/// Emits what a dialect still has to say once its turn has finished.
///
/// # Errors
/// As of [`Report::emit`].
pub(crate) async fn emit(out: Out, turn: &Turn, report: &mut Report) -> Result<(), Error> {
    for step in out.steps {
        match step {
            Step::Effect(Effect::Emit(event)) => report.emit(turn, event).await?,
            Step::Effect(Effect::Info(info)) => turn.session().info(*info),
            // The rest is for a turn that goes on.
            _ => {}
        }
    }
    Ok(())
}
