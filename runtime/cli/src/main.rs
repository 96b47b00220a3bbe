//! `trunkline`: talks to adapters. One file per command below `command/`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};
use trunkline_host::redact;

use crate::terminal::{columns, wrapped};

mod advice;
mod args;
mod ask;
mod command;
mod conversation;
mod daemon;
mod error;
mod exit;
mod interrupt;
mod journal;
mod jsonl;
mod listing;
mod log;
mod matching_daemon;
mod overrides;
mod paint;
mod private_file;
mod reload;
mod screen;
mod session_backend;
mod target;
mod terminal;
mod traces;
mod unread;

fn main() -> ExitCode {
    trunkline_process::init::hook();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        // Help and the version.
        Err(said) if !said.use_stderr() => said.exit(),
        Err(error) => return refuse(&error),
    };
    if let Err(fault) = log::start(&args.logs, args.command.reader(), args.command.serves()) {
        return fault.report();
    }
    let ran = args.command.run(args.config.as_deref());
    traces::end();
    match ran {
        Ok(code) => code,
        Err(fault) => fault.report(),
    }
}

/// Says what is wrong with the command line. It quotes from it, and so perhaps a secret; such a text loses its colours,
/// among which a secret might not be found.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let plain = text.to_string();
    let mut stderr = anstream::stderr();
    // A stderr that takes nothing cannot be reported anywhere.
    let _ = match redact::text(&plain) {
        clean if *clean == plain => write!(
            stderr,
            "{}",
            wrapped(&text.ansi().to_string(), columns(), 0)
        ),
        clean => write!(stderr, "{}", wrapped(&clean, columns(), 0)),
    };
    if error.get(ContextKind::InvalidSubcommand) == Some(&ContextValue::String("init".to_owned())) {
        let _ = writeln!(
            stderr,
            " next: `trunkline-conformance init` writes the skeleton of an adapter"
        );
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
