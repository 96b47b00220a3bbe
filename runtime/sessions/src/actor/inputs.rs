//! Inputs, files and updates on their way to the agent. Each input is stored first, and their order
//! is kept.

use std::{
    collections::VecDeque,
    path::Path,
    task::{Context, Poll, Waker},
};

use tracing::Span;
use trunkline_host::{FileError, Input, PlacedFile, SendError, SteerError, TurnNo, UpdateError};
use trunkline_protocol::{
    AdapterBody, Category, Delivered, ErrorEvent, Failure, FileDelivered, FileInput, InputMode,
    InputResult, InputSteered, MessageId, Meta, RelayBody, SessionClosed, SessionInfo,
    SessionUpdate, Sha256, SteerResult, StopReason, TurnBegin, TurnComplete, TurnId, UserInput,
};

use super::{
    BoxedReply, HostReply, MAX_GIVEN_TURNS, MAX_QUEUED_ITEMS, OnStored, SessionActor,
    memory::ONLY_CLIENT,
};
use crate::{
    ends,
    entry::Reply,
    input_index::{InputIndex, KnownInput, content_hash, digests},
    open::InputProgress,
    tail::ListenerNo,
};

/// Error text for an input whose id belongs to another input.
const OTHER_INPUT: &str = "another input of this session has this message_id";

/// An input and its files, submitted by one command. It is accepted or refused as a whole, by its
/// id, its text and the digests of its files, before any file is delivered.
#[derive(Debug, Default)]
pub struct Submission {
    /// The caller's id of the turn. It is kept if it is new in the session ([journal.7]).
    pub turn_id: Option<TurnId>,
    /// The text, the id and the mode.
    pub input: UserInput,
    /// Data that is passed through unchanged.
    pub meta: Option<Meta>,
    /// Files for the agent. Each has a SHA-256, and none is delivered if the input is refused or
    /// repeated.
    pub files: Vec<FileInput>,
    /// Settings for the session, which the agent gets right before the input. They do not change if
    /// the input is refused or repeated.
    pub settings: Option<Box<SessionUpdate>>,
}

/// An input that begins a turn, until the agent has it.
#[derive(Debug)]
pub(crate) struct QueuedInput {
    pub(super) by: ListenerNo,
    input: Input,
    /// Files that are not copied yet, followed by the copied ones in `placed`.
    files: VecDeque<FileInput>,
    placed: Vec<PlacedFile>,
    settings: Option<Box<SessionUpdate>>,
    /// Number of the input in the order of delivery, assigned when it leaves the queue.
    number: u64,
    /// The span in which the input was sent. The turn's span follows from it.
    from: Span,
}

/// An item that keeps its order on the way to the agent.
#[derive(Debug)]
pub(super) enum QueuedItem {
    Input(TurnId, Box<QueuedInput>),
    File(ListenerNo, FileInput),
    Update(ListenerNo, Box<SessionUpdate>),
}

/// The result of looking up an input among those that its session has had.
#[derive(Debug, Default)]
pub(super) struct InputLookup {
    /// The hash of its text and the digests of its files.
    content: u64,
    known: Option<KnownInput>,
}

/// A turn that the agent has, or is about to get.
#[derive(Debug)]
pub(super) struct GivenTurn {
    pub(super) id: TurnId,
    /// The host's number of the turn, once the host has it.
    pub(super) no: Option<TurnNo>,
    /// The reason to stop the turn instead of sending it to the host.
    pub(super) stop: Option<StopReason>,
}

/// A file that is being copied for the agent.
pub(super) struct FilePlacing {
    by: ListenerNo,
    /// The turn whose input brings the file. `None` for a file that a hub sent separately.
    turn: Option<TurnId>,
    delivered: FileDelivered,
    pub(super) placed: BoxedReply<Result<PlacedFile, FileError>>,
}

/// A file that was copied and entered. It is announced right before the next turn of the listener
/// that sent it.
#[derive(Debug)]
pub(super) struct UnannouncedFile {
    /// `None` once the listener has left: the file is then announced before the next turn of any
    /// listener.
    pub(super) by: Option<ListenerNo>,
    pub(super) file: PlacedFile,
    /// Number of the last input that left the queue before it: the file belongs to a later one ([file.2]).
    after: u64,
}

