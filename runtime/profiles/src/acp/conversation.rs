//! A session: opened with an agent, and again when the agent has ended; its turns, and what comes between them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use trunkline_sdk::protocol::{AdapterBody, Output, SessionUpdate};
use trunkline_sdk::{Category, Error, Input, Json, Session, SessionInfo, Status, Turn, TurnComplete};

use super::Acp;
use super::answer::Answer;
use super::asks::Asks;
use super::inbox::{Arrival, Item};
use super::link::failure;
use super::open::{self, Open, Opening};
use super::prompt;
use super::room::{Room, Voice};
use super::update::{Reader, Told, When};
use crate::agent::failure as failures;
use crate::agent::options::Options;
use crate::agent::patience::{self, Patience, Watch};
use crate::agent::report::Report;
use crate::agent::rpc::CallError;

/// How long an agent has to end a turn that is cancelled: less than the SDK's grace after a stop.
const CANCEL: Duration = Duration::from_millis(1600);

/// How long an agent that did not end a cancelled turn in time has, before the next turn gives up.
const UNFINISHED: Duration = Duration::from_secs(30);

/// How long a notification may take to be written.
const WRITE: Duration = Duration::from_millis(200);

/// The longest piece of text in one message, in bytes.
const PIECE: usize = 512 * 1024;

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
}

