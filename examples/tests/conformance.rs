//! The conformance suite's smoke set on the Rust echo, one test of cargo for each case.

use std::process::ExitCode;

use trunkline_conformance::{Class, Suite};

fn main() -> ExitCode {
    // Cargo builds the examples before the tests, beside their folder.
    let echo = std::env::current_exe()
        .ok()
        .and_then(|test| Some(test.parent()?.parent()?.join("examples/echo")))
        .unwrap_or_default();
    Suite::adapter([echo.display().to_string()])
        .with_all_abilities()
        .class(Class::Strict)
        .smoke()
        .complete()
        .main()
}
