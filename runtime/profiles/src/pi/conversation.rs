//! One session with pi: its process, and its turns.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use trunkline_sdk::protocol::{Choice, Context, ContextUsage, QuestionField};
use trunkline_sdk::{
    Answer, Category, Error, FieldKind, Input, Question, Session, SessionInfo, Status, Turn,
};

use super::reader::{ExtensionQuestion, PiEvent, Reader};
use super::{Pi, command_line};
use crate::agent::attachment::{self, Image, Native};
use crate::agent::deadlines::{Watch, late};
use crate::agent::failure;
use crate::agent::lines::Line;
use crate::agent::native_id;
use crate::agent::options::Options;
use crate::agent::process::{Agent, InputClosed, Stdin, explained};
use crate::agent::report::Report;
use crate::agent::skills::{self, CommandStyle, Skill};
use crate::agent::system_prompt::PromptFile;
use crate::agent::turn::{self, Dialect, Engine, Finish, Grace, How, LineOut, Out, Reply};
use crate::oneshot::json::{count, text};

/// What the process has to end by itself after its stdin was closed, and after SIGTERM.
const END: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1));

/// The most questions that are open at once.
const MOST_QUESTIONS: usize = 16;

/// The ids of our commands.
const STATE: &str = "state";
const PROMPT: &str = "prompt";
const STATS: &str = "stats";
const ABORT: &str = "abort";
/// A number follows.
const STEER: &str = "steer-";

/// A conversation with pi.
pub(crate) struct Conversation {
    settings: Pi,
    options: Options,
    skills: Vec<Skill>,
    prompt_file: Option<PromptFile>,
    agent: Option<Agent>,
    native: Option<String>,
    /// It was resumed, and pi has not said yet that it knows it.
    unproven: bool,
    /// A turn was given up before its end: the process may still be at it.
    busy: bool,
    report: Report,
}

impl Conversation {
    /// Begins, or goes on with what the session resumes. The process starts with the first turn.
    ///
    /// # Errors
    /// When the instructions cannot be written down.
    pub(super) fn new(session: &Session, settings: Pi, options: Options) -> Result<Self, Error> {
        let asked = options.resume.as_ref().and_then(|resume| resume.native_session_id.clone());
        let is_asked = asked.is_some();
        // pi takes a path as well, and would open whatever file is there.
        let native = asked.filter(|id| native_id::is_uuid(id));
        if is_asked {
            let context = native.is_none().then_some(Context::Lost);
            let native_session_id = native.clone();
            session.info(SessionInfo { native_session_id, context, ..SessionInfo::default() });
        }
        let (skills, problems) = skills::parse(&options.skills);
        for problem in problems {
            tracing::warn!(problem, "a skill is left out");
        }
        if let Some(commands) = skills::commands(&skills, CommandStyle::SkillColon) {
            session.info(SessionInfo { commands: Some(commands), ..SessionInfo::default() });
        }
        let prompt_file = options.system_prompt.as_deref().map(PromptFile::new).transpose()?;
        let report = Report::new(options.tool_loop);
        let unproven = native.is_some();
        Ok(Self {
            settings,
            options,
            skills,
            prompt_file,
            agent: None,
            native,
            unproven,
            busy: false,
            report,
        })
    }

    /// Changes its options: the process starts anew, and goes on with the same conversation.
    pub(super) async fn change(&mut self, change: impl FnOnce(&mut Options)) -> SessionInfo {
        change(&mut self.options);
        self.end_agent().await;
        SessionInfo {
            model: self.options.model.clone(),
            reasoning_effort: self.options.reasoning_effort.clone(),
            allowed_tools: self.options.allowed_tools.clone(),
            ..SessionInfo::default()
        }
    }

    pub(super) async fn close(mut self) {
        self.end_agent().await;
    }

