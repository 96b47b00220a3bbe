//! A session that is in memory: drives one session of the host, and writes down what happens.
//!
//! A task of its own owns everything of the session. Whatever changes it is first stored as an
//! entry; what follows from it (the input on its way to the agent, the answer to a request) is done
//! when it is.
//!
//! ```text
//! hubs ── Said ──▶ commands.rs ──┐
//!                                ├──▶ Recorder ──▶ journal ──▶ Tail ──▶ listeners
//! host ── Event ─▶ events.rs ────┘        │
//!      ◀── send, answer, stop ── Then ◀───┘ stored
//! ```

mod commands;
mod events;
mod files;
mod inputs;
mod requests;
mod stall;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tracing::Span;
use trunkline_host::{
    Event, EventDelivery, FileError, Host, Input, Permission, PlacedFile, Question, Session,
    SessionOptions, SteerError, TurnNo, UpdateError,
};
use trunkline_journal::{Journal, NotStored, RetentionHold, SessionKey};
use trunkline_protocol::{
    AdapterBody, Category, ClosedReason, Delivered, Fact, Failure, HostFact, HostMessage,
    InputResponse, MessageId, Meta, PermissionResponse, RelayBody, RequestDecided, RequestId, Role,
    SessionClosed, SessionId, SessionInfo, SessionStart, SessionState, SteerResult, StopReason,
    TurnComplete, TurnId,
};

pub use self::inputs::Submission;
use self::{
    files::FileInProgress,
    inputs::{FilePlacing, GivenTurn, QueuedInput, QueuedItem, UnannouncedFile},
    stall::{JournalStall, LOOK},
};
use crate::{
    activity::ActivityCell,
    ends,
    entry::{EntryBody, Reply},
    facts::SessionFacts,
    input_index::InputIndex,
    record::{NotRecorded, Recording},
    recorder::{EntryRecorder, StoredBlock},
    registry::SlotLease,
    tail::{EntryTail, ListenerNo, StreamEnd},
};

/// How many commands wait for a session.
pub(crate) const INBOX: usize = 64;

/// Replies to one listener that wait until the entries they report are stored. The stream of a
/// listener with more ends.
const MAX_UNSTORED_REPLIES: usize = 256;

/// Replies that wait to be read by one listener: those whose entries are stored at once, and as
/// many that come meanwhile. The stream of a listener with more ends.
pub(crate) const MAX_UNREAD_REPLIES: usize = 2 * MAX_UNSTORED_REPLIES;

/// How many ended turns, and how many decisions, are remembered for what comes late.
const REMEMBERED: usize = 64;

/// Inputs, files and updates of a session that wait, and turns that the agent has.
const MAX_QUEUED_ITEMS: usize = 64;

/// How long facts that changed wait for more.
const FACTS: Duration = Duration::from_secs(1);

/// How long a session without work and listeners stays in memory, where the agent holds nothing of
/// it.
const LINGER: Duration = Duration::from_secs(1);

/// How long the agent keeps a session without work and listeners. Its next input opens it again.
const PARK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a session that leaves the memory waits for the record.
const RECORD: Duration = Duration::from_secs(10);

/// For how long an end is waited for when the host ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A message to a session.
#[derive(Debug)]
pub(crate) enum SessionCommand {
    /// One listens, from now on.
    Joined(ListenerNo, Box<JoinRequest>),
    /// One has left.
    Left(ListenerNo),
    /// A listener sends a message, in a span.
    Message(ListenerNo, Box<HostMessage>, Span),
    /// A listener sends an input with its files, in a span.
    Submit(ListenerNo, Box<Submission>, Span),
    /// It is to end with the host, and says when it has.
    End(oneshot::Sender<()>),
    /// It is to leave for another host, and says whether it has: not where anything is open.
    HandOver(oneshot::Sender<bool>),
}

