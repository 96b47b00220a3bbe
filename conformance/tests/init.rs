//! Each skeleton that `init` writes passes the smoke set as it is.

use std::{
    path::Path,
    process::{Command, Output},
};

use trunkline_testing::has_program;

const SUITE: &str = env!("CARGO_BIN_EXE_trunkline-conformance");

fn suite(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(SUITE).args(arguments).current_dir(folder).output().expect("the suite runs")
}

/// Writes a skeleton, builds it, and runs the smoke set with it.
fn check(side: &str, language: &str, tool: &str, build: &[&str], class: &str) {
    if !has_program(tool) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let written = suite(folder.path(), &["init", side, "--lang", language]);
    assert!(written.status.success(), "{written:?}");
    let again = suite(folder.path(), &["init", side, "--lang", language]);
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    if let Some((program, arguments)) = build.split_first() {
        let built =
            Command::new(program).args(arguments).current_dir(folder.path()).output().expect("it builds");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    let mut arguments = vec!["smoke", "--config", "conform.toml", "--class", class];
    if side == "host" {
        arguments.push("--host");
    }
    let ran = suite(folder.path(), &arguments);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(text.lines().last().is_some_and(|last| last.starts_with("result: CONFORMANT")), "{text}");
    assert!(folder.path().join("results/latest/result.json").is_file());
}

#[test]
fn the_python_skeleton_passes() {
    check("adapter", "python", "python3", &[], "robust");
}

#[test]
fn the_node_skeleton_passes() {
    check("adapter", "node", "node", &[], "robust");
}

#[test]
fn the_go_skeleton_passes() {
    check("adapter", "go", "go", &["go", "build", "-o", "adapter", "."], "robust");
}

/// jq takes bytes that are not UTF-8 for U+FFFD: noise is not noise to it, which the core does not ask for.
#[test]
fn the_shell_skeleton_passes_at_the_core() {
    check("adapter", "shell", "jq", &[], "core");
}

#[test]
fn the_python_relay_passes() {
    check("host", "python", "python3", &[], "robust");
}

#[test]
fn the_node_relay_passes() {
    check("host", "node", "node", &[], "robust");
}
