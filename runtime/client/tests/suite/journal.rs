//! A host with a journal in memory: it answers as the clauses of the journal want, and cuts its
//! connections.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use trunkline_client::{Connect, ConnectError, Pipe};

use super::script::{entry, id_of};

/// The bytes of a direction after which a connection breaks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cut {
    pub(crate) read: Option<usize>,
    pub(crate) written: Option<usize>,
}

/// A session and its journal.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<Value>,
    inputs: HashMap<String, (Value, u64)>,
    running: Option<Value>,
    pub(crate) updates: usize,
    pub(crate) is_closed: bool,
    id: String,
    /// Bytes of the last connection: read, written.
    pub(crate) bytes: (usize, usize),
}

impl Journal {
    fn add(&mut self, kind: &str, more: &Value) -> u64 {
        let seq = self.entries.len() as u64 + 1;
        let entry = entry(&self.id, seq, kind, more);
        self.entries.push(entry);
        seq
    }

    fn input(&mut self, message: &Value) -> Value {
        let message_id = message["message_id"].as_str().unwrap().to_owned();
        let answer = |turn: &Value, seq: u64, duplicate: bool, id: &str| {
            json!({"type": "input.result", "session_id": id, "turn_id": turn,
                "message_id": message["message_id"], "seq": seq, "duplicate": duplicate})
        };
        if let Some((turn, seq)) = self.inputs.get(&message_id) {
            return answer(turn, *seq, true, &self.id);
        }
        let turn = message["turn_id"].clone();
        let content = message["content"].clone();
        if message["mode"] == "steer" {
            let steered = json!({"turn_id": turn, "message_id": message_id, "content": content});
            let seq = self.add("input.steered", &steered);
            let result = json!({"turn_id": turn, "message_id": message_id, "delivered": true});
            self.add("steer.result", &result);
            self.inputs.insert(message_id, (turn.clone(), seq));
            return answer(&turn, seq, false, &self.id);
        }
        let begin = json!({"turn_id": turn, "message_id": message_id, "content": content});
        let seq = self.add("turn.begin", &begin);
        self.inputs.insert(message_id, (turn.clone(), seq));
        match content.as_str().unwrap() {
            "ask" => {
                let request = json!({"turn_id": turn, "request_id": "r", "tool": "t",
                    "description": "d", "resource": "x"});
                self.add("permission.request", &request);
                self.running = Some(turn.clone());
            }
            "wait" => self.running = Some(turn.clone()),
            text => {
                self.add("output", &json!({"turn_id": turn, "content": text}));
                self.add("turn.complete", &json!({"turn_id": turn}));
            }
        }
        answer(&turn, seq, false, &self.id)
    }

    fn end(&mut self, status: &str) {
        if let Some(turn) = self.running.take() {
            self.add("turn.complete", &json!({"turn_id": turn, "status": status}));
        }
    }

    fn is_open(&self, request: &Value) -> bool {
        let of = |kind: &str| {
            let is_of = |entry: &&Value| entry["type"] == kind && entry["request_id"] == *request;
            self.entries.iter().filter(is_of).count()
        };
        of("permission.request") > of("request.decided")
    }
}

/// A connection: the last entry that it wrote, if it has the session.
struct Link {
    journal: Arc<Mutex<Journal>>,
    position: Option<usize>,
    out: Vec<u8>,
}

impl Link {
    fn put(&mut self, message: &Value) {
        self.out
            .extend_from_slice(format!("{message}\n").as_bytes());
    }

    fn take(&mut self, message: &Value) {
        let shared = self.journal.clone();
        let mut journal = shared.lock().unwrap();
        let id = message["session_id"].clone();
        match message["type"].as_str().unwrap() {
            "session.start" if journal.entries.is_empty() => {
                journal.id = id_of(message);
                journal.add("host.fact", &json!({"fact": "opened"}));
                self.put(
                    &json!({"type": "session.ready", "session_id": id, "protocol": 1,
                    "extensions": message["extensions"]}),
                );
                self.position = Some(0);
            }
            "session.start" => {
                self.put(&json!({"type": "session.refused", "session_id": id, "reason": "exists"}))
            }
            "session.attach" => {
                let after = message["after"].as_u64().unwrap();
                let state = if journal.is_closed { "closed" } else { "idle" };
                let requests: Vec<_> = [json!("r")]
                    .into_iter()
                    .filter(|id| journal.is_open(id))
                    .collect();
                self.put(
                    &json!({"type": "session.attached", "session_id": id, "agent_id": "a",
                    "state": state, "first_seq": 1, "last_seq": journal.entries.len(),
                    "turn_id": journal.running, "requests": requests, "epoch": 1}),
                );
                self.position = Some(usize::try_from(after).unwrap());
            }
            "user.input" => {
                let answer = journal.input(message);
                self.put(&answer);
            }
            "permission.response" if journal.is_open(&message["request_id"]) => {
                let decided = json!({"request_id": message["request_id"],
                    "approved": message["approved"]});
                journal.add("request.decided", &decided);
                journal.end("completed");
            }
            "stop" if journal.running.as_ref() == Some(&message["turn_id"]) => {
                journal.add("stop.requested", &json!({"turn_id": message["turn_id"]}));
                journal.end("stopped");
            }
            "session.update" => {
                journal.updates += 1;
                self.put(&json!({"type": "session.info", "session_id": id,
                    "model": message["model"]}));
            }
            "session.close" => {
                self.position = None;
                if !journal.is_closed {
                    journal.is_closed = true;
                    journal.add("session.closed", &json!({"reason": "finished"}));
                }
            }
            _ => {}
        }
        if let Some(position) = self.position {
            for entry in &journal.entries[position..] {
                self.out.extend_from_slice(format!("{entry}\n").as_bytes());
            }
            self.position = Some(journal.entries.len());
        }
    }
}

async fn serve(stream: DuplexStream, journal: Arc<Mutex<Journal>>, cut: Cut) {
    let (mut input, mut output) = split(stream);
    let mut link = Link {
        journal: journal.clone(),
        position: None,
        out: Vec::new(),
    };
    let mut unread = Vec::new();
    let mut read = 0;
    let mut written = 0;
    loop {
        let mut chunk = [0; 4096];
        let room = cut
            .read
            .map_or(chunk.len(), |limit| (limit - read).min(chunk.len()));
        if room == 0 {
            return;
        }
        let Ok(bytes @ 1..) = input.read(&mut chunk[..room]).await else {
            return;
        };
        read += bytes;
        unread.extend_from_slice(&chunk[..bytes]);
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = unread.drain(..=end).collect();
            link.take(&serde_json::from_slice(&line).unwrap());
        }
        let limit = cut.written.unwrap_or(usize::MAX) - written;
        let out = std::mem::take(&mut link.out);
        if output
            .write_all(&out[..out.len().min(limit)])
            .await
            .is_err()
            || out.len() > limit
        {
            return;
        }
        written += out.len();
        journal.lock().unwrap().bytes = (read, written);
    }
}

/// Connections to the journal: the first ones break, as the cuts list, and later ones do not.
pub(crate) struct Journaled {
    pub(crate) journal: Arc<Mutex<Journal>>,
    pub(crate) cuts: VecDeque<Cut>,
}

impl Connect for Journaled {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let (near, far) = duplex(1 << 20);
        let cut = self.cuts.pop_front().unwrap_or_default();
        tokio::spawn(serve(far, self.journal.clone(), cut));
        let (input, output) = split(near);
        Ok(Pipe::new(input, output))
    }
}
