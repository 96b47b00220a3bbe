//! `generic-cli`: an interactive program, spoken to as a person would.

mod config;
mod ending;
pub(crate) mod pty;
mod slot;

use std::{
    ffi::{OsStr, OsString},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::AsyncWriteExt,
    sync::{Mutex, OwnedMutexGuard},
};
use trunkline_process::Signal;
use trunkline_sdk::{
    Adapter, Category, Channel, Check, Description, Error, Input, Session, SessionInfo,
    SessionStart, Status, Turn, TurnComplete,
    protocol::{Context, Failure},
};

pub(crate) use self::config::CliConfig;
use self::{
    config::SpawnPolicy,
    ending::{AnswerEnd, AnswerTracker, Endings, ShownPiece},
    pty::OwnCommand,
    slot::{RunningProgram, Slot},
};
use crate::{
    agent::{
        attachment::told,
        deadlines::{limit_reached, until_stopped, while_working},
        describe,
        launch::Launch,
    },
    generic_job::{JobOptions, end_of, estimated},
    raw_process::{ProcessEvent, RawProcess, diagnose, find, no_command, not_installed},
};

/// Time between SIGTERM and SIGKILL.
const TERM: Duration = Duration::from_millis(300);

/// Time to read an interrupted program: less than a handler has after a stop.
const INTERRUPTED: Duration = Duration::from_millis(1500);

/// and how long it must be quiet to count as waiting for the next input.
const SETTLED: Duration = Duration::from_millis(400);

/// Time for a program that has closed its stdin to end: its exit is more informative than the
/// refused input.
const DEAF: Duration = Duration::from_secs(1);

/// Speaks with an interactive program.
#[derive(Debug)]
pub(crate) struct GenericCli {
    config: CliConfig,
    endings: Endings,
    own: OwnCommand,
    /// The one process of all sessions, if there is only one.
    shared: Arc<Mutex<Slot>>,
}

/// A session: its process, or the one that it shares.
#[derive(Debug, Default)]
pub(crate) struct CliConversation {
    options: JobOptions,
    slot: Arc<Mutex<Slot>>,
    /// Number of the process that it last used, from 1.
    spoke_with: u64,
}

impl GenericCli {
    pub(crate) fn new(config: CliConfig, own: OwnCommand) -> Self {
        let endings = config.endings();
        Self {
            config,
            endings,
            own,
            shared: Arc::default(),
        }
    }

    fn launch(&self, options: &JobOptions) -> Result<Launch, Error> {
        let CliConfig {
            command,
            args,
            work_dir,
            env,
            ..
        } = &self.config;
        if command.is_empty() {
            return Err(no_command());
        }
        // What one session asks for is not what the others' process gets.
        let launch = match self.config.spawn_policy {
            SpawnPolicy::PerSession => options.launch(command, args, work_dir, env),
            SpawnPolicy::Persistent => JobOptions::default().launch(command, args, work_dir, env),
        };
        if !self.config.pty {
            return Ok(launch);
        }
        let path = launch.env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let Some(program) = find(command, path, launch.cwd.as_deref()) else {
            return Err(not_installed(command));
        };
        let launch = Launch {
            program: program.into(),
            ..launch
        };
        Ok(self
            .own
            .on_terminal(launch, self.config.columns, self.config.rows)?)
    }

