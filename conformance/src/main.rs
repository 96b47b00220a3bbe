//! The command line of the conformance suite.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        // Hosts launch it, people do not: it is not among the commands that they read about.
        Some(word) if word == "stub" => trunkline_conformance::stub_command_line(args),
        _ => trunkline_conformance::command_line(),
    }
}
