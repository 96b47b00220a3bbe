//! The same work through the host.

use std::{
    fs::File,
    io::BufReader,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use trunkline_host::{
    EventKind, Host, HostBuilder, Session, SessionOptions,
    config::{AgentConfig, Command},
    wirelog::{Entry, Reader, RecordEvent, WireLog, WireLogOptions},
};

use super::cost::{Cost, Latency, Meter};

#[derive(Clone, Copy)]
pub(crate) enum Runtime {
    Current,
    Multi,
}

impl Runtime {
    fn run<T>(self, work: impl Future<Output = T>) -> T {
        let mut builder = match self {
            Self::Current => tokio::runtime::Builder::new_current_thread(),
            Self::Multi => tokio::runtime::Builder::new_multi_thread(),
        };
        builder
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
            .block_on(work)
    }
}

/// Extensions offered to the adapter, which knows only the core.
#[derive(Clone, Copy)]
pub(crate) enum Offer {
    Defaults,
    Nothing,
}

/// A host with a user's defaults, whose agent is the counterpart.
fn host(offer: Offer) -> Host {
    host_with(offer, |builder| builder)
}

fn host_with(offer: Offer, change: impl FnOnce(HostBuilder) -> HostBuilder) -> Host {
    let program = std::env::current_exe()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let mut agent =
        AgentConfig::external("a", Command::new(program).args(["counterpart", "adapter"]));
    if let Offer::Nothing = offer {
        agent.extensions = Some(Vec::new());
    }
    change(Host::builder().agent(agent)).build().unwrap()
}

/// A host whose counterpart is started by the standard library: valgrind knows no pidfd.
fn plain_host() -> Host {
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
    let agent = AgentConfig::external("a", Command::new("over pipes"));
    Host::builder().agent_over(agent, connect).build().unwrap()
}

fn open(host: &Host) -> Session {
    host.open("a", SessionOptions::default()).unwrap()
}

async fn turn(session: &Session) {
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

/// So many turns of each session, all sessions at once; the sessions come back.
async fn turns_of_all(sessions: Vec<Session>, turns: usize) -> Vec<Session> {
    let mut tasks = JoinSet::new();
    for session in sessions {
        tasks.spawn(async move {
            for _ in 0..turns {
                turn(&session).await;
            }
            session
        });
    }
    tasks.join_all().await
}

/// Turns with so many in flight.
pub(crate) fn turns(runtime: Runtime, in_flight: usize, turns: usize) -> Cost {
    turns_of(&host(Offer::Defaults), runtime, in_flight, turns)
}

/// The same beside a wire log, and the part of its lines that was dropped.
pub(crate) fn turns_logged(runtime: Runtime, in_flight: usize, turns: usize) -> (Cost, f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.log");
    let log = Arc::new(WireLog::open(&WireLogOptions::new(&path).file_bytes(u64::MAX)).unwrap());
    let host = host_with(Offer::Defaults, |builder| builder.wire_sink(log));
    let cost = turns_of(&host, runtime, in_flight, turns);
    let mut kept = 0;
    let mut dropped = 0;
    let mut reader = Reader::new(BufReader::new(File::open(path).unwrap()));
    while let Some(entry) = reader.next().unwrap() {
        let Entry::Record(record) = entry else {
            panic!("{entry:?}")
        };
        match record.event {
            RecordEvent::Dropped { lines, .. } => dropped += lines,
            _ => kept += 1,
        }
    }
    (cost, dropped as f64 / (kept + dropped) as f64)
}

fn turns_of(host: &Host, runtime: Runtime, in_flight: usize, turns: usize) -> Cost {
    runtime.run(async {
        let sessions = turns_of_all((0..in_flight).map(|_| open(host)).collect(), 1).await;
        let each = turns / in_flight;
        let meter = Meter::start();
        let sessions = turns_of_all(sessions, each).await;
        let cost = meter.of_each(each * in_flight);
        drop(sessions);
        host.shutdown().await;
        cost
    })
}

/// Messages of 120 bytes to one consumer.
pub(crate) fn stream(runtime: Runtime, messages: usize) -> Cost {
    runtime.run(async {
        let host = host(Offer::Defaults);
        let session = open(&host);
        turn(&session).await;
        let meter = Meter::start();
        let seen = streamed(&session, messages, 120).await;
        let cost = meter.of_each(messages);
        assert_eq!(seen, messages);
        host.shutdown().await;
        cost
    })
}

/// Runs a turn of this many messages and returns the number that arrived.
async fn streamed(session: &Session, messages: usize, bytes: usize) -> usize {
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

/// The latency of turns, one at a time.
pub(crate) fn latency(runtime: Runtime, turns: usize) -> Latency {
    runtime.run(async {
        let host = host(Offer::Defaults);
        let session = open(&host);
        timed_turns(&session, turns / 10).await;
        let nanos = timed_turns(&session, turns).await;
        host.shutdown().await;
        Latency::from_nanos(nanos)
    })
}

/// The processor time of opening a session, until its start is in the pipe, in nanoseconds.
pub(crate) fn opening(offer: Offer, sessions: usize) -> f64 {
    Runtime::Current.run(async {
        let host = host(offer);
        turn(&open(&host)).await;
        let meter = Meter::start();
        let opened = opened(&host, sessions).await;
        let cost = meter.of_each(sessions);
        drop(opened);
        host.shutdown().await;
        cost.cpu_ns
    })
}

/// Opens sessions; a turn of the last one follows all starts.
async fn opened(host: &Host, count: usize) -> Vec<Session> {
    let mut sessions = Vec::with_capacity(count);
    for at in 0..count {
        sessions.push(open(host));
        if at % 1000 == 999 {
            tokio::task::yield_now().await;
        }
    }
    turn(&sessions[count - 1]).await;
    sessions
}

/// Returns the bytes of an idle session among this many.
pub(crate) fn idle_memory(sessions: usize) -> f64 {
    fn resident() -> f64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
    }
    Runtime::Current.run(async {
        let host = host(Offer::Nothing);
        turn(&open(&host)).await;
        let before = resident();
        let opened = opened(&host, sessions).await;
        let bytes = (resident() - before) / sessions as f64;
        drop(opened);
        host.shutdown().await;
        bytes
    })
}

/// Returns the latency of a small session while another streams lines of 1 MiB. The flood's adapter
/// answers in order, so the small session sends its input between short floods.
pub(crate) fn latency_beside_flood() -> Latency {
    Runtime::Multi.run(async {
        let host = host(Offer::Defaults);
        let small = open(&host);
        let big = open(&host);
        turn(&small).await;
        let flood = tokio::spawn(async move {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(1) {
                streamed(&big, 1, 1024 * 1024).await;
            }
        });
        let mut nanos = Vec::new();
        while !flood.is_finished() {
            nanos.extend(timed_turns(&small, 1).await);
        }
        host.shutdown().await;
        Latency::from_nanos(nanos)
    })
}

/// Runs one kind of work, to be counted from outside.
pub(crate) fn work(kind: &str, count: usize) {
    Runtime::Current.run(async {
        let host = plain_host();
        match kind {
            "stream" => assert_eq!(streamed(&open(&host), count, 120).await, count),
            _ => drop(turns_of_all((0..64).map(|_| open(&host)).collect(), count / 64).await),
        }
        host.shutdown().await;
    });
}
