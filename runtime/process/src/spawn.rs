//! Starting a child: checks and preparation, the start itself, and what a failure means.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::child::Child;
use crate::environment::{ADAPTER_CONFIG, TMPDIR, child_environment, problem};
use crate::error::{SpawnError, is_shortage};
use crate::init::{InitReport, RECORD};
use crate::isolation::{Attachment, IsolationError};
use crate::limits::{self, Cgroup, Limits};
use crate::owned::OwnedResources;
use crate::pipe::read_held;
use crate::private_dir::PrivateDir;
use crate::record::{Record, TreeRecord};
use crate::search_path::{DEFAULT_PATH, candidates, is_path};
use crate::settle::Mark;
use crate::signal::Signal;
use crate::spawner::{self, Launched, Start};
use crate::spec::ChildSpec;
use crate::wrap::{Limiter, Scene, WrapError, wrap};

/// Timeout until the program runs: a folder on a dead network mount must not hold its start
/// forever.
const START: Duration = Duration::from_secs(60);

/// Timeout for the end of a process that could not start its program.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Bytes of its output that are reported.
const MOST_WORDS: usize = 4096;

/// Starts a child with three pipes, as the leader of its own session and process group.
///
/// The child inherits no descriptor but its pipes, ignores and blocks no signal, writes no core
/// file, and dies when the host does. It is started by a thread of this crate; no worker of the
/// runtime waits for fork or exec.
///
/// # Errors
///
/// [`SpawnError`] distinguishes the causes that a caller can act on. Nothing is left behind.
///
/// # Cancel safety
///
/// Dropping the future abandons the start: a child that exists by then is killed and reaped, and
/// its folder removed.
///
/// # Panics
///
/// Outside a tokio runtime, or in one without its I/O driver.
pub async fn spawn(spec: ChildSpec) -> Result<Child, SpawnError> {
    boxed(spec).await
}

/// Compiled here, and not in each crate that awaits it.
fn boxed(spec: ChildSpec) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send>> {
    Box::pin(start(spec))
}

async fn start(spec: ChildSpec) -> Result<Child, SpawnError> {
    let program = spec.program.clone();
    let Prepared {
        start,
        status,
        attachment,
        attempt,
    } = blocking(&program, move || prepare(spec)).await??;
    let refused = match spawner::launch(start).await {
        Ok(launched) => {
            let pid = launched.tree.leader();
            if let Some(record) = launched.tree.owned().record.as_ref().map(Record::writer) {
                blocking(&program, move || record.leader(pid)).await?;
            }
            match begin(launched, status, attachment).await {
                Ok(child) => {
                    tracing::debug!(pid, ?program, "started a child");
                    return Ok(child);
                }
                Err(refused) => refused,
            }
        }
        Err(error) => Refused::Start(error),
    };
    Err(match refused {
        Refused::Start(source) => blocking(&program, move || classify(&attempt, source)).await?,
        Refused::Containment(reason) => SpawnError::Containment { program, reason },
    })
}

/// Reason why a started process runs no program.
#[derive(Debug)]
enum Refused {
    /// The program itself was refused.
    Start(io::Error),
    /// The containment could not be made.
    Containment(String),
}

/// Registers a started process with the runtime, and waits until an init has reported that the
/// program runs. If it does not, or if the caller no longer waits, everything started is killed.
async fn begin(
    launched: Launched,
    status: Option<OwnedFd>,
    attachment: Attachment,
) -> Result<Child, Refused> {
    let mut child = Child::new(launched, attachment).map_err(Refused::Start)?;
    let Some(status) = status else {
        return Ok(child);
    };
    let mut record = [0; RECORD];
    let mut status = pipe::Receiver::from_owned_fd(status).map_err(Refused::Start)?;
    let read = timeout(START, status.read_exact(&mut record)).await;
    let refused = match read
        .ok()
        .and_then(Result::ok)
        .and_then(|_| InitReport::from_bytes(record))
    {
        Some(InitReport::Started) => return Ok(child),
        Some(InitReport::NotStarted(errno)) => Refused::Start(io::Error::from_raw_os_error(errno)),
        Some(InitReport::NotKept(step, errno)) => {
            let error = io::Error::from_raw_os_error(errno);
            if is_shortage(Errno::from_io_error(&error)) {
                Refused::Start(error)
            } else {
                Refused::Containment(format!("failed to {}: {error}", step.text()))
            }
        }
        None => Refused::Containment(last_words(&mut child).await),
    };
    // An error means that nothing is left to kill.
    let _ = child.signal_tree(Signal::Kill);
    child.finish().await;
    Err(refused)
}