/// A listener as its session knows it.
#[derive(Debug)]
pub(crate) struct JoinRequest {
    pub(crate) role: Role,
    /// Its name, as it stands in `by`.
    pub(crate) name: String,
    /// What it hands over that is not stored.
    pub(crate) secrets: Option<Box<SessionStart>>,
    pub(crate) replies: mpsc::Sender<Reply>,
    /// Told what the session does when it has joined.
    pub(crate) joined: oneshot::Sender<SessionSnapshot>,
}

/// What a session does.
#[derive(Debug, Clone)]
pub(crate) struct SessionSnapshot {
    pub(crate) state: SessionState,
    pub(crate) running: Option<TurnId>,
    pub(crate) queued: Vec<TurnId>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) agent: String,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) last: u64,
}

/// What follows when an entry is stored.
#[derive(Debug)]
enum OnStored {
    /// The input goes to the agent.
    Send(TurnId, Box<QueuedInput>),
    /// An addition to the running turn goes to the agent.
    Steer(ListenerNo, Input),
    /// A permission of this turn, which listeners know by this id, is answered.
    Decide(Option<TurnId>, RequestId, Permission, PermissionResponse),
    /// A question of this turn, which listeners know by this id, is answered.
    Answer(Option<TurnId>, RequestId, Question, InputResponse),
    /// A listener gets a reply.
    Reply(ListenerNo, Reply),
}

/// A listener that has joined.
#[derive(Debug)]
struct Subscriber {
    role: Role,
    name: String,
    replies: mpsc::Sender<Reply>,
    /// Replies that wait until the entries they report are stored.
    unstored: usize,
}

/// A request that waits for an answer.
#[derive(Debug)]
enum PendingRequest {
    Permission(Permission),
    Question(Question),
}

/// What the host answers later.
#[derive(Debug)]
enum HostReply {
    Steered(Option<MessageId>, Result<(), SteerError>),
    Updated(ListenerNo, Result<Box<SessionInfo>, UpdateError>),
}

type BoxedReply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A session as its task holds it.
pub(crate) struct SessionActor {
    host: Host,
    journal: Journal,
    key: SessionKey,
    _held: RetentionHold,
    id: SessionId,
    facts: SessionFacts,
    /// What the hub gave that is not stored: environment and MCP servers.
    secrets: Option<Box<SessionStart>>,
    tail: Arc<EntryTail>,
    /// What it does, for those who list it.
    shown: ActivityCell,
    recorder: EntryRecorder<OnStored>,
    /// Where it writes first. `None`: the journal is all there is.
    recording: Option<Recording>,
    /// The host's session, while the agent has one.
    session: Option<Session>,
    listeners: HashMap<ListenerNo, Subscriber>,
    /// The turn that the agent has, or is about to get.
    given: Option<GivenTurn>,
    /// Turns of the host that ended lately, for what comes late.
    ended: VecDeque<(TurnNo, TurnId)>,
    queue: VecDeque<QueuedItem>,
    placing: Option<FilePlacing>,
    unannounced: Vec<UnannouncedFile>,
    keeping: Option<FileInProgress>,
    replies: FuturesUnordered<BoxedReply<HostReply>>,
    /// Requests that wait for an answer, by the ids that listeners know.
    pending: HashMap<RequestId, PendingRequest>,
    /// What was decided lately, for those who answer too late.
    decided: VecDeque<RequestDecided>,
    /// The latest requests: the agent's id and the one that listeners know.
    request_ids: VecDeque<(RequestId, RequestId)>,
    /// The ids that the session has used, once they were read from the journal.
    index: Option<InputIndex>,
    /// Whether the agent was asked to remember, and has not said whether it does.
    is_context_open: bool,
    /// What is done about a journal that cannot be written.
    stall: JournalStall,
    /// Ends that are written, and not known to be stored.
    unstored_ends: VecDeque<(u64, TurnId, TurnComplete)>,
    /// When facts that changed are written.
    facts_due: Option<Instant>,
    /// Since when nothing is to do and no one listens.
    idle_since: Option<Instant>,
    ending: Vec<oneshot::Sender<()>>,
}