/// How the session stands with its agent.
enum State {
    /// It is being opened.
    Opening(Task<Result<Open, Error>>),
    /// It is open, and something listens between turns.
    Open { room: Arc<Room>, kept: Vec<Box<dyn std::any::Any + Send + Sync>>, idle: Idle },
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

/// What listens between turns.
struct Idle {
    stop: CancellationToken,
    task: Task<Reader>,
}

/// What an open session is within a turn.
struct Opened {
    room: Arc<Room>,
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
        let native = resume.and_then(native_id);
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
        if let State::Open { room, idle, .. } = &self.state
            && room.link.peer.is_gone()
        {
            idle.stop.cancel();
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
                let Open { room, reader, preface, kept } = opened;
                self.native = Some(room.id.clone());
                self.preface = preface.or(self.preface.take());
                Ok(Opened { room, reader, kept })
            }
            State::Open { idle, .. } => {
                idle.stop.cancel();
                let reader = (&mut idle.task.0).await;
                match std::mem::replace(&mut self.state, State::Closed) {
                    State::Open { room, kept, .. } => {
                        let reader = reader.unwrap_or_else(|_| Reader::new(room.link.hello.quirks));
                        Ok(Opened { room, reader, kept })
                    }
                    State::Opening(_) | State::Closed => Err(Error::other("the session is not open")),
                }
            }
            State::Closed => Err(Error::other("the session is not open")),
        }
    }

    /// Lets the session be, until its next turn.
    fn rest(&mut self, opened: Opened, is_mute: bool) {
        let Opened { room, reader, kept } = opened;
        if room.link.peer.is_gone() {
            self.state = State::Closed;
            self.unfinished = None;
            return;
        }
        let stop = CancellationToken::new();
        let listening = listen(self.session.clone(), room.clone(), reader, stop.clone(), is_mute);
        let idle = Idle { stop, task: Task(tokio::spawn(listening)) };
        self.state = State::Open { room, kept, idle };
    }

    /// Serves a turn.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn turn(&mut self, turn: Turn, input: Input) -> Result<(), Error> {
        let mut working = Watch::new(Patience::default());
        let opened = tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            opened = self.opened() => opened,
            _ = working.expired(&turn) => return Err(Error::other("no deadline has passed")),
        };
        let mut opened = opened?;
        let went = self.prompt(&turn, &opened.room.clone(), &mut opened.reader, input).await;
        let native = opened.room.id.clone();
        self.rest(opened, went.is_mute);
        let mut end = went.end?;
        let cwd = open::cwd(&self.options);
        end.session_params = Json::of(&json!({ "native_session_id": native, "cwd": cwd })).ok();
        end.native_session_id = Some(native);
        turn.finish(end);
        Ok(())
    }

    /// Waits for the end of an earlier turn that was cancelled.
    async fn finish_earlier(&mut self, turn: &Turn, room: &Room) -> Result<(), Error> {
        let Some(mut earlier) = self.unfinished.take() else { return Ok(()) };
        let until = Instant::now() + UNFINISHED;
        let mut mute = Some(Box::pin(room.link.give_up_if_mute()));
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
                arrival = room.inbox.next() => {
                    if let Arrival::Item(Item::Request { id, .. }) = arrival {
                        room.link.peer.answer_now::<()>(&id, Err((-32603, "the turn is over".to_owned())));
                    }
                }
                _ = &mut earlier => return Ok(()),
            }
        }
    }

    async fn prompt(&mut self, turn: &Turn, room: &Room, reader: &mut Reader, input: Input) -> Went {
        let failed = |error: Error| Went { end: Err(error), is_mute: false };
        if let Err(error) = self.finish_earlier(turn, room).await {
            return failed(error);
        }
        reader.begin();
        room.begin();
        let hello = &room.link.hello;
        let asks_model = !input.content.trim_start().starts_with('/');
        let preface = self.preface.as_deref();
        let blocks =
            prompt::blocks(&self.options, turn.session(), input, preface, hello, &room.directories).await;
        if turn.is_stopped() {
            return failed(Error::stopped());
        }
        self.preface = None;
        let params = json!({ "sessionId": room.id, "prompt": blocks });
        let peer = room.link.peer.clone();
        let mut call: Prompt = Box::pin(async move { peer.call("session/prompt", &params, None).await });
        let mut run = Run {
            turn,
            room,
            reader,
            report: &mut self.report,
            answer: Answer::new(hello.quirks.failures_as_text),
            asks: Asks::new(room, Voice::Turn(turn)),
            watch: Watch::new(self.options.patience),
            first_word: self.acp.first_word(&self.options).map(|wait| (Instant::now() + wait, wait)),
            cut: None,
            was_denied: false,
            asks_model,
            said: false,
        };
        let answer = run.until_answered(&mut call).await;
        let is_mute = run.cut.is_some();
        if answer.is_none() {
            self.unfinished = Some(call);
        }
        let hint = self.acp.login_hint();
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
        let (room, reader) = (&opened.room, &mut opened.reader);
        let mode = update.mode.or(update.permission_mode).filter(|mode| !mode.is_empty());
        if let Some(mode) = mode {
            let mode = self.acp.kind().mode(&mode);
            open::choose_mode(&self.acp, room, reader, &mode).await?;
            self.options.mode = Some(mode);
        }
        if let Some(model) = update.model.filter(|model| !model.is_empty()) {
            let model = self.acp.model(&model);
            open::choose_model(&self.acp, room, reader, &model).await?;
            self.options.model = Some(model);
        }
        if let Some(effort) = update.reasoning_effort.filter(|effort| !effort.is_empty()) {
            let Some(choosing) = reader.choices.choose_effort(&room.id, &effort) else {
                return Err(Error::other(format!("the agent has no effort {effort:?}")));
            };
            open::call_choice(&self.acp, room, &choosing).await?;
            reader.choices.effort.current = Some(choosing.id);
            self.options.reasoning_effort = Some(effort);
        }
        let SessionInfo { mode, model, reasoning_effort, .. } = reader.choices.info();
        Ok(SessionInfo { mode, model, reasoning_effort, ..SessionInfo::default() })
    }

    /// Ends the session with its agent.
    pub(crate) async fn close(self) {
        let State::Open { room, .. } = &self.state else { return };
        let params = json!({ "sessionId": room.id });
        if self.unfinished.is_some() {
            // An agent that has ended needs no word.
            let _ = timeout(WRITE, room.link.peer.notify("session/cancel", &params)).await;
        }
        if room.link.hello.closes {
            // The session is over whether the agent answers or not.
            let _ = room.link.peer.call::<_, Value>("session/close", &params, Some(WRITE)).await;
        }
    }
}

