use serde_json::json;
use trunkline_sdk::protocol::{AdapterMessage, Envelope, SessionId};

use super::super::content::LONGEST_RESULT;
use super::tools::MAX_DATA_BYTES;
use super::*;

/// Returns the events of updates, each as its JSON.
fn told(name: &str, when: EventTime, updates: &[Value]) -> Vec<Value> {
    let initialized = super::super::initialize::InitializeResponse::parse(
        &json!({ "agentInfo": { "name": name } }),
    )
    .unwrap();
    let mut reader = UpdateReader::new(initialized.quirks);
    let mut out = Vec::new();
    for update in updates {
        reader.update(
            update,
            when,
            &|id| (id == "terminal-1").then(|| "printed".to_owned()),
            &mut out,
        );
    }
    reader.end(false, &mut out);
    out.into_iter().map(shown).collect()
}

fn shown(told: UpdateEvent) -> Value {
    match told {
        UpdateEvent::Text(output) => {
            json!({ "text": output.content, "id": output.message_id, "history": output.history })
        }
        UpdateEvent::Event(event) => {
            let message: AdapterMessage = Envelope::new(SessionId::new("s").unwrap(), event);
            serde_json::from_slice(message.to_line().as_ref()).unwrap()
        }
        UpdateEvent::Info(info) => json!({ "info": *info }),
        UpdateEvent::File(media, text) => {
            json!({ "file": media.name, "text": text.map(|text| text.content) })
        }
        UpdateEvent::SystemError => json!("system error"),
        UpdateEvent::BrokeOff(times) => json!({ "broke off": times }),
    }
}

fn kinds(told: &[Value]) -> Vec<&str> {
    told.iter()
        .map(|event| event["type"].as_str().unwrap_or("text"))
        .collect()
}

#[test]
fn a_call_starts_once_and_ends_once_whatever_comes_first() {
    let call = |kind: &str, status: &str| json!({ "sessionUpdate": kind, "toolCallId": "c", "title": "t", "kind": "execute", "status": status });
    for updates in [
        vec![
            call("tool_call", "pending"),
            call("tool_call", "in_progress"),
            call("tool_call_update", "completed"),
            call("tool_call_update", "completed"),
        ],
        vec![
            call("tool_call_update", "completed"),
            call("tool_call", "pending"),
        ],
        vec![call("tool_call", "failed")],
    ] {
        let told = told("x", EventTime::Now, &updates);
        assert_eq!(kinds(&told), ["tool.start", "tool.end"], "{updates:?}");
        assert_eq!(told[0]["tool"], "execute");
    }
}

#[test]
fn a_notice_is_a_warning_or_a_line_of_the_log() {
    for (severity, kind) in [
        ("info", "log"),
        ("warning", "error"),
        ("error", "error"),
        ("_other", "error"),
    ] {
        let notice = json!({ "sessionUpdate": "notice", "severity": severity, "title": "Slow", "description": "Try again" });
        let shown = told("x", EventTime::Now, std::slice::from_ref(&notice));
        assert_eq!(kinds(&shown), [kind], "{severity}");
        let text = &shown[0][if kind == "log" { "content" } else { "message" }];
        assert_eq!(text, "Slow\nTry again");
        assert_ne!(shown[0]["fatal"], true);
        assert!(told("x", EventTime::Before, &[notice]).is_empty());
    }
    let nameless = json!({ "sessionUpdate": "notice", "severity": "info" });
    assert!(told("x", EventTime::Now, &[nameless]).is_empty());
}

