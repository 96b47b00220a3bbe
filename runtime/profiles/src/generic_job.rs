//! `generic-job`: each input is a run of a program, from its start to its end.

mod answer;
mod config;
mod input;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt, time::sleep};
use trunkline_process::Exit;
use trunkline_redact::HeldSecrets;
use trunkline_sdk::{
    Adapter, Category, Channel, Check, Description, Error, Input, Session, SessionStart, Status,
    Turn, TurnComplete,
    protocol::{Failure, format_duration},
};

pub(crate) use self::{answer::estimated, config::JobConfig};
use self::{
    answer::{AnswerReader, EndValues},
    config::Keys,
    input::{InputMode, RunInput},
};
use crate::{
    agent::{attachment::told, deadlines::while_working, describe, launch::Launch, secrets},
    raw_process::{ProcessEvent, RawProcess, diagnose, no_command},
};

/// Time between SIGTERM and SIGKILL: less than the grace of a handler after a stop.
const TERM: Duration = Duration::from_millis(1500);

/// Runs a program for each input.
#[derive(Debug)]
pub(crate) struct GenericJob {
    config: Keys,
}

/// Options of a session for its runs.
#[derive(Debug, Default)]
pub(crate) struct JobOptions {
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    _secrets: Arc<HeldSecrets>,
}

impl JobOptions {
    /// # Errors
    /// When they hold more secrets than can be hidden.
    pub(crate) fn from_start(options: SessionStart) -> Result<Self, Error> {
        let _secrets = secrets::hold(&options)?;
        let cwd = options.cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        Ok(Self {
            cwd,
            env: options.env.unwrap_or_default(),
            _secrets,
        })
    }

    /// A program in the session's directory, else the configured one, with the session's variables
    /// over its own.
    pub(crate) fn launch(
        &self,
        command: &str,
        args: &[String],
        work_dir: &str,
        env: &BTreeMap<String, String>,
    ) -> Launch {
        let configured = (!work_dir.is_empty()).then(|| PathBuf::from(work_dir));
        Launch::new(command)
            .args(args)
            .envs(env)
            .envs(&self.env)
            .cwd(self.cwd.clone().or(configured))
    }
}

impl GenericJob {
    pub(crate) fn new(JobConfig(config): JobConfig) -> Self {
        Self { config }
    }
}

impl Adapter for GenericJob {
    type State = JobOptions;

    async fn start(&self, _: &Session, options: SessionStart) -> Result<JobOptions, Error> {
        JobOptions::from_start(options)
    }

    async fn turn(&self, turn: Turn, input: Input, options: &mut JobOptions) -> Result<(), Error> {
        let Keys {
            command,
            args,
            work_dir,
            env,
            max_runtime,
            ..
        } = &self.config;
        if command.is_empty() {
            return Err(no_command());
        }
        let content = told(input.content, input.files).await;
        let input_bytes = content.len() as u64;
        let RunInput { args, stdin, file } = self.config.input.give(args, content)?;
        let mut process =
            RawProcess::start(&options.launch(command, &args, work_dir, env), command).await?;
        let mut output = ShownOutput {
            reader: AnswerReader::new(&self.config.answer, process.name()),
            shown: 0,
        };
        let expired = async {
            match max_runtime.0 {
                Some(longest) => sleep(longest).await,
                None => std::future::pending().await,
            }
        };
        let ran = tokio::select! {
            biased;
            () = turn.stopped() => Err(Error::stopped()),
            () = expired => {
                let longest = format_duration(max_runtime.0.unwrap_or_default());
                let text = format!("{} has run for {longest} (`max_runtime`) and was ended", process.name());
                Err(Error::new(Category::Timeout, text))
            }
            exit = run(&turn, &mut process, stdin, &mut output) => Ok(exit),
        };
        let ran = match ran {
            Ok(exit) => {
                let end = end_of(exit, process.name(), &process.last_words());
                process.finish().await;
                Ok(end)
            }
            Err(error) => {
                process.end(TERM).await;
                Err(error)
            }
        };
        // Removed before the turn's end reports that the run is over.
        drop(file);
        let (output_bytes, ending) = output.finish(&turn).await;
        let estimate = || {
            self.config
                .estimate_usage
                .then(|| estimated(input_bytes, output_bytes))
        };
        // A turn that is cut short has an end of its own, so that what was read goes before it.
        let mut end = ending.over(ran.as_ref().cloned().unwrap_or_default());
        end.usage = end.usage.or_else(estimate);
        match ran {
            Ok(_) => turn.finish(end),
            Err(error) => {
                if let Some(usage) = end.usage {
                    turn.usage(usage).await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn describe(&self) -> Description {
        description()
    }

    async fn diagnose(&self) -> Vec<Check> {
        let mut checks = diagnose(&self.config.command, &self.config.work_dir);
        let holds_input = self
            .config
            .args
            .iter()
            .any(|arg| arg.contains("{{input}}") || arg.contains("{{input_file}}"));
        if self.config.input == InputMode::Stdin && holds_input {
            let text =
                "an argument holds `{{input}}`, which stays as it is: the input goes to stdin";
            checks.push(Check::warn("input", text).hint("set `input` to `argument` or `file`"));
        }
        checks
    }
}

/// Description of the profile.
pub(crate) fn description() -> Description {
    describe::plain("generic-job", "run-to-completion", true)
        .use_when(
            "a program reads its whole input, does its work and ends: scripts, batch jobs, filters",
            "a conversation must be remembered from one input to the next: each run knows only its own",
        )
        .honours(["cwd", "env"])
}

/// Output of a run that is shown.
#[derive(Debug)]
struct ShownOutput<'a> {
    reader: AnswerReader<'a>,
    /// Bytes of stdout that were shown.
    shown: u64,
}

impl ShownOutput<'_> {
    async fn take(&mut self, turn: &Turn, channel: Channel, mut text: String) {
        if channel == Channel::Stdout {
            text = self.reader.push(text);
            self.shown += text.len() as u64;
        }
        if !text.is_empty() {
            turn.output_on(channel, text).await;
        }
    }

    /// Shows the rest. Returns the bytes of stdout that were shown in all, and the values that were read.
    async fn finish(self, turn: &Turn) -> (u64, EndValues) {
        let Self { reader, shown } = self;
        let (rest, mut ending) = reader.finish();
        let all = shown + rest.len() as u64;
        if !rest.is_empty() {
            turn.output_on(Channel::Stdout, rest).await;
        }
        for (key, why) in std::mem::take(&mut ending.left_out) {
            turn.error(
                Category::Other,
                format!("`answer` leaves out `{key}`: {why}"),
            )
            .await;
        }
        (all, ending)
    }
}

/// Gives a program its input and passes on its output until it ends.
async fn run(
    turn: &Turn,
    process: &mut RawProcess,
    input: String,
    output: &mut ShownOutput<'_>,
) -> Exit {
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
                ProcessEvent::Text(channel, text) => output.take(turn, channel, text).await,
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
        (
            Status::Failed,
            Some(Failure::new(Category::ProcessExit, text)),
        )
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
    fn an_end_says_how_the_program_ended() {
        let of = |code, signal| end_of(Exit { code, signal }, "job", ": boom");
        assert_eq!(
            (of(Some(0), None).status, of(Some(0), None).error),
            (Some(Status::Completed), None)
        );
        let failed = of(Some(3), None);
        assert_eq!(
            failed.error.unwrap().message.as_deref(),
            Some("job ended: exit status 3: boom")
        );
        let killed = of(None, Some(9));
        assert_eq!(
            (killed.status, killed.signal),
            (Some(Status::Failed), Some(9))
        );
    }
}
