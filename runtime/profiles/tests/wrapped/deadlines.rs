//! Agents that name the cause of their silence on stderr only.

use serde_json::{Value, json};

use crate::cli::Cli;

#[test]
fn a_deadline_has_the_cause_that_the_agent_names_on_stderr() {
    let silent = |profile: &str, more: &Value| {
        let cli =
            Cli::new("echo 'Error: SSO token has expired, run sso login' >&2; exec sleep 300");
        let mut adapter = cli.adapter(profile, more);
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        assert_eq!(turn.category(), "auth", "{profile}: {}", turn.error());
        let names_it = turn.error().contains("SSO token has expired");
        assert!(names_it, "{profile}: {}", turn.error());
        adapter.end();
    };
    std::thread::scope(|scope| {
        for profile in ["claude-code", "codex", "acp", "pi"] {
            scope.spawn(move || silent(profile, &json!({ "start_timeout": 0.5 })));
        }
        for profile in ["gemini-cli", "opencode", "github-copilot"] {
            let more = json!({
                "transport": "json", "dangerous": true, "start_timeout": 0, "silence_timeout": 0.5,
            });
            scope.spawn(move || silent(profile, &more));
        }
    });
}
