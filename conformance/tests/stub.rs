//! The stub over real pipes.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panics")]
#![allow(clippy::needless_pass_by_value, reason = "a literal message reads best by value")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A stub with its script and log in a private folder.
struct Stub {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    folder: TempDir,
}

impl Stub {
    fn start(script: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        Self::start_in(folder)
    }

    fn start_in(folder: TempDir) -> Self {
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
        Self { stdin: child.stdin.take(), lines: read(child.stdout.take().unwrap()), child, folder }
    }

    fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    fn open(&mut self, id: &str) {
        self.send(json!({"type": "session.start", "session_id": id}));
    }

    fn input(&mut self, id: &str, content: &str) {
        self.send(json!({"type": "user.input", "session_id": id, "content": content}));
    }

    fn instruct(&mut self, id: &str, actions: Value) {
        let content = json!({"$stub": actions, "as": format!("the {id}")});
        self.input(id, &content.to_string());
    }

    fn cue(&self, name: &str) {
        trunkline_conformance::give_cue(&self.folder.path().join("log.jsonl"), name).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    fn next(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    fn expect(&self, message: Value) {
        assert_eq!(self.next(), message);
    }

    /// Nothing more comes before the end of stdout.
    fn expect_end(&self) {
        let end = self.lines.recv_timeout(PATIENCE);
        assert_eq!(end.unwrap_err(), RecvTimeoutError::Disconnected);
    }

    fn close_stdin(&mut self) {
        self.stdin = None;
    }

    fn exit(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the stub has not ended");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("log.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text[..whole].lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn logged(&self, event: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|record| record["ev"] == event);
        log
    }

    /// Waits until the log has an event.
    fn until_logged(&self, event: &str) -> Value {
        let until = Instant::now() + PATIENCE;
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

fn output(id: &str, content: &str) -> Value {
    json!({"type": "output", "session_id": id, "content": content})
}

fn complete(id: &str) -> Value {
    json!({"type": "turn.complete", "session_id": id})
}

#[test]
fn plain_content_is_echoed_and_logged() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.input("a", "hello\u{2028}there");
    stub.expect(output("a", "hello\u{2028}there"));
    stub.expect(complete("a"));
    stub.close_stdin();
    assert_eq!(stub.exit().code(), Some(0));
    let start = &stub.logged("start")[0];
    assert_eq!((&start["start"], &start["n"]), (&json!(1), &json!(1)));
    assert_eq!(stub.logged("in").len(), 2);
    let out: Vec<Value> = stub.logged("out");
    assert_eq!(out[0]["line"].as_str().unwrap().matches("\\u2028").count(), 1);
    assert_eq!(stub.logged("exit")[0]["code"], 0);
    let numbers: Vec<u64> = stub.log().iter().map(|r| r["n"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted());
    let read = stub.logged("in")[1]["t"].as_u64();
    assert!(read < out[0]["t"].as_u64());
}

#[test]
fn inputs_of_a_session_queue_and_sessions_do_not() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.open("b");
    stub.instruct("a", json!([["wait", "file.input"], ["say", "one"], ["complete"]]));
    stub.input("a", "two");
    stub.input("b", "meanwhile");
    stub.expect(output("b", "meanwhile"));
    stub.expect(complete("b"));
    stub.send(json!({"type": "file.input", "session_id": "a", "file_path": "/x"}));
    for message in [output("a", "one"), complete("a"), output("a", "two"), complete("a")] {
        stub.expect(message);
    }
}

#[test]
fn stop_ends_an_open_turn_and_an_idle_stop_is_silent() {
    let mut stub = Stub::start(json!({"extensions": ["turns", "flow"]}));
    stub.send(
        json!({"type": "session.start", "session_id": "a", "protocol": 1, "extensions": ["turns", "events"]}),
    );
    let ready = stub.next();
    assert_eq!((&ready["type"], &ready["extensions"]), (&json!("session.ready"), &json!(["turns"])));
    let input = |turn: &str, content: &str| json!({"type": "user.input", "session_id": "a", "turn_id": turn, "content": content});
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.send(input("t1", r#"{"$stub":[["say","busy"],["delay",60000],["say","never"]]}"#));
    stub.send(input("t2", "queued"));
    stub.send(input("t3", "last"));
    assert_eq!(stub.next()["turn_id"], "t1");
    stub.send(json!({"type": "stop", "session_id": "a", "turn_id": "t2"}));
    stub.expect(json!({"type": "turn.complete", "session_id": "a", "turn_id": "t2", "status": "stopped"}));
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.expect(json!({"type": "turn.complete", "session_id": "a", "turn_id": "t1", "status": "stopped"}));
    assert_eq!(stub.next()["content"], "last");
    assert_eq!(stub.next()["turn_id"], "t3");
    stub.close_stdin();
    stub.expect_end();
}

#[test]
fn a_stop_right_after_its_input_is_not_lost() {
    let mut stub = Stub::start(json!({}));
    for i in 0..50 {
        let id = format!("s{i}");
        let start = json!({"type": "session.start", "session_id": id});
        let input = json!({"type": "user.input", "session_id": id, "content": r#"{"$stub":[]}"#});
        let stop = json!({"type": "stop", "session_id": id});
        stub.send_raw(format!("{start}\n{input}\n{stop}\n").as_bytes());
        stub.expect(complete(&id));
    }
}

#[test]
fn actions_reach_other_sessions_also_after_their_close() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["later", 0, [["until", "closed"], ["say", "background"]]], ["complete"]]));
    stub.expect(complete("a"));
    stub.send(json!({"type": "session.close", "session_id": "a"}));
    stub.cue("closed");
    stub.expect(output("a", "background"));
    stub.open("b");
    stub.instruct(
        "b",
        json!([["to", "the a", [["say", "late"]]], ["session", "zz", [["say", "foreign"]]], ["complete"]]),
    );
    stub.expect(output("a", "late"));
    stub.expect(output("zz", "foreign"));
    stub.expect(complete("b"));
}

#[test]
fn a_wait_takes_what_came_since_its_turn_began_once() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.send(
        json!({"type": "permission.response", "session_id": "a", "request_id": "r2", "approved": true}),
    );
    stub.instruct(
        "a",
        json!([
            ["ask", {"request_id": "r1", "tool": "t", "description": "d", "resource": "r"}],
            ["wait", "permission.response", "r1"],
            ["wait", "permission.response", 1],
            ["complete"]
        ]),
    );
    assert_eq!(stub.next()["type"], "permission.request");
    stub.send(
        json!({"type": "permission.response", "session_id": "a", "request_id": "r1", "approved": true}),
    );
    stub.expect(complete("a"));
    assert_eq!(stub.logged("timeout").len(), 1);
}

#[test]
fn bytes_are_written_as_they_are() {
    let mut stub = Stub::start(
        json!({"at_start": [["raw", "banner\n"]], "lists": {"one": [["many", [{"type": "one"}]]]}}),
    );
    assert_eq!(stub.bytes(), b"banner\n");
    stub.open("a");
    stub.instruct(
        "a",
        json!([
            ["raw", "{\"type\":\"output\",\"session_id\":\"{session_id}\",\"content\":\"x\"}\r\n"],
            ["raw64", "/wo="],
            ["split", {"type": "output", "content": "ä€😀"}, "chars", 1],
            ["bytewise", "{\"a\":1}\n", 100],
            ["do", "one"], ["many", [{"type": "two", "session_id": null}]],
            ["raw", "{\"half\":"], ["raw", "1}\n"],
            ["endless", 100000], ["raw", "\"}\n"],
            ["complete"]
        ]),
    );
    assert_eq!(stub.bytes(), b"{\"type\":\"output\",\"session_id\":\"a\",\"content\":\"x\"}\r\n");
    assert_eq!(stub.bytes(), [0xff, 0x0a]);
    stub.expect(output("a", "ä€😀"));
    assert_eq!(stub.bytes(), b"{\"a\":1}\n");
    stub.expect(json!({"type": "one", "session_id": "a"}));
    stub.expect(json!({"type": "two"}));
    stub.expect(json!({"half": 1}));
    let endless = stub.next();
    assert_eq!(endless["content"].as_str().unwrap().len(), 100_000);
    stub.expect(complete("a"));
    assert_eq!(stub.logged("raw64").len(), 1);
    let halves = stub.logged("raw");
    assert_eq!(halves[1]["text"], "{\"half\":");
    assert_eq!(stub.logged("endless")[0]["len"], 100_000);
}

#[test]
fn a_burst_is_numbered_and_logged_in_sums() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["burst", 3000, 100, "log"], ["flood", 200_000, 100_000], ["complete"]]));
    for i in 1..=3000 {
        let message = stub.next();
        let content = message["content"].as_str().unwrap();
        assert_eq!((&content[..8], content.len()), (format!("{i:08}").as_str(), 100));
        assert_eq!(message["channel"], "log");
    }
    for _ in 0..2 {
        assert_eq!(stub.next()["content"].as_str().unwrap().len(), 100_000);
    }
    stub.expect(complete("a"));
    let bursts = stub.logged("burst");
    let sum: u64 = bursts.iter().map(|r| r["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 3002);
    assert!(bursts.len() < 20);
}

#[test]
fn a_long_line_is_logged_by_its_digest() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.input("a", &"y".repeat(5000));
    stub.expect(output("a", &"y".repeat(5000)));
    stub.expect(complete("a"));
    let out = &stub.logged("out")[0];
    assert_eq!((&out["type"], &out["len"]), (&json!("output"), &json!(5000)));
    assert_eq!(out["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn files_are_written_announced_and_reported() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct(
        "a",
        json!([
            ["file", "../x", "text/plain", 20_000],
            ["mkfifo", "{tmpdir}/fifo"],
            ["report_file", "{tmpdir}/fifo"],
            ["write_file", "{tmpdir}/w", 5],
            ["symlink", "{tmpdir}/w", "{tmpdir}/l"],
            ["hardlink", "{tmpdir}/w", "{tmpdir}/h"],
            ["report_file", "{tmpdir}/l"],
            ["file_at", "{tmpdir}/h"],
            ["complete"]
        ]),
    );
    let file = stub.next();
    assert_eq!((&file["file_name"], &file["file_mime_type"]), (&json!("../x"), &json!("text/plain")));
    let path = file["file_path"].as_str().unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), 20_000);
    let other = stub.next();
    assert_eq!((other.get("file_name"), other["type"].as_str()), (None, Some("file.output")));
    stub.expect(complete("a"));
    let reports = stub.logged("report");
    assert_eq!(reports[0]["error"], "not a regular file");
    let written = stub.logged("file");
    assert_eq!(reports[1]["sha256"], written[1]["sha256"]);
    assert_ne!(written[0]["sha256"], written[1]["sha256"]);
}

