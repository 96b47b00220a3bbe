//! The program: existence, permission and version.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use trunkline_process::{ChildSpec, is_executable, program_candidates};

use super::report::{CheckCode, DoctorCheck};

/// Limit of a script's first line, as in Linux, in bytes.
const MAX_FIRST_LINE_BYTES: u64 = 256;

/// Result of a search for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramSearch {
    /// An executable file.
    At(PathBuf),
    /// No such file.
    Nowhere,
    /// A file that is not executable.
    NotExecutable(PathBuf),
    /// A script whose interpreter does not exist.
    NoInterpreter(PathBuf, OsString),
}

/// Returns the working directory of a child.
pub(super) fn work_dir(spec: &ChildSpec) -> PathBuf {
    match &spec.work_dir {
        Some(work_dir) => std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.clone()),
        None => std::env::current_dir().unwrap_or_else(|_| ".".into()),
    }
}

/// Searches as a start does: in the child's `PATH`, and from its working directory. Starts nothing.
pub(super) fn search_program(program: &OsStr, path: &OsStr, work_dir: &Path) -> ProgramSearch {
    let mut forbidden = None;
    for candidate in program_candidates(program, path, work_dir) {
        if !candidate.is_file() {
            continue;
        }
        if !is_executable(&candidate) {
            forbidden.get_or_insert(candidate);
            continue;
        }
        return match missing_interpreter(&candidate, path, work_dir) {
            Some(interpreter) => ProgramSearch::NoInterpreter(candidate, interpreter),
            None => ProgramSearch::At(candidate),
        };
    }
    forbidden.map_or(ProgramSearch::Nowhere, ProgramSearch::NotExecutable)
}

/// Returns the missing interpreter of a script: the program of its first line, or the one that
/// `env` searches for.
fn missing_interpreter(script: &Path, path: &OsStr, work_dir: &Path) -> Option<OsString> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(script, flags, Mode::empty()).ok()?);
    let mut head = Vec::new();
    file.take(MAX_FIRST_LINE_BYTES)
        .read_to_end(&mut head)
        .ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let interpreter = words.next()?;
    let runnable = |program: &OsStr| {
        program_candidates(program, path, work_dir)
            .iter()
            .any(|at| is_executable(at))
    };
    if !runnable(interpreter) {
        return Some(interpreter.to_owned());
    }
    if Path::new(interpreter).file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let named = words
        .find(|word| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'='))?;
    (!runnable(named)).then(|| named.to_owned())
}

/// Reports a program that the image of a container must contain.
pub(super) fn in_image(program: &OsStr, image: &str) -> DoctorCheck {
    CheckCode::CommandInImage.check(format!(
        "`{}` must exist in the image {image}",
        program.to_string_lossy()
    ))
}

/// Reports the result of a search.
pub(super) fn report_search(program: &OsStr, found: &ProgramSearch, path: &OsStr) -> DoctorCheck {
    let shown = program.to_string_lossy();
    match found {
        ProgramSearch::At(at) => CheckCode::CommandFound.check(at.to_string_lossy()),
        ProgramSearch::Nowhere if program.as_bytes().contains(&b'/') => CheckCode::CommandMissing
            .check(format!("the file {shown} does not exist"))
            .hint("correct the path; a relative path starts at the working directory"),
        ProgramSearch::Nowhere => CheckCode::CommandMissing
            .check(format!("`{shown}` was not found in the agent's PATH"))
            .detail(format!("PATH is {}", path.to_string_lossy()))
            .hint("install it, use its full path, or set PATH in the agent's `env`"),
        ProgramSearch::NotExecutable(at) => CheckCode::CommandNotExecutable
            .check(format!("{} is not executable", at.display()))
            .hint(format!("chmod +x {}", at.display())),
        ProgramSearch::NoInterpreter(at, interpreter) => CheckCode::CommandInterpreter
            .check(format!(
                "{} is a script for `{}`, which does not exist",
                at.display(),
                interpreter.to_string_lossy()
            ))
            .hint("install it, or correct the script's first line"),
    }
}

/// Programs that print their version for `--version` when they are found by this name in `PATH`.
/// Any other program would treat it as a run.
const VERSION_PROGRAMS: [&str; 12] = [
    "bun", "claude", "codex", "deno", "gemini", "node", "opencode", "perl", "python", "python3",
    "ruby", "uv",
];

/// Returns true if the program may be queried by `--version`.
pub(super) fn reports_version(program: &OsStr) -> bool {
    VERSION_PROGRAMS.iter().any(|known| program == *known)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_search_tells_what_a_start_would_meet() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::create_dir(at("bin/folder")).unwrap();
        write(&at("bin/good"), "#!/bin/sh\n", 0o755);
        write(&at("bin/plain"), "", 0o644);
        write(&at("bin/lost"), "#!/no/such/interpreter -x\n", 0o755);
        write(
            &at("bin/env"),
            "#! /usr/bin/env -S A=b no-such-interpreter\n",
            0o755,
        );
        write(&at("bin/found"), "#!/usr/bin/env good\n", 0o755);
        let path = std::env::join_paths([at("nothing"), at("bin")]).unwrap();
        let find = |program: &str| search_program(program.as_ref(), &path, folder.path());
        assert_eq!(find("good"), ProgramSearch::At(at("bin/good")));
        assert_eq!(find("found"), ProgramSearch::At(at("bin/found")));
        assert_eq!(find("bin/good"), ProgramSearch::At(at("bin/good")));
        assert_eq!(find("./good"), ProgramSearch::Nowhere);
        assert_eq!(find("folder"), ProgramSearch::Nowhere);
        assert_eq!(find(""), ProgramSearch::Nowhere);
        assert_eq!(find("plain"), ProgramSearch::NotExecutable(at("bin/plain")));
        assert_eq!(
            find("lost"),
            ProgramSearch::NoInterpreter(at("bin/lost"), "/no/such/interpreter".into())
        );
        assert_eq!(
            find("env"),
            ProgramSearch::NoInterpreter(at("bin/env"), "no-such-interpreter".into())
        );
    }

    #[test]
    fn a_missing_program_is_told_with_the_path() {
        let check = report_search(
            "agent".as_ref(),
            &ProgramSearch::Nowhere,
            "/usr/bin:/bin".as_ref(),
        );
        assert_eq!(check.detail.as_deref(), Some("PATH is /usr/bin:/bin"));
        assert!(reports_version("python3".as_ref()) && !reports_version("/opt/python3".as_ref()));
    }
}