/// How a session gets into memory.
pub(crate) struct SessionSeed {
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) id: SessionId,
    pub(crate) facts: SessionFacts,
    pub(crate) tail: Arc<EntryTail>,
    pub(crate) session: Option<Session>,
    pub(crate) secrets: Option<Box<SessionStart>>,
    /// The epoch in which it writes.
    pub(crate) epoch: u64,
    /// Where it writes first.
    pub(crate) recording: Option<Recording>,
}

enum ActorStep {
    Command(Option<SessionCommand>),
    Stored(StoredBlock<OnStored>),
    Lost(NotRecorded),
    Placed(Result<PlacedFile, FileError>),
    Kept(io::Result<PathBuf>),
    HostReply(HostReply),
    Event(Option<Event>),
    FactsDue,
    Look,
    Idle,
}

impl SessionActor {
    pub(crate) fn new(new: SessionSeed, shown: ActivityCell) -> Self {
        let SessionSeed {
            host,
            journal,
            key,
            id,
            facts,
            tail,
            session,
            secrets,
            epoch,
            recording,
        } = new;
        let is_new = tail.stored() == 0;
        let mut recorder =
            EntryRecorder::new(journal.clone(), key, id.clone(), epoch, tail.clone());
        if let Some(recording) = recording.clone() {
            recorder.record_first(recording);
        }
        let live = Self {
            host,
            _held: journal.hold(key),
            journal,
            key,
            id,
            facts,
            secrets,
            tail,
            shown,
            recorder,
            recording,
            session,
            listeners: HashMap::new(),
            given: None,
            ended: VecDeque::new(),
            queue: VecDeque::new(),
            placing: None,
            unannounced: Vec::new(),
            keeping: None,
            replies: FuturesUnordered::new(),
            pending: HashMap::new(),
            decided: VecDeque::new(),
            request_ids: VecDeque::new(),
            // A new session has used none.
            index: is_new.then(InputIndex::default),
            is_context_open: false,
            stall: JournalStall::default(),
            unstored_ends: VecDeque::new(),
            facts_due: None,
            idle_since: Some(Instant::now()),
            ending: Vec::new(),
        };
        live.show();
        live
    }

    fn show(&self) {
        self.shown
            .set(self.state(), self.facts.title.as_deref(), &self.facts.open);
    }

    /// Serves the session until it may leave the memory, or the host ends. Boxed: a task has room
    /// for all that it awaits, several times over.
    pub(crate) async fn run(
        mut self: Box<Self>,
        inbox: mpsc::Receiver<SessionCommand>,
        lease: SlotLease,
    ) {
        let epoch = self.recorder.epoch();
        let served = self.serve(inbox, &lease).await;
        // Its agent's session is closed before callers enter the slot again.
        drop(self);
        if let Err(why) = served {
            lease.end_without_record(epoch, why).await;
        }
    }