    /// The process to speak with, started if there is none. A session whose process is not the one
    /// that it knew gets a message.
    async fn running<'a>(
        &self,
        turn: &Turn,
        slot: &'a mut Slot,
        options: &JobOptions,
        spoke_with: &mut u64,
    ) -> Result<&'a mut RunningProgram, Error> {
        slot.wake().await;
        if slot.running.is_none() {
            let mut process =
                RawProcess::start(&self.launch(options)?, &self.config.command).await?;
            // Given up before its first prompt, it ends: its greeting would be taken for an answer.
            self.greet(turn, &mut process).await?;
            slot.start(process);
        }
        let number = slot.number;
        if *spoke_with != number && *spoke_with != 0 {
            turn.session().info(SessionInfo {
                context: Some(Context::Lost),
                ..SessionInfo::default()
            });
        }
        *spoke_with = number;
        slot.running
            .as_mut()
            .ok_or_else(|| Error::other("the program has ended"))
    }

    /// Waits for the first prompt of a program with prompts. Its output until then belongs to no
    /// turn.
    async fn greet(&self, turn: &Turn, process: &mut RawProcess) -> Result<(), Error> {
        let Endings {
            prompt: prompt @ Some(_),
            ..
        } = &self.endings
        else {
            return Ok(());
        };
        let first = Endings {
            prompt: prompt.clone(),
            first_output: None,
            ..Endings::default()
        };
        let deadline = self
            .config
            .start_timeout
            .0
            .map(|wait| Instant::now() + wait);
        let mut greeting = AnswerTracker::new(&first, Instant::now());
        loop {
            let due = [greeting.due().map(|(at, _)| at), deadline]
                .into_iter()
                .flatten()
                .min();
            let until = tokio::time::Instant::from_std(due.unwrap_or_else(Instant::now));
            tokio::select! {
                biased;
                heard = process.next() => match heard {
                    ProcessEvent::Text(channel, text) => {
                        let piece = greeting.hear(&channel, text, Instant::now());
                        turn.session().output_on(channel, piece.shown).await;
                    }
                    // The turn finds out.
                    ProcessEvent::Ended(_) => return Ok(()),
                },
                () = tokio::time::sleep_until(until), if due.is_some() => {
                    if greeting.due().is_some_and(|(at, _)| at <= Instant::now()) {
                        return Ok(());
                    }
                    let wait = self.config.start_timeout.0.unwrap_or_default();
                    let what = format!("{} has shown no prompt", process.name());
                    return Err(limit_reached("start_timeout", wait, &what));
                }
            }
        }
    }

    /// Sends one input and reads its answer.
    async fn converse(
        &self,
        turn: &Turn,
        slot: &mut Slot,
        input: &str,
    ) -> Result<TurnComplete, Error> {
        let Some(RunningProgram {
            process,
            stdin,
            cut,
        }) = slot.running.as_mut()
        else {
            return Err(Error::other("the program has ended"));
        };
        let mut line = self.config.line(input);
        if std::mem::replace(cut, true) {
            // What is left of an input that was not written to its end is not part of this one.
            line.insert(0, b'\n');
        }
        let mut write = std::pin::pin!(async {
            let Some(stdin) = stdin else { return Ok(()) };
            stdin.write_all(&line).await?;
            stdin.flush().await
        });
        let mut writing = true;
        let mut deaf: Option<Instant> = None;
        let mut stopping: Option<Instant> = None;
        let mut answer = AnswerTracker::new(&self.endings, Instant::now());
        let mut output_bytes = 0;
        let mut end = loop {
            let due = if writing { None } else { answer.due() };
            let due = match stopping {
                None => deaf.map(|until| (until, AnswerEnd::Quiet)).or(due),
                Some(until) => {
                    let quiet = answer.quiet_since() + SETTLED;
                    [due, Some((quiet.min(until), AnswerEnd::Quiet))]
                        .into_iter()
                        .flatten()
                        .min_by_key(|(at, _)| *at)
                }
            };
            let at = due.map_or_else(Instant::now, |(at, _)| at);
            tokio::select! {
                biased;
                () = turn.stopped(), if stopping.is_none() => {
                    process.signal(Signal::Interrupt);
                    stopping = Some(Instant::now() + INTERRUPTED);
                    answer.asked(Instant::now());
                }
                heard = while_working(turn, process.next()) => match heard {
                    ProcessEvent::Text(channel, text) => {
                        let ShownPiece { shown, rest } = answer.hear(&channel, text, Instant::now());
                        if channel == Channel::Stdout {
                            output_bytes += shown.len() as u64;
                        }
                        if !shown.is_empty() {
                            turn.output_on(channel, shown).await;
                        }
                        if let Some(rest) = rest {
                            if !rest.is_empty() {
                                turn.session().output(rest).await;
                            }
                            break completed(AnswerEnd::Sentinel);
                        }
                    }
                    ProcessEvent::Ended(exit) => {
                        output_bytes += show(turn, answer.held()).await;
                        let end = end_of(exit, process.name(), &process.last_words());
                        break TurnComplete { stop_reason: Some("exit".to_owned()), ..end };
                    }
                },
                written = &mut write, if writing => {
                    writing = false;
                    answer.asked(Instant::now());
                    let written: std::io::Result<()> = written;
                    deaf = written.is_err().then(|| Instant::now() + DEAF);
                }
                () = tokio::time::sleep_until(at.into()), if due.is_some() => {
                    output_bytes += show(turn, answer.held()).await;
                    if deaf.is_some() {
                        let text = format!("{} takes no further input and was ended", process.name());
                        break TurnComplete {
                            status: Some(Status::Failed),
                            error: Some(Failure::new(Category::Other, text)),
                            ..TurnComplete::default()
                        };
                    }
                    break completed(due.map_or(AnswerEnd::Quiet, |(_, cause)| cause));
                }
            }
        };
        *cut = writing;
        if self.config.estimate_usage {
            let usage = estimated(input.len() as u64, output_bytes);
            if stopping.is_some() {
                turn.usage(usage).await;
            } else {
                end.usage = Some(usage);
            }
        }
        if end.stop_reason.as_deref() == Some("exit") {
            slot.gone().await;
        } else if deaf.is_some() {
            slot.end(TERM).await;
        }
        if stopping.is_some() {
            Err(Error::stopped())
        } else {
            Ok(end)
        }
    }
}

