//! Every example hub against the Python adapter, without a terminal.

#[path = "adapters/program.rs"]
mod program;

use std::{
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use program::{NODE, PYTHON, Program, command, rust};

/// How long a hub may take with both interpreters, on a busy machine.
const RUN: Duration = Duration::from_secs(60);

/// What a hub says until it ends, in the order of its text: its sessions do not wait for one another.
fn said(hub: &mut Command) -> (Vec<String>, ExitStatus) {
    let mut hub = Program::start(hub).expect("it starts; `cargo build --examples` builds the one in Rust");
    let (lines, status) = hub.end(Instant::now() + RUN);
    let mut lines: Vec<_> = lines.into_iter().map(|line| String::from_utf8(line).expect("UTF-8")).collect();
    lines.sort();
    (lines, status)
}

fn denies_without_a_terminal(hub: &[&str]) {
    let arguments = ["/tool ls", "Grüße\u{2028}😀", "--", "python3", "python/echo.py"];
    let (lines, status) = said(command(hub).args(arguments));
    assert_eq!(lines, ["[session-1] stdout: denied ls", "[session-2] stdout: Grüße\u{2028}😀"]);
    assert_eq!(status.code(), Some(0));
}

fn fails_when_its_peer_ends_early(hub: &[&str]) {
    let (lines, status) = said(command(hub).args(["--", "true"]));
    assert_eq!((lines, status.code()), (Vec::new(), Some(1)));
}

#[test]
fn python_denies_without_a_terminal() {
    if PYTHON.is_here() {
        denies_without_a_terminal(&["python3", "python/hub.py"]);
    }
}

#[test]
fn python_fails_when_its_peer_ends_early() {
    if PYTHON.is_here() {
        fails_when_its_peer_ends_early(&["python3", "python/hub.py"]);
    }
}

#[test]
fn node_denies_without_a_terminal() {
    if NODE.is_here() && PYTHON.is_here() {
        denies_without_a_terminal(&["node", "node/hub.js"]);
    }
}

#[test]
fn node_fails_when_its_peer_ends_early() {
    if NODE.is_here() {
        fails_when_its_peer_ends_early(&["node", "node/hub.js"]);
    }
}

#[test]
fn rust_denies_without_a_terminal() {
    if !PYTHON.is_here() {
        return;
    }
    let (lines, status) = said(rust("hub").args(["python3", "python/echo.py"]));
    for line in ["[one] agent: hello from one", "[one] agent: denied bash", "[two] agent: /sleep 1"] {
        assert!(lines.iter().any(|said| said == line), "{line} in {lines:?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains(" end: completed ")).count(), 4, "{lines:?}");
    assert_eq!(status.code(), Some(0));
}
