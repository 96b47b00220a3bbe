//! Tests of the relay between a hub by hand and a scripted adapter, over pipes in memory.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]
#![allow(
    unreachable_pub,
    reason = "the modules of one test program share what they need"
)]

mod adapter;
mod ends;
mod fairness;
mod files;
mod finish;
mod flow;
mod golden;
mod hub;
mod journal;
mod journal_again;
mod judged;
mod large;
mod listed;
mod pipe;
mod requests;
mod sessions;
mod steer;
mod turns;
mod unread;
mod world;
