//! Agents that run once a turn: the prompt on stdin, their work on stdout as lines of JSON, their exit as the end.

mod adapter;
mod given;
pub(crate) mod json;
#[cfg(test)]
pub(crate) mod reading;
mod spent;

pub(crate) use self::adapter::{Runs, beside_acp};
pub(crate) use self::given::Given;
use self::spent::Spent;

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};
use trunkline_sdk::protocol::{AdapterBody, Context, Log, LogStream, UsageScope};
use trunkline_sdk::{Category, Error, Input, Session, SessionInfo, Turn, TurnComplete};

use crate::agent::attachment;
use crate::agent::deadlines::Watch;
use crate::agent::launch::Launch;
use crate::agent::lines::Line;
use crate::agent::native_id;
use crate::agent::options::Options;
use crate::agent::process::{Agent, Ended, Stdin, explained};
use crate::agent::report::Report;
use crate::agent::{skills, system_prompt};

/// What an agent has to finish its files, after SIGTERM to its group.
const TERM: Duration = Duration::from_millis(1500);

/// What an agent has to exit, after it has said its last line.
const EXIT: Duration = Duration::from_secs(5);

/// How long lines that an agent wrote before a stop may be on their way.
const ON_THEIR_WAY: Duration = Duration::from_millis(50);

/// How one agent's command line and lines are to be read.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// What reads one run's lines.
    type Reader: Reader;

    /// The command line of a turn, but for what [`Options::launch`] gives already. The prompt comes on stdin.
    fn launch(&self, options: &Options, session: &Native, launch: Launch) -> Launch;

    /// Whether this can be the agent's own id of a conversation.
    fn is_id(&self, id: &str) -> bool {
        native_id::is_uuid(id)
    }

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
    fn line(&mut self, line: &Value, out: &mut Vec<RunEvent>);

    /// Whether the agent has said its last line: it is to exit soon.
    fn is_over(&self) -> bool {
        false
    }

    /// Why the run is to be ended, where the agent would go on for ever.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Takes the end: how the turn ended, and what is still to be told.
    ///
    /// # Errors
    /// Why the turn failed.
    fn end(self, ended: &Ended, out: &mut Vec<RunEvent>) -> Result<TurnComplete, Error>;
}

/// What a line means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunEvent {
    /// An event of the turn.
    Event(AdapterBody),
    /// The agent's own id of the conversation.
    Session(String),
    /// The model that works.
    Model(String),
}

impl<E: Into<AdapterBody>> From<E> for RunEvent {
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
    /// It was resumed, and nothing has shown yet whether the agent knows it.
    unproven: bool,
    report: Report,
    spent: Spent,
    given: Given,
    /// The agent has taken the instructions that go before a prompt.
    instructed: bool,
    /// They go before the present one.
    instructing: bool,
}

/// What one run has said so far.
struct RunOutput<R> {
    reader: R,
    /// What lines meant that is not told yet.
    out: Vec<RunEvent>,
    /// Whether it was anything of the turn.
    told: bool,
}

