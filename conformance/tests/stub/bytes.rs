//! Byte-level input and output of the stub, its floods, and its files.

use std::fs;
use std::io::Read as _;

use serde_json::{Value, json};

use super::running::{Stub, complete, output};

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
    assert_eq!(
        stub.bytes(),
        b"{\"type\":\"output\",\"session_id\":\"a\",\"content\":\"x\"}\r\n"
    );
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
    stub.instruct(
        "a",
        json!([
            ["burst", 3000, 100, "log"],
            ["flood", 200_000, 100_000],
            ["complete"]
        ]),
    );
    for i in 1..=3000 {
        let message = stub.next();
        let content = message["content"].as_str().unwrap();
        assert_eq!(
            (&content[..8], content.len()),
            (format!("{i:08}").as_str(), 100)
        );
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
    assert_eq!(
        (&out["type"], &out["len"]),
        (&json!("output"), &json!(5000))
    );
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
    assert_eq!(
        (&file["file_name"], &file["file_mime_type"]),
        (&json!("../x"), &json!("text/plain"))
    );
    let path = file["file_path"].as_str().unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), 20_000);
    let other = stub.next();
    assert_eq!(
        (other.get("file_name"), other["type"].as_str()),
        (None, Some("file.output"))
    );
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
    let freed =
        place(&|r| r["line"].as_str().is_some_and(|l| l.contains("free")) && r["ev"] == "out");
    let read =
        place(&|r| r["line"].as_str().is_some_and(|l| l.contains("\"b\"")) && r["ev"] == "in");
    assert!(freed < read);
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
    let _ = stub
        .child
        .stdout
        .take()
        .map(|mut out| out.read_to_string(&mut rest));
    assert_eq!(stub.exit().code(), Some(0));
    assert_eq!(stub.logged("in64").len(), 1);
    let cut = stub.logged("in").pop().unwrap();
    assert_eq!(
        (&cut["line"], &cut["lf"]),
        (&json!("{\"cut\":"), &json!(false))
    );
}