#[test]
fn a_compaction_is_reported_whole_once_it_is_complete() {
    let update = |status: &str| json!({ "sessionUpdate": "compaction_update", "compactionId": "k", "status": status });
    let chunk = |text: &str| json!({ "sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": { "type": "text", "text": text } });
    let mut replaced = update("completed");
    replaced["summary"] = json!([{ "type": "text", "text": "c" }, { "type": "text", "text": "d" }]);
    let mut cleared = update("completed");
    cleared["summary"] = json!(null);
    let mut failed = update("failed");
    failed["error"] = json!("no room");
    for (updates, summaries) in [
        (vec![update("in_progress")], json!([])),
        (
            vec![
                update("in_progress"),
                chunk("a "),
                chunk("b"),
                update("completed"),
                update("completed"),
            ],
            json!(["a b"]),
        ),
        // What follows the completion comes with the end of the turn.
        (
            vec![chunk("a"), update("completed"), chunk("b"), chunk("c")],
            json!(["a", "abc"]),
        ),
        (
            vec![chunk("a"), update("completed"), replaced],
            json!(["a", "c\nd"]),
        ),
        (vec![chunk("a"), cleared], json!([null])),
        (vec![update("cancelled")], json!([])),
        (
            vec![json!({ "sessionUpdate": "compaction_update", "status": "completed" })],
            json!([]),
        ),
    ] {
        let shown = told("x", EventTime::Now, &updates);
        assert!(shown.iter().all(|event| event["id"] == "k"), "{shown:?}");
        let found: Vec<_> = shown.iter().map(|event| &event["summary"]).collect();
        assert_eq!(json!(found), summaries, "{updates:?}");
        assert!(told("x", EventTime::Before, &updates).is_empty());
    }
    let shown = told("x", EventTime::Now, &[failed]);
    assert_eq!(
        shown[0]["message"],
        "the context was not shortened: no room"
    );
    let many: Vec<_> = (0..100)
        .map(|id| json!({ "sessionUpdate": "compaction_update", "compactionId": id.to_string(), "status": "completed" }))
        .collect();
    assert_eq!(told("x", EventTime::Now, &many).len(), 100);
}

#[test]
fn tools_are_named_as_each_agent_names_them() {
    for (agent, update, tool) in [
        (
            "gemini-cli",
            json!({ "toolCallId": "run_shell_command__call_1", "kind": "execute" }),
            "run_shell_command",
        ),
        (
            "Kilo",
            json!({ "toolCallId": "c", "title": "bash", "kind": "execute" }),
            "bash",
        ),
        (
            "Kilo",
            json!({ "toolCallId": "c", "title": "touch a file", "kind": "execute" }),
            "execute",
        ),
        (
            "x",
            json!({ "toolCallId": "c", "_meta": { "claudeCode": { "toolName": "Write" } } }),
            "Write",
        ),
        (
            "gemini-cli",
            json!({ "toolCallId": "a__b", "title": "touch", "name": "write_file", "_meta": { "claudeCode": { "toolName": "Write" } } }),
            "write_file",
        ),
        (
            "x",
            json!({ "toolCallId": "a__b", "title": "bash" }),
            "tool",
        ),
    ] {
        let mut update = update;
        update["sessionUpdate"] = json!("tool_call");
        assert_eq!(told(agent, EventTime::Now, &[update])[0]["tool"], tool);
    }
}

#[test]
fn content_is_told_as_what_is_new_and_whole_at_the_end() {
    let said = |status: &str, text: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status, "content": [{ "type": "content", "content": { "type": "text", "text": text } }] });
    let told = told(
        "x",
        EventTime::Now,
        &[
            said("in_progress", "one"),
            said("in_progress", "one two"),
            said("in_progress", "one two"),
            said("completed", "one two three"),
        ],
    );
    assert_eq!(
        kinds(&told),
        ["tool.start", "tool.update", "tool.update", "tool.end"]
    );
    let contents: Vec<_> = told[1..]
        .iter()
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents, ["one", " two", "one two three"]);
}

