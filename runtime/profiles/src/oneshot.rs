//! Agents that run once a turn: the prompt on stdin, their work on stdout as lines of JSON, their
//! exit as the end.

mod adapter;
pub(crate) mod copilot;
mod extras;
pub(crate) mod gemini;
pub(crate) mod json;
pub(crate) mod opencode;
#[cfg(test)]
pub(crate) mod reader_test;
mod run;
mod running_total;

pub(crate) use self::adapter::{Runs, adapter};
pub(crate) use self::extras::Extras;
pub(crate) use self::run::{RunEvent, RunProgress, RunReader};
use self::running_total::RunningTotal;

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, Context, UsageScope};
use trunkline_sdk::{
    Category, Error, Input, Session, SessionInfo, SessionUpdate, Status, Turn, TurnComplete,
};

use crate::agent::attachment;
use crate::agent::deadlines::Watch;
use crate::agent::end::{end_by, undelivered};
use crate::agent::lines::AgentLine;
use crate::agent::options::Options;
use crate::agent::process::{Agent, Stdin};
use crate::agent::report::{TurnReport, meta_log};
use crate::agent::turn::{self, EffectList, EndCause, Engine, Grace, LineOut};
use crate::agent::version::{self, Version};
use crate::agent::{model, resume, system_prompt};

/// Timeout for an agent to finish its files, after SIGTERM to its group.
const TERM: Duration = Duration::from_millis(1500);

/// Timeout for the exit of an agent after its last line.
const EXIT: Duration = Duration::from_secs(5);

/// Time in which lines may arrive that an agent wrote before a stop.
const ON_THEIR_WAY: Duration = Duration::from_millis(50);

/// The agent's own id of the conversation.
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

/// A conversation with an agent that runs once a turn.
pub(crate) struct OneshotConversation<K> {
    profile: K,
    version: Option<Version>,
    options: Options,
    memory: Memory,
    report: TurnReport,
    given: Extras,
}

/// Memory of a conversation from one run to the next.
struct Memory {
    native: Native,
    /// The conversation was resumed, and nothing has shown yet whether the agent knows it.
    unproven: bool,
    spent: RunningTotal,
    /// The agent has taken the instructions that go before a prompt.
    instructed: bool,
    /// The instructions go before the present prompt.
    instructing: bool,
}

/// Outcome of a run.
struct RunOutcome {
    end: TurnComplete,
    /// True if the agent has reported anything of the turn.
    has_events: bool,
}

impl<K: Runs> OneshotConversation<K> {
    /// Begins a conversation, or continues the one that the session resumes.
    ///
    /// # Errors
    /// When the session asks for what the configuration does not allow, or the installed version
    /// cannot be run so.
    pub(crate) async fn new(
        profile: K,
        session: &Session,
        mut options: Options,
    ) -> Result<Self, Error> {
        let resumed = resume::settle(session, &mut options, |id| profile.is_id(id)).await;
        let version = version::find_version(profile.agent().common()).await;
        profile.check(&options, version)?;
        let given = Extras::new(&profile, &options);
        let unproven = resumed.is_some();
        let native = match resumed {
            Some(resumed) => Native::Known(resumed.native_session_id),
            None => fresh(&profile, version),
        };
        let (native_session_id, commands) =
            (native.id().map(str::to_owned), given.skills.commands());
        let info = SessionInfo {
            native_session_id,
            commands,
            ..SessionInfo::default()
        };
        if info != SessionInfo::default() {
            session.info(info);
        }
        let report = TurnReport::of_session(&options, unproven);
        let memory = Memory::new(native, unproven);
        Ok(Self {
            profile,
            version,
            options,
            memory,
            report,
            given,
        })
    }

