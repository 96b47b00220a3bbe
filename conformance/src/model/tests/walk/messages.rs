//! Messages that carry what their type requires, and no more.

use serde_json::Value;
use trunkline_protocol::{AdapterKind, HostKind};

use crate::model::Message;

pub(super) fn message(kind: &str, session: &str) -> Message {
    let mut message = Message::new();
    put(&mut message, "type", kind);
    put(&mut message, "session_id", session);
    message
}

pub(super) fn put(message: &mut Message, key: &str, value: &str) {
    message.insert(key.to_owned(), value.into());
}

/// Fills in the members that the type requires, as far as they are constant.
pub(super) fn fill(message: &mut Message, kind: HostKind) {
    match kind {
        HostKind::UserInput => put(message, "content", "x"),
        HostKind::FileInput => fill_file(message),
        HostKind::PermissionResponse | HostKind::InputResponse => {
            put(message, "request_id", "r-0");
            message.insert("approved".to_owned(), false.into());
        }
        _ => {}
    }
}

fn fill_file(message: &mut Message) {
    put(message, "file_name", "a");
    put(message, "file_mime_type", "text/plain");
    put(message, "file_path", "/a");
}

pub(super) fn fill_adapter(message: &mut Message, kind: AdapterKind) {
    let strings: &[&str] = match kind {
        AdapterKind::Output | AdapterKind::Thinking | AdapterKind::Log => &["content"],
        AdapterKind::Message => &["role", "content"],
        AdapterKind::PermissionRequest => &["request_id", "tool", "description", "resource"],
        AdapterKind::InputRequest => &["request_id", "prompt"],
        AdapterKind::PermissionCancel => &["request_id"],
        AdapterKind::ToolStart => &["tool_call_id", "tool"],
        AdapterKind::ToolUpdate | AdapterKind::ToolEnd => &["tool_call_id"],
        AdapterKind::Progress | AdapterKind::Error => &["message"],
        AdapterKind::Custom => &["name"],
        AdapterKind::FileOutput => return fill_file(message),
        AdapterKind::Plan => {
            message.insert("entries".to_owned(), Vec::<Value>::new().into());
            return;
        }
        AdapterKind::SteerResult => {
            put(message, "message_id", "m");
            message.insert("delivered".to_owned(), false.into());
            return;
        }
        _ => &[],
    };
    for name in strings {
        put(message, name, "x");
    }
}

pub(super) fn brief(message: &Message) -> String {
    let mut text = String::new();
    for key in ["session_id", "type", "turn_id", "request_id"] {
        if let Some(Value::String(value)) = message.get(key) {
            text.push_str(value);
            text.push(' ');
        }
    }
    text
}
