//! The example `journal`, run as a program.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::process::Command;

use serde_json::Value;

#[test]
fn the_example_reads_the_same_entries_by_each_listener_and_in_the_history() {
    // target/debug/deps/example-HASH is this test.
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/journal");
    let ran = Command::new(program).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    let stdout = String::from_utf8(ran.stdout).unwrap();
    let entries = |name: &str| -> Vec<Value> {
        stdout
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            // An `input.result` has the `seq` of an entry, but is not an entry.
            .filter(|line| line["time"].is_string())
            .collect()
    };
    let history = entries("history");
    let opener = entries("opener");
    let observer = entries("observer");
    let reconnected = entries("reconnected");
    assert_eq!(opener, observer, "{stdout}");
    assert_eq!([opener, reconnected].concat(), history, "{stdout}");
    let numbers: Vec<_> = history.iter().map(|entry| entry["seq"].as_u64()).collect();
    let expected: Vec<_> = (1..=history.len() as u64).map(Some).collect();
    assert_eq!(numbers, expected, "{stdout}");
    let inputs: Vec<_> = history
        .iter()
        .filter(|entry| entry["type"] == "turn.begin")
        .map(|entry| entry["content"].as_str().unwrap())
        .collect();
    assert_eq!(inputs, ["hello", "hello again"], "{stdout}");
}
