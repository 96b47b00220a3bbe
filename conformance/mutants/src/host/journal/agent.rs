//! Turns the messages of the host below about a session into entries ([journal.4]).

use std::path::Path;

use serde_json::{Value, json};

use super::{Journal, Message, line_of, members, text};
use crate::switches::{Mutant::*, broken};

/// Keeps the file of an entry for as long as the journal: the host below removes its own.
fn keep_file(folder: &Path, entry: &mut Message, seq: u64) {
    let kept = folder.join(format!("{}-{seq}", text(entry, "session_id")));
    match std::fs::copy(text(entry, "file_path"), &kept) {
        Ok(_) => drop(entry.insert("file_path".to_owned(), kept.to_string_lossy().into())),
        Err(error) => crate::note(&format!("a file is not kept: {error}")),
    }
}

impl Journal {
    pub(crate) fn take_from_below(&mut self, mut line: Vec<u8>) {
        let parsed = serde_json::from_slice::<Message>(&line).unwrap_or_default();
        let id = text(&parsed, "session_id").to_owned();
        if self.sessions.contains_key(&id) {
            return self.take_of_agent(&id, parsed);
        }
        let hub = self.plain.get(&id).copied().unwrap_or_default();
        if broken(SeqToAll) && text(&parsed, "type") == "output" {
            let mut parsed = parsed;
            parsed.insert("seq".to_owned(), 1.into());
            line = line_of(parsed);
            line.pop();
        }
        line.push(b'\n');
        if let Some(hub) = self.hubs.get(&hub) {
            hub.out.push(line);
        }
    }

    fn take_of_agent(&mut self, id: &str, mut message: Message) {
        let epoch = self.epoch;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        for name in ["seq", "epoch", "time"] {
            message.remove(name);
        }
        let kind = text(&message, "type").to_owned();
        if session.is_closed {
            return;
        }
        if session.owes_context && kind != "session.ready" && kind != "working" {
            let told = message
                .get("context")
                .cloned()
                .filter(|_| kind == "session.info");
            if kind != "session.info" || told.is_some() {
                session.owes_context = false;
                let context = told.unwrap_or_else(|| "lost".into());
                if !broken(ContextUnsaid) {
                    let fact = json!({"type":"host.fact","fact":"resumed","context":context});
                    session.append(members(fact), epoch);
                }
            }
        }
        let mut entry = match kind.as_str() {
            "session.ready" if !broken(ReadyNumbered) => return,
            "working" => return,
            "permission.cancel" if !broken(CancelPassed) => members(json!({
                "type":"request.decided","request_id":message.get("request_id"),"turn_id":message.get("turn_id"),
                "cancelled":true,"reason":message.get("reason")
            })),
            "error" if text(&message, "category") == "process_exit" && !broken(ProcessEndRaw) => {
                members(
                    json!({"type":"host.fact","fact":"process_ended","message":message.get("message")}),
                )
            }
            _ => message,
        };
        if kind == "file.output" {
            keep_file(&self.folder, &mut entry, session.last() + 1);
        }
        if kind == "input.request" {
            let secret = |field: &&Value| field["kind"] == "secret";
            let fields = entry
                .get("fields")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(secret);
            let names = fields
                .filter_map(|field| Some(field["id"].as_str()?.to_owned()))
                .collect();
            session
                .secret_fields
                .insert(text(&entry, "request_id").to_owned(), names);
        }
        if broken(InputUnstored)
            && let Some(begin) = session.late.take()
        {
            session.append(begin, epoch);
        }
        session.append(entry, epoch);
    }
}
