//! Starting a child: checks and preparation, the start itself, and what a failure means.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use tokio::task::spawn_blocking;

use crate::child::Child;
use crate::environment::{ADAPTER_CONFIG, TMPDIR, child_environment, problem};
use crate::error::SpawnError;
use crate::private_dir::PrivateDir;
use crate::spawner;
use crate::spec::ChildSpec;

/// Where the C library looks when the child's environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Starts a child with three pipes, as the leader of its own session and process group.
///
/// The child inherits no descriptor but its pipes, ignores and blocks no signal, writes no core file, and dies
/// when the host does. It is started by a thread of this crate; no worker of the runtime waits for fork or exec.
///
/// # Errors
///
/// [`SpawnError`] tells apart what a caller can act on. Nothing is left behind.
///
/// # Cancel safety
///
/// Dropping the future abandons the start: a child that exists by then is killed and reaped, its folder removed.
///
/// # Panics
///
/// Outside a tokio runtime, or in one without its I/O driver.
pub async fn spawn(spec: ChildSpec) -> Result<Child, SpawnError> {
    let program = spec.program.clone();
    let Prepared { command, private, attempt } = blocking(&program, move || prepare(spec)).await??;
    match spawner::launch(command, private).await {
        Ok(launched) => {
            let pid = launched.group.leader();
            tracing::debug!(pid, ?program, "started a child");
            Child::new(launched).map_err(|source| classify(&attempt, source))
        }
        Err(source) => Err(blocking(&program, move || classify(&attempt, source)).await?),
    }
}

/// What is needed to start a child, made where blocking is allowed: a directory on a dead network mount then
/// holds up neither the runtime nor the start of other children.
struct Prepared {
    command: Command,
    private: PrivateDir,
    attempt: Attempt,
}

/// What an error is judged by.
struct Attempt {
    program: OsString,
    path: OsString,
    work_dir: PathBuf,
}

async fn blocking<T: Send + 'static>(
    program: &OsStr,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SpawnError> {
    spawn_blocking(work)
        .await
        .map_err(|error| SpawnError::Other { program: program.to_owned(), source: io::Error::other(error) })
}

fn prepare(spec: ChildSpec) -> Result<Prepared, SpawnError> {
    check_declared(&spec)?;
    let work_dir = check_work_dir(spec.work_dir.as_deref())?;
    let root = spec.private_root.unwrap_or_else(env::temp_dir);
    let private = PrivateDir::create(&root, spec.config.as_deref())
        .map_err(|source| SpawnError::PrivateDir { root, source })?;

    let mut own = BTreeMap::from([(TMPDIR.into(), private.temp().into())]);
    own.extend(private.config().map(|file| (ADAPTER_CONFIG.into(), file.into())));
    let environment = child_environment(env::vars_os(), spec.inherit, own, &spec.env);
    if !environment.withheld.is_empty() {
        let names = &environment.withheld;
        tracing::info!(program = ?spec.program, ?names, "variables that load code are passed on only when declared");
    }

    let mut command = Command::new(&spec.program);
    command.args(spec.args).env_clear().envs(&environment.variables);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if spec.work_dir.is_some() {
        command.current_dir(&work_dir);
    }
    let path = environment.variables.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into());
    Ok(Prepared { command, private, attempt: Attempt { program: spec.program, path, work_dir } })
}

fn check_declared(spec: &ChildSpec) -> Result<(), SpawnError> {
    let unfit = |name: &OsString, problem| SpawnError::Environment { name: name.clone(), problem };
    for (name, value) in &spec.env {
        if let Some(problem) = problem(name, value) {
            return Err(unfit(name, problem));
        }
        if name == ADAPTER_CONFIG && spec.config.is_some() {
            return Err(unfit(name, "it names the file made from the configuration; give one of the two"));
        }
    }
    Ok(())
}

/// The directory that the child will run in, which exists and may be entered.
fn check_work_dir(asked: Option<&Path>) -> Result<PathBuf, SpawnError> {
    let refused = |path: &Path, source: io::Error| SpawnError::WorkDir { path: path.to_owned(), source };
    let dir = match asked {
        Some(dir) => dir.to_owned(),
        None => env::current_dir().map_err(|source| refused(Path::new("."), source))?,
    };
    let meta = fs::metadata(&dir).map_err(|source| refused(&dir, source))?;
    if !meta.is_dir() {
        return Err(refused(&dir, Errno::NOTDIR.into()));
    }
    match accessat(CWD, &dir, Access::EXEC_OK, AtFlags::EACCESS) {
        Err(error @ Errno::ACCESS) => Err(refused(&dir, error.into())),
        // Other failures come from kernels that cannot tell; the start will.
        Ok(()) | Err(_) => Ok(dir),
    }
}

/// Tells what the failure of a start means. Looks at files, so it blocks.
fn classify(attempt: &Attempt, source: io::Error) -> SpawnError {
    let program = attempt.program.clone();
    let errno = Errno::from_io_error(&source);
    match errno {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            SpawnError::Resources { program, source }
        }
        // A search that met one unreadable directory of PATH ends in EACCES even when there is no such program.
        Some(Errno::NOENT | Errno::ACCESS) => match (find(attempt), errno) {
            (Some(found), Some(Errno::ACCESS)) => SpawnError::PermissionDenied { program: found, source },
            (Some(found), _) => SpawnError::Interpreter { program: found },
            (None, Some(Errno::ACCESS)) if is_path(&program) => {
                SpawnError::PermissionDenied { program: program.into(), source }
            }
            (None, _) => {
                let path = (!is_path(&program)).then(|| attempt.path.clone());
                SpawnError::NotFound { program, path }
            }
        },
        Some(Errno::PERM) => SpawnError::PermissionDenied { program: program.into(), source },
        _ => SpawnError::Other { program, source },
    }
}

/// The file that the start was about, if there is one.
fn find(attempt: &Attempt) -> Option<PathBuf> {
    let program = &attempt.program;
    if program.is_empty() {
        return None;
    }
    let candidates: Vec<PathBuf> = if is_path(program) {
        vec![attempt.work_dir.join(program)]
    } else {
        env::split_paths(&attempt.path).map(|dir| attempt.work_dir.join(dir).join(program)).collect()
    };
    candidates.into_iter().find(|file| fs::symlink_metadata(file).is_ok())
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(program: &str, path: &str) -> Attempt {
        Attempt { program: program.into(), path: path.into(), work_dir: "/".into() }
    }

    #[test]
    fn a_shortage_is_told_from_a_mistake() {
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE] {
            let judged = classify(&attempt("sh", "/bin"), errno.into());
            assert!(matches!(judged, SpawnError::Resources { .. }), "{judged:?}");
        }
        let judged = classify(&attempt("sh", "/bin"), Errno::TOOBIG.into());
        assert!(matches!(judged, SpawnError::Other { .. }), "{judged:?}");
    }

    #[test]
    fn a_search_refused_on_its_way_is_not_a_forbidden_program() {
        let judged = classify(&attempt("no-such-program", "/root/bin:/bin"), Errno::ACCESS.into());
        assert!(matches!(judged, SpawnError::NotFound { path: Some(_), .. }), "{judged:?}");
    }
}
