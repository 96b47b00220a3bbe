//! A session: opened with an agent, and again when the agent has ended; its turns, and what comes
//! between them.

mod earlier;
mod end;
mod idle_listener;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use trunkline_sdk::protocol::{Delivered, SessionUpdate};
use trunkline_sdk::{Category, Error, Input, Session, SessionInfo, Status, Turn, TurnComplete};

use self::earlier::CancelledPrompt;
use self::idle_listener::spawn_listener;
use self::turn::AcpTurn;
use super::Acp;
use super::choose;
use super::command_detection::{DetectedCommand, detect};
use super::line::{Command, Prompt, SessionLine};
use super::open::{OpenedSession, Opening};
use super::process::WRITE;
use super::prompt;
use super::session::AcpSession;
use super::translate::UpdateReader;
use crate::agent::deadlines::{Watch, until_stopped, while_working};
use crate::agent::end::{end_by, undelivered};
use crate::agent::options::{Options, filled};
use crate::agent::report::TurnReport;
use crate::agent::rpc::CallError;
use crate::agent::skills::Roster;
use crate::agent::turn::{Dialect, EffectList, Engine, IdleTask, emit, finish_earlier, run};

/// Timeout for the agent's list of commands, before an input that may be one of them or call a
/// skill. Some agents have none.
const COMMANDS: Duration = Duration::from_secs(1);

/// The code of a session that an agent does not know.
const NOT_FOUND: i64 = -32002;

/// The most updates that are taken before the prompt is sent.
const MOST_BEFORE: usize = 1024;

/// A session.
pub(crate) struct AcpConversation {
    acp: Acp,
    session: Session,
    options: Options,
    /// The agent's own id of the session, once there is one.
    native: Option<String>,
    /// Values of the agent's own options that the host has set, by their ids.
    own_options: BTreeMap<String, Value>,
    state: ConversationState,
    report: TurnReport,
    /// A prompt that was cancelled and has not ended yet.
    unfinished: Option<Prompt>,
    /// Instructions that go before the next prompt.
    preface: Option<String>,
    /// Skills that inputs may call.
    skills: Roster,
    /// The agent's commands were waited for.
    has_waited: bool,
    /// A turn has completed: there are credentials.
    has_answered: bool,
}

/// State of the session with its agent.
enum ConversationState {
    /// Being opened.
    Opening(AbortOnDropHandle<Result<OpenedSession, Error>>),
    /// Open; a listener runs between turns.
    Open {
        acp_session: Arc<AcpSession>,
        idle: IdleTask<UpdateReader>,
    },
    /// The agent has ended, or did not start: the next turn opens the session.
    Closed,
}

/// An open session within a turn.
struct Opened {
    acp_session: Arc<AcpSession>,
    reader: UpdateReader,
}

/// Outcome of a turn.
struct TurnOutcome {
    end: TurnComplete,
    /// Later messages of this turn are dropped.
    is_mute: bool,
    /// The agent has lost the session, and has taken nothing of the input.
    is_unknown: bool,
}

impl AcpConversation {
    /// Begins to open the session, and returns at once.
    pub(crate) fn new(acp: Acp, session: &Session, options: Options) -> Self {
        let resume = options.resume.as_ref();
        let history = resume.is_some_and(|resume| resume.history == Some(true));
        let native = options.resumed_id();
        let report = TurnReport::of_session(&options, native.is_some());
        let mut conversation = Self {
            acp,
            session: session.clone(),
            options,
            native,
            own_options: BTreeMap::new(),
            state: ConversationState::Closed,
            report,
            unfinished: None,
            preface: None,
            skills: Roster::default(),
            has_waited: false,
            has_answered: false,
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
            log: self.report.log().clone(),
            native: self.native.clone(),
            own_options: self.own_options.clone(),
            history,
            resumed,
        };
        self.state =
            ConversationState::Opening(AbortOnDropHandle::new(tokio::spawn(opening.open())));
    }

