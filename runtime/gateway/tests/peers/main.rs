//! Gateways that reach each other's sessions: each with a host, a journal and adapters of its own,
//! in one process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(
    unreachable_pub,
    reason = "the modules of one test program share what they need"
)]

mod changes;
mod client;
mod cluster;
mod http;
mod list;
mod pipe;
