//! Helpers of the tests: lines, processes, and the clock that bounds every wait.

use std::fs;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use trunkline_process::{Child, ChildSpec, Containment, containment_support, spawn};
use trunkline_testing::skipped;

/// Bounds a wait that ends much earlier unless something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {DEADLINE:?}"),
    }
}

/// Looks again and again until `holds`; for what only the kernel does in its own time.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn sh(script: &str) -> ChildSpec {
    ChildSpec::new("/bin/sh").args(["-c", script])
}

/// Returns the containment of every child of a test binary: the requested one, or a group if that
/// does not work.
pub(crate) fn containment() -> Containment {
    static USED: OnceLock<Containment> = OnceLock::new();
    *USED.get_or_init(|| {
        trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
        let asked = crate::CONTAINMENT;
        if asked == Containment::Group {
            return asked;
        }
        containment_support()
            .choose(asked, Containment::Auto)
            .map_or_else(
                |why| {
                    skipped(&format!("no {}, a group instead: {why}", missing(asked)));
                    Containment::Group
                },
                |choice| choice.used,
            )
    })
}

/// Returns the missing part for a containment that does not work.
pub(crate) fn missing(containment: Containment) -> &'static str {
    if containment == Containment::Reaper {
        "reaper"
    } else {
        "PID namespace"
    }
}

pub(crate) fn contained(spec: ChildSpec) -> ChildSpec {
    spec.containment(containment())
}

pub(crate) async fn start(spec: ChildSpec) -> Child {
    within("the start", spawn(contained(spec)))
        .await
        .expect("the child starts")
}

/// Runs a child to its end and gives all that it wrote to standard output.
pub(crate) async fn output(spec: ChildSpec) -> String {
    let mut child = start(spec).await;
    let mut text = String::new();
    let mut stdout = child.take_stdout().unwrap();
    within("the output", stdout.read_to_string(&mut text))
        .await
        .unwrap();
    let exit = within("the end", child.finish()).await;
    assert!(exit.success(), "{exit}: {text}");
    text
}

pub(crate) async fn line(from: &mut BufReader<impl AsyncRead + Unpin>) -> String {
    let mut line = String::new();
    within("a line", from.read_line(&mut line)).await.unwrap();
    line.trim_end().to_owned()
}

/// Returns true if a process runs; one that only waits to be reaped does not.
pub(crate) fn runs(pid: u32) -> bool {
    matches!(state(pid), Some(state) if state != 'Z' && state != 'X')
}

/// Returns true if a process exists, also as a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    state(pid).is_some()
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}
