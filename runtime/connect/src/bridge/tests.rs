//! The core against a host and a hub of a few lines.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are said"
)]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::*;

mod lost;
mod requests;
mod turns;

/// Files in memory.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>);

impl Files for Memory {
    fn keep(&mut self, session: &str, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = Path::new("/").join(session).join(name);
        self.0.lock().unwrap().insert(path.clone(), bytes.to_vec());
        Ok(path)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.0
            .lock()
            .unwrap()
            .get(path)
            .cloned()
            .ok_or_else(|| "there is none".to_owned())
    }

    fn forget(&mut self, session: &str) {
        self.0
            .lock()
            .unwrap()
            .retain(|path, _| !path.starts_with(Path::new("/").join(session)));
    }
}

/// A bridge with its two ends.
struct Ends {
    bridge: Bridge,
    files: Memory,
}

impl Ends {
    /// With a host that has the agents `a` and `b`, and a hub that has taken the runtime `r`.
    fn new() -> Self {
        Self::with(WhenLost::Deny)
    }

    fn with(lost: WhenLost) -> Self {
        let rules = Rules {
            runtime_id: "r".to_owned(),
            org: None,
            agents: None,
            idle: Duration::from_secs(60),
            lost,
        };
        let files = Memory::default();
        let mut ends = Self {
            bridge: Bridge::new(rules, Box::new(files.clone())),
            files,
        };
        ends.bridge.ask_agents();
        let asked = ends.lines();
        assert_eq!(asked[0]["type"], "agents.list");
        ends.host(json!({
            "type": "agents.list.result", "session_id": "", "request_id": "agents",
            "agents": [{ "id": "a", "capabilities": { "exec_model": "interactive" } }, { "id": "b" }],
        }));
        ends.hub("hello.ack", json!({ "ok": true }));
        ends
    }

    /// The hub says something.
    fn hub(&mut self, kind: &str, payload: Value) -> Heard {
        self.bridge
            .hub(&json!({ "type": kind, "payload": payload }).to_string())
    }

    /// The host says something.
    fn host(&mut self, line: Value) {
        self.bridge.host(&line.to_string());
    }

    /// What the host has been sent since.
    fn lines(&mut self) -> Vec<Value> {
        let said = String::from_utf8(std::mem::take(&mut self.bridge.said)).unwrap();
        said.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// What the hub has been sent since, as type and payload.
    fn frames(&mut self) -> Vec<(String, Value)> {
        let texts = std::iter::from_fn(|| self.bridge.out.next());
        let frames = texts.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        frames
            .map(|frame| {
                (
                    frame["type"].as_str().unwrap().to_owned(),
                    frame["payload"].clone(),
                )
            })
            .collect()
    }

    /// The same, as short words: the type, and what matters of it.
    fn words(&mut self) -> Vec<String> {
        let word = |(kind, payload): (String, Value)| {
            let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
            match kind.as_str() {
                "agent.output" => format!("{}: {}", text("channel"), text("content")),
                "turn.started" => format!("started {}", text("in_response_to")),
                "turn.completed" => format!(
                    "completed {} {}",
                    text("in_response_to"),
                    payload["exit_code"]
                ),
                "session.created" => format!("created {} {}", payload["ok"], text("error"))
                    .trim()
                    .to_owned(),
                _ => kind,
            }
        };
        self.frames().into_iter().map(word).collect()
    }

    fn at(&mut self, millis: u64) {
        self.bridge.at(Duration::from_millis(millis));
        self.bridge.tick();
    }

    /// Opens the hub's session `s` and gives its id at the host.
    fn open(&mut self) -> String {
        self.hub(
            "session.create",
            json!({ "session_id": "s", "agent_id": "r.a", "user_id": "u" }),
        );
        let wire = self.lines()[0]["session_id"].as_str().unwrap().to_owned();
        self.host(
            json!({ "type": "session.ready", "session_id": wire, "protocol": 1, "extensions": ["turns"] }),
        );
        assert_eq!(self.words(), ["created true"]);
        wire
    }

    /// A person says something. Gives the turn that it begins, where it begins one.
    fn message(&mut self, id: &str, content: &str) -> Option<String> {
        self.hub("user.message", message(id, content));
        self.lines()
            .last()
            .and_then(|line| Some(line["turn_id"].as_str()?.to_owned()))
    }

    fn output(&mut self, wire: &str, turn: &str, content: &str) {
        self.host(
            json!({ "type": "output", "session_id": wire, "turn_id": turn, "content": content }),
        );
    }

    fn end(&mut self, wire: &str, turn: &str) {
        self.host(
            json!({ "type": "turn.complete", "session_id": wire, "turn_id": turn, "status": "completed" }),
        );
    }
}

fn message(id: &str, content: &str) -> Value {
    json!({
        "session_id": "s", "message_id": id, "content": content, "agent_id": "r.a", "user_id": "u",
        "prompt_profile": "standard",
    })
}
