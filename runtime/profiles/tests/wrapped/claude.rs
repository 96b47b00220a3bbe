//! Reports of claude-code without a turn.

use serde_json::{Value, json};

use crate::cli::Cli;

const ID: &str = "01a1fbd6-2be9-7b82-96db-8adea1e2bc7a";

#[test]
fn conversations_that_claude_has_kept_are_listed() {
    let cli = Cli::new(
        "case \"$1\" in --version) echo '2.1.329 (Claude Code)' ;; *) cat >/dev/null ;; esac",
    );
    let line = json!({ "type": "user", "cwd": "/w", "message": { "content": "fix the bug" } });
    let folder = cli.file("own/projects/-w");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{ID}.jsonl")), format!("{line}\n")).unwrap();
    let env = json!({ "HERE": cli.file("."), "CLAUDE_CONFIG_DIR": cli.file("own") });
    let mut adapter = cli.adapter("claude-code", &json!({ "env": env }));
    adapter.open("s");
    let mut list = |cwd: Value| {
        adapter.say(
            &json!({ "type": "sessions.list", "session_id": "", "request_id": "l", "cwd": cwd }),
        );
        adapter.wait_for("", "sessions.list.result")["entries"].clone()
    };
    let all = list(Value::Null);
    assert_eq!(
        (
            &all[0]["native_session_id"],
            &all[0]["title"],
            &all[0]["cwd"]
        ),
        (&json!(ID), &json!("fix the bug"), &json!("/w"))
    );
    assert_eq!(list(json!("/w")), all);
    assert_eq!(list(json!("/elsewhere")), json!([]));
    adapter.end();
}
