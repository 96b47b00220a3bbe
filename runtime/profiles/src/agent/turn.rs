//! One turn of a wrapped agent, the same for every agent.
//!
//! - [`Dialect`]: what one agent's messages mean. Pure: no I/O and no clock.
//! - [`Engine`]: which events end a turn, and when. Pure: time is an argument.
//! - [`run`]: joins both to the turn, the agent's messages and the clock.
//! - [`listen`]: the same between turns, for what an agent says or asks on its own.

mod dialect;
mod engine;
#[cfg(test)]
pub(crate) mod engine_test;
mod requests;
mod run;
mod scope;
#[cfg(test)]
mod tests;

pub(crate) use self::dialect::{Dialect, Grace, NewFile, Out};
pub(crate) use self::engine::{Engine, Finish, How};
pub(crate) use self::requests::{Ask, Reply};
pub(crate) use self::run::{LineOut, Pipe, emit, listen, run};
