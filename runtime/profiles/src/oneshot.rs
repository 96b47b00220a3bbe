//! Agents that run once a turn: the prompt on stdin, their work on stdout as lines of JSON, their exit as the end.

mod adapter;
pub(crate) mod json;
mod prompt;
#[cfg(test)]
pub(crate) mod reading;

pub(crate) use self::adapter::{OneShot, Runs};

use std::time::Duration;

use serde_json::Value;
use trunkline_process::Signal;
use trunkline_sdk::protocol::{AdapterBody, Context};
use trunkline_sdk::{Category, Error, Input, Json, Session, SessionInfo, Turn, TurnComplete};

use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::lines::Line;
use crate::agent::options::Options;
use crate::agent::patience::Watch;
use crate::agent::process::{Agent, Ended, Stdin};
use crate::agent::report::Report;

/// What a stopped agent has to finish its files, after SIGTERM to its group.
const TERM: Duration = Duration::from_millis(1500);

/// What an agent has to exit, after it has said its last line.
const EXIT: Duration = Duration::from_secs(10);

/// How one agent's command line and lines are to be read.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// What reads one run's lines.
    type Reader: Reader;

    /// The command line of a turn, but for what [`Options::launch`] gives already. The prompt comes on stdin.
    fn launch(&self, options: &Options, session: &Native, launch: Launch) -> Launch;

    /// Whether the agent takes the id that we choose for a new session.
    fn chooses_id(&self) -> bool;

    /// Reads one run; `session` is the conversation that it goes on with.
    fn reader(&self) -> Self::Reader;

    /// Whether the system prompt comes before the first prompt, for want of a better channel.
    fn prepends_system_prompt(&self) -> bool;
}

/// Reads the lines of one run: pure.
pub(crate) trait Reader: Send {
    /// Takes one line, and pushes what it means.
    fn line(&mut self, line: &Value, out: &mut Vec<Told>);

    /// Takes the end: how the turn ended, and what is still to be told.
    ///
    /// # Errors
    /// Why the turn failed.
    fn end(self, ended: &Ended, out: &mut Vec<Told>) -> Result<TurnComplete, Error>;
}

/// What a line means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    /// An event of the turn.
    Event(AdapterBody),
    /// The agent's own id of the conversation.
    Session(String),
    /// The model that works.
    Model(String),
}

impl<E: Into<AdapterBody>> From<E> for Told {
    fn from(event: E) -> Self {
        Self::Event(event.into())
    }
}

/// The agent's own id of the conversation, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Native {
    /// None yet; this run is the first.
    Unknown,
    /// We have chosen it; the first run makes it.
    Chosen(String),
    /// There is such a conversation.
    Known(String),
}

impl Native {
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Unknown => None,
            Self::Chosen(id) | Self::Known(id) => Some(id),
        }
    }
}

/// One conversation with an agent that runs once a turn.
pub(crate) struct Conversation<D> {
    dialect: D,
    options: Options,
    native: Native,
    /// It was resumed, and no turn has shown yet that the agent knows it.
    unproven: bool,
    report: Report,
    begun: bool,
}

/// How one run went.
struct Run {
    end: Result<TurnComplete, Error>,
    /// Whether the agent has told anything of the turn.
    told: bool,
    stopped: bool,
}

impl<D: Dialect> Conversation<D> {
    /// Begins a conversation, or goes on with the one that the session resumes.
    pub(crate) fn new(session: &Session, dialect: D, options: Options) -> Self {
        let resumed = options.resume.as_ref().and_then(|resume| resume.native_session_id.clone());
        let unproven = resumed.is_some();
        let native = match resumed {
            Some(id) => Native::Known(id),
            None => fresh(&dialect),
        };
        if let Some(id) = native.id() {
            session.info(SessionInfo { native_session_id: Some(id.to_owned()), ..SessionInfo::default() });
        }
        let report = Report::new(options.tool_loop);
        Self { dialect, options, native, unproven, report, begun: unproven }
    }

    /// What the session has asked for.
    fn options(&self) -> &Options {
        &self.options
    }

    /// Runs the agent another way from its next turn on.
    fn change(&mut self, dialect: D, options: Options) {
        (self.dialect, self.options) = (dialect, options);
    }

