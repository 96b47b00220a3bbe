//! The session behind `chat`, `run` and `sessions attach`: its messages become events, and the
//! user's actions become calls. The host is another process, or the engine in this one.

use std::{
    collections::VecDeque,
    future::Future,
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anstyle::Style;
use anyhow::anyhow;
use tokio::{task::JoinSet, time::timeout};
use trunkline_client::{Client, ClientError, Event, EventBody, Events, Session};
use trunkline_host::{
    EventKind, Host, SessionEnd, TurnNo, TurnScope,
    protocol::{
        AdapterBody, AttachRefusal, ClosedReason, FileInput, MessageId, RelayBody, RequestId, Role,
        SessionAttach, SessionAttached, SessionId, SessionInfo, SessionStart, SessionState,
        SessionUpdate, SessionsList, Stamp, TurnBegin, TurnId,
    },
    redact,
};
use uuid::Uuid;

use crate::{error::CliError, listing, paint};

mod entries;
mod request;

pub(crate) use request::{AgentRequest, PendingRequest, RequestAnswer};

/// Timeout for an agent to report which options of a new session it applies.
pub(crate) const OPTIONS_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout for the last calls before a session is left.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit of ended turns whose late output is recognised.
const MAX_ENDED_TURNS: usize = 16;

/// A displayed event of a session.
#[derive(Debug)]
pub(crate) enum DisplayEvent {
    /// An event that every host reports.
    Event(trunkline_host::Event),
    /// A request of the agent that waits for this user.
    Request(Box<PendingRequest>),
    /// An input of another client, or from an earlier time.
    Input(String),
    /// A request was settled by another client, or earlier.
    Decided { request_id: RequestId, text: String },
    /// Another entry of a journal.
    Note {
        mark: &'static str,
        style: Style,
        text: String,
    },
    /// Nothing to show.
    Nothing,
}

impl DisplayEvent {
    fn note(mark: &'static str, style: Style, text: String) -> Self {
        Self::Note { mark, style, text }
    }

    fn warning(text: String) -> Self {
        Self::note("!", paint::CARE, text)
    }
}

/// Entries of a session that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachMode {
    /// All entries, then new ones; the user takes part.
    Control,
    /// Entries after this one, then new ones; the user only watches.
    Observe { after: u64 },
    /// Only turns that the user starts.
    OwnTurns,
}

/// The session of a conversation: one of a journal, or one that ends with its client.
pub(crate) struct SessionBackend {
    client: Client,
    session: Session,
    events: Events,
    mode: AttachMode,
    agent: String,
    /// Sequence number of the last entry that was read.
    seq: u64,
    /// True for a session of a journal, which other clients may use, and which outlives this one.
    is_kept: bool,
    /// Open turns, the running one first.
    open: VecDeque<OpenTurn>,
    /// Recently ended turns.
    ended: VecDeque<(TurnId, TurnNo)>,
    /// Number of turns so far.
    turns: u64,
    /// Events that arrived while a call waited for its answer.
    held: VecDeque<DisplayEvent>,
    calls: BackgroundCalls,
    is_silent: bool,
    is_closed: bool,
    /// Error that ended the events, if the connection was lost.
    lost: Option<ClientError>,
}

/// Calls that run in the background: stops, and answers to requests.
#[derive(Debug, Clone, Default)]
struct BackgroundCalls(Arc<Mutex<JoinSet<()>>>);

/// An open turn.
struct OpenTurn {
    id: TurnId,
    no: TurnNo,
    /// Id of its input, if this user started the turn.
    message_id: Option<MessageId>,
    began: Option<SystemTime>,
}

