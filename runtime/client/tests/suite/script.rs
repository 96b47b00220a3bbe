//! A host whose lines a test writes and reads one by one.

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
    },
    sync::mpsc,
    time::timeout,
};
use trunkline_client::{Connect, ConnectError, Pipe, protocol::SessionId};

/// Bytes on their way between client and host.
const ROOM: usize = 64 * 1024;

/// The time after which a host that waits for a line fails the test. Time is paused.
const SILENCE: Duration = Duration::from_secs(600);

/// The host's end of one connection.
pub(crate) struct Script {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
}

impl Script {
    fn pair() -> (Pipe, Self) {
        let (near, far) = duplex(ROOM);
        let (input, output) = split(near);
        let pipe = Pipe::new(input, output);
        let (input, output) = split(far);
        let input = BufReader::new(input);
        (pipe, Self { input, output })
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.write_raw(format!("{message}\n").as_bytes()).await;
    }

    /// Writes to a client that may have closed the connection.
    pub(crate) async fn write_raw(&mut self, bytes: &[u8]) {
        let _ = self.output.write_all(bytes).await;
    }

    /// The next line of the client. `None` at its end.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(SILENCE, self.input.read_line(&mut line)).await;
        read.expect("the client writes a line").ok()?;
        serde_json::from_str(&line).ok()
    }

    /// The next line, which must be of this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let line = self.read().await.expect("the client writes a line");
        assert_eq!(line["type"], kind, "{line}");
        line
    }

    /// Answers the start of a session. Returns its id.
    pub(crate) async fn ready(&mut self, extensions: &[&str]) -> String {
        let id = id_of(&self.expect("session.start").await);
        self.write(
            &json!({"type": "session.ready", "session_id": id, "protocol": 1,
            "extensions": extensions, "max_line": 2_000_000}),
        )
        .await;
        id
    }

    /// Answers an attach. Returns the message.
    pub(crate) async fn attached(&mut self, last_seq: u64, more: &Value) -> Value {
        let attach = self.expect("session.attach").await;
        let mut attached = json!({"type": "session.attached", "session_id": attach["session_id"],
            "agent_id": "echo", "state": "idle", "role": "control", "first_seq": 1,
            "last_seq": last_seq, "epoch": 1});
        let members = attached.as_object_mut().unwrap();
        members.extend(more.as_object().cloned().unwrap_or_default());
        self.write(&attached).await;
        attach
    }
}

pub(crate) fn id_of(message: &Value) -> String {
    message["session_id"].as_str().unwrap().to_owned()
}

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// An entry of a session.
pub(crate) fn entry(id: &str, seq: u64, kind: &str, more: &Value) -> Value {
    let mut entry = json!({"type": kind, "session_id": id});
    let members = entry.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    members.insert("seq".to_owned(), json!(seq));
    members.insert("epoch".to_owned(), json!(1));
    entry
}

/// Connections to scripted hosts: each attempt succeeds, or fails as the test wants.
pub(crate) struct Scripts {
    hosts: mpsc::Sender<Script>,
    failures: VecDeque<ConnectError>,
    is_over: bool,
    is_remote: bool,
}

impl Scripts {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Script>) {
        let (hosts, scripts) = mpsc::channel(16);
        let scripted = Self {
            hosts,
            failures: VecDeque::new(),
            is_over: false,
            is_remote: false,
        };
        (scripted, scripts)
    }

    /// Fails after the first connection: with these, then with the last of them.
    pub(crate) fn then(mut self, failures: impl IntoIterator<Item = ConnectError>) -> Self {
        self.failures.extend(failures);
        self
    }

    pub(crate) fn over_network(mut self) -> Self {
        self.is_remote = true;
        self
    }
}

impl Connect for Scripts {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        if self.is_over && !self.failures.is_empty() {
            let failure = self.failures[0].clone();
            if self.failures.len() > 1 {
                self.failures.pop_front();
            }
            return Err(failure);
        }
        self.is_over = true;
        let (pipe, script) = Script::pair();
        let ended = |_| ConnectError::permanent("the test is over");
        self.hosts.send(script).await.map_err(ended)?;
        Ok(if self.is_remote {
            pipe.over_network()
        } else {
            pipe
        })
    }
}
