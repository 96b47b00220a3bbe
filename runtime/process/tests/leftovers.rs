//! Two hundred starts and stops leave no descriptor, zombie, thread or folder. Alone in its file: it counts what
//! the whole program holds.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests, their helper functions too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use trunkline_process::{Child, ChildSpec, StopSteps, spawn, stop};

#[path = "process/watch.rs"]
#[allow(dead_code, reason = "shared with the tests of one child, which use more of it")]
mod watch;

const CONTAINMENT: trunkline_process::Containment = trunkline_process::Containment::Group;
const CYCLES: usize = 200;

#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    children: BTreeSet<String>,
    folders: usize,
}

fn held(root: &Path) -> Held {
    let count = |dir: &Path| fs::read_dir(dir).unwrap().count();
    let children = fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    Held {
        descriptors: count(Path::new("/proc/self/fd")),
        threads: count(Path::new("/proc/self/task")),
        children,
        folders: count(root),
    }
}

async fn begin(root: &Path) -> Child {
    let spec = ChildSpec::new("cat").config("{}").private_root(root);
    let mut child = watch::within("the start", spawn(spec)).await.unwrap();
    let mut stdin = child.take_stdin().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    child
}

/// One of each way to end.
async fn cycle(root: &Path, round: usize) {
    let mut child = begin(root).await;
    match round % 4 {
        0 => drop(watch::within("the stop", stop(child, StopSteps::default())).await),
        1 => drop(watch::within("the end", child.finish()).await),
        2 => {
            watch::within("the end", child.wait()).await;
        }
        _ => {
            let hasty = StopSteps { close: Duration::ZERO, eof: Duration::ZERO, term: Duration::ZERO };
            watch::within("the stop", stop(child, hasty)).await;
            assert!(spawn(ChildSpec::new("no-such-adapter").private_root(root)).await.is_err());
            drop(begin(root).await);
        }
    }
}

#[test]
fn two_hundred_starts_and_stops_leave_nothing() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        for round in 0..4 {
            cycle(root.path(), round).await;
        }
        watch::eventually("the warm-up is over", || {
            let held = held(root.path());
            held.children.is_empty() && held.folders == 0
        })
        .await;
        let before = held(root.path());
        for round in 0..CYCLES {
            cycle(root.path(), round).await;
        }
        let mut after = held(root.path());
        watch::eventually("everything is given back", || {
            after = held(root.path());
            after == before
        })
        .await;
        assert_eq!(after, before);
    });
}