    /// Serves a turn by one run of the agent.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn turn(&mut self, turn: Turn, input: Input) -> Result<(), Error> {
        let preface = self.options.system_prompt.as_deref().filter(|_| self.dialect.prepends_system_prompt());
        let preface = preface.filter(|_| !self.begun);
        let prompt = prompt::text(&self.options, turn.session(), &input, preface)?;
        let mut run = self.run(&turn, &prompt).await;
        if let Err(error) = &run.end
            && self.unproven
            && !run.told
            && !run.stopped
            && error.failure().category == Some(Category::SessionNotFound)
        {
            let lost = format!("{error}; a new conversation begins");
            turn.error(Category::SessionNotFound, lost).await;
            self.unproven = false;
            self.native = fresh(&self.dialect);
            turn.session().info(SessionInfo {
                context: Some(Context::Lost),
                native_session_id: self.native.id().map(str::to_owned),
                ..SessionInfo::default()
            });
            let preface = self.options.system_prompt.as_deref();
            let preface = preface.filter(|_| self.dialect.prepends_system_prompt());
            let prompt = prompt::text(&self.options, turn.session(), &input, preface)?;
            run = self.run(&turn, &prompt).await;
        }
        if self.unproven && run.told {
            self.unproven = false;
            let kept = SessionInfo { context: Some(Context::Kept), ..SessionInfo::default() };
            turn.session().info(kept);
        }
        self.begun |= run.told;
        let mut end = run.end?;
        end.native_session_id = self.native.id().map(str::to_owned);
        end.session_params = self.params();
        turn.finish(end);
        Ok(())
    }

    /// What goes on with this conversation: its id and where it works.
    fn params(&self) -> Option<Json> {
        let cwd = self.options.cwd.clone().or_else(|| std::env::current_dir().ok())?;
        Json::of(&serde_json::json!({ "native_session_id": self.native.id()?, "cwd": cwd })).ok()
    }

    async fn run(&mut self, turn: &Turn, prompt: &str) -> Run {
        let launch = self.dialect.launch(&self.options, &self.native, self.options.launch());
        let mut agent = match Agent::start(&launch, Stdin::Owned).await {
            Ok(agent) => agent,
            Err(error) => return Run { end: Err(error), told: false, stopped: false },
        };
        if let Some(input) = agent.take_input() {
            let prompt = prompt.to_owned();
            // One write of its own: reading never waits for it. Its end is the end of input.
            tokio::spawn(async move { input.bytes(prompt).await });
        }
        let mut watch = Watch::new(self.options.patience);
        let mut reader = self.dialect.reader();
        let (mut told, mut out) = (false, Vec::new());
        let cut = loop {
            let line = tokio::select! {
                biased;
                () = turn.stopped() => break Some(None),
                error = watch.expired(turn) => break Some(Some(error)),
                line = agent.next() => line,
            };
            watch.heard();
            match line {
                None => break None,
                Some(Line::TooLong(bytes)) => {
                    let text = format!("a line of {bytes} bytes of the agent was left out");
                    turn.error(Category::Oversize, text).await;
                }
                Some(Line::Whole(line)) => match serde_json::from_slice::<Value>(&line) {
                    Ok(line @ Value::Object(_)) => {
                        reader.line(&line, &mut out);
                        told |= out.iter().any(|told| matches!(told, Told::Event(_)));
                        if let Err(error) = self.tell(turn, &mut out).await {
                            break Some(Some(error));
                        }
                    }
                    _ => tracing::debug!(bytes = line.len(), "a line of the agent is no event"),
                },
            }
        };
        let stopped = matches!(cut, Some(None));
        let end = match cut {
            Some(why) => {
                let said = agent.stderr();
                agent.signal(Signal::Terminate);
                let ended = agent.end(TERM, Duration::ZERO).await;
                // What it had to say yet is told; how it ended is ours.
                drop(reader.end(&ended, &mut out));
                Err(why.map_or_else(Error::stopped, |error| explained(error, &said)))
            }
            None => {
                let ended = agent.end(EXIT, TERM).await;
                reader.end(&ended, &mut out)
            }
        };
        told |= out.iter().any(|told| matches!(told, Told::Event(_)));
        let end = self.tell(turn, &mut out).await.and(end);
        Run { end, told, stopped }
    }

    /// Tells what lines meant.
    async fn tell(&mut self, turn: &Turn, out: &mut Vec<Told>) -> Result<(), Error> {
        for told in out.drain(..) {
            match told {
                Told::Event(event) => self.report.emit(turn, event).await?,
                Told::Model(model) => {
                    turn.session().info(SessionInfo { model: Some(model), ..SessionInfo::default() });
                }
                Told::Session(id) => {
                    if self.native.id() != Some(&id) {
                        turn.session().info(SessionInfo {
                            native_session_id: Some(id.clone()),
                            ..SessionInfo::default()
                        });
                    }
                    self.native = Native::Known(id);
                }
            }
        }
        Ok(())
    }
}

fn fresh<D: Dialect>(dialect: &D) -> Native {
    if dialect.chooses_id() { Native::Chosen(uuid::Uuid::new_v4().to_string()) } else { Native::Unknown }
}

/// A silence explained by what the agent has said on stderr, if that names a cause.
fn explained(error: Error, stderr: &str) -> Error {
    if error.failure().category != Some(Category::Timeout) {
        return error;
    }
    match failure::classify(stderr, None) {
        Category::Other => error,
        category => {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            failure::of(category, format!("{error}; it said: {last}"), None)
        }
    }
}
