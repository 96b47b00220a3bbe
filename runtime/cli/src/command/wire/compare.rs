//! Comparison of an adapter's logged and replayed messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::script::{JsonMessage, message_type, session_id, text_member};

/// Ids that an adapter creates: compared by their order.
pub(super) const OWN_IDS: [&str; 2] = ["request_id", "tool_call_id"];

/// Members that differ in each run.
const VOLATILE: [&str; 8] = [
    "message_id",
    "native_session_id",
    "session_params",
    "duration_ms",
    "expires_at",
    "time",
    "pid",
    "cost_usd",
];

/// Limit of shown differences per session.
const MAX_DIFFERENCES: usize = 3;

/// Differences: a line each, with the messages below it.
#[derive(Debug, Default)]
pub(super) struct MessageDifferences {
    pub(super) said: Vec<String>,
    /// Number of equal messages.
    pub(super) same: usize,
    pub(super) sessions: usize,
}

/// Compares messages by session, in order, with consecutive texts joined. If the log has no end,
/// later messages are not differences.
pub(super) fn compare_messages(
    then: &[JsonMessage],
    now: &[JsonMessage],
    has_end: bool,
) -> MessageDifferences {
    let then = by_session(then);
    let now = by_session(now);
    let mut differences = MessageDifferences::default();
    let sessions: std::collections::BTreeSet<_> = then.keys().chain(now.keys()).collect();
    differences.sessions = sessions.len();
    for id in sessions {
        let empty = Vec::new();
        let then = then.get(id).unwrap_or(&empty);
        let now = now.get(id).unwrap_or(&empty);
        let mut shown = 0;
        for at in 0..then.len().max(now.len()) {
            let what = match (then.get(at), now.get(at)) {
                (Some(then), Some(now)) if then == now => None,
                (Some(then), Some(now)) if !has_end && is_beginning(then, now) => None,
                (None, Some(_)) if !has_end => None,
                (Some(then), Some(now)) => Some(("differs", Some(then), Some(now))),
                (then, None) => Some(("is missing", then, None)),
                (None, now) => Some(("is additional", None, now)),
            };
            let Some((what, then, now)) = what else {
                differences.same += usize::from(at < then.len());
                continue;
            };
            shown += 1;
            if shown > MAX_DIFFERENCES {
                continue;
            }
            let whose = if id.is_empty() {
                "the pipe".to_owned()
            } else {
                format!("session {id}")
            };
            differences
                .said
                .push(format!("{whose}: message {} of the adapter {what}", at + 1));
            let lines = [("then", then), ("now ", now)].into_iter();
            differences.said.extend(
                lines.filter_map(|(when, message)| Some(format!("  {when}  {}", json!(message?)))),
            );
        }
        if shown > MAX_DIFFERENCES {
            differences.said.push(format!(
                "session {id}: {} more differences",
                shown - MAX_DIFFERENCES
            ));
        }
    }
    differences
}

/// Returns true if the last text of a log is the beginning of the replayed text.
fn is_beginning(then: &JsonMessage, now: &JsonMessage) -> bool {
    message_type(then) == "output"
        && message_type(now) == "output"
        && text_member(now, "content").starts_with(text_member(then, "content"))
}

/// Groups messages by session, without members that differ in each run.
fn by_session(messages: &[JsonMessage]) -> BTreeMap<String, Vec<JsonMessage>> {
    let mut sessions = BTreeMap::<String, Vec<JsonMessage>>::new();
    let mut ids = BTreeMap::<(String, &str), Vec<String>>::new();
    for message in messages
        .iter()
        .filter(|message| !matches!(message_type(message), "working" | "pong"))
    {
        let mut message = message.clone();
        let id = session_id(&message).to_owned();
        message.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        for own in OWN_IDS {
            if let Some(Value::String(text)) = message.get_mut(own) {
                let known = ids.entry((id.clone(), own)).or_default();
                let at = known
                    .iter()
                    .position(|known| known == text)
                    .unwrap_or_else(|| {
                        known.push(text.clone());
                        known.len() - 1
                    });
                *text = format!("#{}", at + 1);
            }
        }
        let messages = sessions.entry(id).or_default();
        match messages.last_mut() {
            Some(last) if is_continuation(last, &message) => {
                if let Some(Value::String(content)) = last.get_mut("content") {
                    content.push_str(text_member(&message, "content"));
                }
            }
            _ => messages.push(message),
        }
    }
    sessions
}

/// Returns true if both are outputs that differ only in their text.
fn is_continuation(one: &JsonMessage, other: &JsonMessage) -> bool {
    let rest = |message: &JsonMessage| {
        let mut rest = message.clone();
        rest.remove("content");
        rest
    };
    message_type(one) == "output"
        && one.get("content").is_some_and(Value::is_string)
        && rest(one) == rest(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(values: &[Value]) -> Vec<JsonMessage> {
        values
            .iter()
            .map(|value| value.as_object().unwrap().clone())
            .collect()
    }

    fn output(session: &str, text: &str) -> Value {
        json!({"type": "output", "session_id": session, "content": text})
    }

    #[test]
    fn how_texts_are_cut_how_sessions_interleave_and_which_ids_are_made_is_no_difference() {
        let ask = |id: &str| json!({"type": "permission.request", "session_id": "a", "request_id": id, "tool": "ls"});
        let then = messages(&[
            output("a", "hel"),
            output("a", "lo"),
            output("b", "x"),
            ask("r-1"),
            ask("r-2"),
        ]);
        let now = messages(&[
            output("b", "x"),
            output("a", "hello"),
            ask("other"),
            ask("another"),
        ]);
        let same = compare_messages(&then, &now, true);
        assert_eq!((same.said, same.same, same.sessions), (Vec::new(), 4, 2));
    }

    #[test]
    fn what_differs_is_missing_or_is_more_is_reported() {
        let end = json!({"type": "turn.complete", "session_id": "a"});
        let then = messages(&[output("a", "one"), end.clone()]);
        let said = |now: &[Value]| {
            compare_messages(&then, &messages(now), true)
                .said
                .join("\n")
        };
        assert!(
            said(&[output("a", "two"), end.clone()])
                .starts_with("session a: message 1 of the adapter differs\n")
        );
        assert!(
            said(&[output("a", "one")]).contains("message 2 of the adapter is missing\n  then")
        );
        assert!(
            said(&[output("a", "one"), end.clone(), end.clone()])
                .contains("message 3 of the adapter is additional")
        );
    }

    #[test]
    fn what_comes_behind_the_end_of_a_log_that_was_cut_is_no_difference() {
        let then = messages(&[output("a", "one a")]);
        let now = messages(&[
            output("a", "one and two"),
            json!({"type": "turn.complete", "session_id": "a"}),
        ]);
        assert!(compare_messages(&then, &now, false).said.is_empty());
        assert!(!compare_messages(&then, &now, true).said.is_empty());
    }
}
