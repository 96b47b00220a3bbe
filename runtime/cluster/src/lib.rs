//! Daemons on many machines, as one: who is alive, who has which session, and where that is kept.
//!
//! # Theory of operation
//!
//! All hosts share a [`Store`](store::Store), and send each other letters over a
//! [`Fabric`](fabric::Fabric). Each host holds a lease, a row that it renews ([`lease`]); each
//! session has a row that says which host has it ([`ownership`]), and is changed by who knows what
//! it said before. What is decided is decided by pure functions of rows and of the own clock;
//! [`nats`] keeps and carries, and [`memory`] does the same within one process, for tests.
//!
//! A [`Node`](node::Node) is one daemon's part: it renews its lease, takes sessions and loses them,
//! and tells its gateway where others are. What happens in a session goes through the
//! [`Keeper`](keeper::Keeper) into the journal of the cluster, behind the number that it had last
//! there: so of two hosts that both believe to have a session one alone is heard.

#![forbid(unsafe_code)]

mod contents;
pub mod counters;
pub mod fabric;
pub mod keeper;
pub mod lease;
pub mod marks;
pub mod memory;
pub mod nats;
pub mod node;
pub mod ownership;
pub mod placement;
mod recorded;
pub mod row;
pub mod store;
pub mod tunnel;
pub mod wire;

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Locks, even where a thread has ended by a panic meanwhile: what is behind these is whole at each moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what waits for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| io::Error::other("the host ends"))?
}