impl SessionActor {
    /// Handles an input with its files.
    pub(super) fn submit_input(
        &mut self,
        by: ListenerNo,
        submission: Submission,
        from: Span,
        found: InputLookup,
    ) {
        let Submission {
            turn_id,
            input,
            meta,
            files,
            settings,
        } = submission;
        let is_steer = input.mode == Some(InputMode::Steer);
        let input = Input {
            message: input,
            meta,
        };
        if is_steer {
            return self.steer_turn(by, input, files, found);
        }
        let queued = QueuedInput {
            by,
            input,
            files: files.into(),
            placed: Vec::new(),
            settings,
            number: 0,
            from,
        };
        self.begin_turn(turn_id, queued, found);
    }

    fn begin_turn(&mut self, turn: Option<TurnId>, queued: QueuedInput, found: InputLookup) {
        if self.log.is_memory() {
            return self.begin_turn_in_memory(turn, queued);
        }
        let by = queued.by;
        let input = &queued.input;
        let message_id = input.message.message_id.clone();
        let obstacle = self.log.obstacle();
        match found.known {
            Some(KnownInput::Same { turn, seq }) if obstacle.is_none() || self.has_stored(seq) => {
                return self.reply_duplicate(by, message_id, turn, seq);
            }
            Some(KnownInput::Other) => {
                return self.refuse_input(by, turn, Category::Protocol, OTHER_INPUT);
            }
            Some(KnownInput::Same { .. } | KnownInput::Perhaps) | None => {}
        }
        if self.facts.is_closed {
            return self.refuse_input(by, turn, Category::Other, "the session is closed");
        }
        if self.queue.len() >= MAX_QUEUED_ITEMS || self.facts.open.turns.len() >= MAX_QUEUED_ITEMS {
            return self.refuse_input(by, turn, Category::Busy, &SendError::Busy.to_string());
        }
        if let Some((category, why)) = obstacle {
            return self.refuse_input(by, turn, category, &why);
        }
        let is_new = |turn: &TurnId| self.index().is_none_or(|index| !index.has_turn(turn));
        let turn = turn.filter(is_new).unwrap_or_else(fresh_turn_id);
        self.facts.set_default_title(&input.message.content);
        let begin = TurnBegin {
            message_id: message_id.clone(),
            content: input.message.content.clone(),
            files: hex_digests(&queued.files),
            queued: Some(!self.given.is_empty() || !self.queue.is_empty()),
            by: Some(self.listener_name(by)),
        };
        let seq = self.write_note(Some(turn.clone()), begin, input.meta.clone());
        if let Some(index) = self.index_mut() {
            index.add_turn(message_id.clone(), turn.clone(), seq, found.content);
        }
        let result = InputResult {
            message_id,
            seq,
            duplicate: None,
        };
        self.reply_when_stored(by, Reply::new(Some(turn.clone()), RelayBody::from(result)));
        self.enqueue_item(QueuedItem::Input(turn, Box::new(queued)));
    }

    fn has_stored(&self, seq: u64) -> bool {
        seq <= self.log.last_stored()
    }

    /// Looks up an input among those that the session has had. Reads the ids of the session from
    /// the journal if the input or its turn has an id.
    pub(super) async fn look_up(
        &mut self,
        turn: Option<&TurnId>,
        input: &UserInput,
        files: &[FileInput],
    ) -> InputLookup {
        let Some(log) = self.log.journal_mut() else {
            return InputLookup::default();
        };
        if log.index.is_none() && (turn.is_some() || input.message_id.is_some()) {
            log.index = Some(InputIndex::read(&log.journal, log.key).await);
        }
        let content = content_hash(&input.content, &digests(files));
        let found = log.index.as_ref().zip(input.message_id.as_ref());
        let known = match found.map(|(index, id)| (index.find(id, content), id)) {
            Some((Some(KnownInput::Perhaps), id)) => {
                InputIndex::search(&log.journal, log.key, id, content).await
            }
            Some((known, _)) => known,
            None => None,
        };
        InputLookup { content, known }
    }

    fn index(&self) -> Option<&InputIndex> {
        self.log.journal()?.index.as_ref()
    }

