//! The conformance suite's smoke set on the Rust skeleton that `init` writes, one test of cargo for
//! each case.

use std::process::ExitCode;

use trunkline_conformance::{Class, Suite};

fn main() -> ExitCode {
    // Cargo builds the examples before the tests, beside their folder.
    let adapter = std::env::current_exe()
        .ok()
        .and_then(|test| Some(test.parent()?.parent()?.join("examples/init")))
        .unwrap_or_default();
    Suite::adapter([adapter.display().to_string()])
        .with_all_abilities()
        .class(Class::Strict)
        .smoke()
        .complete()
        .main()
}
