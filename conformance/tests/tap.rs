//! `tap` changes no byte and records them all; `check` reads what it wrote.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

const SUITE: &str = env!("CARGO_BIN_EXE_trunkline-conformance");

/// Runs an adapter behind a tap with this on its stdin.
fn tapped(recording: &Path, adapter: &[&str], input: &[u8]) -> Output {
    let mut tap = Command::new(SUITE)
        .args(["tap", "--out"])
        .arg(recording)
        .arg("--")
        .args(adapter)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = tap.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = tap.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

fn check(recording: &Path) -> (Option<i32>, String) {
    let output = Command::new(SUITE)
        .arg("check")
        .arg(recording)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn every_byte_goes_through_and_into_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.tap");
    // No UTF-8, no LF at the end, lines longer than any buffer.
    let mut bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    bytes.extend_from_slice(b"\r\n\n\xe2\x80\xa8 the end");
    let output = tapped(&recording, &["cat"], &bytes);
    assert!(
        output.stdout == bytes,
        "{} bytes came out of {}",
        output.stdout.len(),
        bytes.len()
    );

    let mut host = Vec::new();
    let mut adapter = Vec::new();
    for record in std::fs::read_to_string(&recording).unwrap().lines() {
        let record: Value = serde_json::from_str(record).unwrap();
        let recorded = match (record["line"].as_str(), record["base64"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(text)) => BASE64.decode(text).unwrap(),
            _ => continue,
        };
        match record["ev"].as_str() {
            Some("host") => host.extend(recorded),
            Some("adapter") => {
                adapter.extend(recorded);
                adapter.extend((record["cut"] != true).then_some(b'\n'));
            }
            _ => {}
        }
    }
    assert!(host == bytes && adapter == bytes);
}

#[test]
fn the_exit_status_is_the_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.tap");
    let output = tapped(
        &recording,
        &["sh", "-c", "cat >/dev/null; echo last; exit 7"],
        b"",
    );
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(7), &b"last\n"[..])
    );
}

#[test]
fn a_grandchild_that_holds_stdout_keeps_no_one_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.tap");
    let began = std::time::Instant::now();
    let mut tap = Command::new(SUITE)
        .args(["tap", "--out"])
        .arg(&recording)
        .args(["--", "sh", "-c", "sleep 30 & exit 3"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(tap.wait().unwrap().code(), Some(3));
    assert!(began.elapsed().as_secs() < 20);
}

#[test]
fn a_recording_that_was_changed_fails_for_the_clause_that_it_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("session.tap");
    let adapter = r#"while read -r line; do case "$line" in
        *user.input*) echo '{"type":"output","session_id":"s-1","content":"hi"}'
                      echo '{"type":"turn.complete","session_id":"s-1"}';;
        esac; done"#;
    let input = concat!(
        "{\"type\":\"session.start\",\"session_id\":\"s-1\"}\n",
        "{\"type\":\"user.input\",\"session_id\":\"s-1\",\"content\":\"hello\"}\n",
    );
    tapped(&recording, &["sh", "-c", adapter], input.as_bytes());
    let (status, text) = check(&recording);
    assert_eq!(status, Some(0), "{text}");

    let whole = std::fs::read_to_string(&recording).unwrap();
    let at = whole.rfind("s-1").unwrap();
    let mut changed = whole.into_bytes();
    changed[at + 2] = b'2';
    std::fs::write(&recording, changed).unwrap();
    let (status, text) = check(&recording);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("[msg.1]"), "{text}");
}