    async fn end_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            let wait = if self.busy { Duration::ZERO } else { END.0 };
            agent.end(wait, END.1).await;
        }
        self.busy = false;
    }

    /// Serves a turn.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) async fn turn(&mut self, turn: Turn, input: Input) -> Result<(), Error> {
        if self.busy || self.agent.as_mut().is_some_and(Agent::has_ended) {
            self.end_agent().await;
        }
        let prompt = self.prompt(turn.session(), input).await?;
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            started = self.ensure(&turn) => started?,
        }
        self.busy = true;
        let mut agent = self.agent.take().ok_or_else(gone)?;
        let done = self.serve(&turn, &mut agent, &prompt).await;
        self.agent = Some(agent);
        match done {
            Ok(reader) => {
                self.busy = false;
                let mut out = Vec::new();
                let end = reader.end(&mut out);
                for told in out {
                    if let PiEvent::Event(event) = told {
                        self.report.emit(&turn, event).await?;
                    }
                }
                let mut end = end?;
                end.native_session_id.clone_from(&self.native);
                end.session_params = self.options.session_params(self.native.as_deref());
                turn.finish(end);
                Ok(())
            }
            Err(None) => {
                let ended = self.agent.take();
                self.busy = false;
                match ended {
                    Some(agent) => Err(agent.end(Duration::ZERO, END.1).await.error()),
                    None => Err(gone()),
                }
            }
            Err(Some(error)) => {
                self.end_agent().await;
                Err(error)
            }
        }
    }

    async fn prompt(&self, session: &Session, input: Input) -> Result<Value, Error> {
        let content = self.options.words(&input.content, session);
        let files = attachment::read_all(input.files, Native::Images).await;
        // They have the shape of the Agent Client Protocol's.
        let images: Vec<Value> = attachment::images(&files).map(Image::acp).collect();
        let message = attachment::with_paths(&content, &files);
        if message.trim().is_empty() && images.is_empty() {
            return Err(Error::other("the input is empty; the agent needs a prompt"));
        }
        let mut prompt = json!({ "id": PROMPT, "type": "prompt", "message": message });
        if !images.is_empty() {
            prompt["images"] = images.into();
        }
        Ok(prompt)
    }

    /// Starts the process where none runs, and learns the conversation's id from it.
    async fn ensure(&mut self, turn: &Turn) -> Result<(), Error> {
        if self.agent.is_some() {
            return Ok(());
        }
        match self.start(turn.session()).await {
            Err(error)
                if self.native.is_some() && error.failure().category == Some(Category::SessionNotFound) =>
            {
                let lost = format!("{error}; a new conversation begins");
                turn.error(Category::SessionNotFound, lost).await;
                (self.native, self.unproven) = (None, false);
                self.start(turn.session()).await?;
                let lost = SessionInfo { context: Some(Context::Lost), ..SessionInfo::default() };
                turn.session().info(lost);
                Ok(())
            }
            done => done,
        }
    }

    async fn start(&mut self, session: &Session) -> Result<(), Error> {
        let prompt_file = self.prompt_file.as_ref().map(PromptFile::path);
        let native = self.native.as_deref();
        let launch = command_line::launch(&self.settings, &self.options, native, &self.skills, prompt_file);
        let mut agent = Agent::start(&launch, Stdin::Owned).await?;
        let greet = async {
            send(&agent_input(&agent)?, &json!({ "id": STATE, "type": "get_state" })).await?;
            let mut out = Vec::new();
            while let Some(line) = agent.next().await {
                Reader::default().line(&parsed(&line), &mut out);
                for told in out.drain(..) {
                    if let PiEvent::Answer { id, result } = told
                        && id == STATE
                    {
                        return Ok(result);
                    }
                }
            }
            Err(InputClosed)
        };
        let greeted = match self.options.deadlines.start {
            Some(wait) => match timeout(wait, greet).await {
                Ok(greeted) => greeted,
                Err(_) => {
                    let error = explained(late("did not answer its start within", wait), &agent.stderr());
                    agent.end(Duration::ZERO, END.1).await;
                    return Err(error);
                }
            },
            None => greet.await,
        };
        let state = match greeted {
            Ok(Ok(state)) => state,
            Ok(Err(why)) => return Err(failure::failed(why, None)),
            Err(InputClosed) => {
                let ended = agent.end(Duration::ZERO, END.1).await;
                let unknown =
                    failure::is_unknown_session(&ended.stderr) || ended.stderr.contains("No session found");
                let error = ended.error();
                return Err(if unknown {
                    failure::of(Category::SessionNotFound, error.to_string(), None)
                } else {
                    error
                });
            }
        };
        let known = |path| Some(text(&state, path).to_owned()).filter(|text| !text.is_empty());
        let native = known("/sessionId");
        let context = self.unproven.then_some(Context::Kept);
        self.unproven = false;
        if native != self.native || context.is_some() {
            self.native = native.or(self.native.take());
            session.info(SessionInfo {
                native_session_id: self.native.clone(),
                model: known("/model/id"),
                context,
                ..SessionInfo::default()
            });
        }
        self.agent = Some(agent);
        Ok(())
    }

    /// Runs one prompt until the agent rests. An error of `None` is the process's end.
    async fn serve(
        &mut self,
        turn: &Turn,
        agent: &mut Agent,
        prompt: &Value,
    ) -> Result<Reader, Option<Error>> {
        send(&agent_input(agent).map_err(|_| None)?, prompt).await.map_err(|_| None)?;
        let engine = Engine::new(Running::default(), Watch::new(self.options.deadlines));
        match turn::run(engine, agent, turn, &mut self.report).await {
            (_, Finish { why: Some(why), .. }) => Err(Some(explained(why, &agent.stderr()))),
            (Running { refused: Some(why), .. }, Finish { how: How::Ended, .. }) => Err(Some(why)),
            (running, Finish { how: How::Ended, .. }) => Ok(running.reader),
            (_, Finish { how: How::Closed | How::Late, .. }) => Err(None),
        }
    }
}

