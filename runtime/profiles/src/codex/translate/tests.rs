use serde_json::{Value, json};
use trunkline_sdk::protocol::AdapterBody;

use super::told::PIECE;
use super::*;

const THREAD: &str = "01a2-thread";

/// A translator in a turn called `t`.
fn translator() -> Translator {
    let mut translator = Translator::fresh();
    translator.begin();
    translator.is_turn("t");
    translator
}

fn note(translator: &mut Translator, method: &str, mut params: Value) -> Vec<CodexEvent> {
    params["threadId"] = THREAD.into();
    if params.get("turnId").is_none() {
        params["turnId"] = "t".into();
    }
    translator.take(method, &params)
}

/// The events in a line each: what a host reads of them.
fn told(events: &[CodexEvent]) -> Vec<String> {
    let text = |json: &Option<Json>| {
        json.as_ref()
            .map_or_else(String::new, |json| json.get().to_owned())
    };
    let line = |event: &CodexEvent| match event {
        CodexEvent::Tell(AdapterBody::Output(output)) => format!("output {}", output.content),
        CodexEvent::Tell(AdapterBody::Thinking(thinking)) => {
            format!("thinking {}", thinking.content)
        }
        CodexEvent::Tell(AdapterBody::ToolStart(start)) => {
            format!(
                "start {} {} {}",
                start.tool_call_id,
                start.tool,
                text(&start.input)
            )
        }
        CodexEvent::Tell(AdapterBody::ToolUpdate(update)) => {
            format!("update {}", update.content.as_deref().unwrap_or_default())
        }
        CodexEvent::Tell(AdapterBody::ToolEnd(end)) => {
            let content = end.content.as_deref().unwrap_or_default();
            let error = end.is_error == Some(true);
            format!("end {}{content}", if error { "failed " } else { "" })
        }
        CodexEvent::Tell(AdapterBody::Plan(plan)) => format!("plan {}", plan.entries.len()),
        CodexEvent::Tell(AdapterBody::ContextUsage(usage)) => {
            format!(
                "context {:?}/{:?}",
                usage.used_tokens.unwrap_or(0),
                usage.total_tokens.unwrap_or(0)
            )
        }
        CodexEvent::Tell(other) => format!("{:?}", other.kind()),
        CodexEvent::Retries(fault) => format!("retries {}", fault.told()),
        CodexEvent::Error(fault) => format!("error {}", fault.told()),
        CodexEvent::Ended(ReportedEnd::Failed(Some(fault))) => format!("failed {}", fault.told()),
        CodexEvent::Ended(end) => format!("{end:?}"),
    };
    events.iter().map(line).collect()
}

/// Plays `method params` notifications and gives what is reported.
fn play(notes: &[(&str, Value)]) -> Vec<String> {
    let mut translator = translator();
    let events = notes
        .iter()
        .flat_map(|(method, params)| note(&mut translator, method, params.clone()));
    told(&events.collect::<Vec<_>>())
}

#[test]
fn an_answer_is_told_by_its_deltas_and_once() {
    let message = |text: &str| json!({"item": {"type": "agentMessage", "id": "m", "text": text}});
    let delta = |text: &str| json!({"itemId": "m", "delta": text});
    let whole = [
        ("item/started", message("")),
        ("item/agentMessage/delta", delta("Hel")),
        ("item/agentMessage/delta", delta("lo")),
        ("item/completed", message("Hello")),
        ("item/completed", message("Hello")),
    ];
    assert_eq!(play(&whole), ["output Hel", "output lo"]);
    assert_eq!(
        play(&[("item/completed", message("Hello"))]),
        ["output Hello"]
    );
    // A delta was lost: the rest comes with the whole.
    let cut = [
        ("item/agentMessage/delta", delta("Hel")),
        ("item/completed", message("Hello")),
    ];
    assert_eq!(play(&cut), ["output Hel", "output lo"]);
    let odd = [
        ("item/agentMessage/delta", delta("Hello")),
        ("item/completed", message("é")),
    ];
    assert_eq!(play(&odd), ["output Hello"]);
    let other = [
        ("item/agentMessage/delta", delta("Hallo")),
        ("item/completed", message("Hello, you")),
    ];
    assert_eq!(play(&other), ["output Hallo"]);
}

