//! A turn that runs, from its beginning to its end: pure.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::{Category, Error, Status};

use super::super::approval::{ApprovalRequest, DecisionEncoding, ValueEncoding};
use super::super::conversation::{ANSWER, AppServerThread};
use super::super::login;
use super::super::process::gone;
use super::super::request;
use super::super::retries::Retries;
use super::super::translate::Translator;
use super::line::{Command, INTERRUPT, Message, STOP, ServerCall};
use crate::agent::end::EndSigns;
use crate::agent::failure;
use crate::agent::process::ProcessEnd;
use crate::agent::report::TurnReport;
use crate::agent::rpc::{CallError, Id, InboxArrival, InboxMessage};
use crate::agent::turn::{Dialect, EffectList, Grace, UserReply};

/// The most requests and steers of a turn that are open at a time.
const MOST_OPEN: usize = 256;

/// Cause of the end of a turn.
#[derive(Debug)]
pub(super) enum TurnEndCause {
    /// Codex or its process; the signs have the end.
    Ended,
    /// Another session has resumed the thread.
    Taken,
    /// The turn was not begun.
    NotBegun(CallError),
}

/// Form of the reply to a request.
enum ReplyForm {
    Decision(Box<DecisionEncoding>),
    Values(ValueEncoding),
}

/// A turn that runs.
pub(super) struct CodexTurn<'t> {
    id: &'t str,
    translator: &'t mut Translator,
    /// A turn that may run on, after its host was reported of its end.
    pub(super) unfinished: &'t mut Option<String>,
    /// True if the thread has something to remember.
    spoken: &'t mut bool,
    /// The last turn that began in the thread.
    last_turn: &'t mut Option<String>,
    retries: Retries<'t>,
    /// True if the app server was asked for its login.
    is_account_asked: bool,
    /// Requests that a person is asked.
    asked: HashMap<String, (Id, ReplyForm)>,
    /// Steers without an answer.
    steers: usize,
    is_leaving: bool,
    is_interrupted: bool,
    /// A denial ends it: Codex interrupts the turn by itself.
    pub(super) is_denied: bool,
    pub(super) over: Option<TurnEndCause>,
    pub(super) signs: EndSigns,
}

impl<'t> CodexTurn<'t> {
    /// A turn of the thread of this id, and what emits its events.
    pub(super) fn new(id: &'t str, thread: &'t mut AppServerThread) -> (Self, &'t mut TurnReport) {
        let AppServerThread {
            translator,
            unfinished,
            spoken,
            last_turn,
            settings,
            report,
            ..
        } = thread;
        translator.begin();
        let running = Self {
            id,
            translator,
            unfinished,
            spoken,
            last_turn,
            retries: Retries::new(settings),
            is_account_asked: false,
            asked: HashMap::new(),
            steers: 0,
            is_leaving: false,
            is_interrupted: false,
            is_denied: false,
            over: None,
            signs: EndSigns::default(),
        };
        (running, report)
    }

    fn is_over(&mut self, over: TurnEndCause, out: &mut EffectList<Command>) {
        self.over = Some(over);
        out.end();
    }

