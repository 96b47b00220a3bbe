//! Gateways that forward requests for each other's sessions. Each has its own host, journal and
//! adapters; all run in one process.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]
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
