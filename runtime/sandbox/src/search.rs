//! Whether the program that is to run will be found inside.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::grant::{Place, follow};
use crate::view::View;
use crate::{Inside, SandboxError};
use trunkline_process::{DEFAULT_PATH, is_executable, program_candidates};

/// Refuses a program that is not there inside, and names what has to be granted.
///
/// The interpreter of a script is not looked for: the init program tells when it is missing.
pub(crate) fn visible(view: &View, inside: &Inside<'_>) -> Result<(), SandboxError> {
    let path = inside.variable("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut outside = None;
    for file in program_candidates(inside.program, path, inside.work_dir) {
        let Some(place) = program(&file) else {
            continue;
        };
        let add = not_shown(view, &file, &place);
        if add.is_empty() {
            return Ok(());
        }
        outside.get_or_insert(SandboxError::NotVisible { file, add });
    }
    Err(outside.unwrap_or_else(|| SandboxError::NotFound {
        program: inside.program.to_owned(),
        path: path.to_owned(),
    }))
}

/// Where a program is, if it is one that may be run.
fn program(file: &Path) -> Option<Place> {
    let place = follow(file).ok()?;
    is_executable(&place.real).then_some(place)
}

/// The folders that have to be granted so that the way to `file` exists inside.
fn not_shown(view: &View, file: &Path, place: &Place) -> Vec<PathBuf> {
    let mut add = Vec::new();
    for link in &place.links {
        if !view.has_link(&link.at) {
            // Granting the name as it was written makes the link, too.
            add.extend(file.parent().map(Path::to_owned));
            break;
        }
    }
    if !view.shows(&place.real) {
        let folder = place.real.parent().map(Path::to_owned);
        add.extend(folder.filter(|folder| add.first() != Some(folder)));
    }
    add
}
