//! Ports of this process that sandboxed programs must not reach by accident.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

static GUARDED: RwLock<BTreeSet<u16>> = RwLock::new(BTreeSet::new());

/// Refuses connections of all sandboxed programs of this process to a port of this machine, unless
/// an entry of the [`AllowList`](super::AllowList) names the port together with `localhost` or the
/// machine's address.
pub fn guard_port(port: u16) {
    let mut guarded = GUARDED.write().unwrap_or_else(PoisonError::into_inner);
    guarded.insert(port);
}

pub(super) fn is_guarded(port: u16) -> bool {
    let guarded = GUARDED.read().unwrap_or_else(PoisonError::into_inner);
    guarded.contains(&port)
}
