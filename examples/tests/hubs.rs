//! Every example hub against the Python adapter, without a terminal.

#[path = "adapters/program.rs"]
mod program;

use std::{
    path::PathBuf,
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use program::{NODE, PYTHON, Program, command, rust};
use rustix::process::{Pid, Signal, kill_process};
use trunkline_testing::skipped;

/// Timeout of a hub with both interpreters, on a busy machine.
const RUN: Duration = Duration::from_secs(60);

/// Returns the output of a hub until it ends, sorted by text, because its sessions do not wait for
/// one another.
fn said(hub: &mut Command) -> (Vec<String>, ExitStatus) {
    let mut hub =
        Program::start(hub).expect("it starts; `cargo build --examples` builds the one in Rust");
    let (lines, status) = hub.end(Instant::now() + RUN);
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|line| String::from_utf8(line).expect("UTF-8"))
        .collect();
    lines.sort();
    (lines, status)
}

fn denies_without_a_terminal(hub: &[&str]) {
    let arguments = [
        "/tool ls",
        "Grüße\u{2028}😀",
        "--",
        "python3",
        "python/echo.py",
    ];
    let (lines, status) = said(command(hub).args(arguments));
    assert_eq!(
        lines,
        [
            "[session-1] stdout: denied ls",
            "[session-2] stdout: Grüße\u{2028}😀"
        ]
    );
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
    for line in [
        "[one] agent: hello from one",
        "[one] agent: denied bash",
        "[two] agent: /sleep 1",
    ] {
        assert!(lines.iter().any(|said| said == line), "{line} in {lines:?}");
    }
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains(" end: completed "))
            .count(),
        4,
        "{lines:?}"
    );
    assert_eq!(status.code(), Some(0));
}

/// Kills the host of this hub in its first turn, and holds it to what it prints then.
fn comes_back_after_a_kill(hub: &mut Command) {
    let Some(trunkline) = trunkline() else { return };
    let journal = tempfile::tempdir().expect("a folder");
    let texts = ["/sleep 300", "hello again"];
    let serve = ["serve", "--adapter", "python3 python/echo.py", "--journal"];
    hub.args(texts)
        .arg("--")
        .arg(trunkline)
        .args(serve)
        .arg(journal.path());
    let mut hub =
        Program::start(hub).expect("it starts; `cargo build --examples` builds the one in Rust");
    let deadline = Instant::now() + RUN;
    let line = || String::from_utf8(hub.line(deadline).expect("it goes on")).expect("UTF-8");
    let host = line();
    let host = host
        .strip_prefix("host ")
        .and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let mut lines = Vec::new();
    while !lines
        .last()
        .is_some_and(|line: &String| line.contains(" turn.begin "))
    {
        lines.push(line());
    }
    kill_process(host.expect("the pid of its host"), Signal::KILL).expect("it runs");
    let (rest, status) = hub.end(deadline);
    lines.extend(
        rest.into_iter()
            .map(|line| String::from_utf8(line).expect("UTF-8")),
    );
    assert_eq!(status.code(), Some(0), "{lines:?}");
    assert!(
        lines.contains(&"known m-1".to_owned()),
        "what it sent again was one input: {lines:?}"
    );
    let entries = lines
        .iter()
        .filter_map(|line| Some((line.split_once(' ')?.0.parse::<usize>().ok()?, line)));
    let (numbers, entries): (Vec<_>, Vec<_>) = entries.unzip();
    assert_eq!(
        numbers,
        (1..=numbers.len()).collect::<Vec<_>>(),
        "each entry once: {lines:?}"
    );
    for (part, count) in [
        (" turn.begin ", 2),
        (" turn.complete", 2),
        (" turn.complete host_restart", 1),
    ] {
        assert_eq!(
            entries.iter().filter(|line| line.contains(part)).count(),
            count,
            "{part}: {lines:?}"
        );
    }
    assert!(
        entries
            .iter()
            .any(|line| line.ends_with(" output hello again")),
        "{lines:?}"
    );
}

/// The program of the command line, which `cargo test --workspace` builds.
fn trunkline() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a path");
    let program = test
        .ancestors()
        .nth(2)
        .expect("tests are built in a folder of the profile's")
        .join("trunkline");
    if program.exists() {
        return Some(program);
    }
    skipped("no program trunkline; `cargo build -p trunkline` makes it");
    None
}

#[test]
fn python_comes_back_after_a_kill() {
    if PYTHON.is_here() {
        comes_back_after_a_kill(&mut command(&["python3", "python/reconnect.py"]));
    }
}

#[test]
fn rust_comes_back_after_a_kill() {
    if PYTHON.is_here() {
        comes_back_after_a_kill(&mut rust("reconnect"));
    }
}
