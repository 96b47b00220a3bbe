//! A host of a few lines: writes messages, and waits for those that it expects.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Timeout of everything here.
const DEADLINE: Duration = Duration::from_secs(20);

/// An adapter, from its host's side.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Value>,
    /// Messages for other sessions than the awaited one.
    aside: VecDeque<Value>,
}

impl Peer {
    /// The reference, which does scripts.
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_broken-adapter"))
            .env("CONFORM_PROBE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, receive) = sync_channel(1024);
        std::thread::spawn(move || {
            for line in stdout.split(b'\n') {
                let message = serde_json::from_slice(&line.unwrap()).unwrap();
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            stdout: receive,
            aside: VecDeque::new(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// A `session.start` that offers these.
    pub(crate) fn open(&mut self, session: &str, extensions: &[&str]) {
        match extensions {
            [] => self.send(json!({ "type": "session.start", "session_id": session })),
            _ => self.send(
                json!({ "type": "session.start", "session_id": session, "extensions": extensions }),
            ),
        }
    }

    /// A message of this type with these members.
    pub(crate) fn tell(&mut self, kind: &str, session: &str, members: Value) {
        let mut message = json!({ "type": kind, "session_id": session });
        for (name, value) in members.as_object().unwrap() {
            message[name] = value.clone();
        }
        self.send(message);
    }

    pub(crate) fn input(&mut self, session: &str, content: &str) {
        self.tell("user.input", session, json!({ "content": content }));
    }

    pub(crate) fn script(&mut self, session: &str, steps: Value) {
        self.input(session, &json!({ "$probe": 1, "do": steps }).to_string());
    }

    /// The next message of a session.
    pub(crate) fn next(&mut self, session: &str) -> Value {
        if let Some(at) = self
            .aside
            .iter()
            .position(|message| message["session_id"] == session)
        {
            return self.aside.remove(at).unwrap();
        }
        let until = Instant::now() + DEADLINE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.stdout.recv_timeout(left).unwrap();
            if message["session_id"] == session {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    /// All of a session up to the end of a turn.
    pub(crate) fn turn(&mut self, session: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.next(session));
            if messages.last().unwrap()["type"] == "turn.complete" {
                return messages;
            }
        }
    }

    /// Returns the data output of a script.
    pub(crate) fn data(&mut self, session: &str, steps: Value) -> Value {
        self.script(session, steps);
        serde_json::from_str(&text(&self.turn(session))).unwrap()
    }

    /// Shows that all is read that was written, and returns what came meanwhile for a session.
    pub(crate) fn fence(&mut self, session: &str) -> Vec<Value> {
        self.open("fence", &[]);
        self.input("fence", "?");
        self.turn("fence");
        self.tell("session.close", "fence", json!({}));
        let (of_session, others) = self
            .aside
            .drain(..)
            .partition(|message| message["session_id"] == session);
        self.aside = others;
        Vec::from_iter::<VecDeque<Value>>(of_session)
    }

    /// Closes stdin, and returns the messages until the end.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<Value>) {
        drop(self.stdin.take());
        let rest = std::iter::from_fn(|| self.stdout.recv_timeout(DEADLINE).ok());
        let rest = self
            .aside
            .drain(..)
            .collect::<Vec<_>>()
            .into_iter()
            .chain(rest)
            .collect();
        (self.child.wait().unwrap(), rest)
    }

    /// The memory that the process holds, in MiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
            / 1024
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer in a turn.
pub(crate) fn text(turn: &[Value]) -> String {
    let said = turn
        .iter()
        .filter(|message| message["type"] == "output" && message["channel"].is_null());
    said.filter_map(|message| message["content"].as_str())
        .collect()
}

/// The types of messages.
pub(crate) fn kinds(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| message["type"].as_str())
        .collect()
}
