//! The task of a session in memory: drives one session of the host and writes its entries.
//!
//! Each task owns all state of its session. Every change is first stored as an entry; its
//! consequences (sending the input to the agent, answering the request) follow when the entry is
//! stored.
//!
//! ```text
//! listeners ── Message ──▶ commands.rs ──┐
//!                                        ├──▶ EntryRecorder ──▶ journal ──▶ EntryTail ──▶ listeners
//! host ─────── Event ────▶ events.rs ────┘          │
//!      ◀────── send, answer, stop ──── OnStored ◀───┘ stored
//! ```
//!
//! A session that is not stored has the same state and handlers (`memory`): its log passes each
//! entry to its only client, and counts it as stored at once.

mod commands;
mod events;
mod inputs;
mod memory;
mod requests;
mod stall;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, pending},
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
    EditRejected, Event, EventDelivery, FileError, Host, Input, OpenError, Permission, PlacedFile,
    Question, Session, SessionOptions, SteerError, TurnNo, UpdateError,
};
use trunkline_journal::{Journal, NotStored, SessionKey};
use trunkline_protocol::{
    AdapterBody, Body, Category, ClosedReason, CopiedContext, Delivered, Fact, Failure, HostBody,
    HostFact, HostMessage, InputResponse, MessageId, Meta, PermissionResponse, RelayBody,
    RequestDecided, RequestId, Role, SessionClosed, SessionEdit, SessionId, SessionInfo,
    SessionStart, SessionState, SteerResult, StopReason, TurnComplete, TurnId,
};

use self::{
    events::FileInProgress,
    inputs::{FilePlacing, GivenTurn, InputLookup, QueuedInput, QueuedItem, UnannouncedFile},
    stall::{JournalStall, LOOK},
};
pub use self::{
    inputs::Submission,
    memory::serve_in_memory,
    requests::{AnswerNote, OpenRequest},
};
use crate::{
    activity::ActivityCell,
    changes::{ChangeAnnouncer, SessionChange},
    ends,
    entry::{EntryBody, Reply},
    facts::{ContextSource, CopyOrigin, SessionFacts},
    input_index::InputIndex,
    log::{JournalLog, SessionLog},
    record::{NotRecorded, Recording},
    recorder::{EntryRecorder, StoredBlock},
    registry::SlotLease,
    tail::{EntryTail, ListenerNo, StreamEnd},
};

/// Capacity of the command queue of a session.
pub(crate) const INBOX: usize = 64;

/// Maximum number of replies to one listener that wait until the entries they report are stored.
/// The stream of a listener with more ends.
const MAX_UNSTORED_REPLIES: usize = 256;

/// Maximum number of unread replies of one listener: those whose entries are stored at once, and as
/// many that arrive meanwhile. The stream of a listener with more ends.
pub(crate) const MAX_UNREAD_REPLIES: usize = 2 * MAX_UNSTORED_REPLIES;

/// Number of ended turns, and of decisions, that are remembered for late messages.
const REMEMBERED: usize = 64;

/// Maximum number of inputs, files and updates in the queue of a session, and of turns that the
/// agent has.
const MAX_QUEUED_ITEMS: usize = 64;

/// Maximum number of turns that the host has at once for an agent that takes inputs while its turn
/// runs: the running one, and as many as the host writes ahead.
const MAX_GIVEN_TURNS: usize = 9;

/// Delay before changed facts are written, so that further changes are written with them.
const FACTS: Duration = Duration::from_secs(1);

/// Time that a session without work and listeners stays in memory when the agent has no session
/// open for it.
const LINGER: Duration = Duration::from_secs(1);

/// Time that the agent keeps a session without work and listeners. The next input opens it again.
const PARK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Timeout for the record when a session leaves the memory.
const RECORD: Duration = Duration::from_secs(10);

