//! The commands: one file each, and what they share.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit;

mod baseline;
mod explain;
mod init;
mod list;
mod matrix;
mod recording;
mod report;
mod run;
mod selftest;

/// Judges adapters and hosts of the adapter protocol, in any language.
#[derive(Debug, Parser)]
#[command(name = "trunkline-conformance", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 conformant, 1 failures, 2 usage, 3 not started, 4 inconclusive, \
    5 stale baseline, 6 an error of the suite."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the smoke set against an adapter, or with --host against a host: a first result in
    /// seconds where nothing fails
    Smoke(run::SmokeArguments),
    /// Runs the adapter cases against any command that speaks the protocol
    Adapter(run::RunArguments),
    /// Runs the host cases against a relay; {adapter} in its command is where the suite's own adapter goes
    Host(run::RunArguments),
    /// Runs the cases with many implementations, one after another, and shows them in one table
    Matrix(matrix::MatrixArguments),
    /// Stands in for an adapter in a host's configuration: forwards every byte unchanged and records it
    Tap(recording::TapArguments),
    /// Judges both sides of a recording
    Check(recording::CheckArguments),
    /// Sends a transcript's host messages to a program, and judges its answers
    Replay(recording::ReplayArguments),
    /// Shows every clause with its cases, or the reason why it cannot be tested
    List(list::ListArguments),
    /// Compares a result with the file of what is known to fail, or brings that file up to date
    Baseline(baseline::BaselineArguments),
    /// Tells a saved result.json again: as text, or as any other report
    Report(report::ReportArguments),
    /// Writes a skeleton that passes, its configuration and a workflow for CI
    Init(init::InitArguments),
    /// Says what a case demands, of whom, and what it does
    Explain(explain::ExplainArguments),
    /// Runs the suite against programs that are broken on purpose: each must be caught, odd but
    /// correct ones spared
    Selftest(selftest::SelftestArguments),
}

/// Runs the program's command line, from the arguments of the process to its exit status.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let status = match arguments.command {
        Command::Smoke(arguments) => run::smoke(&arguments),
        Command::Adapter(arguments) => run::adapter(&arguments),
        Command::Host(arguments) => run::host(&arguments),
        Command::Matrix(arguments) => matrix::matrix(&arguments),
        Command::Tap(arguments) => return recording::tap(&arguments),
        Command::Check(arguments) => recording::check(&arguments),
        Command::Replay(arguments) => recording::replay(&arguments),
        Command::List(arguments) => Ok(list::list(&arguments)),
        Command::Baseline(arguments) => baseline::baseline(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Selftest(arguments) => selftest::selftest(&arguments),
    };
    ExitCode::from(status.unwrap_or_else(|error| {
        anstream::eprintln!("error: {error}");
        exit::USAGE
    }))
}

/// An error and what caused it.
fn with_source(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
