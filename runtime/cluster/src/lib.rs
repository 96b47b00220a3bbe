//! Daemons on many machines as one cluster: which hosts are alive, which host has which session,
//! and the storage of both.
//!
//! # Theory of operation
//!
//! All hosts share a [`Store`](store::Store) and send each other messages, called letters, over a
//! [`Fabric`](fabric::Fabric). Each host holds a lease, a row that it renews ([`lease`]). Each
//! session has a row that names its host ([`ownership`]), which is changed only by a host that
//! knows its previous content. Decisions are pure functions of rows and the host's own clock;
//! [`nats`] stores and transports, and [`memory`] does the same within one process, for tests.
//!
//! A [`Node`](node::Node) is the part of one daemon: it renews its lease, takes and loses sessions,
//! and reports the places of other sessions to its gateway. Entries of a session go through the
//! [`Keeper`](keeper::Keeper) into the cluster's journal, behind the last number that the host
//! knows there. So of two hosts that both believe to have a session, only one succeeds.

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
