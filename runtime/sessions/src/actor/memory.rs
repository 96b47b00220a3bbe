//! Sessions that are not stored: one client gets every entry at once, and the end of the agent's
//! session is the end of the session.

use std::collections::VecDeque;

use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use trunkline_host::{SendError, Session, SteerError};
use trunkline_protocol::{
    AdapterBody, Category, Delivered, Failure, HostBody, InputMode, SessionClosed, SessionId,
    StopReason, TurnId,
};

use super::{
    ActorStep, CommandReceiver, GivenTurn, HostReply, INBOX, LAST_WORDS, MAX_QUEUED_ITEMS,
    PendingRequest, SessionActor, SessionCommand,
    inputs::{InputLookup, QueuedInput, QueuedItem, error_event},
};
use crate::{
    ends,
    entry::{EntryBody, Reply},
    facts::SessionFacts,
    listener::SessionSender,
    log::{EntrySink, MemoryLog, MemoryPhase, SessionLog},
    open::{IdText, InputProgress, OpenTurn},
    tail::ListenerNo,
};

/// The number of the only client.
pub(super) const ONLY_CLIENT: ListenerNo = 0;

/// Maximum number of open turns in one session. A further input is refused.
const MAX_OPEN_TURNS: usize = 4096;

/// Error text for a request of the agent that is longer than a line of the client.
const PERMISSION_TOO_LONG: &str =
    "a permission was denied: the request is too long for this hub to show";

/// Error text for a question of the agent that is longer than a line of the client.
const QUESTION_TOO_LONG: &str = "a question was cancelled: it is too long for this hub to show";

/// Returns the sender of messages to a session that is not stored, and the future that serves it.
///
/// `opened` is the host's session, or the reason for its refusal: the client gets the reason as the
/// end of the session. The future resolves when the client has closed the session or has its end,
/// and when all senders are dropped: then the client gets what has happened, for half a second, and
/// the ends of open turns ([relay.9]). It returns the host's session if its files may still be read
/// ([file.3]).
///
/// # Cancel safety
/// Dropping the future closes the session of the host.
pub fn serve_in_memory(
    id: SessionId,
    opened: Result<Session, SessionClosed>,
    sink: Box<dyn EntrySink>,
    may_approve: bool,
) -> (
    SessionSender,
    impl Future<Output = Option<Session>> + Send + 'static,
) {
    let (commands, inbox) = mpsc::channel(INBOX);
    let sender = SessionSender::new(ONLY_CLIENT, commands);
    // Of the facts only the open items are in use.
    let facts = SessionFacts::default();
    let log = SessionLog::Memory(Box::new(MemoryLog::new(sink, may_approve)));
    let (session, refused) = match opened {
        Ok(session) => (Some(session), None),
        Err(closed) => (None, Some(closed)),
    };
    let mut actor = Box::new(SessionActor::with_log(id, facts, log, session, None));
    if let Some(closed) = refused {
        actor.session_ended_in_memory(closed);
    }
    (sender, actor.run_in_memory(inbox))
}

impl SessionActor {
    async fn run_in_memory(mut self: Box<Self>, mut inbox: CommandReceiver) -> Option<Session> {
        while self.phase() == MemoryPhase::Open {
            self.send_end_if_due();
            match self.next_step(Some(&mut inbox)).await {
                ActorStep::Command(None) => Box::pin(self.finish_in_memory()).await,
                ActorStep::EndRead => break,
                ActorStep::Command(Some(command)) => {
                    if let Some(command) = self.read_members(command).await {
                        self.apply_command(*command, InputLookup::default());
                    }
                }
                step => self.handle_step(step),
            }
            self.perform_ready();
        }
        let session = self.session.take();
        let log = self.log.memory()?;
        if log.phase == MemoryPhase::Closed {
            if let Some(session) = session {
                // Before its requests are dropped, since dropping would answer them first.
                session.close().await;
            }
            return None;
        }
        session
            .or_else(|| log.ended.take())
            .filter(|_| log.has_files)
    }

