//! A session never widens what the operator allowed, as a hub of `trunkline serve` sees it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use super::Home;

/// Says that it ran, and answers each input by the start of its session.
const ADAPTER: &str = r#"
import json, sys
open("ran", "w").close()
starts = {}
for line in sys.stdin:
    message = json.loads(line)
    session = message["session_id"]
    if message["type"] == "session.start":
        starts[session] = line
    elif message["type"] == "user.input":
        print(json.dumps({"type": "output", "session_id": session, "content": starts[session]}), flush=True)
        print(json.dumps({"type": "turn.complete", "session_id": session}), flush=True)
"#;

struct Hub {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Hub {
    fn spawn(home: &Home, arguments: &[&str]) -> Self {
        let adapter = home.file("adapter.py", ADAPTER);
        let adapter = format!("python3 {}", adapter.display());
        let arguments = ["serve", "--adapter", &adapter]
            .into_iter()
            .chain(arguments.iter().copied());
        let mut child = home
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
        }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// The next message of this type.
    fn hear(&mut self, kind: &str) -> Value {
        loop {
            let message: Value =
                serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
            if message["type"] == kind {
                return message;
            }
        }
    }

    fn end(mut self) {
        drop(self.stdin);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn start(session: &str, option: &str, value: &Value) -> Value {
    let extensions = ["turns", "events", "options", "control"];
    json!({"type": "session.start", "session_id": session, "protocol": 1, "extensions": extensions, option: value})
}

fn dangerous() -> [(&'static str, Value); 5] {
    [
        ("env", json!({"LD_PRELOAD": "/tmp/x.so"})),
        ("extra_args", json!(["--dangerously-skip-permissions"])),
        ("mcp_servers", json!({"x": {"command": "sh"}})),
        ("skills", json!(["/tmp/skill"])),
        ("permission_mode", json!("allow-all")),
    ]
}

#[test]
fn a_hub_is_refused_by_name_before_an_adapter_runs() {
    let home = Home::new();
    let mut hub = Hub::spawn(&home, &[]);
    for (option, value) in dangerous() {
        hub.say(&start(option, option, &value));
        let closed = hub.hear("session.closed");
        assert_eq!(
            (&closed["session_id"], &closed["reason"]),
            (&json!(option), &json!("refused"))
        );
        let why = closed["error"]["message"].as_str().unwrap();
        assert!(
            why.contains(&format!("`{option}`")) && why.contains("`session_may`"),
            "{why}"
        );
        assert!(why.contains(&format!("--session-may {option}")), "{why}");
        // A hub that knows only the core reads it, too.
        hub.say(&json!({"type": "session.start", "session_id": "core", option: value}));
        let output = hub.hear("output");
        assert_eq!(output["channel"], "system");
        assert!(
            output["content"]
                .as_str()
                .unwrap()
                .contains(&format!("`{option}`")),
            "{output}"
        );
        hub.say(&json!({"type": "session.close", "session_id": "core"}));
    }
    hub.end();
    assert!(!home.path().join("ran").exists(), "nothing was started");
}

#[test]
fn the_operator_of_serve_lets_sessions_set_more() {
    let home = Home::new();
    for (option, value) in dangerous()
        .into_iter()
        .filter(|(option, _)| *option != "permission_mode")
    {
        for list in [option, "all", &format!(" model, {option},cwd")] {
            let mut hub = Hub::spawn(&home, &["--session-may", list]);
            hub.say(&start("s", option, &value));
            hub.say(&json!({"type": "user.input", "session_id": "s", "content": "hi"}));
            let output = hub.hear("output");
            let seen: Value = serde_json::from_str(output["content"].as_str().unwrap()).unwrap();
            assert_eq!(seen[option], value, "{list}");
            hub.hear("turn.complete");
            hub.end();
        }
    }
    let ran = home.run(["serve", "--session-may", "evn"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("did you mean `env`?"), "{}", ran.stderr);
}
