//! Texts for the hub's page of messages that it has no frames for.

use serde_json::json;
use trunkline_client::ClientError;
use trunkline_protocol::{
    Category, ClosedReason, Delivered, Failure, Plan, PlanStatus, Status, ToolEnd, ToolStart,
    TurnComplete,
};

/// The longest input or result of a tool that is shown, in bytes.
const MAX_TOOL_BYTES: usize = 64 * 1024;

/// A call of a tool, as the channel `tool` has it.
pub(crate) fn tool_start(start: &ToolStart) -> String {
    let input = match &start.input {
        None => json!({}),
        Some(input) if input.get().len() > MAX_TOOL_BYTES => {
            json!({ "truncated": cut(input.get(), MAX_TOOL_BYTES) })
        }
        Some(input) => input.to().unwrap_or_default(),
    };
    json!({ "type": "tool_use", "id": start.tool_call_id, "name": start.tool, "input": input })
        .to_string()
}

/// The end of a call.
pub(crate) fn tool_end(end: &ToolEnd) -> String {
    let mut content = cut(end.content.as_deref().unwrap_or_default(), MAX_TOOL_BYTES);
    if content.is_empty() {
        let changed = end
            .diffs
            .iter()
            .flatten()
            .map(|diff| format!("changed {}", diff.path));
        content = cut(&changed.collect::<Vec<_>>().join("\n"), MAX_TOOL_BYTES);
    }
    json!({
        "type": "tool_result",
        "tool_use_id": end.tool_call_id,
        "content": content,
        "is_error": end.is_error.unwrap_or(false),
    })
    .to_string()
}

/// A plan, whole each time.
pub(crate) fn plan(plan: &Plan) -> String {
    let lines = plan.entries.iter().map(|entry| {
        let mark = match entry.status {
            Some(PlanStatus::Completed) => "✓",
            Some(PlanStatus::InProgress) => "→",
            Some(PlanStatus::Pending) | None => "○",
        };
        format!("{mark} {}", entry.content)
    });
    cut(&lines.collect::<Vec<_>>().join("\n"), MAX_TOOL_BYTES)
}

/// Returns the reason why a turn did not end well. `None` if it did, or if a person stopped it.
pub(crate) fn end(complete: &TurnComplete) -> Option<String> {
    let what = match complete.status_or_completed() {
        Status::Completed => return None,
        Status::Stopped => match complete.stop_reason.as_deref() {
            None | Some("user") => return None,
            Some(_) => "the turn was stopped",
        },
        Status::Failed => "the turn failed",
        Status::Refused => "the turn was refused",
        Status::Limit => "a limit was reached",
    };
    let why = complete
        .error
        .as_ref()
        .and_then(why)
        .or_else(|| complete.stop_reason.clone());
    Some(why.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}")))
}

/// Returns true if a turn did not begin since the host has no room for its session.
pub(crate) fn is_full(complete: &TurnComplete) -> bool {
    complete.status == Some(Status::Limit)
        && complete.delivered == Some(Delivered::No)
        && complete.error.as_ref().and_then(|error| error.category) == Some(Category::Busy)
}

/// The exit code of a turn: the hub's page marks all but 0.
pub(crate) fn exit_code(complete: &TurnComplete) -> i32 {
    match (complete.status_or_completed(), end(complete)) {
        (Status::Completed, _) | (Status::Stopped, None) => 0,
        _ => complete.exit_code.filter(|code| *code != 0).unwrap_or(1),
    }
}

/// The reason why a session has ended.
pub(crate) fn closed(reason: Option<ClosedReason>, failure: Option<&Failure>) -> String {
    failure.and_then(why).unwrap_or_else(|| {
        let reason = reason.map_or("", |reason| reason.as_str());
        let text = format!("the session has ended {reason}");
        text.trim_end().to_owned()
    })
}

/// The reason why a call failed, or why a session has ended without a `session.closed`.
pub(crate) fn cause(cause: ClientError) -> String {
    match cause {
        ClientError::SessionClosed { reason, failure } => closed(reason, failure.as_deref()),
        ClientError::SessionRefused { message, .. } if !message.is_empty() => message,
        ClientError::RequestFailed(message) => message,
        ClientError::ConnectionLost(_) => "the host has ended".to_owned(),
        cause => cause.to_string(),
    }
}

fn why(failure: &Failure) -> Option<String> {
    let text = failure.message.clone().filter(|text| !text.is_empty());
    let text = text.or_else(|| {
        failure
            .category
            .map(|category| category.as_str().to_owned())
    })?;
    Some(match &failure.retry_at {
        Some(time) => format!("{text} (again at {time})"),
        None => text,
    })
}

/// Returns the addition of a prompt profile of the hub to the agent's instructions. `None` for the
/// usual profile.
pub(crate) fn instructions(profile: Option<&str>) -> Option<&'static str> {
    match profile? {
        "deep_debug" => Some(
            "Look for the cause before you change anything: reproduce the failure, name your hypotheses, and test each.",
        ),
        "careful" => Some(
            "Work carefully: make small changes, check each, and ask before you do what cannot be undone.",
        ),
        "fast" => Some("Work fast: take the direct way, and answer briefly."),
        _ => None,
    }
}

/// Cuts a text to this many bytes, with a note about the missing part.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(most)];
    format!("{kept}\n… ({} more bytes)", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use trunkline_protocol::{Category, Json, ToolCallId};

    use super::*;

    #[test]
    fn an_end_has_a_code_and_a_text_where_it_did_not_go_well() {
        let of = |status, reason: Option<&str>, code| {
            let complete = TurnComplete {
                status: Some(status),
                stop_reason: reason.map(str::to_owned),
                exit_code: code,
                error: (status == Status::Failed)
                    .then(|| Failure::new(Category::RateLimit, "asked too often")),
                ..TurnComplete::default()
            };
            (exit_code(&complete), end(&complete))
        };
        assert_eq!(of(Status::Completed, None, Some(3)), (0, None));
        assert_eq!(of(Status::Stopped, Some("user"), None), (0, None));
        let shut = "the turn was stopped: shutdown".to_owned();
        assert_eq!(of(Status::Stopped, Some("shutdown"), None), (1, Some(shut)));
        let failed = "the turn failed: asked too often".to_owned();
        assert_eq!(of(Status::Failed, None, Some(0)), (1, Some(failed.clone())));
        assert_eq!(of(Status::Failed, None, Some(7)), (7, Some(failed)));
        assert_eq!(
            of(Status::Limit, None, None),
            (1, Some("a limit was reached".to_owned()))
        );
    }

    #[test]
    fn what_a_tool_takes_and_gives_is_bounded_and_stays_json() {
        let id = ToolCallId::new("c").unwrap();
        let large = "ä".repeat(MAX_TOOL_BYTES);
        let start = ToolStart {
            input: Json::from_serialize(&json!({ "text": large })).ok(),
            ..ToolStart::new(id.clone(), "Read")
        };
        let end = ToolEnd {
            content: Some(large),
            is_error: Some(true),
            ..ToolEnd::new(id)
        };
        for text in [tool_start(&start), tool_end(&end)] {
            assert!(text.len() < 2 * MAX_TOOL_BYTES, "{}", text.len());
            let _: Value = serde_json::from_str(&text).unwrap();
        }
        let small = ToolStart {
            input: Json::from_serialize(&json!({ "a": 1 })).ok(),
            ..start
        };
        assert_eq!(
            tool_start(&small),
            r#"{"type":"tool_use","id":"c","name":"Read","input":{"a":1}}"#
        );
    }
}
