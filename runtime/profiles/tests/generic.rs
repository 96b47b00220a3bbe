//! The profiles that drive any program or server, each as a real process with real peers.

#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

#[path = "generic/adapter.rs"]
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
mod adapter;
#[path = "generic/cli.rs"]
mod cli;
#[path = "generic/http.rs"]
mod http;
#[path = "generic/job.rs"]
mod job;
#[path = "generic/mock.rs"]
mod mock;
#[path = "generic/replay.rs"]
mod replay;
#[path = "generic/server.rs"]
mod server;
#[path = "generic/witness.rs"]
mod witness;