    fn index_mut(&mut self) -> Option<&mut InputIndex> {
        self.log.journal_mut()?.index.as_mut()
    }

    /// Replies to a repeated input when the original is stored.
    fn reply_duplicate(
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
        if self.has_stored(seq) {
            self.send_body(by, turn, RelayBody::from(result));
        } else {
            self.reply_when_stored(by, Reply::new(turn, RelayBody::from(result)));
        }
    }

    /// Ends an input that was not accepted. Only its sender gets the end.
    fn refuse_input(
        &mut self,
        by: ListenerNo,
        turn: Option<TurnId>,
        category: Category,
        why: &str,
    ) {
        let end = ends::undelivered(Failure::new(category, why));
        self.send_body(by, turn, AdapterBody::from(end));
    }

    /// Adds an item that keeps its order, and forwards everything that need not wait.
    pub(super) fn enqueue_item(&mut self, item: QueuedItem) {
        match (&item, self.log.obstacle()) {
            (QueuedItem::File(by, _), Some((_, why))) => return self.refuse_file(*by, &why),
            (QueuedItem::Update(by, _), Some((category, why))) => {
                return self.refuse_update(*by, category, &why);
            }
            (QueuedItem::Input(..), _) | (_, None) => {}
        }
        let is_full = self.queue.len() >= MAX_QUEUED_ITEMS;
        match item {
            QueuedItem::File(by, _) if is_full || self.unannounced.len() >= MAX_QUEUED_ITEMS => {
                self.refuse_file(by, "too many files wait already");
            }
            QueuedItem::Update(by, _) if is_full => {
                self.refuse_update(by, Category::Busy, "too many updates wait already");
            }
            QueuedItem::Input(turn, _) if is_full => {
                self.end_turn(turn, ends::busy(&SendError::Busy.to_string()), None);
            }
            item => {
                if self.queue.capacity() == 0 {
                    // Mostly one item waits.
                    self.queue.reserve_exact(1);
                }
                self.queue.push_back(item);
                self.drain_queue();
            }
        }
    }

    /// Returns the number of turns that the host may have at once.
    fn max_given_turns(&self) -> usize {
        if self.log.is_memory() {
            // The host refuses an input beyond its own limit.
            usize::MAX
        } else if self.takes_queue {
            MAX_GIVEN_TURNS
        } else {
            1
        }
    }

    /// Forwards queued items in order: as many turns as the host may have, and nothing passes a
    /// file that is being copied.
    pub(super) fn drain_queue(&mut self) {
        while self.placing.is_none() {
            if matches!(self.queue.front(), None | Some(QueuedItem::Input(..)))
                && self.given.len() >= self.max_given_turns()
            {
                return;
            }
            match self.queue.pop_front() {
                None => return,
                Some(QueuedItem::Input(turn, mut queued)) => {
                    if let Some(settings) = queued.settings.take() {
                        let update = QueuedItem::Update(queued.by, settings);
                        self.queue.push_front(QueuedItem::Input(turn, queued));
                        self.queue.push_front(update);
                        continue;
                    }
                    if let Some(file) = queued.files.pop_front() {
                        let by = queued.by;
                        self.queue
                            .push_front(QueuedItem::Input(turn.clone(), queued));
                        self.place_file(by, Some(turn), file);
                        continue;
                    }
                    self.last_input += 1;
                    queued.number = self.last_input;
                    self.given.push_back(GivenTurn {
                        id: turn.clone(),
                        no: None,
                        stop: None,
                    });
                    self.facts.open.reached(&turn, InputProgress::Pipe);
                    self.log.mark(&turn);
                    self.log.then(OnStored::Send(turn, queued));
                }
                Some(QueuedItem::File(by, file)) => self.place_file(by, None, file),
                Some(QueuedItem::Update(by, update)) => match self.agent_session() {
                    // The end of the session has its reason.
                    Err(_) if self.log.is_memory() => {
                        self.send_body(by, None, AdapterBody::from(SessionInfo::default()));
                    }
                    Err(closed) => self.refuse_update(by, Category::Other, &reason_of(&closed)),
                    Ok(session) => self.await_host(Box::pin(async move {
                        HostReply::Updated(by, session.update(*update).await.map(Box::new))
                    })),
                },
            }
        }
    }

