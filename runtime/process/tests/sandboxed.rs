//! A child in a bubblewrap, through the whole way of a start.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests, their helper functions too")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trunkline_process::sandbox::support;
use trunkline_process::{Backend, ChildSpec, Sandbox, SpawnError, StopSteps, spawn, stop};

/// A child in a sandbox without grants, or `None` where there is no bubblewrap.
fn sandboxed(spec: ChildSpec) -> Option<ChildSpec> {
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    if let Some(why) = support(&Backend::Bubblewrap).problem {
        eprintln!("not run: {why}");
        return None;
    }
    Some(spec.sandbox(Sandbox::new(Backend::Bubblewrap)))
}

#[tokio::test]
async fn a_program_runs_inside_and_ends_with_its_own_code() {
    let dir = tempfile::tempdir().unwrap();
    let script = "cat /proc/1/comm; cat; touch here; exit 7";
    let Some(spec) = sandboxed(ChildSpec::new("sh").args(["-c", script]).work_dir(dir.path())) else {
        return;
    };
    let mut child = spawn(spec).await.unwrap();
    let mut stdin = child.take_stdin().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    drop(stdin);
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "bwrap\nhello");
    assert_eq!(child.finish().await.code, Some(7));
    assert!(dir.path().join("here").exists());
}

#[tokio::test]
async fn sigterm_gives_the_program_inside_its_grace() {
    let script = "trap 'sleep 0.1; echo bye; exit 5' TERM; echo up; while :; do sleep 600 & wait; done";
    let dir = tempfile::tempdir().unwrap();
    let Some(spec) = sandboxed(ChildSpec::new("sh").args(["-c", script]).work_dir(dir.path())) else {
        return;
    };
    let mut child = spawn(spec).await.unwrap();
    let mut stdout = child.take_stdout().unwrap();
    let mut text = [0; 3];
    stdout.read_exact(&mut text).await.unwrap();
    let steps = StopSteps { eof: Duration::ZERO, term: Duration::from_secs(30), ..StopSteps::default() };
    assert_eq!(stop(child, steps).await.code, Some(5));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "bye\n");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    let Some(spec) = sandboxed(ChildSpec::new("no-such-adapter").work_dir("/usr")) else { return };
    let error = spawn(spec).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { path: Some(_), .. }), "{error:?}");
}