/// Returns the output of a process that ended before its program ran.
async fn last_words(child: &mut Child) -> String {
    let stderr = child.take_stderr();
    let ended = match timeout(LAST_WORDS, child.wait()).await {
        Ok(exit) => format!("it ended with {exit} before the program ran"),
        Err(_) => "it let go of the program before it ran".to_owned(),
    };
    let mut said = Vec::new();
    // Output that cannot be read is ignored.
    let _ = stderr.map(|stderr| read_held(&stderr, |bytes| said.extend_from_slice(bytes)));
    said.truncate(MOST_WORDS);
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    if said.is_empty() {
        ended
    } else {
        format!("{ended}: {said}")
    }
}

/// Resources for a child's start, made where blocking is allowed: a directory on a dead network
/// mount then delays neither the runtime nor the start of other children.
struct Prepared {
    start: Start,
    /// Descriptor of an init's report whether the program runs.
    status: Option<OwnedFd>,
    attachment: Attachment,
    attempt: Attempt,
}

/// Facts by which an error is classified.
struct Attempt {
    program: OsString,
    path: OsString,
    work_dir: PathBuf,
    limits: Limits,
}

async fn blocking<T: Send + 'static>(
    program: &OsStr,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SpawnError> {
    spawn_blocking(work)
        .await
        .map_err(|error| SpawnError::Other {
            program: program.to_owned(),
            source: io::Error::other(error),
        })
}

fn prepare(spec: ChildSpec) -> Result<Prepared, SpawnError> {
    let mark = Mark::new();
    check_declared(&spec)?;
    spec.register_secrets();
    let work_dir = check_work_dir(spec.work_dir.as_deref())?;
    let root = spec.private_root.clone().unwrap_or_else(env::temp_dir);
    let private = PrivateDir::create(&root, spec.config.as_deref())
        .map_err(|source| SpawnError::PrivateDir { root, source })?;

    let mut own = BTreeMap::from([(TMPDIR.into(), private.temp().into())]);
    own.extend(
        private
            .config()
            .map(|file| (ADAPTER_CONFIG.into(), file.into())),
    );
    let environment = child_environment(env::vars_os(), spec.inherit, own, &spec.env);
    if !environment.withheld.is_empty() {
        let names = &environment.withheld;
        tracing::info!(program = ?spec.program, ?names, "variables that load code are passed on only when declared");
    }

    tracing::debug!(
        label = spec.label,
        program = ?spec.program,
        arguments = spec.shown_arguments(),
        folder = ?work_dir,
        variables = ?environment.variables.keys(),
        "starts a child"
    );

    let path = environment
        .variables
        .get(OsStr::new("PATH"))
        .cloned()
        .unwrap_or_else(|| DEFAULT_PATH.into());
    let scene = Scene {
        spec: &spec,
        environment: environment.variables,
        work_dir: &std::path::absolute(&work_dir).unwrap_or_else(|_| work_dir.clone()),
        private: &private,
    };
    let mut wrapped = wrap(scene).map_err(|error| {
        let program = spec.program.clone();
        match error {
            WrapError::Refused(reason) => SpawnError::Containment { program, reason },
            WrapError::Isolation(IsolationError::NotFound { program, path }) => {
                SpawnError::NotFound {
                    path: (!is_path(&program)).then_some(path),
                    program,
                }
            }
            WrapError::Isolation(IsolationError::Refused(refusal)) => {
                SpawnError::Sandbox { program, refusal }
            }
            WrapError::Late => SpawnError::Late {
                program: spec.program.clone(),
            },
            WrapError::System(source) | WrapError::Isolation(IsolationError::System(source)) => {
                SpawnError::Resources {
                    program,
                    limits: spec.limits,
                    source,
                }
            }
        }
    })?;
    let limits = match wrapped.limiter {
        Limiter::Host => spec.limits,
        Limiter::Engine => Limits::NONE,
    };
    let (cgroup, confinement) =
        limits::prepare(&limits).map_err(|source| SpawnError::Resources {
            program: spec.program.clone(),
            limits: spec.limits,
            source,
        })?;
    wrapped.manner.confinement = confinement;
    let record = spec
        .record_dir
        .as_deref()
        .and_then(|dir| record(dir, &spec, cgroup.as_ref(), &private));
    let mut command = Command::new(&wrapped.program);
    if let Some(name) = wrapped.name {
        command.arg0(name);
    }
    command
        .args(&wrapped.args)
        .env_clear()
        .envs(&wrapped.environment);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if spec.work_dir.is_some() {
        command.current_dir(&work_dir);
    }
    Ok(Prepared {
        start: Start {
            command,
            owned: OwnedResources {
                cgroup,
                private: Some(private),
                record,
                _mark: Some(mark),
            },
            manner: wrapped.manner,
            lent: wrapped.lent,
            lifeline: wrapped.lifeline,
        },
        status: wrapped.status,
        attachment: wrapped.attachment,
        attempt: Attempt {
            program: spec.program,
            path,
            work_dir,
            limits: spec.limits,
        },
    })
}

