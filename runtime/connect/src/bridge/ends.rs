//! Ends of sessions, and the sessions that are remembered.

use super::{Bridge, MAX_KNOWN_SESSIONS, log_failure};
use crate::{
    frame::{NativeSession, ToHub},
    outbox::Lost,
};

impl Bridge {
    /// Ends all sessions: each turn gets its end with this reason.
    pub(crate) fn end_all(&mut self, why: &str) {
        for id in self.sessions.keys().cloned().collect::<Vec<_>>() {
            self.end_session(&id, Some(why));
        }
    }

    /// Closes a session at the host, and forgets it. The hub's next message opens it again.
    pub(super) fn close(&mut self, id: &str) {
        self.close_then(id, |_| ());
    }

    /// The same, and does something else when the host has closed it.
    pub(super) fn close_then(&mut self, id: &str, then: impl FnOnce(&mut Self) + Send + 'static) {
        self.flush(id);
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        let opening = session.handle.clone();
        let closed_id = id.to_owned();
        self.host.call(
            async move { opening.await?.close().await },
            move |bridge: &mut Self, result| {
                log_failure(bridge, &closed_id, result);
                then(bridge);
            },
        );
        self.requests.retain(|_, pending| pending.session != id);
        self.files.forget(id);
        if session.native.is_none() && session.has_context {
            self.forgotten.push_back(id.to_owned());
            if self.forgotten.len() > MAX_KNOWN_SESSIONS {
                self.forgotten.pop_front();
            }
        }
    }

    /// Ends a session otherwise than at its idle limit: its turns get their ends, and the reason.
    pub(super) fn end_session(&mut self, id: &str, why: Option<&str>) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let open: Vec<_> = session.turns.iter().map(|turn| turn.hub.clone()).collect();
        let is_answered = session.is_answered;
        if let Some(why) = why.filter(|_| is_answered && !open.is_empty()) {
            self.show(id, "system", why);
        }
        for (place, hub) in open.into_iter().enumerate() {
            let Some(hub) = hub else { continue };
            if place > 0 {
                self.put_started(id, &hub);
            }
            self.put_completed(id, &hub, 1);
        }
        if !is_answered {
            let error = Some(why.unwrap_or("the session has ended").to_owned());
            let created = ToHub::Created {
                session_id: id.to_owned(),
                ok: false,
                error,
                native_handle: None,
            };
            self.out.push(id, Lost::Again, &created);
        }
        self.close(id);
    }

    /// Remembers a session that can be resumed.
    pub(super) fn remember(&mut self, id: &str) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let Some(native) = &session.native else {
            return;
        };
        let known = NativeSession {
            session_id: native.clone(),
            first_prompt: session.first_prompt.clone(),
            message_count: session.messages,
        };
        let agent = session.agent.clone();
        self.known
            .retain(|(_, before)| before.session_id != known.session_id);
        self.known.push_back((agent, known));
        if self.known.len() > MAX_KNOWN_SESSIONS {
            self.known.pop_front();
        }
    }
}