    /// # Errors
    /// Why the record takes nothing more.
    async fn serve(
        &mut self,
        mut inbox: mpsc::Receiver<SessionCommand>,
        lease: &SlotLease,
    ) -> Result<(), NotRecorded> {
        if self.recorder.last() == 0 {
            let opened = HostFact {
                fact: Some(Fact::Opened),
                ..HostFact::default()
            };
            self.note(None, opened, None);
            if self.recording.is_some() {
                // The first batch says whose session it is.
                self.write_facts();
            }
        }
        loop {
            // Who has heard an entry finds in a list what follows from it.
            self.show();
            self.recorder.flush();
            match self.step(&mut inbox).await {
                ActorStep::Command(Some(SessionCommand::End(done))) => {
                    self.ending.push(done);
                    lease.set_end(StreamEnd::HostEnding);
                    break;
                }
                ActorStep::Command(Some(SessionCommand::HandOver(done))) => {
                    if self.may_leave() {
                        lease.leave();
                        lease.set_end(StreamEnd::Moved);
                        inbox.close();
                        self.finish(&mut inbox).await?;
                        let _ = done.send(self.recorder.is_idle());
                        return Ok(());
                    }
                    let _ = done.send(false);
                }
                ActorStep::Command(None) => break,
                ActorStep::Lost(why) => {
                    if matches!(why, NotRecorded::Refused(_)) {
                        // It goes on with what is stored.
                        self.session = None;
                        let _ = tokio::time::timeout(RECORD, self.recorder.journaled()).await;
                    }
                    return Err(why);
                }
                ActorStep::Stored(StoredBlock {
                    result: Err(why),
                    then,
                }) if is_refused(&why) => {
                    lease.leave();
                    self.lose_session(&why, then);
                    return Ok(());
                }
                // Dropped, it is closed.
                ActorStep::Idle if self.session.is_some() => self.session = None,
                ActorStep::Idle => break,
                step => self.take_step(step).await,
            }
            self.idle_since = match self.is_idle() {
                true => self.idle_since.or_else(|| Some(Instant::now())),
                false => None,
            };
        }
        // Callers wait from now on until the last block is stored. Those that were about to join,
        // whose commands are dropped with the inbox, enter again.
        lease.leave();
        inbox.close();
        self.finish(&mut inbox).await
    }

    /// Waits for the next thing. What hubs say comes first: a `stop` passes through a flood of
    /// events.
    async fn step(&mut self, inbox: &mut mpsc::Receiver<SessionCommand>) -> ActorStep {
        let Self {
            recorder,
            placing,
            keeping,
            replies,
            session,
            facts_due,
            idle_since,
            stall,
            ..
        } = self;
        let takes_events = keeping.is_none() && recorder.has_room();
        let has_session = session.is_some();
        let (due, idle) = (
            *facts_due,
            idle_since.map(|since| since + if has_session { PARK } else { LINGER }),
        );
        let look = stall.look(!recorder.is_idle());
        tokio::select! {
            biased;
            command = inbox.recv() => ActorStep::Command(command),
            stored = recorder.stored() => stored.map_or_else(ActorStep::Lost, ActorStep::Stored),
            placed = async { (&mut placing.as_mut().expect("it is there by the branch's condition").placed).await }, if placing.is_some() => ActorStep::Placed(placed),
            kept = async { (&mut keeping.as_mut().expect("it is there by the branch's condition").kept).await }, if keeping.is_some() => ActorStep::Kept(kept),
            Some(reply) = replies.next(), if !replies.is_empty() => ActorStep::HostReply(reply),
            event = async { session.as_ref().expect("it is there by the branch's condition").next_event().await }, if has_session && takes_events => ActorStep::Event(event),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => ActorStep::FactsDue,
            () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => ActorStep::Look,
            () = sleep_until(idle.unwrap_or_else(Instant::now)), if idle.is_some() => ActorStep::Idle,
        }
    }

    async fn take_step(&mut self, step: ActorStep) {
        match step {
            ActorStep::Command(Some(command)) => self.take(command).await,
            ActorStep::Stored(stored) => self.stored(stored),
            ActorStep::Placed(placed) => self.file_placed(placed),
            ActorStep::Kept(kept) => self.kept(kept),
            ActorStep::HostReply(reply) => self.host_replied(reply),
            ActorStep::Event(event) => self.take_events(event),
            ActorStep::FactsDue => self.write_facts(),
            ActorStep::Look => self.look(),
            ActorStep::Command(None) | ActorStep::Idle | ActorStep::Lost(_) => {}
        }
    }

