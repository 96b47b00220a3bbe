//! A turn that runs: what comes before its prompt's answer, and its cancellation. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, Output};
use trunkline_sdk::{Category, Error};

use super::super::answer::TurnAnswer;
use super::super::line::{Command, Message};
use super::super::media::{Media, Source};
use super::super::requests::{PermissionEnd, Requests};
use super::super::session::AcpSession;
use super::super::terminals::Terminals;
use super::super::translate::{EventTime, UpdateEvent, UpdateReader};
use super::taken;
use crate::agent::deadlines;
use crate::agent::end::EndSigns;
use crate::agent::rpc::CallError;
use crate::agent::turn::{Dialect, EffectList, Grace, NewFile, UserReply};

/// Timeout for the end of a cancelled turn: less than the SDK's grace after a stop.
const CANCEL: Duration = Duration::from_millis(1600);

/// A turn that runs.
pub(super) struct AcpTurn<'a> {
    pub(super) reader: &'a mut UpdateReader,
    terminals: &'a Terminals,
    pub(super) answer: TurnAnswer,
    pub(super) requests: Requests<'a>,
    /// Deadline for the first message, and its length.
    first_word: Option<(Instant, Duration)>,
    /// True if the agent has answered before, so that its silence does not come from missing credentials.
    has_answered: bool,
    /// True if the agent was given its prompt.
    pub(super) is_prompted: bool,
    /// True if the turn must end early.
    pub(super) is_cut: bool,
    pub(super) was_denied: bool,
    /// The model is asked. The agent's own commands do not ask it.
    pub(super) asks_model: bool,
    pub(super) said: bool,
    pub(super) signs: EndSigns,
    /// The failure of an answer that the agent only repeated when the turn had to end.
    repetition: Option<Error>,
    /// Events that wait for a file that is being read, and that file.
    waiting: VecDeque<UpdateEvent>,
    reading: Option<(Media, Option<Output>)>,
    /// The answer to the prompt.
    pub(super) prompted: Option<Result<Value, CallError>>,
}

impl<'a> AcpTurn<'a> {
    pub(super) fn new(
        session: &'a AcpSession,
        reader: &'a mut UpdateReader,
        first_word: Option<(Instant, Duration)>,
        has_answered: bool,
    ) -> Self {
        Self {
            reader,
            terminals: &session.terminals,
            answer: TurnAnswer::new(session.link.initialized.quirks.failures_as_text),
            requests: session.requests(),
            first_word,
            has_answered,
            is_prompted: false,
            is_cut: false,
            was_denied: false,
            asks_model: true,
            said: false,
            signs: EndSigns::default(),
            repetition: None,
            waiting: VecDeque::new(),
            reading: None,
            prompted: None,
        }
    }

    fn fail(&mut self, why: Error, out: &mut EffectList<Command>) {
        if !self.is_cut {
            self.is_cut = true;
            out.fail(why);
        }
    }

    fn settled(&mut self, settled: &PermissionEnd, out: &mut EffectList<Command>) {
        if settled.was_denied {
            self.was_denied = true;
            self.signs.note_denial();
        }
        if let Some(call) = &settled.denied {
            self.reader.denied(call);
        }
        if settled.ends_turn {
            self.fail(
                Error::new(Category::PermissionDenied, "the denial ended the turn"),
                out,
            );
        }
    }

    pub(super) fn tell(
        &mut self,
        told: impl IntoIterator<Item = UpdateEvent>,
        out: &mut EffectList<Command>,
    ) {
        self.waiting.extend(told);
        while self.reading.is_none()
            && let Some(told) = self.waiting.pop_front()
        {
            if !matches!(told, UpdateEvent::Info(_)) {
                self.first_word = None;
            }
            match told {
                UpdateEvent::Text(output) => {
                    for output in self.answer.say(output) {
                        self.say(output, out);
                    }
                }
                UpdateEvent::File(media, text) => {
                    self.signs.note_answer();
                    if let Some(held) = self.answer.goes_on() {
                        self.say(held, out);
                    }
                    match media.source {
                        Source::Bytes(bytes) => {
                            let Media { name, mime, .. } = *media;
                            out.file(NewFile {
                                name,
                                mime,
                                bytes,
                                instead: text,
                            });
                        }
                        Source::Path(ref path) => {
                            out.send(Command::Read(path.clone()));
                            self.reading = Some((*media, text));
                        }
                    }
                }
                UpdateEvent::Info(info) => out.info(*info),
                UpdateEvent::SystemError => self.answer.system_error(),
                UpdateEvent::BrokeOff(times) => {
                    let text = format!("the model's answer broke off {times} times in a row");
                    self.fail(Error::new(Category::Overloaded, text), out);
                }
                UpdateEvent::Event(event) => {
                    let is_aside = matches!(
                        event,
                        AdapterBody::ContextUsage(_) | AdapterBody::Log(_) | AdapterBody::Error(_)
                    );
                    if !is_aside && let Some(held) = self.answer.goes_on() {
                        self.say(held, out);
                    }
                    out.emit(event);
                }
            }
        }
    }

