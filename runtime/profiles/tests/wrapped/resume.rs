//! A conversation is resumed in the directory that it was held in, whatever the agent.

use serde_json::{Value, json};

use crate::cli::Cli;

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Every wrapped agent, in each of its ways.
fn each(check: impl Fn(&str, &Value)) {
    for profile in [
        "acp",
        "claude-code",
        "gemini-cli",
        "github-copilot",
        "kilo-code",
        "opencode",
        "pi",
    ] {
        check(profile, &json!({}));
    }
    for profile in ["gemini-cli", "github-copilot", "kilo-code", "opencode"] {
        check(profile, &json!({ "transport": "json" }));
    }
    for transport in ["app-server", "exec"] {
        check("codex", &json!({ "transport": transport }));
    }
}

/// Opens a session in the directory `/`, resumed with the parameters of a turn in another one, and
/// sends an input: the conversation is lost, with a reason, and the agent never receives its id.
#[track_caller]
fn resumed_elsewhere(profile: &str, more: &Value) {
    let cli = Cli::new(
        r#"echo "$*" >> "$HERE/heard"; read -r line; echo "$line" >> "$HERE/heard"; exit 1"#,
    );
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
    let lost = told
        .iter()
        .filter(|message| message["context"] == "lost")
        .count();
    let reason = told.last().unwrap()["message"].as_str().unwrap();
    assert!(
        lost == 1 && reason.contains(was.to_str().unwrap()),
        "{profile}: {told:?}"
    );
    assert_eq!(told.last().unwrap()["fatal"], false);
    adapter.begin("s", "hello");
    adapter.end();
    cli.gone();
    let heard = std::fs::read_to_string(cli.file("heard")).unwrap_or_default();
    assert!(
        !heard.contains(ID),
        "{profile} goes on all the same: {heard}"
    );
}

#[test]
fn what_was_held_elsewhere_is_lost() {
    each(resumed_elsewhere);
}

/// Returns the reason why these parameters resume nothing, which must be reported with `context:
/// lost`.
#[track_caller]
fn reason(profile: &str, more: &Value, params: &Value) -> String {
    let cli = Cli::new("exit 1");
    let mut adapter = cli.adapter(profile, more);
    adapter.open_with("s", json!({ "cwd": "/", "resume": { "params": params } }));
    let mut lost = 0;
    let reason = loop {
        let message = adapter.next("s");
        lost += usize::from(message["context"] == "lost");
        if message["type"] == "error" {
            break message["message"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(lost, 1, "{profile}: {reason}");
    adapter.end();
    reason
}

#[test]
fn parameters_that_name_no_conversation_are_lost_with_a_reason() {
    each(|profile, more| {
        let reason = reason(profile, more, &json!([1]));
        assert!(
            reason.contains("`resume.params` is not an object"),
            "{profile}: {reason}"
        );
    });
}

#[test]
fn the_parameters_alone_are_enough_in_each_of_their_forms() {
    let says = r#"case "$*" in *"$ID"*) ;; *) echo 'Session not found' >&2; exit 1;; esac
        cat > /dev/null; echo '{"type":"text","sessionID":"'"$ID"'","part":{"text":"known"}}'
        echo '{"type":"step_finish","sessionID":"'"$ID"'","part":{"reason":"stop"}}'"#;
    let cli = Cli::new(&format!("ID=ses_1\n{says}"));
    let mut adapter = cli.adapter("kilo-code", &json!({ "transport": "json" }));
    for (session, params) in [
        (
            "a",
            json!({ "native_session_id": "ses_1", "cwd": "/", "display_id": "parser work", "workspace_id": "w" }),
        ),
        ("b", json!({ "sessionId": "ses_1" })),
        ("c", json!("ses_1")),
    ] {
        adapter.open_with(
            session,
            json!({ "cwd": "/", "resume": { "params": params.clone() } }),
        );
        let turn = adapter.send(session, "hello");
        assert_eq!(
            (turn.status(), turn.text().as_str()),
            ("completed", "known"),
            "{}",
            turn.error()
        );
        let contexts: Vec<_> = turn
            .messages
            .iter()
            .filter_map(|message| message["context"].as_str())
            .collect();
        assert_eq!(
            (contexts, &turn.end["clear_session"]),
            (vec!["kept"], &Value::Null)
        );
        let mut kept = json!({ "native_session_id": "ses_1", "cwd": "/" });
        for name in ["display_id", "workspace_id"] {
            if let Some(value) = params.get(name) {
                kept[name] = value.clone();
            }
        }
        assert_eq!(
            turn.end["session_params"], kept,
            "what was kept of it stays"
        );
        let told: Vec<_> = turn
            .messages
            .iter()
            .filter_map(|message| message["display_id"].as_str())
            .collect();
        assert_eq!(told.first().copied(), kept["display_id"].as_str());
        assert!(told.len() < 2, "{told:?}");
    }
    adapter.end();
}