    /// Takes an event, and those behind it that are there already.
    fn take_events(&mut self, first: Option<Event>) {
        let mut next = Some(first);
        while let Some(event) = next.take() {
            match event {
                Some(event) => self.take_event(event),
                None => self.session_ended(SessionClosed {
                    reason: None,
                    error: Some(Failure::new(Category::Other, "the host has ended")),
                    cause: None,
                }),
            }
            if let Some(session) = &self.session
                && self.keeping.is_none()
                && !self.recorder.is_due()
                && self.recorder.has_room()
            {
                next = futures_util::FutureExt::now_or_never(session.next_event());
            }
        }
    }

    /// Does what follows from entries that are stored.
    fn stored(&mut self, stored: StoredBlock<OnStored>) {
        self.stall.end();
        let last = self.tail.stored();
        self.unstored_ends.retain(|(seq, ..)| *seq > last);
        for then in stored.then {
            match (&stored.result, then) {
                (Ok(()), OnStored::Reply(listener, reply)) => {
                    if let Some(subscriber) = self.listeners.get_mut(&listener) {
                        subscriber.unstored -= 1;
                    }
                    self.send_reply(listener, reply);
                }
                (Ok(()), OnStored::Send(turn, queued)) => self.send_input(turn, *queued),
                (Ok(()), OnStored::Steer(by, input)) => self.send_steer(by, input),
                (Ok(()), OnStored::Decide(_, _, permission, response)) => {
                    permission.respond(response);
                }
                (Ok(()), OnStored::Answer(_, _, question, response)) => match response.values {
                    Some(values) if response.cancelled != Some(true) => question.answer(values),
                    _ => question.cancel(),
                },
                // The host ends. Dropped, a request is denied and a question cancelled.
                (Err(_), _) => {}
            }
        }
    }

    /// Ends the session in this task, since another writer has continued it: nothing more is
    /// written, and inputs that were not stored, or not given to the agent, are refused.
    fn lose_session(&mut self, why: &NotStored, then: Vec<OnStored>) {
        tracing::error!(session = %self.id, "the session was written elsewhere: {why}");
        self.session = None;
        let failure = Failure::new(Category::Other, why.to_string());
        let mut lost = then;
        lost.extend(self.recorder.take_back(|_| true));
        let queued = std::mem::take(&mut self.queue).into_iter();
        lost.extend(queued.filter_map(|item| match item {
            QueuedItem::Input(turn, queued) => Some(OnStored::Send(turn, queued)),
            QueuedItem::File(..) | QueuedItem::Update(..) => None,
        }));
        for then in lost {
            match then {
                OnStored::Send(turn, queued) => {
                    let end = TurnComplete {
                        error: Some(failure.clone()),
                        ..ends::failed(Delivered::No)
                    };
                    self.reply(queued.by, Some(turn), AdapterBody::from(end));
                }
                OnStored::Steer(by, input) => {
                    let result = SteerResult {
                        message_id: input.message.message_id,
                        delivered: false,
                        reason: failure.message.clone(),
                    };
                    self.reply(by, None, AdapterBody::from(result));
                }
                // Dropped, a request is denied and a question cancelled. The result of an input
                // that is not stored is not sent.
                OnStored::Decide(..) | OnStored::Answer(..) | OnStored::Reply(..) => {}
            }
        }
    }

    /// Writes an entry that the adapter could have said.
    fn say(
        &mut self,
        turn: Option<TurnId>,
        body: impl Into<AdapterBody>,
        meta: Option<Meta>,
    ) -> u64 {
        let body = body.into();
        self.facts.open.take_adapter(turn.as_ref(), &body);
        self.change_facts();
        self.recorder.entry(turn, body, meta)
    }

    /// Writes an entry of the relay's own.
    fn note(
        &mut self,
        turn: Option<TurnId>,
        body: impl Into<RelayBody>,
        meta: Option<Meta>,
    ) -> u64 {
        let body = body.into();
        if let RelayBody::RequestDecided(decided) = &body {
            if self.decided.len() == REMEMBERED {
                self.decided.pop_front();
            }
            self.decided.push_back(decided.clone());
        }
        self.facts.open.take_relay(turn.as_ref(), &body);
        self.change_facts();
        self.recorder.entry(turn, body, meta)
    }

