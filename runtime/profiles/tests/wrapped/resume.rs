//! A conversation is resumed in the directory that it was held in, whatever the agent.

use serde_json::{Value, json};

use crate::cli::Cli;

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Opens a session in the directory `/`, resumed with what a turn in another one gave, and says something. What the host was
/// told at once, and what the agent heard.
#[track_caller]
fn resumed_elsewhere(profile: &str, more: &Value) {
    let cli = Cli::new(r#"echo "$*" >> "$HERE/heard"; read -r line; echo "$line" >> "$HERE/heard"; exit 1"#);
    let was = cli.file("was");
    std::fs::create_dir(&was).unwrap();
    let mut adapter = cli.adapter(profile, more);
    let params = json!({ "native_session_id": ID, "cwd": was });
    adapter.open_with(
        "s",
        json!({ "cwd": "/", "resume": { "native_session_id": ID, "params": params, "history": true } }),
    );
    let mut told = Vec::new();
    loop {
        let message = adapter.next("s");
        let is_reason = message["type"] == "error";
        told.push(message);
        if is_reason {
            break;
        }
    }
    let lost = told.iter().filter(|message| message["context"] == "lost").count();
    let reason = told.last().unwrap()["message"].as_str().unwrap();
    assert!(lost == 1 && reason.contains(was.to_str().unwrap()), "{profile}: {told:?}");
    assert_eq!(told.last().unwrap()["fatal"], false);
    adapter.begin("s", "hello");
    adapter.end();
    cli.gone();
    let heard = std::fs::read_to_string(cli.file("heard")).unwrap_or_default();
    assert!(!heard.contains(ID), "{profile} goes on all the same: {heard}");
}

#[test]
fn agents_over_acp_lose_what_was_held_elsewhere() {
    for profile in ["acp", "gemini-cli", "github-copilot", "kilo-code", "opencode"] {
        resumed_elsewhere(profile, &json!({}));
    }
}

#[test]
fn agents_that_run_once_a_turn_lose_what_was_held_elsewhere() {
    for profile in ["gemini-cli", "github-copilot", "kilo-code", "opencode"] {
        resumed_elsewhere(profile, &json!({ "transport": "json" }));
    }
}

#[test]
fn claude_loses_what_was_held_elsewhere() {
    resumed_elsewhere("claude-code", &json!({}));
}

#[test]
fn codex_loses_what_was_held_elsewhere() {
    for transport in ["app-server", "exec"] {
        resumed_elsewhere("codex", &json!({ "transport": transport }));
    }
}

#[test]
fn pi_loses_what_was_held_elsewhere() {
    resumed_elsewhere("pi", &json!({}));
}