impl SessionBackend {
    fn new(client: Client, opened: (Session, Events), mode: AttachMode, agent: String) -> Self {
        let (session, events) = opened;
        let attached = session.attached();
        let state = attached.and_then(|attached| attached.state);
        let agreed = session.ready().and_then(|ready| ready.extensions.as_ref());
        let is_kept = agreed.is_none_or(|names| names.iter().any(|name| name == "journal"));
        let seq = match mode {
            AttachMode::Control => 0,
            AttachMode::Observe { after } => after,
            AttachMode::OwnTurns => attached.map_or(0, |attached| attached.last_seq),
        };
        Self {
            client,
            session,
            events,
            mode,
            agent,
            seq,
            is_kept,
            open: VecDeque::new(),
            ended: VecDeque::new(),
            turns: 0,
            held: VecDeque::new(),
            calls: BackgroundCalls::default(),
            is_silent: true,
            is_closed: state == Some(SessionState::Closed),
            lost: None,
        }
    }

    /// Attaches to a session.
    ///
    /// # Errors
    /// The host's refusal.
    pub(crate) async fn attach(
        client: Client,
        id: &SessionId,
        mode: AttachMode,
    ) -> Result<Self, CliError> {
        let attach = |after, role| {
            let attach = SessionAttach {
                after,
                role: Some(role),
                ..SessionAttach::default()
            };
            client.attach(id.clone(), attach)
        };
        let attached = match mode {
            AttachMode::Control => attach(0, Role::Control).await,
            AttachMode::Observe { after } => attach(after, Role::Observe).await,
            AttachMode::OwnTurns => client.attach_at_end(id.clone(), Role::Control).await,
        };
        let opened = attached.map_err(|error| refused(id, error))?;
        let agent = opened.0.attached().map(|it| it.agent_id.clone());
        Ok(Self::new(client, opened, mode, agent.unwrap_or_default()))
    }

    /// Opens a session with a new id that starts with `prefix`.
    ///
    /// # Errors
    /// The host's refusal.
    pub(crate) async fn open(
        client: Client,
        prefix: &str,
        agent: Option<String>,
        start: SessionStart,
    ) -> Result<Self, CliError> {
        let id = new_id(prefix)?;
        let start = SessionStart {
            agent_id: agent.clone(),
            ..start
        };
        let opened = client.open_as(id.clone(), start).await;
        let opened = opened.map_err(|error| match error {
            // The user does not know the id yet.
            ClientError::SessionRefused { .. } => CliError::usage(refusal_text(error)),
            error => refused(&id, error),
        })?;
        let mut session = Self::new(client, opened, AttachMode::Control, String::new());
        // The first entry confirms that the session is stored.
        while session.is_kept && session.seq == 0 {
            let Some(event) = session.next_event().await else {
                return Err(session.lost());
            };
            if let EventBody::Adapter(AdapterBody::SessionClosed(closed)) = &event.body
                && event.stamp.seq.is_none()
            {
                let cause = ClientError::SessionClosed {
                    reason: closed.reason,
                    failure: closed.error.clone().map(Box::new),
                };
                return Err(refused(&id, cause));
            }
            // The first entries display nothing.
            let _ = session.display(event);
        }
        session.agent = match agent {
            Some(agent) => agent,
            None => session.default_agent().await?,
        };
        Ok(session)
    }

    /// Returns the agent that the host selects by default.
    async fn default_agent(&self) -> Result<String, CliError> {
        let list = SessionsList {
            id: Some(self.id().to_string()),
            ..listing::all()
        };
        let page = self.client.sessions(list).await;
        let mut sessions = page.map_err(|error| refused(self.id(), error))?.sessions;
        Ok(sessions.pop().map_or_else(String::new, |it| it.agent_id))
    }

    /// Leaves this session, which is closed unless it is kept, and opens one with a new id and the
    /// same agent.
    ///
    /// # Errors
    /// The host's refusal.
    pub(crate) async fn restart(&mut self, start: SessionStart) -> Result<(), CliError> {
        if !self.is_kept {
            // The agent may support only one session.
            let _ = timeout(LEAVE_TIMEOUT, self.session.close()).await;
        }
        let client = self.client.clone();
        let agent = self.agent.clone();
        *self = Self::open(client, "chat", Some(agent), start).await?;
        Ok(())
    }