/// A turn that runs.
struct Run<'a> {
    turn: &'a Turn,
    room: &'a Room,
    reader: &'a mut Reader,
    report: &'a mut Report,
    answer: Answer,
    asks: Asks<'a>,
    watch: Watch,
    /// Until when something must be said, and how long that is.
    first_word: Option<(Instant, Duration)>,
    /// It was cancelled: until when its end is waited for, and why, unless by a stop.
    cut: Option<(Instant, Option<Error>)>,
    was_denied: bool,
    /// The model is asked, not the agent alone, as its own commands do.
    asks_model: bool,
    said: bool,
}

impl Run<'_> {
    /// Runs it until its prompt is answered; nothing where the agent did not end a cancelled turn in time.
    async fn until_answered(&mut self, call: &mut Prompt) -> Option<Result<Value, CallError>> {
        loop {
            let until = self.cut.as_ref().map(|(until, _)| *until);
            let is_cut = until.is_some();
            // First what ends the turn, so that no flood keeps it from ending; the prompt's answer last, since all that
            // was sent before it belongs to the turn.
            tokio::select! {
                biased;
                () = self.turn.stopped(), if !is_cut => self.cancel(None).await,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if is_cut => return None,
                error = self.watch.expired(self.turn), if !is_cut => {
                    let error = self.explained(error);
                    self.cancel(Some(error)).await;
                }
                () = sleep_until(self.first_word.map_or_else(Instant::now, |(at, _)| at)), if self.first_word.is_some() && !is_cut => {
                    let wait = self.first_word.take().map(|(_, wait)| wait).unwrap_or_default();
                    let late = patience::late("said nothing within", wait);
                    let why = format!("{late}, as it does without a provider: check its credentials and configuration");
                    self.cancel(Some(Error::new(Category::Auth, why))).await;
                }
                settled = self.asks.settled() => {
                    self.was_denied |= settled.was_denied;
                    if let Some(call) = &settled.denied {
                        self.reader.denied(call);
                    }
                    if self.asks.is_empty() {
                        self.watch.resume();
                    }
                    if settled.ends_turn && !is_cut {
                        let denied = Error::new(Category::PermissionDenied, "the denial ended the turn");
                        self.cancel(Some(denied)).await;
                    }
                }
                arrival = self.room.inbox.next() => {
                    self.watch.heard();
                    self.arrived(arrival).await;
                }
                answer = &mut *call => {
                    while let Some(arrival) = self.room.inbox.take() {
                        self.arrived(arrival).await;
                    }
                    return Some(answer);
                }
            }
        }
    }

    /// Cancels the turn.
    async fn cancel(&mut self, why: Option<Error>) {
        self.cut = Some((Instant::now() + CANCEL, why));
        let params = json!({ "sessionId": self.room.id });
        // An agent that takes no input any more ends the turn by its own end, or not in time.
        let _ = timeout(WRITE, self.room.link.peer.notify("session/cancel", &params)).await;
    }

    async fn arrived(&mut self, arrival: Arrival) {
        let mut told = Vec::new();
        match arrival {
            Arrival::Item(Item::Update(params)) => {
                let Ok(params) = serde_json::from_str::<Value>(params.get()) else { return };
                let update = params.get("update").unwrap_or(&Value::Null);
                let terminals = &self.room.terminals;
                self.reader.update(update, When::Now, &|id| terminals.shown(id), &mut told);
            }
            Arrival::Item(Item::Request { id, method, params }) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                self.asks.take(id, method, params, self.reader, &mut told);
                if !self.asks.is_empty() {
                    self.watch.pause();
                }
            }
            Arrival::Lost(lost) => {
                let text = format!("the agent sent more than was read: {lost} updates are lost");
                if self.cut.is_none() {
                    self.cancel(Some(Error::new(Category::Oversize, text))).await;
                }
            }
        }
        self.tell(told).await;
    }

    async fn tell(&mut self, told: Vec<Told>) {
        for told in told {
            if !matches!(told, Told::Info(_)) {
                self.first_word = None;
            }
            match told {
                Told::Text(output) => {
                    for output in self.answer.say(output) {
                        self.say(output).await;
                    }
                }
                Told::Info(info) => self.turn.session().info(*info),
                Told::SystemError => self.answer.system_error(),
                Told::Event(event) => {
                    if !matches!(event, AdapterBody::ContextUsage(_))
                        && let Some(held) = self.answer.goes_on()
                    {
                        self.say(held).await;
                    }
                    self.emit(event).await;
                }
            }
        }
    }

    /// A piece of the answer, in messages that every host reads.
    async fn say(&mut self, output: Output) {
        let mut rest = output.content.as_str();
        self.said |= !rest.is_empty();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            let piece = Output { content: piece.to_owned(), ..rest_of(&output) };
            self.emit(piece.into()).await;
            rest = after;
        }
    }

    /// Tells an event, unless the turn is stopped while the host takes no more.
    async fn emit(&mut self, event: AdapterBody) {
        let until = self.cut.as_ref().map(|(until, _)| *until);
        let emitted = tokio::select! {
            biased;
            emitted = self.report.emit(self.turn, event) => emitted,
            () = self.turn.stopped(), if until.is_none() => Ok(()),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => Ok(()),
        };
        if let Err(error) = emitted
            && self.cut.is_none()
        {
            self.cancel(Some(error)).await;
        }
    }

    /// A silence explained by what the agent has said on stderr, if that names a cause.
    fn explained(&self, error: Error) -> Error {
        let said = self.room.link.peer.stderr();
        match failures::classify(&said, None) {
            Category::Other => error,
            category => {
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                failures::of(category, format!("{error}; it said: {last}"), None)
            }
        }
    }

    /// How the turn ended.
    async fn end(
        mut self,
        answer: Option<Result<Value, CallError>>,
        login_hint: Option<&str>,
    ) -> Result<TurnComplete, Error> {
        let mut told = Vec::new();
        self.reader.end(&mut told);
        let hello = &self.room.link.hello;
        let nothing = Value::Null;
        let said = answer.as_ref().and_then(|answer| answer.as_ref().ok()).unwrap_or(&nothing);
        let usage = self.reader.totals.of_turn(said, hello.quirks.running_usage);
        let has_usage =
            usage.as_ref().is_some_and(|usage| usage.output_tokens.is_some_and(|tokens| tokens > 0));
        let held = self.answer.end(said, has_usage);
        if let Ok(Some(held)) = &held {
            self.say(held.clone()).await;
        }
        self.tell(told).await;
        let is_nothing = self.reader.totals.is_nothing(usage.as_ref());
        let was_cut_off = hello.quirks.hides_cuts && self.asks_model && self.said && is_nothing;
        let was_denied = self.was_denied;
        let cut = self.cut.take();
        self.asks.withdraw();
        let base = TurnComplete {
            model: usage.as_ref().and_then(|usage| usage.model.clone()),
            usage,
            ..TurnComplete::default()
        };
        match cut {
            Some((_, Some(why))) => return Err(why),
            Some((_, None)) => {
                let answered = matches!(&answer, Some(Ok(_)));
                let stop_reason = answered.then(|| "cancelled".to_owned());
                return Ok(TurnComplete { status: Some(Status::Stopped), stop_reason, ..base });
            }
            None => {}
        }
        match answer {
            None => Err(Error::new(Category::Timeout, "the agent did not end its turn")),
            Some(Err(error)) => {
                let what = format!("{} failed", hello.called());
                Err(failure(&error, &what, hello, login_hint))
            }
            Some(Ok(_)) if held.is_err() => {
                let text = held.err().unwrap_or_default();
                let status = text.split_whitespace().next().and_then(|word| word.parse().ok());
                let status = status.filter(|status: &u16| (400..600).contains(status));
                Err(failures::failed(text, status))
            }
            Some(Ok(_)) if was_cut_off => {
                Err(Error::other("the model's answer was cut off: the agent counts no tokens for it"))
            }
            Some(Ok(answer)) => Ok(stopped_by(&answer, base, was_denied)),
        }
    }
}

