//! The tests of one child once more, each child in a PID namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

use trunkline_process::Containment;

const CONTAINMENT: Containment = Containment::Namespace;

mod process {
    mod inheritance;
    mod private_folder;
    mod refusals;
    mod start;
    mod stderr;
    mod stop;
    mod watch;
}
