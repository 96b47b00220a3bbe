//! The conformance suite's smoke set on the skeleton of the adapter guide, one test of cargo for each case.

use std::process::ExitCode;

use trunkline_conformance::{Class, Suite};

fn main() -> ExitCode {
    // Cargo builds the examples before the tests, beside their folder.
    let skeleton = std::env::current_exe()
        .ok()
        .and_then(|test| Some(test.parent()?.parent()?.join("examples/skeleton")))
        .unwrap_or_default();
    Suite::adapter([skeleton.display().to_string()])
        .with_all_abilities()
        .class(Class::Strict)
        .smoke()
        .complete()
        .main()
}
