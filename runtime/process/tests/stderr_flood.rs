//! 16 MiB of standard error pass through flat memory. Alone in its file: it measures the whole program.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

use std::fs;

use trunkline_process::{ChildSpec, STDERR_TAIL, StderrDrain, StderrTail};

const CONTAINMENT: trunkline_process::Containment = trunkline_process::Containment::Group;

#[path = "process/watch.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of one child, which use more of it"
)]
mod watch;

const FLOOD: u64 = 16 * 1024 * 1024;

/// Maximum growth of the program while it drains a flood, in KiB.
const GROWTH: u64 = 4 * 1024;

fn status_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

async fn drain(script: &str) -> (StderrTail, u64) {
    let spec = ChildSpec::new("/bin/sh").args(["-c", script]);
    let mut child = watch::start(spec).await;
    let tail = StderrTail::default();
    let mut drain = StderrDrain::new(child.take_stderr().unwrap(), tail.clone());
    let mut lines = 0;
    watch::within("the flood", drain.run(|_| lines += 1))
        .await
        .unwrap();
    assert!(watch::within("the end", child.finish()).await.success());
    (tail, lines)
}

#[tokio::test]
async fn a_flood_is_drained_in_flat_memory() {
    drain("echo warm up >&2").await;
    let before = status_kib("VmHWM");

    let script =
        format!("yes a line of a stack trace | head -c {FLOOD} >&2; echo >&2; echo the cause >&2");
    let (tail, lines) = drain(&script).await;
    let whole_lines = FLOOD / "a line of a stack trace\n".len() as u64;
    assert_eq!(lines, whole_lines + 2);
    assert_eq!(tail.total_bytes(), FLOOD + "\nthe cause\n".len() as u64);
    assert!(tail.text().starts_with("a line of a stack trace\n"));
    assert!(tail.text().ends_with("a line of a stac\nthe cause\n"));

    let (tail, lines) = drain(&format!("head -c {FLOOD} /dev/zero >&2")).await;
    assert_eq!((tail.total_bytes(), lines), (FLOOD, 1));
    assert_eq!(tail.text().len(), STDERR_TAIL);

    let grown = status_kib("VmHWM") - before;
    assert!(grown < GROWTH, "grew by {grown} KiB");
}