/// What a future gives, if there is one.
async fn answered<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The end that a stop reason means.
fn stopped_by(answer: &Value, base: TurnComplete, was_denied: bool) -> TurnComplete {
    let reason = answer.get("stopReason").and_then(Value::as_str).unwrap_or("end_turn");
    let failure =
        |category: Category, message: &str| Some(trunkline_sdk::protocol::Failure::new(category, message));
    let (status, error) = match reason {
        // Some agents end a turn by themselves when a permission is denied.
        "cancelled" if was_denied => (Status::Completed, None),
        "cancelled" => (Status::Stopped, None),
        "refusal" => (Status::Refused, failure(Category::Other, "the model refused to go on")),
        "max_tokens" => {
            (Status::Limit, failure(Category::ContextExhausted, "the model has used up its tokens"))
        }
        "max_turn_requests" => (
            Status::Limit,
            failure(Category::MaxTurns, "the model was asked as often as it may be in one turn"),
        ),
        _ => (Status::Completed, None),
    };
    TurnComplete {
        status: Some(status),
        stop_reason: Some(reason.chars().take(100).collect()),
        error,
        ..base
    }
}

/// The agent's own id of the session that is resumed.
fn native_id(resume: &trunkline_sdk::protocol::Resume) -> Option<String> {
    let params = || {
        let params: Value = resume.params.as_ref()?.to().ok()?;
        params.get("native_session_id")?.as_str().map(str::to_owned)
    };
    resume.native_session_id.clone().or_else(params).filter(|id| !id.is_empty())
}

