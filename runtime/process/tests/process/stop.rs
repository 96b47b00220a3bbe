use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use trunkline_process::{ChildSpec, Containment, Signal, StopSteps, stop};

use super::watch::{DEADLINE, containment, eventually, exists, line, runs, sh, start, within};

/// Ends each step at once, so that only the order decides.
const HASTY: StopSteps = StopSteps {
    close: Duration::ZERO,
    eof: Duration::from_millis(50),
    term: Duration::from_millis(50),
};

/// Never gets past the step under test.
fn slow() -> StopSteps {
    StopSteps {
        close: DEADLINE,
        eof: DEADLINE * 2,
        term: DEADLINE * 2,
    }
}

#[tokio::test]
async fn a_child_that_heeds_the_end_of_its_input_is_not_signalled() {
    let child = start(sh("trap 'exit 9' TERM; cat >/dev/null; echo bye; exit 4")).await;
    let exit = within("the stop", stop(child, slow())).await;
    assert_eq!(exit.code, Some(4));
}

#[tokio::test]
async fn a_child_that_ignores_the_end_of_its_input_is_terminated() {
    let child = start(ChildSpec::new("sleep").arg("600")).await;
    let exit = within(
        "the stop",
        stop(
            child,
            StopSteps {
                term: DEADLINE * 2,
                ..HASTY
            },
        ),
    )
    .await;
    assert_eq!(exit.to_string(), "signal 15 (SIGTERM)");
}

#[tokio::test]
async fn a_child_deaf_to_sigterm_is_killed() {
    let mut child = start(sh("trap '' TERM; echo deaf; while :; do sleep 600; done")).await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "deaf");
    let pid = child.pid();
    let begun = Instant::now();
    let exit = within("the stop", stop(child, HASTY)).await;
    assert_eq!(exit.to_string(), "signal 9 (SIGKILL)");
    assert!(begun.elapsed() >= HASTY.eof + HASTY.term);
    assert!(!exists(pid));
}

#[tokio::test]
async fn a_stopped_child_hears_sigterm() {
    let mut child = start(sh(
        "trap 'exit 7' TERM; echo ready; kill -STOP $$; while :; do sleep 600 & wait; done",
    ))
    .await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "ready");
    let exit = within(
        "the stop",
        stop(
            child,
            StopSteps {
                term: DEADLINE * 2,
                ..HASTY
            },
        ),
    )
    .await;
    assert_eq!(exit.code, Some(7));
}

#[tokio::test]
async fn a_talkative_child_is_not_stuck_on_pipes_that_no_one_reads() {
    let script = "cat >/dev/null; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 5";
    let exit = within("the stop", stop(start(sh(script)).await, slow())).await;
    assert_eq!(exit.code, Some(5));
}

#[tokio::test]
async fn what_is_left_of_the_group_dies_with_its_leader() {
    if containment() == Containment::Namespace {
        // The ids that it prints are not valid out here; `trees` searches for itself.
        return;
    }
    let mut child = start(sh("sleep 600 & echo $!; exec cat")).await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let grandchild = line(&mut stdout).await.parse().unwrap();
    assert!(runs(grandchild));
    drop(child.take_stdin());
    assert!(within("the end", child.wait()).await.success());
    eventually("the grandchild has ended", || !runs(grandchild)).await;
    // The pipe ends too: no process holds it.
    assert_eq!(line(&mut stdout).await, "");
    within("the folder to go", child.finish()).await;
}

#[tokio::test]
async fn the_whole_group_dies_when_the_child_is_dropped() {
    if containment() == Containment::Namespace {
        // The ids that it prints are not valid out here; `trees` searches for itself.
        return;
    }
    let mut child = start(sh(
        "trap '' TERM; sleep 600 & echo $!; sh -c 'echo $$; exec sleep 600'",
    ))
    .await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let mut pids = vec![child.pid()];
    for _ in 0..2 {
        pids.push(line(&mut stdout).await.parse().unwrap());
    }
    let folder = child.private_dir().to_owned();
    drop(child);
    for pid in pids {
        eventually("it has ended", || !runs(pid)).await;
    }
    eventually("its folder is gone", || !folder.exists()).await;
}

#[tokio::test]
async fn a_signal_reaches_the_program_under_a_wrapper() {
    let mut child = start(sh(
        "sh -c 'trap \"echo heard; exit\" INT; echo ready; while read x; do :; done'; exit 6",
    ))
    .await;
    let _stdin = child.take_stdin().unwrap();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "ready");
    // The inner shell notices the signal when its read returns, or at once; the outer one waits for it.
    child.signal_tree(Signal::Interrupt).unwrap();
    assert_eq!(line(&mut stdout).await, "heard");
    within("the end", child.finish()).await;
}

#[tokio::test]
async fn a_signal_to_an_ended_child_goes_nowhere() {
    let mut child = start(sh("exit 0")).await;
    within("the end", child.wait()).await;
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        child.signal_tree(signal).unwrap();
    }
    within("the folder to go", child.finish()).await;
}

#[tokio::test]
async fn a_stop_that_is_given_up_kills() {
    let mut child = start(ChildSpec::new("sleep").arg("600")).await;
    let pid = child.pid();
    let folder = child.private_dir().to_owned();
    let mut stdin = child.take_stdin().unwrap();
    tokio::select! {
        biased;
        exit = stop(child, slow()) => panic!("ended with {exit}"),
        () = tokio::task::yield_now() => {}
    }
    eventually("it is reaped", || !exists(pid)).await;
    eventually("its folder is gone", || !folder.exists()).await;
    assert!(stdin.write_all(b"x").await.is_err());
}

#[tokio::test]
async fn a_host_reads_on_while_the_steps_go_on() {
    let mut child = start(sh(
        "cat >/dev/null; for i in 1 2 3; do echo $i; done; exec sleep 600",
    ))
    .await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let reading = tokio::spawn(async move {
        let mut lines = Vec::new();
        let mut next = String::new();
        while stdout.read_line(&mut next).await.unwrap() > 0 {
            lines.push(std::mem::take(&mut next));
        }
        lines.concat()
    });
    let steps = StopSteps {
        eof: Duration::from_secs(1),
        ..HASTY
    };
    within("the stop", stop(child, steps)).await;
    assert_eq!(within("the rest", reading).await.unwrap(), "1\n2\n3\n");
}
