//! `mock`: a script is followed.

use serde_json::{Value, json};

use crate::adapter::{Adapter, printed, program};

fn scripted(turns: &Value) -> Adapter {
    let mut adapter = Adapter::start("mock", &json!({ "turns": turns }));
    adapter.open("s");
    adapter
}

#[test]
fn without_a_script_it_echoes_or_says_what_it_was_given() {
    let mut adapter = Adapter::start("mock", &json!({}));
    adapter.open("s");
    assert_eq!(adapter.send("s", "hello").text(), "hello");
    adapter.end();
    let options = json!({ "stdout": { "a": 1 }, "exit_code": 3, "tokens": 42, "delay": "20ms", "failure": "no luck" });
    let mut adapter = Adapter::start("mock", &options);
    adapter.open("s");
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.text().as_str(), turn.status(), turn.error()),
        (r#"{"a":1}"#, "failed", "no luck")
    );
    assert_eq!(
        (&turn.end["exit_code"], &turn.end["usage"]["total_tokens"]),
        (&json!(3), &json!(42))
    );
    adapter.end();
}

#[test]
fn each_step_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let effect = folder.path().join("effect");
    let mut adapter = scripted(&json!([
        { "steps": [
            { "thinking": "hm" },
            { "output": "you said {{input}}" },
            { "stderr": "careful" },
            { "on": { "channel": "debug", "content": "d" } },
            { "tool": { "tool": "shell", "input": { "command": "ls" }, "content": "a b", "is_error": true } },
            { "file": { "name": "a.csv", "content": "1,2" } },
            { "usage": { "input_tokens": 3, "cost_usd": 0.5 } },
            { "event": { "type": "plan", "entries": [{ "content": "one" }] } },
        ] },
        { "steps": [{ "permission": {
            "tool": "touch", "resource": effect, "approved": [{ "touch": effect }, { "output": "did" }], "denied": [{ "output": "did not" }],
        } }] },
        { "steps": [{ "output": "half" }, { "fail": { "category": "rate_limit", "message": "slow down", "retry_at": "2030-01-01T00:00:00Z" } }] },
        { "steps": [{ "output": "x" }, { "exit_code": 2 }] },
        { "steps": [{ "output": "x" }, { "event": { "type": "turn.complete", "status": "refused" } }] },
        { "steps": [{ "output": "x" }, "until_stop"] },
        { "steps": [{ "output": "last words" }, { "exit": 7 }] },
    ]));
    let turn = adapter.send("s", "hi");
    assert_eq!(
        (
            turn.text().as_str(),
            turn.on("stderr").as_str(),
            turn.on("debug").as_str()
        ),
        ("you said hi", "careful", "d")
    );
    assert_eq!(
        turn.kinds(),
        [
            "thinking",
            "output",
            "output",
            "output",
            "tool.start",
            "tool.end",
            "file.output",
            "usage",
            "plan"
        ]
    );
    adapter.begin("s", "x");
    let asked = adapter.wait_for("s", "permission.request");
    assert!(!effect.exists());
    adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": asked["request_id"], "approved": true }));
    assert_eq!(adapter.finish("s").text(), "did");
    assert!(effect.exists());
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.category(), turn.error(), turn.text().as_str()),
        ("rate_limit", "slow down", "half")
    );
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.category(), &turn.end["exit_code"]),
        ("process_exit", &json!(2))
    );
    assert_eq!(adapter.send("s", "x").status(), "refused");
    adapter.begin("s", "x");
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    adapter.begin("s", "x");
    assert_eq!(adapter.wait_for("s", "output")["content"], "last words");
    assert_eq!(adapter.exit_code(), Some(7));
}

#[test]
fn a_script_that_cannot_be_read_is_told() {
    let (command, _folder) = program(
        "mock",
        &json!({ "turns": [{ "steps": [{ "shout": "x" }] }] }),
    );
    let (text, code) = printed(command);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("turns[0].steps[0]") && text.contains("shout"),
        "{text}"
    );
}
