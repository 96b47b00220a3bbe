//! The reference adapter keeps the clauses of SPEC.md, seen from the host's side.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic and copy"
)]

mod extensions;
mod peer;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use peer::{Peer, kinds, text};

#[test]
fn an_input_is_answered_and_queued_ones_run_after_a_stop() {
    let mut peer = Peer::start();
    peer.open("s", &[]);
    peer.input("s", "a \u{2028} b");
    assert_eq!(text(&peer.turn("s")), "a \u{2028} b");
    peer.script("s", json!([["until_stop"]]));
    peer.input("s", "next");
    peer.tell("stop", "s", json!({}));
    peer.tell("stop", "s", json!({ "turn_id": 7 }));
    peer.turn("s");
    let next = peer.turn("s");
    assert_eq!(
        (text(&next).as_str(), next.last().unwrap()),
        (
            "next",
            &json!({ "type": "turn.complete", "session_id": "s" })
        )
    );
    peer.tell("stop", "s", json!({}));
    assert!(peer.fence("s").is_empty());
    let (status, rest) = peer.end();
    assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
}

#[test]
fn odd_lines_cost_themselves_alone() {
    let mut peer = Peer::start();
    let bytes =
        "\u{feff}{\"type\":\"session.start\",\"session_id\":\"ü \"}\r\n\r\n \t\n".as_bytes();
    bytes.chunks(1).for_each(|byte| peer.write(byte));
    for noise in [
        "[]",
        "{",
        "{'a':1}",
        "{}{}",
        "Content-Length: 5",
        "NaN",
        "{\"type\":7}",
        "{\"type\":\"\\ud800\"}",
    ] {
        peer.write(format!("{noise}\n").as_bytes());
    }
    peer.write(b"{\"type\":\"user.input\",\"session_id\":\"\xff\",\"content\":\"x\"}\n");
    for bad in [
        "{\"content\":7}",
        "{\"content\":[\"x\"]}",
        "{\"content\":{}}",
    ] {
        peer.tell("user.input", "ü ", serde_json::from_str(bad).unwrap());
    }
    peer.tell("user.input", "ü", json!({ "content": "unknown" }));
    assert!(peer.fence("ü ").is_empty());
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let line = "{\"content\":\"no\",\"x\":DEEP,\"n\":1e999,\"session_id\":\"ü \",\"content\":\"\\ud83d\",\"type\":\"user.input\"}\n";
    peer.write(line.replace("DEEP", &deep).as_bytes());
    assert_eq!(text(&peer.turn("ü ")), "\u{fffd}");
    peer.tell("user.input", "ü ", json!({ "content": null }));
    assert_eq!(peer.turn("ü ").len(), 1);
    peer.write(b"{\"type\":\"user.input\",\"session_id\":\"\xc3\xbc \",\"content\":\"cut");
    let (status, rest) = peer.end();
    assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
}

#[test]
fn long_lines_are_whole_up_to_the_limit_and_skipped_beyond() {
    let mut peer = Peer::start();
    peer.open("s", &[]);
    let limit = 16 * 1024 * 1024;
    let frame = "{\"type\":\"user.input\",\"session_id\":\"s\",\"content\":\"\"}".len();
    let line = |bytes: usize| {
        format!(
            "{{\"type\":\"user.input\",\"session_id\":\"s\",\"content\":\"{}\"}}\n",
            "x".repeat(bytes)
        )
    };
    peer.write(line(limit - frame).as_bytes());
    assert_eq!(text(&peer.turn("s")).len(), limit - frame);
    peer.write(line(limit - frame + 1).as_bytes());
    assert_eq!(peer.next("s")["channel"], "system");
    assert!(peer.fence("s").is_empty());
    assert!(peer.memory() < 32, "{} MiB", peer.memory());
}

#[test]
fn sessions_do_not_mix() {
    let mut peer = Peer::start();
    let ids: Vec<_> = (0..200).map(|number| format!("s-{number}")).collect();
    for id in &ids {
        peer.open(id, &[]);
        // A turn of its own: a stop may come before a turn has done anything.
        peer.script(id, json!([["set", "k", id]]));
        peer.script(id, json!([["until_stop"]]));
    }
    for id in &ids {
        peer.turn(id);
    }
    for id in &ids {
        peer.script(id, json!([["get", "k"], ["say", "é"]]));
        peer.tell("stop", id, json!({}));
    }
    for id in &ids {
        peer.turn(id);
        let turn = peer.turn(id);
        assert!(text(&turn).contains(&format!("\"{id}\"")), "{turn:?}");
    }
    for id in &ids {
        peer.tell("session.close", id, json!({}));
    }
    peer.open("s-0", &[]);
    assert_eq!(
        peer.data("s-0", json!([["get", "k"]]))["value"],
        Value::Null
    );
}

#[test]
fn bursts_keep_their_order_though_the_host_is_slow() {
    let mut peer = Peer::start();
    for id in ["a", "b"] {
        peer.open(id, &[]);
        peer.script(id, json!([["burst", 300, 20_000, id]]));
    }
    for id in ["a", "b"] {
        let turn = peer.turn(id);
        let pieces: Vec<_> = turn
            .iter()
            .filter_map(|message| message["content"].as_str())
            .collect();
        let fill = id.repeat(20_000 - 9);
        assert!(
            pieces
                .iter()
                .enumerate()
                .all(|(at, piece)| *piece == format!("{:08} {fill}", at + 1))
        );
        assert_eq!(pieces.len(), 300);
    }
}