    /// Writes the end of a turn, and goes on with what waits.
    fn end_turn(&mut self, turn: TurnId, end: TurnComplete, meta: Option<Meta>) {
        self.facts.learn_from_end(&end);
        if self.stall.is_on() {
            self.tell_early(&turn, &end);
        }
        let seq = self.say(Some(turn.clone()), end.clone(), meta);
        self.unstored_ends.push_back((seq, turn, end));
        let open = &self.facts.open.requests;
        self.pending
            .retain(|id, _| open.iter().any(|request| request.id.0 == *id));
        self.drain_queue();
    }

    /// Sends one listener a message that is no entry.
    fn reply(&mut self, listener: ListenerNo, turn: Option<TurnId>, body: impl Into<EntryBody>) {
        self.send_reply(listener, Reply::new(turn, body));
    }

    fn send_reply(&mut self, listener: ListenerNo, reply: Reply) {
        if let Some(subscriber) = self.listeners.get(&listener)
            && subscriber.replies.try_send(reply).is_err()
        {
            self.drop_listener(listener);
        }
    }

    /// Sends one listener a message when all entries that were written so far are stored.
    fn reply_when_stored(
        &mut self,
        listener: ListenerNo,
        turn: Option<TurnId>,
        body: impl Into<EntryBody>,
    ) {
        match self.listeners.get_mut(&listener) {
            Some(subscriber) if subscriber.unstored < MAX_UNSTORED_REPLIES => {
                subscriber.unstored += 1;
                self.recorder
                    .then(OnStored::Reply(listener, Reply::new(turn, body)));
            }
            Some(_) => self.drop_listener(listener),
            None => {}
        }
    }

    /// Ends the stream of a listener that does not read its replies.
    fn drop_listener(&mut self, listener: ListenerNo) {
        tracing::warn!(session = %self.id, "a listener has too many unread replies; its stream ends");
        self.listeners.remove(&listener);
    }

    /// The name of one who speaks, and so has joined.
    fn name(&self, listener: ListenerNo) -> String {
        self.listeners
            .get(&listener)
            .map(|subscriber| subscriber.name.clone())
            .unwrap_or_default()
    }

    fn change_facts(&mut self) {
        if self.facts_due.is_none() {
            self.facts_due = Some(Instant::now() + FACTS);
        }
    }

    fn write_facts(&mut self) {
        self.facts_due = None;
        self.facts.last = self.recorder.last();
        self.recorder.facts(&self.facts);
    }

    fn is_idle(&self) -> bool {
        // One whose leaving found the inbox full has left all the same.
        self.listeners
            .values()
            .all(|subscriber| subscriber.replies.is_closed())
            && self.facts.open.is_empty()
            && self.recorder.is_idle()
            && self.keeping.is_none()
            && self.queue.is_empty()
    }

    /// Whether another host may have it: nothing is open, and nothing is under way to the agent.
    fn may_leave(&self) -> bool {
        self.facts.open.is_empty()
            && self.given.is_none()
            && self.queue.is_empty()
            && self.unannounced.is_empty()
            && self.placing.is_none()
            && self.keeping.is_none()
            && self.replies.is_empty()
    }

    fn state(&self) -> SessionState {
        match (&self.session, self.running()) {
            _ if self.facts.is_closed => SessionState::Closed,
            (_, Some(_)) => SessionState::Running,
            (Some(_), None) => SessionState::Idle,
            (None, None) => SessionState::Detached,
        }
    }

    /// What the session does now.
    fn now(&self) -> SessionSnapshot {
        let open = &self.facts.open;
        let running = self.running();
        SessionSnapshot {
            state: self.state(),
            running: running.cloned(),
            queued: open
                .turns
                .iter()
                .map(|turn| turn.id.0.clone())
                .filter(|turn| running != Some(turn))
                .collect(),
            requests: open
                .requests
                .iter()
                .map(|request| request.id.0.clone())
                .collect(),
            agent: self.facts.agent.clone(),
            title: self.facts.title.clone(),
            cwd: self.facts.cwd(),
            last: self.tail.stored(),
        }
    }

