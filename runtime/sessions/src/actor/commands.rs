//! Commands that hubs send to a session.

use tracing::Span;
use trunkline_protocol::{
    Delivered, HostBody, HostMessage, MAX_TITLE, RelayBody, Role, SessionEdit, SessionEditResult,
    Stop, StopReason, StopRequested, TurnId,
};

use super::{
    AnswerNote, EditSender, GivenTurn, InputLookup, JoinRequest, OnStored, QueuedItem,
    SessionActor, SessionCommand, Submission, Subscriber,
};
use crate::{ends, entry::Reply, facts::controls_display, recovery, tail::ListenerNo};

impl SessionActor {
    /// Handles a command, after looking up its input in the journal.
    pub(super) async fn handle_command(&mut self, command: Box<SessionCommand>) {
        let found = match &*command {
            SessionCommand::Message(_, message, _) => match &message.body {
                HostBody::UserInput(input) => {
                    let turn = message.turn_id.as_ref();
                    self.look_up(turn, input, &[]).await
                }
                _ => InputLookup::default(),
            },
            SessionCommand::Submit(_, submission, _) => {
                let turn = submission.turn_id.as_ref();
                self.look_up(turn, &submission.input, &submission.files)
                    .await
            }
            _ => InputLookup::default(),
        };
        self.apply_command(*command, found);
    }

    /// Handles a command whose input was looked up. Not asynchronous, because a future that contains
    /// every handler would be copied for each command.
    pub(super) fn apply_command(&mut self, command: SessionCommand, found: InputLookup) {
        match command {
            SessionCommand::Joined(listener, joined) => {
                if joined.role == Role::Control && joined.secrets.is_some() {
                    self.secrets = joined.secrets;
                }
                let JoinRequest {
                    role,
                    may_approve,
                    name,
                    replies,
                    joined,
                    ..
                } = joined;
                self.listeners.insert(
                    listener,
                    Subscriber {
                        role,
                        may_approve,
                        name,
                        replies,
                        unstored: 0,
                    },
                );
                self.is_released = false;
                // Fails only if the listener has already left.
                let _ = joined.send(self.snapshot());
            }
            SessionCommand::Release => self.is_released = true,
            SessionCommand::Left(listener) => {
                self.listeners.remove(&listener);
                for file in &mut self.unannounced {
                    if file.by == Some(listener) {
                        file.by = None;
                    }
                }
            }
            SessionCommand::Message(listener, message, from) => {
                if self.may_control(listener) {
                    self.handle_message(listener, message, from, found);
                }
            }
            SessionCommand::Submit(listener, submission, from) => {
                if self.may_control(listener) {
                    self.submit_input(listener, submission, from, found);
                }
            }
            SessionCommand::Answer(listener, body, note) => {
                if self.may_control(listener) {
                    self.handle_answer(listener, body, note);
                }
            }
            // Fails only if the caller no longer waits.
            SessionCommand::OpenRequests(reply) => drop(reply.send(self.open_requests())),
            SessionCommand::Edit(by, edit) => self.edit_session(by, &edit),
            SessionCommand::End(done) => self.ending.push(done),
            SessionCommand::HandOver(done) => {
                let _ = done.send(false);
            }
        }
    }

    /// Changes the title or archives the session ([journal.13]).
    fn edit_session(&mut self, by: EditSender, edit: &SessionEdit) {
        let refusal = self.edit_refusal(&by, edit);
        let is_refused = refusal.is_some();
        let mut seq = 0;
        if let Some(mut edited) = self.facts.changes_of(edit).filter(|_| !is_refused) {
            edited.by = match &by {
                EditSender::Listener(listener) => Some(self.listener_name(*listener)),
                EditSender::Caller(name, _) => name.clone(),
            };
            self.facts.apply_edit(&edited);
            seq = self.write_note(None, edited, None);
        }
        match by {
            EditSender::Listener(listener) => {
                let result = SessionEditResult {
                    request_id: edit.request_id.clone(),
                    error: refusal,
                };
                let reply = Reply::new(None, RelayBody::from(result));
                if is_refused {
                    self.send_reply(listener, reply);
                } else {
                    self.reply_when_stored(listener, reply.behind(seq));
                }
            }
            EditSender::Caller(_, done) => match refusal {
                // The receiver may have given up waiting.
                Some(why) => drop(done.send(Err(why))),
                None => self.log.then(OnStored::Edited(done)),
            },
        }
    }

    /// Returns the reason to refuse an edit.
    fn edit_refusal(&self, by: &EditSender, edit: &SessionEdit) -> Option<String> {
        if let EditSender::Listener(listener) = by
            && !self.may_control(*listener)
        {
            return Some(
                "this hub only observes the session; attach to it to control it".to_owned(),
            );
        }
        if let Some(title) = &edit.title
            && title.len() > MAX_TITLE
        {
            let bytes = title.len();
            return Some(format!(
                "the title has {bytes} bytes; give one of at most {MAX_TITLE} bytes"
            ));
        }
        if let Some(title) = &edit.title
            && let Some(char) = title.chars().find(|char| controls_display(*char))
        {
            let code = u32::from(char);
            return Some(format!(
                "the title has the character U+{code:04X}, which controls how text is shown; leave it out"
            ));
        }
        self.log.obstacle().map(|(_, why)| why)
    }