#[test]
fn a_stop_ends_a_burst_and_the_race_is_one_end() {
    let mut peer = Peer::start();
    peer.open("s", &[]);
    peer.script("s", json!([["burst", 100_000, 1000]]));
    peer.next("s");
    peer.tell("stop", "s", json!({}));
    assert!(peer.turn("s").len() < 20_000);
    for pause in 0..100 {
        peer.script("s", json!([["sleep", 4]]));
        std::thread::sleep(Duration::from_micros(pause * 80));
        peer.tell("stop", "s", json!({}));
        peer.turn("s");
    }
    assert!(peer.fence("s").is_empty());
}

#[test]
fn only_true_of_the_same_session_and_request_approves() {
    let folder = tempfile::tempdir().unwrap();
    let effect = |name: &str| folder.path().join(name);
    let ask = |name: &str| json!({ "tool": "t", "description": "d", "resource": name, "effect": effect(name) });
    let mut peer = Peer::start();
    peer.open("s", &[]);
    peer.open("o", &[]);
    for odd in [
        json!("true"),
        json!(1),
        json!({}),
        json!(null),
        json!(false),
    ] {
        peer.script("s", json!([["ask", ask("never")]]));
        let id = peer.next("s")["request_id"].clone();
        peer.tell(
            "permission.response",
            "o",
            json!({ "request_id": id, "approved": true }),
        );
        peer.tell(
            "permission.response",
            "s",
            json!({ "request_id": "other", "approved": true }),
        );
        assert!(peer.fence("s").is_empty());
        peer.tell(
            "permission.response",
            "s",
            json!({ "request_id": id, "approved": odd }),
        );
        peer.tell(
            "permission.response",
            "s",
            json!({ "request_id": id, "approved": true }),
        );
        assert!(text(&peer.turn("s")).contains("\"approved\":false"));
    }
    peer.script("s", json!([["ask", ask("never"), ask("yes")]]));
    let first = peer.next("s")["request_id"].clone();
    let second = peer.next("s")["request_id"].clone();
    peer.tell(
        "permission.response",
        "s",
        json!({ "request_id": second, "approved": true }),
    );
    peer.tell(
        "permission.response",
        "s",
        json!({ "request_id": first, "approved": false }),
    );
    peer.turn("s");
    peer.script("s", json!([["ask", ask("never")]]));
    let late = peer.next("s")["request_id"].clone();
    peer.tell("stop", "s", json!({}));
    peer.tell(
        "permission.response",
        "s",
        json!({ "request_id": late, "approved": true }),
    );
    assert_eq!(peer.turn("s").len(), 1);
    peer.script("s", json!([["ask", ask("never")]]));
    let closed = peer.next("s")["request_id"].clone();
    peer.tell("session.close", "s", json!({}));
    peer.tell(
        "permission.response",
        "s",
        json!({ "request_id": closed, "approved": true }),
    );
    assert!(peer.fence("s").is_empty());
    assert!(effect("yes").exists() && !effect("never").exists());
}

#[test]
fn a_report_knows_inputs_files_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, b"abc").unwrap();
    let mut peer = Peer::start();
    peer.open("s", &[]);
    peer.tell(
        "file.input",
        "s",
        json!({ "file_name": "../a b", "file_mime_type": "text/plain", "file_path": path }),
    );
    peer.tell("file.input", "s", json!({ "file_path": "/no/such/file" }));
    peer.tell("file.input", "s", json!({ "file_name": "bad" }));
    peer.input("s", "abc");
    peer.turn("s");
    let report = peer.data("s", json!([["report"]]));
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(report["inputs"][0], json!({ "bytes": 3, "sha256": sha256 }));
    let file = &report["files"][0];
    assert_eq!(
        (&file["name"], &file["bytes"], &file["sha256"]),
        (&json!("../a b"), &json!(3), &json!(sha256))
    );
    assert!(report["files"][1]["error"].is_string() && report["files"][1]["name"] == "file");
    assert_eq!(
        (&report["count"], report["files"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    peer.script("s", json!([["file", "r", "image/png", 1000]]));
    let file = peer.next("s");
    let path = file["file_path"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1000);
    peer.turn("s");
    peer.tell("session.close", "s", json!({}));
    peer.fence("s");
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn a_failure_and_an_end_are_told_to_a_core_only_host() {
    let mut peer = Peer::start();
    peer.open("s", &[]);
    peer.script("s", json!([["fail", "ow"]]));
    let failed = peer.turn("s");
    assert_eq!(
        (&failed[0]["content"], &failed[0]["channel"], failed.len()),
        (&json!("ow"), &json!("system"), 2)
    );
    peer.script(
        "s",
        json!([["question", { "prompt": "?" }], ["event", { "type": "thinking", "content": "" }]]),
    );
    let asked = peer.turn("s");
    assert_eq!((&asked[0]["channel"], asked.len()), (&json!("question"), 3));
    peer.script("s", json!([["close_session", "limit"]]));
    assert_eq!(kinds(&peer.turn("s")), ["output", "turn.complete"]);
    peer.input("s", "more");
    assert_eq!(peer.turn("s")[0]["channel"], "system");
}

#[test]
fn the_end_of_stdin_stops_the_turns() {
    let mut peer = Peer::start();
    for id in ["a", "b"] {
        peer.open(id, &[]);
        peer.script(id, json!([["until_stop"]]));
        peer.input(id, "queued");
        peer.next(id);
    }
    let begun = Instant::now();
    let (status, rest) = peer.end();
    let ends = rest
        .iter()
        .filter(|message| message["type"] == "turn.complete")
        .count();
    assert!(
        status.success() && begun.elapsed() < Duration::from_secs(2),
        "{status}"
    );
    assert_eq!(ends, 4);
}
