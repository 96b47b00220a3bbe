//! `trunkline run`: runs one turn.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{Map, Value};
use trunkline_host::{
    AgentHealth, Cause, SessionEnd, TurnEnd,
    config::{AgentConfig, Profile, StopSteps},
    protocol::{Category, ClosedReason, Json, SessionStart, Status},
    redact,
};

use crate::{
    advice, completion,
    conversation::{self, ConversationView, TurnOutcome},
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal,
    jsonl::EventWriter,
    listing,
    matching_daemon::{self, DaemonChoice},
    open_session::{DetachMode, JournalAccess, OpenSession},
    overrides::{AgentOverrides, omit_unapplied},
    screen::{OutputDetail, SessionScreen},
    session_backend::AttachMode,
    target::{AgentTarget, command_line},
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
  trunkline run --continue 'And main.rs?'         the newest session of this folder
  trunkline run --session run-1f3a 'And why?'     any session, by the start of its id
  trunkline run --output-schema todo.json 'Which TODOs are left?' | jq .items
  trunkline run --adapter 'python3 my_adapter.py' --json 'hello' | jq .type

The answer goes to stdout; thinking, tools, plans and usage go to stderr. \
Ctrl-C stops the turn, a second Ctrl-C ends the program. Permission requests and \
questions appear on the terminal; without a terminal they are denied, with a \
notice on stderr.

If a daemon runs with the same configuration (`trunkline up`), it runs the session; \
a note has the reason if it does not. With --adapter, --no-daemon, --journal, or an \
agent option other than --cwd, this process runs the session.

A session of the daemon or of --journal is stored: its agent is released at the end, \
and --continue, --session and `trunkline chat --resume` continue it. Options of the \
agent then need a journal that no other process serves.

--json prints one object per line: `type`, and the members of the protocol's \
message. The last line has the type `end` and always `cause`, `status`, \
`delivered`, `exit`, `usage` and `session_id`, which is null if nothing is stored.

If the reader of the answer closes its pipe, as `head` does, the turn is stopped.

Exit codes: 0 the turn completed, 1 it did not complete, 2 the command line or the \
configuration is wrong, 3 the adapter could not be started, 130 Ctrl-C, 141 the reader \
of the answer closed its pipe.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    target: AgentTarget,

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

    /// JSON Schema of the answer: stdout gets one line of JSON that matches it
    ///
    /// The agent's text goes to stderr. An agent that cannot answer in this form is refused.
    #[arg(long, value_name = "FILE")]
    output_schema: Option<PathBuf>,

    /// Continues the last active session that works in this folder, or in --cwd
    ///
    /// With --agent, only sessions of that agent count. The journal is --journal, the one of the
    /// configuration, or the daemon's.
    #[arg(long = "continue", conflicts_with = "session")]
    continues: bool,

    /// Continues a session of the journal, by its id or the start of its id
    #[arg(long, value_name = "ID", add = completion::sessions())]
    session: Option<String>,

    /// Stores the session in the journal of this folder
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Prompt; read from stdin if it is `-`, or if it is missing and stdin is piped
    prompt: Option<String>,

    // Last, because its heading applies to all options that follow.
    #[command(flatten)]
    overrides: AgentOverrides,
}

impl RunArgs {
    pub(super) async fn run(mut self, config: Option<&Path>) -> CommandResult {
        conversation::make_folder(self.save.as_deref())?;
        let mut interrupts = InterruptSignals::watch()?;
        let prompt = read_prompt(self.prompt.take())?;
        let mut screen = SessionScreen::new(OutputDetail::Calm);
        if let Some(file) = &self.output_schema {
            self.overrides.output_schema = Some(read_schema(file)?);
            screen = screen.with_data();
        }
        let mut conversation = ConversationView::new(screen);
        conversation.lines = self.json.then(EventWriter::to_stdout);
        conversation.save = self.save.take();
        let turn = SingleTurn {
            prompt,
            files: std::mem::take(&mut self.file),
            conversation,
            again: Some(self.resume_command()),
        };
        let is_ad_hoc = self.target.adapter.is_some();
        let open = tokio::select! {
            open = self.open(config) => open?,
            interrupt = interrupts.next() => return Ok(interrupt.exit_code()),
        };
        turn.run(open, is_ad_hoc, config, &mut interrupts).await
    }

    /// Returns the command that continues the session, without its id.
    fn resume_command(&self) -> String {
        let mut words = vec!["trunkline".to_owned(), "run".to_owned()];
        if let Some(folder) = &self.journal {
            words.extend(["--journal".to_owned(), folder.display().to_string()]);
        }
        words.push("--session".to_owned());
        shell_words::join(words)
    }

