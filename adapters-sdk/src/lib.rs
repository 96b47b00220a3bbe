//! Write an adapter: one trait, one required method.
//!
//! ```no_run
//! use trunkline_sdk::{Adapter, Error, Input, Turn, serve_stdio};
//!
//! struct Echo;
//!
//! impl Adapter for Echo {
//!     type State = ();
//!     async fn turn(&self, turn: Turn, input: Input, _: &mut ()) -> Result<(), Error> {
//!         turn.output(input.content).await;
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode { serve_stdio(Echo) }
//! ```
//!
//! (Shorter still, without state: [`adapter`].) The SDK does the rest of the protocol: it reads and
//! writes the lines, runs sessions at the same time and the turns of one session in order, ends
//! each turn exactly once, carries stops and permissions, folds rich events for hosts that know
//! only the core, answers `ping` however busy handlers are, and ends the process soon after its
//! input ends. It owns stdout: output of any library goes to stderr.
//!
//! - [`Adapter`] is the trait to implement; its methods get a [`Turn`], a [`Session`] and an
//!   [`Input`].
//! - [`Program`] and [`serve_stdio`] run an adapter as a process; [`serve`] and [`Server`] over any
//!   streams.
//! - [`SystemPrompt`] composes a system prompt of bounded sections; [`skill`] puts a skill into an
//!   input.
//! - [`SessionParams`] holds the parameters to resume a conversation; [`template`] fills prompt
//!   templates.
//! - [`preview`] abbreviates texts and tool calls.
//! - [`testing`] is a host in memory for an author's tests; [`probe`] executes the scripts of the
//!   conformance suite.
//!
//! The messages' own types ([`protocol`]) come from `trunkline-protocol`; clause ids such as
//! `[turn.4]` refer to its specification.

#![forbid(unsafe_code)]

mod adapter;
mod closure;
mod config;
mod description;
mod diagnose;
mod erased;
mod error;
mod input;
mod link;
mod permission;
pub mod preview;
pub mod probe;
mod program;
mod question;
mod server;
mod session;
mod session_params;
pub mod skill;
mod system_prompt;
pub mod template;
pub mod testing;
mod turn;
mod wire;

pub use trunkline_protocol as protocol;
pub use trunkline_protocol::{
    Category, Channel, ClosedReason, Extensions, FieldKind, FileInput, Json, LogStream, MAX_LINE,
    PlanEntry, PlanStatus, SessionInfo, SessionStart, SessionUpdate, Status, ToolCallId,
    TurnComplete,
};

pub use adapter::Adapter;
pub use closure::{FnAdapter, adapter};
pub use config::{ConfigError, VARIABLE, config};
pub use description::Description;
pub use diagnose::{Check, Level};
pub use error::Error;
pub use input::Input;
pub use permission::{Decision, Permission};
pub use program::{Program, serve_stdio, serve_stdio_async};
pub use question::{Answer, Question};
pub use server::{Ended, STOP_GRACE, Server, serve};
pub use session::Session;
pub use session_params::{OtherDirectory, SessionParams, UnreadableParams};
pub use system_prompt::{ComposedPrompt, SectionCut, SystemPrompt};
pub use turn::{End, Steer, ToolOutcome, Turn, file_type_of};