    /// The agent's session, opened again where there is none.
    fn agent(&mut self) -> Result<Session, Box<SessionClosed>> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let given = |name: &String| match (&self.secrets, name.as_str()) {
            (Some(secrets), "env") => secrets.env.is_some(),
            (Some(secrets), _) => secrets.mcp_servers.is_some(),
            (None, _) => false,
        };
        let missing: Vec<_> = self
            .facts
            .secrets
            .iter()
            .filter(|name| !given(name))
            .cloned()
            .collect();
        if !missing.is_empty() {
            let why = format!(
                "the session was opened with `{}`, which is not stored; hand it over with `session.attach`",
                missing.join("` and `")
            );
            return Err(Box::new(SessionClosed {
                reason: Some(ClosedReason::Refused),
                error: Some(Failure::new(Category::Other, why)),
                cause: None,
            }));
        }
        let (mut start, meta) = self.facts.start();
        if let Some(secrets) = &self.secrets {
            start.env.clone_from(&secrets.env);
            start.mcp_servers.clone_from(&secrets.mcp_servers);
        }
        let resumes = start.resume.is_some();
        let options = SessionOptions {
            id: Some(self.id.clone()),
            start,
            meta,
            delivery: EventDelivery::Merged,
        };
        let session = self
            .host
            .open(&self.facts.agent, options)
            .map_err(|error| Box::new(ends::refusal(&error)))?;
        self.session = Some(session.clone());
        self.reopened(resumes);
        Ok(session)
    }

    /// Ends with the host: what ends is still written.
    ///
    /// # Errors
    /// Why the record takes nothing more.
    async fn finish(
        &mut self,
        inbox: &mut mpsc::Receiver<SessionCommand>,
    ) -> Result<(), NotRecorded> {
        self.drop_queued("the host ends");
        let deadline = Instant::now() + LAST_WORDS;
        while !self.ending.is_empty() && self.given.is_some() && self.session.is_some() {
            self.recorder.flush();
            tokio::select! {
                step = self.step(inbox) => match step {
                    ActorStep::Command(Some(SessionCommand::End(done))) => self.ending.push(done),
                    ActorStep::Command(Some(_) | None) => {}
                    ActorStep::Lost(why) => return Err(why),
                    step => self.take_step(step).await,
                },
                () = sleep_until(deadline) => break,
            }
        }
        self.take_back(
            &ends::stopped(StopReason::Shutdown, Delivered::No),
            "the host ends",
        );
        let had_open = !self.facts.open.is_empty();
        self.stop_for_good();
        // The journal has the facts of a session in which nothing has happened since they were
        // written.
        if had_open || self.facts_due.is_some() {
            self.write_facts();
        }
        let until = Instant::now() + RECORD;
        while !self.recorder.is_idle() && self.journal.stalled().is_none() {
            // What is stored may be followed by more.
            self.recorder.flush();
            // What cannot be stored now waits in the journal until that is closed.
            if let Ok(stored) = tokio::time::timeout(LOOK, self.recorder.stored()).await {
                self.stored(stored?);
            }
            // What is not in the record by then is dropped.
            if self.recording.is_some() && Instant::now() > until {
                break;
            }
        }
        for done in self.ending.drain(..) {
            // Who waits for it may have given up.
            let _ = done.send(());
        }
        Ok(())
    }

    /// The turn that runs.
    fn running(&self) -> Option<&TurnId> {
        self.given.as_ref().map(|given| &given.id)
    }
}

/// Whether the journal refused a block for good, since the session has another writer or was
/// removed.
fn is_refused(why: &NotStored) -> bool {
    why.is_out_of_order() || matches!(why, NotStored::Removed(_))
}