/// Timeout for the end of the running turn when the host ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Message to the task of a session.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the command queue keeps each one in a box"
)]
pub(crate) enum SessionCommand {
    /// A listener joins.
    Joined(ListenerNo, JoinRequest),
    /// A listener has left.
    Left(ListenerNo),
    /// Closes the agent's session once nothing is open and no listener is left.
    Release,
    /// A listener sends a message, in a span.
    Message(ListenerNo, HostMessage, Span),
    /// A listener sends an input with its files, in a span.
    Submit(ListenerNo, Submission, Span),
    /// A listener answers a permission or a question, with a note.
    Answer(ListenerNo, HostBody, AnswerNote),
    /// Returns the open requests.
    OpenRequests(oneshot::Sender<Vec<(RequestId, OpenRequest)>>),
    /// Changes the title or archives the session.
    Edit(EditSender, SessionEdit),
    /// Ends the session with the host. The sender is notified when it has ended.
    End(oneshot::Sender<()>),
    /// Releases the session for another host, unless something is open. The reply reports success.
    HandOver(oneshot::Sender<bool>),
}

/// Sender of an edit.
#[derive(Debug)]
pub(crate) enum EditSender {
    /// A listener, which gets a `session.edit.result`.
    Listener(ListenerNo),
    /// A client that does not listen, by the name that the entry gets. The result is sent when the
    /// entry is stored; an error is the reason for a refusal.
    Caller(Option<String>, oneshot::Sender<Result<(), String>>),
}

/// Sender of the commands of a session. Boxed, because the queue of an idle session keeps room for
/// many of them.
pub(crate) type CommandSender = mpsc::Sender<Box<SessionCommand>>;

/// Receiver of the commands of a session.
pub(crate) type CommandReceiver = mpsc::Receiver<Box<SessionCommand>>;

/// A listener, as its session sees it.
#[derive(Debug)]
pub(crate) struct JoinRequest {
    pub(crate) role: Role,
    /// True if its answers to permissions count.
    pub(crate) may_approve: bool,
    /// The listener's name in `by`.
    pub(crate) name: String,
    /// Values from the listener that are not stored.
    pub(crate) secrets: Option<Box<SessionStart>>,
    /// Boxed, because the queue of an idle listener keeps room for many.
    pub(crate) replies: mpsc::Sender<Box<Reply>>,
    /// Receives the state of the session when the listener has joined.
    pub(crate) joined: oneshot::Sender<SessionSnapshot>,
}

/// Current state of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionSnapshot {
    pub(crate) state: SessionState,
    pub(crate) running: Option<TurnId>,
    pub(crate) queued: Vec<TurnId>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) agent: String,
    pub(crate) title: Option<String>,
    pub(crate) is_archived: bool,
    pub(crate) copied: Option<CopiedContext>,
    pub(crate) cwd: Option<String>,
    pub(crate) last: u64,
}

/// Action to perform when an entry is stored.
#[derive(Debug)]
pub(crate) enum OnStored {
    /// Sends the input to the agent.
    Send(TurnId, Box<QueuedInput>),
    /// Sends an addition to the running turn to the agent.
    Steer(ListenerNo, Input),
    /// Answers a permission of this turn, which listeners know by this id.
    Decide(Option<TurnId>, RequestId, Permission, PermissionResponse),
    /// Answers a question of this turn, which listeners know by this id.
    Answer(Option<TurnId>, RequestId, Question, InputResponse),
    /// Sends a reply to a listener.
    Reply(ListenerNo, Reply),
    /// Reports to a client that does not listen that its edit is stored.
    Edited(oneshot::Sender<Result<(), String>>),
    /// Announces a change to the readers of all sessions.
    Announce(Box<SessionChange>),
}

/// A listener that has joined.
#[derive(Debug)]
struct Subscriber {
    role: Role,
    may_approve: bool,
    name: String,
    replies: mpsc::Sender<Box<Reply>>,
    /// Number of replies that wait until the entries they report are stored.
    unstored: usize,
}

/// A request that waits for an answer.
#[derive(Debug)]
enum PendingRequest {
    Permission(Permission),
    Question(Question),
}

/// Result of a call to the host that completes later.
#[derive(Debug)]
pub(crate) enum HostReply {
    Steered(Option<MessageId>, Result<(), SteerError>),
    Updated(ListenerNo, Result<Box<SessionInfo>, UpdateError>),
    EditChecked(
        ListenerNo,
        Box<(PermissionResponse, AnswerNote)>,
        Result<(), EditRejected>,
    ),
}