    /// The open session; opened if it is not.
    async fn opened(&mut self) -> Result<Opened, Error> {
        if let ConversationState::Open { acp_session, .. } = &self.state
            && acp_session.is_lost()
        {
            self.state = ConversationState::Closed;
            self.unfinished = None;
        }
        if matches!(self.state, ConversationState::Closed) {
            self.begin(false, false);
        }
        match &mut self.state {
            ConversationState::Opening(task) => {
                let opened = task.await;
                self.state = ConversationState::Closed;
                let opened =
                    opened.map_err(|_| Error::other("opening the session was given up"))??;
                let OpenedSession {
                    acp_session,
                    reader,
                    preface,
                    skills,
                } = opened;
                self.skills = skills;
                self.has_waited = false;
                self.native = Some(acp_session.id.clone());
                self.preface = preface.or(self.preface.take());
                Ok(Opened {
                    acp_session,
                    reader,
                })
            }
            ConversationState::Open { acp_session, idle } => {
                let reader = idle.end().await;
                let acp_session = acp_session.clone();
                self.state = ConversationState::Closed;
                let reader = reader.unwrap_or_else(|| {
                    UpdateReader::new(acp_session.link.initialized.quirks)
                        .with_skills(self.skills.commands())
                });
                Ok(Opened {
                    acp_session,
                    reader,
                })
            }
            ConversationState::Closed => Err(Error::other("the session is not open")),
        }
    }

    /// Lets the session be, until its next turn.
    fn rest(&mut self, opened: Opened, is_mute: bool) {
        let Opened {
            acp_session,
            reader,
        } = opened;
        if acp_session.is_lost() {
            self.state = ConversationState::Closed;
            self.unfinished = None;
            return;
        }
        let idle = spawn_listener(self.session.clone(), acp_session.clone(), reader, is_mute);
        self.state = ConversationState::Open { acp_session, idle };
    }

    /// Serves a turn.
    pub(crate) async fn turn(&mut self, turn: Turn, input: Input) {
        let mut opened = match self.ready_for(&turn).await {
            Ok(opened) => opened,
            Err(error) => return self.report.finish(turn, undelivered(&error), None).await,
        };
        let mut went = self.prompt(&turn, &mut opened, input.clone()).await;
        if went.is_unknown {
            // An agent loses a session whose own child process has died, and knows it again once it
            // has loaded it.
            drop(opened);
            opened = match self.opened_for(&turn).await {
                Ok(opened) => opened,
                Err(error) => return self.report.finish(turn, undelivered(&error), None).await,
            };
            went = self.prompt(&turn, &mut opened, input).await;
        }
        let native = opened.acp_session.id.clone();
        let title = opened.reader.title.clone();
        self.rest(opened, went.is_mute);
        let mut end = went.end;
        self.has_answered |= end.status == Some(Status::Completed);
        let mut params = self.options.session_params(&native);
        params.display_id = title.or(params.display_id);
        end.session_params = params.to_json();
        end.native_session_id = Some(native);
        self.report
            .finish(turn, end, self.options.model.as_deref())
            .await;
    }

    /// The open session, once its agent is done with an earlier turn. An agent that does not end
    /// that turn is retired, and the conversation is resumed in another process.
    async fn ready_for(&mut self, turn: &Turn) -> Result<Opened, Error> {
        let opened = self.opened_for(turn).await?;
        match self.finish_earlier(turn, &opened.acp_session).await {
            Ok(true) => return Ok(opened),
            Ok(false) => {}
            Err(error) => {
                self.rest(opened, true);
                return Err(error);
            }
        }
        let link = opened.acp_session.link.clone();
        drop(opened);
        link.peer.retire();
        if !link.initialized.loads && !link.initialized.resumes {
            let text = "the agent did not end the turn that was stopped before, and cannot resume its conversation; \
                        the next input begins a new one";
            return Err(Error::new(Category::Timeout, text));
        }
        self.opened_for(turn).await
    }

