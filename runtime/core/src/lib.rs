//! Decides what a host does with many sessions over one adapter's pipe. It reads and writes
//! nothing.
//!
//! [`Core`] is the state machine of one agent. It has no `async`, no clock, no file and no thread:
//! ids, time and a seed are arguments, and actions are returned as data. So every interleaving can
//! be tested in virtual time, and any runtime can drive it. `trunkline-host` is one that does.
//!
//! # Theory of operation
//!
//! - **Inputs** are calls of `handle_*`. From the users of sessions: [`Core::handle_open`],
//!   [`Core::handle_send`], [`Core::handle_steer`], [`Core::handle_stop`], [`Core::handle_answer`],
//!   [`Core::handle_names`], [`Core::handle_update`], [`Core::handle_file`],
//!   [`Core::handle_pause`], [`Core::handle_resume`], [`Core::handle_unread`],
//!   [`Core::handle_read_down`], [`Core::handle_close`]. From the process:
//!   [`Core::handle_started`], [`Core::handle_start_failed`], [`Core::handle_line`],
//!   [`Core::handle_written_at`], [`Core::handle_input_closed`], [`Core::handle_suspended`],
//!   [`Core::handle_ended`]. From the operator: [`Core::handle_standby`], [`Core::handle_retry`],
//!   [`Core::handle_restart`], [`Core::handle_shutdown`].
//! - **Outputs** are [`Effect`]s. After each input, call [`Core::poll_effect`] until it returns
//!   nothing, and execute them in order. An effect never waits for an answer within the call: a
//!   request carries a serial, a caller a [`Ticket`].
//! - **Timers** are one instant. [`Core::poll_timeout`] returns it, after any input; at that time
//!   call [`Core::handle_timeout`]. An early call does nothing. Time in which the host did not run
//!   is no silence of the adapter: report it by [`Core::handle_standstill`] first.
//! - **Figures** of a session are read at any time by [`Core::figures`], those for the process by
//!   [`Core::process_figures`].
//!
//! A [`Key`] names a session. It is free after [`Effect::Closed`] and never names another session
//! after that. The core outlives the adapter's process, as sessions do ([process.5]).
//!
//! Invariants: each input that [`Core::handle_send`] accepts gets one [`Effect::End`]; each session
//! gets one [`Effect::Closed`], after which it has no effect; nothing is written for a session
//! outside its start and close; no approval is written that neither a user nor the [`policy`] gave.
//! A random walk over all inputs tests them.
//!
//! State diagrams are with the states: the session in `core/session.rs`, the turn in
//! `core/turn.rs`, the process in `core/process.rs`. The protocol decides which message is legal:
//! [`trunkline_protocol::rules`].

#![forbid(unsafe_code)]

mod core;
mod end;
mod error;
pub mod policy;
mod scope;
pub mod share;
mod supervise;

pub use self::core::{
    Answer, Core, Counter, Effect, Figures, Key, NewSession, OutputRate, ProcessFigures,
    ProcessPhase, Reader, ReliedOn, Rules, SessionState, Ticket, WhyClosed, exact_rule,
};
pub use end::{
    Cause, Ended, ExitStatus, MAX_STDERR_LINE_BYTES, MAX_STDERR_LINES, ProcessEnd, SessionEnd,
    TurnEnd,
};
pub use error::{EditRejected, SteerError, UpdateError};
pub use scope::{TurnNo, TurnScope};
pub use supervise::Backoff;
