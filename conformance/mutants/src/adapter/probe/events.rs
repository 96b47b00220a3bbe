//! `event` and `info`: rich messages, folded down to what was agreed on ([ext.3]).

use serde_json::Value;
use trunkline_conformance_mutants::json::text;

use crate::{
    message::{Members, Message},
    schema::{ExtensionSet as E, FieldType, INFO, Shape, UP},
    session::{AdapterTurn, TurnAbort},
    switches::{Mutant::*, broken},
};

/// Returns true for types of `events` and `usage`, and for those of `control` that an adapter may
/// send.
fn is_event(shape: &Shape) -> bool {
    [E::EVENTS, E::USAGE].contains(&shape.needs)
        || ["working", "permission.cancel"].contains(&shape.kind)
}

/// Members that `events` adds to `output`.
const OF_EVENTS: [&str; 3] = ["message_id", "parent_tool_call_id", "history"];

/// Sends an event, given as a message without its session. What is none is left out.
pub(super) fn send(turn: &AdapterTurn, mut members: Members) -> Result<(), TurnAbort> {
    let Some(Value::String(kind)) = members.remove("type") else {
        return Ok(());
    };
    members.retain(|name, value| {
        !["session_id", "turn_id"].contains(&name.as_str()) && !value.is_null()
    });
    if kind == "output" {
        return output(turn, members);
    }
    let Some(shape) = UP
        .iter()
        .find(|shape| shape.kind == kind && is_event(shape))
    else {
        return Ok(());
    };
    let kind = shape.kind;
    if !shape
        .fields()
        .filter(|field| field.2)
        .all(|(name, is, ..)| members.get(*name).is_some_and(|value| fits(value, *is)))
    {
        return Ok(());
    }
    if !turn.has(shape.needs) && !broken(EventsToCore) {
        return match members.get("message").and_then(Value::as_str) {
            Some(text) if kind == "error" => turn.emit(Message::system(text)),
            _ => Ok(()),
        };
    }
    if broken(ZeroLeftOut) {
        members.retain(|_, value| value.as_f64() != Some(0.0));
    }
    let text = |name: &str| text(&members, name).to_owned();
    if kind == "permission.cancel" {
        turn.withdraw(&text("request_id"), "policy");
        return Ok(());
    }
    let outside = members.get("history") == Some(&Value::Bool(true));
    if outside {
        return turn.emit_outside(Message::with_members(kind, members));
    }
    if kind.starts_with("tool.") && !turn.note_tool(kind, &text("tool_call_id")) {
        return Ok(());
    }
    turn.emit(Message::with_members(kind, members))
}

fn output(turn: &AdapterTurn, mut members: Members) -> Result<(), TurnAbort> {
    let with_events = turn.has(E::EVENTS);
    members.retain(|name, value| match name.as_str() {
        "content" | "channel" => value.is_string(),
        other => with_events && OF_EVENTS.contains(&other),
    });
    if !members.contains_key("content") {
        return Ok(());
    }
    if members.get("history") == Some(&Value::Bool(true)) {
        turn.emit_outside(Message::with_members("output", members))
    } else {
        turn.emit(Message::with_members("output", members))
    }
}

/// Sends a `session.info`; to a host without extensions there is none.
pub(super) fn info(turn: &AdapterTurn, mut members: Members) -> Result<(), TurnAbort> {
    if turn.session.agreed.names().is_empty() {
        return Ok(());
    }
    members.retain(|name, _| {
        let known = INFO.iter().find(|known| known.0 == name);
        known.is_some_and(|known| turn.has(known.3))
    });
    turn.emit_outside(Message::with_members("session.info", members))
}

fn fits(value: &Value, is: FieldType) -> bool {
    match is {
        FieldType::Id => value
            .as_str()
            .is_some_and(|id| !id.is_empty() && id.len() <= 256),
        FieldType::List(_) => value.is_array(),
        _ => value.is_string(),
    }
}
