//! The tests of one child once more, each child under a reaper.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

use trunkline_process::Containment;

const CONTAINMENT: Containment = Containment::Reaper;

mod process {
    mod inheritance;
    mod private_folder;
    mod refusals;
    mod start;
    mod stderr;
    mod stop;
    mod watch;
}
