//! The error of a command: its cause, the next step, and the exit code.

use std::{fmt, io, process::ExitCode};

use anstream::eprintln;
use anyhow::Error;
use trunkline_host::redact;

use crate::{
    exit, paint,
    terminal::{columns, shown, wrapped},
};

/// Columns before an error's text: `error: `.
const MARGIN: usize = 7;

/// The exit code of a command, or the error that ended it.
pub(crate) type CommandResult = Result<u8, CliError>;

/// The error that ended a command.
#[derive(Debug)]
pub(crate) struct CliError {
    code: u8,
    error: Error,
    next: Option<String>,
}

impl CliError {
    /// The command line or the configuration is wrong.
    pub(crate) fn usage(error: impl Into<Error>) -> Self {
        Self::with_code(exit::USAGE, error.into())
    }

    /// The adapter could not be started.
    pub(crate) fn not_started(error: impl Into<Error>) -> Self {
        Self::with_code(exit::NOT_STARTED, error.into())
    }

    /// Anything else failed.
    pub(crate) fn failed(error: impl Into<Error>) -> Self {
        Self::with_code(exit::FAILED, error.into())
    }

    fn with_code(code: u8, error: Error) -> Self {
        Self {
            code,
            error,
            next: None,
        }
    }

    /// Sets the next step.
    pub(crate) fn next(self, next: impl fmt::Display) -> Self {
        Self {
            next: Some(next.to_string()),
            ..self
        }
    }

    /// Sets the next step if there is none.
    pub(crate) fn or_next(self, next: impl fmt::Display) -> Self {
        if self.next.is_some() {
            self
        } else {
            self.next(next)
        }
    }

    /// Returns the text, without colours and secrets.
    pub(crate) fn text(&self) -> String {
        redact::message(&chain(&self.error)).into_owned()
    }

    /// Prints the error to stderr, and returns the exit code. A list that nothing reads to its end is
    /// no failure.
    pub(crate) fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            return ExitCode::from(exit::OK);
        }
        let bad = paint::BAD.bold();
        let calm = paint::DIM;
        let columns = columns();
        let aligned =
            |text: &str| wrapped(&shown(&redact::message(text)), columns, MARGIN).into_owned();
        eprintln!("{bad}error:{bad:#} {}", aligned(&chain(&self.error)));
        if let Some(next) = &self.next {
            eprintln!("{calm} next:{calm:#} {}", aligned(next));
        }
        ExitCode::from(self.code)
    }

    fn is_broken_pipe(&self) -> bool {
        let causes = self.error.chain();
        let mut causes = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
        causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull {
            // The error of a file has its path.
            let what = error.get_ref().map_or("the output", |_| "a file");
            return Self::failed(Error::from(error).context(format!("failed to write {what}")));
        }
        Self::failed(error)
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        Self::failed(error)
    }
}

/// The error and its causes, without those that an earlier text contains.
fn chain(error: &Error) -> String {
    let mut text = String::new();
    for part in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
    }
    without_error_numbers(text)
}

/// Removes the numbers of system errors, such as ` (os error 2)`, which mean nothing to a person.
pub(crate) fn without_error_numbers(mut text: String) -> String {
    while let Some(start) = text.find(" (os error ")
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start..=start + length, "");
    }
    text
}
