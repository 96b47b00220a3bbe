//! Machinery shared by all wrapped agents.
//!
//! - configuration and requests: `settings`, `options`, `secrets`, `started`, `variables`, `model`,
//!   `resume`
//! - the program: `launch`, `process`, `lines`, `rpc`, `deadlines`, `version`, `credentials`,
//!   `diagnose`, `native_id`
//! - its input: `system_prompt`, `private_file`, `skills`, `mcp`, `opencode_config`,
//!   `permission_rules`, `attachment`
//! - its output: `read`, `turn` (one turn, the same for every agent)
//! - reports about it: `report`, `log`, `gist`, `end`, `failure`, `tool_loop`

pub(crate) mod attachment;
pub(crate) mod credentials;
pub(crate) mod deadlines;
pub(crate) mod describe;
pub(crate) mod diagnose;
pub(crate) mod elicitation;
pub(crate) mod end;
pub(crate) mod failure;
mod gist;
pub(crate) mod json_size;
pub(crate) mod launch;
pub(crate) mod lines;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod native_id;
pub(crate) mod opencode_config;
pub(crate) mod options;
pub(crate) mod permission_rules;
pub(crate) mod private_file;
pub(crate) mod process;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod rpc;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod skills;
pub(crate) mod system_prompt;
pub(crate) mod tokens;
pub(crate) mod turn;
pub(crate) mod variables;
pub(crate) mod version;

use std::sync::{Mutex, MutexGuard, PoisonError};

use trunkline_sdk::{Category, Error};

pub(crate) use trunkline_sdk::protocol::tool_loop;

/// Locks a mutex, also after a panic of its last holder.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the conversation of a session.
///
/// # Errors
/// Before the session's start, which the host does not do.
pub(crate) fn started<C>(conversation: &mut Option<C>) -> Result<&mut C, Error> {
    let error = || Error::new(Category::Protocol, "the session was not started");
    conversation.as_mut().ok_or_else(error)
}
