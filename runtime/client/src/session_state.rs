//! One session as its connection task has it: its position in the journal, and all that has no
//! answer yet.
//!
//! No I/O: lines that were read come in, lines to write are appended to a buffer.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, oneshot, watch},
    time::Instant,
};
use trunkline_protocol::{
    AdapterBody, AttachRefusal, Body, Category, Envelope, Extensions, FileInput, FlowPause,
    FlowResume, HostBody, HostMessage, HubMessage, InputMode, InputResult, MAX_LINE, MIN_MAX_LINE,
    MessageId, Meta, PROTOCOL, RelayBody, RequestId, SessionAttach, SessionAttached, SessionClose,
    SessionDetach, SessionFork, SessionId, SessionInfo, SessionReady, SessionRefused, SessionStart,
    SessionState as HostState, SessionUpdate, SteerResult, Stop, StopReason, TurnComplete, TurnId,
    UserInput, line_limit,
};

use crate::{
    ClientError, Input, ReconnectPolicy,
    event::{Event, EventBody, EventQueue},
    reconnect::ReconnectBackoff,
    session::random_id,
    turn::{Acceptance, TurnProgress},
};

/// Stops that wait for the ends of their turns, in a session.
const MAX_PENDING_STOPS: usize = 1024;

/// Updates that wait for their answer, in a session.
const MAX_PENDING_UPDATES: usize = 64;

/// Files that wait for their answer, in a session.
const MAX_PENDING_FILES: usize = 64;

/// Listener names of this client that are remembered: each attach gives it another one.
const MAX_LISTENER_NAMES: usize = 8;

/// Open requests, and open turns, of a session that are tracked. Hosts have at most 4096 requests
/// of a session.
const MAX_TRACKED_REQUESTS: usize = 16_384;

/// The extension by which a relay without a journal reports files and stalls ([relay.7]).
const NOTES: &str = "notes";

/// The time that a refusal counts towards giving a session up.
const REFUSAL_MEMORY: Duration = Duration::from_secs(60);

/// The host's answer when a session was opened or attached.
#[derive(Debug, Clone)]
pub(crate) enum OpeningResult {
    Ready(Box<SessionReady>),
    Attached(Box<SessionAttached>),
}

/// An input whose turn has no end.
#[derive(Debug)]
pub(crate) struct PendingTurn {
    /// The id that it was sent with.
    pub(crate) turn_id: TurnId,
    pub(crate) input: UserInput,
    pub(crate) files: Vec<FileInput>,
    pub(crate) meta: Option<Meta>,
    pub(crate) progress: watch::Sender<TurnProgress>,
    /// The input's share of the room of its session.
    pub(crate) room: OwnedSemaphorePermit,
    /// True if it goes by HTTP, because of its files. If no handle of its turn is left before it is
    /// accepted, it was not sent.
    pub(crate) is_posted: bool,
}

/// A steer without an answer.
#[derive(Debug)]
pub(crate) struct PendingSteer {
    pub(crate) turn_id: TurnId,
    pub(crate) input: UserInput,
    meta: Option<Meta>,
    pub(crate) reply: oneshot::Sender<Result<SteerResult, ClientError>>,
    /// The input's share of the room of its session, held while it waits.
    _room: OwnedSemaphorePermit,
    is_stored: bool,
    has_turn_ended: bool,
}

/// A stop without the end of its turn. Without an id, one that was not written: it stops the turn
/// that runs then.
#[derive(Debug)]
pub(crate) struct PendingStop {
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) reason: StopReason,
}

/// An update without an answer.
#[derive(Debug)]
struct PendingUpdate {
    update: Box<SessionUpdate>,
    reply: oneshot::Sender<Result<SessionInfo, ClientError>>,
    refusal: Option<String>,
}

/// A file for the next input, without an answer.
#[derive(Debug)]
struct PendingFile {
    file: Box<FileInput>,
    reply: oneshot::Sender<Result<(), ClientError>>,
}

/// The answer to a call. It is sent once the reader has the event that brought it.
enum CallAnswer {
    Steered(PendingSteer, SteerResult),
    Updated(PendingUpdate, Box<SessionInfo>),
    Placed(PendingFile),
}

impl CallAnswer {
    fn send(self) {
        match self {
            Self::Steered(steer, result) => reply(steer.reply, Ok(result)),
            Self::Updated(update, info) => {
                let refusal = update.refusal.map(ClientError::RequestFailed);
                reply(update.reply, refusal.map_or(Ok(*info), Err));
            }
            Self::Placed(file) => reply(file.reply, Ok(())),
        }
    }
}

/// The progress of inputs that have no acceptance.
#[cfg(feature = "websocket")]
type UnacceptedInputs = Vec<watch::Receiver<TurnProgress>>;

