//! One turn of a wrapped agent, the same for every agent.
//!
//! - [`Dialect`]: what one agent's messages mean. Pure: no I/O and no clock.
//! - [`Engine`]: which events end a turn, and when. Pure: time is an argument.
//! - [`run`]: joins both to the turn, the agent's messages and the clock.

mod dialect;
mod engine;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use self::dialect::{Dialect, Grace, Out};
pub(crate) use self::engine::{Engine, Finish};
pub(crate) use self::run::{emit, run};
