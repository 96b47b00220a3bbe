//! `trunkline run`: runs one turn.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use trunkline_host::{
    Cause, Host, SessionEnd, TurnEnd,
    config::{AgentConfig, Profile, StopSteps},
    protocol::{Category, ClosedReason, Status},
    redact,
};

use crate::{
    advice,
    conversation::{self, Conversation, Outcome},
    error::{CliError, CommandResult},
    exit,
    interrupt::Interrupts,
    jsonl::EventWriter,
    matching_daemon::{self, DaemonChoice},
    overrides::{Overrides, unapplied},
    screen::{Detail, Screen},
    session_backend::SessionBackend,
    target::{Target, command_line},
};

/// Limit of a prompt on stdin, in bytes.
const MAX_PROMPT: u64 = 8 * 1024 * 1024;

/// Timeouts for the end of the adapters after a second Ctrl-C.
const FAST_STOP: StopSteps = StopSteps {
    close: Duration::from_millis(100),
    eof: Duration::from_millis(400),
    term: Duration::from_millis(500),
};

/// Sends one prompt and prints the answer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline run 'hello'
  trunkline run --agent claude-code 'Explain src/main.rs' > answer.md
  git diff | trunkline run --agent claude-code --file style.md -
  trunkline run --adapter 'python3 my_adapter.py' --json 'hello' | jq .type

The answer goes to stdout; thinking, tools, plans and usage go to stderr. \
Ctrl-C stops the turn, a second Ctrl-C ends the program. Permission requests and \
questions appear on the terminal; without a terminal they are denied, with a \
notice on stderr.

If a daemon runs with the same configuration (`trunkline up`), it runs the session, \
which is closed at the end; -v logs which process runs it, and why. With --adapter, \
--no-daemon, or an agent option other than --cwd, this process runs the session.

--json prints one object per line: `type`, and the members of the protocol's \
message. The last line has the type `end` and always `cause`, `status`, \
`delivered`, `exit` and `usage`.

Exit codes: 0 the turn completed, 1 it did not complete, 2 the command line or the \
configuration is wrong, 3 the adapter could not be started, 130 Ctrl-C.")]
pub(crate) struct Run {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    daemon: DaemonChoice,

    /// Prints every event as one JSON object per line
    #[arg(long)]
    json: bool,

    /// File to send with the prompt; may be repeated
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,

    /// Folder for files that the agent provides; created if missing [default: they are deleted at
    /// the end]
    ///
    /// The exit code is 1 if a file cannot be saved.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Prompt; read from stdin if it is `-`, or if it is missing and stdin is piped
    prompt: Option<String>,

    // Last, because its heading applies to all options that follow.
    #[command(flatten)]
    overrides: Overrides,
}

impl Run {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        conversation::make_folder(self.save.as_deref())?;
        let daemon = matching_daemon::find(self.daemon, &self.target, &self.overrides, config);
        let own = match daemon {
            Some(_) => None,
            None => Some(self.target.host_for(config, &self.overrides)?),
        };
        let is_ad_hoc = self.target.adapter.is_some();
        let prompt = prompt(self.prompt)?;
        let mut interrupts = Interrupts::watch()?;
        let mut conversation = Conversation::new(Screen::new(Detail::Calm));
        conversation.lines = self.json.then(EventWriter::to_stdout);
        conversation.save = self.save;
        let opened = match daemon {
            Some(daemon) => tokio::select! {
                opened = daemon.open("run") => opened,
                interrupt = interrupts.next() => return Ok(interrupt.exit_code()),
            },
            None => None,
        };
        let (agent, start, own, mut session) = match opened {
            Some(opened) => (opened.agent, opened.start, None, opened.session),
            None => {
                let (chosen, start) =
                    own.map_or_else(|| self.target.host_for(config, &self.overrides), Ok)?;
                let (session, _) = chosen.open_session("run", start.clone()).await?;
                (chosen.agent, start, Some(chosen.host), session)
            }
        };
        let asked: Vec<_> = start.options().collect();
        let next = |end: &TurnEnd, is_not_started: bool| {
            let unstarted = || {
                is_not_started
                    .then(|| next(&agent, end, is_ad_hoc, config))
                    .flatten()
            };
            next_after(end, &agent, &asked).or_else(unstarted)
        };
        let turn = SingleTurn {
            host: own.as_ref(),
            agent: &agent,
            files: &self.file,
            prompt,
            next,
        };
        let done = turn
            .run(&mut session, &mut conversation, &mut interrupts)
            .await;
        conversation.screen.pause();
        let hurried = matches!(done, Ok((_, EndPace::Hurried)));
        match own {
            Some(host) => {
                shut_down(&host, hurried.then_some(FAST_STOP), &mut interrupts).await;
                session.leave().await;
            }
            None => session.close().await,
        }
        done.map(|(code, _)| {
            if code == exit::OK && conversation.lost_files {
                exit::FAILED
            } else {
                code
            }
        })
    }
}

