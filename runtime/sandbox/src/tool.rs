//! Runs of bwrap, podman and docker with limits on time and output.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use trunkline_process::is_executable;

use crate::SandboxError;

/// Timeout for a program that reports whether it works.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of the output that is read, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// Runs `program` and returns its output, or the reason of its failure.
pub(crate) fn read_output<A: AsRef<OsStr>>(program: &Path, args: &[A]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args);
    match run_bounded(command, PROBE_TIMEOUT) {
        Ok(finished) if finished.success => Ok(finished.stdout),
        Ok(finished) => Err(finished.last_error_line()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the path of a program, found in the `PATH` of the host.
pub(crate) fn find_tool(tool: &'static str) -> Result<PathBuf, SandboxError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_usable = |file: &PathBuf| file.is_absolute() && is_executable(file);
    let found = env::split_paths(&path)
        .map(|dir| dir.join(tool))
        .find(is_usable);
    found.ok_or(SandboxError::Tool { tool, path })
}

/// Exit and output of a program.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) success: bool,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProgramOutput {
    /// Returns true if the error output, in lower case, contains `text`.
    pub(crate) fn error_contains(&self, text: &str) -> bool {
        self.stderr.to_lowercase().contains(text)
    }

    /// Returns the last line of the error output that is not blank.
    pub(crate) fn last_error_line(&self) -> String {
        let line = self
            .stderr
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty());
        line.map_or_else(
            || "it failed without an error message".to_owned(),
            |line| line.trim().to_owned(),
        )
    }
}

/// Runs a program until it ends, and kills it after the deadline. Blocks.
///
/// # Errors
///
/// The program cannot be started, or does not end in time.
pub(crate) fn run_bounded(mut command: Command, deadline: Duration) -> io::Result<ProgramOutput> {
    // Files instead of pipes: a pipe would need a reader while the program runs, and a background
    // process that keeps it open would block that reader.
    let mut out = tempfile::tempfile()?;
    let mut err = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?);
    let mut child = command.spawn()?;
    let ended = wait_for_exit(&mut child, deadline);
    if !matches!(ended, Ok(true)) {
        let _ = child.kill();
    }
    let status = child.wait()?;
    if !ended? {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", deadline.as_secs()),
        ));
    }
    Ok(ProgramOutput {
        success: status.success(),
        code: status.code(),
        stdout: read_back(&mut out)?,
        stderr: read_back(&mut err)?,
    })
}

/// Returns true if the process ends in time.
fn wait_for_exit(child: &mut std::process::Child, deadline: Duration) -> io::Result<bool> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let began = Instant::now();
    loop {
        let left = deadline.saturating_sub(began.elapsed());
        let left = Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_back(file: &mut fs::File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let error = run_bounded(command, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_background_process_does_not_delay_the_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 3 & echo output; echo wrong >&2; exit 3"]);
        let finished = run_bounded(command, Duration::from_secs(20)).unwrap();
        assert!(!finished.success);
        assert_eq!(
            (
                finished.stdout.as_str(),
                finished.last_error_line().as_str()
            ),
            ("output\n", "wrong")
        );
    }
}
