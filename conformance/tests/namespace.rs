//! The stub in PID namespaces, where its pid is not a name: two simultaneous starts have the same
//! one.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail it by panics"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline_conformance::{is_child, is_running, kill_all, sweep};
use trunkline_testing::skipped;

const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the command that puts a program into a PID namespace; if that is not allowed, the
/// calling test is skipped.
#[track_caller]
fn unshare() -> Option<Command> {
    for flags in ["-pf", "-Urpf"] {
        let mut command = Command::new("unshare");
        command.args([flags, "--mount-proc", "--kill-child"]);
        let mut trial = Command::new("unshare");
        trial
            .args([flags, "--mount-proc", "--kill-child", "true"])
            .stderr(Stdio::null());
        if trial.status().is_ok_and(|status| status.success()) {
            return Some(command);
        }
    }
    skipped("no PID namespace");
    None
}

/// A stub that is the first process of a namespace.
fn start(mut command: Command, folder: &Path) -> Child {
    command
        .arg(env!("CARGO_BIN_EXE_trunkline-conformance"))
        .arg("stub")
        .arg("--script");
    command
        .arg(folder.join("script.json"))
        .arg("--log")
        .arg(folder.join("log.jsonl"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn logged(folder: &Path, event: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("log.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let records = text[..whole]
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["ev"] == event).collect()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn starts_in_namespaces_are_told_apart_and_end_one_by_one() {
    let (Some(one), Some(two)) = (unshare(), unshare()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let log = folder.path().join("log.jsonl");
    fs::write(
        path.join("script.json"),
        json!({"at_start": [["pid"]]}).to_string(),
    )
    .unwrap();
    let mut children = [start(one, path), start(two, path)];
    until("two starts", || logged(path, "pid").len() == 2);
    let pids = logged(path, "pid");
    let mut starts: Vec<u64> = pids
        .iter()
        .filter_map(|record| record["start"].as_u64())
        .collect();
    starts.sort_unstable();
    assert_eq!(starts, [1, 2]);
    assert_eq!((&pids[0]["pid"], &pids[1]["pid"]), (&json!(1), &json!(1)));
    assert!(is_running(&log, 1) && is_running(&log, 2));
    // Killed from outside, by no number of its own.
    children[0].kill().unwrap();
    children[0].wait().unwrap();
    until("an end", || is_running(&log, 1) != is_running(&log, 2));
    drop(children[1].stdin.take());
    until("the other end", || {
        !is_running(&log, 1) && !is_running(&log, 2)
    });
    children[1].wait().unwrap();
}

#[test]
fn what_is_left_in_a_namespace_is_found_named_and_killed_by_its_number_outside() {
    let Some(command) = unshare() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let script = json!({"at_start": [["orphan", 60], ["grandchild", 60, "free"], ["ignore_eof"], ["ignore_term"]]});
    fs::write(path.join("script.json"), script.to_string()).unwrap();
    let mut child = start(command, path);
    until("two children", || logged(path, "child").len() == 2);
    let sleepers = || {
        let log = path.join("log.jsonl");
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines
            .filter(|line| {
                let args: Vec<&[u8]> = line
                    .strip_suffix(b"\0")
                    .unwrap_or(line)
                    .split(|b| *b == 0)
                    .collect();
                is_child(&args, &log)
            })
            .count()
    };
    // A child is logged when it is forked, and shows its own arguments a moment later.
    until("two sleepers", || sleepers() == 2);
    kill_all(|args| is_child(args, &path.join("log.jsonl")));
    until("the children's end", || sleepers() == 0);
    assert!(is_running(&path.join("log.jsonl"), 1));

    // No group of ours: by the folder in the arguments.
    let left = sweep(u32::MAX, "no-such-mark", path);
    let stub = left
        .iter()
        .find(|left| left.name.starts_with("trunkline-confo"));
    assert!(stub.is_some_and(|stub| stub.pid > 1), "{left:?}");
    until("the stub's end", || !is_running(&path.join("log.jsonl"), 1));
    // Unless the sweep has: its arguments name the folder as well.
    let _ = child.wait();
}
