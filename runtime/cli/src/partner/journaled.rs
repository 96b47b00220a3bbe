//! A session of a journal, as one hub has it: entries become events, and what the person does becomes messages.

use std::{
    collections::{HashSet, VecDeque},
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::anyhow;
use tokio::{sync::mpsc, time::timeout};
use trunkline_host::{
    Event, EventKind, Permission, Question, SessionEnd, TurnNo, TurnScope,
    protocol::{
        AdapterBody, AdapterMessage, AttachRefusal, ClosedReason, FileInput, HostBody, HostMessage, HubBody,
        HubMessage, InputResponse, InputResult, MessageId, PROTOCOL, PermissionResponse, RelayBody,
        RelayMessage, RequestId, Role, SessionAttach, SessionAttached, SessionClose, SessionDetach,
        SessionId, SessionInfo, SessionRefused, SessionStart, SessionState, SessionUpdate, Status, Stop,
        StopReason, TurnId, UserInput,
    },
};
use uuid::Uuid;

use super::{Heard, entries};
use crate::{
    fault::Fault,
    hub::{Hub, Message, Stamp, Told},
    paint,
    terminal::one_line,
};

/// The extensions that a person's session asks for.
const EXTENSIONS: [&str; 9] =
    ["turns", "events", "usage", "resume", "options", "questions", "flow", "control", "journal"];

/// Answers of a person that wait to be written.
const ANSWERS: usize = 64;

/// How long an agent may take to say what it applies of a new session's options.
const ANSWER: Duration = Duration::from_secs(15);

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
    /// Attaches to a session.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn attach(hub: Hub, id: &SessionId, access: Access) -> Result<Self, Fault> {
        let mut session = Self::new(hub, id.clone(), access);
        let role = if access == Access::Whole { Role::Control } else { Role::Observe };
        session.now = session.join(0, role).await?;
        if access == Access::FromNow {
            // Nothing of the first comes behind the answer to the second.
            session.now = session.join(session.now.last_seq, Role::Control).await?;
            session.seq = session.now.last_seq;
        }
        Ok(session)
    }

    /// Watches a session from behind an entry on.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn watch(hub: Hub, id: &SessionId, after: u64) -> Result<Self, Fault> {
        let mut session = Self::new(hub, id.clone(), Access::Observed);
        session.now = session.join(after, Role::Observe).await?;
        session.seq = after;
        Ok(session)
    }

    /// Opens a session of a new id, which begins with `kind`.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn start(
        hub: Hub,
        kind: &str,
        agent: Option<String>,
        start: SessionStart,
    ) -> Result<Self, Fault> {
        let mut session = Self::new(hub, new_id(kind)?, Access::Whole);
        session.agent = agent;
        session.open_new(start).await?;
        Ok(session)
    }

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
            is_heard: false,
            is_closed: false,
            is_lost: false,
        }
    }

    /// Leaves this session, and opens one of a new id with the same agent.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn anew(&mut self, start: SessionStart) -> Result<(), Fault> {
        self.hub.say(&HubMessage::new(self.id.clone(), HubBody::from(SessionDetach {})));
        self.id = new_id("chat")?;
        (self.seq, self.now, self.is_closed) = (0, SessionAttached::default(), false);
        self.open.clear();
        self.held.clear();
        self.open_new(start).await
    }

    async fn open_new(&mut self, start: SessionStart) -> Result<(), Fault> {
        let start = SessionStart {
            agent_id: self.agent.clone(),
            protocol: Some(PROTOCOL),
            extensions: Some(EXTENSIONS.map(str::to_owned).to_vec()),
            ..start
        };
        self.say(None, HostBody::SessionStart(Box::new(start)));
        // The first entry says that it is stored.
        while self.seq == 0 {
            let Some(told) = self.hear().await else { return Err(self.lost()) };
            match &told.message {
                Message::Relay(RelayMessage { body: RelayBody::SessionRefused(refused), .. }) => {
                    return Err(self.refused(refused));
                }
                Message::Adapter(AdapterMessage { body: AdapterBody::SessionClosed(closed), .. })
                    if told.stamp.seq.is_none() =>
                {
                    let why = closed.error.as_ref().and_then(|error| error.message.clone());
                    let why = why.unwrap_or_else(|| "the host opened no session".to_owned());
                    return Err(Fault::usage(anyhow!(why)));
                }
                _ => drop(self.take(told)),
            }
        }
        // Under which name it speaks, and with which agent.
        self.now = self.join(self.seq, Role::Control).await?;
        Ok(())
    }

    async fn join(&mut self, after: u64, role: Role) -> Result<SessionAttached, Fault> {
        let attach = SessionAttach {
            after,
            role: Some(role),
            protocol: Some(PROTOCOL),
            extensions: Some(EXTENSIONS.map(str::to_owned).to_vec()),
            ..SessionAttach::default()
        };
        self.hub.say(&HubMessage::new(self.id.clone(), HubBody::from(attach)));
        loop {
            let Some(told) = self.hear().await else { return Err(self.lost()) };
            // Entries of an attach before are of no use.
            let Message::Relay(RelayMessage { body, .. }) = told.message else { continue };
            match body {
                RelayBody::SessionAttached(attached) if attached.role == Some(role) => {
                    self.agent = Some(attached.agent_id.clone());
                    self.is_closed = attached.state == Some(SessionState::Closed);
                    return Ok(*attached);
                }
                RelayBody::SessionRefused(refused) => return Err(self.refused(&refused)),
                _ => {}
            }
        }
    }

    fn refused(&self, refused: &SessionRefused) -> Fault {
        let why = refused.message.clone().unwrap_or_else(|| "the host refuses the session".to_owned());
        let fault = Fault::usage(anyhow!("session {:?}: {why}", self.id.as_str()));
        match refused.reason {
            Some(AttachRefusal::Unknown | AttachRefusal::Gone) => {
                fault.next("list those that there are by `trunkline sessions`")
            }
            _ => fault,
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

    /// Waits until the agent has said that it works in the folder that a new session named. `false` where it does not,
    /// or says nothing within 15 s.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn works_there(&mut self) -> bool {
        let hears = async {
            while !self.is_closed {
                let Some(told) = self.hear().await else { return false };
                let (heard, _) = self.take(told);
                let applied = match &heard {
                    Heard::Event(Event { kind: EventKind::Info(info), .. }) => info.options_applied.as_ref(),
                    _ => None,
                };
                let is_there = applied.is_some_and(|applied| applied.iter().any(|name| name == "cwd"));
                self.held.push_back(heard);
                if is_there {
                    return true;
                }
            }
            false
        };
        timeout(ANSWER, hears).await.unwrap_or(false)
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
            true => self.open.iter().find(|turn| self.now.turn_id.as_ref() == Some(&turn.id)),
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
            mode: None,
        };
        self.say(Some(turn.clone()), input);
        Ok(self.begin(turn, true))
    }

    /// Waits until the journal has an input that was sent.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) async fn accepted(&mut self) -> Result<InputResult, Fault> {
        match self.answer(|heard| matches!(heard, Answered::Input(_) | Answered::Refused(_))).await {
            Some(Answered::Input(result)) => Ok(result),
            Some(Answered::Refused(why)) => Err(Fault::failed(anyhow!("the input was not taken: {why}"))),
            _ => Err(self.lost()),
        }
    }

    pub(super) fn stop_turn(&mut self, turn: TurnNo) {
        let Some(id) = self.open.iter().find(|open| open.no == turn).map(|open| open.id.clone()) else {
            return;
        };
        self.say(Some(id), Stop { reason: Some(StopReason::User) });
    }

    pub(super) async fn update(&mut self, update: SessionUpdate) -> anyhow::Result<SessionInfo> {
        self.say(None, HostBody::SessionUpdate(Box::new(update)));
        match self.answer(|heard| matches!(heard, Answered::Info(_) | Answered::Refused(_))).await {
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
        self.say(None, FileInput { file_path, ..FileInput::default() });
        match self.answer(|heard| matches!(heard, Answered::File | Answered::Refused(_))).await {
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
            };
            match told {
                Ok(Some(told)) if *told.session() == self.id => return Some(told),
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

    fn say(&mut self, turn: Option<TurnId>, body: impl Into<HostBody>) {
        self.hub.say(&HostMessage::new(self.id.clone(), body.into()).of_turn(turn));
    }

    fn begin(&mut self, id: TurnId, is_own: bool) -> TurnNo {
        self.turns += 1;
        let no = TurnNo::new(self.turns);
        self.open.push_back(Open { id, no, is_own, began: None });
        no
    }

    /// What a line is to the person, and what it answers.
    fn take(&mut self, told: Told) -> (Heard, Option<Answered>) {
        let Told { message, stamp, .. } = told;
        if let Some(seq) = stamp.seq {
            self.seq = seq;
        }
        let turn = match &message {
            Message::Adapter(message) => &message.turn_id,
            Message::Relay(message) => &message.turn_id,
        };
        if self.access == Access::FromNow
            && turn.as_ref().is_some_and(|id| self.open.iter().all(|turn| turn.id != *id))
        {
            // Another one's turn.
            return (Heard::Nothing, None);
        }
        match message {
            Message::Adapter(message) => self.take_adapter(message, &stamp),
            Message::Relay(message) => self.take_relay(message, &stamp),
        }
    }

    fn take_adapter(&mut self, message: AdapterMessage, stamp: &Stamp) -> (Heard, Option<Answered>) {
        let AdapterMessage { turn_id, meta, body, .. } = message;
        let at = turn_id.as_ref().and_then(|id| self.open.iter().position(|turn| turn.id == *id));
        let scope = at.map_or(TurnScope::Outside, |at| TurnScope::Running(self.open[at].no));
        let is_said = !matches!(body, AdapterBody::TurnComplete(_) | AdapterBody::SessionClosed(_));
        self.is_heard |= stamp.seq.is_some() && is_said;
        let heard = match body {
            AdapterBody::TurnComplete(complete) => {
                let refused = (stamp.seq.is_none()).then(|| {
                    let why = complete.error.as_ref().and_then(|error| error.message.clone());
                    Answered::Refused(why.unwrap_or_else(|| "the host refuses it".to_owned()))
                });
                let Some(turn) = at.and_then(|at| self.open.remove(at)) else {
                    return (Heard::Nothing, refused);
                };
                let took = turn.began.zip(moment(stamp)).and_then(|(from, to)| to.duration_since(from).ok());
                let end = entries::turn_end(turn.no, *complete, meta.as_ref(), took);
                let kind = EventKind::End(Box::new(end));
                return (Heard::Event(Event { scope, kind, meta: meta.map(Box::new) }), refused);
            }
            AdapterBody::PermissionRequest(request) if self.is_open(&request.request_id) => {
                let answer = self.way();
                let permission = Permission::elsewhere(request, move |response| answer(response.into()));
                Heard::Event(Event { scope, kind: EventKind::Permission(permission), meta: None })
            }
            AdapterBody::PermissionRequest(request) => {
                let about = request.title.or(request.description).or(request.resource).unwrap_or_default();
                asked(&format!("{} asks for permission: {}", one_line(&request.tool), one_line(&about)))
            }
            AdapterBody::InputRequest(request) if self.is_open(&request.request_id) => {
                let answer = self.way();
                let question = Question::elsewhere(request, move |response| answer(response.into()));
                Heard::Event(Event { scope, kind: EventKind::Question(question), meta: None })
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
                let end = SessionEnd { reason, error: closed.error };
                Heard::Event(Event { scope, kind: EventKind::Closed(Box::new(end)), meta: None })
            }
            AdapterBody::FileOutput(file) => entries::file(scope, file),
            AdapterBody::SessionInfo(info) => {
                let is_answer = stamp.seq.is_none() || info.model.is_some() || info.mode.is_some();
                let answer = is_answer.then(|| Answered::Info(info.clone()));
                return (entries::event(scope, AdapterBody::SessionInfo(info), meta), answer);
            }
            AdapterBody::Error(error) if stamp.seq.is_none() => {
                let refused = Answered::Refused(error.message.clone());
                return (entries::event(scope, AdapterBody::Error(error), meta), Some(refused));
            }
            body => entries::event(scope, body, meta),
        };
        (heard, None)
    }

    fn take_relay(&mut self, message: RelayMessage, stamp: &Stamp) -> (Heard, Option<Answered>) {
        let heard = match message.body {
            RelayBody::TurnBegin(begin) => {
                let Some(id) = message.turn_id else { return (Heard::Nothing, None) };
                let at = match self.open.iter().position(|turn| turn.id == id) {
                    Some(at) => at,
                    None => {
                        self.begin(id, false);
                        self.open.len() - 1
                    }
                };
                let turn = &mut self.open[at];
                turn.began = moment(stamp);
                if turn.is_own { Heard::Nothing } else { Heard::Said(begin.content) }
            }
            RelayBody::InputSteered(steered) => Heard::Said(steered.content),
            RelayBody::RequestDecided(decided) => {
                let is_own = self.answered.remove(&decided.request_id) && self.is_me(decided.by.as_deref());
                // Without a number it is what a late answer gets.
                if is_own || stamp.seq.is_none() { Heard::Nothing } else { entries::decided(decided) }
            }
            RelayBody::FileDelivered(file) => {
                let is_own = self.is_me(file.by.as_deref());
                let name = one_line(file.file_name.as_deref().unwrap_or("a file"));
                return match is_own {
                    true => (Heard::Nothing, Some(Answered::File)),
                    false => (Heard::Note { mark: "↑", style: paint::ACT, text: name }, None),
                };
            }
            RelayBody::HostFact(fact) => entries::fact(fact),
            RelayBody::Lag(lag) => {
                self.seq = self.seq.max(lag.to);
                entries::lag(&lag)
            }
            RelayBody::InputResult(result) => return (Heard::Nothing, Some(Answered::Input(result))),
            // A turn's end says that it was stopped.
            RelayBody::StopRequested(_)
            | RelayBody::SessionAttached(_)
            | RelayBody::SessionRefused(_)
            | RelayBody::SessionHistoryResult(_) => Heard::Nothing,
        };
        (heard, None)
    }

    /// Whether a request waits for this person.
    fn is_open(&self, request: &RequestId) -> bool {
        let is_new = self.seq > self.now.last_seq;
        self.access != Access::Observed
            && (is_new || self.now.requests.iter().flatten().any(|open| open == request))
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

    /// Stops the turn that ran when the session was attached, and waits for its end. `None` where none runs.
    ///
    /// # Errors
    /// When the host ends first.
    pub(crate) async fn stop_running(&mut self) -> Result<Option<Status>, Fault> {
        let Some(turn) = self.now.turn_id.clone() else { return Ok(None) };
        self.say(Some(turn.clone()), Stop { reason: Some(StopReason::User) });
        loop {
            let Some(told) = self.hear().await else { return Err(self.lost()) };
            if let Message::Adapter(AdapterMessage { turn_id, body: AdapterBody::TurnComplete(end), .. }) =
                told.message
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

/// What was asked and is not for this person to answer.
fn asked(text: &str) -> Heard {
    Heard::Note { mark: "?", style: paint::CARE, text: text.to_owned() }
}

fn moment(stamp: &Stamp) -> Option<SystemTime> {
    humantime::parse_rfc3339(stamp.time.as_deref()?).ok()
}

/// An id that a person can type.
fn new_id(kind: &str) -> Result<SessionId, Fault> {
    let id = Uuid::new_v4().simple().to_string();
    SessionId::new(format!("{kind}-{}", &id[..8])).map_err(Fault::failed)
}
