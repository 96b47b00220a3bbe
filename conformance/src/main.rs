//! The command line of the conformance suite.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "stub" => trunkline_conformance::stub::command_line(args),
        _ => ExitCode::from(2),
    }
}
