//! One turn of a wrapped agent, the same for every agent.
//!
//! - [`Dialect`]: what one agent's messages mean. Pure: no I/O and no clock.
//! - [`Engine`]: which events end a turn, and when. Pure: time is an argument.
//! - [`run`]: joins both to the turn, the agent's messages and the clock.
//! - [`listen`]: the same between turns, for what an agent says or asks on its own; [`IdleTask`] is
//!   the task that listens.
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

pub(crate) use self::dialect::{Dialect, Grace, NewFile, Out};
#[cfg(test)]
pub(crate) use self::earlier::Earlier;
pub(crate) use self::earlier::{EarlierTurn, finish_earlier};
pub(crate) use self::engine::{Engine, Finish, How};
pub(crate) use self::idle::IdleTask;
pub(crate) use self::requests::{Ask, Reply};
pub(crate) use self::run::{LineOut, Pipe, emit, listen, run};