type BoxedReply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// State of a session in memory, owned by its task.
pub(crate) struct SessionActor {
    id: SessionId,
    facts: SessionFacts,
    /// Values from the hub that are not stored: environment and MCP servers.
    secrets: Option<Box<SessionStart>>,
    /// The copied conversation as text, if the agent needs it ([journal.14]).
    transcript: Option<String>,
    log: SessionLog,
    /// The host's session, while the agent has one.
    session: Option<Session>,
    listeners: HashMap<ListenerNo, Subscriber>,
    /// The turns that the agent has, or is about to get, in order. The first one is running.
    given: VecDeque<GivenTurn>,
    /// Recently ended turns of the host, for late events.
    ended: VecDeque<(TurnNo, TurnId)>,
    queue: VecDeque<QueuedItem>,
    placing: Option<Box<FilePlacing>>,
    unannounced: Vec<UnannouncedFile>,
    /// Number of the last input that began its way to the agent.
    last_input: u64,
    keeping: Option<Box<FileInProgress>>,
    replies: FuturesUnordered<BoxedReply<HostReply>>,
    /// Requests that wait for an answer, by the ids that listeners know.
    pending: HashMap<RequestId, PendingRequest>,
    /// Recent decisions, for answers that come too late.
    decided: VecDeque<RequestDecided>,
    /// The latest requests: the agent's id and the id that listeners know.
    request_ids: VecDeque<(RequestId, RequestId)>,
    /// Set if the ids of earlier requests were forgotten.
    has_forgotten_ids: bool,
    /// Set if the agent takes inputs while its turn runs.
    takes_queue: bool,
    /// Set while the agent was asked to resume and has not reported whether it remembers.
    is_context_open: bool,
    /// Handling of a journal that cannot be written.
    stall: JournalStall,
    /// Ends of turns that are written but not known to be stored.
    unstored_ends: VecDeque<(u64, TurnId, Box<TurnComplete>)>,
    /// Time at which changed facts are written.
    facts_due: Option<Instant>,
    /// Time at which a stored session became idle: without work and without listeners.
    idle_since: Option<Instant>,
    /// True if the agent's session is closed as soon as the session is idle.
    is_released: bool,
    ending: Vec<oneshot::Sender<()>>,
}

/// Everything that a new [`SessionActor`] needs.
pub(crate) struct SessionSeed {
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) id: SessionId,
    pub(crate) facts: SessionFacts,
    pub(crate) tail: Arc<EntryTail>,
    pub(crate) session: Option<Session>,
    pub(crate) secrets: Option<Box<SessionStart>>,
    /// The copied conversation as text, if the agent needs it.
    pub(crate) transcript: Option<String>,
    /// The epoch in which the session writes.
    pub(crate) epoch: u64,
    /// The record that is written before the journal.
    pub(crate) recording: Option<Recording>,
}

pub(crate) enum ActorStep {
    Command(Option<Box<SessionCommand>>),
    Stored(StoredBlock<OnStored>),
    Lost(NotRecorded),
    /// Held entries were passed on to the only client.
    Room,
    /// The only client may have read the end of the session.
    EndRead,
    Placed(Result<PlacedFile, FileError>),
    Kept(io::Result<PathBuf>),
    HostReply(HostReply),
    Event(Option<Event>),
    FactsDue,
    Look,
    Idle,
}

impl SessionActor {
    pub(crate) fn new(new: SessionSeed, shown: ActivityCell, announcer: ChangeAnnouncer) -> Self {
        let SessionSeed {
            host,
            journal,
            key,
            id,
            facts,
            tail,
            session,
            secrets,
            transcript,
            epoch,
            recording,
        } = new;
        let is_new = tail.stored() == 0;
        let mut recorder = EntryRecorder::new(&journal, key, id.clone(), epoch, tail.clone());
        if let Some(recording) = recording.clone() {
            recorder.record_first(recording);
        }
        let log = JournalLog {
            host,
            _hold: journal.hold(key),
            journal,
            key,
            recorder,
            recording,
            // A new session has not used any ids.
            index: is_new.then(InputIndex::default),
            tail,
            shown,
            announcer,
        };
        let mut actor = Self::with_log(
            id,
            facts,
            SessionLog::Journal(Box::new(log)),
            session,
            secrets,
        );
        actor.transcript = transcript;
        actor.idle_since = Some(Instant::now());
        actor.session_change(None);
        actor
    }

