//! The reference host with switches: without a switch it keeps every clause, with one it breaks
//! one.
//!
//! `broken-host --adapter 'COMMAND LINE' [--adapter2 'COMMAND LINE'] [--mutant NAME | --variant
//! NAME]` speaks the adapter protocol to a hub on its stdin and stdout and serves it by the
//! adapters that it starts. The agents are called `first` and `second`. With `--journal FOLDER` it
//! keeps a journal there. `--list` names the switches.
#![forbid(unsafe_code)]

mod agent;
mod answers;
mod asks;
mod child;
mod event;
mod files;
mod from_adapter;
mod from_hub;
mod journal;
mod message;
mod namespace;
mod pipes;
mod relay;
mod session;
mod shutdown;
mod spool;
mod starts;
mod stdout;
mod ticks;
mod turns;
mod upstream;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use trunkline_conformance_mutants::{host as switches, schema};

/// Writes a line for people to stderr.
pub(crate) fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "broken-host: {text}"));
}

fn main() -> ExitCode {
    let mut adapters = [None, None];
    let mut folder = None;
    let mut below = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        if flag == "--list" {
            switches::list();
            return ExitCode::SUCCESS;
        }
        let Some(value) = arguments.next() else {
            return usage(&format!("{flag} wants a value"));
        };
        match flag.as_str() {
            "--adapter" | "--adapter2" => match shell_words::split(&value) {
                Ok(words) if !words.is_empty() => {
                    adapters[usize::from(flag == "--adapter2")] = Some(words);
                    below.extend([flag, value]);
                }
                _ => return usage(&format!("{flag} wants a command line")),
            },
            "--journal" => folder = Some(PathBuf::from(value)),
            _ if switches::choose(&flag, &value) => {}
            _ => return usage(&format!("there is no {flag} {value}")),
        }
    }
    let [Some(first), second] = adapters else {
        return usage("--adapter is missing");
    };
    let commands = std::iter::once(first).chain(second).collect();
    let ran = match folder {
        Some(folder) => journal::run(folder, &below),
        None => relay::run(commands).map(|()| ExitCode::SUCCESS),
    };
    match ran {
        Ok(code) => code,
        Err(error) => {
            note(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn usage(why: &str) -> ExitCode {
    note(why);
    note(
        "usage: broken-host --adapter COMMAND [--adapter2 COMMAND] [--journal FOLDER] [--mutant NAME | --variant NAME] | --list",
    );
    ExitCode::from(2)
}
