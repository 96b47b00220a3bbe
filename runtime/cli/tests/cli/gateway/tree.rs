//! What an agent has started gets nothing of its own daemon, whatever token it has.

use std::process::Command;

use serde_json::json;
use trunkline_testing::has_program;

use super::{super::Home, Daemon};

/// Asks the daemon as it was told to, by a process of its own, and says what came.
const ADAPTER: &str = r#"
import json, subprocess, sys
for line in sys.stdin:
    message = json.loads(line)
    session = message["session_id"]
    if message["type"] == "user.input":
        asked = ["sh", "-c", "sh ask.sh; true"]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
        print(json.dumps({"type": "output", "session_id": session, "content": said}), flush=True)
        print(json.dumps({"type": "turn.complete", "session_id": session}), flush=True)
"#;

#[test]
fn a_process_that_an_agent_started_gets_nothing_for_a_good_token() {
    if !has_program("curl") {
        return;
    }
    let home = Home::new();
    let adapter = home.file("adapter.py", ADAPTER);
    let adapter = format!("python3 {}", adapter.display());
    let arguments = [
        "up",
        "--state",
        "state",
        "--http",
        "127.0.0.1:0",
        "--json",
        "--adapter",
        &adapter,
    ];
    let daemon = Daemon::of(&home, &mut home.command(arguments));
    let client = daemon.token(&["admin", "--all-sessions"]);
    let token = client.token.clone().unwrap();
    let address = client.http.clone();
    let upgrade = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
                   -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";
    let ask = |path: &str, more: &str| {
        home.file(
            "ask.sh",
            &format!(
                "curl -s --max-time 20 -w '\\n%{{http_code}}' {more} -H 'Authorization: Bearer {token}' http://{address}{path}"
            ),
        );
    };
    let outside = || {
        let said = Command::new("sh")
            .arg("ask.sh")
            .current_dir(home.path())
            .output()
            .unwrap();
        String::from_utf8(said.stdout).unwrap()
    };
    let id = client.open();
    for (path, more, good) in [
        ("/v1/me", "", "\n200"),
        ("/v1/sessions", "-d '{}'", "\n201"),
        ("/v1/pipe", upgrade, ""),
    ] {
        ask(path, more);
        let inside = client.turn(&id, "ask")["text"].as_str().unwrap().to_owned();
        assert!(
            inside.ends_with("\n403") && inside.contains("an agent has started"),
            "{path}: {inside}"
        );
        if !good.is_empty() {
            assert!(outside().ends_with(good), "{path}");
        }
    }
    // Without a token it learns as much as all do.
    home.file(
        "ask.sh",
        &format!("curl -s -w '\\n%{{http_code}}' http://{address}/healthz"),
    );
    assert!(
        client.turn(&id, "ask")["text"]
            .as_str()
            .unwrap()
            .ends_with("\n200")
    );
    assert_eq!(
        client.get("/v1/sessions").json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "its own opened none"
    );
    client
        .post(&format!("/v1/sessions/{id}/stop"), &json!({}))
        .must_be(409);
    daemon.down();
}
