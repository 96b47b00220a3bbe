//! Checks that a program exists inside a sandbox before it starts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::grant::{ResolvedPath, follow_links};
use crate::view::FileView;
use crate::{Inside, SandboxError};
use trunkline_process::{DEFAULT_PATH, is_executable, program_candidates};

/// Rejects a program that does not exist inside, and names the folders to grant. Programs in
/// `started` may be missing on this machine: the child reports that itself.
///
/// The interpreter of a script is not checked. The init program reports a missing one.
pub(crate) fn check_programs(
    view: &FileView,
    inside: &Inside<'_>,
    started: &[OsString],
) -> Result<(), SandboxError> {
    for program in started {
        if let Err(error @ SandboxError::NotVisible { .. }) = check_program(view, inside, program) {
            return Err(error);
        }
    }
    check_program(view, inside, inside.program)
}

fn check_program(
    view: &FileView,
    inside: &Inside<'_>,
    program: &OsStr,
) -> Result<(), SandboxError> {
    let path = inside.variable("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut outside = None;
    for file in program_candidates(program, path, inside.work_dir) {
        let Some(place) = follow_program(&file) else {
            continue;
        };
        let add = missing_grants(view, &file, &place);
        if add.is_empty() {
            return Ok(());
        }
        outside.get_or_insert(SandboxError::NotVisible { file, add });
    }
    Err(outside.unwrap_or_else(|| SandboxError::NotFound {
        program: program.to_owned(),
        path: path.to_owned(),
    }))
}

/// Returns the path of a program, with its links followed, if it is executable.
fn follow_program(file: &Path) -> Option<ResolvedPath> {
    let place = follow_links(file).ok()?;
    is_executable(&place.real).then_some(place)
}

/// Returns the folders to grant so that `file` and the links on its way exist inside.
fn missing_grants(view: &FileView, file: &Path, place: &ResolvedPath) -> Vec<PathBuf> {
    let mut add = Vec::new();
    for link in &place.links {
        if !view.contains_link(&link.at) {
            // A grant of the name as it was written also creates the link.
            add.extend(file.parent().map(Path::to_owned));
            break;
        }
    }
    if !view.shows_host_path(&place.real) {
        let folder = place.real.parent().map(Path::to_owned);
        add.extend(folder.filter(|folder| add.first() != Some(folder)));
    }
    add
}
