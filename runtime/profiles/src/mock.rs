//! `mock`: an adapter that follows a script.

mod script;

use std::{collections::VecDeque, path::Path, time::Duration};

use serde_json::Value;
use tokio::time::sleep;
use trunkline_sdk::{
    Adapter, Category, Channel, Description, Error, Input, Json, Permission, Session, SessionStart,
    Status, ToolCallId, ToolOutcome, Turn, TurnComplete, file_type_of,
    protocol::{self, Failure, UsageScope},
};

pub(crate) use self::script::{MockConfig, Progress};
use self::script::{MockEvent, MockStep, Next, ScriptedTurn, Usage, fill, is_plain};
use crate::play::{play, rest};

/// Interval between signs of life during quiet work.
const WORKING: Duration = Duration::from_secs(5);

/// Time for output to reach the pipe before the process ends.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// Follows a script, for tests of hosts and of programs built on them.
#[derive(Debug)]
pub(crate) struct Mock {
    config: MockConfig,
}

impl Mock {
    pub(crate) fn new(config: MockConfig) -> Self {
        Self { config }
    }

    /// A turn that no script covers.
    async fn uncovered(&self, turn: &Turn, input: &str) -> Result<TurnComplete, Error> {
        let config = &self.config;
        rest(turn, config.delay.0.unwrap_or_default(), WORKING).await?;
        let answer = match &config.stdout {
            None => input.to_owned(),
            Some(Value::String(text)) => fill(text, input, ""),
            Some(json) => json.to_string(),
        };
        turn.output(answer).await;
        let mut end = exit(config.exit_code.unwrap_or(0));
        end.exit_code = config.exit_code;
        if let Some(total) = config.tokens {
            end.usage = Some(protocol::Usage {
                total_tokens: Some(total),
                scope: Some(UsageScope::Turn),
                ..protocol::Usage::default()
            });
        }
        if !config.failure.is_empty() {
            end.status = Some(Status::Failed);
            end.error = Some(Failure::new(Category::Other, config.failure.clone()));
        }
        Ok(end)
    }
}

impl Adapter for Mock {
    type State = Progress;

    async fn start(&self, _: &Session, _: SessionStart) -> Result<Progress, Error> {
        Ok(Progress::default())
    }

    async fn turn(&self, turn: Turn, input: Input, progress: &mut Progress) -> Result<(), Error> {
        let end = match self.config.next(progress, &input.content) {
            Next::Turn(script) => perform(&turn, script, &input.content).await?,
            Next::Uncovered => self.uncovered(&turn, &input.content).await?,
            Next::Over => {
                return Err(Error::other(
                    "the script is over: all of its turns were played",
                ));
            }
        };
        turn.finish(end);
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("mock", env!("CARGO_PKG_VERSION")).use_when(
            "a host, or what is built on one, is tested: outputs, delays, tools, permissions and failures by a script",
            "an answer is wanted",
        )
    }
}

/// Does the steps of a turn, until one ends it.
async fn perform(turn: &Turn, script: &ScriptedTurn, input: &str) -> Result<TurnComplete, Error> {
    let text = |text: &str| fill(text, input, &script.when);
    let mut steps: VecDeque<&MockStep> = script.steps.iter().collect();
    let mut calls = 0;
    while let Some(step) = steps.pop_front() {
        if turn.is_stopped() {
            return Err(Error::stopped());
        }
        match step {
            MockStep::Output(said) => turn.output(text(said)).await,
            MockStep::Stderr(said) => turn.output_on(Channel::Stderr, text(said)).await,
            MockStep::On { channel, content } => {
                turn.output_on(Channel::named(channel), text(content)).await
            }
            MockStep::Thinking(thought) => turn.thinking(text(thought)).await,
            MockStep::Delay(wait) => rest(turn, wait.0.unwrap_or_default(), WORKING).await?,
            MockStep::UntilStop => rest(turn, Duration::MAX, WORKING).await?,
            MockStep::Tool {
                tool,
                input,
                content,
                is_error,
                delay,
            } => {
                calls += 1;
                let call = ToolCallId::new(format!("call-{calls}"))?;
                let input = input
                    .as_ref()
                    .and_then(|input| Json::from_serialize(input).ok());
                turn.tool_start(&call, text(tool), input).await;
                rest(turn, delay.0.unwrap_or_default(), WORKING).await?;
                let outcome = if *is_error {
                    ToolOutcome::Failed
                } else {
                    ToolOutcome::Succeeded
                };
                turn.tool_end(&call, text(content), outcome).await;
            }
            MockStep::Permission {
                tool,
                description,
                resource,
                approved,
                denied,
            } => {
                let request = Permission::new(text(tool), text(description), text(resource));
                let decision = turn.ask_permission(request).await;
                let then = if decision.is_approved() {
                    approved
                } else {
                    denied
                };
                then.iter().rev().for_each(|step| steps.push_front(step));
            }
            MockStep::File { name, content } => {
                let name = text(name);
                let mime = file_type_of(&name);
                turn.new_file(name, mime, text(content)).await?;
            }
            MockStep::Touch(path) => touch(Path::new(&text(path))).await?,
            MockStep::Event(MockEvent(message)) | MockStep::Usage(Usage(message)) => {
                if let Some(end) = play(turn, message.clone(), None, None).await {
                    return Ok(end);
                }
            }
            MockStep::Fail {
                category,
                message,
                code,
                retry_at,
            } => {
                let message = if message.is_empty() {
                    "the script fails".to_owned()
                } else {
                    text(message)
                };
                let mut error = Error::new(category.0, message);
                if let Some(code) = code {
                    error = error.code(code);
                }
                if let Some(at) = retry_at {
                    error = error.retry_at(at);
                }
                return Err(error);
            }
            MockStep::ExitCode(code) => return Ok(exit(*code)),
            MockStep::Exit(code) => {
                sleep(LAST_WORDS).await;
                std::process::exit(i32::from(*code));
            }
        }
    }
    Ok(TurnComplete {
        status: Some(Status::Completed),
        ..TurnComplete::default()
    })
}

/// The end of a turn that has an exit code.
fn exit(code: i32) -> TurnComplete {
    let error =
        (code != 0).then(|| Failure::new(Category::ProcessExit, format!("exit status {code}")));
    let status = if error.is_some() {
        Status::Failed
    } else {
        Status::Completed
    };
    TurnComplete {
        status: Some(status),
        error,
        exit_code: Some(code),
        ..TurnComplete::default()
    }
}

/// Creates a file that is not there yet, and follows no link to where one is.
async fn touch(path: &Path) -> Result<(), Error> {
    if !is_plain(path) {
        return Err(Error::other(format!(
            "{} is not a plain absolute path",
            path.display()
        )));
    }
    let made = tokio::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .await;
    made.map(drop)
        .map_err(|error| Error::other(format!("cannot create {}: {error}", path.display())))
}
