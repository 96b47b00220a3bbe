//! Handles the commands of the link's users.

use std::{collections::VecDeque, sync::atomic::Ordering, time::Instant};

use trunkline_core::{EditRejected, NewSession, WhyClosed};

use super::{Asked, Driver, Entry, MAX_LISTS, key_of, spans::Spans};
use crate::{
    Event, EventDelivery, EventKind, TurnScope, error::UpdateError, link::Command, session_options,
    usage::SessionUsage,
};

impl Driver {
    pub(super) fn handle_command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Open {
                session,
                chosen,
                start,
                meta,
            } => {
                let usage_so_far = self
                    .agent
                    .usage
                    .as_ref()
                    .map(|_| Box::new(SessionUsage::new(start.as_deref())));
                let id = session.id.clone();
                let real_cwd = session.real_cwd().map(Into::into);
                let key = self.core.handle_open(
                    NewSession {
                        id,
                        chosen,
                        start,
                        meta,
                        real_cwd,
                    },
                    now,
                );
                session.key.store(key.to_bits(), Ordering::Release);
                let index = key.index() as usize;
                if self.sessions.len() <= index {
                    self.sessions.resize_with(index + 1, || None);
                }
                let spans = Spans::opened(&session.id);
                self.sessions[index] = Some(Entry {
                    shared: session.clone(),
                    turns: VecDeque::new(),
                    opened: now,
                    bytes_out: 0,
                    usage_so_far,
                    spans,
                    lookups: None,
                });
                if self.down {
                    self.core.handle_close(key, WhyClosed::Shutdown, now);
                }
            }
            Command::Send {
                session,
                turn,
                mailbox,
                input,
                meta,
                from,
            } => {
                let key = key_of(&session);
                let bytes = input.content.len();
                match self.entry(key) {
                    Some(entry) => {
                        if let Some(spans) = &mut entry.spans {
                            spans.given(turn, from);
                        }
                        match entry.shared.delivery {
                            EventDelivery::PerTurn => entry.turns.push_back((turn, mailbox)),
                            EventDelivery::Merged => mailbox.discard(),
                        }
                        self.core.handle_send(key, turn, input, meta, now);
                    }
                    None => {
                        // The session ended while the input was on its way.
                        session.inbox.release(&session.waiting, bytes);
                        let end = Box::new(session.end_of_late_turn(turn));
                        mailbox
                            .finish_now(Event::new(TurnScope::Running(turn), EventKind::End(end)));
                    }
                }
            }
            Command::Steer {
                session,
                input,
                meta,
                mut admitted,
                reply,
            } => {
                // It is written now, or not at all.
                admitted.unqueued();
                let ticket = self.wait(Asked::Steer(reply), admitted);
                self.core
                    .handle_steer(key_of(&session), *input, meta, ticket, now);
            }
            Command::Update {
                session,
                update,
                admitted,
                reply,
            } => match session_options::update(&self.agent.config, &update) {
                Ok(()) => {
                    let ticket = self.wait(Asked::Update(reply), admitted);
                    self.core
                        .handle_update(key_of(&session), update, ticket, now);
                }
                Err(option) => drop(reply.send(Err(UpdateError::WouldWiden(option)))),
            },
            Command::File {
                session,
                file,
                admitted,
            } => {
                let ticket = self.wait(Asked::File, admitted);
                self.core.handle_file(key_of(&session), file, ticket, now);
            }
            Command::Placed {
                session,
                turn,
                placed,
            } => {
                self.core.handle_placed(key_of(&session), turn, placed, now);
            }
            Command::Stop {
                session,
                turn,
                reason,
            } => self.core.handle_stop(key_of(&session), turn, reason, now),
            Command::Answer {
                session,
                request_id,
                serial,
                answer,
            } => {
                self.core
                    .handle_answer(session, &request_id, serial, answer, now);
            }
            Command::Names {
                session,
                serial,
                names,
            } => self.core.handle_names(session, serial, &names, now),
            Command::CheckEdit {
                session,
                tool,
                input,
                names,
                reply,
            } => match self.core.judge_edit(session, &tool, &input, names.as_ref()) {
                Ok(rejected) => {
                    let takes_edits = self.agent.declaration.takes_edits();
                    let rejected = rejected.or((!takes_edits).then_some(EditRejected::Unsupported));
                    // A caller that no longer waits needs no answer.
                    let _ = reply.send(rejected);
                }
                Err(query) => self.find_names(session, query, move |names| Command::CheckEdit {
                    session,
                    tool,
                    input,
                    names: Some(names),
                    reply,
                }),
            },
            Command::CheckRule {
                session,
                request,
                rule,
                names,
                reply,
            } => match self
                .core
                .judge_rule(session, &request, &rule, names.as_ref())
            {
                // As above.
                Ok(rejected) => drop(reply.send(rejected)),
                Err(query) => self.find_names(session, query, move |names| Command::CheckRule {
                    session,
                    request,
                    rule,
                    names: Some(names),
                    reply,
                }),
            },
            Command::RulesChanged(done) => {
                self.core.set_policy(self.agent.policy());
                // As above.
                let _ = done.send(());
            }
            Command::Pause(session) => self.core.handle_pause(key_of(&session), now),
            Command::Resume(session) => self.core.handle_resume(key_of(&session), now),
            Command::ReadDown(session) => self.core.handle_read_down(key_of(&session), now),
            Command::Close { session, done } => {
                self.core
                    .handle_close(key_of(&session), WhyClosed::User, now);
                self.apply(now);
                if let Some(done) = done {
                    // A caller that no longer waits needs no answer.
                    let _ = done.send(());
                }
            }
            Command::Status { of, reply } => {
                // A caller that no longer waits needs no answer.
                let _ = reply.send(self.statuses(of.as_deref(), now));
            }
            Command::Health(reply) => {
                // As above.
                let _ = reply.send(self.health(now));
            }
            Command::ListNative {
                session,
                list,
                reply,
            } => {
                self.lists.retain(|_, waiting| !waiting.is_closed());
                let request_id = list.request_id.clone();
                // A caller that is dropped reports that there is no answer.
                if self.lists.len() < MAX_LISTS && self.core.handle_list(key_of(&session), *list) {
                    self.lists.insert(request_id, reply);
                }
            }
            Command::Standby => self.core.handle_standby(now),
            Command::Retry => self.core.handle_retry(now),
            Command::Restart(done) => {
                self.core.handle_restart(now);
                self.apply(now);
                if self.connection.is_some() || self.ending.is_some() {
                    self.restarts.push(done);
                }
            }
            Command::Retire => self.retired = true,
            Command::Shutdown { steps, done } => {
                self.stopped.extend(done);
                // The end of a host does not wait as long as the end of one agent may.
                if std::mem::take(&mut self.retired) || !self.down {
                    self.shut_down(steps, now);
                }
            }
        }
    }
}
