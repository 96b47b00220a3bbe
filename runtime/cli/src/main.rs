//! `trunkline`: talks to adapters. One file per command below `command/`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod args;
mod ask;
mod command;
mod conversation;
mod exit;
mod fault;
mod interrupt;
mod jsonl;
mod log;
mod paint;
mod screen;
mod target;
mod terminal;

fn main() -> ExitCode {
    trunkline_process::init::hook();
    let args = args::Args::parse();
    log::start(args.verbose, args.command.reader());
    match args.command.run(args.config.as_deref()) {
        Ok(code) => code,
        Err(fault) => fault.report(),
    }
}