    async fn open(self, config: Option<&Path>) -> Result<OpenSession, CliError> {
        let is_new = !self.continues && self.session.is_none();
        let folder = match self.journal {
            given if !is_new => {
                journal::folder_to_continue(given.as_deref(), config, &self.target, self.daemon)?
            }
            Some(folder) => folder,
            None => {
                let opened = matching_daemon::open(
                    "run",
                    self.daemon,
                    &self.target,
                    &self.overrides,
                    config,
                );
                if let Some(open) = opened.await {
                    return Ok(open);
                }
                let (chosen, start) = self.target.host_for(config, &self.overrides)?;
                return OpenSession::without_journal(chosen, start, "run").await;
            }
        };
        let mut access = JournalAccess::new(folder, self.target, Some(self.overrides));
        if is_new {
            return access.open("run", None, config).await;
        }
        let id = match self.session {
            Some(id) => listing::complete_id(&access.folder, id).await?,
            None => access.find_newest(config).await?,
        };
        access.attach(&id, AttachMode::OwnTurns, config).await
    }
}

/// Reads a JSON Schema for the answer.
fn read_schema(file: &Path) -> Result<Json, CliError> {
    let text = fs::read_to_string(file).map_err(anyhow::Error::from);
    let schema = text.and_then(|text| Ok(serde_json::from_str::<Map<String, Value>>(&text)?));
    let schema = schema.and_then(|schema| Ok(Json::from_serialize(&schema)?));
    schema.map_err(|error| {
        let context = format!("failed to read the JSON Schema {}", file.display());
        CliError::usage(error.context(context)).next("name a file that contains a JSON object")
    })
}

/// Returns the next step for an agent that did not start. `doctor` cannot check an adapter of the
/// command line by a name, because no configuration has it.
fn next_for_start(
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
        let is_in_folder = program.is_relative() && program.components().count() > 1;
        return (is_in_folder && !folder.as_os_str().is_empty()).then(|| {
            let folder = folder.display();
            format!("next: use an absolute path for the program: --cwd runs it in {folder}")
        });
    }
    if is_ad_hoc {
        return Some(format!("next: run `{line}` by hand to see its output"));
    }
    let file = config.map(Path::to_string_lossy);
    let options = file.iter().flat_map(|file| ["--config", file]);
    let check = ["doctor", &agent.id, "--start"];
    let command = shell_words::join(["trunkline"].into_iter().chain(options).chain(check));
    Some(format!(
        "next: `{}` shows the problem",
        redact::text(&command)
    ))
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

/// A command of one turn: its input, and the display of its events.
pub(super) struct SingleTurn {
    pub(super) prompt: String,
    pub(super) files: Vec<PathBuf>,
    pub(super) conversation: ConversationView,
    /// Command that continues the session, without its id, if the session is released at the end.
    pub(super) again: Option<String>,
}

impl SingleTurn {
    /// Runs the turn, and parts from the session.
    pub(super) async fn run(
        mut self,
        mut open: OpenSession,
        is_ad_hoc: bool,
        config: Option<&Path>,
        interrupts: &mut InterruptSignals,
    ) -> CommandResult {
        let is_stored = open.session.is_kept();
        let id = open.session.id().to_string();
        self.conversation.takes_allow = open.takes_allow;
        if let Some(lines) = &mut self.conversation.lines {
            lines.session_id = is_stored.then(|| id.clone());
        }
        let done = self
            .run_turn(&mut open, is_ad_hoc, config, interrupts)
            .await;
        let Self {
            mut conversation,
            again,
            ..
        } = self;
        conversation.screen.pause();
        let steps = done.as_ref().ok().and_then(|(_, steps)| *steps);
        let mode = match &again {
            Some(_) if is_stored && open.is_new && !open.session.has_turns() => DetachMode::Close,
            Some(_) if is_stored => DetachMode::Release,
            _ => DetachMode::Leave,
        };
        if let (DetachMode::Release, Some(again), Ok(_)) = (mode, again, &done)
            && conversation.lines.is_none()
            && !open.session.is_closed()
        {
            let note = format!("the session is stored; `{again} {id} TEXT` continues it");
            conversation.screen.remark_on_terminal(&note);
        }
        let done = done.map(|(code, _)| match code {
            exit::OK if conversation.lost_files => exit::FAILED,
            code => code,
        });
        open.end(mode, steps, done, interrupts).await
    }

