//! Inputs, files and updates on their way to the agent: each input is stored first, and they keep their order.

use std::{
    path::Path,
    task::{Context, Poll, Waker},
};

use trunkline_host::{FileError, Input, SendError, SteerError, UpdateError};
use trunkline_protocol::{
    AdapterBody, Category, Delivered, ErrorEvent, FileDelivered, FileInput, InputResult,
    InputSteered, MessageId, RelayBody, SessionInfo, SteerResult, TurnBegin, TurnComplete, TurnId,
};

use super::{Answer, Given, Later, Live, Ordered, Then, WAITING};
use crate::{
    ends,
    inputs::{Inputs, Known},
    open::Reached,
    tail::ListenerNo,
};

/// Why an input is refused whose id another one has.
const OTHER: &str = "another input of this session has this message_id";

impl Live {
    pub(super) async fn input(&mut self, by: ListenerNo, turn: Option<TurnId>, given: Given) {
        let input = &given.input;
        if self.inputs.is_none() && (input.message.message_id.is_some() || turn.is_some()) {
            self.read_inputs().await;
        }
        let message_id = input.message.message_id.clone();
        let unwilling = self.unwilling();
        match self.known(input) {
            Some(Known::Same { turn, seq }) if unwilling.is_none() || self.has_stored(seq) => {
                return self.tell_duplicate(by, message_id, turn, seq);
            }
            Some(Known::Other) => return self.refuse(by, turn, Category::Protocol, OTHER),
            Some(Known::Same { .. }) | None => {}
        }
        if self.facts.is_closed {
            return self.refuse(by, turn, Category::Other, "the session is closed");
        }
        if self.ordered.len() >= WAITING || self.facts.open.turns.len() >= WAITING {
            return self.refuse(by, turn, Category::Busy, &SendError::Busy.to_string());
        }
        if let Some((category, why)) = unwilling {
            return self.refuse(by, turn, category, &why);
        }
        let is_new = |turn: &TurnId| {
            self.inputs
                .as_ref()
                .is_none_or(|inputs| !inputs.has_turn(turn))
        };
        let turn = turn.filter(is_new).unwrap_or_else(fresh);
        self.facts.entitle(&input.message.content);
        let begin = TurnBegin {
            message_id: message_id.clone(),
            content: input.message.content.clone(),
            queued: Some(self.running.is_some() || !self.ordered.is_empty()),
            by: Some(self.name(by)),
        };
        let seq = self.note(Some(turn.clone()), begin, input.meta.clone());
        if let Some(inputs) = &mut self.inputs {
            inputs.add(message_id.as_ref(), &turn, seq, &input.message.content);
        }
        let result = InputResult {
            message_id,
            seq,
            duplicate: None,
        };
        let told = self.line(Some(turn.clone()), RelayBody::from(result));
        self.tell_stored(by, told);
        self.order(Ordered::Input(turn, given));
    }

    /// Why nothing is taken now that becomes an entry: what waits to be stored must not grow.
    fn unwilling(&self) -> Option<(Category, String)> {
        let trouble = self.journal.trouble().map(|trouble| trouble.to_string());
        let trouble = trouble.or_else(|| self.recording.as_ref()?.trouble());
        let trouble = trouble.map(|why| (Category::Other, why));
        trouble.or_else(|| {
            self.journal
                .is_full()
                .then(|| (Category::Busy, SendError::Busy.to_string()))
        })
    }

    fn has_stored(&self, seq: u64) -> bool {
        seq <= self.tail.stored()
    }

    async fn read_inputs(&mut self) {
        self.inputs = Some(Inputs::read(&self.journal, &self.id, self.tail.stored()).await);
    }

    fn known(&self, input: &Input) -> Option<Known> {
        let id = input.message.message_id.as_ref()?;
        self.inputs.as_ref()?.find(id, &input.message.content)
    }

    /// Answers an input that the journal has, when it is stored.
    fn tell_duplicate(
        &mut self,
        by: ListenerNo,
        message_id: Option<MessageId>,
        turn: Option<TurnId>,
        seq: u64,
    ) {
        let result = InputResult {
            message_id,
            seq,
            duplicate: Some(true),
        };
        let told = self.line(turn, RelayBody::from(result));
        match self.has_stored(seq) {
            true => self.tell_line(by, told),
            false => self.tell_stored(by, told),
        }
    }

    /// Ends an input that was not accepted: its sender alone learns of it.
    fn refuse(&mut self, by: ListenerNo, turn: Option<TurnId>, category: Category, why: &str) {
        let mut end = ends::busy(why);
        if let Some(error) = &mut end.error {
            error.category = Some(category);
        }
        self.tell(by, turn, AdapterBody::from(end));
    }