/// Returns the next step for an agent that did not start. `doctor` cannot check an adapter of the
/// command line by a name, because no configuration has it.
fn next(
    agent: &AgentConfig,
    end: &TurnEnd,
    is_ad_hoc: bool,
    config: Option<&Path>,
) -> Option<String> {
    let line = command_line(agent);
    if end.exit.as_ref().and_then(|exit| exit.code) == Some(i32::from(exit::USAGE))
        && agent.profile == Profile::External
        && end.stderr_lines().is_empty()
    {
        let correct = if is_ad_hoc {
            "set a key by -c config.KEY=VALUE"
        } else {
            "correct `config` in the agent's entry"
        };
        return Some(format!(
            "next: status 2 means a wrong configuration or argument: {correct}; on the SDK, `{line} --describe` has the keys"
        ));
    }
    if is_ad_hoc && end.cause == Cause::StartFailed && end.exit.is_none() {
        // The error already names the cause.
        let program = Path::new(&agent.command.command);
        let folder = &agent.command.work_dir;
        let counts = program.is_relative()
            && program.components().count() > 1
            && !folder.as_os_str().is_empty();
        return counts.then(|| {
            format!(
                "next: use an absolute path for the program: --cwd runs it in {}",
                folder.display()
            )
        });
    }
    if is_ad_hoc {
        return Some(format!("next: run `{line}` by hand to see its output"));
    }
    let file = config.map(|file| file.to_string_lossy());
    let options = file.iter().flat_map(|file| ["--config", file]);
    let words = ["trunkline"]
        .into_iter()
        .chain(options)
        .chain(["doctor", &agent.id, "--start"]);
    let command = shell_words::join(words);
    Some(format!(
        "next: `{}` shows the problem",
        redact::text(&command)
    ))
}

/// Pace of the program's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndPace {
    Orderly,
    Hurried,
}

/// Resolves links and `..` of a path that the user names, because a host does not follow them.
pub(super) fn own_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the option that raises an agent's limit, if a file exceeds it.
pub(super) fn after_refused_file(agent: &AgentConfig, path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    (size > agent.limits.max_file_bytes).then(|| {
        format!(
            "-c max_file_bytes={}MiB lets the agent have it",
            size.div_ceil(1 << 20)
        )
    })
}

/// The turn of the command.
struct SingleTurn<'a, N> {
    /// Host of the session, if it runs in this process.
    host: Option<&'a Host>,
    agent: &'a AgentConfig,
    files: &'a [PathBuf],
    prompt: String,
    /// Returns the next step after the turn's end.
    next: N,
}

