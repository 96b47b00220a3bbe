//! A session: opened with an agent, and again when the agent has ended; its turns, and what comes between them.

mod end;
mod idle_listener;
mod run;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use trunkline_sdk::protocol::{Log, LogStream, SessionUpdate};
use trunkline_sdk::{Category, Error, Input, Session, SessionInfo, Turn, TurnComplete};

use self::idle_listener::IdleListener;
use self::run::Run;
use super::Acp;
use super::command_detection::{DetectedCommand, Note, detect};
use super::inbox::{Arrival, Item};
use super::link::WRITE;
use super::open::{self, Open, Opening};
use super::prompt;
use super::session::AcpSession;
use super::update::Reader;
use crate::agent::deadlines::{Watch, while_working};
use crate::agent::options::Options;
use crate::agent::report::Report;
use crate::agent::rpc::CallError;
use crate::agent::skills::{self, Roster};

/// How long an agent that did not end a cancelled turn in time has, before the next turn gives up.
const UNFINISHED: Duration = Duration::from_secs(30);

/// How long an agent has to tell its commands, before an input that may be one of them or call a skill. Some have none.
const COMMANDS: Duration = Duration::from_secs(1);

/// The answer to a prompt.
type Prompt = Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>>;

/// A session.
pub(crate) struct Conversation {
    acp: Acp,
    session: Session,
    options: Options,
    /// The agent's own id of the session, once there is one.
    native: Option<String>,
    state: State,
    report: Report,
    /// A prompt that was cancelled and has not ended yet.
    unfinished: Option<Prompt>,
    /// Instructions that go before the next prompt.
    preface: Option<String>,
    /// Skills that inputs may call.
    skills: Roster,
    /// The agent's commands were waited for.
    has_waited: bool,
}

/// How the session stands with its agent.
enum State {
    /// It is being opened.
    Opening(Task<Result<Open, Error>>),
    /// It is open, and something listens between turns.
    Open { acp_session: Arc<AcpSession>, kept: Vec<Box<dyn std::any::Any + Send + Sync>>, idle: IdleListener },
    /// Its agent has ended, or did not start: the next turn opens it.
    Closed,
}

/// A task that ends when this is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an open session is within a turn.
struct Opened {
    acp_session: Arc<AcpSession>,
    reader: Reader,
    kept: Vec<Box<dyn std::any::Any + Send + Sync>>,
}

/// How a turn went.
struct Went {
    end: Result<TurnComplete, Error>,
    /// What comes later of this turn is not told.
    is_mute: bool,
}

impl Conversation {
    /// Begins to open the session, and returns at once.
    pub(crate) fn new(acp: Acp, session: &Session, options: Options) -> Self {
        let resume = options.resume.as_ref();
        let history = resume.is_some_and(|resume| resume.history == Some(true));
        let native = resume.and_then(|resume| resume.native_session_id.clone()).filter(|id| !id.is_empty());
        let report = Report::new(options.tool_loop);
        let mut conversation = Self {
            acp,
            session: session.clone(),
            options,
            native,
            state: State::Closed,
            report,
            unfinished: None,
            preface: None,
            skills: Roster::default(),
            has_waited: false,
        };
        let resumed = conversation.native.is_some();
        conversation.begin(history, resumed);
        conversation
    }

    fn begin(&mut self, history: bool, resumed: bool) {
        let opening = Opening {
            acp: self.acp.clone(),
            session: self.session.clone(),
            options: self.options.clone(),
            native: self.native.clone(),
            history,
            resumed,
        };
        self.state = State::Opening(Task(tokio::spawn(opening.open())));
    }

