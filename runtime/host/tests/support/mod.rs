//! An adapter that a test plays itself over an in-memory pipe, or that is a shell script.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod stage;

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split},
    sync::mpsc,
};
use trunkline_host::{
    Host, HostBuilder, SessionOptions,
    config::{AgentConfig, Command},
    protocol::SessionId,
};

/// The adapter's end of the pipe.
pub struct Peer {
    input: BufReader<ReadHalf<DuplexStream>>,
    pub output: WriteHalf<DuplexStream>,
}

/// A host with one agent `a` that the test plays; each start of the agent yields a [`Peer`].
pub fn played(agent: AgentConfig, pipe: usize) -> (Host, mpsc::Receiver<Peer>) {
    played_with(Host::builder(), agent, pipe)
}

pub fn played_with(
    builder: HostBuilder,
    agent: AgentConfig,
    pipe: usize,
) -> (Host, mpsc::Receiver<Peer>) {
    let (peers, started) = mpsc::channel(16);
    let host = builder.agent_over(agent, move || {
        let (host, adapter) = tokio::io::duplex(pipe);
        peers.try_send(Peer::new(adapter)).expect("few starts");
        split(host)
    });
    (host.build().expect("a host"), started)
}

pub fn agent() -> AgentConfig {
    AgentConfig::external("a", "played")
}

/// An agent to which nothing is offered.
pub fn core_agent() -> AgentConfig {
    let mut agent = agent();
    agent.extensions = Some(Vec::new());
    agent
}

/// An agent that runs a shell script.
pub fn script(text: &str) -> AgentConfig {
    let mut agent = AgentConfig::external("sh", Command::new("sh").args(["-c", text]));
    agent.extensions = Some(Vec::new());
    agent
}

/// A session of this id.
pub fn named(id: &str) -> SessionOptions {
    SessionOptions {
        id: Some(SessionId::new(id).expect("an id")),
        ..SessionOptions::default()
    }
}

impl Peer {
    pub fn new(adapter: DuplexStream) -> Self {
        let (input, output) = split(adapter);
        Self {
            input: BufReader::new(input),
            output,
        }
    }

    /// The next line that the host wrote; nothing at the end.
    pub async fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let bytes = soon(self.input.read_line(&mut line))
            .await
            .expect("the pipe can be read");
        (bytes > 0).then(|| line.trim_end().to_owned())
    }

    /// The next message of this type; others are passed over.
    pub async fn read(&mut self, kind: &str) -> Value {
        loop {
            let line = self
                .read_line()
                .await
                .unwrap_or_else(|| panic!("{kind} before the end"));
            let message: Value = serde_json::from_str(&line).expect("the host writes JSON");
            if message["type"] == kind {
                return message;
            }
        }
    }

    pub async fn write(&mut self, text: &str) {
        soon(self.output.write_all(text.as_bytes()))
            .await
            .expect("the host reads");
    }

    pub async fn say(&mut self, kind: &str, session: &str, more: &str) {
        self.write(&format!(
            "{{\"type\":\"{kind}\",\"session_id\":\"{session}\"{more}}}\n"
        ))
        .await;
    }

    /// Answers every input of every session with its own text, until the host hangs up.
    pub async fn echo(mut self) {
        while let Some(line) = self.read_line().await {
            let message: Value = serde_json::from_str(&line).expect("the host writes JSON");
            let session = message["session_id"].as_str().expect("an id").to_owned();
            if message["type"] == "user.input" {
                let content = message["content"].to_string();
                self.say("output", &session, &format!(",\"content\":{content}"))
                    .await;
                self.say("turn.complete", &session, "").await;
            }
        }
    }
}

/// Fails a test that hangs, on the test's own clock.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future)
        .await
        .expect("this does not hang")
}
