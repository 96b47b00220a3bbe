//! What hubs say in a session.

use tracing::Span;
use trunkline_host::Input;
use trunkline_protocol::{
    Delivered, HostBody, HostMessage, InputMode, Role, Stop, StopReason, StopRequested, TurnId,
};

use super::{Command, Given, Hears, Joined, Live, Ordered};
use crate::{ends, recovery, tail::ListenerNo};

impl Live {
    pub(super) async fn take(&mut self, command: Command) {
        match command {
            Command::Joined(listener, joined) => {
                if joined.role == Role::Control && joined.secrets.is_some() {
                    self.secrets = joined.secrets;
                }
                let Joined {
                    role,
                    name,
                    answers,
                    joined,
                    ..
                } = *joined;
                self.listeners.insert(
                    listener,
                    Hears {
                        role,
                        name,
                        answers,
                        unstored: 0,
                    },
                );
                // Gone again, if no one waits for it.
                let _ = joined.send(self.now());
            }
            Command::Left(listener) => {
                self.listeners.remove(&listener);
            }
            Command::Said(listener, message, from) => {
                let may = self
                    .listeners
                    .get(&listener)
                    .is_some_and(|hears| hears.role == Role::Control);
                if may {
                    self.take_message(listener, *message, from).await;
                } else {
                    tracing::debug!(session = %self.id, "a message of a hub that may only observe is not taken");
                }
            }
            Command::End(done) => self.ending.push(done),
            Command::HandOver(done) => {
                let _ = done.send(false);
            }
        }
    }

    async fn take_message(&mut self, by: ListenerNo, message: HostMessage, from: Span) {
        let HostMessage {
            turn_id,
            meta,
            body,
            ..
        } = message;
        match body {
            HostBody::UserInput(message) if message.mode == Some(InputMode::Steer) => {
                self.steer(by, Input { message, meta }).await;
            }
            HostBody::UserInput(message) => {
                self.input(
                    by,
                    turn_id,
                    Given {
                        input: Input { message, meta },
                        from,
                    },
                )
                .await;
            }
            HostBody::FileInput(file) => self.order(Ordered::File(by, file)),
            HostBody::SessionUpdate(update) => self.order(Ordered::Update(by, update)),
            HostBody::Stop(Stop { reason }) => {
                self.stop(by, turn_id, reason.unwrap_or(StopReason::User))
            }
            HostBody::PermissionResponse(response) => self.permission(by, response),
            HostBody::InputResponse(response) => self.question(by, response),
            HostBody::SessionClose(_) => self.close(),
            // A pause concerns the listener alone, which its pipe holds back.
            HostBody::FlowPause(_)
            | HostBody::FlowResume(_)
            | HostBody::SessionStart(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => {}
        }
    }

    fn stop(&mut self, by: ListenerNo, named: Option<TurnId>, reason: StopReason) {
        let waiting = |turn: &TurnId| {
            self.ordered
                .iter()
                .position(|ordered| matches!(ordered, Ordered::Input(waits, _) if waits == turn))
        };
        let first = || {
            self.ordered.iter().find_map(|ordered| match ordered {
                Ordered::Input(turn, _) => Some(turn.clone()),
                _ => None,
            })
        };
        let Some(turn) = named.or_else(|| self.running.clone()).or_else(first) else {
            return;
        };
        let at = waiting(&turn);
        if at.is_none() && self.running.as_ref() != Some(&turn) {
            return;
        }
        // A stop waits for no entry, so nothing else bounds how many there are.
        if self.recorder.has_room() {
            let stop = StopRequested {
                reason: Some(reason),
                by: Some(self.name(by)),
            };
            self.note(Some(turn.clone()), stop, None);
        }
        if let Some(at) = at {
            self.ordered.remove(at);
            return self.end_turn(turn, ends::stopped(reason, Delivered::No), None);
        }
        match (&self.session, self.no) {
            (Some(session), Some(no)) => {
                session.stop_turn(no, reason);
                self.revoke(Some(&turn), reason);
            }
            // It waits for the store; a stop does not.
            _ => self.stopped = Some(reason),
        }
    }

    /// The session ends for all: it can be read, and takes nothing more.
    fn close(&mut self) {
        self.facts.is_closed = true;
        self.revoke(None, StopReason::Stopped);
        while let Some(at) = self
            .ordered
            .iter()
            .position(|ordered| matches!(ordered, Ordered::Input(..)))
        {
            if let Some(Ordered::Input(turn, _)) = self.ordered.remove(at) {
                self.say(
                    Some(turn),
                    ends::stopped(StopReason::User, Delivered::No),
                    None,
                );
            }
        }
        self.ordered.clear();
        self.keeping = None;
        if let Some(turn) = self.running.take() {
            self.say(
                Some(turn),
                ends::stopped(StopReason::User, Delivered::Unknown),
                None,
            );
        }
        self.settle_all(StopReason::Stopped);
        self.no = None;
        // Dropped, it is closed.
        self.session = None;
        let closed = trunkline_protocol::SessionClosed::default();
        self.say(None, closed, None);
        self.write_facts();
    }

    pub(super) fn stop_for_good(&mut self) {
        self.keeping = None;
        self.pending.clear();
        self.revoke(None, StopReason::Shutdown);
        let open = std::mem::take(&mut self.facts.open);
        recovery::close(
            open,
            self.recorder.entries(),
            "the host ends",
            |delivered| ends::stopped(StopReason::Shutdown, delivered),
        );
    }
}