    /// The open session, unless the turn is stopped first.
    async fn opened_for(&mut self, turn: &Turn) -> Result<Opened, Error> {
        until_stopped(turn, while_working(turn, self.opened())).await
    }

    /// Waits for the end of an earlier turn that was cancelled. Returns false if the agent does not end it.
    ///
    /// # Errors
    /// Why this turn cannot run.
    async fn finish_earlier(
        &mut self,
        turn: &Turn,
        acp_session: &AcpSession,
    ) -> Result<bool, Error> {
        let Some(prompt) = self.unfinished.take() else {
            return Ok(true);
        };
        let silence = self.options.deadlines.silence;
        let mut line = SessionLine::after(acp_session, prompt);
        let report = &mut self.report;
        let (_, end) = finish_earlier(CancelledPrompt, silence, &mut line, turn, report).await;
        if end.is_err() {
            self.unfinished = line.prompt.take();
        }
        end
    }

    /// Takes what has come before the prompt. If a time is given, waits until then for the agent's commands.
    async fn catch_up(
        run: &mut AcpTurn<'_>,
        line: &mut SessionLine<'_>,
        turn: &Turn,
        commands: Option<Instant>,
        out: &mut EffectList<Command>,
    ) {
        for _ in 0..MOST_BEFORE {
            if run.is_cut || turn.is_stopped() {
                return;
            }
            let commands = commands.filter(|_| !run.reader.knows_commands());
            let arrival = match (line.inbox().take(), commands) {
                (None, Some(until)) => tokio::select! {
                    biased;
                    () = turn.stopped() => None,
                    arrival = timeout_at(until, line.inbox().next()) => arrival.ok(),
                },
                (arrival, _) => arrival,
            };
            let Some(arrival) = arrival else { return };
            if let Some(message) = line.read(arrival) {
                run.message(message, Instant::now(), out);
            }
        }
    }

    async fn prompt(&mut self, turn: &Turn, opened: &mut Opened, mut input: Input) -> TurnOutcome {
        let acp_session = &*opened.acp_session;
        let reader = &mut opened.reader;
        let _running = acp_session.link.peer.begin_turn();
        reader.begin();
        acp_session.begin();
        let first_word = self
            .acp
            .first_word(&self.options)
            .map(|wait| (Instant::now() + wait, wait));
        let may_call =
            self.skills.has_any() && trunkline_sdk::skill::called(&input.content).is_some();
        let waits = may_call && !self.has_waited;
        self.has_waited |= waits;
        let mut running = AcpTurn::new(acp_session, reader, first_word, self.has_answered);
        let mut out = EffectList::default();
        let mut line = SessionLine::new(acp_session);
        let commands = waits.then(|| Instant::now() + COMMANDS);
        Self::catch_up(&mut running, &mut line, turn, commands, &mut out).await;
        let DetectedCommand {
            text,
            is_command,
            mut note,
        } = detect(&input.content, &self.skills, running.reader);
        input.content = text.into_owned();
        if let Some(note) = note.take_if(|note| note.is_due(running.reader)) {
            out.emit(note.log());
        }
        running.asks_model = !input.content.trim_start().starts_with('/');
        // Text before a command hides it from the agent.
        let preface = self.preface.as_deref().filter(|_| !is_command);
        let initialized = &acp_session.link.initialized;
        let directories = &acp_session.directories;
        let blocks = prompt::blocks(
            &self.options,
            turn.session(),
            input,
            preface,
            initialized,
            directories,
        )
        .await;
        Self::catch_up(&mut running, &mut line, turn, None, &mut out).await;
        if !turn.is_stopped() && !running.is_cut {
            if !is_command {
                self.preface = None;
            }
            running.is_prompted = true;
            out.send(Command::Prompt(json!(blocks)));
        }
        let engine =
            Engine::new(running, Watch::new(self.options.deadlines)).begin(|_, begin| *begin = out);
        let (mut running, finish) = run(engine, &mut line, turn, &mut self.report).await;
        self.unfinished = line.prompt.take();
        drop(line);
        if !running.is_prompted && turn.is_stopped() {
            acp_session.decline(running.requests);
            return TurnOutcome {
                end: undelivered(&Error::stopped()),
                is_mute: false,
                is_unknown: false,
            };
        }
        let is_prompted = running.is_prompted;
        let is_mute = finish.why.is_some();
        let is_unknown = !is_mute
            && !running.said
            && matches!(&running.prompted, Some(Err(CallError::Rpc(error))) if error.code == NOT_FOUND);
        let mut out = EffectList::default();
        if let Some(note) = note.filter(|note| !is_mute && note.holds(running.reader)) {
            out.emit(note.log());
        }
        let login_hint = self.acp.login_hint();
        let end = running.end(initialized, finish.why, login_hint.as_deref(), &mut out);
        acp_session.decline(running.requests);
        let mut end = match emit(out, turn, &mut self.report).await {
            Ok(()) => end,
            Err(error) => end_by(&error),
        };
        if !is_prompted {
            end.delivered = Some(Delivered::No);
        }
        TurnOutcome {
            end,
            is_mute,
            is_unknown,
        }
    }

