//! A session of a journal, as one hub has it: entries become events, and what the person does becomes messages.

use std::{
    collections::{HashSet, VecDeque},
    path::Path,
    time::SystemTime,
};

use anyhow::anyhow;
use tokio::sync::mpsc;
use trunkline_host::{
    TurnNo,
    protocol::{
        AdapterBody, AdapterMessage, FileInput, HostBody, HostMessage, InputResponse, InputResult,
        MessageId, PermissionResponse, RequestId, SessionAttached, SessionClose, SessionId,
        SessionInfo, SessionUpdate, Status, Stop, StopReason, TurnId, UserInput,
    },
};
use uuid::Uuid;

use self::again::Again;
use super::Heard;
use crate::{
    fault::Fault,
    hub::{Hub, Message, Told},
};

mod again;
mod join;
mod take;

/// Answers of a person that wait to be written.
const ANSWERS: usize = 64;

/// How a session is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All of it, then what is new; the person may speak.
    Whole,
    /// What is there, then what is new; the person may only watch.
    Observed,
    /// What is new; the person may speak.
    FromNow,
}

/// A session of a journal.
pub(crate) struct Journaled {
    hub: Hub,
    id: SessionId,
    access: Access,
    agent: Option<String>,
    /// What the session did when it was attached.
    now: SessionAttached,
    /// The last entry that was heard.
    seq: u64,
    /// Turns that have begun and not ended, the running one first.
    open: VecDeque<Open>,
    /// How many turns have a number.
    turns: u64,
    /// Requests that this person answered.
    answered: HashSet<RequestId>,
    /// What was heard while an answer was awaited.
    held: VecDeque<Heard>,
    /// Answers to requests, on their way to the hub.
    answers: (mpsc::Sender<HostBody>, mpsc::Receiver<HostBody>),
    /// What was said and has no answer yet: said again at the next host, where the session moves.
    unanswered: Vec<HostMessage>,
    /// When it is attached again, where no host serves it. `None` until it is attached first.
    again: Option<Again>,
    /// Whether its agent has said anything.
    is_heard: bool,
    is_closed: bool,
    is_lost: bool,
}

/// A turn that has begun.
struct Open {
    id: TurnId,
    no: TurnNo,
    /// Begun by this person.
    is_own: bool,
    began: Option<SystemTime>,
}

/// What answers something that was asked.
enum Answered {
    Input(InputResult),
    Info(Box<SessionInfo>),
    File,
    Refused(String),
}

impl Journaled {
    fn new(hub: Hub, id: SessionId, access: Access) -> Self {
        Self {
            hub,
            id,
            access,
            agent: None,
            now: SessionAttached::default(),
            seq: 0,
            open: VecDeque::new(),
            turns: 0,
            answered: HashSet::new(),
            held: VecDeque::new(),
            answers: mpsc::channel(ANSWERS),
            unanswered: Vec::new(),
            again: None,
            is_heard: false,
            is_closed: false,
            is_lost: false,
        }
    }

    /// That the host is gone, and what to do.
    pub(crate) fn lost(&self) -> Fault {
        let next = format!(
            "`trunkline sessions attach {}` goes on: what was shown is stored, and no host needs to run for it",
            self.id
        );
        Fault::failed(anyhow!("the host that has the journal has ended")).next(next)
    }

    /// Leaves the session, which goes on. What was said, a stop say, is still taken.
    pub(crate) async fn leave(mut self) {
        while let Ok(answer) = self.answers.1.try_recv() {
            self.say(None, answer);
        }
        self.hub.leave().await;
    }

    /// Ends the session, and leaves.
    pub(crate) async fn close(mut self) {
        if !self.is_closed && !self.is_lost {
            self.say(None, SessionClose {});
        }
        self.leave().await;
    }