#[test]
fn held_stdin_is_not_read() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct(
        "a",
        json!([
            ["hold_stdin", true],
            ["say", "held"],
            ["until", "written"],
            // What was written beside it would have been read by now.
            ["delay", 300],
            ["say", "free"],
            ["complete"],
            // Last: what is read from now on may be answered at once.
            ["hold_stdin", false]
        ]),
    );
    stub.expect(output("a", "held"));
    stub.open("b");
    stub.input("b", "x");
    stub.cue("written");
    stub.expect(output("a", "free"));
    stub.expect(complete("a"));
    stub.expect(output("b", "x"));
    let log = stub.log();
    let place = |what: &dyn Fn(&Value) -> bool| log.iter().position(what).unwrap();
    let freed = place(&|r| r["line"].as_str().is_some_and(|l| l.contains("free")) && r["ev"] == "out");
    let read = place(&|r| r["line"].as_str().is_some_and(|l| l.contains("\"b\"")) && r["ev"] == "in");
    assert!(freed < read);
}

#[test]
fn exits_signals_and_closed_pipes_are_as_told() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["say", "bye"], ["stderr", 3], ["exit", 7]]));
    stub.expect(output("a", "bye"));
    assert_eq!(stub.exit().code(), Some(7));

    let mut stub = Stub::start(json!({"on": {"user.input": [["abort"]]}}));
    stub.open("a");
    stub.input("a", "x");
    assert_eq!(stub.exit().code(), None);

    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["close_stdout"], ["say", "unheard"], ["pid"]]));
    stub.expect_end();
    assert_eq!(stub.until_logged("pid")["pid"], stub.child.id());
    assert!(stub.child.try_wait().unwrap().is_none());
    assert_eq!(stub.logged("unsent").len(), 1);
}

