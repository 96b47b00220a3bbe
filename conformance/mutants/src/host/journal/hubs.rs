//! Messages of hubs: for sessions of the journal, and for others.

use serde_json::{Value, json};

use super::session::JournalSession;
use super::{Journal, Message, line_of, members, optional, text};
use crate::switches::{Mutant::*, broken};

impl Journal {
    pub(crate) fn take_from_hub(&mut self, hub: u64, mut line: Vec<u8>) {
        let message = serde_json::from_slice::<Message>(&line).unwrap_or_default();
        let id = text(&message, "session_id").to_owned();
        let names = message.get("extensions").and_then(Value::as_array);
        let asks = names.is_some_and(|names| names.iter().any(|name| name == "journal"));
        match text(&message, "type") {
            "session.start" if asks => self.start(hub, &message),
            "session.attach" => self.attach(hub, &message),
            "session.history" => self.history(hub, &message),
            "session.edit" => self.edit(hub, &message),
            "session.fork" => self.fork(hub, &message),
            "sessions.list" if asks => self.list(hub, &message),
            "session.detach" => {
                if self
                    .hubs
                    .get_mut(&hub)
                    .is_some_and(|hub| hub.listens.remove(&id).is_some())
                {
                    self.left(&id);
                }
            }
            _ if self.sessions.contains_key(&id) => self.said(hub, &id, message),
            kind => {
                if kind == "session.start" {
                    self.plain.insert(id, hub);
                }
                line.push(b'\n');
                self.below.push(line);
            }
        }
    }

    fn start(&mut self, hub: u64, message: &Message) {
        let id = text(message, "session_id").to_owned();
        let is_known = self.sessions.contains_key(&id);
        if is_known && !broken(KnownIdStarted) {
            return self.tell(
                hub,
                &id,
                json!({"type":"session.refused","reason":"exists"}),
            );
        }
        let mut names = message
            .get("extensions")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        names.retain(|name| !matches!(name.as_str(), Some("flow" | "large")));
        self.tell(
            hub,
            &id,
            json!({"type":"session.ready","protocol":1,"extensions":names}),
        );
        if !is_known {
            match JournalSession::create(&self.folder, message) {
                Ok(session) => drop(self.sessions.insert(id.clone(), session)),
                Err(error) => return crate::note(&error.to_string()),
            }
        }
        let epoch = self.epoch;
        if let Some(session) = self.sessions.get_mut(&id)
            && let Some(opened) = session.late.take()
        {
            session.append(opened, epoch);
        }
        self.listen(hub, &id, 0, message);
        self.wake(&id);
    }

    /// Opens a session at the host below, if it is not open there.
    pub(crate) fn wake(&mut self, id: &str) {
        if let Some(start) = self
            .sessions
            .get_mut(id)
            .and_then(JournalSession::start_below)
        {
            self.below.push(line_of(start));
        }
    }

    /// Writes an entry of a session; its number.
    pub(crate) fn append(&mut self, id: &str, entry: Value) -> u64 {
        let epoch = self.epoch;
        self.sessions
            .get_mut(id)
            .map_or(0, |session| session.append(members(entry), epoch))
    }

    /// Handles a message of a hub in a session that it is attached to ([journal.6]).
    fn said(&mut self, hub: u64, id: &str, mut message: Message) {
        let Some(listener) = self.hubs.get(&hub).and_then(|hub| hub.listens.get(id)) else {
            return;
        };
        if listener.observes {
            return;
        }
        let by = listener.name.clone();
        let kind = text(&message, "type").to_owned();
        match kind.as_str() {
            "user.input" if text(&message, "mode") == "steer" => self.steer(hub, id, &by, message),
            "user.input" => self.input(hub, id, &by, message),
            "permission.response" | "input.response" => self.answer(hub, id, &by, message),
            "session.close" => self.close(hub, id),
            "file.input" => {
                self.wake(id);
                self.append(
                    id,
                    json!({"type":"file.delivered","file_name":message.get("file_name"),"by":by}),
                );
                self.below.push(line_of(message));
            }
            "stop" => {
                let Some(session) = self.sessions.get(id) else {
                    return;
                };
                let Some(running) = session.turns.first().map(|turn| turn.id.clone()) else {
                    return;
                };
                let named = optional(&message, "turn_id").unwrap_or(&running);
                let stop = json!({"type":"stop.requested","turn_id":named,"reason":"user","by":by});
                self.append(id, stop);
                self.below.push(line_of(message));
            }
            "session.update" => {
                self.wake(id);
                message.remove("seq");
                self.below.push(line_of(message));
            }
            _ => {}
        }
    }

    /// The first answer decides; a later one is answered by it.
    fn answer(&mut self, hub: u64, id: &str, by: &str, message: Message) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let request = text(&message, "request_id").to_owned();
        let known = session.decided.get(&request).cloned();
        let decides = session.requests.contains(&request) || broken(BothDecide) && known.is_some();
        if !decides {
            if let Some(mut decided) = known.filter(|_| !broken(LateAnswerSilent)) {
                for name in ["seq", "epoch", "time", "turn_id"] {
                    decided.remove(name);
                }
                self.tell(hub, id, Value::Object(decided));
            }
            return;
        }
        let mut values = message.get("values").cloned();
        for field in session.secret_fields.get(&request).into_iter().flatten() {
            if let Some(value) = values.as_mut().and_then(|values| values.get_mut(field))
                && !broken(SecretStored)
            {
                *value = json!({"redacted":true});
            }
        }
        let decided = json!({
            "type":"request.decided","request_id":request,"turn_id":session.turns.first().map(|turn| &turn.id),
            "approved":message.get("approved"),"option_id":message.get("option_id"),"values":values,
            "cancelled":message.get("cancelled"),"by":by
        });
        self.append(id, decided);
        self.below.push(line_of(message));
    }

    /// Ends a session for all.
    fn close(&mut self, hub: u64, id: &str) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let open: Vec<String> = session.turns.iter().map(|turn| turn.id.clone()).collect();
        for turn in open {
            let end = json!({"type":"turn.complete","turn_id":turn,"status":"stopped","delivered":"unknown"});
            self.append(id, end);
        }
        for request in self
            .sessions
            .get(id)
            .map(|session| session.requests.clone())
            .unwrap_or_default()
        {
            let decided = json!({"type":"request.decided","request_id":request,"cancelled":true,"reason":"stopped"});
            self.append(id, decided);
        }
        self.append(id, json!({"type":"session.closed"}));
        if let Some(session) = self.sessions.get_mut(id)
            && std::mem::take(&mut session.is_open)
        {
            self.below.push(line_of(members(
                json!({"type":"session.close","session_id":id}),
            )));
        }
        if let Some(hub) = self.hubs.get_mut(&hub) {
            hub.listens.remove(id);
        }
    }
}