    /// Checks the connection to the host.
    ///
    /// # Errors
    /// The host has ended; with the next step.
    pub(crate) fn check_host(&self) -> Result<(), CliError> {
        if self.is_lost() {
            Err(self.lost())
        } else {
            Ok(())
        }
    }

    /// Returns the error for a session that was lost with its host.
    pub(crate) fn lost(&self) -> CliError {
        match &self.lost {
            Some(refusal @ ClientError::SessionRefused { .. }) => {
                refused(self.id(), refusal.clone())
            }
            _ => host_ended(self.id()),
        }
    }

    /// Leaves the session, which continues if it is kept. Pending inputs, stops and answers are
    /// still sent.
    pub(crate) async fn leave(self) {
        self.finish_calls().await;
        self.client.close().await;
    }

    /// Stops the turns that the user started, and leaves the session. Its host closes the agent's
    /// session as soon as nothing is open.
    pub(crate) async fn release(self) {
        let own = self.open.iter().filter(|turn| turn.message_id.is_some());
        own.for_each(|turn| self.stop_turn(turn.no));
        self.finish_calls().await;
        // Ignored: a host that has ended holds no session of the agent.
        let _ = timeout(LEAVE_TIMEOUT, self.session.release()).await;
        self.client.close().await;
    }

    async fn finish_calls(&self) {
        let mut calls = self.calls.drain();
        let made = async { while calls.join_next().await.is_some() {} };
        // Ignored: a host that has ended needs no call.
        let _ = timeout(LEAVE_TIMEOUT, made).await;
    }

    /// Closes the session, and leaves.
    pub(crate) async fn close(self) {
        // The close completes in the host after the timeout.
        let _ = timeout(LEAVE_TIMEOUT, self.session.close()).await;
        self.leave().await;
    }

    /// Returns true if the user has started a turn.
    pub(crate) fn has_turns(&self) -> bool {
        self.turns > 0
    }

