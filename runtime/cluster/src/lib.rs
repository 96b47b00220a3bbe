//! Daemons on many machines, as one: who is alive, who has which session, and where that is kept.
//!
//! # Theory of operation
//!
//! All hosts share a [`Store`](store::Store), and send each other letters over a [`Fabric`](fabric::Fabric). Each host holds a
//! lease, a row that it renews ([`lease`]); each session has a row that says which host has it ([`ownership`]), and is
//! changed by who knows what it said before. What is decided is decided by pure functions of rows and of the own
//! clock; [`nats`] keeps and carries, and [`memory`] does the same within one process, for tests.

#![forbid(unsafe_code)]

pub mod fabric;
pub mod lease;
pub mod memory;
pub mod nats;
pub mod ownership;
pub mod placement;
pub mod row;
pub mod store;
pub mod tunnel;
