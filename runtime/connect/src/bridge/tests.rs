//! The translation between a scripted host and frames of a hub, with paused time.

#![allow(
    clippy::needless_pass_by_value,
    reason = "frames are made where they are sent"
)]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf, duplex, split},
    time::sleep,
};
use trunkline_client::{ReconnectPolicy, Streams};

use super::*;
use crate::{RuntimeToken, TokenFile, ToolDenial};

mod limits;
mod lost;
mod requests;
mod turns;

/// A bridge with its two ends.
struct Ends {
    bridge: SessionBridge,
    /// Lines of the client that were not looked at.
    lines: Arc<Mutex<Vec<Value>>>,
    host: WriteHalf<DuplexStream>,
}

impl Ends {
    /// A host with the agents `a` and `b`, and a hub that has accepted the runtime `r`.
    async fn new() -> Self {
        Self::with(WhenLost::Deny).await
    }

    async fn with(lost: WhenLost) -> Self {
        let options = ConnectOptions {
            address: "ws://127.0.0.1:1".parse().unwrap(),
            token: RuntimeToken::File(TokenFile::new("none")),
            runtime_id: "r".to_owned(),
            org: None,
            bare_ids: false,
            tool_denial,
            agents: None,
            idle: Duration::from_secs(60),
            lost,
        };
        let (near, far) = duplex(64 * 1024);
        let (input, output) = split(near);
        let policy = ReconnectPolicy::default().fail_fast();
        let client = Client::connect_with(Streams::new(input, output), policy);
        let client = client.await.unwrap();
        let (input, host) = split(far);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = lines.clone();
        tokio::spawn(async move {
            let mut input = BufReader::new(input).lines();
            while let Ok(Some(line)) = input.next_line().await {
                read.lock()
                    .unwrap()
                    .push(serde_json::from_str(&line).unwrap());
            }
        });
        let files = UploadFolder::new().unwrap();
        let mut bridge = SessionBridge::new(options, client, files);
        bridge.set_agents(["a", "b"].map(agent).into());
        let mut ends = Self {
            bridge,
            lines,
            host,
        };
        ends.hub("hello.ack", json!({ "ok": true })).await;
        ends
    }

    /// Handles everything that is under way: time passes only when no task has work.
    async fn settle(&mut self) {
        loop {
            self.bridge.begin_calls();
            tokio::select! {
                Some(item) = self.bridge.host.next(true) => self.bridge.handle_item(item),
                () = sleep(Duration::from_millis(1)) => break,
            }
        }
    }

    /// Handles a frame of the hub.
    async fn hub(&mut self, kind: &str, payload: Value) -> FrameEffect {
        let frame = json!({ "type": kind, "payload": payload });
        let effect = self.bridge.handle_frame(&frame.to_string());
        self.settle().await;
        effect
    }

    /// Writes a line of the host.
    async fn host(&mut self, line: Value) {
        let line = format!("{line}\n");
        self.host.write_all(line.as_bytes()).await.unwrap();
        self.settle().await;
    }

    /// Takes the lines that the host has read.
    fn lines(&mut self) -> Vec<Value> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// Takes the frames for the hub, as type and payload.
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

    /// Takes the frames for the hub, each as a short text.
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

    /// Sets the time since the start.
    async fn at(&mut self, millis: u64) {
        self.bridge.at(Duration::from_millis(millis));
        self.bridge.tick();
        self.settle().await;
    }

    /// Opens the hub's session `s` at a host without a journal. Returns its id at the host.
    async fn open(&mut self) -> String {
        self.open_with(&["turns"]).await
    }

    async fn open_with(&mut self, extensions: &[&str]) -> String {
        let create = json!({ "session_id": "s", "agent_id": "r.a", "user_id": "u" });
        self.hub("session.create", create).await;
        let id = self.ready(extensions).await;
        assert_eq!(self.words(), ["created true"]);
        id
    }

    /// Answers the start of a session. Returns its id at the host.
    async fn ready(&mut self, extensions: &[&str]) -> String {
        let start = self.lines().pop().unwrap();
        assert_eq!(start["type"], "session.start");
        let id = start["session_id"].clone();
        self.host(json!({
            "type": "session.ready", "session_id": id, "protocol": 1, "extensions": extensions,
        }))
        .await;
        id.as_str().unwrap().to_owned()
    }

    /// Sends a message of a person. Returns the turn that it begins, if it begins one.
    async fn message(&mut self, id: &str, content: &str) -> Option<String> {
        self.hub("user.message", message(id, content)).await;
        self.lines()
            .last()
            .and_then(|line| Some(line["turn_id"].as_str()?.to_owned()))
    }

    async fn output(&mut self, wire: &str, turn: &str, content: &str) {
        self.host(
            json!({ "type": "output", "session_id": wire, "turn_id": turn, "content": content }),
        )
        .await;
    }

    async fn end(&mut self, wire: &str, turn: &str) {
        self.host(
            json!({ "type": "turn.complete", "session_id": wire, "turn_id": turn, "status": "completed" }),
        ).await;
    }
}

/// `codex` and `echo` represent agents whose adapter denies tools, and asks about every call.
fn tool_denial(profile: &str) -> Option<ToolDenial> {
    match profile {
        "codex" => Some(ToolDenial::Adapter),
        "echo" => Some(ToolDenial::Permission),
        _ => None,
    }
}

fn message(id: &str, content: &str) -> Value {
    json!({
        "session_id": "s", "message_id": id, "content": content, "agent_id": "r.a", "user_id": "u",
        "prompt_profile": "standard",
    })
}

fn agent(id: &str) -> AgentEntry {
    AgentEntry {
        id: id.to_owned(),
        profile: Some(if id == "b" { "echo" } else { "codex" }.to_owned()),
        ..AgentEntry::default()
    }
}
