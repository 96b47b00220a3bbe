//! The built-in adapters: each a program on the SDK, started as a child like any third party's.
//!
//! ```
//! assert!(trunkline_profiles::PROFILES.iter().any(|profile| profile.name == "echo"));
//! assert!(trunkline_profiles::run("unheard of", ["--describe"]).is_none());
//! ```

#![forbid(unsafe_code)]

mod acp;
mod agent;
mod agents;
mod claude_code;
mod codex;
mod echo;
mod generic_cli;
mod generic_http;
mod generic_job;
mod mock;
mod oneshot;
mod pi;
mod play;
mod profile;
mod raw_process;
mod replay;
mod utf8;

pub use agent::credentials::{Credentials, LoginCommand};
pub use echo::Echo;
pub use profile::{PROFILES, Profile, Refused, WrappedAgent, run};