/// Listens between turns: what is learnt of the session is told, and what the agent does on its own.
async fn listen(
    session: Session,
    room: Arc<Room>,
    mut reader: Reader,
    stop: CancellationToken,
    is_mute: bool,
) -> Reader {
    let mut asks = Asks::new(&room, Voice::Session(&session));
    loop {
        let arrival = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            settled = asks.settled() => {
                if let Some(call) = &settled.denied {
                    reader.denied(call);
                }
                continue;
            }
            arrival = room.inbox.next() => arrival,
        };
        let mut told = Vec::new();
        match arrival {
            Arrival::Item(Item::Update(params)) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                let update = params.get("update").unwrap_or(&Value::Null);
                reader.update(update, When::Now, &|id| room.terminals.shown(id), &mut told);
            }
            Arrival::Item(Item::Request { id, method, params }) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                asks.take(id, method, params, &mut reader, &mut told);
            }
            Arrival::Lost(lost) => tracing::warn!(lost, "updates of an agent between turns are lost"),
        }
        for told in told {
            let event = match told {
                Told::Info(info) => AdapterBody::from(*info),
                Told::Text(output) if !is_mute => output.into(),
                Told::Event(event) if !is_mute => event,
                Told::Text(_) | Told::Event(_) | Told::SystemError => continue,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = session.emit(event) => {}
            }
        }
    }
    asks.withdraw();
    reader
}

/// A text's other fields.
fn rest_of(output: &Output) -> Output {
    Output {
        content: String::new(),
        channel: output.channel.clone(),
        message_id: output.message_id.clone(),
        parent_tool_call_id: output.parent_tool_call_id.clone(),
        history: output.history,
    }
}
