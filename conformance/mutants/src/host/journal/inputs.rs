//! Inputs: stored before the agent has them, and each once ([journal.7]).

use serde_json::{Value, json};

use super::{Journal, Message, line_of, text};
use crate::switches::{Mutant::*, broken};

impl Journal {
    /// Returns true if the journal has this input, or another of its id; its sender is answered
    /// then.
    fn is_known(&self, hub: u64, id: &str, message: &Message) -> bool {
        let name = text(message, "message_id");
        let known = self
            .sessions
            .get(id)
            .and_then(|session| session.inputs.get(name));
        let Some(known) = known.filter(|_| !broken(ResendRuns)) else {
            return false;
        };
        if known.content != text(message, "content") {
            self.refuse(
                hub,
                id,
                message,
                "failed",
                "protocol",
                "another input has this message_id",
            );
            return true;
        }
        let result = json!({
            "type":"input.result","turn_id":known.turn,"message_id":name,"seq":known.seq,"duplicate":true
        });
        self.tell(hub, id, result);
        true
    }

    /// Ends an input that is not accepted, only for its sender.
    fn refuse(
        &self,
        hub: u64,
        id: &str,
        message: &Message,
        status: &str,
        category: &str,
        why: &str,
    ) {
        let error = json!({"category":category,"message":why});
        let end = json!({
            "type":"turn.complete","turn_id":message.get("turn_id"),"status":status,"error":error,"delivered":"no"
        });
        self.tell(hub, id, end);
    }

    pub(crate) fn input(&mut self, hub: u64, id: &str, by: &str, mut message: Message) {
        if self.is_known(hub, id, &message) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let missing = session.missing();
        if session.is_closed {
            return self.refuse(
                hub,
                id,
                &message,
                "failed",
                "other",
                "the session is closed",
            );
        }
        if !missing.is_empty() && !broken(EnvStored) {
            let why = format!("`{}` must be handed over again", missing.join("` and `"));
            return self.refuse(hub, id, &message, "refused", "other", &why);
        }
        if broken(OpenedLate) && session.last() == 0 {
            session.late = None;
        }
        let named = text(&message, "turn_id").to_owned();
        let is_new = !named.is_empty() && (!session.used.contains(&named) || broken(TurnIdReused));
        let turn = if is_new {
            named
        } else {
            format!("turn-{}-{}", self.epoch, session.last())
        };
        let begin = json!({
            "type":"turn.begin","turn_id":turn,"message_id":message.get("message_id"),
            "content":message.get("content"),"queued":!session.turns.is_empty(),"by":by
        });
        let seq = session.last() + 1;
        if broken(InputUnstored) {
            session.late = Some(super::members(begin));
        } else {
            self.append(id, begin);
        }
        if broken(OpenedLate) && seq == 1 {
            self.append(id, json!({"type":"host.fact","fact":"opened"}));
        }
        self.result(hub, id, &turn, &message, seq);
        self.wake(id);
        message.insert("turn_id".to_owned(), turn.into());
        message.remove("message_id");
        self.below.push(line_of(message));
    }

    fn result(&self, hub: u64, id: &str, turn: &str, message: &Message, seq: u64) {
        let name = message.get("message_id");
        let result = json!({"type":"input.result","turn_id":turn,"message_id":name,"seq":seq});
        if broken(ResultToAll) {
            let hubs = self
                .hubs
                .values()
                .filter(|hub| hub.listens.contains_key(id));
            return hubs.for_each(|hub| hub.tell(id, result.clone()));
        }
        self.tell(hub, id, result);
    }

    pub(crate) fn steer(&mut self, hub: u64, id: &str, by: &str, message: Message) {
        if self.is_known(hub, id, &message) {
            return;
        }
        let running = self
            .sessions
            .get(id)
            .and_then(|session| session.turns.first())
            .map(|turn| turn.id.clone());
        let name = message.get("message_id").cloned().unwrap_or(Value::Null);
        let Some(turn) = running else {
            let why = "no turn is running";
            let result =
                json!({"type":"steer.result","message_id":name,"delivered":false,"reason":why});
            return self.tell(hub, id, result);
        };
        let steered = json!({
            "type":"input.steered","turn_id":turn,"message_id":name,"content":message.get("content"),"by":by
        });
        let seq = self.append(id, steered);
        self.result(hub, id, &turn, &message, seq);
        self.below.push(line_of(message));
    }
}
