//! `trunkline-adapter`: the built-in adapters in a program of their own, for hosts that bring their
//! own runtime.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

/// The exit code for a command line that names no adapter.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    trunkline_process::init::hook();
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments
        .next()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    trunkline_profiles::run(&name, arguments).unwrap_or_else(|| {
        let names: Vec<_> = trunkline_profiles::PROFILES.iter().map(|profile| profile.name).collect();
        // If stderr is closed, the error cannot be reported.
        drop(writeln!(
            std::io::stderr(),
            "no built-in adapter is called {name:?}; there are: {}\nusage: trunkline-adapter NAME [--describe | --diagnose | --log-out]",
            names.join(", ")
        ));
        ExitCode::from(USAGE)
    })
}
