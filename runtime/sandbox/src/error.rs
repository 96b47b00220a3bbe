//! Why a sandbox could not be made.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use trunkline_process::IsolationError;

use crate::network::AllowListError;

/// Why a sandbox could not be made; the texts read after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The program that makes it is not installed.
    #[error("find {tool} in PATH {path:?}; install it, or choose another backend")]
    Tool {
        /// Its name.
        tool: &'static str,
        /// The `PATH` of the host.
        path: OsString,
    },
    /// The program that makes it does not work here.
    #[error("use {tool}: {problem}")]
    Unusable {
        /// Its name.
        tool: &'static str,
        /// What it said, or what is missing.
        problem: String,
    },
    /// A path that is to be granted has to say where it is.
    #[error("grant {path:?} ({list}): the path is not absolute")]
    NotAbsolute {
        /// Where it was named.
        list: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A path that is to be granted does not exist, or cannot be looked at.
    #[error("grant {path:?} ({list}): it cannot be looked at; create it, or take it off the list")]
    Missing {
        /// Where it was named.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path may not be granted.
    #[error("grant {path:?} ({list}): {reason}")]
    Refused {
        /// Where it was named.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A file that the host reads and trusts could be changed, or made, by the child.
    #[error("keep {path:?}, which the host reads, from being changed inside: {reason}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Why it could be changed.
        reason: String,
    },
    /// An entry of the network cannot be read.
    #[error(transparent)]
    Network(#[from] AllowListError),
    /// Network names are allowed, but there is no way to the proxy that checks them.
    #[error("allow some of the network: no proxy was started for this child")]
    NoOutlet,
    /// There is no such program, inside or outside.
    #[error("find {program:?} in PATH {path:?}; install it, or name it by its full path")]
    NotFound {
        /// The program.
        program: OsString,
        /// The child's `PATH`.
        path: OsString,
    },
    /// The program exists, but not inside.
    #[error("run {file:?}, which the sandbox hides; add {} to its `read_only`", named(.add))]
    NotVisible {
        /// The program, where it is outside.
        file: PathBuf,
        /// What has to be granted, at least.
        add: Vec<PathBuf>,
    },
    /// A variable cannot be given to a container.
    #[error(
        "give a container the variable {name:?}: its client reads variables of this name itself, and others only without \
         a line break; take the line break off the value, or rename the variable"
    )]
    Variable {
        /// The variable.
        name: OsString,
    },
    /// A file that the sandbox needs could not be written.
    #[error("write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
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

fn named(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| format!("{path:?}"))
        .collect::<Vec<_>>()
        .join(" and ")
}
