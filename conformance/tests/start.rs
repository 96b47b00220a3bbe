//! Start of a program under test: its build, and its environment.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use trunkline_testing::has_program;

/// An adapter that leaves its output in a buffer, as Python does with a pipe.
const UNFLUSHED: &str = "
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'user.input':
        print(json.dumps({'type': 'turn.complete', 'session_id': message['session_id']}))
";

/// Runs one case with an adapter in a file `adapter.py`, and a configuration.
fn judge(adapter: &str, config: &str) -> Output {
    judge_within("1", adapter, config)
}

/// Does so with every bound multiplied.
fn judge_within(scale: &str, adapter: &str, config: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("adapter.py"), adapter).expect("it is written");
    fs::write(folder.path().join("conform.toml"), config).expect("it is written");
    Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
        .args(["adapter", "A-TRN-01", "--config", "conform.toml"])
        .args(["--seed", "1", "--time-scale", scale])
        .current_dir(folder.path())
        .env("PYTHONUNBUFFERED", "1")
        .output()
        .expect("the suite runs")
}

#[test]
fn a_variable_of_the_shell_hides_no_missing_flush() {
    if !has_program("python3") {
        return;
    }
    let ran = judge_within(
        "0.1",
        UNFLUSHED,
        "[adapter]\ncommand = ['python3', 'adapter.py']\n",
    );
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");

    // The same if its author declares it.
    let passed =
        "[adapter]\ncommand = ['python3', 'adapter.py']\npass_env = ['PYTHONUNBUFFERED']\n";
    let ran = judge(UNFLUSHED, passed);
    assert_ne!(ran.status.code(), Some(3), "{ran:?}");
}

#[test]
fn a_run_that_a_signal_ends_leaves_no_process() {
    if !has_program("python3") {
        return;
    }
    // Closes its output, reads nothing, and writes its id.
    let adapter = "import os, time\nos.close(1)\nopen('pid.new', 'w').write(str(os.getpid()))\n\
                   os.rename('pid.new', os.environ['PID_FILE'])\ntime.sleep(600)\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    fs::write(folder.path().join("adapter.py"), adapter).expect("it is written");
    let config = "[adapter]\ncommand = ['python3', 'adapter.py']\npass_env = ['PID_FILE']\n";
    fs::write(folder.path().join("conform.toml"), config).expect("it is written");
    for signal in [Signal::TERM, Signal::INT] {
        let mut suite = Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
            .args(["smoke", "--config", "conform.toml"])
            .current_dir(folder.path())
            .env("PID_FILE", &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the suite runs");
        while !file.exists() {
            assert!(suite.try_wait().expect("its status").is_none(), "it ended");
            std::thread::yield_now();
        }
        let id = Pid::from_child(&suite);
        kill_process(id, signal).expect("the suite runs");
        let status = suite.wait().expect("its status");
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        let adapter = fs::read_to_string(&file)
            .expect("the id")
            .parse()
            .expect("an id");
        let adapter = Pid::from_raw(adapter).expect("an id");
        // It is reaped by its new parent, in a moment.
        let until = Instant::now() + Duration::from_secs(30);
        while test_kill_process(adapter).is_ok() && !is_zombie(adapter) {
            assert!(Instant::now() < until, "the adapter runs");
            std::thread::yield_now();
        }
        fs::remove_file(&file).expect("it is removed");
    }
}

/// Returns true for a process that has ended and that its parent has not reaped.
fn is_zombie(id: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_variable_that_is_not_set_cannot_be_passed() {
    let ran = judge(
        "",
        "[adapter]\ncommand = ['true']\npass_env = ['NO_SUCH_VARIABLE_HERE']\n",
    );
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("NO_SUCH_VARIABLE_HERE"),
        "{ran:?}"
    );
}

#[test]
fn a_build_that_fails_is_shown_and_nothing_is_judged() {
    let build = "build = ['sh', '-c', 'echo it does not compile; exit 1']";
    let ran = judge("", &format!("[adapter]\ncommand = ['true']\n{build}\n"));
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(
        stderr.contains("status 1") && stderr.contains("it does not compile"),
        "{stderr}"
    );
}

#[test]
fn a_build_makes_the_program_in_the_folder_of_the_configuration() {
    if !has_program("python3") {
        return;
    }
    let build = "build = ['sh', '-c', 'sed s/true/flush=True/ adapter.py >built.py']";
    let adapter = UNFLUSHED.replace("['session_id']}))", "['session_id']}), true)");
    let ran = judge(
        &adapter,
        &format!("[adapter]\ncommand = ['python3', 'built.py']\n{build}\n"),
    );
    assert_ne!(ran.status.code(), Some(3), "{ran:?}");
}

#[test]
fn a_program_that_the_build_put_elsewhere_is_missed_by_its_folder() {
    let build = "build = ['sh', '-c', 'mkdir elsewhere; touch elsewhere/program']";
    let ran = judge(
        "",
        &format!("[adapter]\ncommand = ['target/program']\n{build}\n"),
    );
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(
        stderr.contains("there is no such file in /") && stderr.contains("CARGO_TARGET_DIR"),
        "{stderr}"
    );
}
