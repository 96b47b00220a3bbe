//! The `build` of a configuration: run once, before the program is judged.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    history::{History, PipePair, RecordedEvent},
    process::{Exit, Inherited, Launch, Process, StderrMode, sweep},
};

/// Shown end of each output stream, in bytes: compilers put their summary there.
const SHOWN: usize = 8 << 10;
/// Time for the output to arrive after the end of the process.
const REST: Duration = Duration::from_secs(1);

/// A command that makes the program.
#[derive(Debug, Clone)]
pub(crate) struct Build {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Working directory: the folder of the configuration.
    pub folder: PathBuf,
    /// Timeout.
    pub within: Duration,
}

/// Error of a build.
#[derive(Debug, thiserror::Error)]
#[error("`build` failed: {reason}")]
pub(crate) struct BuildError {
    /// Cause.
    pub reason: String,
    /// The end of what the command wrote to stdout, then to stderr.
    pub output: String,
}

impl Build {
    /// Runs the command to its end, in the suite's own environment: a build needs what its shell
    /// has set.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, fails, or does not end in time; then it is ended with
    /// all that it started.
    pub(crate) fn run(&self) -> Result<(), BuildError> {
        // Marks its processes, which may leave their group.
        let mark = format!("build-{}", std::process::id());
        let launch = Launch {
            command: self.command.clone(),
            env: Vec::new(),
            inherited: Inherited::All,
            cwd: self.folder.clone(),
            stderr: StderrMode::Recorded,
            mark: mark.clone(),
            link: PipePair::Upper,
        };
        let history = History::begin();
        let process = Process::start(&launch, &history).map_err(|error| BuildError {
            reason: format!("`{}` does not start: {error}", self.command.join(" ")),
            output: String::new(),
        })?;
        process.close_stdin();
        let exit = process.wait_exit(self.within);
        let reason = match exit {
            Some(Exit { code: Some(0), .. }) => return Ok(()),
            Some(Exit {
                code: Some(code), ..
            }) => format!("it ended with status {code}"),
            Some(Exit { signal, .. }) => format!("signal {} ended it", signal.unwrap_or_default()),
            None => {
                process.kill();
                // Only by mark and group: other work in the folder belongs to the author.
                sweep(process.pid(), &mark, Path::new("/nonexistent"));
                format!(
                    "it did not end within {} s (`build_s` under [limits])",
                    self.within.as_secs_f64()
                )
            }
        };
        process.wait_stderr(REST);
        history.wait(0, REST, |_, record| {
            matches!(record.event, RecordedEvent::StdoutEnded).then_some(())
        });
        Err(BuildError {
            reason,
            output: output_of(&history),
        })
    }
}

fn output_of(history: &History) -> String {
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    history.scan(0, |_, record| {
        match &record.event {
            RecordedEvent::Adapter { bytes, .. } => {
                stdout.extend_from_slice(bytes);
                stdout.push(b'\n');
            }
            RecordedEvent::Stderr(bytes) => stderr.extend_from_slice(bytes),
            _ => {}
        }
        None::<()>
    });
    let end = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN)..]).into_owned()
    };
    format!("{}{}", end(&stdout), end(&stderr))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn build(script: &str, within: Duration) -> Result<(), BuildError> {
        let folder = tempfile::tempdir().unwrap();
        let command = ["sh", "-c", script].map(str::to_owned).into();
        Build {
            command,
            folder: folder.path().to_owned(),
            within,
        }
        .run()
    }

    #[test]
    fn it_runs_in_its_folder_and_says_nothing() {
        build(
            "touch here && test -e here; echo fine",
            Duration::from_secs(60),
        )
        .unwrap();
    }

    #[test]
    fn a_failure_shows_both_streams() {
        let error = build("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.reason, "it ended with status 3");
        assert!(
            error.output.contains("out\n") && error.output.contains("err\n"),
            "{}",
            error.output
        );
    }

    #[test]
    fn it_ends_in_time_with_all_that_it_started() {
        let began = Instant::now();
        let error = build(
            "echo begun; sleep 600 & sleep 600",
            Duration::from_millis(300),
        )
        .unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(error.reason.contains("`build_s`"), "{}", error.reason);
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let command = vec!["no-such-program-here".to_owned()];
        let build = Build {
            command,
            folder: PathBuf::from("/"),
            within: Duration::from_secs(1),
        };
        assert!(
            build
                .run()
                .unwrap_err()
                .to_string()
                .contains("no-such-program-here")
        );
    }
}