#[test]
fn eof_and_term_can_be_ignored() {
    let mut stub = Stub::start(json!({"at_start": [["ignore_eof"], ["ignore_term"], ["pid"]]}));
    stub.until_logged("pid");
    let pid = rustix::process::Pid::from_child(&stub.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    stub.until_logged("term");
    stub.close_stdin();
    stub.until_logged("eof");
    assert!(stub.child.try_wait().unwrap().is_none());

    let mut stub = Stub::start(json!({"at_start": [["pid"]]}));
    stub.until_logged("pid");
    let pid = rustix::process::Pid::from_child(&stub.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(stub.exit().code(), Some(0));
}

#[test]
fn a_grandchild_holds_stdout_and_an_orphan_has_its_own_session() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["grandchild", 30], ["orphan", 1], ["exit", 0]]));
    assert_eq!(stub.exit().code(), Some(0));
    let end = stub.lines.recv_timeout(Duration::from_millis(100));
    assert_eq!(end.unwrap_err(), RecvTimeoutError::Timeout);
    let children = stub.logged("child");
    let kinds: Vec<&Value> = children.iter().map(|c| &c["kind"]).collect();
    assert_eq!(kinds, [&json!("grandchild"), &json!("orphan")]);
    let log = stub.folder.path().join("log.jsonl");
    trunkline_conformance::kill_all(|args| trunkline_conformance::is_child(args, &log));
    stub.expect_end();
}