    /// Sends a stored input to the agent, after the files of its listener.
    pub(super) fn send_input(&mut self, turn: TurnId, queued: QueuedInput) {
        let Some(at) = self.given.iter().position(|given| given.id == turn) else {
            // The turn has ended meanwhile, for example because the session was closed.
            return;
        };
        if let Some(reason) = self.given[at].stop.take() {
            self.given.remove(at);
            return self.end_turn(turn, ends::stopped(reason, Delivered::No), None);
        }
        let QueuedInput {
            by,
            input,
            placed,
            number,
            from,
            ..
        } = queued;
        let opened = self.agent_session();
        self.facts.was_served = true;
        let end = match opened {
            Err(closed) => ends::never_sent(&closed),
            Ok(session) => {
                self.announce_files(&session, by, number);
                placed.into_iter().for_each(|file| session.announce(file));
                match from.in_scope(|| session.send(input)) {
                    Ok(sent) => {
                        self.given[at].no = Some(sent.no());
                        sent.detach();
                        return;
                    }
                    // The turn ends with the session, and has its reason.
                    Err(SendError::Closed) => return,
                    Err(error) => ends::busy(&error.to_string()),
                }
            }
        };
        self.given.remove(at);
        self.end_turn(turn, end, None);
    }

    /// Announces the files that came before an input of a listener: its own, and the files of
    /// listeners that have left. A file that came while the input was being stored belongs to a later
    /// input.
    fn announce_files(&mut self, session: &trunkline_host::Session, by: ListenerNo, number: u64) {
        let is_due =
            |file: &mut UnannouncedFile| file.after < number && file.by.is_none_or(|of| of == by);
        for due in self.unannounced.extract_if(.., is_due) {
            session.announce(due.file);
        }
    }

    fn place_file(&mut self, by: ListenerNo, turn: Option<TurnId>, file: FileInput) {
        if Path::new(&file.file_path).is_relative() {
            return self.file_failed(by, turn, "`file_path` is relative; name an absolute path");
        }
        let session = match self.agent_session() {
            Ok(session) => session,
            Err(closed) => {
                if let Some(turn) = turn {
                    return self.end_queued(&turn, ends::never_sent(&closed));
                }
                return self.refuse_file(by, &reason_of(&closed));
            }
        };
        let delivered = FileDelivered {
            file_name: file.file_name.clone(),
            file_mime_type: file.file_mime_type.clone(),
            size: file.size,
            sha256: file.sha256.as_ref().map(ToString::to_string),
            by: Some(self.listener_name(by)),
        };
        self.placing = Some(Box::new(FilePlacing {
            by,
            turn,
            delivered,
            placed: Box::pin(async move { session.place_file(file).await }),
        }));
    }

    /// Handles the result of copying a file.
    pub(super) fn file_placed(&mut self, placed: Result<PlacedFile, FileError>) {
        let Some(FilePlacing {
            by,
            turn,
            delivered,
            ..
        }) = self.placing.take().map(|placing| *placing)
        else {
            return;
        };
        match (placed, turn) {
            (Err(error), turn) => self.file_failed(by, turn, &with_sources(&error)),
            (Ok(file), None) if self.log.is_memory() => {
                self.write_note(None, delivered, None);
                if let Some(session) = &self.session {
                    session.announce(file);
                }
            }
            (Ok(file), None) => {
                self.write_note(None, delivered, None);
                let by = self.listeners.contains_key(&by).then_some(by);
                let after = self.last_input;
                self.unannounced.push(UnannouncedFile { by, file, after });
            }
            // If the input was stopped meanwhile, its files are dropped with it.
            (Ok(file), Some(turn)) => {
                let queued = self.queue.iter_mut().find_map(|item| match item {
                    QueuedItem::Input(id, queued) if *id == turn => Some(queued),
                    _ => None,
                });
                if let Some(queued) = queued {
                    queued.placed.push(file);
                    self.write_note(Some(turn), delivered, None);
                }
            }
        }
        self.drain_queue();
    }

    /// Refuses a file that the agent cannot get, and the input that brings it.
    fn file_failed(&mut self, by: ListenerNo, turn: Option<TurnId>, why: &str) {
        let Some(turn) = turn else {
            return self.refuse_file(by, why);
        };
        let end = ends::undelivered(Failure::new(Category::FileRefused, why));
        self.end_queued(&turn, end);
    }