    fn with_log(
        id: SessionId,
        facts: SessionFacts,
        log: SessionLog,
        session: Option<Session>,
        secrets: Option<Box<SessionStart>>,
    ) -> Self {
        Self {
            id,
            facts,
            secrets,
            transcript: None,
            log,
            session,
            listeners: HashMap::new(),
            given: VecDeque::new(),
            ended: VecDeque::new(),
            queue: VecDeque::new(),
            placing: None,
            unannounced: Vec::new(),
            last_input: 0,
            keeping: None,
            replies: FuturesUnordered::new(),
            pending: HashMap::new(),
            decided: VecDeque::new(),
            request_ids: VecDeque::new(),
            has_forgotten_ids: false,
            takes_queue: false,
            is_context_open: false,
            stall: JournalStall::default(),
            unstored_ends: VecDeque::new(),
            facts_due: None,
            idle_since: None,
            is_released: false,
            ending: Vec::new(),
        }
    }

    /// Publishes the activity of a stored session. Returns the change under this name, or under its
    /// own if a list shows one.
    fn session_change(&self, name: Option<&'static str>) -> Option<SessionChange> {
        let log = self.log.journal()?;
        let shown = log
            .shown
            .set(self.state(), self.running_turn(), &self.facts);
        let last = log.recorder.last();
        let change = |name| log.shown.get().to_change(name, self.id.as_str(), last);
        name.or(shown).map(change)
    }

    /// Announces a change when all entries written so far are stored.
    fn announce(&mut self, change: Option<SessionChange>) {
        if let Some(change) = change.filter(|_| !self.log.is_memory()) {
            self.log.then(OnStored::Announce(Box::new(change)));
        }
    }

    /// Makes readers of all sessions read their state again, since changes are not announced.
    fn skip_changes(&self) {
        if let Some(log) = self.log.journal() {
            log.announcer.feed.skip();
        }
    }

    /// Serves the session until it may leave the memory, or the host ends. Boxed, because a task
    /// reserves space for everything that it awaits, several times over.
    pub(crate) async fn run(mut self: Box<Self>, inbox: CommandReceiver, lease: SlotLease) {
        let epoch = self.log.journal().map_or(0, |log| log.recorder.epoch());
        let served = self.serve(inbox, &lease).await;
        // Close the agent's session before callers enter the slot again.
        drop(self);
        if let Err(why) = served {
            lease.end_without_record(epoch, why).await;
        }
    }

