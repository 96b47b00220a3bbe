//! Errors of a start.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::limits::{Limits, shown_size};

/// Error of a child's start; the texts read after "failed to".
///
/// No process and no folder is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error("start {program:?}: {}", not_found(.path.as_ref()))]
    NotFound {
        /// The program as it was asked for.
        program: OsString,
        /// The `PATH` that was searched; `None` when the program was given as a path.
        path: Option<OsString>,
    },
    /// The program is a script, and the interpreter that its first line names is missing.
    #[error(
        "start {program:?}: the interpreter named by its first line was not found; install it, or correct that line"
    )]
    Interpreter {
        /// The script.
        program: PathBuf,
    },
    /// The working directory is missing, is not a directory, or may not be entered.
    #[error("enter the working directory {path:?}")]
    WorkDir {
        /// The directory that was asked for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program is a folder.
    #[error("start {program:?}: it is a folder; name the program in it")]
    Folder {
        /// The folder that was found.
        program: PathBuf,
    },
    /// The program exists and may not be run.
    #[error(
        "start {program:?}: permission denied; if it is source, build it or name its interpreter, else make it executable for this user"
    )]
    PermissionDenied {
        /// The program that was found.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system is short of processes, memory, threads or descriptors. Trying again later may work.
    #[error(
        "start {program:?}: out of processes, memory or descriptors; {}",
        after_shortage(source, limits)
    )]
    Resources {
        /// The program as it was asked for.
        program: OsString,
        /// Limits of its tree.
        limits: Limits,
        /// The system's error.
        source: io::Error,
    },
    /// A declared variable cannot be given to a process.
    #[error("set the variable {name:?}: {problem}")]
    Environment {
        /// Name of the variable.
        name: OsString,
        /// The problem.
        problem: &'static str,
    },
    /// The private folder could not be made.
    #[error("make a private folder in {root:?}")]
    PrivateDir {
        /// Parent of the folder.
        root: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The sandbox that was asked for cannot be made.
    #[error("make the sandbox of {program:?}: failed to {refusal}")]
    Sandbox {
        /// The program as it was asked for.
        program: OsString,
        /// The cause.
        refusal: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The containment that was asked for could not be made, or what makes the sandbox failed.
    #[error("contain {program:?}: {reason}")]
    Containment {
        /// The program as it was asked for.
        program: OsString,
        /// The cause.
        reason: String,
    },
    /// The deadline has passed. It can start after the deadline is
    /// [extended](crate::Deadline::extend).
    #[error(
        "start {program:?}: the deadline of this host's children has passed, and was not extended"
    )]
    Late {
        /// The program as it was asked for.
        program: OsString,
    },
    /// Anything else that the system refused.
    #[error("start {program:?}")]
    Other {
        /// The program as it was asked for.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
}

/// Returns true if the cause may disappear without a change.
pub(crate) fn is_shortage(errno: Option<Errno>) -> bool {
    matches!(
        errno,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE)
    )
}

/// Returns the next step after a shortage; names one of our limits if it may be the cause.
fn after_shortage(source: &io::Error, limits: &Limits) -> String {
    let processes = limits
        .processes
        .filter(|number| *number != Limits::PROCESSES);
    let ours = match Errno::from_io_error(source) {
        Some(Errno::AGAIN) => processes.map(|number| format!("{number} processes")),
        Some(Errno::NOMEM) => limits
            .memory
            .map(|bytes| format!("{} of memory", shown_size(bytes))),
        Some(Errno::MFILE) => limits
            .open_files
            .map(|number| format!("{number} open files")),
        _ => None,
    };
    match ours {
        Some(ours) => format!("its limit of {ours} may be too low; raise it, or try again later"),
        None => "try again later".to_owned(),
    }
}

/// The longest `PATH` that an error shows whole, in bytes.
const SHOWN_PATH: usize = 60;

fn not_found(path: Option<&OsString>) -> String {
    match path {
        Some(path) if path.len() > SHOWN_PATH => {
            let folders = std::env::split_paths(path).count();
            format!(
                "not found in the {folders} folders of PATH; install it, or name it by its full path"
            )
        }
        Some(path) => {
            format!("not found in PATH {path:?}; install it, or name it by its full path")
        }
        None => "no such file; check the path".to_owned(),
    }
}