    fn phase(&mut self) -> MemoryPhase {
        self.log
            .memory()
            .map_or(MemoryPhase::Closed, |log| log.phase)
    }

    /// Performs the actions of the entries that were just written.
    fn perform_ready(&mut self) {
        while let Some(then) = self.log.next_ready() {
            self.perform_action(then);
        }
    }

    pub(super) fn begin_turn_in_memory(&mut self, named: Option<TurnId>, queued: QueuedInput) {
        let is_queue_full = self.queue.len() >= MAX_QUEUED_ITEMS;
        let open = &mut self.facts.open.turns;
        let Some(log) = self.log.memory() else {
            return;
        };
        let refusal = if let Some(closed) = &log.end {
            Some(ends::never_sent(closed))
        } else if log.sink.is_full() || open.len() >= MAX_OPEN_TURNS {
            Some(ends::busy(
                "too much of this session waits to be read; read it, then try again",
            ))
        } else if is_queue_full {
            Some(ends::busy(&SendError::Busy.to_string()))
        } else if let Some(id) = named.as_ref().filter(|id| is_open(open, id)) {
            let why = format!("the turn {id} is open; give each input an id of its own");
            Some(ends::undelivered(Failure::new(Category::Protocol, why)))
        } else {
            None
        };
        if let Some(end) = refusal {
            return self.send_body(ONLY_CLIENT, named, AdapterBody::from(end));
        }
        let is_named = named.is_some();
        let turn = named.unwrap_or_else(|| log.unnamed_turn(open));
        log.sink.begin_turn(&turn, is_named);
        open.push_back(OpenTurn {
            id: IdText(turn.clone()),
            reached: InputProgress::Journal,
        });
        self.enqueue_item(QueuedItem::Input(turn, Box::new(queued)));
    }

    /// Returns a command with the members of its message that are stored in files. An input whose
    /// members cannot be read is refused.
    async fn read_members(&mut self, command: Box<SessionCommand>) -> Option<Box<SessionCommand>> {
        match &*command {
            SessionCommand::Message(_, message, _) if message.large.is_some() => {}
            _ => return Some(command),
        }
        let SessionCommand::Message(by, message, from) = *command else {
            return None;
        };
        let (message, why) = self.log.memory()?.sink.read_members(message).await;
        let Some(why) = why else {
            return Some(Box::new(SessionCommand::Message(by, message, from)));
        };
        let why = format!("the text of the input could not be read from its file: {why}");
        match message.body {
            HostBody::UserInput(input) if input.mode == Some(InputMode::Steer) => {
                let refusal = Err(SteerError::NotDelivered(why));
                self.host_replied(HostReply::Steered(input.message_id, refusal));
            }
            _ => {
                let end = ends::undelivered(Failure::new(Category::FileRefused, why));
                self.send_body(ONLY_CLIENT, message.turn_id, AdapterBody::from(end));
            }
        }
        None
    }

    /// Settles a request that the client cannot show or answer. Returns the request if the client
    /// can answer it, and whether it is written.
    pub(super) fn settle_unanswerable(
        &mut self,
        turn: Option<&TurnId>,
        body: &AdapterBody,
        pending: PendingRequest,
    ) -> (Option<PendingRequest>, bool) {
        let Some(log) = self.log.memory() else {
            return (Some(pending), true);
        };
        let is_shown = log.sink.fits(turn, body);
        let is_answered = log.sink.answers_questions();
        match pending {
            PendingRequest::Permission(permission) if !is_shown => {
                permission.deny();
                self.reply_error(Category::PermissionDenied, PERMISSION_TOO_LONG);
            }
            PendingRequest::Question(question) if !is_shown => {
                question.cancel();
                self.reply_error(Category::Oversize, QUESTION_TOO_LONG);
            }
            // Shown as text, and cancelled at once ([ext.3]).
            PendingRequest::Question(question) if !is_answered => question.cancel(),
            pending => return (Some(pending), true),
        }
        (None, is_shown)
    }

    fn reply_error(&mut self, category: Category, why: &str) {
        self.send_body(
            ONLY_CLIENT,
            None,
            AdapterBody::from(error_event(category, why)),
        );
    }