    /// Ends a turn if its input waits in the queue.
    fn end_queued(&mut self, turn: &TurnId, end: TurnComplete) {
        let is_it = |item: &QueuedItem| matches!(item, QueuedItem::Input(id, _) if id == turn);
        if let Some(at) = self.queue.iter().position(is_it) {
            self.queue.remove(at);
            self.end_turn(turn.clone(), end, None);
        }
    }

    /// Drops queued items other than inputs, because the agent will not get them, and reports each
    /// to its sender.
    pub(super) fn drop_queued(&mut self, why: &str) {
        for item in std::mem::take(&mut self.queue) {
            match item {
                QueuedItem::File(by, _) => self.refuse_file(by, why),
                QueuedItem::Update(by, _) => self.refuse_update(by, Category::Other, why),
                QueuedItem::Input(..) => {}
            }
        }
        if let Some(placing) = self.placing.take()
            && placing.turn.is_none()
        {
            let by = placing.by;
            self.refuse_file(by, why);
        }
        self.drop_unannounced(why);
    }

    /// Writes that delivered files did not reach the agent.
    pub(super) fn drop_unannounced(&mut self, why: &str) {
        for UnannouncedFile { file, .. } in std::mem::take(&mut self.unannounced) {
            let message = format!("the agent did not get the file {}: {why}", file.name());
            self.write_event(None, error_event(Category::FileRefused, &message), None);
        }
    }

    fn refuse_file(&mut self, by: ListenerNo, why: &str) {
        let error = error_event(Category::FileRefused, why);
        self.send_body(by, None, AdapterBody::from(error));
    }

    /// Refuses an update: reports the reason, and that the values are unchanged.
    fn refuse_update(&mut self, by: ListenerNo, category: Category, why: &str) {
        self.send_body(by, None, AdapterBody::from(error_event(category, why)));
        self.send_body(by, None, AdapterBody::from(SessionInfo::default()));
    }

    fn steer_turn(
        &mut self,
        by: ListenerNo,
        input: Input,
        files: Vec<FileInput>,
        found: InputLookup,
    ) {
        let message_id = input.message.message_id.clone();
        let obstacle = self.log.obstacle();
        let waiting = self.replies.len()
            + self
                .log
                .count_actions(|then| matches!(then, OnStored::Steer(..)));
        // Without a journal the host judges by its own turns.
        let has_running = self.log.is_memory() || self.given.iter().any(|given| given.no.is_some());
        let refusal = match (found.known, obstacle) {
            (Some(KnownInput::Same { turn, seq }), obstacle)
                if obstacle.is_none() || self.has_stored(seq) =>
            {
                return self.reply_duplicate(by, message_id, turn, seq);
            }
            (Some(KnownInput::Other), _) => Some(OTHER_INPUT.to_owned()),
            (_, Some((_, why))) => Some(why),
            _ if !has_running => Some("no turn is running".to_owned()),
            _ if waiting >= MAX_QUEUED_ITEMS => Some("too many wait already".to_owned()),
            _ => None,
        };
        if refusal.is_some() {
            let result = SteerResult {
                message_id,
                delivered: false,
                reason: refusal,
            };
            return self.send_body(by, None, AdapterBody::from(result));
        }
        if self.log.is_memory() {
            return self.send_steer(by, input);
        }
        let named = hex_digests(&files);
        for file in files {
            self.enqueue_item(QueuedItem::File(by, file));
        }
        let steered = InputSteered {
            message_id: message_id.clone(),
            content: input.message.content.clone(),
            files: named,
            by: Some(self.listener_name(by)),
        };
        let turn = self.running_turn().cloned();
        let seq = self.write_note(turn.clone(), steered, input.meta.clone());
        if let Some((index, id)) = self.index_mut().zip(message_id.clone()) {
            index.add_steer(id, turn.clone(), seq, found.content);
        }
        let result = InputResult {
            message_id,
            seq,
            duplicate: None,
        };
        self.reply_when_stored(by, Reply::new(turn, RelayBody::from(result)));
        self.log.then(OnStored::Steer(by, input));
    }