fn has_event(out: &[RunEvent]) -> bool {
    out.iter().any(|told| matches!(told, RunEvent::Event(_)))
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
    pub(crate) fn new(session: &Session, dialect: D, options: Options, given: Given) -> Self {
        let asked = options.resume.as_ref().and_then(|resume| resume.native_session_id.clone());
        let is_asked = asked.is_some();
        let resumed = asked.filter(|id| dialect.is_id(id));
        let unproven = resumed.is_some();
        let native = match resumed {
            Some(id) => Native::Known(id),
            None => fresh(&dialect),
        };
        // What is no id of the agent's cannot be known to it.
        let context = (is_asked && !unproven).then_some(Context::Lost);
        let (native_session_id, commands) = (native.id().map(str::to_owned), given.skills.commands());
        let info = SessionInfo { native_session_id, context, commands, ..SessionInfo::default() };
        if info != SessionInfo::default() {
            session.info(info);
        }
        let report = Report::new(options.tool_loop);
        let spent = if unproven { Spent::default() } else { Spent::nothing() };
        Self {
            dialect,
            options,
            native,
            unproven,
            report,
            spent,
            given,
            instructed: unproven,
            instructing: false,
        }
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
    pub(crate) async fn turn(&mut self, turn: Turn, mut input: Input) -> Result<(), Error> {
        let inline = self.given.skills.resolve(&input.content);
        let is_call = matches!(inline.text, Cow::Borrowed(text) if skills::called(text).is_some());
        let (content, note) = (inline.text.into_owned(), inline.note);
        input.content = content;
        for content in std::mem::take(&mut self.given.warnings).into_iter().chain(note) {
            turn.emit(Log { stream: Some(LogStream::Meta), content, ..Log::default() }).await;
        }
        let prompt = self.prompt(&turn, &input, is_call).await?;
        let mut run = self.run(&turn, &prompt).await;
        if let Err(error) = &run.end
            && matches!(self.native, Native::Known(_))
            && !run.told
            && !run.stopped
            && error.failure().category == Some(Category::SessionNotFound)
        {
            let lost = format!("{error}; a new conversation begins");
            turn.error(Category::SessionNotFound, lost).await;
            (self.unproven, self.instructed) = (false, false);
            (self.native, self.spent) = (fresh(&self.dialect), Spent::nothing());
            turn.session().info(SessionInfo {
                context: Some(Context::Lost),
                native_session_id: self.native.id().map(str::to_owned),
                ..SessionInfo::default()
            });
            let prompt = self.prompt(&turn, &input, is_call).await?;
            run = self.run(&turn, &prompt).await;
        }
        if run.end.is_err() && !run.told && matches!(self.native, Native::Chosen(_)) {
            // Whether the agent has made it is not known, and one that has refuses to make it again.
            self.native = fresh(&self.dialect);
            turn.session().info(SessionInfo {
                native_session_id: self.native.id().map(str::to_owned),
                ..SessionInfo::default()
            });
        }
        let mut end = run.end?;
        if let Some(usage) = end.usage.take() {
            match self.spent.of_turn(usage) {
                usage if usage.scope == Some(UsageScope::Session) => turn.emit(usage).await,
                usage => end.usage = Some(usage),
            }
        }
        end.native_session_id = self.native.id().map(str::to_owned);
        end.session_params = self.options.session_params(self.native.id());
        turn.finish(end);
        Ok(())
    }

    /// What the agent is sent: the input through the template, with its files by their paths; before the first one the
    /// instructions that it takes no other way, but not before what it may take for a command of its own.
    async fn prompt(&mut self, turn: &Turn, input: &Input, is_call: bool) -> Result<String, Error> {
        let text = self.options.words(&input.content, turn.session());
        let files = attachment::read_all(input.files.clone(), attachment::Native::Nothing).await;
        let text = attachment::with_paths(&text, &files);
        if text.trim().is_empty() {
            return Err(Error::other("the input is empty; the agent needs a prompt"));
        }
        let system_prompt = self.options.system_prompt.as_deref();
        let preface = || self.given.preface(system_prompt.filter(|_| self.dialect.prepends_system_prompt()));
        let preface = if self.instructed || is_call { None } else { preface() };
        self.instructing = preface.is_some();
        Ok(match preface {
            Some(preface) => system_prompt::before(&preface, &text),
            None => text,
        })
    }

    async fn run(&mut self, turn: &Turn, prompt: &str) -> Run {
        let launch = self.dialect.launch(&self.options, &self.native, self.options.launch());
        let launch = launch.args(self.given.args.clone()).envs(self.given.env.clone());
        let mut heard = RunOutput { reader: self.dialect.reader(), out: Vec::new(), told: false };
        let mut agent = match Agent::start(&launch, Stdin::Owned).await {
            Ok(agent) => agent,
            Err(error) => return Run { end: Err(error), told: false, stopped: false },
        };
        if let Some(input) = agent.take_input() {
            // It finds room at once, and its drop is the end of input. An agent that has ended already says why.
            let _ = input.bytes(prompt.to_owned()).await;
        }
        let mut watch = Watch::starting(self.options.deadlines);
        let mut over: Option<Instant> = None;
        let cut = loop {
            let line = tokio::select! {
                biased;
                () = turn.stopped() => break Cut::Stopped,
                error = watch.expired(turn), if over.is_none() => break Cut::GivenUp(error),
                () = sleep_until(over.unwrap_or_else(Instant::now)), if over.is_some() => break Cut::Lingers,
                line = agent.next() => line,
            };
            watch.heard();
            let Some(line) = line else { break Cut::No };
            if let Err(error) = self.hear(turn, line, &mut heard).await {
                break Cut::GivenUp(error);
            }
            if heard.reader.is_over() {
                over.get_or_insert_with(|| Instant::now() + EXIT);
            }
        };
        if matches!(cut, Cut::Stopped) {
            // Its id, for one: whether it has made the conversation that we chose.
            let rest = async {
                while let Some(line) = agent.next().await
                    && self.hear(turn, line, &mut heard).await.is_ok()
                {}
            };
            // What still flows then is not waited for.
            drop(timeout(ON_THEIR_WAY, rest).await);
        }
        let said = agent.stderr();
        let eof = if matches!(cut, Cut::No) { EXIT } else { Duration::ZERO };
        let ended = agent.end(eof, TERM).await;
        let RunOutput { reader, mut out, mut told } = heard;
        let end = reader.end(&ended, &mut out);
        told |= has_event(&out);
        let stopped = matches!(cut, Cut::Stopped);
        let end = match cut {
            Cut::No | Cut::Lingers => end,
            // What it had to say yet is told; how it ended is ours.
            Cut::Stopped => Err(Error::stopped()),
            Cut::GivenUp(error) => Err(explained(error, &said)),
        };
        let end = self.tell(turn, &mut out).await.and(end);
        Run { end, told, stopped }
    }

    /// Takes one line of the agent.
    ///
    /// # Errors
    /// Why it is to be listened to no more.
    async fn hear(&mut self, turn: &Turn, line: Line, heard: &mut RunOutput<D::Reader>) -> Result<(), Error> {
        match line {
            Line::TooLong(bytes) => {
                let text = format!("a line of {bytes} bytes of the agent was left out");
                turn.error(Category::Oversize, text).await;
            }
            Line::Whole(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(line @ Value::Object(_)) => {
                    heard.reader.line(&line, &mut heard.out);
                    heard.told |= has_event(&heard.out);
                    self.tell(turn, &mut heard.out).await?;
                    heard.reader.failure().map_or(Ok(()), Err)?;
                }
                _ => tracing::debug!(bytes = line.len(), "a line of the agent is no event"),
            },
        }
        Ok(())
    }

    /// Tells what lines meant.
    async fn tell(&mut self, turn: &Turn, out: &mut Vec<RunEvent>) -> Result<(), Error> {
        for told in out.drain(..) {
            match told {
                RunEvent::Event(event) => {
                    self.instructed |= self.instructing;
                    self.prove(turn, Context::Kept);
                    let event = match event {
                        AdapterBody::Usage(usage) => self.spent.of_turn(*usage).into(),
                        event => event,
                    };
                    self.report.emit(turn, event).await?;
                }
                RunEvent::Model(model) => {
                    turn.session().info(SessionInfo { model: Some(model), ..SessionInfo::default() });
                }
                RunEvent::Session(id) => {
                    let is_known = self.native.id() == Some(&id);
                    self.prove(turn, if is_known { Context::Kept } else { Context::Lost });
                    if !is_known {
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

    /// Tells whether the agent knows the conversation that was resumed, before anything else of it.
    fn prove(&mut self, turn: &Turn, context: Context) {
        if std::mem::take(&mut self.unproven) {
            turn.session().info(SessionInfo { context: Some(context), ..SessionInfo::default() });
        }
    }
}

/// Why a run's lines were read no further.
enum Cut {
    /// They had ended.
    No,
    /// The turn was stopped.
    Stopped,
    /// The agent took too long, or turned in circles.
    GivenUp(Error),
    /// It has said its last line, and lives on.
    Lingers,
}

fn fresh<D: Dialect>(dialect: &D) -> Native {
    if dialect.chooses_id() { Native::Chosen(uuid::Uuid::new_v4().to_string()) } else { Native::Unknown }
}
