//! Titles, the archive and copies of sessions ([journal.13], [journal.14]).

use serde_json::{Value, json};

use super::session::JournalSession;
use super::{Journal, Message, members, number, optional, text};
use crate::switches::{Mutant::*, broken};

/// The longest title of a hub, in bytes.
const MAX_TITLE: usize = 200;

impl Journal {
    /// `session.edit`: the entry, then the answer.
    pub(crate) fn edit(&mut self, hub: u64, message: &Message) {
        let id = text(message, "session_id");
        let listener = self.hubs.get(&hub).and_then(|hub| hub.listens.get(id));
        let title = optional(message, "title");
        let archived = message.get("archived").and_then(Value::as_bool);
        let session = self.sessions.get(id);
        let error = match session {
            None => Some("the journal has no session of this id"),
            Some(_) if listener.is_some_and(|listener| listener.observes) => {
                Some("this hub only observes the session")
            }
            Some(_) if title.is_some_and(|title| title.len() > MAX_TITLE) => {
                Some("the title has more than 200 bytes")
            }
            Some(_) => None,
        };
        let changes = session.is_some_and(|session| {
            title.is_some_and(|title| title != session.title)
                || archived.is_some_and(|archived| archived != session.is_archived)
        });
        if changes && (error.is_none() || broken(EditRefusedWritten)) {
            let by = listener.map(|listener| listener.name.as_str());
            let entry = json!({"type":"session.edited","title":title,"archived":archived,"by":by});
            self.append(id, entry);
            self.pump();
        }
        let result = json!({
            "type":"session.edit.result","request_id":message.get("request_id"),"error":error
        });
        if broken(EditAnsweredTwice) {
            self.tell(hub, id, result.clone());
        }
        self.tell(hub, id, result);
    }

    /// `session.fork`: a copy, to which its hub is attached.
    pub(crate) fn fork(&mut self, hub: u64, message: &Message) {
        let id = text(message, "session_id").to_owned();
        match self.copy(&id, message) {
            Ok(copy) => {
                self.sessions.insert(id, copy);
                self.attach(hub, message);
            }
            Err(refused) => {
                if broken(ForkRefusedOpened)
                    && !self.sessions.contains_key(&id)
                    && let Ok(session) = JournalSession::create(&self.folder, message)
                {
                    self.sessions.insert(id.clone(), session);
                }
                self.tell(hub, &id, refused);
            }
        }
    }

    /// A copy of the session that a fork names, or the refusal.
    fn copy(&mut self, id: &str, message: &Message) -> Result<JournalSession, Value> {
        let refused = |reason: &str| json!({"type":"session.refused","reason":reason});
        if self.sessions.contains_key(id) {
            return Err(refused("exists"));
        }
        let source = text(message, "source");
        let Some(copied) = self.sessions.get_mut(source) else {
            return Err(refused("unknown"));
        };
        let last = copied.last();
        let upto = number(message, "seq").unwrap_or(last);
        if upto > last {
            return Err(json!({"type":"session.refused","reason":"ahead","last_seq":last}));
        }
        let mut start = copied.start.clone();
        start.insert("session_id".to_owned(), id.into());
        for name in &copied.needs {
            let handed_over = message.get(name).cloned().unwrap_or_default();
            start.insert(name.clone(), handed_over);
        }
        let mut copy = JournalSession::create(&self.folder, &start).map_err(|error| {
            crate::note(&error.to_string());
            refused("read_only")
        })?;
        copy.secrets.retain(|_, secret| !secret.is_null());
        copy.late = None;
        for (_, line) in (0..upto).zip(&copied.lines) {
            copy.copy(serde_json::from_slice(line).unwrap_or_default());
        }
        let fact = members(json!({"type":"host.fact","fact":"forked_from","source":source}));
        copy.append(fact.clone(), self.epoch);
        copy.close_open(
            "cancelled",
            "the session was copied while this turn ran",
            self.epoch,
        );
        if broken(ForkMarksSource) {
            copied.append(fact, self.epoch);
        }
        Ok(copy)
    }
}
