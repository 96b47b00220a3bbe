//! A real process: the owner of its stdout, its end, the output of its flags.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Timeout that turns a hang into a failure. A handler that blocks does so for ten times as long.
const SOON: Duration = Duration::from_secs(60);

fn program() -> Command {
    let mut path = std::env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let mut command = Command::new(path.join("examples/misbehaving"));
    command
        .env_remove("ADAPTER_CONFIG")
        .env_remove("CONFORM_PROBE");
    command
}

/// A running adapter; killed if a test fails.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    fn start() -> Self {
        Self::with(&mut program())
    }

    fn with(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example is built");
        let input = child.stdin.take();
        let lines = read(child.stdout.take().expect("piped"));
        let stderr = read(child.stderr.take().expect("piped"));
        let mut running = Self {
            child,
            input,
            lines,
            stderr,
        };
        running
            .say(r#"{"type":"session.start","session_id":"a","extensions":["turns","control"]}"#);
        assert!(running.line().contains("session.ready"));
        running
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{line}").expect("the adapter reads");
    }

    fn ask(&mut self, content: &str) {
        self.say(&format!(
            r#"{{"type":"user.input","session_id":"a","content":"{content}"}}"#
        ));
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line soon")
    }

    fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status;
            }
            assert!(begun.elapsed() < SOON, "it ends soon");
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(from: impl Read + Send + 'static) -> Receiver<String> {
    let (lines, read) = sync_channel(1024);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    read
}