    pub(super) fn line(&self, turn: Option<TurnId>, body: RelayBody) -> Vec<u8> {
        let mut message = trunkline_protocol::RelayMessage::new(self.id.clone(), body);
        message.turn_id = turn;
        message.to_line()
    }

    /// Takes what keeps its order, and hands on what need not wait.
    pub(super) fn order(&mut self, ordered: Ordered) {
        match (&ordered, self.unwilling()) {
            (Ordered::File(by, _), Some((_, why))) => return self.refuse_file(*by, &why),
            (Ordered::Update(by, _), Some((category, why))) => {
                return self.refuse_update(*by, category, &why);
            }
            (Ordered::Input(..), _) | (_, None) => {}
        }
        if self.ordered.len() >= WAITING {
            return match ordered {
                Ordered::File(by, _) => self.refuse_file(by, "too many files wait already"),
                Ordered::Update(by, _) => {
                    self.refuse_update(by, Category::Busy, "too many updates wait already");
                }
                Ordered::Input(turn, _) => {
                    self.end_turn(turn, ends::busy(&SendError::Busy.to_string()), None)
                }
            };
        }
        self.ordered.push_back(ordered);
        self.hand_on();
    }

    /// Hands on what waits: one input at a time, and none past a file that is being copied.
    pub(super) fn hand_on(&mut self) {
        while self.placing.is_none() {
            if matches!(self.ordered.front(), None | Some(Ordered::Input(..)))
                && self.running.is_some()
            {
                return;
            }
            match self.ordered.pop_front() {
                None => return,
                Some(Ordered::Input(turn, given)) => {
                    self.running = Some(turn.clone());
                    self.reached(&turn, Reached::Pipe);
                    self.recorder.mark(turn.as_str().as_bytes().to_vec());
                    self.recorder.then(Then::Send(turn, given));
                    return;
                }
                Some(Ordered::File(by, file)) => self.place(by, file),
                Some(Ordered::Update(by, update)) => match self.agent() {
                    Err(closed) => self.refuse_update(by, Category::Other, &text(&closed)),
                    Ok(session) => self.wait_for(Box::pin(async move {
                        Answer::Updated(by, session.update(*update).await.map(Box::new))
                    })),
                },
            }
        }
    }

    /// Sends an input, which is stored, to the agent.
    pub(super) fn send(&mut self, turn: TurnId, Given { input, from }: Given) {
        if self.running.as_ref() != Some(&turn) {
            // It has ended since: the session was closed, say.
            return;
        }
        if let Some(reason) = self.stopped.take() {
            self.running = None;
            return self.end_turn(turn, ends::stopped(reason, Delivered::No), None);
        }
        let opened = self.agent();
        self.facts.was_served = true;
        let end = match opened {
            Err(closed) => ends::never_sent(&closed),
            Ok(session) => match from.in_scope(|| session.send(input)) {
                Ok(given) => {
                    self.no = Some(given.no());
                    given.detach();
                    return;
                }
                Err(error) => ends::busy(&error.to_string()),
            },
        };
        self.running = None;
        self.end_turn(turn, end, None);
    }

    fn place(&mut self, by: ListenerNo, file: FileInput) {
        if Path::new(&file.file_path).is_relative() {
            return self.refuse_file(
                by,
                "`file_path` is relative; name the file by an absolute path",
            );
        }
        match self.agent() {
            Err(closed) => self.refuse_file(by, &text(&closed)),
            Ok(session) => {
                let delivered = FileDelivered {
                    file_name: file.file_name.clone(),
                    file_mime_type: file.file_mime_type.clone(),
                    size: file.size,
                    sha256: file.sha256.as_ref().map(ToString::to_string),
                    by: Some(self.name(by)),
                };
                self.delivering = Some(delivered);
                let placing = async move { session.deliver_announced(file).await };
                self.placing = Some((by, Box::pin(placing)));
            }
        }
    }

    /// A file has been copied, or has not.
    pub(super) fn placed(&mut self, placed: Result<(), FileError>) {
        let (Some((by, _)), Some(delivered)) = (self.placing.take(), self.delivering.take()) else {
            return;
        };
        match placed {
            Ok(()) => {
                self.note(None, delivered, None);
            }
            Err(error) => self.refuse_file(by, &error.to_string()),
        }
        self.hand_on();
    }

    fn refuse_file(&mut self, by: ListenerNo, why: &str) {
        self.tell_error(by, Category::FileRefused, why);
    }

    /// Refuses an update: why, and that the values stay.
    fn refuse_update(&mut self, by: ListenerNo, category: Category, why: &str) {
        self.tell_error(by, category, why);
        self.tell(by, None, AdapterBody::from(SessionInfo::default()));
    }

