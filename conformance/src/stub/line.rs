//! Renders a message as a line, with the ids of its place filled in.

use serde_json::Value;

use super::action::Message;

/// The members that come first, in this order.
const HEAD: [&str; 3] = ["type", "session_id", "turn_id"];

/// The line without its LF. An absent `session_id` or `turn_id` is filled in; a member that is null
/// is left out.
pub(super) fn render(message: &Message, session_id: &str, turn_id: Option<&str>) -> String {
    let mut members: Vec<(&str, Value)> = Vec::with_capacity(message.len() + 2);
    for key in HEAD {
        let filled = || match key {
            "session_id" => Some(session_id.into()),
            "turn_id" if takes_turn(message) => turn_id.map(Value::from),
            _ => None,
        };
        if let Some(value) = message.get(key).cloned().or_else(filled) {
            members.push((key, value));
        }
    }
    let rest = message.iter().filter(|(k, _)| !HEAD.contains(&k.as_str()));
    members.extend(rest.map(|(key, value)| (key.as_str(), value.clone())));
    let texts: Vec<String> = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| format!("{}:{value}", Value::from(key)))
        .collect();
    escape_separators(&format!("{{{}}}", texts.join(",")))
}

/// Returns the text as it is inside a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let quoted = escape_separators(&Value::from(text).to_string());
    quoted[1..quoted.len() - 1].to_owned()
}

/// A message of the whole session has no turn.
fn takes_turn(message: &Message) -> bool {
    let kind = message.get("type").and_then(Value::as_str).unwrap_or("");
    !kind.starts_with("session") && kind != "pong"
}

/// Writers escape the two separators that naive readers split at ([frame.2]).
fn escape_separators(json: &str) -> String {
    json.replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(message: &Value) -> String {
        render(message.as_object().unwrap(), "s", Some("t"))
    }

    #[test]
    fn absent_ids_are_filled_and_null_is_left_out() {
        assert_eq!(
            rendered(&json!({"type":"output","content":"a\u{2028}b"})),
            r#"{"type":"output","session_id":"s","turn_id":"t","content":"a\u2028b"}"#
        );
        assert_eq!(
            rendered(&json!({"type":"output","turn_id":null,"session_id":7})),
            r#"{"type":"output","session_id":7}"#
        );
        assert_eq!(
            rendered(&json!({"type":"session.info"})),
            r#"{"type":"session.info","session_id":"s"}"#
        );
    }
}
