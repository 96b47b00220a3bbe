//! Messages of the hub in a session, as the host receives them.
//!
//! Inputs, files and updates keep the order in which they came; a file is copied first, and later
//! ones wait for it. Everything else overtakes ([turn.11]).

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use trunkline_host::{FileError, Input, SendError, Session, SteerError, UpdateError};
use trunkline_pipe::{Flow, take_json};
use trunkline_protocol::{
    Category, Delivered, ErrorEvent, Extensions, Failure, FileInput, HostBody, HostMessage,
    InputMode, InputResponse, LargeMember, MessageId, PermissionResponse, SessionInfo,
    SessionUpdate, SteerResult, Stop, StopReason, TurnComplete, TurnId, UserInput, filled,
};
use trunkline_sessions::ends::{busy, never_sent, stopped, unsent};

use super::{
    HubSession, Phase,
    requests::PendingRequest,
    turns::{Serial, Stage},
};

/// Number of inputs, files and updates of one session that wait for a file, and of outstanding
/// answers of the host.
const WAITING: usize = 64;

/// A message that keeps its order and may wait for a file.
#[derive(Debug)]
pub(super) enum Ordered {
    Input(Serial, Input),
    File(FileInput),
    Update(Box<SessionUpdate>),
}

/// A later answer of the host.
#[derive(Debug)]
pub(super) enum Answer {
    Steered {
        message_id: Option<MessageId>,
        result: Result<(), SteerError>,
    },
    Updated(Values),
    /// An update that the host refuses, with the reason.
    Refused(UpdateError),
}

/// The source from which the hub receives the values in force after an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// The agent's own answer, which comes as an event.
    Reported,
    /// None yet: the agent reports none, or cannot change any.
    Unreported,
}

/// A file that is being copied into the exchange folder.
pub(super) type Placing = Pin<Box<dyn Future<Output = Result<(), FileError>> + Send>>;

