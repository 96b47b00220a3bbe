//! Plays a dialect by a virtual clock, for tests: what happens goes in, what is done and how it
//! finishes comes out.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::Error;
use trunkline_sdk::protocol::AdapterBody;

use super::dialect::Effect;
use super::{Dialect, EndCause, Engine, TurnFinish, UserReply};

/// Event of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<M> {
    /// A message of the agent.
    Says(M),
    Closes,
    Stop,
    Steer(&'static str),
    /// So many seconds pass. Each deadline on the way is met in time.
    Wait(u64),
    /// An effect has failed.
    Fails,
    /// The user replies to a request.
    Reply(&'static str, fn() -> UserReply),
}

/// Result of a turn.
pub(crate) struct Played<D> {
    /// The effects as texts, the last of which is how it finished, once it has.
    pub(crate) done: Vec<String>,
    pub(crate) end: Option<(D, TurnFinish)>,
}

/// Plays a turn that begins at this time.
pub(crate) fn play<D: Dialect<Command: Debug>>(
    mut engine: Engine<D>,
    mut now: Instant,
    inputs: impl IntoIterator<Item = Input<D::Message>>,
) -> Played<D> {
    let mut done: Vec<String> = std::iter::from_fn(|| engine.poll_effect(now))
        .map(shown)
        .collect();
    for input in inputs {
        match input {
            Input::Says(message) => engine.handle_message(message, now),
            Input::Closes => engine.handle_closed(),
            Input::Stop if engine.takes_stop() => engine.handle_stop(now),
            Input::Stop => done.push("no stop".to_owned()),
            Input::Steer(text) if engine.takes_steers() => engine.handle_steer(1, text),
            Input::Steer(_) => done.push("no steer".to_owned()),
            Input::Reply(id, reply) => engine.handle_reply(id, Some(reply()), now),
            Input::Fails => engine.handle_failure(Error::other("not done"), now),
            Input::Wait(wait) => {
                let until = now + Duration::from_secs(wait);
                while let Some(due) = engine.timeout().filter(|due| *due <= until) {
                    now = now.max(due);
                    engine.handle_timeout(now);
                    done.extend(std::iter::from_fn(|| engine.poll_effect(now)).map(shown));
                }
                now = until;
            }
        }
        done.extend(std::iter::from_fn(|| engine.poll_effect(now)).map(shown));
        engine = match engine.into_finish() {
            ControlFlow::Continue(running) => running,
            ControlFlow::Break((dialect, finish)) => {
                let how = match finish.how {
                    EndCause::Ended => "ended",
                    EndCause::Closed => "closed",
                    EndCause::Late => "late",
                };
                done.push(
                    finish
                        .why
                        .as_ref()
                        .map_or_else(|| how.to_owned(), |why| format!("{how}: {why}")),
                );
                return Played {
                    done,
                    end: Some((dialect, finish)),
                };
            }
        };
    }
    Played { done, end: None }
}

fn shown<C: Debug>(effect: Effect<C>) -> String {
    match effect {
        Effect::Emit(AdapterBody::Output(output)) => output.content,
        Effect::Emit(AdapterBody::Error(error)) => error.message,
        Effect::Emit(event) => event.kind().as_str().to_owned(),
        Effect::LogLine(line) => format!("log {}", String::from_utf8_lossy(&line)),
        Effect::Send(command) => format!("send {command:?}"),
        Effect::Ask(id, _) => format!("ask {id}"),
        Effect::Withdraw(id) => format!("withdraw {id}"),
        Effect::Steer(number, command) => format!("steer {number} by {command:?}"),
        Effect::File(file) => format!("file {}", file.name),
        Effect::Info(_) => "info".to_owned(),
        Effect::Steered(number, Ok(())) => format!("steer {number} taken"),
        Effect::Steered(number, Err(why)) => format!("steer {number} refused: {why}"),
        Effect::Working => "working".to_owned(),
    }
}