    /// Changes options from the next run on, those that the agent honours.
    ///
    /// # Errors
    /// As for a new conversation.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let mut options = self.options.clone();
        let honours = |name| K::HONOURS.contains(&name);
        if let Some(name) = update.model {
            options.model = Some(model::resolve(
                &name,
                &self.profile.agent().common().model_aliases,
            ));
        }
        let mut info = SessionInfo {
            model: options.model.clone(),
            ..SessionInfo::default()
        };
        for (name, asked, option, shown) in [
            (
                "reasoning_effort",
                update.reasoning_effort,
                &mut options.reasoning_effort,
                &mut info.reasoning_effort,
            ),
            ("mode", update.mode, &mut options.mode, &mut info.mode),
            (
                "permission_mode",
                update.permission_mode,
                &mut options.permission_mode,
                &mut info.permission_mode,
            ),
        ] {
            if honours(name) {
                *option = asked.or(option.take());
                shown.clone_from(option);
            }
        }
        if honours("denied_tools") {
            options.denied_tools = update.denied_tools.or(options.denied_tools);
            info.denied_tools.clone_from(&options.denied_tools);
        }
        let version = version::find_version(self.profile.agent().common()).await;
        self.profile.check(&options, version)?;
        (self.version, self.options) = (version, options);
        Ok(info)
    }

    /// Serves a turn by one run of the agent.
    pub(crate) async fn turn(&mut self, turn: Turn, mut input: Input) {
        let inline = self.given.skills.resolve(&input.content);
        let is_call = matches!(inline.text, Cow::Borrowed(text) if trunkline_sdk::skill::called(text).is_some());
        let content = inline.text.into_owned();
        let note = inline.note;
        input.content = content;
        for content in std::mem::take(&mut self.given.warnings)
            .into_iter()
            .chain(note)
        {
            turn.emit(meta_log(content)).await;
        }
        let mut run = self.run(&turn, &input, is_call).await;
        let error = run.end.error.clone().unwrap_or_default();
        let is_unknown = error.category == Some(Category::SessionNotFound);
        if is_unknown && !run.has_events && matches!(self.memory.native, Native::Known(_)) {
            resume::lost(turn.session(), error.message.unwrap_or_default()).await;
            self.memory = Memory::new(fresh(&self.profile, self.version), false);
            self.tell_native(turn.session());
            run = self.run(&turn, &input, is_call).await;
        }
        let is_completed = run.end.status == Some(Status::Completed);
        if !is_completed && !run.has_events && matches!(self.memory.native, Native::Chosen(_)) {
            // Whether the agent has made it is not known, and one that has refuses to make it again.
            self.memory.native = fresh(&self.profile, self.version);
            self.tell_native(turn.session());
        }
        let mut end = run.end;
        if let Some(usage) = end.usage.take() {
            match self.memory.spent.of_turn(usage) {
                usage if usage.scope == Some(UsageScope::Session) => turn.emit(usage).await,
                usage => end.usage = Some(usage),
            }
        }
        self.options.name_session(&mut end, self.memory.native.id());
        self.report
            .finish(turn, end, self.options.model.as_deref())
            .await;
    }

    fn tell_native(&self, session: &Session) {
        let native_session_id = self.memory.native.id().map(str::to_owned);
        session.info(SessionInfo {
            native_session_id,
            ..SessionInfo::default()
        });
    }

    /// The prompt: the input through the template, with its files by their paths; before the first one the
    /// instructions that it takes no other way, but not before what it may take for a command of its own.
    async fn prompt(&mut self, turn: &Turn, input: &Input, is_call: bool) -> Result<String, Error> {
        let text = self.options.words(&input.content, turn.session());
        let files = attachment::read_all(input.files.clone(), attachment::Native::Nothing).await;
        let text = attachment::with_paths(&text, &files);
        if text.trim().is_empty() {
            return Err(Error::other("the input is empty; the agent needs a prompt"));
        }
        // None of these agents has a better channel for instructions.
        let preface = self
            .given
            .preface
            .as_deref()
            .filter(|_| !self.memory.instructed && !is_call);
        self.memory.instructing = preface.is_some();
        Ok(match preface {
            Some(preface) => system_prompt::before(preface, &text),
            None => text,
        })
    }

    async fn run(&mut self, turn: &Turn, input: &Input, is_call: bool) -> RunOutcome {
        let failed = |error: Error| RunOutcome {
            end: undelivered(&error),
            has_events: false,
        };
        let prompt = match self.prompt(turn, input, is_call).await {
            Ok(prompt) => prompt,
            Err(error) => return failed(error),
        };
        let (launch, reader) =
            self.profile
                .launch(&self.options, self.version, &self.memory.native);
        let launch = launch
            .args(self.given.args.clone())
            .envs(self.given.env.clone())
            .prompt(&prompt);
        let log = Some(self.report.log());
        let mut agent = match Agent::start(&launch, Stdin::Owned, log).await {
            Ok(agent) => agent,
            Err(error) => return failed(error),
        };
        agent.write_input(prompt).await;
        let running = OneshotTurn {
            reader,
            progress: RunProgress::default(),
            memory: &mut self.memory,
        };
        let engine = Engine::new(running, Watch::starting(self.options.deadlines));
        let (mut running, finish) = turn::run(engine, &mut agent, turn, &mut self.report).await;
        let is_closed = finish.why.is_none() && finish.how == EndCause::Closed;
        let eof = if is_closed { EXIT } else { Duration::ZERO };
        let ended = agent.end(eof, TERM).await;
        let mut out = EffectList::default();
        let end = running.progress.end(running.reader, &ended, finish.why);
        running.memory.take(&mut running.progress.events, &mut out);
        let has_events = running.progress.has_events;
        let emitted = turn::emit(out, turn, &mut self.report).await;
        let end = emitted.map_or_else(|error| end_by(&error), |()| end);
        RunOutcome { end, has_events }
    }
}

