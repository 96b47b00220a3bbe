//! What the lines of a session are to the person.

use std::time::SystemTime;

use trunkline_host::{
    Event, EventKind, Permission, Question, SessionEnd, TurnScope,
    protocol::{
        AdapterBody, AdapterMessage, ClosedReason, HostBody, RelayBody, RelayMessage, RequestId,
    },
};

use super::{Access, Answered, Journaled};
use crate::{
    hub::{Message, Stamp, Told},
    paint,
    partner::{Heard, entries},
    terminal::one_line,
};

impl Journaled {
    /// What a line is to the person, and what it answers.
    pub(super) fn take(&mut self, told: Told) -> (Heard, Option<Answered>) {
        let Told { message, stamp, .. } = told;
        if let Some(seq) = stamp.seq {
            self.seq = seq;
        }
        let turn = match &message {
            Message::Adapter(message) => &message.turn_id,
            Message::Relay(message) => &message.turn_id,
        };
        if self.access == Access::FromNow
            && turn
                .as_ref()
                .is_some_and(|id| self.open.iter().all(|turn| turn.id != *id))
        {
            // Another one's turn.
            return (Heard::Nothing, None);
        }
        let turn = turn.clone();
        let (mut heard, answered) = match message {
            Message::Adapter(message) => self.take_adapter(message, &stamp),
            Message::Relay(message) => self.take_relay(message, &stamp),
        };
        if let (Heard::Event(event), Some(time)) = (&mut heard, moment(&stamp)) {
            event.time = time;
        }
        if let Some(answered) = &answered {
            self.note_answer(turn.as_ref(), answered);
        }
        (heard, answered)
    }

    fn take_adapter(
        &mut self,
        message: AdapterMessage,
        stamp: &Stamp,
    ) -> (Heard, Option<Answered>) {
        let AdapterMessage {
            turn_id,
            meta,
            body,
            ..
        } = message;
        let at = turn_id
            .as_ref()
            .and_then(|id| self.open.iter().position(|turn| turn.id == *id));
        let scope = at.map_or(TurnScope::Outside, |at| {
            TurnScope::Running(self.open[at].no)
        });
        let is_said = !matches!(
            body,
            AdapterBody::TurnComplete(_) | AdapterBody::SessionClosed(_)
        );
        self.is_heard |= stamp.seq.is_some() && is_said;
        let heard = match body {
            AdapterBody::TurnComplete(complete) => {
                let refused = (stamp.seq.is_none()).then(|| {
                    let why = complete
                        .error
                        .as_ref()
                        .and_then(|error| error.message.clone());
                    Answered::Refused(why.unwrap_or_else(|| "the host refuses it".to_owned()))
                });
                let Some(turn) = at.and_then(|at| self.open.remove(at)) else {
                    return (Heard::Nothing, refused);
                };
                let took = turn
                    .began
                    .zip(moment(stamp))
                    .and_then(|(from, to)| to.duration_since(from).ok());
                let end = entries::turn_end(turn.no, *complete, took);
                let kind = EventKind::End(Box::new(end));
                let event = Event {
                    meta: meta.map(Box::new),
                    ..Event::new(scope, kind)
                };
                return (Heard::Event(event), refused);
            }
            AdapterBody::PermissionRequest(request) if self.is_open(&request.request_id) => {
                let answer = self.way();
                let permission =
                    Permission::elsewhere(request, move |response| answer(response.into()));
                Heard::Event(Event::new(scope, EventKind::Permission(permission)))
            }
            AdapterBody::PermissionRequest(request) => {
                let about = request
                    .title
                    .or(request.description)
                    .or(request.resource)
                    .unwrap_or_default();
                asked(&format!(
                    "{} asks for permission: {}",
                    one_line(&request.tool),
                    one_line(&about)
                ))
            }
            AdapterBody::InputRequest(request) if self.is_open(&request.request_id) => {
                let answer = self.way();
                let question =
                    Question::elsewhere(request, move |response| answer(response.into()));
                Heard::Event(Event::new(scope, EventKind::Question(question)))
            }
            AdapterBody::InputRequest(request) => asked(&one_line(&request.prompt)),
            AdapterBody::SteerResult(result) if !result.delivered => Heard::Note {
                mark: "✗",
                style: paint::CARE,
                text: format!(
                    "not added: {}",
                    one_line(result.reason.as_deref().unwrap_or("no reason was given"))
                ),
            },
            AdapterBody::SessionClosed(closed) => {
                self.is_closed = true;
                let reason = closed.reason.unwrap_or(ClosedReason::Finished);
                let end = SessionEnd {
                    reason,
                    error: closed.error,
                };
                Heard::Event(Event::new(scope, EventKind::Closed(Box::new(end))))
            }
            AdapterBody::FileOutput(file) => entries::file(scope, file),
            AdapterBody::SessionInfo(info) => {
                let is_answer = stamp.seq.is_none() || info.model.is_some() || info.mode.is_some();
                let answer = is_answer.then(|| Answered::Info(info.clone()));
                return (
                    entries::event(scope, AdapterBody::SessionInfo(info), meta),
                    answer,
                );
            }
            AdapterBody::Error(error) if stamp.seq.is_none() => {
                let refused = Answered::Refused(error.message.clone());
                return (
                    entries::event(scope, AdapterBody::Error(error), meta),
                    Some(refused),
                );
            }
            body => entries::event(scope, body, meta),
        };
        (heard, None)
    }