/// Writes the record of a tree. A child starts without one rather than not at all.
fn record(
    dir: &Path,
    spec: &ChildSpec,
    cgroup: Option<&Cgroup>,
    private: &PrivateDir,
) -> Option<Record> {
    let written = TreeRecord::of_this_host(spec.containment.name()).and_then(|mut entry| {
        entry.cgroups = cgroup
            .iter()
            .flat_map(|cgroup| cgroup.paths())
            .map(Path::to_owned)
            .collect();
        entry.folder = Some((private.inode()?, private.path().to_owned()));
        Record::create(dir, &entry)
    });
    match written {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(folder = %dir.display(), %error, "a child was not recorded, so a process that a power cut leaves behind is not found again");
            None
        }
    }
}

fn check_declared(spec: &ChildSpec) -> Result<(), SpawnError> {
    let unfit = |name: &OsString, problem| SpawnError::Environment {
        name: name.clone(),
        problem,
    };
    for (name, value) in &spec.env {
        if let Some(problem) = problem(name, value) {
            return Err(unfit(name, problem));
        }
        if name == ADAPTER_CONFIG && spec.config.is_some() {
            return Err(unfit(
                name,
                "it names the file made from the configuration; give one of the two",
            ));
        }
    }
    Ok(())
}

/// The directory that the child will run in, which exists and may be entered.
fn check_work_dir(asked: Option<&Path>) -> Result<PathBuf, SpawnError> {
    let refused = |path: &Path, source: io::Error| SpawnError::WorkDir {
        path: path.to_owned(),
        source,
    };
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
        // Other failures come from kernels without this check; the start reports the error.
        Ok(()) | Err(_) => Ok(dir),
    }
}

/// Tells what the failure of a start means. Looks at files, so it blocks.
fn classify(attempt: &Attempt, source: io::Error) -> SpawnError {
    let program = attempt.program.clone();
    let errno = Errno::from_io_error(&source);
    match errno {
        _ if is_shortage(errno) => SpawnError::Resources {
            program,
            limits: attempt.limits,
            source,
        },
        // A search that met one unreadable directory of PATH ends in EACCES even when there is no
        // such program.
        Some(Errno::NOENT | Errno::ACCESS) => match (find(attempt), errno) {
            (Some(found), Some(Errno::ACCESS)) if is_path(&program) && found.is_dir() => {
                SpawnError::Folder { program: found }
            }
            (Some(found), Some(Errno::ACCESS)) => SpawnError::PermissionDenied {
                program: found,
                source,
            },
            (Some(found), _) => SpawnError::Interpreter { program: found },
            (None, Some(Errno::ACCESS)) if is_path(&program) => SpawnError::PermissionDenied {
                program: program.into(),
                source,
            },
            (None, _) => {
                let path = (!is_path(&program)).then(|| attempt.path.clone());
                SpawnError::NotFound { program, path }
            }
        },
        Some(Errno::PERM) => SpawnError::PermissionDenied {
            program: program.into(),
            source,
        },
        _ => SpawnError::Other { program, source },
    }
}

/// The file that the start was about, if there is one.
fn find(attempt: &Attempt) -> Option<PathBuf> {
    let candidates = candidates(&attempt.program, &attempt.path, &attempt.work_dir);
    candidates
        .into_iter()
        .find(|file| fs::symlink_metadata(file).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(program: &str, path: &str) -> Attempt {
        Attempt {
            program: program.into(),
            path: path.into(),
            work_dir: "/".into(),
            limits: Limits::default(),
        }
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
    fn a_shortage_names_the_limit_of_ours_that_may_be_its_cause() {
        let limits = Limits {
            processes: Some(1),
            memory: Some(1 << 30),
            open_files: Some(3),
        };
        let own = Attempt {
            limits,
            ..attempt("sh", "/bin")
        };
        for (errno, limit) in [
            (Errno::AGAIN, "its limit of 1 processes may be"),
            (Errno::NOMEM, "its limit of 1GiB of memory may be"),
            (Errno::MFILE, "its limit of 3 open files may be"),
        ] {
            let said = classify(&own, errno.into()).to_string();
            assert!(said.contains(limit), "{said}");
            let said = classify(&attempt("sh", "/bin"), errno.into()).to_string();
            assert!(said.ends_with("descriptors; try again later"), "{said}");
        }
        assert_eq!(
            [0, 1000, 1536 << 20, 4 << 40].map(crate::shown_size),
            ["0 bytes", "1000 bytes", "1536MiB", "4TiB"]
        );
    }

    #[test]
    fn a_search_refused_on_its_way_is_not_a_forbidden_program() {
        let judged = classify(
            &attempt("no-such-program", "/root/bin:/bin"),
            Errno::ACCESS.into(),
        );
        assert!(
            matches!(judged, SpawnError::NotFound { path: Some(_), .. }),
            "{judged:?}"
        );
    }
}