    pub(super) fn reply_in_memory(&mut self, reply: Reply) {
        let (Some(log), EntryBody::Adapter(body)) = (self.log.memory(), reply.body) else {
            return;
        };
        if log.sink.reply(reply.turn_id, body)
            && let Some(session) = &self.session
        {
            tracing::debug!(session = %self.id, "a pause has ended, since too many answers wait for the hub");
            session.resume();
        }
    }

    pub(super) fn pause_in_memory(&mut self) {
        if let Some(log) = self.log.memory() {
            log.sink.pause();
            self.session.iter().for_each(Session::pause);
        }
    }

    pub(super) fn resume_in_memory(&mut self) {
        if let Some(log) = self.log.memory() {
            log.sink.resume();
            self.session.iter().for_each(Session::resume);
        }
    }

    pub(super) fn close_in_memory(&mut self) {
        if let Some(log) = self.log.memory() {
            log.phase = MemoryPhase::Closed;
            log.sink.close();
        }
    }

    /// Ends the session, because the agent's has ended ([session.8]). The reason is sent after
    /// everything that the client waits for.
    pub(super) fn session_ended_in_memory(&mut self, closed: SessionClosed) {
        let session = self.session.take();
        let Some(log) = self.log.memory() else {
            return;
        };
        log.ended = session;
        if log.phase == MemoryPhase::Finishing {
            // Open turns end because the host does ([relay.9]).
            return;
        }
        let end = ends::never_sent(&closed);
        log.end = Some(closed);
        self.given.clear();
        self.pending.clear();
        for turn in std::mem::take(&mut self.facts.open).turns {
            self.write_event(Some(turn.id.0), end.clone(), None);
        }
        self.drop_queued("the session has ended");
        self.send_end_if_due();
    }

    fn send_end_if_due(&mut self) {
        let has_replies = !self.replies.is_empty();
        let Some(log) = self.log.memory() else {
            return;
        };
        if let Some(closed) = &log.end
            && !log.is_end_sent
            && !has_replies
            && !log.sink.has_held()
        {
            let closed = closed.clone();
            log.is_end_sent = true;
            self.write_event(None, closed, None);
        }
    }

    /// Reports what has happened, then ends every open turn, because the host ends ([relay.9]).
    async fn finish_in_memory(&mut self) {
        let Some(log) = self.log.memory() else {
            return;
        };
        log.phase = MemoryPhase::Finishing;
        log.sink.resume();
        self.drop_queued("the host ends");
        let deadline = Instant::now() + LAST_WORDS;
        while self.has_last_events()
            && let Ok(step) = timeout_at(deadline, self.next_step(None)).await
        {
            self.handle_step(step);
            self.perform_ready();
        }
        for turn in std::mem::take(&mut self.facts.open).turns {
            let is_given = |given: &GivenTurn| given.id == turn.id.0 && given.no.is_some();
            let delivered = if self.given.iter().any(is_given) {
                turn.reached.delivered()
            } else {
                Delivered::No
            };
            let end = ends::stopped(StopReason::Shutdown, delivered);
            self.write_event(Some(turn.id.0), end, None);
        }
        if let Some(log) = self.log.memory() {
            log.sink.drop_held();
        }
        self.pending.clear();
    }

    fn has_last_events(&mut self) -> bool {
        let has_more = self.session.is_some() || !self.replies.is_empty();
        has_more || self.log.memory().is_some_and(|log| log.sink.has_held())
    }
}

impl MemoryLog {
    /// Returns a new id for a turn whose input has none.
    fn unnamed_turn(&mut self, open: &VecDeque<OpenTurn>) -> TurnId {
        loop {
            self.unnamed_turns += 1;
            match TurnId::new(format!("~{}", self.unnamed_turns)) {
                Ok(id) if !is_open(open, &id) => return id,
                _ => {}
            }
        }
    }
}

fn is_open(open: &VecDeque<OpenTurn>, id: &TurnId) -> bool {
    open.iter().any(|turn| turn.id.0 == *id)
}