    fn take_relay(&mut self, message: RelayMessage, stamp: &Stamp) -> (Heard, Option<Answered>) {
        let heard = match message.body {
            RelayBody::TurnBegin(begin) => {
                let Some(id) = message.turn_id else {
                    return (Heard::Nothing, None);
                };
                let at = match self.open.iter().position(|turn| turn.id == id) {
                    Some(at) => at,
                    None => {
                        self.begin(id, false);
                        self.open.len() - 1
                    }
                };
                let turn = &mut self.open[at];
                turn.began = moment(stamp);
                if turn.is_own {
                    Heard::Nothing
                } else {
                    Heard::Said(begin.content)
                }
            }
            RelayBody::InputSteered(steered) => Heard::Said(steered.content),
            RelayBody::RequestDecided(decided) => {
                let is_own =
                    self.answered.remove(&decided.request_id) && self.is_me(decided.by.as_deref());
                // Without a number it is what a late answer gets.
                if is_own || stamp.seq.is_none() {
                    Heard::Nothing
                } else {
                    entries::decided(decided)
                }
            }
            RelayBody::FileDelivered(file) => {
                let is_own = self.is_me(file.by.as_deref());
                let name = one_line(file.file_name.as_deref().unwrap_or("a file"));
                return match is_own {
                    true => (Heard::Nothing, Some(Answered::File)),
                    false => (
                        Heard::Note {
                            mark: "↑",
                            style: paint::ACT,
                            text: name,
                        },
                        None,
                    ),
                };
            }
            RelayBody::HostFact(fact) => entries::fact(fact),
            RelayBody::Lag(lag) => {
                self.seq = self.seq.max(lag.to);
                entries::lag(&lag)
            }
            RelayBody::InputResult(result) => {
                return (Heard::Nothing, Some(Answered::Input(result)));
            }
            // A turn's end says that it was stopped.
            RelayBody::StopRequested(_)
            | RelayBody::SessionAttached(_)
            | RelayBody::SessionRefused(_)
            | RelayBody::SessionHistoryResult(_)
            | RelayBody::SessionEditResult(_)
            | RelayBody::SessionEdited(_) => Heard::Nothing,
        };
        (heard, None)
    }

    /// Whether a request waits for this person.
    fn is_open(&self, request: &RequestId) -> bool {
        let is_new = self.seq > self.now.last_seq;
        self.access != Access::Observed
            && (is_new
                || self
                    .now
                    .requests
                    .iter()
                    .flatten()
                    .any(|open| open == request))
    }

    fn is_me(&self, by: Option<&str>) -> bool {
        by.is_some() && by == self.now.listener.as_deref()
    }

    /// The way of an answer to the hub.
    fn way(&self) -> impl FnOnce(HostBody) + Send + 'static {
        let answers = self.answers.0.clone();
        move |answer| {
            // One request is asked at a time, so there is room.
            if answers.try_send(answer).is_err() {
                tracing::warn!("an answer was not sent: the session is gone");
            }
        }
    }
}

/// What was asked and is not for this person to answer.
fn asked(text: &str) -> Heard {
    Heard::Note {
        mark: "?",
        style: paint::CARE,
        text: text.to_owned(),
    }
}

fn moment(stamp: &Stamp) -> Option<SystemTime> {
    humantime::parse_rfc3339(stamp.time.as_deref()?).ok()
}