    /// A piece of the answer.
    pub(super) fn say(&mut self, output: Output, out: &mut EffectList<Command>) {
        self.said |= !output.content.is_empty();
        if !output.content.trim().is_empty() {
            self.signs.note_answer();
        }
        out.output(output);
    }

    /// A file was read; one that cannot be read within the session's directories is not delivered.
    fn read(&mut self, content: Option<Vec<u8>>, out: &mut EffectList<Command>) {
        match (self.reading.take(), content) {
            (Some((media, text)), Some(bytes)) => {
                self.reader.files.spend(bytes.len());
                out.file(NewFile {
                    name: media.name,
                    mime: media.mime,
                    bytes,
                    instead: text,
                });
            }
            (Some((_, Some(text))), None) => self.say(text, out),
            _ => {}
        }
        self.tell([], out);
    }
}

impl Dialect for AcpTurn<'_> {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, _: Instant, out: &mut EffectList<Command>) {
        // The host gets a tool call before the question about it.
        let mut told = Vec::new();
        let mut asked = EffectList::default();
        let mut settled = None;
        match message {
            Message::Update(params) => {
                let update = &params["update"];
                let terminals = self.terminals;
                self.reader
                    .update(update, EventTime::Now, &|id| terminals.shown(id), &mut told);
                // A call that is only asked about has not begun.
                for event in &told {
                    if let UpdateEvent::Event(event) = event {
                        self.signs.note_event(event);
                    }
                }
            }
            Message::Request(id, request) => {
                settled = self
                    .requests
                    .take(id, request, self.reader, &mut told, &mut asked);
            }
            Message::Complete(params) => self.requests.complete(&params, &mut asked),
            Message::Lost(lost) => {
                let text = format!("the agent sent more than was read: {lost} updates are lost");
                self.fail(Error::new(Category::Oversize, text), out);
            }
            // What follows could be of either's turn.
            Message::Taken => self.fail(taken(), out),
            Message::Read(content) => self.read(content, out),
            Message::Prompted(answer) => {
                self.prompted = Some(answer);
                return out.end();
            }
            Message::Refused | Message::Mute => {}
        }
        self.tell(told, out);
        out.append(asked);
        self.settled(&settled.unwrap_or_default(), out);
        if !self.reader.repeats() {
            out.alive();
        }
    }

    fn last_error(&self) -> Option<&Error> {
        self.repetition.as_ref().or(self.signs.last_error())
    }

    fn interrupt(&mut self, _: &Error, out: &mut EffectList<Command>) -> Grace {
        self.is_cut = true;
        if self.reader.repeats() {
            let text = "the model's answer breaks off, and each time the same comes again";
            self.repetition = Some(Error::new(Category::Overloaded, text));
        }
        out.send(Command::Cancel);
        // Without a prompt there is no end to wait for.
        Grace::For(if self.is_prompted {
            CANCEL
        } else {
            Duration::ZERO
        })
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<Command>) {
        let settled = self.requests.reply(id, &reply, out);
        self.settled(&settled, out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.first_word.map(|(due, _)| due)
    }

    fn late(&mut self) -> Error {
        let wait = self
            .first_word
            .take()
            .map(|(_, wait)| wait)
            .unwrap_or_default();
        let what = "the agent gave no sign of life";
        let late = deadlines::limit_text("start_timeout", wait, what);
        if self.has_answered || self.reader.choices.has_configured_provider() {
            let why =
                format!("{late}: check that its model can be reached, and send the input again");
            return Error::new(Category::Timeout, why);
        }
        let why = format!(
            "{late}, as it does without a provider: check its credentials and configuration"
        );
        Error::new(Category::Auth, why)
    }
}

#[cfg(test)]
mod tests;
