//! Real sandboxes: visible files, reachable network, and processes that are left behind. Without
//! the backend, a test reports that it is skipped and passes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "these are tests, their helper functions too"
)]

mod sandbox {
    mod bubblewrap;
    mod fixture;
    mod podman;
    mod reach;
    mod spawned;
}