/// Shows what was held back of the output, and returns its bytes.
async fn show(turn: &Turn, held: String) -> u64 {
    let bytes = held.len() as u64;
    if bytes > 0 {
        turn.output_on(Channel::Stdout, held).await;
    }
    bytes
}

fn completed(cause: AnswerEnd) -> TurnComplete {
    TurnComplete {
        status: Some(Status::Completed),
        stop_reason: Some(cause.as_str().to_owned()),
        ..TurnComplete::default()
    }
}

impl Adapter for GenericCli {
    type State = CliConversation;

    async fn start(
        &self,
        session: &Session,
        options: SessionStart,
    ) -> Result<CliConversation, Error> {
        if options.resume.is_some() {
            session.info(SessionInfo {
                context: Some(Context::Lost),
                ..SessionInfo::default()
            });
        }
        let slot = match self.config.spawn_policy {
            SpawnPolicy::PerSession => Arc::default(),
            SpawnPolicy::Persistent => Arc::clone(&self.shared),
        };
        Ok(CliConversation {
            options: JobOptions::from_start(options)?,
            slot,
            spoke_with: 0,
        })
    }

    async fn turn(
        &self,
        turn: Turn,
        input: Input,
        state: &mut CliConversation,
    ) -> Result<(), Error> {
        let CliConversation {
            options,
            slot,
            spoke_with,
        } = state;
        let mut slot = mine(&turn, slot).await?;
        let running = self.running(&turn, &mut slot, options, spoke_with);
        until_stopped(&turn, running).await?;
        let content = told(input.content, input.files).await;
        let end = self.converse(&turn, &mut slot, &content).await;
        slot.rest(turn.session().clone());
        turn.finish(end?);
        Ok(())
    }

    async fn close(&self, _: &Session, state: CliConversation) {
        if self.config.spawn_policy == SpawnPolicy::PerSession {
            state.slot.lock().await.end(TERM).await;
        }
    }

    fn greet(&self, options: &SessionStart) -> SessionInfo {
        let mut applied = Vec::new();
        if self.config.spawn_policy == SpawnPolicy::PerSession {
            applied.extend(options.cwd.is_some().then(|| "cwd".to_owned()));
            applied.extend(options.env.is_some().then(|| "env".to_owned()));
        }
        SessionInfo {
            options_applied: Some(applied),
            ..SessionInfo::default()
        }
    }

    fn describe(&self) -> Description {
        description(self.endings.prompt.is_some() || self.endings.sentinel.is_some())
    }

    async fn diagnose(&self) -> Vec<Check> {
        let mut checks = diagnose(&self.config.command, &self.config.work_dir);
        if !self.config.sentinel_command.is_empty() && self.config.sentinel.is_empty() {
            checks.push(
                Check::warn(
                    "sentinel",
                    "`sentinel_command` is sent after each input, and nothing ends a turn",
                )
                .hint("set `sentinel` to the line that it prints"),
            );
        }
        checks
    }
}

/// Returns the description of the profile; the configuration decides whether it can detect the end
/// of a turn.
pub(crate) fn description(tells_ends: bool) -> Description {
    describe::plain("generic-cli", "interactive", tells_ends)
        .use_when(
            "a program is spoken with line by line: a REPL, a shell, a chat on a terminal; best with a prompt or a sentinel that ends its answers",
            "the program draws a screen, or ends after each input: then generic-job",
        )
        .honours(["cwd", "env"])
}

/// Waits until no other session speaks with the process.
async fn mine(turn: &Turn, slot: &Arc<Mutex<Slot>>) -> Result<OwnedMutexGuard<Slot>, Error> {
    let lock = while_working(turn, Arc::clone(slot).lock_owned());
    until_stopped(turn, async { Ok(lock.await) }).await
}
