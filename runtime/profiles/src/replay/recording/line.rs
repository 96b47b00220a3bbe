//! The lines of a recording, in each form in which messages are recorded.

use serde_json::{Map, Value, json};

/// Session of recordings that name none: those with one turn.
const UNNAMED: &str = "run";

/// Sender of a line.
pub(super) enum Side {
    Host,
    Adapter,
}

/// Reads a line in any of the forms: seconds, the sender, and the message.
pub(super) fn record(line: &[u8]) -> Option<(Option<f64>, Side, Map<String, Value>)> {
    let Value::Object(mut line) = serde_json::from_slice(line).ok()? else {
        return None;
    };
    let at = line.get("t").and_then(Value::as_f64);
    for (member, side) in [("in", Side::Host), ("out", Side::Adapter)] {
        if at.is_some()
            && let Some(said) = line.remove(member)
        {
            return Some((at, side, object(said)?));
        }
    }
    if let Some(event) = line.get("ev").and_then(Value::as_str) {
        let side = match event {
            "host" => Side::Host,
            "adapter" => Side::Adapter,
            _ => return None,
        };
        let said = line.remove("line")?;
        return Some((at.map(|nanos| nanos / 1e9), side, object(said)?));
    }
    let kind = line.get("type")?.as_str()?.to_owned();
    if !line.contains_key("session_id") {
        return Some((None, side_of(&kind), shown(line, &kind)));
    }
    Some((None, side_of(&kind), line))
}

fn object(said: Value) -> Option<Map<String, Value>> {
    match said {
        Value::Object(message) => Some(message),
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

fn side_of(kind: &str) -> Side {
    match trunkline_sdk::protocol::HostKind::named(kind) {
        Some(_) => Side::Host,
        None => Side::Adapter,
    }
}

/// The message that an event of `trunkline run --json` shows.
fn shown(mut event: Map<String, Value>, kind: &str) -> Map<String, Value> {
    event.insert("session_id".to_owned(), json!(UNNAMED));
    if let Some(turn) = event.remove("turn") {
        event.insert("turn_id".to_owned(), json!(turn.to_string()));
    }
    if kind == "end" {
        event.insert("type".to_owned(), json!("turn.complete"));
        let exit = event.remove("exit").unwrap_or_default();
        for (name, from) in [("exit_code", "code"), ("signal", "signal")] {
            if !exit[from].is_null() {
                event.insert(name.to_owned(), exit[from].clone());
            }
        }
    }
    event
}
