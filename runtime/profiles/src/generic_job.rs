//! `generic-job`: each input is a run of a program, from its start to its end.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::Deserialize;
use tokio::{io::AsyncWriteExt, time::sleep};
use trunkline_process::Exit;
use trunkline_redact::HeldSecrets;
use trunkline_sdk::{
    Adapter, Category, Check, Description, Error, Input, Session, SessionStart, Status, Turn, TurnComplete,
    protocol::Failure,
};

use crate::{
    agent::{attachment::told, deadlines::while_working, describe, launch::Launch, secrets, settings::Wait},
    raw_process::{ProcessEvent, RawProcess, diagnose, no_command},
};

/// What a program has between SIGTERM and SIGKILL: less than a handler has after a stop.
const TERM: Duration = Duration::from_millis(1500);

/// A program that is run for each input: key `job`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct JobConfig {
    /// The program: a name that is looked up in PATH, or a path. It gets the input on stdin, then its end.
    command: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// Where it runs, where a session names no directory. Unset: where the adapter runs.
    #[serde(default)]
    work_dir: String,
    /// Variables of its environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// How long a run may take; then all of its processes are ended.
    #[serde(default = "five_minutes")]
    max_runtime: Wait,
}

fn five_minutes() -> Wait {
    Wait::seconds(300)
}

/// Runs a program for each input.
#[derive(Debug)]
pub(crate) struct GenericJob {
    config: JobConfig,
}

/// What of a session's options a run gets.
#[derive(Debug, Default)]
pub(crate) struct Options {
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    _secrets: Arc<HeldSecrets>,
}

impl Options {
    /// # Errors
    /// Where they hold more secrets than can be hidden.
    pub(crate) fn of(options: SessionStart) -> Result<Self, Error> {
        let _secrets = secrets::hold(&options)?;
        let cwd = options.cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        Ok(Self { cwd, env: options.env.unwrap_or_default(), _secrets })
    }

    /// A program in the session's directory, else the configured one, with the session's variables over its own.
    pub(crate) fn launch(
        &self,
        command: &str,
        args: &[String],
        work_dir: &str,
        env: &BTreeMap<String, String>,
    ) -> Launch {
        let configured = (!work_dir.is_empty()).then(|| PathBuf::from(work_dir));
        Launch::new(command).args(args).envs(env).envs(&self.env).cwd(self.cwd.clone().or(configured))
    }
}

impl GenericJob {
    pub(crate) fn new(config: JobConfig) -> Self {
        Self { config }
    }
}

impl Adapter for GenericJob {
    type State = Options;

    async fn start(&self, _: &Session, options: SessionStart) -> Result<Options, Error> {
        Options::of(options)
    }

    async fn turn(&self, turn: Turn, input: Input, options: &mut Options) -> Result<(), Error> {
        let JobConfig { command, args, work_dir, env, max_runtime } = &self.config;
        if command.is_empty() {
            return Err(no_command());
        }
        let content = told(input.content, input.files).await;
        let mut process = RawProcess::start(&options.launch(command, args, work_dir, env), command).await?;
        let expired = async {
            match max_runtime.0 {
                Some(longest) => sleep(longest).await,
                None => std::future::pending().await,
            }
        };
        let exit = tokio::select! {
            biased;
            () = turn.stopped() => {
                process.end(TERM).await;
                return Err(Error::stopped());
            }
            () = expired => {
                let longest = humantime::format_duration(max_runtime.0.unwrap_or_default());
                let text = format!("{} has run for {longest} (`max_runtime`) and was ended", process.name());
                process.end(TERM).await;
                return Err(Error::new(Category::Timeout, text));
            }
            exit = run(&turn, &mut process, content) => exit,
        };
        let end = end_of(exit, process.name(), &process.last_words());
        process.finish().await;
        turn.finish(end);
        Ok(())
    }

    fn describe(&self) -> Description {
        description()
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose(&self.config.command, &self.config.work_dir)
    }
}

/// What the profile is for.
pub(crate) fn description() -> Description {
    describe::plain("generic-job", "run-to-completion", true)
        .use_when(
            "a program reads its whole input, does its work and ends: scripts, batch jobs, filters",
            "a conversation must be remembered from one input to the next: each run knows only its own",
        )
        .honours(["cwd", "env"])
}

/// Gives a program its input and passes on its output until it ends.
async fn run(turn: &Turn, process: &mut RawProcess, input: String) -> Exit {
    let stdin = process.take_stdin();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A program that reads no input may be content without.
            drop(stdin.write_all(input.as_bytes()).await);
        }
    };
    let read = async {
        loop {
            match while_working(turn, process.next()).await {
                ProcessEvent::Text(channel, text) => turn.output_on(channel, text).await,
                ProcessEvent::Ended(exit) => return exit,
            }
        }
    };
    tokio::pin!(read);
    tokio::select! {
        biased;
        // What of the input was not taken by then is not waited for.
        exit = &mut read => exit,
        () = write => read.await,
    }
}

/// The end of a turn that was a program's run.
pub(crate) fn end_of(exit: Exit, name: &str, last_words: &str) -> TurnComplete {
    let (status, error) = if exit.success() {
        (Status::Completed, None)
    } else {
        let text = format!("{name} ended: {exit}{last_words}");
        (Status::Failed, Some(Failure::new(Category::ProcessExit, text)))
    };
    TurnComplete {
        status: Some(status),
        error,
        exit_code: exit.code,
        signal: exit.signal,
        ..TurnComplete::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_published_ones() {
        let config: JobConfig = serde_json::from_str(r#"{"command":"x"}"#).unwrap();
        assert_eq!((config.work_dir.as_str(), config.max_runtime), ("", Wait::seconds(300)));
        assert!(config.args.is_empty() && config.env.is_empty());
        let sample = r#"{"command":"/usr/local/bin/batch-job","args":["--output-json"],"work_dir":"/tmp/jobs","env":{},"max_runtime":"5m"}"#;
        assert!(serde_json::from_str::<JobConfig>(sample).is_ok());
        assert!(serde_json::from_str::<JobConfig>("{}").is_err(), "a program must be named");
    }

    #[test]
    fn an_end_says_how_the_program_ended() {
        let of = |code, signal| end_of(Exit { code, signal }, "job", ": boom");
        assert_eq!((of(Some(0), None).status, of(Some(0), None).error), (Some(Status::Completed), None));
        let failed = of(Some(3), None);
        assert_eq!(failed.error.unwrap().message.as_deref(), Some("job ended: exit status 3: boom"));
        let killed = of(None, Some(9));
        assert_eq!((killed.status, killed.signal), (Some(Status::Failed), Some(9)));
    }
}
