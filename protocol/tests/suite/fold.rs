//! The fold-down: only what was agreed on, and nothing lost that the user needs.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trunkline_protocol::{
    AdapterBody, AdapterKind, AdapterMessage, Channel, Extensions, Folded, Status, ToolsAsOutput,
    fold,
};

use crate::examples::{EXAMPLES, Way, message};

/// The core's own members, by type. All others belong to an extension.
const CORE: [(AdapterKind, &[&str]); 4] = [
    (AdapterKind::Output, &["content", "channel"]),
    (AdapterKind::TurnComplete, &[]),
    (
        AdapterKind::FileOutput,
        &["file_name", "file_mime_type", "file_path"],
    ),
    (
        AdapterKind::PermissionRequest,
        &["request_id", "tool", "description", "resource"],
    ),
];

/// The extensions that allow a member on a message, any of which is enough.
fn allowed_by(kind: AdapterKind, member: &str) -> Extensions {
    type E = Extensions;
    let core = CORE
        .iter()
        .any(|(core, members)| *core == kind && members.contains(&member));
    let session = matches!(kind, AdapterKind::SessionReady | AdapterKind::SessionInfo);
    match member {
        "type" | "session_id" => E::empty(),
        _ if core => E::empty(),
        "turn_id" => E::TURNS,
        "_meta" => E::all(),
        "large" => E::LARGE,
        "native_session_id" | "display_id" | "context" if session => E::RESUME,
        "input_modes" if session => E::TURNS,
        "protocol" | "extensions" | "max_line" | "adapter" | "capabilities" if session => E::all(),
        _ if session => E::OPTIONS,
        "usage" if kind == AdapterKind::TurnComplete => E::USAGE,
        "native_session_id" | "session_params" | "clear_session"
            if kind == AdapterKind::TurnComplete =>
        {
            E::RESUME
        }
        _ if kind == AdapterKind::TurnComplete => E::TURNS,
        "message_id" | "parent_tool_call_id" | "history"
            if matches!(kind, AdapterKind::Output | AdapterKind::PermissionRequest) =>
        {
            E::EVENTS
        }
        _ if kind == AdapterKind::PermissionRequest => E::CONTROL,
        "size" | "sha256" if kind == AdapterKind::FileOutput => E::LARGE,
        _ => kind.extensions(),
    }
}

fn is_allowed(allowed_by: Extensions, agreed: Extensions) -> bool {
    allowed_by.is_empty() || allowed_by.intersects(agreed)
}

fn members(message: &AdapterMessage) -> Map<String, Value> {
    serde_json::from_slice(&message.to_line()).unwrap()
}

/// The text on this channel.
fn said<'a>(folded: &'a [AdapterMessage], channel: &Channel) -> Vec<&'a str> {
    let outputs = folded.iter().filter_map(|message| match &message.body {
        AdapterBody::Output(output) if output.channel() == channel => Some(&*output.content),
        _ => None,
    });
    outputs.collect()
}

/// Returns the text that the user must see, by channel, if its own form was not agreed on
/// ([ext.3]).
fn must_be_told(message: &AdapterMessage, agreed: Extensions) -> Option<(Channel, Option<&str>)> {
    let lacks = |extension| !agreed.contains(extension);
    match &message.body {
        AdapterBody::TurnComplete(end) if lacks(Extensions::TURNS) => {
            let text = end
                .error
                .as_ref()
                .and_then(|error| error.message.as_deref())
                .filter(|text| !text.is_empty());
            let failed = !matches!(
                end.status_or_completed(),
                Status::Completed | Status::Stopped
            );
            (failed || text.is_some()).then_some((Channel::System, text))
        }
        AdapterBody::Error(error) if lacks(Extensions::EVENTS) => {
            Some((Channel::System, Some(&error.message)))
        }
        AdapterBody::SessionClosed(closed) if lacks(Extensions::CONTROL) => Some((
            Channel::System,
            closed
                .error
                .as_ref()
                .and_then(|error| error.message.as_deref()),
        )),
        AdapterBody::InputRequest(question) if lacks(Extensions::QUESTIONS) => {
            Some((Channel::Question, Some(&question.prompt)))
        }
        AdapterBody::SessionInfo(info) if lacks(Extensions::RESUME) => lost(info.context),
        AdapterBody::SessionReady(ready) if lacks(Extensions::RESUME) => lost(ready.info.context),
        _ => None,
    }
}

fn lost(context: Option<trunkline_protocol::Context>) -> Option<(Channel, Option<&'static str>)> {
    (context == Some(trunkline_protocol::Context::Lost)).then_some((Channel::System, None))
}

