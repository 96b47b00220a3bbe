//! The beginning and the end of sessions, and the declarations of their agents.

use std::mem;

use serde_json::Value;
use tokio::time::{Duration, Instant};
use trunkline_client::{ClientError, Events, Session};
use trunkline_protocol::{SessionClosed, SessionId, SessionInfo};

use super::EditorAgent;
use crate::{
    facts::Facts,
    session::{Joining, Phase},
};

/// Timeout for an agent that is started for a new session to declare its modes and models. A
/// failure of it ends the wait.
const AGENT_START_TIMEOUT: Duration = Duration::from_secs(20);

impl EditorAgent {
    /// Takes the host's answer when a session was opened or attached. An editor that has cancelled
    /// the request meanwhile leaves it.
    pub(super) fn finish_opening(
        &mut self,
        id: &SessionId,
        stream: u64,
        opened: Result<(Session, Events), ClientError>,
    ) {
        let session = self.sessions.get_mut(id).filter(|it| it.stream == stream);
        match (session, opened) {
            (Some(session), Ok((handle, events))) => {
                if let Phase::Joining(joining) = &mut session.phase {
                    match handle.attached() {
                        Some(attached) => joining.last_seq = Some(attached.last_seq),
                        // It was opened to continue a conversation of its agent.
                        None => {
                            session.phase = Phase::Starting {
                                request: joining.request.clone(),
                                until: None,
                                replays: Some(joining.replays),
                            }
                        }
                    }
                }
                session.handle = Some(handle);
                self.host.watch((id.clone(), stream), events);
                self.finish_join(id, Some(0));
            }
            (Some(_), Err(cause)) => self.forget(id, &cause.into()),
            (None, Ok((handle, _))) if handle.ready().is_some() => {
                self.host
                    .call(async move { handle.close().await }, |_, _| ());
            }
            // Without its handles an attached session is left.
            (None, _) => {}
        }
    }

    /// Applies declarations of the agent, an entry of this time.
    pub(super) fn update_facts(
        &mut self,
        id: &SessionId,
        info: &SessionInfo,
        time: Option<String>,
    ) {
        self.change_facts(id, |facts| facts.apply(info, time));
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Phase::Starting {
            until: Some(until), ..
        } = &mut session.phase
        else {
            return;
        };
        if session.facts.are_known_after(info) {
            self.finish_start(id);
        } else if info.options_applied.is_some() && session.facts.has_agent_to_start() {
            *until = Instant::now() + AGENT_START_TIMEOUT;
        }
    }

    /// Changes the facts of a session. An open session's editor gets the changes.
    pub(super) fn change_facts(&mut self, id: &SessionId, change: impl FnOnce(&mut Facts)) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let before = session.facts.clone();
        change(&mut session.facts);
        if !session.is_open() {
            return;
        }
        let facts = &session.facts;
        let changed =
            |new: Option<Value>, old: Option<Value>| new.filter(|new| old.as_ref() != Some(new));
        let mut news = Vec::new();
        if session.shows_modes {
            news.extend(changed(facts.mode_update(), before.mode_update()));
        }
        let options = facts.options_update();
        news.extend((options != before.options_update()).then_some(options));
        news.extend(changed(facts.commands_update(), before.commands_update()));
        news.extend(changed(facts.title_update(), before.title_update()));
        for update in news {
            self.update(id, &update);
        }
    }

    /// Answers the request for a new session, if it waits for an answer.
    pub(super) fn finish_start(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Phase::Starting {
            request, replays, ..
        } = &session.phase
        else {
            return;
        };
        let request = request.clone();
        let is_new = replays.is_none();
        session.phase = Phase::Open;
        let mut answer = session.describe();
        if is_new {
            answer.insert("sessionId".to_owned(), id.as_str().into());
        }
        self.answer(&request, Ok(answer.into()));
        self.send_other_facts(id);
    }

    /// Answers the request for a session of the journal, once its history up to `seq` is all of it.
    pub(super) fn finish_join(&mut self, id: &SessionId, seq: Option<u64>) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let is_read = |joining: &Joining| joining.last_seq.is_some_and(|last| seq >= Some(last));
        match &session.phase {
            Phase::Joining(joining) if is_read(joining) => {}
            _ => return,
        }
        let Phase::Joining(joining) = mem::replace(&mut session.phase, Phase::Open) else {
            return;
        };
        let mut answer = session.describe();
        if let Some(copy) = &joining.copy {
            answer.insert("sessionId".to_owned(), copy.as_str().into());
        }
        self.answer(&joining.request, Ok(answer.into()));
        self.send_other_facts(id);
        for body in joining.requests {
            self.handle_agent_request(id, body);
        }
    }

    /// Sends the facts that the answer to an opening has no member for.
    fn send_other_facts(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let facts = &session.facts;
        let others = [
            facts.commands_update(),
            facts.title_update(),
            facts.usage_update(),
        ];
        for update in others.into_iter().flatten() {
            self.update(id, &update);
        }
    }

    /// Handles the end of a session at its host. Its history can still be read.
    pub(super) fn close_session(&mut self, id: &SessionId, closed: SessionClosed) {
        let is_joining = |phase: &Phase| matches!(phase, Phase::Joining(_));
        if !self
            .sessions
            .get(id)
            .is_some_and(|it| is_joining(&it.phase))
        {
            let cause = ClientError::SessionClosed {
                reason: closed.reason,
                failure: closed.error.map(Box::new),
            };
            self.forget(id, &cause.into());
        }
    }
}
