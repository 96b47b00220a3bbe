//! `replay`: what was recorded is played back.

use std::{fs, time::Instant};

use serde_json::{Value, json};

use crate::adapter::{Adapter, printed, program};

/// Returns a recording of two sessions: an approved permission, a failure, a pause, and messages
/// outside turns.
fn recording() -> Vec<Value> {
    let ask = json!({ "type": "permission.request", "session_id": "a", "turn_id": "x1", "request_id": "old-1",
        "tool": "shell", "description": "list", "resource": "ls", "options": [{ "id": "o", "label": "Yes", "kind": "allow_once" }] });
    vec![
        json!({ "t": 0.0, "in": { "type": "session.start", "session_id": "a" } }),
        json!({ "t": 0.1, "out": { "type": "session.ready", "session_id": "a", "adapter": { "name": "other" }, "model": "m-1" } }),
        json!({ "t": 1.0, "in": { "type": "user.input", "session_id": "a", "turn_id": "x1", "content": "ls" } }),
        json!({ "t": 1.2, "out": ask }),
        json!({ "t": 9.0, "in": { "type": "permission.response", "session_id": "a", "request_id": "old-1", "approved": true } }),
        json!({ "t": 9.3, "out": { "type": "output", "session_id": "a", "turn_id": "x1", "content": "a b" } }),
        json!({ "t": 9.3, "out": { "type": "turn.complete", "session_id": "a", "turn_id": "x1", "num_turns": 1 } }),
        json!({ "t": 9.4, "out": { "type": "output", "session_id": "a", "content": "by the way" } }),
        json!({ "t": 20.0, "in": { "type": "user.input", "session_id": "a", "turn_id": "x2", "content": "go" } }),
        json!({ "t": 20.0, "out": { "type": "turn.complete", "session_id": "a", "turn_id": "x2", "status": "failed", "error": { "category": "auth", "message": "no" } } }),
        json!({ "t": 0.0, "in": { "type": "user.input", "session_id": "b", "content": "x" } }),
        json!({ "t": 5.0, "out": { "type": "output", "session_id": "b", "content": "of b" } }),
        json!({ "t": 5.0, "out": { "type": "turn.complete", "session_id": "b" } }),
    ]
}

fn play(lines: &[Value], more: &Value) -> (Adapter, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&file, text.join("\n")).unwrap();
    let mut config = json!({ "file": file });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    (Adapter::start("replay", &config), folder)
}

#[test]
fn a_session_is_played_turn_by_turn_with_todays_ids() {
    let (mut adapter, _folder) = play(&recording(), &json!({ "speed": 0 }));
    let ready = adapter.open("mine");
    assert_eq!(ready["adapter"]["name"], "replay");
    assert_eq!(adapter.wait_for("mine", "session.info")["model"], "m-1");
    adapter.begin("mine", "anything");
    let asked = adapter.wait_for("mine", "permission.request");
    assert_eq!(
        (
            &asked["tool"],
            &asked["turn_id"],
            &asked["options"][0]["id"]
        ),
        (&json!("shell"), &json!("t1"), &json!("o"))
    );
    adapter.say(&json!({ "type": "permission.response", "session_id": "mine", "request_id": asked["request_id"], "approved": false }));
    let turn = adapter.finish("mine");
    assert_eq!(
        (turn.text().as_str(), turn.status(), &turn.end["num_turns"]),
        ("a b", "completed", &json!(1))
    );
    let said = turn
        .messages
        .iter()
        .find(|message| message["type"] == "progress")
        .unwrap();
    assert_eq!(
        said["message"],
        "denied now, approved then: the recording is played unchanged"
    );
    let outside = adapter.next("mine");
    assert_eq!(
        (&outside["content"], &outside["turn_id"]),
        (&json!("by the way"), &Value::Null)
    );
    let turn = adapter.send("mine", "x");
    assert_eq!(
        (turn.status(), turn.category(), turn.error()),
        ("failed", "auth", "no")
    );
    let turn = adapter.send("mine", "x");
    assert_eq!(turn.status(), "failed");
    assert!(
        turn.error().contains("is over: session a has 2 turns"),
        "{}",
        turn.error()
    );
    adapter.open("second");
    assert_eq!(adapter.send("second", "x").text(), "of b");
    adapter.end();
}

#[test]
fn pauses_are_kept_at_the_speed_asked_for_and_a_stop_ends_them() {
    let (mut adapter, _folder) = play(&recording(), &json!({ "speed": 20, "session": "b" }));
    adapter.open("s");
    let begun = Instant::now();
    assert_eq!(adapter.send("s", "x").text(), "of b");
    assert!(
        begun.elapsed().as_millis() >= 250,
        "five seconds, twenty times as fast"
    );
    adapter.end();
    let (mut adapter, _folder) = play(&recording(), &json!({ "session": "b" }));
    adapter.open("s");
    adapter.begin("s", "x");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    adapter.end();
}

#[test]
fn what_is_no_recording_is_told() {
    let (mut adapter, _folder) = play(&[], &json!({}));
    adapter.open("s");
    let closed = adapter.wait_for("s", "session.closed");
    assert!(
        closed["error"]["message"]
            .as_str()
            .unwrap()
            .contains("holds no turn"),
        "{closed}"
    );
    let (mut command, _folder) = program("replay", &json!({ "file": "/nowhere/x.jsonl" }));
    command.arg("--diagnose");
    let (text, code) = printed(command);
    assert!(
        text.contains("/nowhere/x.jsonl cannot be read") && code == Some(1),
        "{text}"
    );
}