/// Everything that holds of one message folded down to one set.
fn check(message: &AdapterMessage, agreed: Extensions, tools: ToolsAsOutput) {
    let at = format_args!("{message:?} for {agreed:?}");
    let folded: Vec<AdapterMessage> = fold(message.clone(), agreed, tools)
        .messages()
        .cloned()
        .collect();
    for written in &folded {
        let kind = written.body.kind();
        assert!(kind.is_agreed(agreed), "{kind:?} was not agreed on: {at}");
        assert_eq!(written.session_id, message.session_id);
        for name in members(written).keys() {
            assert!(
                is_allowed(allowed_by(kind, name), agreed),
                "{name} of {kind:?} was not agreed on: {at}"
            );
        }
        if agreed.is_empty() {
            assert!(
                CORE.iter().any(|(core, _)| *core == kind),
                "{kind:?} is not of the core: {at}"
            );
        }
    }

    // The same kind stays, with all that is allowed of it.
    let kind = message.body.kind();
    if let Some(same) = folded.iter().find(|written| written.body.kind() == kind) {
        for (name, value) in members(message) {
            if is_allowed(allowed_by(kind, &name), agreed) {
                assert_eq!(
                    members(same).get(&name),
                    Some(&value),
                    "{name} was lost: {at}"
                );
            }
        }
    }
    let ends = |messages: &[AdapterMessage]| {
        messages
            .iter()
            .filter(|message| message.body.kind() == AdapterKind::TurnComplete)
            .count()
    };
    assert_eq!(
        ends(&folded),
        ends(std::slice::from_ref(message)),
        "an end stays one end: {at}"
    );
    if let Some(last) = folded.last().filter(|_| kind == AdapterKind::TurnComplete) {
        assert_eq!(
            last.body.kind(),
            kind,
            "the text precedes the end ([turn.2]): {at}"
        );
    }
    if let Some(first) = folded
        .first()
        .filter(|_| kind == AdapterKind::SessionReady && !agreed.is_empty())
    {
        assert_eq!(
            first.body.kind(),
            kind,
            "session.ready stays the first ([ext.2]): {at}"
        );
    }

    if let Some((channel, text)) = must_be_told(message, agreed) {
        let told = said(&folded, &channel);
        assert_eq!(told.len(), 1, "it is said once: {at}");
        assert!(
            text.is_none_or(|text| told[0].contains(text)),
            "{told:?}: {at}"
        );
        assert!(
            text == Some("") || !told[0].is_empty(),
            "something is said: {at}"
        );
    } else if kind != AdapterKind::Output {
        assert_eq!(
            said(&folded, &Channel::System),
            [""; 0],
            "nothing is said twice: {at}"
        );
    }

    let again: Vec<AdapterMessage> = folded
        .iter()
        .flat_map(|written| {
            let folded = fold(written.clone(), agreed, tools);
            folded.messages().cloned().collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(again, folded, "folding twice is folding once: {at}");
}

fn all_sets() -> impl Iterator<Item = Extensions> {
    (0..=Extensions::all().bits()).map(Extensions::from_bits_retain)
}

fn golden() -> impl Iterator<Item = AdapterMessage> {
    let examples = EXAMPLES
        .iter()
        .filter(|example| example.way == Way::AdapterToHost);
    examples
        .flat_map(|example| [&example.minimal, &example.full])
        .map(|line| AdapterMessage::parse(line).unwrap())
}

/// A message of the adapter from some of its members.
fn adapter(mut members: Value, kind: &str) -> AdapterMessage {
    members["type"] = json!(kind);
    members["session_id"] = json!("s-1");
    AdapterMessage::parse(&members.to_string()).unwrap()
}

#[test]
fn every_type_is_folded_for_every_set() {
    for message in golden() {
        for agreed in all_sets() {
            for tools in [ToolsAsOutput::No, ToolsAsOutput::Yes] {
                check(&message, agreed, tools);
            }
        }
    }
}

#[test]
fn every_end_is_told_for_every_set() {
    let statuses = [
        None,
        Some("completed"),
        Some("stopped"),
        Some("failed"),
        Some("refused"),
        Some("limit"),
    ];
    let errors = [
        json!(null),
        json!({}),
        json!({"message": ""}),
        json!({"message": "why", "category": "auth"}),
        json!({"retry_at": "2026-03-01T12:00:00Z", "category": "rate_limit"}),
    ];
    for agreed in all_sets() {
        for error in &errors {
            for status in statuses {
                check(
                    &adapter(json!({"status": status, "error": error}), "turn.complete"),
                    agreed,
                    ToolsAsOutput::No,
                );
            }
            for reason in [
                None,
                Some("finished"),
                Some("failed"),
                Some("refused"),
                Some("unknown_agent"),
                Some("limit"),
                Some("protocol"),
                Some("shutdown"),
            ] {
                check(
                    &adapter(json!({"reason": reason, "error": error}), "session.closed"),
                    agreed,
                    ToolsAsOutput::No,
                );
            }
        }
        for context in [None, Some("kept"), Some("lost")] {
            for kind in ["session.info", "session.ready"] {
                for mode in [None, Some("code")] {
                    check(
                        &adapter(json!({"context": context, "mode": mode}), kind),
                        agreed,
                        ToolsAsOutput::No,
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_message_is_folded_for_any_set((way, line) in message(), bits in 0..=Extensions::all().bits(), tools in any::<bool>()) {
        prop_assume!(way == Way::AdapterToHost);
        let tools = if tools { ToolsAsOutput::Yes } else { ToolsAsOutput::No };
        check(&AdapterMessage::parse(&line).unwrap(), Extensions::from_bits_retain(bits), tools);
    }
}

#[test]
fn what_was_agreed_on_in_full_stays_as_it_is() {
    for message in golden() {
        assert_eq!(
            fold(message.clone(), Extensions::all(), ToolsAsOutput::No),
            Folded::One(message)
        );
    }
}

#[test]
fn a_failed_end_becomes_text_and_a_plain_end() {
    let end = adapter(
        json!({"turn_id": "t-1", "status": "failed", "error": {"message": "no quota", "retry_at": "2026-03-01T12:00:00Z"}}),
        "turn.complete",
    );
    let lines: Vec<Value> = fold(end, Extensions::empty(), ToolsAsOutput::No)
        .messages()
        .map(|message| Value::Object(members(message)))
        .collect();
    let text = "no quota (try again at 2026-03-01T12:00:00Z)";
    assert_eq!(
        lines,
        [
            json!({"type": "output", "session_id": "s-1", "content": text, "channel": "system"}),
            json!({"type": "turn.complete", "session_id": "s-1"}),
        ]
    );
}

#[test]
fn a_question_becomes_text_with_what_may_be_chosen() {
    let question = adapter(
        json!({"turn_id": "t-1", "request_id": "i-1", "prompt": "Where?", "fields": [
            {"id": "where", "label": "Cluster", "choices": [{"id": "eu", "label": "Europe"}, {"id": "us"}]},
            {"id": "note"},
        ]}),
        "input.request",
    );
    let folded: Vec<AdapterMessage> = fold(question, Extensions::TURNS, ToolsAsOutput::No)
        .messages()
        .cloned()
        .collect();
    assert_eq!(
        said(&folded, &Channel::Question),
        ["Where?\n- Cluster\n  - Europe\n  - us\n- note"]
    );
    assert_eq!(
        folded[0].turn_id.as_ref().map(|id| id.as_str()),
        Some("t-1"),
        "it stays a part of its turn"
    );
}

#[test]
fn tools_become_json_only_where_the_author_chose_it() {
    for message in golden() {
        let folded = |tools| {
            fold(message.clone(), Extensions::USAGE, tools)
                .messages()
                .cloned()
                .collect::<Vec<_>>()
        };
        let kind = message.body.kind();
        let of_tool = matches!(kind, AdapterKind::ToolStart | AdapterKind::ToolEnd);
        assert!(said(&folded(ToolsAsOutput::No), &Channel::Tool).is_empty());
        let with = folded(ToolsAsOutput::Yes);
        let told = said(&with, &Channel::Tool);
        assert_eq!(told.len(), usize::from(of_tool), "{kind:?}");
        for text in told {
            let value: Value = serde_json::from_str(text).unwrap();
            let said = members(&message);
            let (expected, id) = match kind {
                AdapterKind::ToolStart => {
                    let input = said.get("input").cloned().unwrap_or_else(|| json!({}));
                    let call = json!({ "type": "tool_use", "name": said["tool"], "input": input });
                    (call, "id")
                }
                _ => {
                    let content = said.get("content").cloned().unwrap_or_else(|| json!(""));
                    let is_error = said
                        .get("is_error")
                        .cloned()
                        .unwrap_or_else(|| json!(false));
                    (
                        json!({ "type": "tool_result", "content": content, "is_error": is_error }),
                        "tool_use_id",
                    )
                }
            };
            let mut expected = expected;
            expected[id] = said["tool_call_id"].clone();
            assert_eq!(value, expected, "{kind:?}");
        }
    }
}

#[test]
fn what_only_enriches_is_left_out() {
    use AdapterKind as K;
    let silent = [
        K::Thinking,
        K::Message,
        K::Plan,
        K::Progress,
        K::Log,
        K::Custom,
        K::Usage,
        K::ContextUsage,
        K::Compaction,
        K::RateLimit,
        K::Working,
        K::SteerResult,
        K::PermissionCancel,
    ];
    for message in golden().filter(|message| silent.contains(&message.body.kind())) {
        assert_eq!(
            fold(message, Extensions::empty(), ToolsAsOutput::Yes),
            Folded::Nothing
        );
    }
}
