//! A session with pi: its process, and its turns.

use std::time::Duration;

use serde_json::{Value, json};
use trunkline_sdk::protocol::Context;
use trunkline_sdk::{Category, Error, Input, Session, SessionInfo, Turn};

use super::mcp_extension::McpExtension;
use super::translate::{PiEvent, PiReader};
use super::turn::{PiTurn, STATE, parsed};
use super::{Pi, command_line};
use crate::agent::attachment::{self, Image, Native};
use crate::agent::deadlines::{Watch, limit_reached, until_stopped, within};
use crate::agent::end::{end_by, explain_timeout, undelivered};
use crate::agent::failure;
use crate::agent::lines::AgentLine;
use crate::agent::options::Options;
use crate::agent::process::{Agent, InputClosed, Stdin};
use crate::agent::report::TurnReport;
use crate::agent::resume;
use crate::agent::skills::{self, CommandStyle, Skill};
use crate::agent::system_prompt::PromptFile;
use crate::agent::turn::{self, EndCause, Engine, Pipe};
use crate::oneshot::json::text;

/// Timeouts for the end of the process after its stdin was closed, and after SIGTERM.
const END: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1));

/// A conversation with pi.
pub(crate) struct PiConversation {
    settings: Pi,
    options: Options,
    skills: Vec<Skill>,
    prompt_file: Option<PromptFile>,
    mcp: Option<McpExtension>,
    agent: Option<Agent>,
    native: Option<String>,
    /// The conversation was resumed, and pi has not confirmed yet that it knows it.
    unproven: bool,
    /// A turn was given up before its end: the process may still be at it.
    busy: bool,
    /// The model's tokens are counted.
    counts: bool,
    report: TurnReport,
}

impl PiConversation {
    /// Begins a conversation, or continues the one that the session resumes. The process starts
    /// with the first turn.
    ///
    /// # Errors
    /// When the instructions cannot be written down.
    pub(super) fn new(
        session: &Session,
        settings: Pi,
        options: Options,
        mcp: Option<McpExtension>,
    ) -> Result<Self, Error> {
        let native = options.resumed_id();
        if native.is_some() {
            session.info(SessionInfo {
                native_session_id: native.clone(),
                ..SessionInfo::default()
            });
        }
        let (skills, problems) = skills::parse(&options.skills);
        for problem in problems {
            tracing::warn!(problem, "a skill is left out");
        }
        if let Some(commands) = skills::commands(&skills, CommandStyle::SkillColon) {
            session.info(SessionInfo {
                commands: Some(commands),
                ..SessionInfo::default()
            });
        }
        let prompt_file = options
            .system_prompt
            .as_deref()
            .map(PromptFile::new)
            .transpose()?;
        let unproven = native.is_some();
        let report = TurnReport::of_session(&options, unproven);
        Ok(Self {
            settings,
            options,
            skills,
            prompt_file,
            mcp,
            agent: None,
            native,
            unproven,
            busy: false,
            counts: false,
            report,
        })
    }

    /// Changes the options: a new process continues the conversation.
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
    pub(super) async fn turn(&mut self, turn: Turn, input: Input) {
        if self.busy || self.agent.as_mut().is_some_and(Agent::has_ended) {
            self.end_agent().await;
        }
        let prompt = self.prompt(turn.session(), input).await;
        let started = match prompt {
            Ok(prompt) => until_stopped(&turn, self.ensure(&turn))
                .await
                .map(|()| prompt),
            Err(error) => Err(error),
        };
        let prompt = match started {
            Ok(prompt) => prompt,
            Err(error) => return self.report.finish(turn, undelivered(&error), None).await,
        };
        self.busy = true;
        let Some(mut agent) = self.agent.take() else {
            let end = undelivered(&gone());
            return self.report.finish(turn, end, None).await;
        };
        let (is_sent, done) = self.serve(&turn, &mut agent, prompt).await;
        self.agent = Some(agent);
        match done {
            Ok(reader) => {
                (self.busy, self.counts) = (false, reader.counts);
                let mut end = reader.end();
                self.options.name_session(&mut end, self.native.as_deref());
                self.report
                    .finish(turn, end, self.options.model.as_deref())
                    .await;
            }
            Err(why) => {
                let ended = match self.agent.take() {
                    Some(agent) => agent.end(Duration::ZERO, END.1).await.error(),
                    None => gone(),
                };
                self.busy = false;
                let error = why.unwrap_or(ended);
                let end = if is_sent {
                    end_by(&error)
                } else {
                    undelivered(&error)
                };
                self.report.finish(turn, end, None).await;
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
        let mut prompt = json!({ "message": message });
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
                if self.native.is_some()
                    && error.failure().category == Some(Category::SessionNotFound) =>
            {
                resume::lost(turn.session(), error).await;
                (self.native, self.unproven) = (None, false);
                self.start(turn.session()).await
            }
            done => done,
        }
    }

    async fn start(&mut self, session: &Session) -> Result<(), Error> {
        let prompt_file = self.prompt_file.as_ref().map(PromptFile::path);
        let native = self.native.as_deref();
        let launch = command_line::launch(
            &self.settings,
            &self.options,
            native,
            &self.skills,
            prompt_file,
            self.mcp.as_ref(),
        );
        let mut agent = Agent::start(&launch, Stdin::Owned, Some(self.report.log())).await?;
        let greet = async {
            agent
                .send((&json!({ "id": STATE, "type": "get_state" })).into())
                .await?;
            let mut out = Vec::new();
            while let Some(line) = agent.next().await {
                let value = parsed(&line);
                if let (AgentLine::Whole(line), true) = (&line, value.is_null()) {
                    agent.log().raw(line);
                }
                PiReader::default().line(&value, &mut out);
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
        let greeted = match within(self.options.deadlines.start, greet).await {
            Ok(greeted) => greeted,
            Err(wait) => {
                let what = "the agent did not answer its start";
                let late = limit_reached("start_timeout", wait, what);
                let error = explain_timeout(late, None, &agent.stderr());
                agent.end(Duration::ZERO, END.1).await;
                return Err(error);
            }
        };
        let state = match greeted {
            Ok(Ok(state)) => state,
            Ok(Err(why)) => return Err(failure::failed(why, None)),
            Err(InputClosed) => {
                let ended = agent.end(Duration::ZERO, END.1).await;
                let unknown = failure::is_unknown_session(&ended.stderr)
                    || ended.stderr.contains("No session found");
                let error = ended.error();
                return Err(if unknown {
                    failure::with_category(Category::SessionNotFound, error.to_string(), None)
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

    /// Runs one prompt until the agent rests. Returns whether the prompt was sent. An error of
    /// `None` is the end of the process.
    async fn serve(
        &mut self,
        turn: &Turn,
        agent: &mut Agent,
        prompt: Value,
    ) -> (bool, Result<PiReader, Option<Error>>) {
        let running = PiTurn::new(PiReader::new(self.counts), prompt);
        let engine = Engine::new(running, Watch::new(self.options.deadlines));
        let engine = engine.begin(PiTurn::begin);
        let (running, finish) = turn::run(engine, agent, turn, &mut self.report).await;
        let done = match (finish.why, finish.how, running.refused) {
            (Some(why), ..) | (None, EndCause::Ended, Some(why)) => Err(Some(why)),
            (None, EndCause::Ended, None) => Ok(running.reader),
            (None, EndCause::Closed | EndCause::Late, _) => Err(None),
        };
        (running.unsent.is_none(), done)
    }
}

fn gone() -> Error {
    Error::new(Category::ProcessExit, "the agent has ended")
}
