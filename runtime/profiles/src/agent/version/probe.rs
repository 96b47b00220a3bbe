//! Asks an agent's program for its version, once a process.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use tokio::{sync::OnceCell, time::timeout};
use trunkline_sdk::Error;

use super::Version;
use crate::agent::{
    failure,
    launch::Launch,
    lines::AgentLine,
    locked,
    process::{Agent, ProcessEnd, Stdin},
    settings::Common,
};

/// Timeout of `--version`: some programs need more than ten seconds on a busy machine, and an old
/// one that is taken for the newest is given options that it refuses.
const DEADLINE: Duration = Duration::from_secs(30);

/// Time to exit after its last output.
const EXIT: Duration = Duration::from_secs(2);

/// Limits of its lines, and of a line's length in bytes.
const MOST_LINES: usize = 64;
const LONGEST_LINE: usize = 64 * 1024;

/// Limit of remembered programs. A configuration names one or two.
const REMEMBERED: usize = 64;

/// Identity of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Program {
    program: OsString,
    args: Vec<OsString>,
    search_path: Option<OsString>,
    /// Base of a relative path.
    cwd: Option<PathBuf>,
}

/// A version, or why there is none.
type ProbeResult = Result<Version, String>;

type Answers = HashMap<Program, Arc<OnceCell<ProbeResult>>>;

static ANSWERS: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);

/// Returns the version of a program, by `--version` after the arguments that it is launched with.
/// Asked once: simultaneous callers wait for the same answer.
///
/// # Errors
/// The program is missing (the next call tries again), or prints no version within thirty seconds.
/// The latter is not fatal: treat it as the newest.
pub(crate) async fn probe(launch: &Launch) -> Result<Version, Error> {
    let answer = cell(launch);
    let asked = answer.get_or_try_init(|| ask(launch, DEADLINE)).await?;
    asked.clone().map_err(Error::other)
}

/// Returns the version of a configured program, if it prints one.
pub(crate) async fn find_version(common: &Common) -> Option<Version> {
    probe(
        &Launch::new(&common.command)
            .args(&common.args)
            .envs(&common.env),
    )
    .await
    .ok()
}

fn cell(launch: &Launch) -> Arc<OnceCell<ProbeResult>> {
    let is_relative = launch.program.to_string_lossy().contains('/');
    let program = Program {
        program: launch.program.clone(),
        args: launch.args.clone(),
        search_path: launch.env.get(std::ffi::OsStr::new("PATH")).cloned(),
        cwd: launch.cwd.clone().filter(|_| is_relative),
    };
    let mut answers = locked(&ANSWERS);
    if answers.len() >= REMEMBERED && !answers.contains_key(&program) {
        answers.clear();
    }
    Arc::clone(answers.entry(program).or_default())
}

/// Runs the program. Only its absence is an error: everything else is an answer that is kept.
async fn ask(launch: &Launch, deadline: Duration) -> Result<ProbeResult, Error> {
    let name = launch.name().to_string_lossy().into_owned();
    let ProgramOutput {
        is_late,
        stdout: said,
        end: ProcessEnd { stderr, .. },
    } = hear(launch.clone().arg("--version"), deadline).await?;
    let version = Version::parse(&said).or_else(|| Version::parse(&stderr));
    Ok(version.ok_or_else(|| {
        if is_late {
            format!(
                "`{name} --version` was not done within {} s",
                deadline.as_secs()
            )
        } else {
            let said = if said.trim().is_empty() {
                &stderr
            } else {
                &said
            };
            format!(
                "`{name} --version` prints no version: {}",
                failure::message(said)
            )
        }
    }))
}

/// Result of a short run of a program.
pub(crate) struct ProgramOutput {
    /// True if it was ended because of the timeout.
    pub(crate) is_late: bool,
    /// The first lines of its stdout.
    pub(crate) stdout: String,
    /// End of the process.
    pub(crate) end: ProcessEnd,
}

