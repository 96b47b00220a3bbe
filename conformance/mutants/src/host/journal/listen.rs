//! Delivery to hubs: entries from their position on, skipped entries, and history.

use serde_json::{Value, json};
use trunkline_conformance_mutants::sleep;

use super::{Hub, Journal, Message, line_of, members, number, text};
use crate::switches::{Mutant::*, broken};

/// Bytes that a hub may lag before its entries wait.
const AHEAD: usize = 256 * 1024;
/// The most of an answer about the past.
const RESULT: usize = 900 * 1024;

/// A hub's place in a session.
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) observes: bool,
    skips: bool,
    /// The entry that comes next.
    next: u64,
    /// True if entries have waited for it.
    waited: bool,
    /// Position from which a broken host continues as well.
    before: Option<u64>,
}

impl Hub {
    /// Says something that is no entry.
    pub(crate) fn tell(&self, session: &str, message: Value) {
        let mut whole = members(message);
        whole.insert("session_id".to_owned(), session.into());
        self.out.push(line_of(whole));
    }
}

impl Journal {
    pub(crate) fn tell(&self, hub: u64, session: &str, message: Value) {
        if let Some(hub) = self.hubs.get(&hub) {
            hub.tell(session, message);
        }
    }

    /// Lets a hub listen behind an entry.
    pub(crate) fn listen(&mut self, hub: u64, id: &str, after: u64, asked: &Message) {
        self.minted += 1;
        let lost = u64::from(broken(AttachLoses) && after > 0);
        let mut listener = Listener {
            name: format!("l-{}-{}", self.epoch, self.minted),
            observes: text(asked, "role") == "observe" && !broken(ObserverTaken),
            skips: text(asked, "on_slow") == "skip",
            next: after + 1 + lost,
            waited: false,
            before: None,
        };
        if broken(AttachDoubles) && after > 0 {
            listener.next = after;
        }
        let Some(hub) = self.hubs.get_mut(&hub) else {
            return;
        };
        if broken(SecondAttachKeeps) {
            listener.before = hub.listens.get(id).map(|before| before.next);
        }
        hub.listens.insert(id.to_owned(), listener);
    }

    /// `session.attach` ([journal.5]).
    pub(crate) fn attach(&mut self, hub: u64, message: &Message) {
        let id = text(message, "session_id").to_owned();
        let after = number(message, "after").unwrap_or_default();
        let Some(session) = self
            .sessions
            .get_mut(&id)
            .filter(|session| !session.is_closed || !broken(ClosedForgotten))
        else {
            return self.tell(
                hub,
                &id,
                json!({"type":"session.refused","reason":"unknown"}),
            );
        };
        let last = session.last();
        if after > last {
            let refused = json!({"type":"session.refused","reason":"ahead","last_seq":last});
            return self.tell(hub, &id, refused);
        }
        let differs = number(message, "epoch")
            .zip(session.epoch_at(after))
            .filter(|(asked, known)| asked != known);
        if let Some((asked, known)) = differs.filter(|_| !broken(ForkUnseen)) {
            let both = (1..=after)
                .take_while(|seq| session.epoch_at(*seq) < Some(asked.min(known)))
                .count();
            let refused = json!({"type":"session.refused","reason":"forked","last_seq":both});
            return self.tell(hub, &id, refused);
        }
        for name in ["env", "mcp_servers"] {
            if let Some(secret) = message.get(name) {
                session.secrets.insert(name.to_owned(), secret.clone());
            }
        }
        let mut turns = session.turns.iter().map(|turn| turn.id.clone());
        let mut attached = json!({
            "type":"session.attached","agent_id":"first","state":session.state(),"turn_id":turns.next(),
            "queued":turns.collect::<Vec<_>>(),"requests":session.requests,"first_seq":1,"last_seq":last,
            "epoch":self.epoch,"title":Some(&session.title).filter(|title| !title.is_empty())
        });
        if broken(AttachStarts) {
            self.wake(&id);
        }
        self.listen(hub, &id, after, message);
        if let Some(hub) = self.hubs.get(&hub)
            && let Some(listener) = hub.listens.get(&id)
        {
            attached["listener"] = listener.name.as_str().into();
            attached["role"] = if text(message, "role") == "observe" {
                "observe"
            } else {
                "control"
            }
            .into();
            hub.tell(&id, attached);
        }
    }

    /// A hub has left a session.
    pub(crate) fn left(&mut self, id: &str) {
        if !broken(LeavingDenies) {
            return;
        }
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        for request in session.requests.clone() {
            let denial = json!({"type":"permission.response","session_id":id,"request_id":request,"approved":false});
            self.below.push(line_of(members(denial)));
        }
    }

    /// `session.history` ([journal.9]).
    pub(crate) fn history(&self, hub: u64, message: &Message) {
        let id = text(message, "session_id");
        let mut result =
            json!({"type":"session.history.result","request_id":message.get("request_id")});
        let Some(session) = self.sessions.get(id) else {
            result["error"] = "the journal has no session of this id".into();
            return self.tell(hub, id, result);
        };
        let from = number(message, "from").unwrap_or(1).max(1);
        let to = number(message, "to")
            .unwrap_or(u64::MAX)
            .min(session.last());
        let mut entries = Vec::new();
        let mut bytes = 0;
        for seq in from..=to {
            let line = usize::try_from(seq - 1)
                .ok()
                .and_then(|at| session.lines.get(at));
            let Some(line) = line else { break };
            bytes += line.len();
            if bytes > RESULT && !entries.is_empty() && !broken(HistoryUnbounded) {
                result["next"] = seq.into();
                break;
            }
            entries.push(serde_json::from_slice::<Value>(line).unwrap_or_default());
        }
        result["entries"] = entries.into();
        self.tell(hub, id, result);
    }

    /// Writes to each hub what it has not got, as far as it reads.
    pub(crate) fn pump(&mut self) {
        for (number, hub) in &mut self.hubs {
            let Hub { out, listens } = hub;
            for (id, listener) in listens {
                let Some(session) = self.sessions.get(id) else {
                    continue;
                };
                while listener.next <= session.last() {
                    if broken(SlowDelaysAll) {
                        while out.bytes() >= AHEAD && !out.is_broken() {
                            sleep(1);
                        }
                    }
                    if out.bytes() >= AHEAD {
                        listener.waited = true;
                        break;
                    }
                    if std::mem::take(&mut listener.waited) && listener.skips {
                        let from = listener.next;
                        let to = session.last();
                        let lag = json!({"type":"lag","session_id":id,"from":from,"to":to});
                        if !broken(LagUntold) {
                            out.push(line_of(members(lag)));
                        }
                        listener.next = to + 1;
                        break;
                    }
                    let Some(line) = usize::try_from(listener.next - 1)
                        .ok()
                        .and_then(|at| session.lines.get(at))
                    else {
                        break;
                    };
                    listener.next += 1;
                    if broken(ListenersDiffer) && *number > 0 && listener.next % 3 == 0 {
                        continue;
                    }
                    out.push(line.clone());
                    if let Some(before) = listener.before.filter(|before| *before < listener.next) {
                        listener.before = Some(before + 1);
                        out.push(line.clone());
                    }
                }
            }
        }
        if broken(EntriesToAll) {
            self.tell_strangers();
        }
    }

    /// Gives the newest entry to the hubs that did not ask for it.
    fn tell_strangers(&self) {
        for hub in self.hubs.values().filter(|hub| hub.listens.is_empty()) {
            for line in self
                .sessions
                .values()
                .filter_map(|session| session.lines.last())
            {
                hub.out.push(line.clone());
            }
        }
    }
}