#[test]
fn a_summary_of_reasoning_is_thinking_with_its_parts_apart() {
    let delta = |part: u64, text: &str| json!({"itemId": "r", "delta": text, "summaryIndex": part});
    let item =
        json!({"item": {"type": "reasoning", "id": "r", "summary": ["one", "two"], "content": []}});
    let notes = [
        ("item/reasoning/summaryTextDelta", delta(0, "o")),
        ("item/reasoning/summaryTextDelta", delta(0, "ne")),
        ("item/reasoning/summaryTextDelta", delta(1, "two")),
        ("item/completed", item.clone()),
    ];
    assert_eq!(
        play(&notes),
        ["thinking o", "thinking ne", "thinking \n\ntwo"]
    );
    assert_eq!(play(&[("item/completed", item)]), ["thinking one\n\ntwo"]);
}

#[test]
fn a_command_begins_prints_and_ends() {
    let item = |status: &str, output: Value, code: Value| {
        json!({"item": {
            "type": "commandExecution", "id": "c", "command": "/bin/bash -lc 'ls -l'", "cwd": "/srv",
            "status": status, "aggregatedOutput": output, "exitCode": code, "durationMs": 3,
        }})
    };
    let start = r#"start c bash {"command":"ls -l","cwd":"/srv"}"#;
    let printed = (
        "item/commandExecution/outputDelta",
        json!({"itemId": "c", "delta": "a\n"}),
    );
    let begun = ("item/started", item("inProgress", json!(null), json!(null)));
    for (end, expected) in [
        (item("completed", json!("a\n"), json!(0)), "end a\n"),
        (item("failed", json!("a\n"), json!(3)), "end failed a\n"),
        (
            item("declined", json!(null), json!(null)),
            "end failed declined",
        ),
    ] {
        let notes = [begun.clone(), printed.clone(), ("item/completed", end)];
        assert_eq!(play(&notes), [start, "update a\n", expected]);
    }
    let alone = [("item/completed", item("completed", json!("x"), json!(0)))];
    assert_eq!(play(&alone), [start, "end x"]);
}

#[test]
fn file_changes_have_their_tool_and_their_diffs() {
    let change = |kind: &str| {
        json!({"item": {"type": "fileChange", "id": "f", "status": "completed", "changes": [
            {"path": "/a", "kind": {"type": kind}, "diff": "text"},
        ]}})
    };
    for (kind, tool) in [("add", "Write"), ("update", "Edit"), ("delete", "Delete")] {
        let mut translator = translator();
        let events = note(&mut translator, "item/started", change(kind));
        assert!(
            told(&events)[0].starts_with(&format!("start f {tool}")),
            "{events:?}"
        );
        assert_eq!(translator.changes("f").len(), 1);
        let events = note(&mut translator, "item/completed", change(kind));
        let [CodexEvent::Tell(AdapterBody::ToolEnd(end))] = &events[..] else {
            panic!("{events:?}")
        };
        let diffs = end.diffs.clone().unwrap();
        let text = Some("text".to_owned());
        let found = (
            diffs[0].new_text.clone(),
            diffs[0].old_text.clone(),
            diffs[0].patch.clone(),
        );
        let expected = match kind {
            "add" => (text, None, None),
            "delete" => (None, text, None),
            _ => (None, None, text),
        };
        assert_eq!((diffs[0].path.as_str(), found), ("/a", expected));
    }
}