#[test]
fn what_is_printed_lands_on_stderr_and_children_read_nothing() {
    let mut adapter = Running::start();
    adapter.ask("print");
    assert!(adapter.line().contains("turn.complete"));
    assert!(
        adapter
            .stderr
            .recv_timeout(SOON)
            .expect("a line")
            .contains("printed")
    );
    adapter.ask("child");
    assert!(adapter.line().contains(r#""content":"true""#));
    assert!(adapter.line().contains("turn.complete"));
    assert_eq!(
        adapter.stderr.recv_timeout(SOON).as_deref(),
        Ok("from the child")
    );
    adapter.input = None;
    assert_eq!(adapter.ended().code(), Some(0));
}

#[test]
fn it_ends_soon_after_its_input_whatever_handlers_do() {
    for handler in ["", "wait", "block", "flood"] {
        let mut adapter = Running::start();
        if !handler.is_empty() {
            adapter.ask(handler);
            adapter.line();
        }
        let drained = std::thread::spawn({
            adapter.input = None;
            let lines = std::mem::replace(&mut adapter.lines, sync_channel(1).1);
            move || {
                lines
                    .iter()
                    .filter(|line| line.contains("turn.complete"))
                    .count()
            }
        });
        assert_eq!(adapter.ended().code(), Some(0), "{handler}");
        assert_eq!(
            drained.join().expect("no panic"),
            usize::from(!handler.is_empty()),
            "{handler}"
        );
    }
}

#[test]
fn it_ends_soon_after_sigterm() {
    for handler in ["", "wait", "block"] {
        let mut adapter = Running::start();
        if !handler.is_empty() {
            adapter.ask(handler);
            adapter.line();
        }
        let pid = Pid::from_child(&adapter.child);
        kill_process(pid, Signal::TERM).expect("ours");
        assert_eq!(adapter.ended().code(), Some(0), "{handler}");
    }
}

#[test]
fn it_ends_soon_after_no_one_reads_and_says_nothing_of_it() {
    let mut child = program()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example is built");
    let mut input = child.stdin.take().expect("piped");
    writeln!(input, r#"{{"type":"session.start","session_id":"a"}}"#).expect("reads");
    writeln!(
        input,
        r#"{{"type":"user.input","session_id":"a","content":"flood"}}"#
    )
    .expect("reads");
    let mut output: ChildStdout = child.stdout.take().expect("piped");
    output.read_exact(&mut [0; 100]).expect("floods");
    drop(output);
    let stderr = read(child.stderr.take().expect("piped"));
    let mut running = Running {
        child,
        input: Some(input),
        lines: sync_channel(1).1,
        stderr,
    };
    assert_eq!(running.ended().code(), Some(0));
    assert_eq!(
        running.stderr.recv().ok(),
        None,
        "a clean end is not an error"
    );
}

#[test]
fn a_handler_that_blocks_every_thread_delays_no_pong_and_no_stop() {
    let mut adapter = Running::start();
    for session in ["b", "c", "d", "e", "f", "g", "h", "i"] {
        adapter.say(&format!(
            r#"{{"type":"session.start","session_id":"{session}"}}"#
        ));
        adapter.say(&format!(
            r#"{{"type":"user.input","session_id":"{session}","content":"block"}}"#
        ));
    }
    adapter.line();
    adapter.say(r#"{"type":"ping","session_id":"","nonce":7}"#);
    loop {
        let line = adapter.line();
        assert!(
            !line.contains("turn.complete"),
            "a handler has ended before the pong: {line}"
        );
        if line.contains("pong") {
            break;
        }
    }
    adapter.say(r#"{"type":"stop","session_id":"b"}"#);
    while !adapter.line().contains("turn.complete") {}
    adapter.input = None;
    assert_eq!(adapter.ended().code(), Some(0));
}

#[test]
fn files_and_closed_streams_serve_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let said = "{\"type\":\"session.start\",\"session_id\":\"a\"}\n{\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"hi\"}\n";
    std::fs::write(&script, said).expect("written");
    let out = folder.path().join("out");
    let status = program()
        .stdin(std::fs::File::open(&script).expect("there"))
        .stdout(std::fs::File::create(&out).expect("made"))
        .status()
        .expect("runs");
    assert_eq!(status.code(), Some(0));
    assert!(
        std::fs::read_to_string(&out)
            .expect("text")
            .contains("turn.complete")
    );
    let mut shell = Command::new("sh");
    let path = program().get_program().to_owned();
    let output = shell
        .args(["-c", "\"$0\" 2>&-"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = output.spawn().expect("runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(said.as_bytes())
        .expect("reads");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("turn.complete"));
}

#[test]
fn flags_are_answered_and_the_configuration_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.json");
    let run = |text: &str, flag: &str| {
        std::fs::write(&config, text).expect("written");
        let output = program()
            .arg(flag)
            .env("ADAPTER_CONFIG", &config)
            .stdin(Stdio::null())
            .output();
        let output = output.expect("runs");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), stdout, stderr)
    };
    let (code, stdout, _) = run("{}", "--describe");
    let described: serde_json::Value = serde_json::from_str(&stdout).expect("json");
    assert_eq!(code, Some(0));
    assert_eq!(described["name"], "misbehaving");
    assert_eq!(described["use_when"], "testing the SDK");
    assert!(described["config_schema"]["properties"]["prefix"].is_object());
    for (text, expected, status) in [
        (r#"{"healthy":true}"#, 0, "pass"),
        ("{}", 0, "warn"),
        (r#"{"healthy":false}"#, 1, "fail"),
    ] {
        let (code, stdout, _) = run(text, "--diagnose");
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("json");
        assert_eq!(
            (code, report["status"].as_str()),
            (Some(expected), Some(status))
        );
        assert!(
            report["tested_at"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z'))
        );
    }
    let (code, stdout, stderr) = run(r#"{"limits":{"words":"hunter2"}}"#, "");
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(
        stderr.contains("limits.words") && !stderr.contains("hunter2"),
        "{stderr}"
    );
    assert_eq!(run("{", "").0, Some(2));
    // A bad configuration is refused with the schema, so that it can be corrected.
    assert_eq!(run("{", "--describe").0, Some(0));
    std::fs::write(&config, r#"{"prefix":"> "}"#).expect("written");
    let mut adapter = Running::with(program().env("ADAPTER_CONFIG", &config));
    adapter.ask("environment");
    assert!(
        adapter.line().contains("None"),
        "children do not inherit it"
    );
    adapter.line();
    adapter.ask("hi");
    assert!(adapter.line().contains("> hi"));
}