#[test]
fn places_and_data_are_reported_when_they_change() {
    let update = |members: Value| {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c" });
        update
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        update
    };
    let place = json!([{ "path": "/a", "line": 3 }]);
    let other = json!([{ "path": "/b" }]);
    let updates = [
        update(json!({ "locations": [] })),
        update(json!({ "locations": place, "rawOutput": [{ "n": 1 }] })),
        update(json!({ "locations": place, "rawOutput": [{ "n": 1 }] })),
        update(json!({ "locations": [], "rawOutput": "a text" })),
        update(
            json!({ "status": "completed", "locations": other, "rawOutput": [{ "n": 2 }, "b"] }),
        ),
    ];
    for when in [EventTime::Now, EventTime::Before] {
        let shown = told("x", when, &updates);
        let found: Vec<_> = shown
            .iter()
            .map(|event| {
                (
                    event["type"].as_str().unwrap(),
                    &event["locations"],
                    &event["data"],
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("tool.start", &Value::Null, &Value::Null),
                ("tool.update", &place, &json!([{ "n": 1 }])),
                ("tool.update", &other, &Value::Null),
                ("tool.end", &Value::Null, &json!([{ "n": 2 }, "b"])),
            ]
        );
    }
}

#[test]
fn diffs_terminals_and_raw_output_become_results() {
    let end = |update: Value| {
        let mut update = update;
        update["sessionUpdate"] = json!("tool_call");
        update["toolCallId"] = json!("c");
        update["status"] = json!("completed");
        told("x", EventTime::Now, &[update]).pop().unwrap()
    };
    let diff = end(
        json!({ "content": [{ "type": "diff", "path": "/a", "oldText": null, "newText": "new" }] }),
    );
    assert_eq!(diff["diffs"], json!([{ "path": "/a", "new_text": "new" }]));
    assert_eq!(
        end(json!({ "content": [{ "type": "terminal", "terminalId": "terminal-1" }] }))["content"],
        "printed"
    );
    let raw = end(json!({ "rawOutput": { "output": "raw", "exitCode": 0 } }));
    assert_eq!(raw["content"], "raw");
    assert_eq!(raw["data"], json!({ "output": "raw", "exitCode": 0 }));
    let large = end(json!({ "rawOutput": { "output": "x".repeat(MAX_DATA_BYTES) } }));
    assert_eq!(large.get("data"), None);
    assert_eq!(
        end(json!({ "rawOutput": "plain", "content": 3 }))["content"],
        "plain"
    );
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "d", "content": [
        { "type": "diff", "path": "/a", "oldText": null, "newText": "new" },
    ] });
    for (status, diffs) in [("completed", &diff["diffs"]), ("failed", &Value::Null)] {
        let last =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "d", "status": status });
        let shown = told("x", EventTime::Now, &[call.clone(), last])
            .pop()
            .unwrap();
        assert_eq!(
            shown.get("diffs").unwrap_or(&Value::Null),
            diffs,
            "{status}"
        );
    }
    let long = end(json!({ "rawOutput": "x".repeat(2 * LONGEST_RESULT) }));
    assert_eq!(
        (
            long["truncated"].clone(),
            long["content"].as_str().unwrap().len()
        ),
        (json!(true), LONGEST_RESULT)
    );
}

#[test]
fn an_echo_is_no_answer_and_history_is_marked() {
    let echo = json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "hello" } });
    let answer = json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": { "type": "text", "text": "hi" } });
    assert_eq!(
        told("x", EventTime::Now, std::slice::from_ref(&echo)),
        [] as [Value; 0]
    );
    let before = told("x", EventTime::Before, &[echo, answer]);
    assert_eq!(before[0]["role"], "user");
    assert!(
        before.iter().all(|event| event["history"] == true),
        "{before:?}"
    );
}

#[test]
fn what_is_told_already_is_not_told_again() {
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{ "name": "/plan" }, { "no": 1 }] });
    let usage = json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10 });
    let told = told(
        "x",
        EventTime::Now,
        &[
            commands.clone(),
            commands,
            usage.clone(),
            usage,
            json!({ "sessionUpdate": "usage_update", "used": 0 }),
        ],
    );
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[0]["info"]["commands"],
        json!([{ "name": "plan", "text": "/plan" }])
    );
}

#[test]
fn copilot_s_remarks_are_no_answer() {
    for text in [
        "Info: Operation cancelled by user",
        "Info: Response was interrupted due to a server error. Retrying...",
    ] {
        let remark = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
        assert_eq!(
            kinds(&told(
                "Copilot",
                EventTime::Now,
                std::slice::from_ref(&remark)
            )),
            ["progress"]
        );
        assert_eq!(kinds(&told("x", EventTime::Now, &[remark])), ["text"]);
    }
}

