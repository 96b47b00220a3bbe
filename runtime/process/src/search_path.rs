//! Candidate paths of a program, by the rules of `execvp`.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Search path of the C library if the child's environment has no `PATH`.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Returns true if a program is given as a path, for which `PATH` is not searched.
pub(crate) fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Returns true for a file that this process may execute.
#[must_use]
pub fn is_executable(file: &Path) -> bool {
    file.is_file() && accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// The files that a start tries for a program, in order: itself if it is a path, else one for each
/// folder of `path`, the child's `PATH`. Relative ones count from `work_dir`. Looks at nothing.
#[must_use]
pub fn candidates(program: &OsStr, path: &OsStr, work_dir: &Path) -> Vec<PathBuf> {
    if program.is_empty() {
        Vec::new()
    } else if is_path(program) {
        vec![work_dir.join(program)]
    } else {
        env::split_paths(path)
            .map(|dir| work_dir.join(dir).join(program))
            .collect()
    }
}
