//! An error at the edge of the program: what happened, what to do next, and with which code it ends.

use std::{fmt, io, process::ExitCode};

use anstream::eprintln;
use anyhow::Error;
use trunkline_host::redact;

use crate::{
    exit, paint,
    terminal::{columns, shown, wrapped},
};

/// How many columns stand before an error's text: `error: `.
const MARGIN: usize = 7;

/// What a command returns: its exit code, or why it has none.
pub(crate) type Done = Result<u8, Fault>;

/// Why a command gave up.
#[derive(Debug)]
pub(crate) struct Fault {
    code: u8,
    error: Error,
    next: Option<String>,
}

impl Fault {
    /// The command line or the configuration is wrong.
    pub(crate) fn usage(error: impl Into<Error>) -> Self {
        Self {
            code: exit::USAGE,
            error: error.into(),
            next: None,
        }
    }

    /// The adapter could not be started.
    pub(crate) fn not_started(error: impl Into<Error>) -> Self {
        Self {
            code: exit::NOT_STARTED,
            error: error.into(),
            next: None,
        }
    }

    /// Something failed on the way.
    pub(crate) fn failed(error: impl Into<Error>) -> Self {
        Self {
            code: exit::FAILED,
            error: error.into(),
            next: None,
        }
    }

    /// Says what to do next.
    pub(crate) fn next(self, next: impl fmt::Display) -> Self {
        Self {
            next: Some(next.to_string()),
            ..self
        }
    }

    /// The same, where nothing says it already.
    pub(crate) fn or_next(self, next: impl fmt::Display) -> Self {
        if self.next.is_some() {
            self
        } else {
            self.next(next)
        }
    }

    /// What happened, without colours and secrets.
    pub(crate) fn text(&self) -> String {
        redact::text(&chain(&self.error)).into_owned()
    }

    /// Tells the person at the terminal, and gives the exit code. That no one reads our output any more is not a failure.
    pub(crate) fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            return ExitCode::from(exit::OK);
        }
        let (bad, calm, columns) = (paint::BAD.bold(), paint::DIM, columns());
        // A daemon says what other hosts have said.
        let aligned =
            |text: &str| wrapped(&shown(&redact::text(text)), columns, MARGIN).into_owned();
        eprintln!("{bad}error:{bad:#} {}", aligned(&chain(&self.error)));
        if let Some(next) = &self.next {
            eprintln!("{calm} next:{calm:#} {}", aligned(next));
        }
        ExitCode::from(self.code)
    }

    fn is_broken_pipe(&self) -> bool {
        let kinds = self
            .error
            .chain()
            .filter_map(|error| error.downcast_ref::<io::Error>())
            .map(io::Error::kind);
        kinds
            .into_iter()
            .any(|kind| kind == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::failed(error)
    }
}

/// The error and its causes, those left out that a text above has said already.
fn chain(error: &Error) -> String {
    let mut said = String::new();
    for part in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = part;
        } else if !said.contains(&part) {
            said = format!("{said}: {part}");
        }
    }
    said
}
