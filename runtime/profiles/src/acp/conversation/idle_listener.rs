//! Listens to an agent between turns.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::Session;

use super::super::line::{Command, Message, SessionLine};
use super::super::requests::{PermissionEnd, Requests};
use super::super::session::AcpSession;
use super::super::terminals::Terminals;
use super::super::translate::{EventTime, UpdateEvent, UpdateReader};
use crate::agent::turn::{self, Dialect, EffectList, Engine, IdleTask, UserReply};

/// Listens to the agent between turns, in a task of its own. If `is_mute`, the rest of the last
/// turn is not reported.
pub(super) fn spawn_listener(
    session: Session,
    acp_session: Arc<AcpSession>,
    reader: UpdateReader,
    is_mute: bool,
) -> IdleTask<UpdateReader> {
    IdleTask::spawn(|stop| listen(session, acp_session, reader, stop, is_mute))
}

async fn listen(
    session: Session,
    acp_session: Arc<AcpSession>,
    reader: UpdateReader,
    stop: CancellationToken,
    is_mute: bool,
) -> UpdateReader {
    let idle = Idle {
        reader,
        terminals: &acp_session.terminals,
        requests: acp_session.requests(),
        is_mute,
    };
    let mut line = SessionLine::new(&acp_session);
    let (idle, _) = turn::listen(Engine::between_turns(idle), &mut line, &session, &stop).await;
    acp_session.decline(idle.requests);
    idle.reader
}

/// Handles messages between turns: information about the session, and the agent's own work. Pure.
struct Idle<'s> {
    reader: UpdateReader,
    terminals: &'s Terminals,
    requests: Requests<'s>,
    /// True if the remains of the last turn are not reported.
    is_mute: bool,
}

impl Idle<'_> {
    fn settled(&mut self, settled: &PermissionEnd) {
        if let Some(call) = &settled.denied {
            self.reader.denied(call);
        }
    }
}

impl Dialect for Idle<'_> {
    type Message = Message;
    type Command = Command;

    fn message(&mut self, message: Message, _: Instant, out: &mut EffectList<Command>) {
        let mut told = Vec::new();
        let mut asked = EffectList::default();
        match message {
            Message::Update(params) => {
                let update = &params["update"];
                let terminals = self.terminals;
                self.reader
                    .update(update, EventTime::Now, &|id| terminals.shown(id), &mut told);
            }
            Message::Request(id, request) => {
                let settled =
                    self.requests
                        .take(id, request, &mut self.reader, &mut told, &mut asked);
                self.settled(&settled.unwrap_or_default());
            }
            Message::Complete(params) => self.requests.complete(&params, &mut asked),
            Message::Lost(lost) => {
                tracing::warn!(lost, "updates of an agent between turns are lost")
            }
            // The next turn resumes a session that was taken.
            Message::Taken
            | Message::Refused
            | Message::Prompted(_)
            | Message::Read(_)
            | Message::Mute => {}
        }
        for told in told {
            match told {
                UpdateEvent::Info(info) => out.emit(*info),
                UpdateEvent::Text(output) | UpdateEvent::File(_, Some(output)) if !self.is_mute => {
                    out.emit(output);
                }
                UpdateEvent::Event(event) if !self.is_mute => out.emit(event),
                UpdateEvent::Text(_)
                | UpdateEvent::File(..)
                | UpdateEvent::Event(_)
                | UpdateEvent::SystemError
                | UpdateEvent::BrokeOff(_) => {}
            }
        }
        out.append(asked);
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<Command>) {
        let settled = self.requests.reply(id, &reply, out);
        self.settled(&settled);
    }
}
