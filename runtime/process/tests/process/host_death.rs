//! A child dies with its host, and with nothing less.

use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::io::{AsyncWriteExt, BufReader};
use trunkline_process::{ChildSpec, sweep};

use super::watch::{eventually, line, runs, sh, start, within};

const HELPER: &str = "TRUNKLINE_TEST_HELPER";
const RECORDS: &str = "TRUNKLINE_TEST_RECORDS";

#[tokio::test]
async fn a_child_dies_when_its_host_is_killed() {
    let state = tempfile::tempdir().unwrap();
    let records = state.path().join("children");
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            "process::host_death::helper_that_is_killed",
        ])
        .env(HELPER, "1")
        .env(RECORDS, &records)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = std::io::BufReader::new(host.stdout.take().unwrap());
    let told = stdout
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("told: ")?.1.to_owned()));
    let told = told.expect("the helper tells");
    let (pid, folder) = told.split_once(' ').unwrap();
    let pid: u32 = pid.parse().unwrap();
    assert!(runs(pid));

    host.kill().unwrap();
    host.wait().unwrap();
    eventually("the child has ended", || !runs(pid)).await;
    // No one was left to remove its folder, and its cgroup where it had one.
    let swept = sweep(&records).unwrap();
    assert!(swept.trees == 1 && swept.folders >= 1, "{swept:?}");
    assert!(!Path::new(folder).exists());
}

#[tokio::test]
#[ignore = "a helper of the test above, which runs it in a process of its own"]
async fn helper_that_is_killed() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let records = std::env::var_os(RECORDS).unwrap();
    // It ignores every polite request and never reads, so that only the death signal ends it. It
    // has no descendant, because one would survive.
    let spec = sh("trap '' HUP INT TERM PIPE; echo deaf; exec sleep 600");
    let mut child = start(spec.record_dir(records)).await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "deaf");
    println!("\ntold: {} {}", child.pid(), child.private_dir().display());
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_child_outlives_the_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Handle::current();
    let asking = std::thread::spawn(move || runtime.block_on(start(ChildSpec::new("cat"))));
    let mut child = tokio::task::spawn_blocking(|| asking.join().unwrap())
        .await
        .unwrap();

    let mut stdin = child.take_stdin().unwrap();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    stdin.write_all(b"still here\n").await.unwrap();
    assert_eq!(line(&mut stdout).await, "still here");
    drop(stdin);
    within("the end", child.finish()).await;
}