    /// Returns true if the agent has reported nothing, neither in this session nor, under a host of
    /// this process, in another.
    pub(crate) fn is_silent(&self, host: Option<&Host>) -> bool {
        host.map_or(self.is_silent, is_silent)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    pub(crate) fn id(&self) -> &SessionId {
        self.session.id()
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the session's state when it was attached.
    pub(crate) fn attached(&self) -> Option<&SessionAttached> {
        self.session.attached()
    }

    /// Returns true until all entries that existed at the attach have arrived.
    pub(crate) fn is_behind(&self) -> bool {
        let last = self.attached().map_or(0, |attached| attached.last_seq);
        self.seq < last && !self.is_lost()
    }

    /// Returns true if the session accepts no further input.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed || self.session.has_ended()
    }

    /// Returns true if the session is closed and each of its entries has been read.
    pub(crate) fn has_read_end(&self) -> bool {
        self.is_closed && !self.is_behind()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Returns the running turn. While history is read, the turn that was running when the session
    /// was attached.
    pub(crate) fn running(&self) -> Option<TurnNo> {
        let running = if self.is_behind() {
            let running = self.attached()?.turn_id.as_ref()?;
            self.open.iter().find(|turn| turn.id == *running)
        } else {
            self.open.front()
        };
        running.map(|turn| turn.no)
    }

    /// Sends an input, which starts a turn.
    ///
    /// # Errors
    /// The input was not sent.
    pub(crate) async fn send(&mut self, text: &str) -> anyhow::Result<TurnNo> {
        let turn = self.session.send(text).await?;
        Ok(self.begin(turn.id(), Some(turn.message_id().clone())))
    }

    /// Stops a turn.
    pub(crate) fn stop_turn(&self, turn: TurnNo) {
        if let Some(open) = self.open.iter().find(|open| open.no == turn) {
            let session = self.session.clone();
            let id = open.id.clone();
            self.calls.make(async move { session.stop(id).await });
        }
    }

    /// Changes options. Returns the values in force.
    ///
    /// # Errors
    /// The options were not changed.
    pub(crate) async fn update(&mut self, update: SessionUpdate) -> anyhow::Result<SessionInfo> {
        let session = self.session.clone();
        let updated = self.answer(session.update(update)).await;
        updated.map_err(refusal_text)
    }

    /// Sends a file to the agent.
    ///
    /// # Errors
    /// The file was not sent.
    pub(crate) async fn deliver_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let file_path = std::path::absolute(path)?;
        let Some(file_path) = file_path.to_str().map(str::to_owned) else {
            return Err(anyhow!("its path is not UTF-8; rename it"));
        };
        let file = FileInput {
            file_path,
            ..FileInput::default()
        };
        let session = self.session.clone();
        let placed = self.answer(session.place_file(file)).await;
        placed.map_err(refusal_text)
    }

    /// Waits for the next event. `None` at the session's end, or when its host is lost.
    ///
    /// # Cancel safety
    /// Cancelling loses no event.
    pub(crate) async fn next(&mut self) -> Option<DisplayEvent> {
        if let Some(held) = self.held.pop_front() {
            return Some(held);
        }
        let event = self.next_event().await?;
        Some(self.display(event))
    }

    /// Returns the next entry as its line. `None` at the session's end, or when its host is lost.
    ///
    /// # Cancel safety
    /// Cancelling loses no entry.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        loop {
            let event = self.next_event().await?;
            if event.stamp.seq.is_some() {
                return Some(event.line().to_owned());
            }
        }
    }

    /// Waits until the agent has reported that it works in the folder of a new session. Returns
    /// false if it does not, or reports nothing within 15 s.
    ///
    /// # Cancel safety
    /// Cancelling loses no event.
    pub(crate) async fn works_there(&mut self) -> bool {
        let reported = async {
            while let Some(event) = self.next_event().await {
                let is_there = match &event.body {
                    EventBody::Adapter(AdapterBody::SessionInfo(info)) => {
                        let mut applied = info.options_applied.iter().flatten();
                        applied.any(|name| name == "cwd")
                    }
                    _ => false,
                };
                let shown = self.display(event);
                self.held.push_back(shown);
                if is_there {
                    return true;
                }
            }
            false
        };
        timeout(OPTIONS_TIMEOUT, reported).await.unwrap_or(false)
    }

    async fn next_event(&mut self) -> Option<Event> {
        let event = match self.events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => {
                self.is_closed = true;
                return None;
            }
            Err(cause) => {
                self.lost = Some(cause);
                return None;
            }
        };
        match (&event.body, event.stamp.seq) {
            (_, Some(seq)) => self.seq = seq,
            (EventBody::Relay(RelayBody::Lag(lag)), _) => self.seq = self.seq.max(lag.to),
            (EventBody::TooLong { .. }, _) => self.seq += 1,
            _ => {}
        }
        self.is_closed |= matches!(
            event.body,
            EventBody::Adapter(AdapterBody::SessionClosed(_))
        );
        Some(event)
    }

    /// Waits for the answer to a call. Events in the meantime are held.
    async fn answer<T>(
        &mut self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let mut call = pin!(call);
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                Some(event) = self.next_event() => {
                    let shown = self.display(event);
                    self.held.push_back(shown);
                }
            }
        }
    }

    fn begin(&mut self, id: TurnId, message_id: Option<MessageId>) -> TurnNo {
        self.turns += 1;
        let no = TurnNo::new(self.turns);
        self.open.push_back(OpenTurn {
            id,
            no,
            message_id,
            // Replaced by the journal's time.
            began: Some(SystemTime::now()),
        });
        no
    }

    /// Converts an event of the session to its displayed form.
    fn display(&mut self, event: Event) -> DisplayEvent {
        let at = self.open.iter().position(|turn| turn.has(&event));
        if self.mode == AttachMode::OwnTurns && event.turn_id.is_some() && at.is_none() {
            return DisplayEvent::Nothing;
        }
        let time = parse_time(&event.stamp).or((!self.is_kept).then(SystemTime::now));
        let is_it = |ended: &&(TurnId, TurnNo)| event.turn_id.as_ref() == Some(&ended.0);
        let ended = self.ended.iter().find(is_it);
        let scope = match (at, ended) {
            (Some(at), _) => TurnScope::Running(self.open[at].no),
            (None, Some((_, no))) => TurnScope::Ended(*no),
            (None, None) => TurnScope::Outside,
        };
        let is_own = event.is_own;
        let mut shown = match event.body {
            EventBody::Adapter(mut body) => {
                if let AdapterBody::SessionInfo(info) = &mut body
                    && self.is_kept
                {
                    // An entry of the host, `resumed`, reports the same.
                    info.context = None;
                }
                let is_answer =
                    event.awaits_answer && !matches!(self.mode, AttachMode::Observe { .. });
                let is_end = matches!(
                    body,
                    AdapterBody::TurnComplete(_) | AdapterBody::SessionClosed(_)
                );
                self.is_silent &= event.stamp.seq.is_none() || is_end;
                self.display_message(body, scope, at, time, is_answer)
            }
            EventBody::Relay(RelayBody::TurnBegin(begin)) => match event.turn_id {
                Some(id) => self.display_begin(id, begin, at, time),
                None => DisplayEvent::Nothing,
            },
            EventBody::Relay(body) => entries::relay_message(scope, body, is_own),
            EventBody::TooLong { bytes } => {
                let text = format!("an entry of {bytes} bytes is too long to be shown");
                DisplayEvent::warning(text)
            }
            // A type of a later version.
            _ => DisplayEvent::Nothing,
        };
        if let (DisplayEvent::Event(event), Some(time)) = (&mut shown, time) {
            event.time = time;
        }
        shown
    }

    fn display_begin(
        &mut self,
        id: TurnId,
        begin: TurnBegin,
        at: Option<usize>,
        time: Option<SystemTime>,
    ) -> DisplayEvent {
        let at = at.unwrap_or_else(|| {
            self.begin(id.clone(), None);
            self.open.len() - 1
        });
        let turn = &mut self.open[at];
        // The host may have assigned another id.
        turn.id = id;
        turn.began = time;
        match turn.message_id {
            Some(_) => DisplayEvent::Nothing,
            None => DisplayEvent::Input(begin.content),
        }
    }

    fn display_message(
        &mut self,
        body: AdapterBody,
        scope: TurnScope,
        at: Option<usize>,
        time: Option<SystemTime>,
        is_answer: bool,
    ) -> DisplayEvent {
        let kind = match body {
            AdapterBody::TurnComplete(complete) => {
                let Some(turn) = at.and_then(|at| self.open.remove(at)) else {
                    return DisplayEvent::Nothing;
                };
                self.ended.push_front((turn.id, turn.no));
                self.ended.truncate(MAX_ENDED_TURNS);
                let took = turn.began.zip(time);
                let took = took.and_then(|(from, to)| to.duration_since(from).ok());
                EventKind::End(Box::new(entries::turn_end(turn.no, *complete, took)))
            }
            AdapterBody::PermissionRequest(request) if is_answer => {
                return self.display_request(AgentRequest::Permission(request), scope, time);
            }
            AdapterBody::InputRequest(request) if is_answer => {
                return self.display_request(AgentRequest::Question(request), scope, time);
            }
            AdapterBody::SessionClosed(closed) => EventKind::Closed(Box::new(SessionEnd {
                reason: closed.reason.unwrap_or(ClosedReason::Finished),
                error: closed.error,
            })),
            body => return entries::adapter_message(scope, body),
        };
        DisplayEvent::Event(trunkline_host::Event::new(scope, kind))
    }

    fn display_request(
        &self,
        request: AgentRequest,
        scope: TurnScope,
        time: Option<SystemTime>,
    ) -> DisplayEvent {
        DisplayEvent::Request(Box::new(PendingRequest {
            request,
            scope,
            time: time.unwrap_or_else(SystemTime::now),
            session: self.session.clone(),
            calls: self.calls.clone(),
            is_shared: self.is_kept,
            is_answered: false,
        }))
    }
}