    fn handle_answer(&mut self, by: ListenerNo, body: HostBody, note: AnswerNote) {
        match body {
            HostBody::PermissionResponse(response) => self.answer_permission(by, response, note),
            HostBody::InputResponse(response) => self.answer_question(by, response, note),
            _ => {}
        }
    }

    fn handle_message(
        &mut self,
        by: ListenerNo,
        message: HostMessage,
        from: Span,
        found: InputLookup,
    ) {
        let HostMessage {
            turn_id,
            meta,
            body,
            ..
        } = message;
        match body {
            HostBody::UserInput(input) => {
                let submission = Submission {
                    turn_id,
                    input,
                    meta,
                    files: Vec::new(),
                    settings: None,
                };
                self.submit_input(by, submission, from, found);
            }
            HostBody::FileInput(file) => self.enqueue_item(QueuedItem::File(by, file)),
            HostBody::SessionUpdate(update) => self.enqueue_item(QueuedItem::Update(by, update)),
            HostBody::Stop(Stop { reason }) => {
                self.stop_turn(by, turn_id, reason.unwrap_or(StopReason::User))
            }
            HostBody::PermissionResponse(_) | HostBody::InputResponse(_) => {
                self.handle_answer(by, body, AnswerNote::default());
            }
            HostBody::SessionClose(_) => self.close_session(),
            // In a journal, a pause only concerns the pipe of its listener.
            HostBody::FlowPause(_) => self.pause_in_memory(),
            HostBody::FlowResume(_) => self.resume_in_memory(),
            HostBody::SessionStart(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => {}
        }
    }

    /// Returns `true` if messages of this listener are accepted.
    fn may_control(&self, listener: ListenerNo) -> bool {
        let may = self.log.is_memory()
            || self
                .listeners
                .get(&listener)
                .is_some_and(|subscriber| subscriber.role == Role::Control);
        if !may {
            tracing::debug!(session = %self.id, "a message of a listener that may only observe is ignored");
        }
        may
    }

    fn stop_turn(&mut self, by: ListenerNo, named: Option<TurnId>, reason: StopReason) {
        let queued = |item: &QueuedItem| match item {
            QueuedItem::Input(turn, _) => Some(turn.clone()),
            QueuedItem::File(..) | QueuedItem::Update(..) => None,
        };
        let first_queued = || self.queue.iter().find_map(queued);
        let Some(turn) = named
            .or_else(|| self.running_turn().cloned())
            .or_else(first_queued)
        else {
            return;
        };
        let in_queue = self
            .queue
            .iter()
            .position(|item| queued(item).as_ref() == Some(&turn));
        let given = self.given.iter().position(|given| given.id == turn);
        if in_queue.is_none() && given.is_none() {
            return;
        }
        // A stop does not wait for its entry, so nothing else limits the number of these entries.
        if self.log.has_room() {
            let stop = StopRequested {
                reason: Some(reason),
                by: Some(self.listener_name(by)),
            };
            self.write_note(Some(turn.clone()), stop, None);
        }
        if let Some(at) = in_queue {
            self.queue.remove(at);
            return self.end_turn(turn, ends::stopped(reason, Delivered::No), None);
        }
        let given = given.and_then(|at| self.given.get_mut(at));
        match (&self.session, given) {
            (Some(session), Some(GivenTurn { no: Some(no), .. })) => {
                session.stop_turn(*no, reason);
                self.revoke_answers(Some(&turn), reason);
            }
            // The input waits until it is stored; the stop does not.
            (_, Some(given)) => given.stop = Some(reason),
            (_, None) => {}
        }
    }

    /// Closes the session for every client: it can still be read, but accepts nothing more.
    fn close_session(&mut self) {
        if self.log.is_memory() {
            return self.close_in_memory();
        }
        if self.facts.is_closed {
            return;
        }
        self.facts.is_closed = true;
        self.revoke_answers(None, StopReason::Stopped);
        self.keeping = None;
        for item in std::mem::take(&mut self.queue) {
            match item {
                QueuedItem::Input(turn, _) => {
                    let end = ends::stopped(StopReason::User, Delivered::No);
                    self.write_event(Some(turn), end, None);
                }
                other => self.queue.push_back(other),
            }
        }
        self.drop_queued("the session was closed");
        for GivenTurn { id, no, .. } in std::mem::take(&mut self.given) {
            let delivered = match no {
                Some(_) => Delivered::Unknown,
                None => Delivered::No,
            };
            self.write_event(Some(id), ends::stopped(StopReason::User, delivered), None);
        }
        self.settle_all(StopReason::Stopped);
        // Dropping the agent's session closes it.
        self.session = None;
        let closed = trunkline_protocol::SessionClosed::default();
        self.write_event(None, closed, None);
        self.write_facts();
    }

    pub(super) fn stop_for_good(&mut self) {
        self.keeping = None;
        self.pending.clear();
        self.revoke_answers(None, StopReason::Shutdown);
        let open = std::mem::take(&mut self.facts.open);
        if let Some(log) = self.log.journal_mut() {
            recovery::close(open, log.recorder.entries(), "the host ends", |delivered| {
                ends::stopped(StopReason::Shutdown, delivered)
            });
        }
    }
}
