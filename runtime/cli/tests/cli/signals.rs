use std::{
    io::{BufRead, BufReader, Lines, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, ChildStderr, ChildStdout},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Home;

/// Begins a turn and never ends it.
const DEAF: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        print(json.dumps({"type": "output", "session_id": message["session_id"], "content": "on my way"}), flush=True)
"#;

/// How long a process may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// A running program whose streams are read.
struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home.command(arguments).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.stdout.next().unwrap().unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn stderr_until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(
                self.stderr.read_line(&mut line).unwrap(),
                0,
                "{text:?} was not said"
            );
        }
    }

    fn end(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        code
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until no process has this path in its command line: a number that an adapter
/// reports may belong to its own PID namespace.
#[track_caller]
fn must_be_gone(path: &Path) {
    let path = path.as_os_str().as_bytes();
    let runs = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines =
            processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| line.windows(path.len()).any(|part| part == path))
    };
    let until = Instant::now() + GONE;
    while runs() {
        assert!(Instant::now() < until, "the adapter outlived its host");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupt_stops_the_turn() {
    let home = Home::new();
    let mut running = Running::start(&home, &["run", "--json", "/sleep 60"]);
    // The adapter's greeting: from here on the turn runs.
    assert_eq!(running.json()["type"], "session.info");
    running.signal(Signal::INT);
    let end = running.json();
    assert_eq!(
        (&end["type"], &end["status"]),
        (&"end".into(), &"stopped".into())
    );
    assert_eq!(running.end(), Some(130));
}

#[test]
fn a_second_interrupt_leaves_an_adapter_that_does_not_stop() {
    let home = Home::new();
    let path = home.file("deaf.py", DEAF);
    let adapter = shell_words::join(["python3", path.to_str().unwrap()]);
    let mut running = Running::start(&home, &["run", "--json", "--adapter", &adapter, "hello"]);
    assert_eq!(running.json()["type"], "output");
    running.signal(Signal::INT);
    running.stderr_until("stopping");
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(130));
    must_be_gone(&path);
}

#[test]
fn a_termination_ends_everything() {
    let home = Home::new();
    let path = home.file("deaf.py", DEAF);
    let adapter = shell_words::join(["python3", path.to_str().unwrap()]);
    let mut running = Running::start(&home, &["run", "--json", "--adapter", &adapter, "hello"]);
    assert_eq!(running.json()["type"], "output");
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(143));
    must_be_gone(&path);
}