/// The engine's view of one run.
struct OneshotTurn<'c, R> {
    reader: R,
    progress: RunProgress,
    memory: &'c mut Memory,
}

impl<R: RunReader> turn::Dialect for OneshotTurn<'_, R> {
    type Message = AgentLine;
    type Command = LineOut;

    fn message(&mut self, line: AgentLine, _: Instant, out: &mut EffectList<LineOut>) {
        out.alive();
        match line {
            AgentLine::TooLong(bytes) => out.left_out(bytes),
            AgentLine::Whole(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(line @ Value::Object(_)) => {
                    self.reader.line(&line, &mut self.progress);
                    self.memory.take(&mut self.progress.events, out);
                    if let Some(why) = self.progress.failure.take() {
                        out.fail(why);
                    }
                }
                _ => {
                    self.progress.signs.note_noise(&line);
                    out.log_line(line);
                }
            },
        }
        if self.progress.is_over {
            out.end_within(EXIT);
        }
    }

    /// After a stop what it has written is still read: whether it has made the conversation that we
    /// chose, for one.
    fn interrupt(&mut self, why: &Error, _: &mut EffectList<LineOut>) -> Grace {
        if why.status() == Status::Stopped {
            Grace::For(ON_THEIR_WAY)
        } else {
            Grace::None
        }
    }
}

impl Memory {
    fn new(native: Native, unproven: bool) -> Self {
        Self {
            native,
            unproven,
            spent: if unproven {
                RunningTotal::default()
            } else {
                RunningTotal::nothing()
            },
            instructed: unproven,
            instructing: false,
        }
    }

    /// Passes on the meaning of lines.
    fn take(&mut self, events: &mut Vec<RunEvent>, out: &mut EffectList<LineOut>) {
        for event in events.drain(..) {
            match event {
                RunEvent::Event(event) => {
                    self.instructed |= self.instructing;
                    self.prove(Context::Kept, out);
                    out.emit(match event {
                        AdapterBody::Usage(usage) => self.spent.of_turn(*usage).into(),
                        event => event,
                    });
                }
                RunEvent::Model(model) => {
                    out.info(SessionInfo {
                        model: Some(model),
                        ..SessionInfo::default()
                    });
                }
                RunEvent::Session(id) => {
                    let is_known = self.native.id() == Some(&id);
                    self.prove(
                        if is_known {
                            Context::Kept
                        } else {
                            Context::Lost
                        },
                        out,
                    );
                    if !is_known {
                        let native_session_id = Some(id.clone());
                        out.info(SessionInfo {
                            native_session_id,
                            ..SessionInfo::default()
                        });
                    }
                    self.native = Native::Known(id);
                }
            }
        }
    }

    /// Says whether the agent knows the conversation that was resumed, before anything else of it.
    fn prove(&mut self, context: Context, out: &mut EffectList<LineOut>) {
        if std::mem::take(&mut self.unproven) {
            out.info(SessionInfo {
                context: Some(context),
                ..SessionInfo::default()
            });
        }
    }
}

fn fresh(profile: &impl Runs, version: Option<Version>) -> Native {
    if profile.chooses_id(version) {
        Native::Chosen(uuid::Uuid::new_v4().to_string())
    } else {
        Native::Unknown
    }
}
