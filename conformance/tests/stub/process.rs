//! The stub's end, its signals and its children.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};

use super::running::{Stub, output};

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
    let numbers: Vec<Value> = stub
        .logged("start")
        .iter()
        .map(|r| r["start"].clone())
        .collect();
    assert_eq!(numbers, [1, 2]);
}
