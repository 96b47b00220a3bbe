//! The `trunkline` program. One file per command below `command/`.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::env;
use std::io::Write;
use std::process::ExitCode;

use clap::{
    CommandFactory,
    error::{ContextKind, ContextValue},
};
use trunkline_host::{
    config,
    redact::{self, SecretInputs},
};

use crate::terminal::{columns, wrapped};

mod advice;
mod args;
mod ask;
mod command;
mod completion;
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
mod open_session;
mod option_value;
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
    completion::answer_shell();
    let args = match args::parse() {
        Ok(args) => args,
        // Help and the version.
        Err(help) if !help.use_stderr() => help.exit(),
        Err(error) => return refuse(error),
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

/// Reports an error of the command line. A text with a secret is printed without colours, because
/// colour codes could hide the secret from the redaction.
fn refuse(mut error: clap::Error) -> ExitCode {
    let next = next_step(&error);
    error.remove(ContextKind::SuggestedSubcommand);
    let invalid = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let suggested = error
        .get(ContextKind::SuggestedArg)
        .map(ToString::to_string);
    if let (Some(invalid), Some(suggested)) = (invalid, suggested) {
        let name = invalid.trim_start_matches('-');
        if config::nearest(name, &[suggested.trim_start_matches('-')]).is_none() {
            error.remove(ContextKind::SuggestedArg);
            // It would name the suggested option.
            error.remove(ContextKind::Usage);
        }
    }
    let text = error.render();
    let plain = text.to_string();
    let clean = without_secrets_of_arguments(&plain);
    let shown = if clean == plain {
        text.ansi().to_string()
    } else {
        clean
    };
    // An error without a suggestion leaves its line empty.
    let shown = shown.replace("\n\n\n", "\n\n");
    let mut stderr = anstream::stderr();
    // A failed write to stderr cannot be reported.
    let _ = write!(stderr, "{}", wrapped(&shown, columns(), 0));
    if let Some(next) = next {
        let _ = writeln!(stderr, " next: {}", wrapped(&next, columns(), 7));
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns the next step for an error whose text does not name one.
fn next_step(error: &clap::Error) -> Option<String> {
    let has = |command: &str| env::args_os().any(|word| word == command);
    let Some(name) = args::invalid_subcommand(error) else {
        let Some(ContextValue::String(more)) = error.get(ContextKind::InvalidArg) else {
            return None;
        };
        let is_prompt = !more.starts_with('-') && (has("run") || has("send"));
        let next = "put a prompt of several words in quotes: `trunkline run 'hello world'`";
        return is_prompt.then(|| next.to_owned());
    };
    if has("wire") {
        return Some("`trunkline dev wire show FILE` shows a log".to_owned());
    }
    if name == "init" {
        let next = "`trunkline config init` writes a configuration, `trunkline-conformance init` \
                    the skeleton of an adapter";
        return Some(next.to_owned());
    }
    let root = args::Args::command();
    let mut groups = root.get_subcommands();
    if let Some(group) = groups.find(|group| group.find_subcommand(name).is_some()) {
        return Some(format!(
            "did you mean `trunkline {} {name}`?",
            group.get_name()
        ));
    }
    let mut parent = &root;
    let mut path = "trunkline".to_owned();
    for word in env::args_os() {
        if let Some(command) = parent.find_subcommand(word) {
            path = format!("{path} {}", command.get_name());
            parent = command;
        }
    }
    let siblings: Vec<_> = parent
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    config::nearest(name, &siblings).map(|near| format!("did you mean `{path} {near}`?"))
}

/// Redacts the known secrets in a text, and each argument of the command line that looks like a
/// secret.
fn without_secrets_of_arguments(text: &str) -> String {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    SecretInputs::default().arguments(&arguments).register();
    let mut text = redact::message(text).into_owned();
    for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
        if let Cow::Owned(hidden) = redact::text(argument) {
            text = text.replace(argument, &hidden);
        }
    }
    text
}
