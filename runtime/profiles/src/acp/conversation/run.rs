//! A turn that runs: the answer to its prompt, what comes before that, and its cancellation.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};
use trunkline_sdk::protocol::{AdapterBody, Output};
use trunkline_sdk::{Category, Error, Turn};

use super::super::answer::Answer;
use super::super::asks::Asks;
use super::super::inbox::{Arrival, Item};
use super::super::media::{LARGEST, Media, Source};
use super::super::session::{AcpSession, Voice};
use super::super::update::{Reader, UpdateEvent, When};
use super::{Prompt, taken};
use crate::agent::deadlines::{self, Watch};
use crate::agent::failure as failures;
use crate::agent::report::Report;
use crate::agent::rpc::CallError;

/// How long an agent has to end a turn that is cancelled: less than the SDK's grace after a stop.
const CANCEL: Duration = Duration::from_millis(1600);

/// The longest piece of text in one message, in bytes.
const PIECE: usize = 512 * 1024;

/// The most updates that are taken before the prompt is sent.
const MOST_BEFORE: usize = 1024;

/// A turn that runs.
pub(super) struct Run<'a> {
    pub(super) turn: &'a Turn,
    pub(super) acp_session: &'a AcpSession,
    pub(super) reader: &'a mut Reader,
    pub(super) report: &'a mut Report,
    pub(super) answer: Answer,
    pub(super) asks: Asks<'a>,
    pub(super) watch: Watch,
    /// Until when something must be said, and how long that is.
    pub(super) first_word: Option<(Instant, Duration)>,
    /// It was cancelled: until when its end is waited for, and why, unless by a stop.
    pub(super) cut: Option<(Instant, Option<Error>)>,
    pub(super) was_denied: bool,
    /// The model is asked, not the agent alone, as its own commands do.
    pub(super) asks_model: bool,
    pub(super) said: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        turn: &'a Turn,
        acp_session: &'a AcpSession,
        reader: &'a mut Reader,
        report: &'a mut Report,
        watch: Watch,
    ) -> Self {
        Self {
            turn,
            acp_session,
            reader,
            report,
            answer: Answer::new(acp_session.link.initialized.quirks.failures_as_text),
            asks: Asks::new(acp_session, Voice::Turn(turn)),
            watch,
            first_word: None,
            cut: None,
            was_denied: false,
            asks_model: true,
            said: false,
        }
    }

    /// Whether the turn was cancelled.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Takes what has come before its prompt. Where a time is given, the agent's commands are waited for until then.
    pub(super) async fn catch_up(&mut self, commands: Option<Instant>) {
        for _ in 0..MOST_BEFORE {
            if self.is_cut() || self.turn.is_stopped() {
                return;
            }
            let commands = commands.filter(|_| !self.reader.knows_commands());
            let arrival = match (self.acp_session.inbox.take(), commands) {
                (None, Some(until)) => tokio::select! {
                    biased;
                    () = self.turn.stopped() => None,
                    arrival = timeout_at(until, self.acp_session.inbox.next()) => arrival.ok(),
                },
                (arrival, _) => arrival,
            };
            let Some(arrival) = arrival else { return };
            self.arrived(arrival).await;
        }
    }

    /// Runs it until its prompt is answered; nothing where the agent did not end a cancelled turn in time.
    pub(super) async fn until_answered(&mut self, call: &mut Prompt) -> Option<Result<Value, CallError>> {
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
                    let late = deadlines::late("said nothing within", wait);
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
                arrival = self.acp_session.inbox.next() => {
                    self.arrived(arrival).await;
                    if !self.reader.repeats() {
                        self.watch.heard();
                    }
                }
                answer = &mut *call => {
                    while let Some(arrival) = self.acp_session.inbox.take() {
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
        if self.acp_session.inbox.is_taken() {
            // Who has taken it has cancelled what ran, and may have a turn of its own by now.
            return;
        }
        self.acp_session.link.cancel(&self.acp_session.id).await;
    }

    async fn arrived(&mut self, arrival: Arrival) {
        let mut told = Vec::new();
        match arrival {
            Arrival::Item(Item::Update(params)) => {
                let Ok(params) = serde_json::from_str::<Value>(params.get()) else { return };
                let update = params.get("update").unwrap_or(&Value::Null);
                let terminals = &self.acp_session.terminals;
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
            // What follows could be of either's turn.
            Arrival::Taken => {
                if self.cut.is_none() {
                    self.cancel(Some(taken())).await;
                }
            }
        }
        self.tell(told).await;
    }

    pub(super) async fn tell(&mut self, told: Vec<UpdateEvent>) {
        for told in told {
            if !matches!(told, UpdateEvent::Info(_)) {
                self.first_word = None;
            }
            match told {
                UpdateEvent::Text(output) => {
                    for output in self.answer.say(output) {
                        self.say(output).await;
                    }
                }
                UpdateEvent::File(media, text) => {
                    if let Some(held) = self.answer.goes_on() {
                        self.say(held).await;
                    }
                    if let (false, Some(text)) = (self.deliver(*media).await, text) {
                        self.say(text).await;
                    }
                }
                UpdateEvent::Info(info) => self.turn.session().info(*info),
                UpdateEvent::SystemError => self.answer.system_error(),
                UpdateEvent::BrokeOff(times) => {
                    if self.cut.is_none() {
                        let text = format!("the model's answer broke off {times} times in a row");
                        self.cancel(Some(Error::new(Category::Overloaded, text))).await;
                    }
                }
                UpdateEvent::Event(event) => {
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
    pub(super) async fn say(&mut self, output: Output) {
        let mut rest = output.content.as_str();
        self.said |= !rest.is_empty();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            let piece = Output { content: piece.to_owned(), ..rest_of(&output) };
            self.emit(piece.into()).await;
            rest = after;
        }
    }

    /// Gives the host a file. Whether it did: one that cannot be read within the session's directories is not.
    async fn deliver(&mut self, media: Media) -> bool {
        let bytes = match media.source {
            Source::Bytes(bytes) => bytes,
            Source::Path(path) => {
                let directories = self.acp_session.directories.clone();
                let read = move || path.to_str().map(|path| directories.file(path));
                let Ok(Some(Ok(bytes))) = tokio::task::spawn_blocking(read).await else { return false };
                if bytes.len() > LARGEST {
                    return false;
                }
                self.reader.files.spend(bytes.len());
                bytes
            }
        };
        let until = self.cut.as_ref().map(|(until, _)| *until);
        tokio::select! {
            biased;
            given = self.turn.new_file(media.name, media.mime, bytes) => given.is_ok(),
            () = self.turn.stopped(), if until.is_none() => true,
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => true,
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
        if self.reader.repeats() {
            let text = format!("the model's answer breaks off, and each time the same comes again: {error}");
            return Error::new(Category::Overloaded, text);
        }
        let said = self.acp_session.link.peer.stderr();
        match failures::classify(&said, None) {
            Category::Other => error,
            category => {
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                failures::of(category, format!("{error}; it said: {last}"), None)
            }
        }
    }
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