    /// Returns the exit code, and other times for the end of the adapters.
    async fn run_turn(
        &mut self,
        open: &mut OpenSession,
        is_ad_hoc: bool,
        config: Option<&Path>,
        interrupts: &mut InterruptSignals,
    ) -> Result<(u8, Option<StopSteps>), CliError> {
        let conversation = &mut self.conversation;
        for file in &self.files {
            let delivered = open.session.deliver_file(&own_path(file)).await;
            delivered.map_err(|error| {
                let agent = open.agent.as_ref();
                let next = agent.and_then(|agent| after_refused_file(agent, file));
                CliError::usage(error.context(format!("failed to attach {}", file.display()))).next(
                    next.as_deref()
                        .unwrap_or("name a readable file, relative to the current folder"),
                )
            })?;
        }
        let no = match open.session.send(&self.prompt).await {
            Ok(no) => no,
            // The end of a refused session has the reason.
            Err(error) => {
                return match conversation.catch_up(&mut open.session).await? {
                    Some(end) => Ok((code_of_session(&end), None)),
                    None => Err(error.context("failed to send the prompt").into()),
                };
            }
        };
        let outcome = match conversation.turn(&mut open.session, no, interrupts).await {
            // Nothing reads the rest of the answer, so the turn ends as by Ctrl-C.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                open.session.stop_turn(no);
                return Ok((exit::BROKEN_PIPE, None));
            }
            outcome => outcome?,
        };
        open.session.check_host()?;
        Ok(match outcome {
            TurnOutcome::Ended(end) | TurnOutcome::Closed(Some(end), _) => {
                let mut code = code_of(&end, || open.session.is_silent(open.own_host()));
                if code == exit::OK
                    && conversation.lines.is_none()
                    && !conversation.screen.write_result(&end)?
                {
                    code = exit::FAILED;
                }
                let next = open.agent.as_ref().and_then(|agent| {
                    let is_not_started = code == exit::NOT_STARTED;
                    let unstarted = || next_for_start(agent, &end, is_ad_hoc, config);
                    next_after(&end, agent, &open.start)
                        .or_else(|| is_not_started.then(unstarted).flatten())
                });
                let strays = match open.own_host().filter(|_| code == exit::FAILED) {
                    Some(host) => strays_of(&host.health().await),
                    None => None,
                };
                next.iter()
                    .chain(&strays)
                    .for_each(|next| conversation.screen.remark(next));
                (code, None)
            }
            TurnOutcome::Closed(None, end) => (code_of_session(&end), None),
            TurnOutcome::Leave(interrupt) => (interrupt.exit_code(), Some(FAST_STOP)),
        })
    }
}

/// Returns the known next step for a failed turn.
pub(super) fn next_after(
    end: &TurnEnd,
    agent: &AgentConfig,
    start: &SessionStart,
) -> Option<String> {
    let failure = end.error.as_ref()?;
    if end.cause == Cause::Refused {
        let asked: Vec<_> = start.options().collect();
        return omit_unapplied(&asked, failure.message.as_deref().unwrap_or_default());
    }
    advice::next(agent, failure).map(|next| format!("next: {next}"))
}

/// Returns the next step if agents sent messages that are of no session.
fn strays_of(agents: &[AgentHealth]) -> Option<String> {
    let strays = agents.iter().map(|agent| agent.counters.unknown_session);
    let strays: u64 = strays.sum();
    (strays > 0).then(|| {
        format!(
            "next: correct the `session_id` of its messages: {strays} named no open session; \
             --wire-log FILE shows them"
        )
    })
}

/// Returns the exit code for the end of a turn.
fn code_of(end: &TurnEnd, is_silent: impl Fn() -> bool) -> u8 {
    // For the user, an adapter that ended without any output did not start.
    let category = end.error.as_ref().and_then(|error| error.category);
    let not_installed = category == Some(Category::NotInstalled);
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
fn read_prompt(given: Option<String>) -> Result<String, CliError> {
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
    let read = io::stdin().take(MAX_PROMPT + 1).read_to_string(&mut text);
    read.context("failed to read the prompt from stdin")
        .map_err(CliError::usage)?;
    let (problem, next) = if text.is_empty() {
        (
            "the prompt is missing: stdin is empty".to_owned(),
            "add one: trunkline run 'hello'",
        )
    } else if text.len() as u64 > MAX_PROMPT {
        (
            format!("the prompt on stdin is larger than {MAX_PROMPT} bytes"),
            "attach large contents as a file: --file PATH",
        )
    } else {
        // The final line feed is the shell's.
        return Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text));
    };
    Err(CliError::usage(anyhow!(problem)).next(next))
}