    /// Changes the mode, the model, the effort or options of the agent's own.
    ///
    /// # Errors
    /// Why the agent did not take it. An option of its own that cannot be applied is reported.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let mut opened = self.opened().await?;
        let changed = self.change(&mut opened, update).await;
        self.rest(opened, false);
        changed
    }

    async fn change(
        &mut self,
        opened: &mut Opened,
        update: SessionUpdate,
    ) -> Result<SessionInfo, Error> {
        let acp_session = &opened.acp_session;
        let reader = &mut opened.reader;
        if let Some(mode) = filled(update.mode.or(update.permission_mode)) {
            let mode = self.acp.agent().mode_name(&mode).to_owned();
            choose::choose_mode(&self.acp, acp_session, reader, &mode).await?;
            self.options.mode = Some(mode);
        }
        if let Some(model) = filled(update.model) {
            let model = self.acp.model(&model);
            choose::choose_model(&self.acp, acp_session, reader, &model).await?;
            self.options.model = Some(model);
        }
        if let Some(effort) = filled(update.reasoning_effort) {
            choose::choose_effort(&self.acp, acp_session, reader, &effort).await?;
            if let Some(option) = &reader.choices.effort.option {
                self.own_options.remove(option);
            }
            self.options.reasoning_effort = Some(effort);
        }
        for (id, value) in update.options.into_iter().flatten() {
            let value = value.to::<Value>().unwrap_or_default();
            match choose::choose_option(&self.acp, acp_session, reader, &id, &value).await {
                Ok(()) => drop(self.own_options.insert(id, value)),
                Err(why) => self.session.emit(choose::not_applied(&id, &why)).await,
            }
        }
        let SessionInfo {
            mode,
            model,
            reasoning_effort,
            options,
            ..
        } = reader.choices.info();
        Ok(SessionInfo {
            mode,
            model,
            reasoning_effort,
            options,
            ..SessionInfo::default()
        })
    }

    /// Ends the session with its agent.
    pub(crate) async fn close(self) {
        let ConversationState::Open { acp_session, .. } = &self.state else {
            return;
        };
        if acp_session.inbox.is_taken() {
            return;
        }
        if self.unfinished.is_some() {
            acp_session.link.cancel(&acp_session.id).await;
        }
        if acp_session.link.initialized.closes {
            let params = json!({ "sessionId": acp_session.id });
            // The session is over whether the agent answers or not.
            let _ = acp_session
                .link
                .peer
                .call::<_, Value>("session/close", &params, Some(WRITE))
                .await;
        }
    }
}

/// The failure of a turn whose conversation another session has resumed.
fn taken() -> Error {
    let text = "another session has resumed this one's conversation; close that one, or this, and send the input again";
    Error::new(Category::Busy, text)
}