    fn tell_error(&mut self, by: ListenerNo, category: Category, why: &str) {
        let error = ErrorEvent {
            category: Some(category),
            message: why.to_owned(),
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        self.tell(by, None, AdapterBody::from(error));
    }

    pub(super) async fn steer(&mut self, by: ListenerNo, input: Input) {
        let message_id = input.message.message_id.clone();
        if self.inputs.is_none() && message_id.is_some() {
            self.read_inputs().await;
        }
        let unwilling = self.unwilling();
        let waiting =
            self.answers.len() + self.recorder.count(|then| matches!(then, Then::Steer(_)));
        let why = match (self.known(&input), unwilling) {
            (Some(Known::Same { turn, seq }), unwilling)
                if unwilling.is_none() || self.has_stored(seq) =>
            {
                return self.tell_duplicate(by, message_id, turn, seq);
            }
            (Some(Known::Other), _) => Some(OTHER.to_owned()),
            (_, Some((_, why))) => Some(why),
            _ if self.running.is_none() || self.no.is_none() => {
                Some("no turn is running".to_owned())
            }
            _ if waiting >= WAITING => Some("too many wait already".to_owned()),
            _ => None,
        };
        if why.is_some() {
            let result = SteerResult {
                message_id,
                delivered: false,
                reason: why,
            };
            return self.tell(by, None, AdapterBody::from(result));
        }
        let steered = InputSteered {
            message_id: message_id.clone(),
            content: input.message.content.clone(),
            by: Some(self.name(by)),
        };
        let turn = self.running.clone();
        let seq = self.note(turn.clone(), steered, input.meta.clone());
        if let Some((inputs, id)) = self.inputs.as_mut().zip(message_id.clone()) {
            inputs.add_steer(id, turn.clone(), seq, &input.message.content);
        }
        let told = self.line(
            turn,
            InputResult {
                message_id,
                seq,
                duplicate: None,
            }
            .into(),
        );
        self.tell_stored(by, told);
        self.recorder.then(Then::Steer(input));
    }

    /// Takes back what was to go to the agent when it is stored: the agent does not get it any more.
    pub(super) fn take_back(&mut self, end: &TurnComplete, why: &str) {
        for then in self
            .recorder
            .take_back(|then| matches!(then, Then::Send(..) | Then::Steer(_)))
        {
            match then {
                Then::Send(turn, _) if self.running.as_ref() == Some(&turn) => {
                    self.running = None;
                    self.end_turn(turn, end.clone(), None);
                }
                Then::Steer(input) => {
                    let (message_id, reason) = (input.message.message_id, Some(why.to_owned()));
                    self.say(
                        self.running.clone(),
                        SteerResult {
                            message_id,
                            delivered: false,
                            reason,
                        },
                        None,
                    );
                }
                _ => {}
            }
        }
    }

    pub(super) fn steer_now(&mut self, input: Input) {
        let message_id = input.message.message_id.clone();
        match self.session.clone() {
            Some(session) => self.wait_for(Box::pin(async move {
                Answer::Steered(message_id, session.steer(input).await)
            })),
            None => self.answer(Answer::Steered(message_id, Err(SteerError::Closed))),
        }
    }

    /// Polls a call of the host once, so that what it asks takes its place among the others at once.
    fn wait_for(&mut self, mut later: Later<Answer>) {
        match later.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => self.answer(answer),
            Poll::Pending => self.answers.push(later),
        }
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Steered(message_id, result) => {
                let reason = result.as_ref().err().map(ToString::to_string);
                let turn = self.running.clone().filter(|_| result.is_ok());
                self.say(
                    turn,
                    SteerResult {
                        message_id,
                        delivered: result.is_ok(),
                        reason,
                    },
                    None,
                );
            }
            Answer::Updated(_, Ok(info)) if *info != SessionInfo::default() => {}
            Answer::Updated(by, Err(why @ (UpdateError::WouldWiden(_) | UpdateError::Busy))) => {
                let category = match why {
                    UpdateError::Busy => Category::Busy,
                    _ => Category::PermissionDenied,
                };
                self.refuse_update(by, category, &why.to_string());
            }
            Answer::Updated(by, _) => {
                self.tell(by, None, AdapterBody::from(SessionInfo::default()))
            }
        }
    }
}

fn fresh() -> TurnId {
    let id = uuid::Uuid::new_v4().simple().to_string();
    TurnId::new(id).unwrap_or_else(|_| unreachable!("an id of 32 bytes is one"))
}

fn text(closed: &trunkline_protocol::SessionClosed) -> String {
    let message = closed
        .error
        .as_ref()
        .and_then(|error| error.message.clone());
    message.unwrap_or_else(|| "the session has ended".to_owned())
}