    /// The open session; opened if it is not.
    async fn opened(&mut self) -> Result<Opened, Error> {
        if let State::Open { acp_session, idle, .. } = &self.state
            && acp_session.is_lost()
        {
            idle.stop();
            self.state = State::Closed;
            self.unfinished = None;
        }
        if matches!(self.state, State::Closed) {
            self.begin(false, false);
        }
        match &mut self.state {
            State::Opening(task) => {
                let opened = (&mut task.0).await;
                self.state = State::Closed;
                let opened = opened.map_err(|_| Error::other("opening the session was given up"))??;
                let Open { acp_session, reader, preface, kept, skills } = opened;
                (self.skills, self.has_waited) = (skills, false);
                self.native = Some(acp_session.id.clone());
                self.preface = preface.or(self.preface.take());
                Ok(Opened { acp_session, reader, kept })
            }
            State::Open { idle, .. } => {
                let reader = idle.end().await;
                match std::mem::replace(&mut self.state, State::Closed) {
                    State::Open { acp_session, kept, .. } => {
                        let reader = reader.unwrap_or_else(|| {
                            Reader::new(acp_session.link.initialized.quirks)
                                .with_skills(self.skills.commands())
                        });
                        Ok(Opened { acp_session, reader, kept })
                    }
                    State::Opening(_) | State::Closed => Err(Error::other("the session is not open")),
                }
            }
            State::Closed => Err(Error::other("the session is not open")),
        }
    }

    /// Lets the session be, until its next turn.
    fn rest(&mut self, opened: Opened, is_mute: bool) {
        let Opened { acp_session, reader, kept } = opened;
        if acp_session.is_lost() {
            self.state = State::Closed;
            self.unfinished = None;
            return;
        }
        let idle = IdleListener::begin(self.session.clone(), acp_session.clone(), reader, is_mute);
        self.state = State::Open { acp_session, kept, idle };
    }