#[test]
fn any_shape_is_read() {
    let members = [
        "content",
        "toolCallId",
        "title",
        "kind",
        "status",
        "locations",
        "rawInput",
        "rawOutput",
        "entries",
        "availableCommands",
        "configOptions",
        "cost",
        "used",
        "_meta",
        "messageId",
    ];
    let kinds = [
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "usage_update",
        "session_info_update",
        "new_kind",
    ];
    let odd = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([[]]),
        json!([{ "type": 3 }]),
        json!({ "a": { "b": [] } }),
        json!(true),
    ];
    for kind in kinds {
        for member in members {
            for value in &odd {
                let update = json!({ "sessionUpdate": kind, "toolCallId": "c", member: value });
                told("gemini-cli", EventTime::Now, std::slice::from_ref(&update));
                told("Kilo", EventTime::Before, &[update]);
            }
        }
    }
    told("x", EventTime::Now, &[json!(null), json!([]), json!("x")]);
}

#[test]
fn an_answer_that_breaks_off_too_often_is_told_of_agents_that_begin_it_for_ever() {
    let piece = |message: u32| json!({ "sessionUpdate": "agent_message_chunk", "messageId": message.to_string(), "content": { "type": "text", "text": "partial" } });
    let cut: Vec<Value> = (0..5).map(piece).collect();
    let broke_off = json!({ "broke off": 4 });
    assert!(told("opencode", EventTime::Now, &cut).contains(&broke_off));
    assert!(!told("opencode", EventTime::Now, &cut[..4]).contains(&broke_off));
    assert!(!told("opencode", EventTime::Before, &cut).contains(&broke_off));
    assert!(!told("copilot", EventTime::Now, &cut).contains(&broke_off));
    let call = |id: usize| json!({ "sessionUpdate": "tool_call", "toolCallId": id.to_string(), "status": "completed" });
    let worked: Vec<Value> = cut
        .iter()
        .enumerate()
        .flat_map(|(id, piece)| [piece.clone(), call(id)])
        .collect();
    assert!(!told("opencode", EventTime::Now, &worked).contains(&broke_off));
}

#[test]
fn images_are_files_once_and_what_is_none_is_text() {
    let image = |data: &str| json!({ "type": "image", "mimeType": "image/png", "data": data });
    let said =
        |data: &str| json!({ "sessionUpdate": "agent_message_chunk", "content": image(data) });
    let updates = [
        said("YWJj"),
        said("no base64"),
        json!({ "sessionUpdate": "agent_thought_chunk", "content": image("YWJj") }),
    ];
    let now = told("x", EventTime::Now, &updates);
    assert_eq!(
        now[0],
        json!({ "file": "image.png", "text": "[image: image/png]" })
    );
    assert_eq!(now[1]["text"], "[image: image/png]");
    assert_eq!(now[2]["content"], "[image: image/png]");
    assert_eq!(
        told("x", EventTime::Before, &updates)[0]["text"],
        "[image: image/png]"
    );
    let call = |status: &str, images: &[&str]| {
        let content: Vec<_> = images
            .iter()
            .map(|data| json!({ "type": "content", "content": image(data) }))
            .collect();
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status, "content": content })
    };
    let updates = [
        call("in_progress", &["YWJj"]),
        call("completed", &["YWJj", "YWI=", "no base64"]),
        call("completed", &["YWJj"]),
    ];
    let now = told("x", EventTime::Now, &updates);
    assert_eq!(
        now.iter().filter(|event| !event["file"].is_null()).count(),
        2,
        "{now:?}"
    );
    assert_eq!(now.last().unwrap()["file"], "image.png");
    let end = now
        .iter()
        .find(|event| event["type"] == "tool.end")
        .unwrap();
    assert_eq!(end["content"], ["[image: image/png]"; 3].join("\n"));
}
