//! A relay as a process: the pipes are the wire, signals end it, nothing is left behind ([relay.9],
//! [frame.9]).
//!
//! No harness: with an argument, this program is the relay under test; without, it starts itself as
//! one and judges it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing step fails the test; printing is the test"
)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use trunkline_host::{
    Host,
    config::{AgentConfig, Command as AgentCommand},
};
use trunkline_relay::{RelayOptions, serve_stdio};

/// Answers each input and ends with its input; writes its pid to a file for the test.
const AGENT: &str = r#"echo "$$" > "$PID_FILE"
while read -r line; do
  case "$line" in
    *'"user.input"'*)
      echo '{"type":"output","session_id":"s","content":"done"}'
      case "$line" in *linger*) ;; *) echo '{"type":"turn.complete","session_id":"s"}' ;; esac ;;
  esac
done"#;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("relay") => relay(),
        // The option that test runners pass to a program with a harness.
        Some("--list") => ExitCode::SUCCESS,
        _ => {
            the_pipes_are_the_wire_and_the_end_of_input_ends_it();
            a_signal_ends_it_in_mid_turn();
            a_hub_that_is_gone_ends_it();
            a_hub_that_closes_its_side_and_reads_no_answer_ends_it();
            ExitCode::SUCCESS
        }
    }
}

#[tokio::main]
async fn relay() -> ExitCode {
    let command = AgentCommand::new("sh").arg("-c").arg(AGENT);
    let command = command.env("PID_FILE", std::env::var("PID_FILE").unwrap());
    let host = Host::builder()
        .agent(AgentConfig::external("sh", command))
        .build()
        .unwrap();
    let relay = serve_stdio(host, RelayOptions::default());
    let printing = async {
        tokio::task::yield_now().await;
        println!("a library prints");
    };
    let (report, ()) = tokio::join!(relay, printing);
    report.unwrap();
    ExitCode::SUCCESS
}

struct Relay {
    process: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    folder: tempfile::TempDir,
}

impl Relay {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg("relay")
            .env("PID_FILE", folder.path().join("pid"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = process.stdout.take().map(BufReader::new);
        Self {
            process,
            input,
            output,
            folder,
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn begin_turn(&mut self, content: &str) {
        self.say(r#"{"type":"session.start","session_id":"s"}"#);
        self.say(&format!(
            r#"{{"type":"user.input","session_id":"s","content":"{content}"}}"#
        ));
        assert_eq!(
            self.hear(),
            r#"{"type":"output","session_id":"s","content":"done"}"#
        );
    }

    /// Waits for the end, which is orderly and in time, and leaves no agent.
    fn ends(mut self) {
        let begun = Instant::now();
        let status = loop {
            match self.process.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > Duration::from_secs(10) => {
                    self.process.kill().unwrap();
                    panic!("the relay does not end");
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert!(status.success(), "{status}");
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        let agent = std::fs::read_to_string(self.folder.path().join("pid")).unwrap();
        let left = std::path::Path::new("/proc").join(agent.trim());
        assert!(!left.exists(), "the agent's process is left behind");
    }
}

const END: &str = r#"{"type":"turn.complete","session_id":"s"}"#;

fn the_pipes_are_the_wire_and_the_end_of_input_ends_it() {
    let mut relay = Relay::start();
    relay.begin_turn("hello");
    assert_eq!(relay.hear(), END);
    relay.input = None;
    assert_eq!(relay.hear(), "", "nothing but messages reaches the wire");
    relay.ends();
}

fn a_signal_ends_it_in_mid_turn() {
    let mut relay = Relay::start();
    relay.begin_turn("linger");
    let pid = rustix::process::Pid::from_child(&relay.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(relay.hear(), END);
    relay.ends();
}

fn a_hub_that_is_gone_ends_it() {
    let mut relay = Relay::start();
    relay.begin_turn("linger");
    // The output breaks while the input stays open.
    relay.output = None;
    relay.say(r#"{"type":"stop","session_id":"s"}"#);
    relay.say(r#"{"type":"ping","session_id":""}"#);
    relay.ends();
}

fn a_hub_that_closes_its_side_and_reads_no_answer_ends_it() {
    let mut relay = Relay::start();
    relay.begin_turn("linger");
    let nonce = "n".repeat(300_000);
    for _ in 0..5 {
        relay.say(&format!(
            r#"{{"type":"ping","session_id":"","nonce":"{nonce}"}}"#
        ));
    }
    relay.input = None;
    relay.ends();
}
