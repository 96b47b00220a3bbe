//! The same work through the host.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use trunkline_host::{
    EventKind, Host, Session, SessionOptions,
    config::{AgentConfig, Command},
};

use super::report::Latency;

#[derive(Clone, Copy)]
pub(crate) enum Runtime {
    Current,
    Multi,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "one thread",
            Self::Multi => "two threads",
        })
    }
}

impl Runtime {
    pub(crate) fn run<T>(self, work: impl Future<Output = T>) -> T {
        let mut builder = match self {
            Self::Current => tokio::runtime::Builder::new_current_thread(),
            Self::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap().block_on(work)
    }
}

/// A host whose agent is the counterpart.
pub(crate) fn host() -> Host {
    let program = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let mut agent = AgentConfig::external("a", Command::new(program).args(["counterpart", "adapter"]));
    agent.extensions = Some(Vec::new());
    Host::builder().agent(agent).build().unwrap()
}

/// A host whose counterpart is started by the standard library: valgrind knows no pidfd.
pub(crate) fn plain_host() -> Host {
    let mut agent = AgentConfig::external("a", Command::new("over pipes"));
    agent.extensions = Some(Vec::new());
    let connect = || {
        // The measuring process ends before it could wait for it; the counterpart ends with its input.
        #[expect(clippy::zombie_processes, reason = "see above")]
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["counterpart", "adapter"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        let input = tokio::process::ChildStdin::from_std(child.stdin.take().unwrap()).unwrap();
        (output, input)
    };
    Host::builder().agent_over(agent, connect).build().unwrap()
}

pub(crate) fn open(host: &Host) -> Session {
    host.open("a", SessionOptions::default()).unwrap()
}

pub(crate) async fn turn(session: &Session) {
    let mut turn = session.send("hello").unwrap();
    while let Some(event) = turn.next().await {
        if let EventKind::End(end) = event.kind {
            assert!(end.is_completed(), "{end:?}");
        }
    }
}

async fn timed_turns(session: &Session, turns: usize) -> Vec<u64> {
    let mut nanos = Vec::with_capacity(turns);
    for _ in 0..turns {
        let begun = Instant::now();
        turn(session).await;
        nanos.push(begun.elapsed().as_nanos() as u64);
    }
    nanos
}

/// The latency of turns, so many in flight.
pub(crate) fn latency(runtime: Runtime, in_flight: usize, turns: usize) -> Latency {
    runtime.run(async {
        let host = host();
        let mut tasks = JoinSet::new();
        for _ in 0..in_flight {
            let session = open(&host);
            tasks.spawn(async move {
                timed_turns(&session, turns / in_flight / 10 + 1).await;
                timed_turns(&session, turns / in_flight).await
            });
        }
        let nanos = tasks.join_all().await.concat();
        host.shutdown().await;
        Latency::of(nanos)
    })
}

/// Turns per second, so many in flight.
pub(crate) fn throughput(runtime: Runtime, in_flight: usize, turns: usize) -> f64 {
    runtime.run(async {
        let host = host();
        let sessions: Vec<_> = (0..in_flight).map(|_| open(&host)).collect();
        turn(&sessions[0]).await;
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for session in sessions {
            tasks.spawn(async move {
                for _ in 0..turns / in_flight {
                    turn(&session).await;
                }
            });
        }
        tasks.join_all().await;
        let rate = (turns / in_flight * in_flight) as f64 / begun.elapsed().as_secs_f64();
        host.shutdown().await;
        rate
    })
}

/// Messages of 120 bytes a second to one consumer.
pub(crate) fn stream(runtime: Runtime, messages: usize) -> f64 {
    runtime.run(async {
        let host = host();
        let session = open(&host);
        turn(&session).await;
        let begun = Instant::now();
        let seen = streamed(&session, messages, 120).await;
        let rate = messages as f64 / begun.elapsed().as_secs_f64();
        assert_eq!(seen, messages);
        host.shutdown().await;
        rate
    })
}

/// One turn of so many messages; how many came.
pub(crate) async fn streamed(session: &Session, messages: usize, bytes: usize) -> usize {
    let mut turn = session.send(format!("stream {messages} {bytes}")).unwrap();
    let mut seen = 0;
    while let Some(event) = turn.next().await {
        match event.kind {
            EventKind::Output(_) => seen += 1,
            EventKind::End(end) => assert!(end.is_completed(), "{end:?}"),
            _ => {}
        }
    }
    seen
}

fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

/// Bytes of host memory for each idle session.
pub(crate) fn idle_memory(sessions: usize) -> f64 {
    Runtime::Current.run(async {
        let host = host();
        let first = open(&host);
        turn(&first).await;
        let mut open_ones = Vec::with_capacity(sessions);
        let before = resident();
        for at in 0..sessions {
            open_ones.push(open(&host));
            if at % 1000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        turn(&open_ones[sessions - 1]).await;
        let bytes = (resident() - before) / sessions as f64;
        drop(open_ones);
        host.shutdown().await;
        bytes
    })
}

/// The latency with one session, and with so many open.
pub(crate) fn latency_among(open_sessions: usize, turns: usize) -> (Latency, Latency) {
    Runtime::Current.run(async {
        let host = host();
        let session = open(&host);
        timed_turns(&session, turns / 10).await;
        let alone = Latency::of(timed_turns(&session, turns).await);
        let mut others = Vec::with_capacity(open_sessions);
        for at in 0..open_sessions {
            others.push(open(&host));
            if at % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        turn(&others[open_sessions - 1]).await;
        // Every turn by another session: the one that spoke last is no help.
        let mut nanos = Vec::with_capacity(turns);
        for at in 0..turns {
            let session = &others[at * 7919 % open_sessions];
            let begun = Instant::now();
            turn(session).await;
            nanos.push(begun.elapsed().as_nanos() as u64);
        }
        drop(others);
        host.shutdown().await;
        (alone, Latency::of(nanos))
    })
}

/// The p99 of a small session while another streams lines of 1 MiB, in microseconds. The flood's adapter answers in the
/// order in which it is asked, so the small session speaks between short floods.
pub(crate) fn latency_beside_flood() -> f64 {
    Runtime::Multi.run(async {
        let host = host();
        let (small, big) = (open(&host), open(&host));
        turn(&small).await;
        let flood = tokio::spawn(async move {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(2) {
                streamed(&big, 1, 1024 * 1024).await;
            }
        });
        let mut nanos = Vec::new();
        while !flood.is_finished() {
            nanos.extend(timed_turns(&small, 1).await);
        }
        host.shutdown().await;
        Latency::of(nanos).p99
    })
}

/// The latency of seven sessions beside one whose consumer takes its time with each message.
pub(crate) fn latency_beside_slow(pause: Duration) -> Latency {
    Runtime::Current.run(async {
        let host = host();
        let slow = open(&host);
        let done = Arc::new(tokio::sync::Notify::new());
        let ended = done.clone();
        let consumer = tokio::spawn(async move {
            let mut turn = slow.send("stream 100000 120").unwrap();
            loop {
                tokio::select! {
                    () = ended.notified() => return,
                    event = turn.next() => drop(event),
                }
                tokio::time::sleep(pause).await;
            }
        });
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let session = open(&host);
            tasks.spawn(async move {
                timed_turns(&session, 250).await;
                timed_turns(&session, 2_500).await
            });
        }
        let nanos = tasks.join_all().await.concat();
        done.notify_one();
        consumer.await.unwrap();
        host.shutdown().await;
        Latency::of(nanos)
    })
}

/// How long so many turns of 4 KiB take, all in flight at once.
pub(crate) fn both_pipes_full(turns: usize) -> Duration {
    Runtime::Multi.run(async {
        let host = host();
        let text = "x".repeat(4 * 1024);
        let sessions: Vec<_> = (0..turns).map(|_| open(&host)).collect();
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for session in sessions {
            let text = text.clone();
            tasks.spawn(async move {
                loop {
                    if let Ok(turn) = session.send(text.as_str()) {
                        assert!(turn.end().await.is_completed());
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        tasks.join_all().await;
        let took = begun.elapsed();
        host.shutdown().await;
        took
    })
}