/// A call on a session.
#[derive(Debug)]
pub(crate) enum SessionCommand {
    Send(PendingTurn),
    /// Reports the earlier inputs that are written and not accepted: this one must not overtake
    /// them.
    #[cfg(feature = "websocket")]
    Post(
        PendingTurn,
        oneshot::Sender<Result<UnacceptedInputs, ClientError>>,
    ),
    /// The acceptance of an input that was posted.
    #[cfg(feature = "websocket")]
    Accept(Option<TurnId>, InputResult),
    Steer(PendingSteer),
    Stop {
        stop: PendingStop,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Answer {
        request_id: RequestId,
        answer: HostBody,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Update {
        update: Box<SessionUpdate>,
        reply: oneshot::Sender<Result<SessionInfo, ClientError>>,
    },
    PlaceFile {
        file: Box<FileInput>,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Close(oneshot::Sender<()>),
    Detach {
        releases: bool,
        left: oneshot::Sender<()>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    /// There is no connection.
    Offline,
    /// The start or attach of this connection has no answer.
    Opening,
    /// The host has the session; entries from before are still to be read. What has no answer waits
    /// for them: one of them may be the answer.
    CatchingUp,
    /// Messages are written at once.
    Live,
    /// No host serves the session; it is attached again at this time.
    Unserved(Instant),
}

#[derive(Debug)]
pub(crate) struct SessionState {
    id: SessionId,
    /// The message that opens it. With a journal until the first entry comes: a host that ends
    /// before that has nothing of the session ([journal.2]).
    start: Option<Box<SessionStart>>,
    /// The message that opens it as a copy, until the host has answered.
    fork: Option<Box<SessionFork>>,
    attach: SessionAttach,
    /// `None` until the host has answered.
    has_journal: Option<bool>,
    has_flow: bool,
    /// True if a host without a journal reports that it has a file ([relay.7]).
    has_notes: bool,
    phase: SessionPhase,
    backoff: ReconnectBackoff,
    last_refusal: Option<Instant>,
    max_line: usize,
    last_seq: u64,
    epoch: Option<u64>,
    /// Whether this client has read that entry. It was no `session.closed` then, which ends the
    /// session here.
    has_read_last: bool,
    /// Entries behind the last one that were too long to be read.
    skipped: u64,
    /// The last entry that there was when the session was attached.
    attached_seq: u64,
    queue: Arc<EventQueue>,
    opened: Option<oneshot::Sender<OpeningResult>>,
    turns: VecDeque<PendingTurn>,
    steers: Vec<PendingSteer>,
    updates: VecDeque<PendingUpdate>,
    files: VecDeque<PendingFile>,
    /// The names of this client in `by`, the latest last.
    names: VecDeque<String>,
    /// Stops of turns that have no end, of this client's and of others'.
    stops: Vec<PendingStop>,
    /// Turns that have begun and not ended, as far as entries and the last attach show.
    open_turns: HashSet<TurnId>,
    /// Requests that wait for an answer.
    requests: HashSet<RequestId>,
    /// Answers that no entry has confirmed.
    answers: Vec<(RequestId, HostBody)>,
    closers: Vec<oneshot::Sender<()>>,
    is_close_written: bool,
    is_leaving: bool,
    is_ended: bool,
}

impl SessionState {
    /// A session that this client opens.
    pub(crate) fn start(
        id: SessionId,
        start: SessionStart,
        queue: Arc<EventQueue>,
        opened: oneshot::Sender<OpeningResult>,
    ) -> Self {
        let attach = SessionAttach {
            env: start.env.clone(),
            mcp_servers: start.mcp_servers.clone(),
            ..SessionAttach::default()
        };
        let start = SessionStart {
            protocol: Some(PROTOCOL),
            extensions: Some(offered_extensions()),
            max_line: Some(MAX_LINE as u64),
            ..start
        };
        Self {
            start: Some(Box::new(start)),
            ..Self::attach(id, attach, queue, opened)
        }
    }

    /// A session that this client opens as a copy of another one.
    pub(crate) fn fork(
        id: SessionId,
        fork: SessionFork,
        queue: Arc<EventQueue>,
        opened: oneshot::Sender<OpeningResult>,
    ) -> Self {
        let attach = SessionAttach {
            after: fork.after.unwrap_or(0),
            env: fork.env.clone(),
            mcp_servers: fork.mcp_servers.clone(),
            ..SessionAttach::default()
        };
        let fork = SessionFork {
            protocol: Some(PROTOCOL),
            extensions: Some(offered_extensions()),
            ..fork
        };
        Self {
            fork: Some(Box::new(fork)),
            ..Self::attach(id, attach, queue, opened)
        }
    }

    /// A session of a journal.
    pub(crate) fn attach(
        id: SessionId,
        attach: SessionAttach,
        queue: Arc<EventQueue>,
        opened: oneshot::Sender<OpeningResult>,
    ) -> Self {
        let attach = SessionAttach {
            protocol: Some(PROTOCOL),
            extensions: Some(offered_extensions()),
            ..attach
        };
        Self {
            id,
            start: None,
            fork: None,
            has_journal: None,
            has_flow: false,
            has_notes: false,
            phase: SessionPhase::Offline,
            backoff: ReconnectBackoff::default(),
            last_refusal: None,
            max_line: MIN_MAX_LINE,
            last_seq: attach.after,
            epoch: attach.epoch,
            has_read_last: false,
            attach,
            skipped: 0,
            attached_seq: 0,
            queue,
            opened: Some(opened),
            turns: VecDeque::new(),
            steers: Vec::new(),
            updates: VecDeque::new(),
            files: VecDeque::new(),
            names: VecDeque::new(),
            stops: Vec::new(),
            open_turns: HashSet::new(),
            requests: HashSet::new(),
            answers: Vec::new(),
            closers: Vec::new(),
            is_close_written: false,
            is_leaving: false,
            is_ended: false,
        }
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(crate) fn is_overfull(&self) -> bool {
        self.queue.is_overfull()
    }

    /// The time at which [`Self::wake`] has work.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            SessionPhase::Unserved(at) => Some(at),
            _ => None,
        }
    }

    /// Begins the session on a new connection.
    pub(crate) fn connect(&mut self, out: &mut Vec<u8>) {
        self.is_close_written = false;
        // A pause belongs to a connection.
        self.queue.unpause();
        self.enter(out);
    }

    /// The connection is lost. A session without a journal is lost with it.
    pub(crate) fn disconnect(&mut self, cause: &ClientError) {
        self.phase = SessionPhase::Offline;
        if self.has_journal == Some(false) {
            self.end(cause);
        }
    }

    /// Attaches a session again whose wait is over.
    pub(crate) fn wake(&mut self, now: Instant, out: &mut Vec<u8>) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.enter(out);
        }
    }

    /// Does what the handles of the session asked for: its reader made room, or the last of them
    /// was dropped.
    pub(crate) fn attend(&mut self, out: &mut Vec<u8>) {
        if self.queue.is_drained() {
            self.resume(out);
        }
        self.is_leaving |= self.queue.is_abandoned();
        self.leave_when_sent(out);
    }

    /// Leaves a session whose handles were dropped, once the host has what was sent to it.
    fn leave_when_sent(&mut self, out: &mut Vec<u8>) {
        let is_idle = self.answers.is_empty()
            && self.stops.is_empty()
            && self.files.is_empty()
            && self.closers.is_empty();
        let is_written = is_idle || self.phase == SessionPhase::Live;
        let is_accepted = self.turns.iter().all(PendingTurn::is_accepted);
        if self.is_leaving && !self.is_ended && is_written && is_accepted {
            self.leave(false, out);
        }
    }

    /// Leaves the session: it continues at a host with a journal, and is closed otherwise.
    fn leave(&mut self, releases: bool, out: &mut Vec<u8>) {
        self.hang_up(releases, out);
        self.end(&ClientError::Detached);
    }

    /// Writes that this client has no further part in the session.
    pub(crate) fn hang_up(&self, releases: bool, out: &mut Vec<u8>) {
        match (self.phase, self.has_journal) {
            (SessionPhase::Offline, _) => {}
            (_, Some(false)) => self.write(None, SessionClose {}, out),
            _ => {
                let release = releases.then_some(true);
                let detach = HubMessage::new(self.id.clone(), SessionDetach { release });
                write(&detach, out);
            }
        }
    }

    /// Ends the session for this client. What waits for it gets the cause.
    pub(crate) fn end(&mut self, cause: &ClientError) {
        self.is_ended = true;
        self.queue.end(cause.clone());
        for turn in self.turns.drain(..) {
            turn.finish(Err(cause.clone()));
        }
        // Callers find the cause in the queue when their replies are dropped.
        self.opened = None;
        self.steers.clear();
        self.updates.clear();
        self.files.clear();
        self.closers.clear();
    }

    /// Executes a call.
    pub(crate) fn execute(&mut self, command: SessionCommand, out: &mut Vec<u8>) {
        let is_live = self.phase == SessionPhase::Live;
        match command {
            SessionCommand::Send(mut turn) => {
                if is_live {
                    self.write_turn(&mut turn, out);
                }
                self.turns.push_back(turn);
            }
            #[cfg(feature = "websocket")]
            SessionCommand::Post(turn, earlier) => {
                self.turns.retain(|turn| !turn.is_withdrawn());
                let waiting = self.turns.iter().filter(|turn| turn.is_unsent());
                let waiting = waiting.map(|turn| turn.progress.subscribe());
                reply(earlier, Ok(waiting.collect()));
                self.turns.push_back(turn);
            }
            #[cfg(feature = "websocket")]
            SessionCommand::Accept(turn_id, result) => {
                self.accept(turn_id.as_ref(), &result);
                self.leave_when_sent(out);
            }
            SessionCommand::Steer(steer) => {
                let message = steer.message(&self.id);
                if let Err(problem) = self.fits(&message) {
                    return reply(steer.reply, Err(problem));
                }
                if is_live {
                    write(&message, out);
                }
                self.steers.push(steer);
            }
            SessionCommand::Stop { stop, reply: to } => {
                if self.stops.len() >= MAX_PENDING_STOPS {
                    return reply(to, Err(ClientError::Busy("stops")));
                }
                if is_live {
                    self.write_stop(&stop, out);
                }
                let is_open = stop.turn_id.as_ref().is_some_and(|turn_id| {
                    let is_own = self.turns.iter().any(|turn| turn.is_called(turn_id));
                    is_own || self.open_turns.contains(turn_id)
                });
                let is_known = self.stops.iter().any(|it| it.turn_id == stop.turn_id);
                if (is_open || !is_live) && !is_known {
                    self.stops.push(stop);
                }
                reply(to, Ok(()));
            }
            SessionCommand::Answer {
                request_id,
                answer,
                reply: to,
            } => reply(to, self.answer(request_id, answer, out)),
            SessionCommand::Update { update, reply: to } => {
                let message = HostMessage::new(self.id.clone(), update.clone());
                let waiting = self.updates.len();
                if let Err(refusal) = self.admit(&message, "updates", waiting, MAX_PENDING_UPDATES)
                {
                    return reply(to, Err(refusal));
                }
                if is_live {
                    write(&message, out);
                }
                self.updates.push_back(PendingUpdate {
                    update,
                    reply: to,
                    refusal: None,
                });
            }
            SessionCommand::PlaceFile { file, reply: to } => {
                let message = HostMessage::new(self.id.clone(), (*file).clone());
                let waiting = self.files.len();
                if let Err(refusal) = self.admit(&message, "files", waiting, MAX_PENDING_FILES) {
                    return reply(to, Err(refusal));
                }
                self.files.push_back(PendingFile { file, reply: to });
                if is_live {
                    write(&message, out);
                    self.place_unconfirmed();
                }
            }
            SessionCommand::Close(closer) => {
                self.closers.push(closer);
                if is_live {
                    self.write_close(out);
                }
            }
            SessionCommand::Detach { releases, left } => {
                self.leave(releases, out);
                reply(left, ());
            }
        }
    }

    /// Takes a line of the host. Returns true if it is an entry that this client did not have.
    pub(crate) fn receive(
        &mut self,
        event: Event,
        policy: &ReconnectPolicy,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut event = event;
        match (&event.body, event.stamp.seq) {
            (EventBody::Adapter(AdapterBody::SessionReady(ready)), _) => {
                self.become_ready(ready.clone());
                self.catch_up(out);
                return false;
            }
            (EventBody::Relay(RelayBody::SessionAttached(attached)), _) => {
                self.become_attached(attached.clone(), out);
                return false;
            }
            (EventBody::Relay(RelayBody::SessionRefused(refused)), _) => {
                self.be_refused(refused.clone(), policy, now, out);
                return false;
            }
            (EventBody::Relay(RelayBody::InputResult(result)), _) => {
                self.accept(event.turn_id.as_ref(), result);
                self.leave_when_sent(out);
                return false;
            }
            (EventBody::Relay(RelayBody::Lag(lag)), _) => {
                if lag.to > self.last_seq {
                    self.last_seq = lag.to;
                    // The epoch of an entry that never came is unknown.
                    self.epoch = None;
                    self.has_read_last = false;
                }
            }
            (_, Some(seq)) => {
                if seq <= self.last_seq {
                    return false;
                }
                if seq > self.last_seq + 1 + self.skipped {
                    // Something is missing: it is read again from the journal.
                    if matches!(self.phase, SessionPhase::Live | SessionPhase::CatchingUp) {
                        self.enter(out);
                    }
                    return false;
                }
                self.start = None;
                self.last_seq = seq;
                self.epoch = event.stamp.epoch;
                self.has_read_last = true;
                self.skipped = 0;
                self.backoff.reset();
            }
            (_, None) => {}
        }
        let is_entry = event.stamp.seq.is_some();
        if self.take_refusal(&event) {
            return false;
        }
        event.is_own = self.note_origin(&event);
        let answer = self.take_answer(&event);
        self.apply(&mut event, out);
        self.deliver(event, out);
        if let Some(answer) = answer {
            answer.send();
        }
        self.catch_up(out);
        self.leave_when_sent(out);
        is_entry
    }

    /// Notes a line of the session that was too long to be read ([frame.5]).
    pub(crate) fn skip_line(&mut self, bytes: u64, out: &mut Vec<u8>) {
        self.skipped += u64::from(self.has_journal == Some(true));
        self.deliver(Event::too_long(bytes), out);
        self.catch_up(out);
    }

    /// Writes the message that opens or attaches the session on this connection.
    fn enter(&mut self, out: &mut Vec<u8>) {
        // A session that is held back would get no answer.
        self.resume(out);
        self.phase = SessionPhase::Opening;
        self.skipped = 0;
        if let Some(start) = &self.start {
            write(&HostMessage::new(self.id.clone(), start.clone()), out);
        } else if let Some(fork) = &self.fork {
            write(&HubMessage::new(self.id.clone(), fork.clone()), out);
        } else {
            let attach = SessionAttach {
                after: self.last_seq,
                epoch: self.epoch,
                ..self.attach.clone()
            };
            write(&HubMessage::new(self.id.clone(), attach), out);
        }
    }

    fn become_ready(&mut self, ready: Box<SessionReady>) {
        let agreed = ready.extensions.as_deref().unwrap_or_default();
        let has = |name| agreed.iter().any(|agreed| agreed == name);
        self.has_journal = Some(has("journal"));
        self.has_flow = has("flow");
        self.has_notes = has(NOTES);
        self.max_line = line_limit(ready.max_line);
        self.attached_seq = 0;
        self.phase = SessionPhase::CatchingUp;
        if let Some(opened) = self.opened.take() {
            reply(opened, OpeningResult::Ready(ready));
        }
    }

    fn become_attached(&mut self, attached: Box<SessionAttached>, out: &mut Vec<u8>) {
        self.has_journal = Some(true);
        self.has_flow = true;
        self.start = None;
        self.fork = None;
        self.attached_seq = attached.last_seq;
        self.note_name(attached.listener.as_ref());
        self.requests = attached.requests.iter().flatten().cloned().collect();
        let queued = attached.queued.iter().flatten();
        self.open_turns = attached.turn_id.iter().chain(queued).cloned().collect();
        self.phase = SessionPhase::CatchingUp;
        let is_closed = attached.state == Some(HostState::Closed);
        if let Some(opened) = self.opened.take() {
            reply(opened, OpeningResult::Attached(attached));
        }
        // The state can be ahead of the last entry that is stored: then the `session.closed`
        // follows.
        if is_closed && self.last_seq >= self.attached_seq && !self.has_read_last {
            self.hang_up(false, out);
            return self.end(&ClientError::SessionClosed {
                reason: None,
                failure: None,
            });
        }
        let is_idle = self.turns.iter().all(PendingTurn::is_accepted)
            && self.steers.is_empty()
            && self.updates.is_empty()
            && self.files.is_empty()
            && self.answers.is_empty()
            && self.stops.is_empty()
            && self.closers.is_empty();
        if is_idle {
            self.phase = SessionPhase::Live;
        }
        self.catch_up(out);
        self.leave_when_sent(out);
    }

    fn be_refused(
        &mut self,
        refused: SessionRefused,
        policy: &ReconnectPolicy,
        now: Instant,
        out: &mut Vec<u8>,
    ) {
        let message = refused.message.unwrap_or_default();
        match refused.reason {
            // The start or the copy was stored, and the answer was lost with the connection.
            Some(AttachRefusal::Exists) if self.start.is_some() || self.fork.is_some() => {
                self.start = None;
                self.fork = None;
                self.enter(out);
            }
            Some(AttachRefusal::ReadOnly | AttachRefusal::Unavailable)
                if !policy.fail_fast || self.opened.is_none() =>
            {
                if matches!(self.phase, SessionPhase::Unserved(_)) {
                    return;
                }
                let before = self.last_refusal.replace(now);
                if before.is_some_and(|before| now - before > REFUSAL_MEMORY) {
                    self.backoff.reset();
                }
                self.is_close_written = false;
                match self.backoff.next_delay(policy, now) {
                    Some(delay) => self.phase = SessionPhase::Unserved(now + delay),
                    None => self.end(&ClientError::SessionUnserved {
                        session: self.id.clone(),
                        message,
                    }),
                }
            }
            reason => self.end(&ClientError::SessionRefused {
                session: self.id.clone(),
                reason,
                message,
                last_seq: refused.last_seq,
            }),
        }
    }

    /// Writes what has no answer, once the entries that there were have been read.
    fn catch_up(&mut self, out: &mut Vec<u8>) {
        if self.phase != SessionPhase::CatchingUp
            || self.last_seq + self.skipped < self.attached_seq
        {
            return;
        }
        self.phase = SessionPhase::Live;
        for pending in &self.files {
            self.write(None, (*pending.file).clone(), out);
        }
        self.place_unconfirmed();
        let mut turns = std::mem::take(&mut self.turns);
        for turn in turns.iter_mut().filter(|turn| turn.is_unsent()) {
            self.write_turn(turn, out);
        }
        self.turns = turns;
        for steer in std::mem::take(&mut self.steers) {
            if steer.has_turn_ended && !steer.is_stored {
                // Sent again it could reach another turn.
                let reason = Some("the turn had ended".to_owned());
                let message_id = steer.input.message_id;
                let result = SteerResult {
                    message_id,
                    delivered: false,
                    reason,
                };
                reply(steer.reply, Ok(result));
                continue;
            }
            if !steer.is_stored {
                write(&steer.message(&self.id), out);
            }
            self.steers.push(steer);
        }
        for pending in &self.updates {
            write(
                &HostMessage::new(self.id.clone(), pending.update.clone()),
                out,
            );
        }
        for (_, answer) in &self.answers {
            self.write(None, answer.clone(), out);
        }
        for stop in &self.stops {
            self.write_stop(stop, out);
        }
        self.stops.retain(|stop| stop.turn_id.is_some());
        if !self.closers.is_empty() {
            self.write_close(out);
        }
    }

    /// Notes what a message means for the things that wait.
    fn apply(&mut self, event: &mut Event, out: &mut Vec<u8>) {
        match &event.body {
            EventBody::Relay(RelayBody::TurnBegin(begin)) => {
                let is_new = event.stamp.seq.is_none_or(|seq| seq > self.attached_seq);
                if is_new && self.open_turns.len() < MAX_TRACKED_REQUESTS {
                    self.open_turns.extend(event.turn_id.clone());
                }
                let result = InputResult {
                    message_id: begin.message_id.clone(),
                    seq: event.stamp.seq.unwrap_or_default(),
                    duplicate: None,
                };
                self.accept(event.turn_id.as_ref(), &result);
            }
            EventBody::Relay(RelayBody::InputSteered(steered)) => {
                self.store_steer(steered.message_id.as_ref());
            }
            EventBody::Relay(RelayBody::RequestDecided(decided)) => {
                self.settle(&decided.request_id.clone());
            }
            EventBody::Adapter(AdapterBody::PermissionCancel(cancel)) => {
                self.settle(&cancel.request_id.clone());
            }
            EventBody::Adapter(AdapterBody::PermissionRequest(request)) => {
                let is_history = request.history == Some(true);
                event.awaits_answer =
                    !is_history && self.track(&request.request_id.clone(), event.stamp.seq);
            }
            EventBody::Adapter(AdapterBody::InputRequest(request)) => {
                event.awaits_answer = self.track(&request.request_id.clone(), event.stamp.seq);
            }
            // A provisional end comes again as an entry ([journal.11]).
            EventBody::Adapter(AdapterBody::TurnComplete(end)) if !event.is_provisional() => {
                self.finish_turn(event.turn_id.as_ref(), end);
            }
            EventBody::Adapter(AdapterBody::SessionClosed(closed)) => {
                let cause = ClientError::SessionClosed {
                    reason: closed.reason,
                    failure: closed.error.clone().map(Box::new),
                };
                // The event comes before the end that it causes.
                self.deliver(event.clone(), out);
                // As long as this client is attached, the session cannot be removed.
                if self.has_journal == Some(true) {
                    self.hang_up(false, out);
                }
                self.end(&cause);
            }
            _ => {}
        }
    }

    /// Returns the call that an event answers.
    fn take_answer(&mut self, event: &Event) -> Option<CallAnswer> {
        match &event.body {
            EventBody::Adapter(AdapterBody::SteerResult(result)) => {
                let is_meant = |steer: &PendingSteer| steer.input.message_id == result.message_id;
                let steer = self.steers.iter().position(is_meant)?;
                let steer = self.steers.remove(steer);
                Some(CallAnswer::Steered(steer, result.clone()))
            }
            EventBody::Adapter(AdapterBody::SessionInfo(info)) => {
                let is_new = event.stamp.seq.is_none_or(|seq| seq > self.attached_seq);
                let is_answer = |pending: &PendingUpdate| pending.is_answered_by(info);
                let answers = is_new
                    && self.phase == SessionPhase::Live
                    && self.updates.front().is_some_and(is_answer);
                let update = answers.then(|| self.updates.pop_front()).flatten()?;
                Some(CallAnswer::Updated(update, info.clone()))
            }
            // A file of an input names the input's turn.
            EventBody::Relay(RelayBody::FileDelivered(_)) if event.turn_id.is_none() => {
                let placed = event.is_own.then(|| self.files.pop_front()).flatten()?;
                Some(CallAnswer::Placed(placed))
            }
            _ => None,
        }
    }

    /// Returns true for an entry that this client caused. A client that opened the session learns
    /// its name from its first file or input.
    fn note_origin(&mut self, event: &Event) -> bool {
        let EventBody::Relay(body) = &event.body else {
            return false;
        };
        let is_named = !self.names.is_empty();
        let (by, is_answer) = match body {
            RelayBody::TurnBegin(begin) => {
                let is_begun = |turn: &PendingTurn| {
                    turn.input.message_id.as_ref() == begin.message_id.as_ref()
                };
                (&begin.by, self.turns.iter().any(is_begun))
            }
            RelayBody::FileDelivered(file) => (&file.by, !is_named && !self.files.is_empty()),
            RelayBody::InputSteered(steered) => (&steered.by, false),
            RelayBody::RequestDecided(decided) => (&decided.by, false),
            RelayBody::StopRequested(stop) => (&stop.by, false),
            RelayBody::SessionEdited(edited) => (&edited.by, false),
            _ => return false,
        };
        if is_answer {
            self.note_name(by.as_ref());
        }
        is_answer || by.as_ref().is_some_and(|by| self.names.contains(by))
    }

    fn note_name(&mut self, name: Option<&String>) {
        if let Some(name) = name.filter(|name| !self.names.contains(name)) {
            if self.names.len() == MAX_LISTENER_NAMES {
                self.names.pop_front();
            }
            self.names.push_back(name.clone());
        }
    }

    /// A host without a journal and without notes does not report that it has a file.
    fn place_unconfirmed(&mut self) {
        if self.has_journal == Some(false) && !self.has_notes {
            for placed in self.files.drain(..) {
                reply(placed.reply, Ok(()));
            }
        }
    }

    fn deliver(&mut self, event: Event, out: &mut Vec<u8>) {
        if self.is_ended {
            return;
        }
        self.queue.push(event);
        if self.has_flow && self.phase != SessionPhase::Offline && self.queue.pause() {
            self.write(None, FlowPause {}, out);
        }
    }

    fn resume(&self, out: &mut Vec<u8>) {
        if self.queue.unpause() && self.phase != SessionPhase::Offline {
            self.write(None, FlowResume {}, out);
        }
    }

    /// Notes that the journal has an input.
    fn accept(&mut self, turn_id: Option<&TurnId>, result: &InputResult) {
        self.store_steer(result.message_id.as_ref());
        let is_meant =
            |turn: &PendingTurn| turn.input.message_id == result.message_id && !turn.is_accepted();
        let (Some(place), Some(turn_id)) = (self.turns.iter().position(is_meant), turn_id) else {
            return;
        };
        let turn = &mut self.turns[place];
        let stops = self.stops.iter_mut();
        for stop in stops.filter(|stop| stop.turn_id.as_ref() == Some(&turn.turn_id)) {
            stop.turn_id = Some(turn_id.clone());
        }
        let duplicate = result.duplicate == Some(true);
        turn.accept(Acceptance {
            turn_id: turn_id.clone(),
            seq: Some(result.seq),
            duplicate,
        });
        // Sent again by its caller: its end, which was read before, comes no second time.
        if duplicate && result.seq <= self.last_seq && !self.open_turns.contains(turn_id) {
            let message = "the turn of this input has ended before".to_owned();
            if let Some(turn) = self.turns.remove(place) {
                turn.finish(Err(ClientError::RequestFailed(message)));
            }
        }
    }

    fn store_steer(&mut self, message_id: Option<&MessageId>) {
        let steers = self.steers.iter_mut();
        for steer in steers.filter(|steer| steer.input.message_id.as_ref() == message_id) {
            steer.is_stored = true;
        }
    }

    /// Notes that a request was made. Returns true if it waits for an answer.
    fn track(&mut self, request_id: &RequestId, seq: Option<u64>) -> bool {
        if seq.is_some_and(|seq| seq <= self.attached_seq) {
            return self.requests.contains(request_id);
        }
        if self.requests.len() < MAX_TRACKED_REQUESTS {
            self.requests.insert(request_id.clone());
        }
        self.requests.contains(request_id)
    }

    fn settle(&mut self, request_id: &RequestId) {
        self.requests.remove(request_id);
        self.answers.retain(|(answered, _)| answered != request_id);
    }

    fn answer(
        &mut self,
        request_id: RequestId,
        answer: HostBody,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        if !self.requests.contains(&request_id) {
            return Err(ClientError::NotPending(request_id));
        }
        self.fits(&HostMessage::new(self.id.clone(), answer.clone()))?;
        if self.phase == SessionPhase::Live {
            self.write(None, answer.clone(), out);
        }
        if self.has_journal == Some(true) {
            // The first answer counts; of this client's, too.
            if self
                .answers
                .iter()
                .all(|(answered, _)| *answered != request_id)
            {
                self.answers.push((request_id, answer));
            }
        } else {
            self.requests.remove(&request_id);
        }
        Ok(())
    }

    fn finish_turn(&mut self, turn_id: Option<&TurnId>, end: &TurnComplete) {
        let is_meant = |turn: &PendingTurn| match turn_id {
            Some(turn_id) => turn.is_called(turn_id),
            // A host without `turns` ends them in order.
            None => true,
        };
        if let Some(turn_id) = turn_id {
            self.stops
                .retain(|stop| stop.turn_id.as_ref() != Some(turn_id));
            self.open_turns.remove(turn_id);
            for steer in self
                .steers
                .iter_mut()
                .filter(|steer| steer.turn_id == *turn_id)
            {
                steer.has_turn_ended = true;
            }
        }
        // An input that its caller sent again has the same turn.
        while let Some(place) = self.turns.iter().position(is_meant) {
            if let Some(turn) = self.turns.remove(place) {
                turn.finish(Ok(Box::new(end.clone())));
            }
            if turn_id.is_none() {
                break;
            }
        }
    }

    /// Returns true if an error refuses a call that waits for its answer: the call fails with it,
    /// so it is no event.
    fn take_refusal(&mut self, event: &Event) -> bool {
        let EventBody::Adapter(AdapterBody::Error(error)) = &event.body else {
            return false;
        };
        if event.stamp.seq.is_some() || event.turn_id.is_some() {
            return false;
        }
        if error.category == Some(Category::FileRefused) {
            let Some(refused) = self.files.pop_front() else {
                return false;
            };
            let refusal = ClientError::RequestFailed(error.message.clone());
            return refused.reply.send(Err(refusal)).is_ok();
        }
        // A host without a journal reports errors of the agent without a number, too.
        let is_meant = self.has_journal == Some(true)
            || matches!(
                error.category,
                Some(Category::PermissionDenied | Category::Busy)
            );
        let Some(update) = self.updates.front_mut().filter(|_| is_meant) else {
            return false;
        };
        // The `session.info` that answers the update follows ([relay.7]).
        update.refusal = Some(error.message.clone());
        !update.reply.is_closed()
    }

    fn write_turn(&self, turn: &mut PendingTurn, out: &mut Vec<u8>) {
        for file in &turn.files {
            self.write(None, file.clone(), out);
        }
        write(&turn.message(&self.id), out);
        if self.has_journal == Some(false) {
            turn.accept(Acceptance {
                turn_id: turn.turn_id.clone(),
                seq: None,
                duplicate: false,
            });
        }
    }

    fn write_stop(&self, stop: &PendingStop, out: &mut Vec<u8>) {
        let reason = Some(stop.reason);
        self.write(stop.turn_id.clone(), Stop { reason }, out);
    }

    /// Closes the session, once on each connection, and attaches again: a pipe reports nothing more
    /// of a session that was closed on it, and its end is an entry.
    fn write_close(&mut self, out: &mut Vec<u8>) {
        if self.is_close_written {
            return;
        }
        self.is_close_written = true;
        self.write(None, SessionClose {}, out);
        if self.has_journal == Some(true) {
            // Started again it would be open.
            self.start = None;
            return self.enter(out);
        }
        self.end(&ClientError::SessionClosed {
            reason: None,
            failure: None,
        });
    }

    fn write(&self, turn_id: Option<TurnId>, body: impl Into<HostBody>, out: &mut Vec<u8>) {
        let message = HostMessage::new(self.id.clone(), body.into());
        write(&message.of_turn(turn_id), out);
    }

    /// Checks that a message can be written, and that fewer of its kind than the limit wait.
    fn admit<B: Body>(
        &self,
        message: &Envelope<B>,
        kind: &'static str,
        waiting: usize,
        limit: usize,
    ) -> Result<(), ClientError> {
        self.fits(message)?;
        if waiting >= limit {
            return Err(ClientError::Busy(kind));
        }
        Ok(())
    }

    /// Checks that a message fits into a line of the host's ([frame.11]).
    fn fits<B: Body>(&self, message: &Envelope<B>) -> Result<(), ClientError> {
        check_length(message, self.max_line)
    }
}

/// Checks that a message fits into a line of this many bytes ([frame.11]).
pub(crate) fn check_length<B: Body>(
    message: &Envelope<B>,
    limit: usize,
) -> Result<(), ClientError> {
    let bytes = message.to_line().len() - 1;
    if bytes > limit {
        return Err(ClientError::LineTooLong { bytes, limit });
    }
    Ok(())
}

/// The message of an input, or of a steer.
pub(crate) fn input_message(
    session: &SessionId,
    turn: &TurnId,
    input: &UserInput,
    meta: Option<&Meta>,
) -> HostMessage {
    let message = HostMessage::new(session.clone(), input.clone());
    HostMessage {
        meta: meta.cloned(),
        ..message.of_turn(Some(turn.clone()))
    }
}

impl PendingTurn {
    fn message(&self, session: &SessionId) -> HostMessage {
        input_message(session, &self.turn_id, &self.input, self.meta.as_ref())
    }

