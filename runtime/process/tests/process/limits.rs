//! A child's limits, through the whole way of a start.

use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use trunkline_process::{ChildSpec, Containment, Enforcer, Limits, StopSteps, limit_support, stop};
use trunkline_testing::skipped;

use super::watch::{eventually, line, output, runs, sh, start, within};

const HASTY: StopSteps = StopSteps {
    close: Duration::ZERO,
    eof: Duration::ZERO,
    term: Duration::ZERO,
};

fn group(script: &str) -> ChildSpec {
    sh(script).containment(Containment::Group)
}

/// Returns true if trees are counted here; otherwise the calling test is skipped.
#[track_caller]
fn counts_processes() -> bool {
    let support = limit_support();
    let counts = matches!(
        support.processes.by,
        Enforcer::CgroupV1 | Enforcer::CgroupV2
    );
    if !counts {
        skipped(&format!(
            "no cgroup for processes: {}",
            support.processes.not_better.unwrap_or_default()
        ));
    }
    counts
}

#[tokio::test]
async fn a_child_may_not_fork_beyond_its_limit() {
    if !counts_processes() {
        return;
    }
    let script =
        "i=0; while [ $i -lt 30 ]; do sleep 600 >/dev/null 2>&1 & i=$((i+1)); echo $i; done";
    let limits = Limits {
        processes: Some(12),
        ..Limits::default()
    };
    let mut child = start(group(script).limits(limits)).await;
    let mut told = String::new();
    within(
        "the output",
        child.take_stdout().unwrap().read_to_string(&mut told),
    )
    .await
    .unwrap();
    let exit = within("the end", child.finish()).await;
    assert!(
        !exit.success() && told.lines().count() <= 11,
        "{exit}: {told}"
    );
}

#[tokio::test]
async fn a_child_over_its_memory_is_told_from_one_that_fails() {
    let limits = Limits {
        memory: Some(64 << 20),
        ..Limits::default()
    };
    let dd = ["if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"];
    let spec = ChildSpec::new("dd")
        .args(dd)
        .containment(Containment::Group)
        .limits(limits);
    let mut child = start(spec).await;
    let exit = within("the end", child.wait()).await;
    assert!(!exit.success(), "{exit}");
    match limit_support().memory.not_better {
        None => assert_eq!((exit.signal, child.memory_kills()), (Some(9), 1)),
        Some(why) => skipped(&format!("no cgroup for memory: {why}")),
    }
    within("the folder to go", child.finish()).await;
}

#[tokio::test]
async fn a_child_has_no_more_open_files_than_it_may() {
    let limits = Limits {
        open_files: Some(64),
        ..Limits::default()
    };
    assert_eq!(output(sh("ulimit -n").limits(limits)).await, "64\n");
}

#[tokio::test]
async fn what_left_the_group_is_still_met_by_its_cgroup() {
    if !counts_processes() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    // By a stop, by the child's own end, and by a drop.
    for (script, way) in [("cat", 0), ("read end", 1), ("cat", 2)] {
        let daemon = "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & ";
        let spec = group(&format!("{daemon}{script}")).record_dir(state.path());
        let mut child = start(spec).await;
        let mut stdout = BufReader::new(child.take_stdout().unwrap());
        let daemon: u32 = line(&mut stdout).await.parse().unwrap();
        assert!(runs(daemon));
        match way {
            0 => drop(within("the stop", stop(child, HASTY)).await),
            1 => drop(within("the end", child.finish()).await),
            _ => drop(child),
        }
        eventually("the daemon is gone", || !runs(daemon)).await;
        // The last to go is the record.
        eventually("all is gone", || {
            std::fs::read_dir(state.path()).unwrap().count() == 0
        })
        .await;
    }
}
