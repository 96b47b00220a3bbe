//! A running stub, and what it has logged.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// A stub with its script and log in a private folder.
pub(super) struct Stub {
    pub(super) child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) lines: Receiver<Vec<u8>>,
    pub(super) folder: TempDir,
}

impl Stub {
    pub(super) fn start(script: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        Self::start_in(folder)
    }

    pub(super) fn start_in(folder: TempDir) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
            .arg("stub")
            .arg("--script")
            .arg(folder.path().join("script.json"))
            .arg("--log")
            .arg(folder.path().join("log.jsonl"))
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            lines: read(child.stdout.take().unwrap()),
            child,
            folder,
        }
    }

    pub(super) fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    pub(super) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub(super) fn open(&mut self, id: &str) {
        self.send(json!({"type": "session.start", "session_id": id}));
    }

    pub(super) fn input(&mut self, id: &str, content: &str) {
        self.send(json!({"type": "user.input", "session_id": id, "content": content}));
    }

    pub(super) fn instruct(&mut self, id: &str, actions: Value) {
        let content = json!({"$stub": actions, "as": format!("the {id}")});
        self.input(id, &content.to_string());
    }

    pub(super) fn cue(&self, name: &str) {
        trunkline_conformance::give_cue(&self.folder.path().join("log.jsonl"), name).unwrap();
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    pub(super) fn next(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    pub(super) fn expect(&self, message: Value) {
        assert_eq!(self.next(), message);
    }

    /// Nothing more comes before the end of stdout.
    pub(super) fn expect_end(&self) {
        let end = self.lines.recv_timeout(DEADLINE);
        assert_eq!(end.unwrap_err(), RecvTimeoutError::Disconnected);
    }

    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(super) fn exit(&mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the stub has not ended");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("log.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text[..whole]
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(super) fn logged(&self, event: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|record| record["ev"] == event);
        log
    }

    /// Waits until the log has an event.
    pub(super) fn until_logged(&self, event: &str) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(record) = self.logged(event).pop() {
                return record;
            }
            assert!(Instant::now() < until, "no {event} in the log");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, lines) = sync_channel(1024);
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            let n = reader.read_until(b'\n', &mut line).unwrap_or(0);
            if n == 0 || sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

pub(super) fn output(id: &str, content: &str) -> Value {
    json!({"type": "output", "session_id": id, "content": content})
}

pub(super) fn complete(id: &str) -> Value {
    json!({"type": "turn.complete", "session_id": id})
}
