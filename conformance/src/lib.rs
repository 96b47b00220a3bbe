//! Judges adapters and hosts of the adapter protocol, in any language.
//!
//! Most people use the program, `trunkline-conformance`. A [`Suite`] runs the same cases as tests of cargo:
//!
//! ```no_run
//! use trunkline_conformance::{Class, Suite};
//!
//! fn main() -> std::process::ExitCode {
//!     Suite::adapter(["python3", "my_adapter.py"]).with_all_abilities().class(Class::Strict).main()
//! }
//! ```
#![forbid(unsafe_code)]

mod baseline;
mod build;
mod calendar;
mod case;
mod cases;
mod class;
mod clauses;
mod cli;
mod exit;
mod harness;
mod history;
mod init;
mod model;
mod needs;
mod oracle;
mod printable;
mod process;
mod property;
mod replay;
mod report;
mod rng;
mod run;
mod selftest;
mod shrink;
mod stub;
mod subject;
mod tap;
mod trial;
mod verdict;
mod watched;
mod wire;

pub use class::Class;
pub use cli::main as command_line;
pub use harness::Suite;
pub use needs::Ability;
pub use stub::command_line as stub_command_line;
pub use subject::{Limits, Recipes, Subject};

// What the tests of the program need, to find and to end what it started.
#[doc(hidden)]
pub use process::{kill_all, sweep};
#[doc(hidden)]
pub use stub::{give_cue, is_child, is_running};
