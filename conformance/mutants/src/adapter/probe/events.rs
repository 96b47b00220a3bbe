//! `event` and `info`: rich messages, folded down to what was agreed on ([ext.3]).

use serde_json::Value;

use crate::{
    message::{Members, Message},
    negotiation::Extension as E,
    session::{Over, Turn},
    switches::{Mutant::*, broken},
};

/// What a required member is.
#[derive(Debug, Clone, Copy)]
enum Is {
    Text,
    Id,
    List,
}

/// An event: its type, its extension, what it must have.
type Kind = (&'static str, E, &'static [(&'static str, Is)]);

const KINDS: [Kind; 16] = [
    ("thinking", E::Events, &[("content", Is::Text)]),
    (
        "message",
        E::Events,
        &[("role", Is::Text), ("content", Is::Text)],
    ),
    (
        "tool.start",
        E::Events,
        &[("tool_call_id", Is::Id), ("tool", Is::Text)],
    ),
    ("tool.update", E::Events, &[("tool_call_id", Is::Id)]),
    ("tool.end", E::Events, &[("tool_call_id", Is::Id)]),
    ("plan", E::Events, &[("entries", Is::List)]),
    ("progress", E::Events, &[("message", Is::Text)]),
    ("log", E::Events, &[("content", Is::Text)]),
    ("error", E::Events, &[("message", Is::Text)]),
    ("custom", E::Events, &[("name", Is::Text)]),
    ("usage", E::Usage, &[]),
    ("context.usage", E::Usage, &[]),
    ("compaction", E::Usage, &[]),
    ("rate_limit", E::Usage, &[]),
    ("working", E::Control, &[]),
    ("permission.cancel", E::Control, &[("request_id", Is::Id)]),
];

/// Members that `events` adds to `output`.
const OF_EVENTS: [&str; 3] = ["message_id", "parent_tool_call_id", "history"];

/// Sends an event, given as a message without its session. What is none is left out.
pub(super) fn send(turn: &Turn, mut members: Members) -> Result<(), Over> {
    let Some(Value::String(kind)) = members.remove("type") else {
        return Ok(());
    };
    members.retain(|name, value| {
        !["session_id", "turn_id"].contains(&name.as_str()) && !value.is_null()
    });
    if kind == "output" {
        return output(turn, members);
    }
    let Some((kind, extension, required)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
        return Ok(());
    };
    if !required
        .iter()
        .all(|(name, is)| members.get(*name).is_some_and(|value| fits(value, *is)))
    {
        return Ok(());
    }
    if !turn.has(*extension) && !broken(EventsToCore) {
        return match members.get("message").and_then(Value::as_str) {
            Some(text) if *kind == "error" => turn.emit(Message::system(text)),
            _ => Ok(()),
        };
    }
    if broken(ZeroLeftOut) {
        members.retain(|_, value| value.as_f64() != Some(0.0));
    }
    let text = |name: &str| {
        members
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if *kind == "permission.cancel" {
        turn.withdraw(&text("request_id"), "policy");
        return Ok(());
    }
    let outside = members.get("history") == Some(&Value::Bool(true));
    if outside {
        return turn.emit_outside(Message::of(kind, members));
    }
    if kind.starts_with("tool.") && !turn.note_tool(kind, &text("tool_call_id")) {
        return Ok(());
    }
    turn.emit(Message::of(kind, members))
}

fn output(turn: &Turn, mut members: Members) -> Result<(), Over> {
    let with_events = turn.has(E::Events);
    members.retain(|name, value| match name.as_str() {
        "content" | "channel" => value.is_string(),
        other => with_events && OF_EVENTS.contains(&other),
    });
    if !members.contains_key("content") {
        return Ok(());
    }
    match members.get("history") == Some(&Value::Bool(true)) {
        true => turn.emit_outside(Message::of("output", members)),
        false => turn.emit(Message::of("output", members)),
    }
}

/// Fields of `session.info`, by their extension; those of the first two need none.
const INFO: [(&str, Option<E>); 16] = [
    ("adapter", None),
    ("capabilities", None),
    ("input_modes", Some(E::Turns)),
    ("native_session_id", Some(E::Resume)),
    ("display_id", Some(E::Resume)),
    ("context", Some(E::Resume)),
    ("options_applied", Some(E::Options)),
    ("model", Some(E::Options)),
    ("reasoning_effort", Some(E::Options)),
    ("mode", Some(E::Options)),
    ("permission_mode", Some(E::Options)),
    ("allowed_tools", Some(E::Options)),
    ("denied_tools", Some(E::Options)),
    ("models", Some(E::Options)),
    ("modes", Some(E::Options)),
    ("commands", Some(E::Options)),
];

/// Sends a `session.info`; to a host without extensions there is none.
pub(super) fn info(turn: &Turn, mut members: Members) -> Result<(), Over> {
    if turn.session.agreed.names().is_empty() {
        return Ok(());
    }
    members.retain(|name, _| {
        let known = INFO.iter().find(|(known, _)| known == name);
        known.is_some_and(|(_, extension)| extension.is_none_or(|extension| turn.has(extension)))
    });
    turn.emit_outside(Message::of("session.info", members))
}

fn fits(value: &Value, is: Is) -> bool {
    match is {
        Is::Text => value.is_string(),
        Is::Id => value
            .as_str()
            .is_some_and(|id| !id.is_empty() && id.len() <= 256),
        Is::List => value.is_array(),
    }
}
