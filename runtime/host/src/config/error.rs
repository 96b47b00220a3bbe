//! Faults of a configuration file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::lookup::{FILE_VARIABLE, Source};

/// A configuration that cannot be used; the text reads after "failed to". It shows file, place and
/// problem, and what to write instead where that is known; it never shows a value that could be a
/// secret.
#[derive(Debug)]
pub struct ConfigError {
    /// Kind of the file.
    what: &'static str,
    file: Option<PathBuf>,
    /// True if [`FILE_VARIABLE`] names the file.
    is_from_variable: bool,
    at: String,
    problem: Problem,
}

/// The fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The file is larger than a configuration can be.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The file is not JSON.
    #[error("{message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// In bytes, from 1; 0 where the end of a line is meant.
        column: usize,
        /// Expectation of the parser.
        message: String,
    },
    /// A key that means nothing there.
    #[error("unknown key{}{}", if hint.is_some() { "; " } else { "" }, hint.as_deref().unwrap_or_default())]
    UnknownKey {
        /// Suggestion: the nearest known key, or the place where this one belongs.
        hint: Option<String>,
    },
    /// A value of another JSON type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// Expected value.
        expected: String,
        /// JSON type of the present value.
        found: &'static str,
    },
    /// A key that must be there.
    #[error("it is missing")]
    Missing,
    /// A value of the right type that cannot be used, and why.
    #[error("{0}")]
    Invalid(String),
}

impl ConfigError {
    pub(super) fn new(at: impl Into<String>, problem: Problem) -> Self {
        Self {
            what: "configuration",
            file: None,
            is_from_variable: false,
            at: at.into(),
            problem,
        }
    }

    pub(super) fn invalid(at: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(at, Problem::Invalid(reason.into()))
    }

    pub(super) fn wrong_type(at: impl Into<String>, expected: &str, found: &'static str) -> Self {
        Self::new(
            at,
            Problem::WrongType {
                expected: expected.to_owned(),
                found,
            },
        )
    }

    pub(super) fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Adds the file of a source.
    pub(super) fn in_source(self, source: &Source) -> Self {
        let Some(path) = source.path() else {
            return self;
        };
        Self {
            is_from_variable: matches!(source, Source::Environment(_)),
            ..self.in_file(path)
        }
    }

    pub(super) fn in_policy(self, file: &Path) -> Self {
        Self {
            what: "policy",
            ..self.in_file(file)
        }
    }

    /// The file, unless the configuration came from a text.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The place in the file, such as `agents[1].external.command`; empty for the whole.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The fault at that place.
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
        if self.is_from_variable {
            write!(f, " (from {FILE_VARIABLE})")?;
        }
        if let Problem::Syntax { line, column, .. } = &self.problem {
            write!(f, ": line {line}, column {column}")?;
        }
        if !self.at.is_empty() {
            write!(f, ": {}", self.at)?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}