#[test]
fn starts_are_counted_by_the_log() {
    let script = json!({"starts": [{"on": {"user.input": [["exit", 3]]}}]});
    let mut stub = Stub::start(script);
    stub.open("a");
    stub.input("a", "x");
    assert_eq!(stub.exit().code(), Some(3));
    let folder = std::mem::replace(&mut stub.folder, tempfile::tempdir().unwrap());
    let mut stub = Stub::start_in(folder);
    stub.open("a");
    stub.input("a", "x");
    stub.expect(output("a", "x"));
    let numbers: Vec<Value> = stub.logged("start").iter().map(|r| r["start"].clone()).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn pings_updates_rules_and_steers_are_answered() {
    let mut stub = Stub::start(json!({
        "extensions": ["turns", "control", "options"],
        "ready": {"input_modes": ["steer"], "adapter": null},
        "on": {"stop": [["say", "stopping"], ["complete", {"status": "stopped"}]]}
    }));
    stub.send(
        json!({"type": "session.start", "session_id": "a", "extensions": ["turns", "control", "options"]}),
    );
    let ready = stub.next();
    assert_eq!((ready.get("adapter"), &ready["input_modes"]), (None, &json!(["steer"])));
    stub.send(json!({"type": "ping", "session_id": "", "nonce": [1]}));
    stub.expect(json!({"type": "pong", "session_id": "", "nonce": [1]}));
    stub.send(json!({"type": "session.update", "session_id": "a", "model": "m"}));
    stub.expect(json!({"type": "session.info", "session_id": "a", "model": "m"}));
    let input = |turn: &str, mode: &str, content: &str| json!({"type": "user.input", "session_id": "a", "turn_id": turn, "message_id": turn, "mode": mode, "content": content});
    stub.send(input("t0", "steer", "x"));
    assert_eq!(stub.next()["delivered"], false);
    stub.send(input("t1", "turn", r#"{"$stub":[["say","on"]]}"#));
    assert_eq!(stub.next()["content"], "on");
    stub.send(input("t2", "steer", "x"));
    stub.expect(json!({"type": "steer.result", "session_id": "a", "turn_id": "t1", "message_id": "t2", "delivered": true}));
    stub.send(input("t3", "steer", r#"{"$stub":[["say","steered"]]}"#));
    stub.expect(json!({"type": "output", "session_id": "a", "turn_id": "t1", "content": "steered"}));
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.expect(json!({"type": "output", "session_id": "a", "turn_id": "t1", "content": "stopping"}));
    stub.expect(json!({"type": "turn.complete", "session_id": "a", "turn_id": "t1", "status": "stopped"}));
}

#[test]
fn a_paused_session_holds_its_messages_back() {
    let mut stub = Stub::start(json!({"extensions": ["flow"]}));
    stub.send(json!({"type": "session.start", "session_id": "a", "extensions": ["flow"]}));
    assert_eq!(stub.next()["type"], "session.ready");
    stub.send(json!({"type": "flow.pause", "session_id": "a"}));
    stub.input("a", "held");
    stub.open("b");
    stub.input("b", "free");
    stub.expect(output("b", "free"));
    stub.expect(complete("b"));
    stub.send(json!({"type": "flow.resume", "session_id": "a"}));
    stub.expect(output("a", "held"));
    stub.expect(complete("a"));
}

#[test]
fn bad_instructions_are_told_and_a_bad_script_is_refused() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["burst", "many"]]));
    let told = stub.next();
    assert_eq!(told["channel"], "system");
    assert_eq!(told["content"], "$stub[0]: \"burst\" wants a number as argument 1");
    stub.expect(complete("a"));

    let mut stub = Stub::start(json!({"on": {"stop": [["shout"]]}}));
    assert_eq!(stub.exit().code(), Some(2));
    assert_eq!(stub.logged("bad")[0]["error"], "on.stop[0]: \"shout\" is no action");
}

#[test]
fn hostile_input_is_logged_and_survived() {
    let mut stub = Stub::start(json!({}));
    stub.send_raw(b"\xff\xfe\n[1]\nnull\n{}\n{\"type\":7}\n\n");
    stub.send_raw(format!("{{\"a\":{}\n", "[".repeat(100_000)).as_bytes());
    stub.send_raw(b"\xef\xbb\xbf{\"type\":\"session.start\",\"session_id\":\"a\"}\r\n");
    stub.input("a", "alive");
    stub.expect(output("a", "alive"));
    stub.expect(complete("a"));
    stub.send_raw(b"{\"cut\":");
    stub.close_stdin();
    let mut rest = String::new();
    let _ = stub.child.stdout.take().map(|mut out| out.read_to_string(&mut rest));
    assert_eq!(stub.exit().code(), Some(0));
    assert_eq!(stub.logged("in64").len(), 1);
    let cut = stub.logged("in").pop().unwrap();
    assert_eq!((&cut["line"], &cut["lf"]), (&json!("{\"cut\":"), &json!(false)));
}
