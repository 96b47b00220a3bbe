//! Profiles that wrap an agent which is not an ACP agent, each as a real process with a small
//! program in the agent's place.

#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

#[path = "generic/adapter.rs"]
#[allow(dead_code, reason = "shared with the tests of other profiles")]
mod adapter;
#[path = "wrapped/claude.rs"]
mod claude;
#[path = "wrapped/cli.rs"]
mod cli;
#[path = "wrapped/deadlines.rs"]
mod deadlines;
#[path = "wrapped/log.rs"]
mod log;
#[path = "wrapped/oneshot.rs"]
mod oneshot;
#[path = "wrapped/pi.rs"]
mod pi;
#[path = "wrapped/resume.rs"]
mod resume;