/// Runs a program that prints a few lines and ends, and ends it otherwise. Of a flood only the
/// first lines are read.
///
/// # Errors
/// It cannot be started.
pub(crate) async fn hear(mut launch: Launch, deadline: Duration) -> Result<ProgramOutput, Error> {
    launch.max_line = LONGEST_LINE;
    let mut agent = Agent::start(&launch, Stdin::Null, None).await?;
    let mut stdout = String::new();
    let read = async {
        for _ in 0..MOST_LINES {
            match agent.next().await {
                Some(AgentLine::Whole(line)) => {
                    stdout.push_str(&String::from_utf8_lossy(&line));
                    stdout.push('\n');
                }
                Some(AgentLine::TooLong(_)) => {}
                None => return true,
            }
        }
        false
    };
    let read = timeout(deadline, read).await;
    let end = match read {
        // Its stdout has ended: what is left is to exit.
        Ok(true) => agent.end(EXIT, Duration::ZERO).await,
        Ok(false) | Err(_) => agent.end(Duration::ZERO, Duration::ZERO).await,
    };
    Ok(ProgramOutput {
        is_late: read.is_err(),
        stdout,
        end,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use trunkline_sdk::Category;

    use super::*;

    /// A program in a folder that notes each of its runs.
    fn program(folder: &Path, script: &str) -> Launch {
        let path = folder.join("agent");
        // Written by another process, so that no thread of ours holds it open for writing while it
        // is started.
        let text = format!(
            "#!/bin/sh\necho run >> {}/runs\n{script}\n",
            folder.display()
        );
        fs::write(folder.join("text"), text).unwrap();
        let made = std::process::Command::new("cp")
            .arg(folder.join("text"))
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Launch::new(path)
    }

    fn runs(folder: &Path) -> usize {
        fs::read_to_string(folder.join("runs"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    #[tokio::test]
    async fn many_ask_and_the_program_runs_once() {
        let folder = tempfile::tempdir().unwrap();
        let launch = program(
            folder.path(),
            "test \"$*\" = \"exec --version\" && echo 'agent-cli 1.2.3'",
        )
        .arg("exec");
        let asked: Vec<_> = std::iter::repeat_with(|| probe(&launch)).take(8).collect();
        for version in futures_util::future::join_all(asked).await {
            assert_eq!(version.unwrap(), Version(1, 2, 3));
        }
        assert_eq!(probe(&launch).await.unwrap(), Version(1, 2, 3));
        assert_eq!(runs(folder.path()), 1);
    }

    #[tokio::test]
    async fn a_version_on_stderr_counts() {
        let folder = tempfile::tempdir().unwrap();
        let launch = program(folder.path(), "echo 'agent v4.5.6' >&2");
        assert_eq!(probe(&launch).await.unwrap(), Version(4, 5, 6));
    }

    #[tokio::test]
    async fn a_program_that_tells_none_is_asked_once() {
        let folder = tempfile::tempdir().unwrap();
        let launch = program(folder.path(), "echo 'unknown option' >&2; exit 2");
        for _ in 0..2 {
            let error = probe(&launch).await.unwrap_err().to_string();
            assert!(
                error.contains("agent --version") && error.contains("unknown option"),
                "{error}"
            );
        }
        assert_eq!(runs(folder.path()), 1);
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let launch = program(folder.path(), "trap '' TERM; while :; do sleep 9; done");
        let error = ask(&launch, Duration::from_millis(50))
            .await
            .unwrap()
            .unwrap_err();
        assert!(error.contains("was not done within"), "{error}");
    }

    #[tokio::test]
    async fn a_flood_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let launch = program(folder.path(), "while :; do echo flood; done");
        let error = ask(&launch, Duration::from_secs(60))
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            error.contains("prints no version") && error.len() < 5000,
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_looked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch::new(folder.path().join("agent"));
        let error = probe(&launch).await.unwrap_err();
        assert_eq!(error.failure().category, Some(Category::NotInstalled));
        program(folder.path(), "echo 1.0.0");
        assert_eq!(probe(&launch).await.unwrap(), Version(1, 0, 0));
    }
}