    /// Whether its agent has said anything.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Its id.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Its agent.
    pub(crate) fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or_default()
    }

    /// What it did when it was attached.
    pub(crate) fn then(&self) -> &SessionAttached {
        &self.now
    }

    /// Whether entries are still to come that were there when it was attached.
    pub(crate) fn is_behind(&self) -> bool {
        self.seq < self.now.last_seq && !self.is_lost
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The turn that runs. While history is read, the one that ran when the session was attached.
    pub(super) fn running(&self) -> Option<TurnNo> {
        let running = match self.is_behind() {
            true => self
                .open
                .iter()
                .find(|turn| self.now.turn_id.as_ref() == Some(&turn.id)),
            false => self.open.front(),
        };
        running.map(|turn| turn.no)
    }

    /// Sends an input with ids of its own.
    pub(super) fn send(&mut self, text: &str) -> anyhow::Result<TurnNo> {
        if self.is_closed {
            return Err(anyhow!("the session is closed"));
        }
        let turn = TurnId::new(Uuid::new_v4().simple().to_string())?;
        let input = UserInput {
            content: text.to_owned(),
            message_id: Some(MessageId::new(Uuid::new_v4().simple().to_string())?),
            ..UserInput::default()
        };
        self.ask(Some(turn.clone()), input);
        Ok(self.begin(turn, true))
    }

    /// Waits until the journal has an input that was sent.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) async fn accepted(&mut self) -> Result<InputResult, Fault> {
        match self
            .answer(|heard| matches!(heard, Answered::Input(_) | Answered::Refused(_)))
            .await
        {
            Some(Answered::Input(result)) => Ok(result),
            Some(Answered::Refused(why)) => {
                Err(Fault::failed(anyhow!("the input was not taken: {why}")))
            }
            _ => Err(self.lost()),
        }
    }

    pub(super) fn stop_turn(&mut self, turn: TurnNo) {
        let Some(id) = self
            .open
            .iter()
            .find(|open| open.no == turn)
            .map(|open| open.id.clone())
        else {
            return;
        };
        self.say(
            Some(id),
            Stop {
                reason: Some(StopReason::User),
            },
        );
    }

    pub(super) async fn update(&mut self, update: SessionUpdate) -> anyhow::Result<SessionInfo> {
        self.ask(None, HostBody::SessionUpdate(Box::new(update)));
        match self
            .answer(|heard| matches!(heard, Answered::Info(_) | Answered::Refused(_)))
            .await
        {
            Some(Answered::Info(info)) => Ok(*info),
            Some(Answered::Refused(why)) => Err(anyhow!(why)),
            _ => Err(anyhow!("the host has ended")),
        }
    }

    pub(super) async fn deliver_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let file_path = std::path::absolute(path)?;
        let Some(file_path) = file_path.to_str().map(str::to_owned) else {
            return Err(anyhow!("its path is not UTF-8; name it otherwise"));
        };
        self.ask(
            None,
            FileInput {
                file_path,
                ..FileInput::default()
            },
        );
        match self
            .answer(|heard| matches!(heard, Answered::File | Answered::Refused(_)))
            .await
        {
            Some(Answered::File) => Ok(()),
            Some(Answered::Refused(why)) => Err(anyhow!(why)),
            _ => Err(anyhow!("the host has ended")),
        }
    }

    /// Waits for what comes next. `None` at the host's end.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(super) async fn next(&mut self) -> Option<Heard> {
        if let Some(heard) = self.held.pop_front() {
            return Some(heard);
        }
        let told = self.hear().await?;
        Some(self.take(told).0)
    }

    /// Hears what is of this session.
    async fn hear(&mut self) -> Option<Told> {
        loop {
            let told = tokio::select! {
                biased;
                Some(answer) = self.answers.1.recv() => {
                    if let HostBody::PermissionResponse(PermissionResponse { request_id, .. })
                    | HostBody::InputResponse(InputResponse { request_id, .. }) = &answer
                    {
                        self.answered.insert(request_id.clone());
                    }
                    self.say(None, answer);
                    continue;
                }
                told = self.hub.hear() => told,
                () = again::is_due(self.again.as_ref()) => {
                    self.attach_again();
                    continue;
                }
            };
            match told {
                Ok(Some(told)) if *told.session() == self.id => {
                    if self.moves(&told) {
                        continue;
                    }
                    return (!self.is_lost).then_some(told);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    self.is_lost = true;
                    return None;
                }
            }
        }
    }

    /// Hears until an answer of this kind comes; what else comes is kept for [`Self::next`].
    async fn answer(&mut self, is_meant: impl Fn(&Answered) -> bool) -> Option<Answered> {
        loop {
            let told = self.hear().await?;
            let (heard, answered) = self.take(told);
            let meant = answered.filter(&is_meant);
            if !matches!(meant, Some(Answered::Refused(_))) {
                self.held.push_back(heard);
            }
            if meant.is_some() {
                return meant;
            }
        }
    }

    /// Says what has an answer.
    fn ask(&mut self, turn: Option<TurnId>, body: impl Into<HostBody>) {
        let message = HostMessage::new(self.id.clone(), body.into()).of_turn(turn);
        self.hub.say(&message);
        self.unanswered.push(message);
    }

    fn say(&mut self, turn: Option<TurnId>, body: impl Into<HostBody>) {
        self.hub
            .say(&HostMessage::new(self.id.clone(), body.into()).of_turn(turn));
    }

    fn begin(&mut self, id: TurnId, is_own: bool) -> TurnNo {
        self.turns += 1;
        let no = TurnNo::new(self.turns);
        self.open.push_back(Open {
            id,
            no,
            is_own,
            began: None,
        });
        no
    }

    /// Stops the turn that ran when the session was attached, and waits for its end. `None` where none runs.
    ///
    /// # Errors
    /// When the host ends first.
    pub(crate) async fn stop_running(&mut self) -> Result<Option<Status>, Fault> {
        let Some(turn) = self.now.turn_id.clone() else {
            return Ok(None);
        };
        self.say(
            Some(turn.clone()),
            Stop {
                reason: Some(StopReason::User),
            },
        );
        loop {
            let Some(told) = self.hear().await else {
                return Err(self.lost());
            };
            if let Message::Adapter(AdapterMessage {
                turn_id,
                body: AdapterBody::TurnComplete(end),
                ..
            }) = told.message
                && turn_id.as_ref() == Some(&turn)
            {
                return Ok(Some(end.status_or_completed()));
            }
        }
    }

    /// The next entry as its line, for those who render entries themselves. `None` at the host's end.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        loop {
            let told = self.hear().await?;
            if let Some(seq) = told.stamp.seq {
                let body = match &told.message {
                    Message::Adapter(message) => Some(&message.body),
                    Message::Relay(_) => None,
                };
                self.seq = seq;
                self.is_closed |= matches!(body, Some(AdapterBody::SessionClosed(_)));
                return Some(told.line);
            }
        }
    }
}