    /// Withdraws inputs that wait to be stored, so that the agent does not get them.
    pub(super) fn take_back(&mut self, end: &TurnComplete, why: &str) {
        let taken = self
            .log
            .take_back(|then| matches!(then, OnStored::Send(..) | OnStored::Steer(..)));
        for then in taken {
            match then {
                OnStored::Send(turn, _) if self.take_given(&turn).is_some() => {
                    self.end_turn(turn, end.clone(), None);
                }
                OnStored::Steer(_, input) => {
                    let result = SteerResult {
                        message_id: input.message.message_id,
                        delivered: false,
                        reason: Some(why.to_owned()),
                    };
                    self.write_event(self.running_turn().cloned(), result, None);
                }
                _ => {}
            }
        }
    }

    fn take_given(&mut self, turn: &TurnId) -> Option<GivenTurn> {
        let at = self.given.iter().position(|given| given.id == *turn)?;
        self.given.remove(at)
    }

    /// Sends a stored addition to the running turn to the agent.
    pub(super) fn send_steer(&mut self, by: ListenerNo, input: Input) {
        let message_id = input.message.message_id.clone();
        match self.session.clone() {
            Some(session) => {
                // Its own files are among those that came last.
                self.announce_files(&session, by, u64::MAX);
                self.await_host(Box::pin(async move {
                    HostReply::Steered(message_id, session.steer(input).await)
                }));
            }
            None => self.host_replied(HostReply::Steered(message_id, Err(SteerError::Closed))),
        }
    }

    /// Polls a call to the host once, so that it takes its place among the other calls immediately.
    pub(super) fn await_host(&mut self, mut reply: BoxedReply<HostReply>) {
        match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => self.host_replied(reply),
            Poll::Pending => self.replies.push(reply),
        }
    }

    pub(super) fn host_replied(&mut self, reply: HostReply) {
        match reply {
            HostReply::Steered(message_id, result) => {
                let turn = self.running_turn().filter(|_| result.is_ok()).cloned();
                let result = SteerResult {
                    message_id,
                    delivered: result.is_ok(),
                    reason: result.err().map(|error| error.to_string()),
                };
                if self.log.is_memory() {
                    self.send_body(ONLY_CLIENT, turn, AdapterBody::from(result));
                } else {
                    self.write_event(turn, result, None);
                }
            }
            HostReply::Updated(_, Ok(info)) if *info != SessionInfo::default() => {}
            HostReply::Updated(by, Err(why @ (UpdateError::WouldWiden(_) | UpdateError::Busy))) => {
                let category = match why {
                    UpdateError::Busy => Category::Busy,
                    _ => Category::PermissionDenied,
                };
                self.refuse_update(by, category, &why.to_string());
            }
            HostReply::EditChecked(by, answer, checked) => {
                self.edit_checked(by, *answer, checked);
            }
            HostReply::Updated(by, _) => {
                self.send_body(by, None, AdapterBody::from(SessionInfo::default()));
            }
        }
    }
}

pub(super) fn error_event(category: Category, why: &str) -> ErrorEvent {
    ErrorEvent {
        category: Some(category),
        message: why.to_owned(),
        fatal: Some(false),
        ..ErrorEvent::default()
    }
}

/// Returns the digests of files as an entry lists them, or `None` without files.
fn hex_digests<'a>(files: impl IntoIterator<Item = &'a FileInput>) -> Option<Vec<String>> {
    let hex = |digest: Option<Sha256>| digest.map_or_else(String::new, |digest| digest.to_string());
    let digests: Vec<_> = digests(files).into_iter().map(hex).collect();
    (!digests.is_empty()).then_some(digests)
}

/// Formats an error with its causes.
fn with_sources(error: &dyn std::error::Error) -> String {
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

fn fresh_turn_id() -> TurnId {
    let id = uuid::Uuid::new_v4().simple().to_string();
    TurnId::new(id).unwrap_or_else(|_| unreachable!("an id of 32 bytes is one"))
}

fn reason_of(closed: &SessionClosed) -> String {
    let message = closed
        .error
        .as_ref()
        .and_then(|error| error.message.clone());
    message.unwrap_or_else(|| "the session has ended".to_owned())
}
