//! What can be wrong with a configuration file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A configuration that cannot be used. It shows file, place and problem, and what to write instead where that is
/// known; it never shows a value that could be a secret.
#[derive(Debug)]
pub struct ConfigError {
    /// What the file is.
    what: &'static str,
    file: Option<PathBuf>,
    at: String,
    problem: Problem,
}

/// What is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be read.
    Unreadable(io::Error),
    /// The file is larger than a configuration can be.
    TooLarge {
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The file is not JSON.
    Syntax {
        /// From 1.
        line: usize,
        /// In bytes, from 1; 0 where the end of a line is meant.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// A key that means nothing there.
    UnknownKey {
        /// What may be written instead: the nearest known key, or where this one belongs.
        hint: Option<String>,
    },
    /// A value of another JSON type.
    WrongType {
        /// What is meant there.
        expected: String,
        /// The JSON type that stands there.
        found: &'static str,
    },
    /// A key that must be there.
    Missing,
    /// A value of the right type that cannot be used, and why.
    Invalid(String),
}

impl ConfigError {
    pub(super) fn new(at: impl Into<String>, problem: Problem) -> Self {
        Self { what: "configuration", file: None, at: at.into(), problem }
    }

    pub(super) fn invalid(at: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(at, Problem::Invalid(reason.into()))
    }

    pub(super) fn wrong_type(at: impl Into<String>, expected: &str, found: &'static str) -> Self {
        Self::new(at, Problem::WrongType { expected: expected.to_owned(), found })
    }

    pub(super) fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    pub(super) fn in_policy(self, file: &Path) -> Self {
        Self { what: "policy", ..self.in_file(file) }
    }

    /// The file, unless the configuration came from a text.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The place in the file, such as `agents[1].external.command`; empty for the whole.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// What is wrong there.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read the {}", self.what)?;
        if let Some(file) = &self.file {
            write!(f, " {}", file.display())?;
        }
        if let Problem::Syntax { line, column, .. } = &self.problem {
            write!(f, ": line {line}, column {column}")?;
        }
        if !self.at.is_empty() {
            write!(f, ": {}", self.at)?;
        }
        match &self.problem {
            Problem::Unreadable(error) => write!(f, ": {error}"),
            Problem::TooLarge { limit } => write!(f, ": it is larger than {limit} bytes"),
            Problem::Syntax { message, .. } => write!(f, ": {message}"),
            Problem::UnknownKey { hint: None } => f.write_str(": unknown key"),
            Problem::UnknownKey { hint: Some(hint) } => write!(f, ": unknown key; {hint}"),
            Problem::WrongType { expected, found } => write!(f, ": expected {expected}, found {found}"),
            Problem::Missing => f.write_str(": it is missing"),
            Problem::Invalid(reason) => write!(f, ": {reason}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Unreadable(error) => Some(error),
            Problem::TooLarge { .. }
            | Problem::Syntax { .. }
            | Problem::UnknownKey { .. }
            | Problem::WrongType { .. }
            | Problem::Missing
            | Problem::Invalid(_) => None,
        }
    }
}
