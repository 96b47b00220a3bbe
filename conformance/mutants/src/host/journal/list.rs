//! The sessions of the journal, found and listed page by page ([journal.12]).

use serde_json::{Value, json};

use super::session::JournalSession;
use super::{Journal, Message, number, optional, text};
use crate::switches::{Mutant::*, broken};

/// The most sessions of an answer.
const PAGE: usize = 100;
/// Up to the second, a time by RFC 3339 has so many characters.
const TO_THE_SECOND: usize = 19;

impl Journal {
    /// `sessions.list`.
    pub(crate) fn list(&mut self, hub: u64, message: &Message) {
        let result = self.page(message);
        if broken(ListOpens) {
            let ids: Vec<String> = self.sessions.keys().cloned().collect();
            ids.iter().for_each(|id| self.wake(id));
        }
        self.tell(hub, "", result);
    }

    fn page(&self, message: &Message) -> Value {
        let mut result = json!({"type":"sessions.list.result","session_id":"","request_id":message.get("request_id")});
        let mut after = optional(message, "cursor").map(str::to_owned);
        let is_place = |cursor: &str| {
            cursor
                .split_once('/')
                .is_some_and(|(second, _)| second.len() == TO_THE_SECOND)
        };
        if after.as_deref().is_some_and(|cursor| !is_place(cursor)) {
            if !broken(ListCursorAnew) {
                result["error"] = "the cursor is no `next` of an answer".into();
                return result;
            }
            after = None;
        }
        let mut rows: Vec<(String, &JournalSession, Value)> =
            self.sessions.values().map(row).collect();
        rows.sort_by(|one, other| other.0.cmp(&one.0));
        if let Some(after) = after {
            // What broken hosts begin with: the last of the page before, or the second one behind it.
            let again = broken(ListDoubles);
            let lost = usize::from(broken(ListLoses));
            rows.retain(|row| row.0 < after || again && row.0 == after);
            rows.drain(..lost.min(rows.len()));
        }
        rows.retain(|(_, session, row)| fits(message, session, row));
        let limit = number(message, "limit").filter(|_| !broken(ListUnlimited));
        let limit = limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(PAGE)
            .min(PAGE);
        if rows.len() > limit {
            rows.truncate(limit);
            result["next"] = rows.last().map(|row| row.0.as_str()).into();
        }
        result["sessions"] = rows.into_iter().map(|(_, _, row)| row).collect();
        result
    }
}

/// Returns a session's place in the list, and its row.
fn row(session: &JournalSession) -> (String, &JournalSession, Value) {
    let time = |line: Option<&Vec<u8>>| {
        let entry = line
            .and_then(|line| serde_json::from_slice::<Message>(line).ok())
            .unwrap_or_default();
        text(&entry, "time").to_owned()
    };
    let created = time(session.lines.first());
    let active = time(session.lines.last());
    let place = format!("{:.TO_THE_SECOND$}/{}", active, session.id);
    let bytes: usize = session.lines.iter().map(Vec::len).sum();
    let mut row = json!({
        "session_id":session.id,"agent_id":"first","state":session.state(),"created":created,"active":active,
        "entries":session.last(),"bytes":bytes,"open_turns":session.turns.len(),"open_requests":session.requests.len()
    });
    if let Some(cwd) = session.start.get("cwd") {
        row["cwd"] = cwd.clone();
    }
    if !session.title.is_empty() {
        row["title"] = session.title.as_str().into();
    }
    if session.is_archived {
        row["archived"] = true.into();
    }
    (place, session, row)
}

/// Returns true if a session matches the request.
fn fits(message: &Message, session: &JournalSession, row: &Value) -> bool {
    let skipped = |member: &str| match member {
        "id" => broken(ListIdIgnored),
        "agent_id" => broken(ListAgentIgnored),
        "state" => broken(ListStateIgnored),
        _ => false,
    };
    let same = |(member, shown): (&str, &str)| {
        message
            .get(member)
            .is_none_or(|asked| *asked == row[shown] || skipped(member))
    };
    let members = [
        ("id", "session_id"),
        ("agent_id", "agent_id"),
        ("cwd", "cwd"),
        ("state", "state"),
    ];
    let within = |asked: &str| {
        [&session.id, &session.title].into_iter().any(|text| {
            if broken(ListTextExact) {
                text.contains(asked)
            } else {
                text.to_lowercase().contains(&asked.to_lowercase())
            }
        })
    };
    let archived = message.get("archived").and_then(Value::as_bool);
    members.into_iter().all(same)
        && (message.contains_key("id") || session.is_archived == archived.unwrap_or_default())
        && optional(message, "text").is_none_or(within)
}
