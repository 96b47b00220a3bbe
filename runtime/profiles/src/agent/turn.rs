//! One turn of a wrapped agent, the same for every agent.
//!
//! - [`Dialect`]: the meaning of one agent's messages. Pure: no I/O and no clock.
//! - [`Engine`]: the events that end a turn, and their times. Pure: time is an argument.
//! - [`run`]: joins both to the turn, the agent's messages and the clock.
//! - [`listen`]: the same between turns, for messages and requests of the agent's own; [`IdleTask`]
//!   is the task that listens.
//! - [`finish_earlier`]: waits for the end of a turn that was left running.

mod dialect;
mod earlier;
mod engine;
#[cfg(test)]
pub(crate) mod engine_test;
mod idle;
mod requests;
mod run;
mod scope;
#[cfg(test)]
mod tests;

pub(crate) use self::dialect::{Dialect, EffectList, Grace, NewFile};
#[cfg(test)]
pub(crate) use self::earlier::Earlier;
pub(crate) use self::earlier::{EarlierTurn, finish_earlier};
pub(crate) use self::engine::{EndCause, Engine, TurnFinish};
pub(crate) use self::idle::IdleTask;
pub(crate) use self::requests::{UserReply, UserRequest};
pub(crate) use self::run::{LineOut, Pipe, emit, listen, run};