/// A pending answer of the host.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl HubSession {
    /// Handles a message that the tables allow.
    pub(super) async fn take_message(&mut self, message: HostMessage) {
        let HostMessage {
            turn_id,
            meta,
            large,
            body,
            ..
        } = message;
        let turn = turn_id.filter(|_| self.knows(Extensions::TURNS));
        let large = large.filter(|_| self.knows(Extensions::LARGE));
        let body = match large.and_then(|mut large| large.remove("content")) {
            Some(member) if matches!(body, HostBody::UserInput(_)) => {
                let folder = self.folder.clone();
                let read = move || with_text(body, folder, &member);
                match tokio::task::spawn_blocking(read).await {
                    Ok((whole, None)) => whole,
                    Ok((body, Some(why))) => return self.refuse_text(turn, body, &why),
                    // The runtime ends, and the relay with it.
                    Err(_) => return,
                }
            }
            _ => body,
        };
        match body {
            HostBody::UserInput(message) if self.is_steer(&message) => {
                self.steer(Input { message, meta })
            }
            HostBody::UserInput(message) => self.input(turn, Input { message, meta }),
            HostBody::FileInput(mut file) => {
                if !self.knows(Extensions::LARGE) {
                    (file.size, file.sha256) = (None, None);
                }
                self.order(Ordered::File(file));
            }
            HostBody::SessionUpdate(update) => self.order(Ordered::Update(update)),
            HostBody::Stop(Stop { reason }) => {
                self.stop(turn.as_ref(), reason.unwrap_or(StopReason::User))
            }
            HostBody::PermissionResponse(response) => self.permission(response),
            HostBody::InputResponse(response) => self.question(response),
            HostBody::FlowPause(_) => self.flow(Flow::Pause),
            HostBody::FlowResume(_) => self.flow(Flow::Resume),
            HostBody::SessionClose(_) => {
                // Nothing more is sent for this session ([session.4]).
                self.phase = Phase::Closed;
                self.outlet.purge();
            }
            HostBody::SessionStart(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => {}
        }
    }

    /// Refuses an input whose text could not be read.
    fn refuse_text(&mut self, turn: Option<TurnId>, body: HostBody, why: &str) {
        let why = format!("the text of the input could not be read from its file: {why}");
        match body {
            HostBody::UserInput(message) if self.is_steer(&message) => {
                let result = Err(SteerError::NotDelivered(why));
                self.answer(Answer::Steered {
                    message_id: message.message_id,
                    result,
                });
            }
            _ => {
                let serial = self.turns.begin(turn);
                let error = Some(Failure::new(Category::FileRefused, why));
                self.refuse(serial, TurnComplete { error, ..busy("") });
            }
        }
    }

    fn is_steer(&self, input: &UserInput) -> bool {
        input.mode == Some(InputMode::Steer) && self.knows(Extensions::TURNS)
    }

    fn input(&mut self, turn: Option<TurnId>, mut input: Input) {
        if !self.knows(Extensions::OPTIONS) {
            input.message.limits = None;
        }
        if self.phase == Phase::Ended {
            return self.answer_after_the_end(turn);
        }
        let serial = self.turns.begin(turn);
        if let Some(closed) = &self.over {
            return self.refuse(serial, never_sent(closed));
        }
        if self.outlet.is_full() || self.turns.is_full() {
            return self.refuse(
                serial,
                busy("too much of this session waits to be read; read it, then try again"),
            );
        }
        self.order(Ordered::Input(serial, input));
    }

    /// Answers an input of a session that has ended, for a hub that has no other way to know
    /// ([session.8]).
    fn answer_after_the_end(&mut self, turn: Option<TurnId>) {
        let Some(closed) = self.over.clone() else {
            return;
        };
        let end = if self.knows(Extensions::TURNS) {
            never_sent(&closed)
        } else {
            TurnComplete::default()
        };
        self.reply(turn.clone(), Box::new(closed).into());
        self.reply(turn, Box::new(end).into());
    }

    /// Queues a message that keeps its order, and passes on what need not wait.
    fn order(&mut self, ordered: Ordered) {
        if self.over.is_some() {
            if let Ordered::Update(_) = ordered {
                self.answer(Answer::Updated(Values::Unreported));
            }
            return;
        }
        if self.ordered.len() >= WAITING {
            return match ordered {
                Ordered::Input(serial, _) => {
                    self.refuse(serial, busy(&SendError::Busy.to_string()))
                }
                Ordered::File(_) => self.refuse_file("too many files wait already"),
                Ordered::Update(_) => self.answer(Answer::Updated(Values::Unreported)),
            };
        }
        self.ordered.push_back(ordered);
        self.hand_on();
    }

    /// Passes on waiting messages, up to the next file that must be copied.
    pub(super) fn hand_on(&mut self) {
        while self.placing.is_none() {
            let Some(session) = self.session.clone() else {
                return;
            };
            match self.ordered.pop_front() {
                None => return,
                Some(Ordered::Input(serial, input)) => match session.send(input) {
                    Ok(turn) => {
                        self.turns.set(serial, Stage::Given(turn.no()));
                        turn.detach();
                    }
                    // Its end comes with the end of the session.
                    Err(SendError::Closed) => {}
                    Err(refused) => self.refuse(serial, unsent(refused)),
                },
                // This process's directory has no meaning for the hub.
                Some(Ordered::File(file)) if Path::new(&file.file_path).is_relative() => {
                    self.refuse_file("`file_path` is relative; name the file by an absolute path");
                }
                Some(Ordered::File(file)) => self.placing = Some(Box::pin(place(session, file))),
                Some(Ordered::Update(update)) => {
                    let updating = async move {
                        match session.update(*update).await {
                            Ok(info) if info != SessionInfo::default() => {
                                Answer::Updated(Values::Reported)
                            }
                            Err(refused @ (UpdateError::WouldWiden(_) | UpdateError::Busy)) => {
                                Answer::Refused(refused)
                            }
                            Ok(_) | Err(_) => Answer::Updated(Values::Unreported),
                        }
                    };
                    if self.answers.len() < WAITING {
                        self.wait_for(Box::pin(updating));
                    } else {
                        self.answer(Answer::Updated(Values::Unreported));
                    }
                }
            }
        }
    }

    fn refuse_file(&mut self, why: &str) {
        self.say_error(Category::FileRefused, why);
    }

    pub(super) fn say_error(&mut self, category: Category, why: &str) {
        let error = ErrorEvent {
            category: Some(category),
            message: why.to_owned(),
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        self.reply(None, error.into());
    }

    /// Handles the result of copying a file.
    pub(super) fn placed(&mut self, placed: Result<(), FileError>) {
        self.placing = None;
        match placed {
            Ok(()) | Err(FileError::Closed) => {}
            Err(error) => self.refuse_file(&told(&error)),
        }
        self.hand_on();
    }

    fn steer(&mut self, input: Input) {
        let message_id = input.message.message_id.clone();
        match self.session.clone().filter(|_| self.over.is_none()) {
            Some(session) if self.answers.len() < WAITING => self.wait_for(Box::pin(async move {
                let result = session.steer(input).await;
                Answer::Steered { message_id, result }
            })),
            Some(_) => {
                let why = "too many wait already".to_owned();
                self.answer(Answer::Steered {
                    message_id,
                    result: Err(SteerError::NotDelivered(why)),
                });
            }
            None => self.answer(Answer::Steered {
                message_id,
                result: Err(SteerError::Closed),
            }),
        }
    }

    /// Polls a call of the host once, so that its request takes its place among the others at once.
    fn wait_for(&mut self, mut answering: Answering) {
        match answering
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => self.answer(answer),
            Poll::Pending => self.answers.push(answering),
        }
    }

    /// Sends an answer of the host to the hub: each request of the hub has one.
    pub(super) fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Steered { message_id, result } => {
                let reason = result.as_ref().err().map(ToString::to_string);
                // The result belongs to the turn that the steer reached; the steer's own `turn_id`
                // names none ([turn.10]).
                let turn = result.is_ok().then(|| self.turns.running()).flatten();
                self.reply(
                    turn,
                    SteerResult {
                        message_id,
                        delivered: result.is_ok(),
                        reason,
                    }
                    .into(),
                );
            }
            Answer::Updated(Values::Reported) => {}
            Answer::Updated(Values::Unreported) => self.say_values(),
            Answer::Refused(why) => {
                let category = match why {
                    UpdateError::Busy => Category::Busy,
                    _ => Category::PermissionDenied,
                };
                self.say_error(category, &why.to_string());
                self.say_values();
            }
        }
    }

    fn say_values(&mut self) {
        self.reply(None, Box::new(self.in_force.told()).into());
    }

    /// Answers the waiting updates, since the session ends.
    pub(super) fn answer_updates(&mut self) {
        let updates = self
            .ordered
            .iter()
            .filter(|ordered| matches!(ordered, Ordered::Update(_)))
            .count();
        (0..updates).for_each(|_| self.answer(Answer::Updated(Values::Unreported)));
    }

    fn stop(&mut self, named: Option<&TurnId>, reason: StopReason) {
        let Some((serial, stage)) = self.turns.meant_by(named) else {
            return;
        };
        match stage {
            Stage::Given(no) => {
                let no = *no;
                if let Some(session) = &self.session {
                    session.stop_turn(no, reason);
                }
            }
            Stage::Waiting => {
                self.ordered.retain(
                    |ordered| !matches!(ordered, Ordered::Input(waiting, _) if *waiting == serial),
                );
                self.refuse(serial, stopped(reason, Delivered::No));
            }
            // Its end is on its way.
            Stage::Refused(..) => {}
        }
    }

    fn permission(&mut self, response: PermissionResponse) {
        match self.requests.answered(&response.request_id) {
            Some(PendingRequest::Permission(permission)) => permission.respond(response),
            // The answer does not fit the request: nothing was decided, which denies.
            Some(PendingRequest::Question(question)) => question.cancel(),
            None => self.common.counters.late.one(),
        }
    }

    fn question(&mut self, response: InputResponse) {
        match self.requests.answered(&response.request_id) {
            Some(PendingRequest::Question(question)) => match response.values {
                Some(values) if response.cancelled != Some(true) => question.answer(values),
                _ => question.cancel(),
            },
            Some(PendingRequest::Permission(permission)) => permission.deny(),
            None => self.common.counters.late.one(),
        }
    }

    pub(super) fn flow(&mut self, flow: Flow) {
        self.outlet.flow(flow);
        if let Some(session) = &self.session {
            match flow {
                Flow::Pause => session.pause(),
                Flow::Resume => session.resume(),
            }
        }
    }
}

/// Returns the input with its text, which is stored right in the hub's exchange folder; or the
/// unchanged input and the reason. Blocks on the file system.
fn with_text(
    body: HostBody,
    folder: Option<PathBuf>,
    member: &LargeMember,
) -> (HostBody, Option<String>) {
    let json = folder.map_or_else(
        || Err("the session has no exchange folder".to_owned()),
        |folder| take_json(&folder, member).map_err(|error| error.to_string()),
    );
    let whole = json.and_then(|json| {
        filled(&body, &[("content".to_owned(), json)]).map_err(|why| why.to_string())
    });
    match whole {
        Ok(whole) => (whole, None),
        Err(why) => (body, Some(why)),
    }
}

async fn place(session: Session, file: FileInput) -> Result<(), FileError> {
    session.deliver_announced(file).await
}

/// Formats an error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
