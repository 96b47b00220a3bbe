//! Events that a host passes to a wire sink.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use support::{named, script};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
    wirelog::{Wire, WireDirection, WireEvent, WireSink},
};

/// Keeps all that it is handed.
#[derive(Debug, Default)]
struct Kept {
    seen: Mutex<Vec<(String, u32, String)>>,
    flushed: Mutex<usize>,
}

impl WireSink for Kept {
    fn take(&self, wire: Wire<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let what = match wire.event {
            WireEvent::Started { pid } => format!("started {}", pid.is_some()),
            WireEvent::NotStarted { why } => format!("not started: {why}"),
            WireEvent::ToAdapter(bytes) => format!("> {}", text(bytes)),
            WireEvent::FromAdapter(bytes) => format!("< {}", text(bytes)),
            WireEvent::Stderr { line, .. } => format!("! {line}"),
            WireEvent::ToAgent {
                agent_process,
                line,
                ..
            } => format!("=> {agent_process} {}", text(line)),
            WireEvent::FromAgent {
                agent_process,
                line,
                ..
            } => format!("<= {agent_process} {}", text(line)),
            WireEvent::StdinClosed => "stdin closed".to_owned(),
            WireEvent::StdoutEnded => "stdout ended".to_owned(),
            WireEvent::Exited { code, .. } => format!("exited {code:?}"),
            _ => String::new(),
        };
        self.seen
            .lock()
            .unwrap()
            .push((wire.agent.to_owned(), wire.process, what));
    }

    fn flush(&self, _: Duration) {
        *self.flushed.lock().unwrap() += 1;
    }
}

impl Kept {
    fn events_of(&self, process: u32) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|(_, of, _)| *of == process)
            .map(|(.., what)| what.clone())
            .collect()
    }
}

#[tokio::test]
async fn an_embedder_gets_the_raw_bytes_in_order_and_each_run_has_its_number() {
    let kept = Arc::new(Kept::default());
    let turn = r#"echo oh >&2; read -r start; read -r input; echo 'no message'; printf '{"type":"turn.complete","session_id":"s"}\n'; read -r end; exit 3"#;
    let host = Host::builder()
        .agent(script(turn))
        .wire_sink(kept.clone())
        .build()
        .unwrap();
    for _ in 0..2 {
        let session = host.open("sh", named("s")).unwrap();
        assert!(session.send("a word").unwrap().end().await.is_completed());
        session.close().await;
        // The close is what it reads last; the next session starts another.
        while !kept
            .events_of(1)
            .iter()
            .any(|what| what.starts_with("exited"))
        {
            tokio::task::yield_now().await;
        }
    }
    host.shutdown().await;
    assert_eq!(*kept.flushed.lock().unwrap(), 1);
    for process in [1, 2] {
        let seen = kept.events_of(process);
        let at = |part: &str| {
            seen.iter()
                .position(|what| what.contains(part))
                .unwrap_or_else(|| panic!("{part}: {seen:?}"))
        };
        assert_eq!(seen[0], "started true");
        assert!(
            at("session.start") < at("a word") && at("a word") < at("no message"),
            "{seen:?}"
        );
        assert!(
            at("no message") <= at("turn.complete") && at("turn.complete") < at("session.close"),
            "{seen:?}"
        );
        assert!(at("! oh") < at("exited Some(3)"), "{seen:?}");
        assert!(seen.last().unwrap().starts_with("exited"), "{seen:?}");
        assert!(
            seen[at("a word")].ends_with('\n'),
            "one message with its LF"
        );
    }
}

/// Keeps what passes in one direction.
#[derive(Debug)]
struct Only(WireDirection, Kept);

impl WireSink for Only {
    fn take(&self, wire: Wire<'_>) {
        self.1.take(wire);
    }

    fn wants(&self, direction: WireDirection) -> bool {
        direction == self.0
    }
}

#[tokio::test]
async fn a_sink_gets_the_directions_that_it_wants_and_those_of_wrapped_agents() {
    // What a built-in adapter does for an agent that it wraps.
    let wraps = r#"import os, socket, struct, sys
agent = socket.socket(socket.AF_UNIX)
try:
    agent.connect(os.environ["TMPDIR"] + "/agent-wire")
    for kind, line in [(b">", b"prompt"), (b"<", b"answer")]:
        agent.sendall(kind + struct.pack("<QI", 0, len(line)) + line)
except OSError:
    pass
print("oh", file=sys.stderr, flush=True)
sys.stdin.readline(); sys.stdin.readline()
print('{"type":"turn.complete","session_id":"s"}', flush=True)
sys.stdin.readline()"#;
    for (direction, expected) in [
        (WireDirection::ToAgent, "=> 1 prompt"),
        (WireDirection::FromAgent, "<= 1 answer"),
        (WireDirection::Stderr, "! oh"),
    ] {
        let only = Arc::new(Only(direction, Kept::default()));
        let python = Command::new("python3").args(["-c", wraps]);
        let host = Host::builder()
            .agent(AgentConfig::external("py", python))
            .wire_sink(only.clone())
            .build()
            .unwrap();
        // It starts with its first session, after the socket exists.
        let session = host.open("py", named("s")).unwrap();
        assert!(session.send("a word").unwrap().end().await.is_completed());
        session.close().await;
        host.shutdown().await;
        assert_eq!(only.1.events_of(1), [expected]);
    }
}

#[tokio::test]
async fn a_start_that_fails_is_seen_with_the_reason() {
    let kept = Arc::new(Kept::default());
    let agent = AgentConfig::external("absent", Command::new("/nowhere/adapter"));
    let host = Host::builder()
        .agent(agent)
        .wire_sink(kept.clone())
        .build()
        .unwrap();
    let session = host.open("absent", named("s")).unwrap();
    assert!(!session.send("hi").unwrap().end().await.is_completed());
    let seen = kept.events_of(1);
    assert!(
        seen.len() == 1 && seen[0].starts_with("not started: "),
        "{seen:?}"
    );
    assert!(seen[0].contains("/nowhere/adapter"), "{seen:?}");
    host.shutdown().await;
}