/// The engine's view of one prompt.
#[derive(Default)]
struct Running {
    reader: Reader,
    events: Vec<PiEvent>,
    /// Questions that are open, by their id.
    questions: HashMap<String, ExtensionQuestion>,
    /// Whether the statistics are asked for, whose answer ends the turn.
    asked_stats: bool,
    /// Why pi did not take the prompt.
    refused: Option<Error>,
}

impl Dialect for Running {
    type Message = Line;
    type Command = LineOut;

    fn message(&mut self, line: Line, _: Instant, out: &mut Out<LineOut>) {
        out.alive();
        if let Line::TooLong(bytes) = line {
            return out.left_out(bytes);
        }
        self.reader.line(&parsed(&line), &mut self.events);
        for event in self.events.drain(..) {
            match event {
                PiEvent::Event(event) => out.emit(event),
                PiEvent::Question(asked) if self.questions.len() >= MOST_QUESTIONS => {
                    let cancelled = answered(&asked.id, &asked.method, &Answer::default());
                    out.send(LineOut::IfRoom(cancelled.to_string()));
                }
                PiEvent::Question(asked) => {
                    out.ask(asked.id.as_str(), question(&asked));
                    self.questions.insert(asked.id.clone(), asked);
                }
                // Whether a retry follows is known once a command after it is answered.
                PiEvent::Rests => {
                    if !std::mem::replace(&mut self.asked_stats, true) {
                        out.send((&json!({ "id": STATS, "type": "get_session_stats" })).into());
                    }
                }
                PiEvent::Answer { id, result } => match (id.as_str(), result) {
                    (STATS, stats) => {
                        self.asked_stats = false;
                        if !self.reader.retries {
                            if let Some(usage) = stats.ok().as_ref().and_then(context) {
                                out.emit(usage);
                            }
                            out.end();
                        }
                    }
                    (PROMPT, Err(why)) => {
                        self.refused = Some(failure::failed(why, None));
                        out.end();
                    }
                    (id, result) => {
                        if let Some(number) = id.strip_prefix(STEER).and_then(|number| number.parse().ok()) {
                            out.steered(number, result.map(drop));
                        }
                    }
                },
            }
        }
    }

    fn interrupt(&mut self, why: &Error, out: &mut Out<LineOut>) -> Grace {
        if why.status() != Status::Stopped {
            return Grace::None;
        }
        out.send((&json!({ "id": ABORT, "type": "abort" })).into());
        Grace::AgentEnds
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut Out<LineOut>) {
        out.send((&json!({ "id": format!("{STEER}{number}"), "type": "steer", "message": text })).into());
    }

    fn replied(&mut self, id: &str, reply: Reply, out: &mut Out<LineOut>) {
        if let (Some(asked), Reply::Answer(answer)) = (self.questions.remove(id), reply) {
            out.send((&answered(id, &asked.method, &answer)).into());
        }
    }
}

fn gone() -> Error {
    Error::new(Category::ProcessExit, "the agent has ended")
}

fn agent_input(agent: &Agent) -> Result<crate::agent::process::AgentInput, InputClosed> {
    agent.input().cloned()
}

async fn send(input: &crate::agent::process::AgentInput, message: &Value) -> Result<(), InputClosed> {
    input.line(message.to_string()).await
}

fn parsed(line: &Line) -> Value {
    match line {
        Line::Whole(line) => serde_json::from_slice(line).unwrap_or_default(),
        Line::TooLong(_) => Value::Null,
    }
}

fn context(stats: &Value) -> Option<ContextUsage> {
    let used_tokens = Some(count(stats, "/contextUsage/tokens")?);
    Some(ContextUsage { used_tokens, total_tokens: count(stats, "/contextUsage/contextWindow") })
}

/// The only field of a question.
const FIELD: &str = "answer";

fn question(asked: &ExtensionQuestion) -> Question {
    let kind = match asked.method.as_str() {
        "confirm" => FieldKind::Boolean,
        "select" => FieldKind::Choice,
        _ => FieldKind::Text,
    };
    let choice = |option: &String| Choice { id: option.clone(), ..Choice::default() };
    let choices: Vec<Choice> = asked.options.iter().map(choice).collect();
    Question::new(&asked.title).field(QuestionField {
        id: FIELD.to_owned(),
        kind: Some(kind),
        choices: (!choices.is_empty()).then_some(choices),
        ..QuestionField::default()
    })
}

fn answered(id: &str, method: &str, answer: &Answer) -> Value {
    let value = answer.values.get(FIELD).and_then(|value| value.to::<Value>().ok());
    let mut response = json!({ "type": "extension_ui_response", "id": id });
    match (method, value) {
        ("confirm", Some(value)) => response["confirmed"] = json!(value.as_bool() == Some(true)),
        (_, Some(Value::String(value))) => response["value"] = value.into(),
        _ => response["cancelled"] = true.into(),
    }
    response
}