    /// Serves a turn.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn turn(&mut self, turn: Turn, input: Input) -> Result<(), Error> {
        let opened = tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            opened = while_working(&turn, self.opened()) => opened,
        };
        let mut opened = opened?;
        let went = self.prompt(&turn, &opened.acp_session.clone(), &mut opened.reader, input).await;
        let native = opened.acp_session.id.clone();
        self.rest(opened, went.is_mute);
        let mut end = went.end?;
        end.session_params = self.options.session_params(Some(&native));
        end.native_session_id = Some(native);
        turn.finish(end);
        Ok(())
    }

    /// Waits for the end of an earlier turn that was cancelled.
    async fn finish_earlier(&mut self, turn: &Turn, acp_session: &AcpSession) -> Result<(), Error> {
        let Some(mut earlier) = self.unfinished.take() else { return Ok(()) };
        let until = Instant::now() + UNFINISHED;
        let mut mute = Some(Box::pin(acp_session.link.give_up_if_mute()));
        loop {
            tokio::select! {
                biased;
                () = turn.stopped() => {
                    self.unfinished = Some(earlier);
                    return Err(Error::stopped());
                }
                is_mute = answered(&mut mute), if mute.is_some() => {
                    mute = None;
                    if is_mute {
                        let text = "the agent answers nothing any more; the next input starts it again";
                        return Err(Error::new(Category::Timeout, text));
                    }
                }
                () = sleep_until(until) => {
                    self.unfinished = Some(earlier);
                    return Err(Error::new(
                        Category::Timeout,
                        "the agent has not ended the turn that was stopped before; close the session and resume it",
                    ));
                }
                arrival = acp_session.inbox.next() => match arrival {
                    Arrival::Item(Item::Request { id, .. }) => {
                        acp_session.link.peer.answer_now::<()>(&id, Err((-32603, "the turn is over".to_owned())));
                    }
                    Arrival::Taken => return Err(taken()),
                    Arrival::Item(Item::Update(_)) | Arrival::Lost(_) => {}
                },
                _ = &mut earlier => return Ok(()),
            }
        }
    }

    async fn prompt(
        &mut self,
        turn: &Turn,
        acp_session: &AcpSession,
        reader: &mut Reader,
        mut input: Input,
    ) -> Went {
        let failed = |error: Error| Went { end: Err(error), is_mute: false };
        if let Err(error) = self.finish_earlier(turn, acp_session).await {
            return failed(error);
        }
        reader.begin();
        acp_session.begin();
        let first_word = self.acp.first_word(&self.options).map(|wait| (Instant::now() + wait, wait));
        let watch = Watch::new(self.options.deadlines);
        let mut run = Run { first_word, ..Run::new(turn, acp_session, reader, &mut self.report, watch) };
        let hint = self.acp.login_hint();
        let may_call = self.skills.has_any() && skills::called(&input.content).is_some();
        let waits = may_call && !self.has_waited;
        self.has_waited |= waits;
        run.catch_up(waits.then(|| Instant::now() + COMMANDS)).await;
        if run.is_cut() {
            return Went { end: run.end(None, hint.as_deref()).await, is_mute: true };
        }
        let DetectedCommand { text, is_command, mut note } = detect(&input.content, &self.skills, run.reader);
        input.content = text.into_owned();
        if let Some(note) = note.take_if(|note| note.is_due(run.reader)) {
            tell(turn, note).await;
        }
        run.asks_model = !input.content.trim_start().starts_with('/');
        // What stands before a command hides it from the agent.
        let preface = self.preface.as_deref().filter(|_| !is_command);
        let (initialized, directories) = (&acp_session.link.initialized, &acp_session.directories);
        let blocks =
            prompt::blocks(&self.options, turn.session(), input, preface, initialized, directories).await;
        if turn.is_stopped() {
            run.asks.withdraw();
            return failed(Error::stopped());
        }
        run.catch_up(None).await;
        if run.is_cut() {
            return Went { end: run.end(None, hint.as_deref()).await, is_mute: true };
        }
        if !is_command {
            self.preface = None;
        }
        let params = json!({ "sessionId": acp_session.id, "prompt": blocks });
        let peer = acp_session.link.peer.clone();
        let mut call: Prompt = Box::pin(async move { peer.call("session/prompt", &params, None).await });
        let answer = run.until_answered(&mut call).await;
        let is_mute = run.is_cut();
        if let Some(note) = note.filter(|note| !is_mute && note.holds(run.reader)) {
            tell(turn, note).await;
        }
        if answer.is_none() {
            self.unfinished = Some(call);
        }
        Went { end: run.end(answer, hint.as_deref()).await, is_mute }
    }

    /// Changes the mode, the model or the effort.
    ///
    /// # Errors
    /// Why the agent did not take it.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let mut opened = self.opened().await?;
        let changed = self.change(&mut opened, update).await;
        self.rest(opened, false);
        changed
    }

    async fn change(&mut self, opened: &mut Opened, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let (acp_session, reader) = (&opened.acp_session, &mut opened.reader);
        let mode = update.mode.or(update.permission_mode).filter(|mode| !mode.is_empty());
        if let Some(mode) = mode {
            let mode = self.acp.kind().mode(&mode);
            open::choose_mode(&self.acp, acp_session, reader, &mode).await?;
            self.options.mode = Some(mode);
        }
        if let Some(model) = update.model.filter(|model| !model.is_empty()) {
            let model = self.acp.model(&model);
            open::choose_model(&self.acp, acp_session, reader, &model).await?;
            self.options.model = Some(model);
        }
        if let Some(effort) = update.reasoning_effort.filter(|effort| !effort.is_empty()) {
            let Some(choosing) = reader.choices.choose_effort(&acp_session.id, &effort) else {
                return Err(Error::other(format!("the agent has no effort {effort:?}")));
            };
            open::call_choice(&self.acp, acp_session, &choosing).await?;
            reader.choices.effort.current = Some(choosing.id);
            self.options.reasoning_effort = Some(effort);
        }
        let SessionInfo { mode, model, reasoning_effort, .. } = reader.choices.info();
        Ok(SessionInfo { mode, model, reasoning_effort, ..SessionInfo::default() })
    }

    /// Ends the session with its agent.
    pub(crate) async fn close(self) {
        let State::Open { acp_session, .. } = &self.state else { return };
        if acp_session.inbox.is_taken() {
            return;
        }
        if self.unfinished.is_some() {
            acp_session.link.cancel(&acp_session.id).await;
        }
        if acp_session.link.initialized.closes {
            let params = json!({ "sessionId": acp_session.id });
            // The session is over whether the agent answers or not.
            let _ = acp_session.link.peer.call::<_, Value>("session/close", &params, Some(WRITE)).await;
        }
    }
}

/// Tells what was not put into the input.
async fn tell(turn: &Turn, note: Note) {
    let log = Log { stream: Some(LogStream::Meta), content: note.text, ..Log::default() };
    tokio::select! {
        biased;
        () = turn.emit(log) => {}
        () = turn.stopped() => {}
    }
}

/// The failure of a turn whose conversation another session has resumed.
fn taken() -> Error {
    let text = "another session has resumed this one's conversation; close that one, or this, and send the input again";
    Error::new(Category::Busy, text)
}

/// What a future gives, if there is one.
async fn answered<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
