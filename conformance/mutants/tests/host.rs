//! The reference host and its variants serve a hub; the table of broken hosts agrees with the program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// An adapter that echoes, asks at `ask`, and dies at `die`.
const ADAPTER: &str = r#"
import json, os, sys
def say(kind, sid, **rest):
    os.write(1, json.dumps({"type": kind, "session_id": sid, **rest}).encode() + b"\n")
for line in sys.stdin.buffer:
    message = json.loads(line)
    sid, text = message["session_id"], message.get("content")
    if message["type"] == "user.input" and text == "ask":
        say("permission.request", sid, request_id="r-1", tool="t", description="d", resource="r")
    elif message["type"] == "user.input" and text == "die":
        os._exit(3)
    elif message["type"] == "user.input":
        say("output", sid, content=text or "")
        say("turn.complete", sid)
    elif message["type"] == "permission.response":
        say("output", sid, content=json.dumps(message["approved"]))
    elif message["type"] == "stop":
        say("turn.complete", sid)
"#;

struct Host {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    fn start(flags: &[&str]) -> Self {
        let adapter = format!("python3 -c {}", shell_words::quote(ADAPTER));
        let mut child = Command::new(env!("CARGO_BIN_EXE_broken-host"))
            .args(["--adapter", &adapter])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the host starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("the host reads");
    }

    fn input(&mut self, text: &str) -> Vec<Value> {
        self.write(&json!({"type": "user.input", "session_id": "s", "content": text}));
        self.until("turn.complete")
    }

    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).expect("text"),
                0,
                "no {kind} after {heard:?}"
            );
            let message: Value = serde_json::from_str(&line).expect("JSON");
            heard.push(message);
            if heard[heard.len() - 1]["type"] == kind {
                return heard;
            }
        }
    }

    /// Ends stdin; the host is gone within the bound of [relay.9].
    fn end(mut self) {
        drop(self.stdin);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if let Some(status) = self.child.try_wait().expect("a status") {
                assert!(status.success(), "{status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        panic!("the host lives on");
    }
}

fn serves(flags: &[&str]) {
    let mut host = Host::start(flags);
    host.write(&json!({"type": "session.start", "session_id": "s"}));
    let heard = host.input("a\u{2028}b");
    assert_eq!(
        (heard.len(), &heard[0]["content"]),
        (2, &json!("a\u{2028}b")),
        "{flags:?}"
    );
    host.write(&json!({"type": "user.input", "session_id": "s", "content": "ask"}));
    host.until("permission.request");
    host.write(
        &json!({"type": "permission.response", "session_id": "s", "request_id": "r-1", "approved": "true"}),
    );
    assert_eq!(host.until("output")[0]["content"], "false", "{flags:?}");
    host.write(&json!({"type": "stop", "session_id": "s"}));
    host.until("turn.complete");
    let heard = host.input("die");
    assert_eq!(heard[0]["channel"], "system", "{flags:?}");
    if flags != ["--variant", "VH-10"] {
        let heard = host.input("back");
        assert_eq!(heard[heard.len() - 2]["content"], "back", "{flags:?}");
    }
    host.end();
}

#[test]
fn the_reference_serves_a_hub_through_a_crash() {
    serves(&[]);
}

#[test]
fn every_variant_serves_a_hub_through_a_crash() {
    for number in 1..=16 {
        serves(&["--variant", &format!("VH-{number:02}")]);
    }
}

#[test]
fn the_table_names_every_switch_and_no_other() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/hosts.toml"))
        .expect("a table");
    let table: toml::Table = table.parse().expect("TOML");
    let out = Command::new(env!("CARGO_BIN_EXE_broken-host"))
        .arg("--list")
        .output()
        .expect("a list");
    let list = String::from_utf8(out.stdout).expect("text");
    let mut known: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let entries = ["mutant", "variant"]
        .into_iter()
        .flat_map(|kind| table[kind].as_array().expect("a list"));
    let mut named: Vec<&str> = entries
        .filter(|entry| entry.get("command").is_none())
        .map(|entry| entry["name"].as_str().expect("a name"))
        .collect();
    known.sort();
    named.sort();
    assert_eq!(known, named);
}

#[test]
fn a_switch_changes_what_the_reference_does() {
    let mut host = Host::start(&["--mutant", "denial-empty"]);
    host.write(&json!({"type": "session.start", "session_id": "s"}));
    host.write(&json!({"type": "user.input", "session_id": "s", "content": "ask"}));
    host.until("permission.request");
    host.write(
        &json!({"type": "permission.response", "session_id": "s", "request_id": "r-1", "approved": false}),
    );
    // The adapter fails at the missing member, and the host ends its turn.
    let heard = host.until("turn.complete");
    assert_eq!(heard[0]["channel"], "system");
    host.end();
}
