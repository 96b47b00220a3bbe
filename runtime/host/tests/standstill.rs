//! Deadlines and processes that do not run: a host that did not run is no silent adapter, and a
//! suspended adapter is one.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use support::script;
use tempfile::TempDir;
use trunkline_host::{
    Cause, Event, EventKind, Host, Session, SessionOptions, Turn, protocol::SessionId,
};

/// The inactivity timeout of every host here. Standstills are longer.
const INACTIVITY: Duration = Duration::from_secs(2);
/// A standstill: longer than every deadline of the host.
const STANDSTILL: Duration = Duration::from_secs(4);
/// Timeout for what a test waits for, on a busy machine: after that it hangs.
const HANG: Duration = Duration::from_secs(60);
/// Variable with the FIFO of a host that runs in a process of its own.
const FIFO: &str = "TRUNKLINE_TEST_STANDSTILL_FIFO";

/// An adapter that reports its process number, answers when a line comes through a FIFO, and
/// completes its turn by a second.
fn answering(fifo: &Path) -> String {
    let fifo = fifo.display();
    format!(
        r#"exec 3<>{fifo}
        read -r start; read -r input
        printf '{{"type":"output","session_id":"s","content":"%s"}}\n' $$
        read -r line <&3
        printf '{{"type":"output","session_id":"s","content":"here"}}\n'
        read -r line <&3
        printf '{{"type":"turn.complete","session_id":"s"}}\n'
        read -r close"#
    )
}

fn host_of(text: &str) -> (Host, Session) {
    let mut agent = script(text);
    agent.timeouts.inactivity = Some(INACTIVITY);
    agent.timeouts.turn = Some(HANG);
    agent.timeouts.stop = Duration::from_secs(1);
    let host = Host::builder().agent(agent).build().unwrap();
    let options = SessionOptions {
        id: Some(SessionId::new("s").unwrap()),
        ..SessionOptions::default()
    };
    let session = host.open("sh", options).unwrap();
    (host, session)
}

async fn first_output(turn: &mut Turn) -> String {
    loop {
        if let Event {
            kind: EventKind::Output(output),
            ..
        } = turn.next().await.unwrap()
        {
            return output.content;
        }
    }
}

fn fifo() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    (dir, path)
}

fn answer(fifo: &Path) {
    // Both ends: it does not wait for the reader.
    let mut fifo = fs::File::options()
        .read(true)
        .write(true)
        .open(fifo)
        .unwrap();
    fifo.write_all(b"go\n").unwrap();
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status().unwrap();
    assert!(sent.success(), "{name} {pid}");
}

/// Waits until a process is in a state of this letter.
fn await_state(pid: &str, letter: char) {
    let begun = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with(letter) {
            return;
        }
        assert!(begun.elapsed() < HANG, "{pid} is not {letter}: {stat}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Suspends processes for a standstill. A wait of this length is what is tested.
fn stand_still(pids: &[&str]) {
    for pid in pids {
        signal("-STOP", pid);
        await_state(pid, 'T');
    }
    std::thread::sleep(STANDSTILL);
    for pid in pids.iter().rev() {
        signal("-CONT", pid);
    }
}

/// A host in a process of its own, whose turn runs.
struct OtherHost {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    adapter: String,
    fifo: (TempDir, PathBuf),
}

impl OtherHost {
    fn start() -> Self {
        let fifo = fifo();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "host_of_another_process",
                "--ignored",
                "--nocapture",
            ])
            .env(FIFO, &fifo.1)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let mut other = Self {
            process,
            lines: BufReader::new(stdout).lines(),
            adapter: String::new(),
            fifo,
        };
        other.adapter = other.report("adapter");
        other
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }

    /// The next thing of this name that the host reports.
    fn report(&mut self, name: &str) -> String {
        for line in &mut self.lines {
            let line = line.unwrap();
            if let Some((_, value)) = line.split_once(&format!("{name}: ")) {
                return value.to_owned();
            }
        }
        panic!("the host ended before `{name}`");
    }

    /// Lets the adapter answer twice, and returns the cause of the turn's end.
    fn answer(&mut self) -> String {
        answer(&self.fifo.1);
        self.report("answer");
        answer(&self.fifo.1);
        self.report("end")
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        // A host that has ended is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "the host of other tests here, which run it in a process of its own"]
async fn host_of_another_process() {
    let Some(fifo) = std::env::var_os(FIFO) else {
        return;
    };
    let (host, session) = host_of(&answering(Path::new(&fifo)));
    let mut turn = session.send("go").unwrap();
    println!("\nadapter: {}", first_output(&mut turn).await);
    loop {
        match turn.next().await.unwrap().kind {
            EventKind::Output(_) => println!("answer: yes"),
            EventKind::End(end) => {
                println!("end: {}", end.cause);
                break;
            }
            _ => {}
        }
    }
    host.shutdown().await;
}

#[test]
fn a_host_that_stands_still_holds_no_silence_against_its_adapter() {
    let mut host = OtherHost::start();
    for _ in 0..2 {
        stand_still(&[&host.pid()]);
    }
    assert_eq!(host.answer(), Cause::Complete.as_str());
}

#[test]
fn an_answer_that_came_while_the_host_stood_still_is_read_first() {
    let mut host = OtherHost::start();
    signal("-STOP", &host.pid());
    await_state(&host.pid(), 'T');
    for _ in 0..2 {
        answer(&host.fifo.1);
    }
    std::thread::sleep(STANDSTILL);
    signal("-CONT", &host.pid());
    assert_eq!(host.report("end"), Cause::Complete.as_str());
}

#[test]
fn a_host_and_an_adapter_that_stand_still_together_go_on_together() {
    let mut host = OtherHost::start();
    let adapter = host.adapter.clone();
    let pid = host.pid();
    stand_still(&[&adapter, &pid]);
    assert_eq!(host.answer(), Cause::Complete.as_str());
}

#[test]
fn a_silent_adapter_ends_in_time_after_a_standstill() {
    let mut host = OtherHost::start();
    stand_still(&[&host.pid()]);
    let begun = Instant::now();
    assert_eq!(host.report("end"), Cause::StopUnanswered.as_str());
    // Its inactivity and its stop, on a machine that may be busy.
    assert!(begun.elapsed() < HANG / 2, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_adapter_is_silent_and_the_reason_names_it() {
    let (_dir, fifo) = fifo();
    let (host, session) = host_of(&answering(&fifo));
    let mut turn = session.send("go").unwrap();
    let pid = first_output(&mut turn).await;
    signal("-STOP", &pid);
    await_state(&pid, 'T');
    let end = turn.end().await;
    let message = end.error.unwrap().message.unwrap();
    assert_eq!(end.cause, Cause::StopUnanswered);
    assert!(
        message.starts_with("inactivity_timeout of 2 s reached while process ")
            && message.contains(&format!("`kill -CONT {pid}`"))
            && message.ends_with("the agent did not stop within stop_timeout of 1 s"),
        "{message}"
    );
    signal("-CONT", &pid);
    host.shutdown().await;
}

#[tokio::test]
async fn a_silent_adapter_that_runs_ends_in_time() {
    let (_dir, fifo) = fifo();
    let (host, session) = host_of(&answering(&fifo));
    let mut turn = session.send("go").unwrap();
    first_output(&mut turn).await;
    let end = turn.end().await;
    assert_eq!(
        end.error.unwrap().message.as_deref(),
        Some(
            "inactivity_timeout of 2 s reached; the agent did not stop within stop_timeout of 1 s"
        )
    );
    host.shutdown().await;
}
