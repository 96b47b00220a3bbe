//! Errors while a sandbox is prepared.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use trunkline_process::IsolationError;

use crate::PolicyError;
use crate::network::AllowListError;

/// Error while a sandbox is prepared. The texts read after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The program that creates the sandbox is not installed.
    #[error("find {tool} in PATH {path:?}; install it, or choose another backend")]
    Tool {
        /// Name of the program.
        tool: &'static str,
        /// `PATH` of the host.
        path: OsString,
    },
    /// The program that creates the sandbox does not work on this machine.
    #[error("use {tool}: {problem}")]
    Unusable {
        /// Name of the program.
        tool: &'static str,
        /// Error output of the program, or the missing requirement.
        problem: String,
    },
    /// A granted path is not absolute.
    #[error("grant {path:?} ({list}): the path is not absolute")]
    NotAbsolute {
        /// Name of the setting that contains the path.
        list: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A granted path does not exist or cannot be read.
    #[error("grant {path:?} ({list}): it cannot be looked at; create it, or take it off the list")]
    Missing {
        /// Name of the setting that contains the path.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A path may not be granted.
    #[error("grant {path:?} ({list}): {reason}")]
    Refused {
        /// Name of the setting that contains the path.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// Reason of the refusal.
        reason: String,
    },
    /// The child could change or create a file that the host reads and trusts.
    #[error("keep {path:?}, which the host reads, from being changed inside: {reason}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Reason why the child could change it.
        reason: String,
    },
    /// A policy does not allow the present target of a path.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// An entry of the network list is invalid.
    #[error(transparent)]
    Network(#[from] AllowListError),
    /// Network names are allowed, but no proxy was started to check them.
    #[error("allow some of the network: no proxy was started for this child")]
    NoOutlet,
    /// The program does not exist, neither inside nor outside.
    #[error("find {program:?} in PATH {path:?}; install it, or name it by its full path")]
    NotFound {
        /// The program.
        program: OsString,
        /// `PATH` of the child.
        path: OsString,
    },
    /// The program exists outside, but not inside the sandbox.
    #[error("run {file:?}, which the sandbox hides; add {} to its `read_only`", list_paths(.add))]
    NotVisible {
        /// Path of the program outside.
        file: PathBuf,
        /// Folders that must be granted at least.
        add: Vec<PathBuf>,
    },
    /// A variable cannot be passed to a container.
    #[error(
        "give a container the variable {name:?}: its client reads variables of this name itself, and others only without \
         a line break; take the line break off the value, or rename the variable"
    )]
    Variable {
        /// The variable.
        name: OsString,
    },
    /// A file that the sandbox needs cannot be written.
    #[error("write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl From<SandboxError> for IsolationError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::NotFound { program, path } => Self::NotFound { program, path },
            other => Self::Refused(other.into()),
        }
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| format!("{path:?}"))
        .collect::<Vec<_>>()
        .join(" and ")
}
