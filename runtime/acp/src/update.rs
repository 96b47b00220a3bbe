//! Messages of an agent as `session/update`. Pure functions.

use serde_json::{Value, json};
use trunkline_protocol::{Compaction, Diff, Json, PlanEntry, ToolEnd, ToolStart};

/// The bytes that are kept of a running tool's output: its end.
pub(crate) const TAIL: usize = 8 * 1024;

/// Parses a value. `None` for one that is nested too deeply.
pub(crate) fn value(json: &Json) -> Option<Value> {
    json.to().ok()
}

/// A piece of text: of the user, the agent, or its thoughts.
pub(crate) fn chunk(kind: &str, text: &str, message: Option<&str>) -> Value {
    block(kind, &json!({ "type": "text", "text": text }), message)
}

/// A piece of any content.
pub(crate) fn block(kind: &str, content: &Value, message: Option<&str>) -> Value {
    let mut update = json!({ "sessionUpdate": kind, "content": content });
    if let Some(message) = message {
        update["messageId"] = json!(message);
    }
    update
}

/// Text as the content of a tool call.
pub(crate) fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Diffs as the content of a tool call. A patch is text, since ACP has no form for it.
pub(crate) fn diffs(diffs: Option<&[Diff]>) -> impl Iterator<Item = Value> {
    diffs
        .unwrap_or_default()
        .iter()
        .map(|diff| match (&diff.new_text, &diff.patch) {
            (None, Some(patch)) => text_content(&format!("```diff\n{}\n```", patch.trim_end())),
            (new, _) => {
                let new = new.as_deref().unwrap_or_default();
                let mut content = json!({ "type": "diff", "path": diff.path, "newText": new });
                if let Some(old) = &diff.old_text {
                    content["oldText"] = json!(old);
                }
                content
            }
        })
}

/// The kind of a tool, by the word for it or by its name.
pub(crate) fn tool_kind(word: &str) -> &'static str {
    const KINDS: [(&str, &[&str]); 9] = [
        ("read", &["read", "view", "cat"]),
        ("edit", &["edit", "write", "patch", "create", "apply"]),
        ("delete", &["delete", "remove"]),
        ("move", &["move", "rename"]),
        ("search", &["search", "grep", "glob", "find", "list"]),
        (
            "execute",
            &[
                "execute", "bash", "shell", "command", "exec", "terminal", "run",
            ],
        ),
        ("think", &["think", "task", "agent", "todo"]),
        ("fetch", &["fetch", "web", "http"]),
        ("switch_mode", &["switch_mode"]),
    ];
    let word = word.to_ascii_lowercase();
    let exact = KINDS.iter().find(|(kind, _)| *kind == word);
    let found = exact.or_else(|| {
        KINDS
            .iter()
            .find(|(_, words)| words.iter().any(|known| word.contains(known)))
    });
    found.map_or("other", |(kind, _)| kind)
}

/// The begin of a tool call.
pub(crate) fn tool_start(start: &ToolStart) -> Value {
    let kind = start
        .kind
        .as_deref()
        .map(tool_kind)
        .filter(|kind| *kind != "other");
    let mut update = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": start.tool_call_id.as_str(),
        "title": start.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&start.tool),
        "name": start.tool,
        "kind": kind.unwrap_or_else(|| tool_kind(&start.tool)),
        "status": "in_progress",
    });
    if let Some(input) = start.input.as_ref().and_then(value) {
        update["rawInput"] = input;
    }
    if let Some(locations) = locations(start.locations.as_ref()) {
        update["locations"] = locations;
    }
    update
}

/// The places of a tool call, without those that name no file. `None` if there are none.
pub(crate) fn locations(places: Option<&Json>) -> Option<Value> {
    let places = places.and_then(value)?;
    let locations: Vec<_> = places.as_array()?.iter().filter_map(location).collect();
    (!locations.is_empty()).then(|| locations.into())
}

/// A place in a file: a path, or an object with one.
fn location(place: &Value) -> Option<Value> {
    let path = place.as_str().or_else(|| place["path"].as_str())?;
    let mut location = json!({ "path": path });
    if let Some(line) = place["line"]
        .as_u64()
        .and_then(|line| u32::try_from(line).ok())
    {
        location["line"] = json!(line);
    }
    Some(location)
}

/// An update of a tool call, without members yet.
pub(crate) fn tool_update(id: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id })
}

/// The end of a tool call.
pub(crate) fn tool_end(end: &ToolEnd, printed: &str) -> Value {
    let mut update = tool_update(end.tool_call_id.as_str());
    update["status"] = json!(if end.is_error == Some(true) {
        "failed"
    } else {
        "completed"
    });
    let text = end.content.as_deref().unwrap_or(printed);
    let mut content: Vec<_> = diffs(end.diffs.as_deref()).collect();
    if !text.is_empty() {
        content.push(text_content(text));
    }
    if !content.is_empty() {
        update["content"] = json!(content);
    }
    if let Some(data) = end.data.as_ref().and_then(value) {
        update["rawOutput"] = data;
    }
    update
}

/// A compaction that is complete, from the journal's entry `seq`. Without an id of its own it is
/// named by that entry.
pub(crate) fn compaction(compaction: &Compaction, seq: u64) -> Value {
    let id = compaction.id.clone();
    let id = id.unwrap_or_else(|| format!("compaction-{seq}"));
    let mut update =
        json!({ "sessionUpdate": "compaction_update", "compactionId": id, "status": "completed" });
    if let Some(summary) = &compaction.summary {
        update["summary"] = json!([{ "type": "text", "text": summary }]);
    }
    update
}

/// A plan, whole.
pub(crate) fn plan(entries: &[PlanEntry]) -> Value {
    let entry = |entry: &PlanEntry| {
        let priority = entry.priority.as_deref().map(str::to_ascii_lowercase);
        let priority = match priority.as_deref() {
            Some("high") => "high",
            Some("low") => "low",
            _ => "medium",
        };
        let status = entry
            .status
            .map_or_else(|| json!("pending"), |status| json!(status));
        json!({ "content": entry.content, "priority": priority, "status": status })
    };
    json!({ "sessionUpdate": "plan", "entries": entries.iter().map(entry).collect::<Vec<_>>() })
}

/// Adds to a tool's output, and keeps its end.
pub(crate) fn add_to_tail(tail: &mut String, text: &str) {
    tail.push_str(text);
    if tail.len() > TAIL {
        let from = tail.ceil_char_boundary(tail.len() - TAIL);
        tail.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_what_a_tool_prints_is_bounded() {
        let mut tail = String::new();
        for at in 0..10_000 {
            add_to_tail(&mut tail, &format!("é{at}"));
            assert!(tail.len() <= TAIL);
        }
        assert!(tail.ends_with("é9999") && tail.len() > TAIL - 8);
    }

    #[test]
    fn kinds_are_known_by_word_and_by_name() {
        for (word, kind) in [
            ("edit", "edit"),
            ("Bash", "execute"),
            ("WebFetch", "fetch"),
            ("Grep", "search"),
            ("switch_mode", "switch_mode"),
            ("", "other"),
            ("ponder", "other"),
        ] {
            assert_eq!(tool_kind(word), kind, "{word}");
        }
    }
}