impl OpenTurn {
    /// Returns true if an event belongs to this turn. The first event may name another id than the
    /// input.
    fn has(&self, event: &Event) -> bool {
        let begins = match &event.body {
            EventBody::Relay(RelayBody::TurnBegin(begin)) => {
                begin.message_id.is_some() && begin.message_id == self.message_id
            }
            _ => false,
        };
        begins || event.turn_id.as_ref() == Some(&self.id)
    }
}

impl BackgroundCalls {
    /// Makes a call in its own task.
    fn make(&self, call: impl Future<Output = Result<(), ClientError>> + Send + 'static) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while calls.try_join_next().is_some() {}
        calls.spawn(async move {
            match call.await {
                // A settled request needs no answer, and the command reports a host that has ended.
                Ok(())
                | Err(
                    ClientError::NotPending(_)
                    | ClientError::SessionClosed { .. }
                    | ClientError::ConnectionLost(_),
                ) => {}
                Err(error) => tracing::warn!("a stop or an answer was not sent: {error}"),
            }
        });
    }

    fn drain(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns true if no agent of a host has written a line.
pub(crate) fn is_silent(host: &Host) -> bool {
    let agents = host.agents();
    agents.iter().all(|agent| agent.counters.lines_in == 0)
}

/// Returns the error for a session that a host does not open or attach.
pub(crate) fn refused(id: &SessionId, error: ClientError) -> CliError {
    match error {
        ClientError::SessionRefused {
            reason, message, ..
        } => {
            let fault = CliError::usage(anyhow!(
                "session {:?}: {}",
                id.as_str(),
                redact::text(&message)
            ));
            match reason {
                Some(AttachRefusal::Unknown | AttachRefusal::Gone) => {
                    fault.next("`trunkline sessions` lists the sessions")
                }
                _ => fault,
            }
        }
        ClientError::SessionClosed { failure, .. } => {
            let message = failure.and_then(|failure| failure.message);
            let message = message.unwrap_or_else(|| "the host opened no session".to_owned());
            CliError::usage(anyhow!(redact::text(&message).into_owned()))
        }
        ClientError::ConnectionLost(_) => host_ended(id),
        error => CliError::failed(error),
    }
}

/// Returns the error for a session whose host has ended.
pub(crate) fn host_ended(id: &SessionId) -> CliError {
    CliError::failed(anyhow!("the process that served the journal has ended")).next(format!(
        "`trunkline sessions attach {id}` continues the stored session, even if no host is running"
    ))
}

/// Returns the host's reason for a refused request. The reason can quote an agent, so text that
/// looks like a secret is redacted.
pub(crate) fn refusal_text(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::RequestFailed(why) => anyhow!(redact::text(&why).into_owned()),
        ClientError::File { message, .. } | ClientError::SessionRefused { message, .. } => {
            anyhow!(redact::text(&message).into_owned())
        }
        ClientError::ConnectionLost(_) => anyhow!("the host has ended"),
        error => anyhow!(error),
    }
}

fn parse_time(stamp: &Stamp) -> Option<SystemTime> {
    humantime::parse_rfc3339(stamp.time.as_deref()?).ok()
}

/// Returns an id that is easy to type.
fn new_id(prefix: &str) -> Result<SessionId, CliError> {
    let id = Uuid::new_v4().simple().to_string();
    SessionId::new(format!("{prefix}-{}", &id[..8])).map_err(CliError::failed)
}