#[test]
fn other_tools_plans_and_warnings() {
    let mcp = json!({"item": {
        "type": "mcpToolCall", "id": "x", "server": "files", "tool": "read", "arguments": {"p": 1},
        "status": "completed", "result": {"content": [{"type": "text", "text": "body"}, {"type": "image"}]},
    }});
    assert_eq!(
        play(&[("item/completed", mcp)]),
        [r#"start x mcp__files__read {"p":1}"#, "end body\n[image]"]
    );
    let failed = json!({"item": {
        "type": "mcpToolCall", "id": "x", "server": "s", "tool": "t", "status": "failed",
        "arguments": null, "error": {"message": "no such file"},
    }});
    assert_eq!(
        play(&[("item/completed", failed)])[1],
        "end failed no such file"
    );
    let search = json!({"item": {"type": "webSearch", "id": "w", "query": "rust"}});
    assert_eq!(
        play(&[("item/completed", search)])[0],
        r#"start w WebSearch {"query":"rust"}"#
    );
    let plan = json!({"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "inProgress"}]});
    assert_eq!(play(&[("turn/plan/updated", plan)]), ["plan 2"]);
    let diff = json!({"diff": "+a"});
    assert_eq!(
        play(&[
            ("turn/diff/updated", diff.clone()),
            ("turn/diff/updated", diff)
        ]),
        ["Custom"]
    );
    let status = json!({"name": "x", "status": "failed", "error": "no program", "turnId": null});
    assert_eq!(
        play(&[("mcpServer/startupStatus/updated", status)]),
        ["Error"]
    );
    let warning = json!({"message": "careful"});
    assert_eq!(
        play(&[("warning", warning.clone()), ("warning", warning)]),
        ["Log"]
    );
    assert_eq!(
        play(&[(
            "item/completed",
            json!({"item": {"type": "contextCompaction", "id": "k"}})
        )]),
        ["Compaction"]
    );
}

#[test]
fn usage_is_the_turns_and_what_came_before_is_not() {
    let total = |total: u64, last: u64| {
        let tokens =
            |count: u64| json!({"inputTokens": count, "outputTokens": 0, "totalTokens": count});
        json!({"tokenUsage": {"total": tokens(total), "last": tokens(last), "modelContextWindow": 1000}})
    };
    let mut translator = translator();
    translator.meter = Meter::default();
    let mut earlier = total(500, 5);
    earlier["turnId"] = "older".into();
    assert!(note(&mut translator, "thread/tokenUsage/updated", earlier).is_empty());
    let events = note(&mut translator, "thread/tokenUsage/updated", total(507, 7));
    assert_eq!(told(&events), ["context 7/1000"]);
    assert_eq!(
        translator.meter.take().and_then(|tokens| tokens.total),
        Some(7)
    );
}

#[test]
fn retries_are_no_failures_and_the_end_tells_what_was() {
    let error =
        |retry: bool| json!({"error": {"message": "Reconnecting... 1/5"}, "willRetry": retry});
    let end =
        |status: &str, error: Value| json!({"turn": {"id": "t", "status": status, "error": error}});
    let failed = end("failed", json!({"message": "gone"}));
    let notes = [
        ("error", error(true)),
        ("error", error(false)),
        ("turn/completed", failed),
    ];
    let told = [
        "retries Reconnecting... 1/5",
        "error Reconnecting... 1/5",
        "failed gone",
    ];
    assert_eq!(play(&notes), told);
    let mute = [
        ("error", error(false)),
        ("turn/completed", end("failed", json!(null))),
    ];
    assert_eq!(play(&mute), [told[1], "Failed(None)"]);
    assert_eq!(
        play(&[("turn/completed", end("interrupted", json!(null)))]),
        ["Interrupted"]
    );
    assert_eq!(
        play(&[("turn/completed", end("completed", json!(null)))]),
        ["Completed"]
    );
}

#[test]
fn limits_are_told_when_they_change() {
    let limits = |used: u64| {
        json!({"turnId": null, "rateLimits": {
            "primary": {"usedPercent": used, "windowDurationMins": 300, "resetsAt": 1_800_000_000u64},
            "secondary": {"usedPercent": 1, "windowDurationMins": 10080, "resetsAt": null},
        }})
    };
    let mut translator = translator();
    let first = note(&mut translator, "account/rateLimits/updated", limits(50));
    let [
        CodexEvent::Tell(AdapterBody::RateLimit(five)),
        CodexEvent::Tell(AdapterBody::RateLimit(week)),
    ] = &first[..]
    else {
        panic!("{first:?}")
    };
    assert_eq!(
        (five.window.as_deref(), five.utilization),
        (Some("5h"), Some(0.5))
    );
    assert_eq!(five.resets_at.as_deref(), Some("2027-01-15T08:00:00Z"));
    assert_eq!(
        (week.window.as_deref(), week.resets_at.as_deref()),
        (Some("weekly"), None)
    );
    assert!(note(&mut translator, "account/rateLimits/updated", limits(50)).is_empty());
    assert_eq!(
        note(&mut translator, "account/rateLimits/updated", limits(51)).len(),
        2
    );
}

#[test]
fn what_is_of_another_turn_unknown_or_odd_means_nothing() {
    let mut translator = translator();
    let other = json!({"turnId": "older", "itemId": "m", "delta": "late"});
    assert!(note(&mut translator, "item/agentMessage/delta", other).is_empty());
    let ended = json!({"turn": {"id": "older", "status": "completed"}, "turnId": null});
    assert!(note(&mut translator, "turn/completed", ended).is_empty());
    assert!(note(&mut translator, "thread/news/arrived", json!({})).is_empty());
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!(7),
        json!({"type": 7}),
        json!({"type": "plan", "text": 7}),
    ];
    let methods = [
        "item/agentMessage/delta",
        "item/reasoning/summaryTextDelta",
        "item/commandExecution/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/started",
        "item/completed",
        "turn/plan/updated",
        "turn/diff/updated",
        "error",
        "thread/tokenUsage/updated",
        "account/rateLimits/updated",
        "model/rerouted",
        "warning",
        "mcpServer/startupStatus/updated",
    ];
    for method in methods {
        for value in &odd {
            // Whatever it means, it must not panic.
            translator.take(method, value);
            let keys = [
                "item",
                "delta",
                "itemId",
                "plan",
                "diff",
                "error",
                "tokenUsage",
                "rateLimits",
                "message",
            ];
            for key in keys {
                translator.take(method, &json!({key: value, "turnId": "t"}));
            }
        }
    }
}

#[test]
fn a_long_text_comes_in_pieces_that_end_with_characters() {
    let text = "é".repeat(PIECE);
    let item = json!({"item": {"type": "agentMessage", "id": "m", "text": text}});
    let told = play(&[("item/completed", item)]);
    assert!(told.len() >= 2 && told.iter().all(|line| line.len() <= PIECE + 7));
    let whole: String = told.iter().map(|line| &line["output ".len()..]).collect();
    assert_eq!(whole, text);
}

#[test]
fn the_last_message_is_the_answer_if_it_is_an_object() {
    let mut translator = translator();
    let mut message = |id: &str, text: &str| {
        let item = json!({"item": {"type": "agentMessage", "id": id, "text": text}});
        note(&mut translator, "item/completed", item);
        let answer = translator.answer.as_ref();
        answer.map(|answer| answer.get().to_owned())
    };
    assert_eq!(message("a", r#"{"n":1}"#).as_deref(), Some(r#"{"n":1}"#));
    assert_eq!(message("b", "Done."), None);
    assert_eq!(message("c", r#"{"n":"#), None);
    assert_eq!(
        message(
            "d",
            &format!("{{\"n\":\"{}\"}}", "x".repeat(LONGEST_RESULT))
        ),
        None
    );
    assert_eq!(
        message("e", r#"{"z":1,"a":2}"#).as_deref(),
        Some(r#"{"z":1,"a":2}"#)
    );
    translator.begin();
    assert_eq!(translator.answer, None);
}
