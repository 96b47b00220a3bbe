use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use trunkline_process::{Containment, PipeEnd, StderrDrain, StderrTail, read_held};

use super::watch::{DEADLINE, containment, line, sh, start, within};

#[tokio::test]
async fn the_last_line_before_the_exit_is_in_the_tail() {
    let mut child = start(sh("echo starting >&2; printf 'no such model' >&2; exit 2")).await;
    let tail = StderrTail::default();
    let drain = StderrDrain::new(child.take_stderr().unwrap(), tail.clone());
    let exit = within("the end", child.wait()).await;
    let mut lines = Vec::new();
    within(
        "the rest",
        drain.finish(DEADLINE * 2, |line| lines.push(line.text.into_owned())),
    )
    .await
    .unwrap();
    assert_eq!(exit.code, Some(2));
    assert_eq!(tail.text(), "starting\nno such model");
    assert_eq!(lines, ["starting", "no such model"]);
    within("the folder to go", child.finish()).await;
}

/// A descendant that left the group holds the pipes open after the child's end.
const HOLDER: &str =
    "setsid sh -c 'echo $$; exec sleep 600' & read go; echo out; echo last words >&2; exit 3";

#[tokio::test]
async fn a_descendant_that_holds_the_pipes_holds_no_one_up() {
    let mut child = start(sh(HOLDER)).await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let holder: i32 = line(&mut stdout).await.parse().unwrap();
    let tail = StderrTail::default();
    let drain = StderrDrain::new(child.take_stderr().unwrap(), tail.clone());
    drop(child.take_stdin());
    let exit = within("the end", child.wait()).await;
    assert_eq!(exit.code, Some(3));

    within("the rest", drain.finish(Duration::from_millis(20), |_| ()))
        .await
        .unwrap();
    assert_eq!(tail.text(), "last words\n");
    let mut rest = Vec::new();
    let held = read_held(stdout.get_ref(), |bytes| rest.extend_from_slice(bytes)).unwrap();
    assert_eq!(rest, b"out\n");

    if containment() == Containment::Group {
        // A cgroup may have met it; if there is one, and when it has, is the kernel's affair.
        let holder = rustix::process::Pid::from_raw(holder).unwrap();
        let _ = rustix::process::kill_process(holder, rustix::process::Signal::KILL);
    } else {
        assert_eq!(
            held,
            PipeEnd::Reached,
            "it died before its child was told to have ended"
        );
    }
    within("the end of the pipe", stdout.read_to_end(&mut rest))
        .await
        .unwrap();
    within("the folder to go", child.finish()).await;
}

#[tokio::test]
async fn a_stranger_who_holds_the_pipes_holds_no_one_up() {
    // Behind an init the number of the child itself is not known.
    if containment() != Containment::Group {
        return;
    }
    let mut child = start(sh("echo out; echo last words >&2; read go; exit 3")).await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "out");
    let hold = |number: u32| {
        OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/fd/{number}", child.pid()))
            .unwrap()
    };
    let mut held = [hold(1), hold(2)];
    let tail = StderrTail::default();
    let drain = StderrDrain::new(child.take_stderr().unwrap(), tail.clone());
    drop(child.take_stdin());
    let exit = within("the end", child.wait()).await;
    assert_eq!(exit.code, Some(3));

    within("the rest", drain.finish(Duration::from_millis(20), |_| ()))
        .await
        .unwrap();
    assert_eq!(tail.text(), "last words\n");
    held[0].write_all(b"more\n").unwrap();
    let mut rest = Vec::new();
    let end = read_held(stdout.get_ref(), |bytes| rest.extend_from_slice(bytes)).unwrap();
    assert_eq!((end, rest.as_slice()), (PipeEnd::StillOpen, &b"more\n"[..]));

    drop(held);
    within("the end of the pipe", stdout.read_to_end(&mut rest))
        .await
        .unwrap();
    within("the folder to go", child.finish()).await;
}
