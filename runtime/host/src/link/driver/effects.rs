//! Executes the effects of the core.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use trunkline_core::{
    Counter, Effect, Ended, Key, Reader, WhyClosed,
    policy::{FoundNames, PathQuery},
};
use trunkline_protocol::{HostBody, Large, Meta};

use super::{ANSWERS, Asked, Driver, Entry, Waiting};
use crate::{
    Event, EventDelivery, EventKind, FailingTurns, TurnScope,
    link::{Command, connection::Connection, file_checks::FileCheck, name_lookups::NameLookups},
    mailbox::{Mailbox, Pushed},
    session::SessionShared,
};

impl Driver {
    pub(super) fn apply(&mut self, now: Instant) {
        let mut connection = self.connection.take();
        self.apply_with(connection.as_deref_mut(), now);
        if self.connection.is_none() {
            self.connection = connection;
        }
        if let Some(connection) = self
            .connection
            .as_ref()
            .filter(|connection| connection.input.is_some())
        {
            self.inbox
                .unwritten
                .store(connection.outbox.len(), Ordering::Release);
        }
    }

    /// Does what the core asks for.
    pub(super) fn apply_with(&mut self, mut connection: Option<&mut Connection>, now: Instant) {
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Deliver {
                    key,
                    scope,
                    body,
                    meta,
                    large,
                } => {
                    if let Some(kind) = EventKind::from_body(body) {
                        let event = Event {
                            meta,
                            ..Event::new(scope, kind)
                        };
                        self.deliver_large(key, event, large, now);
                    }
                }
                Effect::PlaceInput { key, turn, content } => {
                    let Some(entry) = self.entry(key) else {
                        continue;
                    };
                    let session = entry.shared.clone();
                    tokio::task::spawn_blocking(move || {
                        let placed = session.keep_text(&content);
                        session.command(Command::Placed {
                            session: session.clone(),
                            turn,
                            placed,
                        });
                    });
                }
                Effect::Write {
                    key,
                    input_of,
                    mut message,
                } => {
                    self.complete_start(key, &mut message);
                    if let HostBody::PermissionResponse(answer) = &message.body
                        && let Some(Entry {
                            spans: Some(spans), ..
                        }) = self.entry(key)
                    {
                        spans.answered(answer.approved);
                    }
                    let writer = connection
                        .as_deref_mut()
                        .filter(|connection| connection.input.is_some());
                    if let Some(turn) = input_of {
                        self.agent.counters.turns.one();
                        if let (HostBody::UserInput(input), Some(entry)) =
                            (&message.body, self.entry(key))
                        {
                            entry
                                .shared
                                .inbox
                                .release(&entry.shared.waiting, input.content.len());
                            if let Some(spans) = &mut entry.spans {
                                spans.begun(turn);
                            }
                        }
                        let at = writer.as_ref().map(|connection| connection.outbox.end());
                        self.core.handle_written_at(key, turn, at);
                    }
                    // A text in a file is not written; its bytes have counted until here.
                    if let (Some(_), HostBody::UserInput(input)) =
                        (&message.large, &mut message.body)
                    {
                        input.content = String::new();
                    }
                    let Some(connection) = writer else { continue };
                    let bytes = connection.push(&message);
                    if let Some(entry) = self.entry(key) {
                        entry.bytes_out += bytes;
                    }
                    if connection.outbox.answers() > ANSWERS.max(2 * self.agent.limits.outbox) {
                        // It asks and asks, and does not read the answers.
                        connection.kill(Ended::Exit);
                    }
                }
                Effect::Ask {
                    key,
                    scope,
                    request,
                    serial,
                    meta,
                } => {
                    if let Some(Entry {
                        spans: Some(spans), ..
                    }) = self.entry(key)
                    {
                        spans.asked(scope, &request.tool);
                    }
                    let permission =
                        crate::Permission::new(request, key, serial, self.inbox.clone());
                    let event = Event {
                        meta,
                        ..Event::new(scope, EventKind::Permission(permission))
                    };
                    self.deliver(key, event, now);
                }
                Effect::FindNames { key, serial, query } => {
                    self.find_names(key, query, move |names| Command::Names {
                        session: key,
                        serial,
                        names,
                    })
                }
                Effect::AskInput {
                    key,
                    scope,
                    request,
                    serial,
                    meta,
                } => {
                    let question = crate::Question::new(request, key, serial, self.inbox.clone());
                    let event = Event {
                        meta,
                        ..Event::new(scope, EventKind::Question(question))
                    };
                    self.deliver(key, event, now);
                }
                Effect::WritePipe(message) => {
                    if let Some(connection) = connection
                        .as_deref_mut()
                        .filter(|connection| connection.input.is_some())
                    {
                        connection.push(&message);
                    }
                }
                Effect::Listed(result) => {
                    if let Some(reply) = self.lists.remove(&result.request_id) {
                        // A caller that no longer waits needs no answer.
                        let _ = reply.send(*result);
                    }
                }
                Effect::Suspected { silent_for } => {
                    self.agent.counters.suspicions.one();
                    let silent_for = silent_for.as_secs();
                    tracing::warn!(
                        agent = &*self.agent.id,
                        silent_for,
                        "the adapter does not answer a ping: it may hang. Nothing is ended for it; see `ping_after`"
                    );
                }
                Effect::Trusted => {
                    tracing::info!(agent = &*self.agent.id, "the adapter responds again")
                }
                Effect::Stalled {
                    key,
                    turn,
                    silent_for,
                    deadline_in,
                } => {
                    let kind = EventKind::Stalled {
                        silent_for,
                        deadline_in,
                    };
                    self.deliver(key, Event::new(TurnScope::Running(turn), kind), now);
                }
                Effect::CheckFile {
                    key,
                    scope,
                    file,
                    meta,
                } => {
                    let temp_dir = connection.as_deref().and_then(Connection::temp_dir);
                    let pressure = self.pressure.clone();
                    let Some(entry) = self.entry(key) else {
                        continue;
                    };
                    let mailbox = entry.mailbox(scope);
                    let session = entry.shared.clone();
                    let (promise, pushed) = mailbox.promise(watcher(&session, scope), &pressure);
                    self.file_checks.begin(
                        FileCheck {
                            key,
                            session,
                            temp_dir,
                            scope,
                            file,
                            meta,
                        },
                        promise,
                    );
                    self.pushed(key, &mailbox, pushed, now);
                }
                Effect::InputUnqueued { key, bytes } => {
                    if let Some(entry) = self.entry(key) {
                        let shared = &entry.shared;
                        shared.inbox.release(&shared.waiting, bytes);
                    }
                }
                Effect::Unqueued(ticket) => match self.waiting.get_mut(&ticket) {
                    Some(Waiting {
                        what: Asked::File, ..
                    }) => drop(self.waiting.remove(&ticket)),
                    Some(waiting) => waiting.admitted.unqueued(),
                    None => {}
                },
                Effect::End {
                    key,
                    end,
                    meta,
                    large,
                } => self.handle_end(key, end, (meta, large), now),
                Effect::Closed { key, cause, end } => {
                    let Some(entry) = self
                        .sessions
                        .get_mut(key.index() as usize)
                        .and_then(Option::take)
                    else {
                        continue;
                    };
                    entry.shared.set_closed(cause, end.error.clone());
                    if let Some(spans) = &entry.spans {
                        spans.closed(end.reason);
                    }
                    let mailbox = entry.shared.mailbox();
                    let last = Event::new(TurnScope::Outside, EventKind::Closed(end));
                    if mailbox.finish(last) == Pushed::Touched {
                        self.touched.push(mailbox.clone());
                    }
                }
                Effect::Steered { ticket, result } => {
                    if let Some(Waiting {
                        what: Asked::Steer(reply),
                        ..
                    }) = self.waiting.remove(&ticket)
                    {
                        // A caller that no longer waits needs no answer; so below.
                        let _ = reply.send(result);
                    }
                }
                Effect::Updated { ticket, result } => {
                    if let Some(Waiting {
                        what: Asked::Update(reply),
                        ..
                    }) = self.waiting.remove(&ticket)
                    {
                        let _ = reply.send(result.map(|info| *info).map_err(Into::into));
                    }
                }
                Effect::AllowedByRule { key, rule } => {
                    let session = self.entry(key).map(|entry| entry.shared.id.to_string());
                    tracing::info!(session, rule, "a lasting rule approved a permission");
                }
                Effect::Count(counter, key) => {
                    self.count(counter);
                    if let Some(entry) = key.and_then(|key| self.entry(key)) {
                        entry.shared.counted.count(counter);
                    }
                }
                Effect::Start => self.start(),
                Effect::Kill(why) => match connection.as_deref_mut() {
                    Some(connection) => connection.kill(why),
                    None => self.kill(why),
                },
            }
        }
    }

    /// Looks up names of a session beside the loop. They come back as a command. Nothing comes back
    /// for a session that has ended.
    pub(super) fn find_names(
        &mut self,
        key: Key,
        query: PathQuery,
        command: impl FnOnce(FoundNames) -> Command + Send + 'static,
    ) {
        let Some(entry) = self.entry(key) else {
            return;
        };
        let bound = entry.lookups.get_or_insert_with(NameLookups::session_bound);
        let bound = bound.clone();
        let inbox = self.inbox.clone();
        self.name_lookups
            .begin(bound, query, move |names| inbox.push(command(names)));
    }

    pub(super) fn deliver(&mut self, key: Key, event: Event, now: Instant) {
        self.deliver_large(key, event, None, now);
    }

    fn deliver_large(&mut self, key: Key, event: Event, large: Option<Box<Large>>, now: Instant) {
        let pressure = &self.pressure;
        let Some(Some(entry)) = self.sessions.get_mut(key.index() as usize) else {
            return;
        };
        if let EventKind::Info(info) = &event.kind {
            self.agent.declaration.learn(info);
        }
        if let Some(usage_so_far) = &mut entry.usage_so_far {
            match (&event.kind, event.scope) {
                (EventKind::Usage(usage), TurnScope::Running(turn)) => {
                    usage_so_far.note_usage(turn, usage);
                }
                (EventKind::Info(info), _) => usage_so_far.note_info(info),
                _ => {}
            }
        }
        let mailbox = entry.mailbox_ref(event.scope);
        let watcher = watcher(&entry.shared, event.scope);
        let pushed = match large {
            None => mailbox.push(event, watcher, pressure),
            Some(large) => mailbox.push_large(event, large, watcher, pressure),
        };
        match pushed {
            Pushed::Quiet => {}
            Pushed::Touched => self.touched.push(mailbox.clone()),
            pushed @ (Pushed::Behind | Pushed::Overflow) => {
                let mailbox = mailbox.clone();
                self.pushed(key, &mailbox, pushed, now);
            }
        }
    }

    pub(super) fn pushed(&mut self, key: Key, mailbox: &Mailbox, pushed: Pushed, now: Instant) {
        match pushed {
            Pushed::Quiet => {}
            Pushed::Touched => self.touched.push(mailbox.clone()),
            Pushed::Behind => {
                self.touched.push(mailbox.clone());
                let Some(entry) = self.entry(key) else { return };
                let reader = match entry.shared.delivery {
                    EventDelivery::PerTurn => Reader::OfTurn,
                    EventDelivery::Merged => Reader::OfSession,
                };
                self.core.handle_unread(key, reader, now);
            }
            Pushed::Overflow => self.overflow(key, mailbox.unread(), now),
        }
    }

    /// The events of a session have no room: it ends with this reason.
    pub(super) fn overflow(&mut self, key: Key, unread: u64, now: Instant) {
        self.agent.counters.overflows.one();
        let why = format!(
            "its output was not read and does not fit on disk (`spool`, `spools`): {unread} bytes wait to be read, and what came after them is dropped; read each turn to its end"
        );
        self.core.handle_close(key, WhyClosed::Limit(why), now);
    }

    pub(super) fn handle_end(
        &mut self,
        key: Key,
        end: Box<crate::TurnEnd>,
        (meta, large): (Option<Box<Meta>>, Option<Box<Large>>),
        now: Instant,
    ) {
        let turn = end.turn;
        FailingTurns::note(&mut self.failing, &end);
        if let Some(Some(Entry {
            shared,
            usage_so_far: Some(usage_so_far),
            ..
        })) = self.sessions.get_mut(key.index() as usize)
        {
            self.ended
                .push(usage_so_far.end_turn(&self.agent.id, &shared.id, &end, now));
        }
        let Some(entry) = self.entry(key) else { return };
        if let Some(spans) = &mut entry.spans {
            spans.ended(&end);
        }
        let event = Event {
            meta,
            ..Event::new(TurnScope::Running(turn), EventKind::End(end))
        };
        match entry.shared.delivery {
            EventDelivery::Merged => self.deliver_large(key, event, large, now),
            EventDelivery::PerTurn => {
                let Some(at) = entry.turns.iter().position(|(no, _)| *no == turn) else {
                    return;
                };
                let Some((_, mailbox)) = entry.turns.remove(at) else {
                    return;
                };
                let finished = match large {
                    None => mailbox.finish(event),
                    Some(large) => mailbox.finish_large(event, large),
                };
                if finished == Pushed::Touched {
                    self.touched.push(mailbox);
                }
            }
        }
    }

    /// Names the exchange folder in a `session.start` with options ([file.6]).
    pub(super) fn complete_start(
        &mut self,
        key: Key,
        message: &mut trunkline_protocol::HostMessage,
    ) {
        if let trunkline_protocol::HostBody::SessionStart(start) = &mut message.body
            && self.agent.names_exchange
            && let Some(entry) = self.entry(key)
        {
            match entry.shared.exchange() {
                Ok(exchange) => {
                    start.exchange_dir = Some(exchange.path().to_string_lossy().into_owned())
                }
                Err(error) => tracing::warn!(%error, "no exchange folder could be made"),
            }
        }
    }

    pub(super) fn count(&self, counter: Counter) {
        let counters = &self.agent.counters;
        match counter {
            Counter::UnknownType => counters.unknown_type.one(),
            Counter::UnknownSession => counters.unknown_session.one(),
            Counter::Late => counters.late.one(),
            Counter::Foreign => counters.foreign.one(),
            Counter::StrayEnd => counters.stray_ends.one(),
            Counter::StrayRequest => counters.stray_requests.one(),
            Counter::DeniedRequest => counters.denied_requests.one(),
            Counter::Bad => counters.bad.one(),
            Counter::BadOfSession => {}
            Counter::Restart => counters.restarts.one(),
        }
    }
}

/// The session whose link learns that an event was read: one of a turn. What comes outside turns
/// holds back nothing.
fn watcher(session: &Arc<SessionShared>, scope: TurnScope) -> Option<&Arc<SessionShared>> {
    matches!(scope, TurnScope::Running(_)).then_some(session)
}