    fn is_called(&self, turn_id: &TurnId) -> bool {
        self.turn_id == *turn_id || self.progress.borrow().turn_id == *turn_id
    }

    /// Returns true if nothing is left to send.
    fn is_accepted(&self) -> bool {
        self.progress.borrow().accepted.is_some() || self.is_withdrawn()
    }

    /// Returns true if it is written to the host, again on each connection.
    fn is_unsent(&self) -> bool {
        !self.is_posted && !self.is_accepted()
    }

    fn is_withdrawn(&self) -> bool {
        let is_open = self.progress.borrow().accepted.is_none();
        self.is_posted && is_open && self.progress.is_closed()
    }

    fn accept(&mut self, acceptance: Acceptance) {
        // It is not sent again.
        self.input.content = String::new();
        self.files = Vec::new();
        self.progress.send_modify(|progress| {
            progress.turn_id = acceptance.turn_id.clone();
            progress.accepted = Some(acceptance);
        });
    }

    fn finish(self, end: Result<Box<TurnComplete>, ClientError>) {
        self.progress
            .send_modify(|progress| progress.end = Some(end));
        drop(self.room);
    }
}

impl PendingUpdate {
    /// Returns true for a `session.info` with an option of the update, and for the empty one of a
    /// relay that refuses it. Another one is news of the agent.
    fn is_answered_by(&self, info: &SessionInfo) -> bool {
        let asked = &self.update;
        let has_option = [
            asked.model.is_some() && info.model.is_some(),
            asked.reasoning_effort.is_some() && info.reasoning_effort.is_some(),
            asked.mode.is_some() && info.mode.is_some(),
            asked.permission_mode.is_some() && info.permission_mode.is_some(),
            asked.options.is_some() && info.options.is_some(),
            asked.allowed_tools.is_some() && info.allowed_tools.is_some(),
            asked.denied_tools.is_some() && info.denied_tools.is_some(),
        ]
        .contains(&true);
        has_option || *info == SessionInfo::default()
    }
}

impl PendingSteer {
    fn message(&self, session: &SessionId) -> HostMessage {
        input_message(session, &self.turn_id, &self.input, self.meta.as_ref())
    }

    pub(crate) fn new(
        turn_id: TurnId,
        input: Input,
        room: OwnedSemaphorePermit,
        reply: oneshot::Sender<Result<SteerResult, ClientError>>,
    ) -> Self {
        Self {
            turn_id,
            input: UserInput {
                content: input.content,
                message_id: input.message_id.or_else(|| Some(random_id(MessageId::new))),
                mode: Some(InputMode::Steer),
                limits: None,
            },
            meta: input.meta,
            reply,
            _room: room,
            is_stored: false,
            has_turn_ended: false,
        }
    }
}

/// The extensions that this client understands. It names no folder for members by file, so of
/// `large` it gets the sizes and digests of files ([large.2]).
fn offered_extensions() -> Vec<String> {
    let mut names = Extensions::all().to_names();
    names.extend(["journal".to_owned(), NOTES.to_owned()]);
    names
}

fn write<B: Body>(message: &Envelope<B>, out: &mut Vec<u8>) {
    message.write(out);
}

/// Answers a call. A cancelled call reads no answer.
fn reply<T>(to: oneshot::Sender<T>, value: T) {
    let _ = to.send(value);
}