impl<N: FnOnce(&TurnEnd, bool) -> Option<String>> SingleTurn<'_, N> {
    async fn run(
        self,
        session: &mut SessionBackend,
        conversation: &mut Conversation,
        interrupts: &mut Interrupts,
    ) -> Result<(u8, EndPace), CliError> {
        for file in self.files {
            session
                .deliver_file(&own_path(file))
                .await
                .map_err(|error| {
                    let next = after_refused_file(self.agent, file).unwrap_or_else(|| {
                        "name a readable file, relative to the current folder".to_owned()
                    });
                    CliError::usage(error.context(format!("failed to attach {}", file.display())))
                        .next(next)
                })?;
        }
        let no = match session.send(&self.prompt).await {
            Ok(no) => no,
            // The end of a refused session has the reason.
            Err(error) => {
                return match conversation.catch_up(session).await? {
                    Some(end) => Ok((code_of_session(&end), EndPace::Orderly)),
                    None => Err(error.context("failed to send the prompt").into()),
                };
            }
        };
        let outcome = conversation.turn(session, no, interrupts).await?;
        session.check_host()?;
        Ok(match outcome {
            Outcome::Ended(end) | Outcome::Closed(Some(end), _) => {
                let code = code_of(&end, || session.is_silent(self.host));
                if let Some(next) = (self.next)(&end, code == exit::NOT_STARTED) {
                    conversation.screen.remark(&next);
                }
                (code, EndPace::Orderly)
            }
            Outcome::Closed(None, end) => (code_of_session(&end), EndPace::Orderly),
            Outcome::Leave(interrupt) => (interrupt.exit_code(), EndPace::Hurried),
        })
    }
}

/// Returns the known next step for a failed turn.
pub(super) fn next_after(end: &TurnEnd, agent: &AgentConfig, asked: &[&str]) -> Option<String> {
    let failure = end.error.as_ref()?;
    if end.cause == Cause::Refused {
        return unapplied(asked, failure.message.as_deref().unwrap_or_default());
    }
    advice::next(agent, failure).map(|next| format!("next: {next}"))
}

/// Ends the adapters; an interrupt skips the wait.
pub(super) async fn shut_down(host: &Host, steps: Option<StopSteps>, interrupts: &mut Interrupts) {
    tokio::select! {
        () = host.shutdown_within(steps) => {}
        // Remaining processes end with this one.
        _ = interrupts.next() => {}
    }
}

/// Returns the exit code for the end of a turn.
pub(super) fn code_of(end: &TurnEnd, is_silent: impl Fn() -> bool) -> u8 {
    // For the user, an adapter that ended without any output did not start.
    let not_installed = end
        .error
        .as_ref()
        .is_some_and(|error| error.category == Some(Category::NotInstalled));
    match (end.status, end.cause) {
        (Status::Completed, _) => exit::OK,
        (Status::Stopped, _) => exit::INTERRUPTED,
        (_, Cause::StartFailed | Cause::StartTimeout) => exit::NOT_STARTED,
        (_, Cause::Refused) => exit::USAGE,
        _ if not_installed => exit::NOT_STARTED,
        (_, Cause::ProcessExit | Cause::EndOfStream) if is_silent() => exit::NOT_STARTED,
        (Status::Failed | Status::Refused | Status::Limit, _) => exit::FAILED,
    }
}

/// Returns the exit code for a session that ended without a turn.
fn code_of_session(end: &SessionEnd) -> u8 {
    match end.reason {
        ClosedReason::Finished => exit::OK,
        ClosedReason::Refused | ClosedReason::UnknownAgent => exit::USAGE,
        _ => exit::FAILED,
    }
}

/// Returns the prompt from the command line or stdin.
fn prompt(given: Option<String>) -> Result<String, CliError> {
    match given.as_deref() {
        Some("-") => {}
        Some(_) => return Ok(given.unwrap_or_default()),
        None if io::stdin().is_terminal() => {
            return Err(CliError::usage(anyhow!("the prompt is missing")).next(
                "add one (trunkline run 'hello'), pipe one to stdin, or start `trunkline chat`",
            ));
        }
        None => {}
    }
    let mut text = String::new();
    io::stdin()
        .take(MAX_PROMPT + 1)
        .read_to_string(&mut text)
        .map_err(|error| {
            CliError::usage(anyhow!(error).context("failed to read the prompt from stdin"))
        })?;
    if text.is_empty() {
        let fault = CliError::usage(anyhow!("the prompt is missing: stdin is empty"));
        return Err(fault.next("add one: trunkline run 'hello'"));
    }
    if text.len() as u64 > MAX_PROMPT {
        let fault = CliError::usage(anyhow!(
            "the prompt on stdin is larger than {MAX_PROMPT} bytes"
        ));
        return Err(fault.next("attach large contents as a file: --file PATH"));
    }
    // The final line feed is the shell's.
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}
