//! Real sandboxes: what is seen, what is reached, what is left behind. Where a backend is missing
//! its tests say so and pass.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "these are tests, their helper functions too"
)]

mod sandbox {
    mod bubblewrap;
    mod ground;
    mod podman;
    mod reach;
    mod spawned;
}