    /// Takes the answer to `turn/start`.
    fn begun(&mut self, begun: Result<Value, CallError>, out: &mut EffectList<Command>) {
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => return self.is_over(TurnEndCause::NotBegun(error), out),
        };
        let Some(id) = begun["turn"]["id"].as_str() else {
            let broken = Error::new(Category::Protocol, "codex began a turn without an id");
            self.signs.report(Err(broken));
            return self.is_over(TurnEndCause::Ended, out);
        };
        *self.spoken = true;
        *self.unfinished = Some(id.to_owned());
        *self.last_turn = Some(id.to_owned());
        self.translator.is_turn(id);
        if self.is_leaving {
            self.interrupt_codex(out);
        }
    }

    fn arrival(&mut self, arrival: InboxArrival, now: Instant, out: &mut EffectList<Command>) {
        match arrival {
            InboxArrival::Mail(InboxMessage::Notification { method, params }) => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                if method == "serverRequest/resolved" {
                    // Codex has withdrawn a request, or has its answer.
                    let id = params
                        .get("requestId")
                        .map(Value::to_string)
                        .unwrap_or_default();
                    if self.asked.remove(&id).is_some() {
                        out.withdraw(id);
                    }
                    return;
                }
                for event in self.translator.take(&method, &params) {
                    if self.retries.take(event, now, &mut self.signs, out) {
                        *self.unfinished = None;
                        return self.is_over(TurnEndCause::Ended, out);
                    }
                }
                if self.retries.is_trying() && !self.is_account_asked {
                    self.is_account_asked = true;
                    out.send(Command::account());
                }
            }
            InboxArrival::Mail(InboxMessage::Request { id, method, params }) => {
                self.retries.works(out);
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                self.ask(
                    id,
                    ApprovalRequest::from_request(&method, &params, self.translator),
                    out,
                );
            }
            InboxArrival::Mail(InboxMessage::Alive) => self.retries.works(out),
            InboxArrival::Lost(lost) => {
                let text = format!("codex sent more than was read: {lost} notifications are lost");
                out.fail(Error::new(Category::Oversize, text));
            }
            InboxArrival::Taken => self.is_over(TurnEndCause::Taken, out),
        }
    }

    fn gone(&mut self, ended: &ProcessEnd, out: &mut EffectList<Command>) {
        *self.unfinished = None;
        self.signs.report(Err(gone(ended)));
        self.is_over(TurnEndCause::Ended, out);
    }

    /// Asks a person, or refuses what cannot be asked.
    fn ask(&mut self, id: Id, ask: ApprovalRequest, out: &mut EffectList<Command>) {
        let key = id.text().to_owned();
        let form = match ask {
            ApprovalRequest::Permission(permission, answers) if self.asked.len() < MOST_OPEN => {
                out.ask(key.as_str(), *permission);
                ReplyForm::Decision(Box::new(answers))
            }
            ApprovalRequest::Question(question, form) if self.asked.len() < MOST_OPEN => {
                out.ask(key.as_str(), question);
                ReplyForm::Values(form)
            }
            ApprovalRequest::Permission(..)
            | ApprovalRequest::Question(..)
            | ApprovalRequest::Unknown => {
                return out.send(Command::Refuse(id, "this cannot be asked"));
            }
        };
        self.asked.insert(key, (id, form));
    }

    /// Adds words to the turn, if it has begun.
    fn steer_with(&mut self, call: ServerCall, words: &str, out: &mut EffectList<Command>) {
        let Some(turn) = self.translator.turn() else {
            return;
        };
        let input = [request::words(words)];
        let params = json!({ "threadId": self.id, "expectedTurnId": turn, "input": input });
        self.steers += 1;
        out.send(Command::Call(call, params, ANSWER));
    }

    fn interrupt_codex(&mut self, out: &mut EffectList<Command>) {
        if let Some(turn) = self.translator.turn()
            && !std::mem::replace(&mut self.is_interrupted, true)
        {
            out.send(Command::interrupt(self.id, turn));
        }
    }
}

impl Dialect for CodexTurn<'_> {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, now: Instant, out: &mut EffectList<Command>) {
        match message {
            Message::Arrival(arrival) => self.arrival(arrival, now, out),
            Message::Gone(ended) => self.gone(&ended, out),
            Message::Called(ServerCall::Begin, begun) => self.begun(begun, out),
            // The app server does not even answer; the turns of other threads may end yet.
            Message::Called(ServerCall::Interrupt, Err(CallError::Late { .. })) => {
                out.send(Command::Retire)
            }
            Message::Called(ServerCall::Interrupt, _) => {}
            Message::Called(ServerCall::Account, answer) => {
                if answer.is_ok_and(|answer| login::is_missing(&answer)) {
                    self.retries.has_no_login();
                    // Another one reads a login that is made meanwhile.
                    out.send(Command::Retire);
                }
            }
            Message::Called(ServerCall::Steer(number), answer) => {
                self.steers -= 1;
                let refused = |error: CallError| failure::message(&error.to_string());
                out.steered(number, answer.map(drop).map_err(refused));
            }
            // The denial itself was reported.
            Message::Called(ServerCall::Word, _) => self.steers -= 1,
        }
    }

    fn interrupt(&mut self, why: &Error, out: &mut EffectList<Command>) -> Grace {
        self.is_leaving = true;
        if self.is_denied {
            return Grace::For(INTERRUPT);
        }
        self.interrupt_codex(out);
        Grace::For(if why.status() == Status::Stopped {
            STOP
        } else {
            INTERRUPT
        })
    }

    fn takes_steers(&self) -> bool {
        self.translator.turn().is_some() && self.steers < MOST_OPEN
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut EffectList<Command>) {
        self.steer_with(ServerCall::Steer(number), text, out);
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<Command>) {
        let Some((id, form)) = self.asked.remove(id) else {
            return;
        };
        match (form, reply) {
            (ReplyForm::Decision(answers), UserReply::Decision(decision)) => {
                out.send(Command::Answer(id, answers.reply(&decision)));
                if decision.is_approved() || self.is_leaving {
                    return;
                }
                self.signs.note_denial();
                if decision.end_turn {
                    self.is_denied = true;
                    out.fail(Error::stopped());
                } else if let Some(word) = decision.message.filter(|word| !word.trim().is_empty()) {
                    self.steer_with(ServerCall::Word, &word, out);
                }
            }
            (ReplyForm::Values(form), UserReply::Answer(answer)) => {
                out.send(Command::Answer(id, form.into_reply(&answer)));
            }
            // A request has the reply of its kind.
            (ReplyForm::Decision(_), UserReply::Answer(_))
            | (ReplyForm::Values(_), UserReply::Decision(_)) => {}
        }
    }

    fn last_error(&self) -> Option<&Error> {
        self.signs.last_error()
    }

    fn deadline(&self) -> Option<Instant> {
        self.retries.deadline()
    }

    fn late(&mut self) -> Error {
        self.retries.gave_up()
    }
}

#[cfg(test)]
mod tests;