    /// # Errors
    /// The reason that the record rejects further batches.
    async fn serve(
        &mut self,
        mut inbox: CommandReceiver,
        lease: &SlotLease,
    ) -> Result<(), NotRecorded> {
        if self.log.last() == 0 {
            let opened = HostFact {
                fact: Some(Fact::Opened),
                ..HostFact::default()
            };
            self.write_note(None, opened, None);
            let change = self.session_change(Some("opened"));
            self.announce(change);
            if self.has_record() {
                // The first batch names the owner of the session.
                self.write_facts();
            }
        }
        loop {
            // A client that has received an entry must find its consequences in a list.
            let change = self.session_change(None);
            self.announce(change);
            self.log.flush();
            match self.next_step(Some(&mut inbox)).await {
                ActorStep::Command(Some(command)) => match *command {
                    SessionCommand::End(done) => {
                        self.ending.push(done);
                        lease.set_end(StreamEnd::HostEnding);
                        break;
                    }
                    SessionCommand::HandOver(done) if self.may_leave() => {
                        lease.leave();
                        lease.set_end(StreamEnd::Moved);
                        inbox.close();
                        Box::pin(self.finish_session(&mut inbox)).await?;
                        let _ = done.send(self.log.is_idle());
                        return Ok(());
                    }
                    _ => self.handle_command(command).await,
                },
                ActorStep::Command(None) => break,
                ActorStep::Lost(why) => {
                    if matches!(why, NotRecorded::Refused(_)) {
                        // The session continues with the entries that are stored.
                        self.session = None;
                        if let Some(log) = self.log.journal_mut() {
                            let _ = tokio::time::timeout(RECORD, log.recorder.journaled()).await;
                        }
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
                // Dropping the agent's session closes it.
                ActorStep::Idle if self.session.is_some() => self.session = None,
                ActorStep::Idle => break,
                step => self.handle_step(step),
            }
            self.idle_since = if self.is_idle() {
                self.idle_since.or_else(|| Some(Instant::now()))
            } else {
                None
            };
        }
        // From now on callers wait until the last block is stored. Callers that were about to join,
        // and whose commands are dropped with the inbox, enter again.
        lease.leave();
        if self.ending.is_empty() {
            inbox.close();
        }
        Box::pin(self.finish_session(&mut inbox)).await
    }

    /// Waits for the next step. Commands of hubs come first, so that a `stop` passes a flood of
    /// events.
    async fn next_step(&mut self, inbox: Option<&mut CommandReceiver>) -> ActorStep {
        let look = self.stall.look(!self.log.is_idle());
        let linger = match self.session {
            Some(_) if self.is_released => Duration::ZERO,
            Some(_) => PARK,
            None => LINGER,
        };
        let Self {
            log,
            placing,
            keeping,
            replies,
            session,
            facts_due,
            idle_since,
            ..
        } = self;
        let idle = idle_since.map(|since| since + linger);
        // The next event follows the file that the session keeps.
        let speaker = session.as_ref().filter(|_| keeping.is_none());
        tokio::select! {
            biased;
            command = next_command(inbox) => ActorStep::Command(command),
            placed = file_placed(placing.as_deref_mut()) => ActorStep::Placed(placed),
            kept = file_kept(keeping.as_deref_mut()) => ActorStep::Kept(kept),
            Some(reply) = replies.next(), if !replies.is_empty() => ActorStep::HostReply(reply),
            step = log.next_step(speaker) => step,
            step = next_timer(*facts_due, look, idle) => step,
        }
    }

    fn handle_step(&mut self, step: ActorStep) {
        match step {
            ActorStep::Stored(stored) => self.handle_stored(stored),
            ActorStep::Placed(placed) => self.file_placed(placed),
            ActorStep::Kept(kept) => self.finish_file(kept),
            ActorStep::HostReply(reply) => self.host_replied(reply),
            ActorStep::Event(event) => self.handle_events(event),
            ActorStep::FactsDue => self.write_facts(),
            ActorStep::Look => self.check_journal(),
            ActorStep::Command(_)
            | ActorStep::Room
            | ActorStep::EndRead
            | ActorStep::Idle
            | ActorStep::Lost(_) => {}
        }
    }

    /// Handles an event, and the events behind it that are ready.
    fn handle_events(&mut self, first: Option<Event>) {
        let mut next = Some(first);
        while let Some(event) = next.take() {
            match event {
                Some(event) => self.handle_event(event),
                None => self.session_ended(SessionClosed {
                    reason: None,
                    error: Some(Failure::new(Category::Other, "the host has ended")),
                    cause: None,
                }),
            }
            if let Some(session) = &self.session
                && self.keeping.is_none()
                && !self.log.is_due()
                && self.log.has_room()
            {
                next = futures_util::FutureExt::now_or_never(session.next_event());
            }
        }
    }

    /// Performs the actions that waited for entries which are now stored.
    fn handle_stored(&mut self, stored: StoredBlock<OnStored>) {
        self.stall.end();
        let last = self.log.last_stored();
        self.unstored_ends.retain(|(seq, ..)| *seq > last);
        for then in stored.then {
            match &stored.result {
                Ok(()) => self.perform_action(then),
                // The host ends. Dropping a permission denies it, and dropping a question cancels
                // it.
                Err(_) => {
                    if matches!(then, OnStored::Announce(_)) {
                        self.skip_changes();
                    }
                }
            }
        }
    }

    /// Performs an action whose entry is stored.
    fn perform_action(&mut self, then: OnStored) {
        match then {
            OnStored::Reply(listener, reply) => {
                if let Some(subscriber) = self.listeners.get_mut(&listener) {
                    subscriber.unstored -= 1;
                }
                self.send_reply(listener, reply);
            }
            OnStored::Edited(done) => {
                // The receiver may have given up waiting.
                let _ = done.send(Ok(()));
            }
            OnStored::Announce(change) => {
                if let Some(log) = self.log.journal() {
                    log.announcer.feed.announce(&log.announcer.origin, *change);
                }
            }
            OnStored::Send(turn, queued) => self.send_input(turn, *queued),
            OnStored::Steer(by, input) => self.send_steer(by, input),
            OnStored::Decide(_, _, permission, response) => permission.respond(response),
            OnStored::Answer(_, _, question, response) => match response.values {
                Some(values) if response.cancelled != Some(true) => question.answer(values),
                _ => question.cancel(),
            },
        }
    }

    /// Ends the session in this task, because another writer has continued it: nothing more is
    /// written, and inputs that were not stored, or not sent to the agent, are refused.
    fn lose_session(&mut self, why: &NotStored, then: Vec<OnStored>) {
        tracing::error!(session = %self.id, "the session was written elsewhere: {why}");
        self.skip_changes();
        self.session = None;
        let failure = Failure::new(Category::Other, why.to_string());
        let mut lost = then;
        lost.extend(self.log.take_back(|_| true));
        let queued = std::mem::take(&mut self.queue).into_iter();
        lost.extend(queued.filter_map(|item| match item {
            QueuedItem::Input(turn, queued) => Some(OnStored::Send(turn, queued)),
            QueuedItem::File(..) | QueuedItem::Update(..) => None,
        }));
        for then in lost {
            match then {
                OnStored::Send(turn, queued) => {
                    let end = ends::undelivered(failure.clone());
                    self.send_body(queued.by, Some(turn), AdapterBody::from(end));
                }
                OnStored::Steer(by, input) => {
                    let result = SteerResult {
                        message_id: input.message.message_id,
                        delivered: false,
                        reason: failure.message.clone(),
                    };
                    self.send_body(by, None, AdapterBody::from(result));
                }
                // Dropping a permission denies it, and dropping a question cancels it. The result
                // of an input that is not stored is not sent.
                OnStored::Decide(..)
                | OnStored::Answer(..)
                | OnStored::Reply(..)
                | OnStored::Edited(_)
                | OnStored::Announce(_) => {}
            }
        }
    }

    /// Writes an entry with a message that an adapter may send.
    fn write_event(
        &mut self,
        turn: Option<TurnId>,
        body: impl Into<AdapterBody>,
        meta: Option<Meta>,
    ) -> u64 {
        let body = body.into();
        self.facts.open.take_adapter(turn.as_ref(), &body);
        self.change_facts();
        let change = match &body {
            AdapterBody::SessionClosed(closed) => self.end_change(closed),
            _ => SessionChange::from_event(turn.as_ref(), &body),
        };
        self.write_entry(turn, body, meta, change)
    }

    fn end_change(&self, closed: &SessionClosed) -> Option<SessionChange> {
        let name = if closed.error.is_some() {
            "failed"
        } else {
            "closed"
        };
        Some(SessionChange {
            reason: closed.reason,
            category: closed.error.as_ref().and_then(|error| error.category),
            ..self.session_change(Some(name))?
        })
    }

    /// Writes an entry, and announces the change that it makes.
    fn write_entry<B: Body + Into<EntryBody>>(
        &mut self,
        turn: Option<TurnId>,
        body: B,
        meta: Option<Meta>,
        change: Option<SessionChange>,
    ) -> u64 {
        let seq = self.log.entry(turn, body, meta);
        if let Some(mut change) = change {
            change.session_id = self.id.to_string();
            change.seq = seq;
            self.announce(Some(change));
        }
        seq
    }

    /// Writes an entry with a message of the relay itself.
    fn write_note(
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
        let change = SessionChange::from_note(turn.as_ref(), &body);
        self.write_entry(turn, body, meta, change)
    }

    /// Writes the end of a turn and continues with the queue.
    fn end_turn(&mut self, turn: TurnId, end: TurnComplete, meta: Option<Meta>) {
        if self.log.is_memory() {
            self.write_event(Some(turn), end, meta);
        } else {
            self.facts.learn_from_end(&end);
            if self.stall.is_on() {
                self.send_provisional_end(&turn, &end);
            }
            let seq = self.write_event(Some(turn.clone()), end.clone(), meta);
            self.unstored_ends.push_back((seq, turn, Box::new(end)));
        }
        let open = &self.facts.open.requests;
        if !self.pending.is_empty() {
            self.pending
                .retain(|id, _| open.iter().any(|request| request.id.0 == *id));
        }
        self.drain_queue();
    }

    /// Sends a message that is not an entry to one listener.
    fn send_body(
        &mut self,
        listener: ListenerNo,
        turn: Option<TurnId>,
        body: impl Into<EntryBody>,
    ) {
        self.send_reply(listener, Reply::new(turn, body));
    }

    fn send_reply(&mut self, listener: ListenerNo, reply: Reply) {
        if self.log.is_memory() {
            return self.reply_in_memory(reply);
        }
        if let Some(subscriber) = self.listeners.get(&listener)
            && subscriber.replies.try_send(Box::new(reply)).is_err()
        {
            self.drop_listener(listener);
        }
    }

    /// Sends a message to one listener when all entries written so far are stored.
    fn reply_when_stored(&mut self, listener: ListenerNo, reply: Reply) {
        match self.listeners.get_mut(&listener) {
            Some(subscriber) if subscriber.unstored < MAX_UNSTORED_REPLIES => {
                subscriber.unstored += 1;
                self.log.then(OnStored::Reply(listener, reply));
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

    /// Returns the name of a listener that has joined.
    fn listener_name(&self, listener: ListenerNo) -> String {
        self.listeners
            .get(&listener)
            .map(|subscriber| subscriber.name.clone())
            .unwrap_or_default()
    }

    fn change_facts(&mut self) {
        if self.facts_due.is_none() && !self.log.is_memory() {
            self.facts_due = Some(Instant::now() + FACTS);
        }
    }

    fn write_facts(&mut self) {
        self.facts_due = None;
        self.facts.last = self.log.last();
        self.log.put_facts(&self.facts);
    }

    fn has_record(&self) -> bool {
        self.log
            .journal()
            .is_some_and(|log| log.recording.is_some())
    }

    fn is_idle(&self) -> bool {
        // A listener has left when its reply channel is closed, even if the inbox had no room for
        // `Left`.
        self.listeners
            .values()
            .all(|subscriber| subscriber.replies.is_closed())
            && self.facts.open.is_empty()
            && self.log.is_idle()
            && self.keeping.is_none()
            && self.queue.is_empty()
    }

    /// Returns `true` if another host may take the session: nothing is open, and nothing is on its
    /// way to the agent.
    fn may_leave(&self) -> bool {
        self.facts.open.is_empty()
            && self.given.is_empty()
            && self.queue.is_empty()
            && self.unannounced.is_empty()
            && self.placing.is_none()
            && self.keeping.is_none()
            && self.replies.is_empty()
    }

    fn state(&self) -> SessionState {
        match (&self.session, self.running_turn()) {
            _ if self.facts.is_closed => SessionState::Closed,
            (_, Some(_)) => SessionState::Running,
            (Some(_), None) => SessionState::Idle,
            (None, None) => SessionState::Detached,
        }
    }

    /// Returns the current state of the session.
    fn snapshot(&self) -> SessionSnapshot {
        let open = &self.facts.open;
        let running = self.running_turn();
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
            title: self.facts.shown_title().map(str::to_owned),
            is_archived: self.facts.is_archived,
            copied: self.facts.copied.as_ref().and_then(CopyOrigin::copied),
            cwd: self.facts.cwd(),
            last: self.log.last_stored(),
        }
    }

    /// Returns the agent's session, and opens it again if needed.
    fn agent_session(&mut self) -> Result<Session, Box<SessionClosed>> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let host = match &self.log {
            SessionLog::Journal(log) => log.host.clone(),
            SessionLog::Memory(log) => return Err(Box::new(log.end.clone().unwrap_or_default())),
        };
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
        let mut options = self.session_options();
        let mut resumes = options.start.resume.is_some();
        let mut opened = host.open(&self.facts.agent, options);
        if let Err(OpenError::CannotFork { .. }) = opened {
            self.facts.copy_by_transcript();
            options = self.session_options();
            resumes = false;
            opened = host.open(&self.facts.agent, options);
        }
        let session = opened.map_err(|error| Box::new(ends::refusal(&error)))?;
        self.session = Some(session.clone());
        self.note_reopened(resumes);
        Ok(session)
    }

    /// Returns the options with which to open the session for its agent.
    fn session_options(&self) -> SessionOptions {
        let (mut start, meta) = self.facts.start_options();
        if let Some(secrets) = &self.secrets {
            start.env.clone_from(&secrets.env);
            start.mcp_servers.clone_from(&secrets.mcp_servers);
        }
        if let Some(transcript) = self.used_transcript() {
            start.system_prompt = Some(match start.system_prompt {
                Some(prompt) => format!("{prompt}\n\n{transcript}"),
                None => transcript.to_owned(),
            });
        }
        SessionOptions {
            id: Some(self.id.clone()),
            start,
            meta,
            delivery: EventDelivery::Merged,
        }
    }

    /// Returns the transcript if the agent gets it.
    fn used_transcript(&self) -> Option<&str> {
        let copied = self.facts.copied.as_ref()?;
        self.transcript
            .as_deref()
            .filter(|_| copied.context == Some(ContextSource::Transcript))
    }

    /// Ends the session with the host, and writes the ends of everything that is open.
    ///
    /// # Errors
    /// The reason that the record rejects further batches.
    async fn finish_session(&mut self, inbox: &mut CommandReceiver) -> Result<(), NotRecorded> {
        self.drop_queued("the host ends");
        let deadline = Instant::now() + LAST_WORDS;
        while !self.ending.is_empty() && !self.given.is_empty() && self.session.is_some() {
            self.log.flush();
            tokio::select! {
                step = self.next_step(Some(inbox)) => match step {
                    ActorStep::Command(Some(command)) => if let SessionCommand::End(done) = *command {
                        self.ending.push(done);
                    },
                    ActorStep::Lost(why) => return Err(why),
                    step => self.handle_step(step),
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
        // If nothing has changed since the facts were written, the journal has them already.
        if had_open || self.facts_due.is_some() {
            self.write_facts();
        }
        let until = Instant::now() + RECORD;
        while !self.log.is_idle() && self.stalled().is_none() {
            // Actions that follow a stored block may write more.
            self.log.flush();
            // Entries that cannot be stored now wait in the journal until it is closed.
            if let Ok(stored) = tokio::time::timeout(LOOK, self.log.stored()).await {
                self.handle_stored(stored?);
            }
            // Entries that are not in the record by then are dropped.
            if self.has_record() && Instant::now() > until {
                break;
            }
        }
        for done in self.ending.drain(..) {
            // The receiver may have given up.
            let _ = done.send(());
        }
        Ok(())
    }

    fn running_turn(&self) -> Option<&TurnId> {
        self.given.front().map(|given| &given.id)
    }
}

async fn next_command(inbox: Option<&mut CommandReceiver>) -> Option<Box<SessionCommand>> {
    match inbox {
        Some(inbox) => inbox.recv().await,
        None => pending().await,
    }
}

async fn file_placed(placing: Option<&mut FilePlacing>) -> Result<PlacedFile, FileError> {
    match placing {
        Some(placing) => (&mut placing.placed).await,
        None => pending().await,
    }
}

async fn file_kept(keeping: Option<&mut FileInProgress>) -> io::Result<PathBuf> {
    match keeping {
        Some(keeping) => (&mut keeping.kept).await,
        None => pending().await,
    }
}

/// Waits for the earliest of these times. One timer, made only when nothing else is ready.
async fn next_timer(
    facts: Option<Instant>,
    look: Option<Instant>,
    idle: Option<Instant>,
) -> ActorStep {
    let timers = [
        facts.map(|at| (at, ActorStep::FactsDue)),
        look.map(|at| (at, ActorStep::Look)),
        idle.map(|at| (at, ActorStep::Idle)),
    ];
    match timers.into_iter().flatten().min_by_key(|(at, _)| *at) {
        Some((at, step)) => {
            sleep_until(at).await;
            step
        }
        None => pending().await,
    }
}

/// Returns `true` if the journal rejected a block for good, because the session has another writer
/// or was removed.
fn is_refused(why: &NotStored) -> bool {
    why.is_out_of_order() || matches!(why, NotStored::Removed(_))
}
