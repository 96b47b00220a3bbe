//! Real children: start, stop, death of either side.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

use trunkline_process::Containment;

const CONTAINMENT: Containment = Containment::Group;

mod process {
    mod host_death;
    mod inheritance;
    mod limits;
    mod private_folder;
    mod refusals;
    mod start;
    mod stderr;
    mod stop;
    mod watch;
}
