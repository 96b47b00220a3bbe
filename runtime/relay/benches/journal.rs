//! Cost of a journal for a hub: turns, a stream, attaching, listing.
//!
//! `cargo bench -p trunkline-relay --bench journal [ROW…]`. Turns and stream are measured with and
//! without the journal in turns, through a relay in this process and an adapter that is this
//! program again. Quote ratios, not times.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark reports on stdout and may panic"
)]

use std::{
    io::{BufRead, Write},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    runtime::Builder,
};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_journal::{Journal, Options};
use trunkline_protocol::{HostBody, HostMessage};
use trunkline_relay::{RelayOptions, serve};
use trunkline_sessions::{Archive, Sessions};

/// Number of measurements of turns and stream, with and without the journal in turns; the median
/// counts.
const ROUNDS: usize = 5;
const TURNS: usize = 40_000;
const SESSIONS: usize = 64;
const OUTPUTS: usize = 200_000;
const HISTORY: usize = 100_000;
const STORED: usize = 1_000_000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if args.first().map(String::as_str) == Some("counterpart") {
        return counterpart();
    }
    let rows: [(&str, fn()); 4] = [
        ("turns", turns),
        ("stream", stream),
        ("attach", attach),
        ("list", list),
    ];
    for (name, measure) in rows {
        if args.is_empty() || args.iter().any(|arg| name.contains(arg.as_str())) {
            measure();
        }
    }
}

/// Runs a fast adapter: it answers an input with as many outputs as the input names, or with one.
fn counterpart() {
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    let mut stdin = std::io::BufReader::with_capacity(64 * 1024, stdin);
    let mut line = String::new();
    let mut out = Vec::new();
    loop {
        line.clear();
        if stdin.read_line(&mut line).unwrap() == 0 {
            return;
        }
        let text = |name: &str| {
            let at = line.find(name)? + name.len();
            let end = line[at..].find('"')? + at;
            Some(line[at..end].to_owned())
        };
        let session = text("\"session_id\":\"").unwrap();
        if line.contains("\"session.start\"") {
            writeln!(out, r#"{{"type":"session.ready","session_id":"{session}","protocol":1,"extensions":["turns","events"]}}"#).unwrap();
        } else if line.contains("\"user.input\"") {
            let turn = text("\"turn_id\":\"").unwrap();
            let outputs: usize = text("\"content\":\"").unwrap().parse().unwrap_or(1);
            for _ in 0..outputs {
                writeln!(out, r#"{{"type":"output","session_id":"{session}","turn_id":"{turn}","content":"a piece of an answer"}}"#).unwrap();
                if out.len() > 64 * 1024 {
                    stdout.write_all(&out).unwrap();
                    out.clear();
                }
            }
            writeln!(
                out,
                r#"{{"type":"turn.complete","session_id":"{session}","turn_id":"{turn}"}}"#
            )
            .unwrap();
        }
        if stdin.buffer().is_empty() {
            stdout.write_all(&out).unwrap();
            stdout.flush().unwrap();
            out.clear();
        }
    }
}

/// A hub, a relay, an adapter.
struct World {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    relay: tokio::task::JoinHandle<trunkline_relay::RelayReport>,
    extensions: &'static str,
}

impl World {
    fn new(journal: Option<&Path>) -> Self {
        let program = std::env::current_exe().unwrap();
        let agent = AgentConfig::external(
            "fast",
            Command::new(program.to_str().unwrap()).arg("counterpart"),
        );
        let host = Host::builder().agent(agent).build().unwrap();
        let mut options = RelayOptions::default();
        if let Some(folder) = journal {
            options = options.sessions(
                Sessions::open(host.clone(), folder, Options::default())
                    .unwrap()
                    .0,
            );
        }
        let (above, below) = tokio::io::duplex(1024 * 1024);
        let (input, output) = tokio::io::split(below);
        let relay = tokio::spawn(serve(host, input, output, options));
        let (output, input) = tokio::io::split(above);
        let extensions = if journal.is_some() {
            r#""turns","events","journal""#
        } else {
            r#""turns","events""#
        };
        Self {
            input,
            output: BufReader::with_capacity(256 * 1024, output),
            relay,
            extensions,
        }
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    async fn start(&mut self, id: usize) {
        let line = format!(
            "{{\"type\":\"session.start\",\"session_id\":\"s-{id}\",\"protocol\":1,\"extensions\":[{}]}}\n",
            self.extensions
        );
        self.say(&line).await;
    }

    /// Reads lines until `count` lines of a type have arrived, and calls `each` for every one.
    async fn until(&mut self, kind: &str, mut count: usize, mut each: impl FnMut(&str)) {
        let mut line = String::new();
        let begin = format!("{{\"type\":\"{kind}\"");
        while count > 0 {
            line.clear();
            assert!(self.output.read_line(&mut line).await.unwrap() > 0);
            if line.starts_with(&begin) {
                count -= 1;
                each(&line);
            }
        }
    }

    async fn end(mut self) {
        self.input.shutdown().await.unwrap();
        let mut rest = String::new();
        while self.output.read_line(&mut rest).await.unwrap() > 0 {
            rest.clear();
        }
        self.relay.await.unwrap();
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// Returns the seconds for turns at 64 in flight, one in each of 64 sessions.
async fn time_turns(journal: Option<&Path>) -> f64 {
    let mut world = World::new(journal);
    for id in 0..SESSIONS {
        world.start(id).await;
    }
    let input = |id: &str, turn: usize| {
        format!(
            "{{\"type\":\"user.input\",\"session_id\":\"{id}\",\"turn_id\":\"t-{turn}\",\"content\":\"1\"}}\n"
        )
    };
    let mut sent = 0;
    for id in 0..SESSIONS {
        let line = input(&format!("s-{id}"), sent);
        world.say(&line).await;
        sent += 1;
    }
    world.until("turn.complete", SESSIONS, |_| {}).await;
    let begun = Instant::now();
    let mut ended = 0;
    for id in 0..SESSIONS {
        let line = input(&format!("s-{id}"), sent);
        world.say(&line).await;
        sent += 1;
    }
    let mut batch = String::new();
    while ended < TURNS {
        batch.clear();
        // Everything that has arrived by now is answered at once.
        let mut taken = 0;
        world
            .until("turn.complete", 1, |line| {
                let at = line.find("\"session_id\":\"").unwrap() + 14;
                let id = &line[at..at + line[at..].find('"').unwrap()];
                batch.push_str(&input(id, sent));
                sent += 1;
                taken += 1;
            })
            .await;
        ended += taken;
        world.say(&batch.clone()).await;
    }
    let took = begun.elapsed().as_secs_f64();
    world.until("turn.complete", SESSIONS, |_| {}).await;
    world.end().await;
    took
}

async fn time_stream(journal: Option<&Path>) -> f64 {
    let mut world = World::new(journal);
    world.start(0).await;
    world.say("{\"type\":\"user.input\",\"session_id\":\"s-0\",\"turn_id\":\"w\",\"content\":\"1\"}\n").await;
    world.until("turn.complete", 1, |_| {}).await;
    let begun = Instant::now();
    let line = format!(
        "{{\"type\":\"user.input\",\"session_id\":\"s-0\",\"turn_id\":\"t\",\"content\":\"{OUTPUTS}\"}}\n"
    );
    world.say(&line).await;
    world.until("turn.complete", 1, |_| {}).await;
    let took = begun.elapsed().as_secs_f64();
    world.end().await;
    took
}

/// Returns the medians of both, measured in turns: with the journal and without.
fn pair(with: impl Fn(Option<&Path>) -> f64) -> (f64, f64) {
    let mut ours = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..ROUNDS {
        bare.push(with(None));
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        ours.push(with(Some(folder.path())));
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(ours), median(bare))
}

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds
}

fn turns() {
    let (ours, bare) = pair(|journal| run(time_turns(journal)));
    println!(
        "turns a second, {SESSIONS} in flight: {:.0}, without a journal {:.0}: {:.2} (must 0.5)",
        per_second(TURNS, ours),
        per_second(TURNS, bare),
        bare / ours
    );
}

fn stream() {
    let (ours, bare) = pair(|journal| run(time_stream(journal)));
    println!(
        "entries a second of a stream: {:.0} (must 300000), without a journal {:.0}: {:.2}",
        per_second(OUTPUTS, ours),
        per_second(OUTPUTS, bare),
        bare / ours
    );
}

fn attach() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    run(async {
        let mut world = World::new(Some(folder.path()));
        world.start(0).await;
        let line = format!(
            "{{\"type\":\"user.input\",\"session_id\":\"s-0\",\"turn_id\":\"t\",\"content\":\"{HISTORY}\"}}\n"
        );
        world.say(&line).await;
        world.until("turn.complete", 1, |_| {}).await;
        world.end().await;
    });
    let (first, all) = run(async {
        let mut world = World::new(Some(folder.path()));
        let begun = Instant::now();
        world.say("{\"type\":\"session.attach\",\"session_id\":\"s-0\",\"after\":0,\"extensions\":[\"journal\"]}\n").await;
        world.until("host.fact", 1, |_| {}).await;
        let first = begun.elapsed();
        world.until("turn.complete", 1, |_| {}).await;
        let all = begun.elapsed();
        world.end().await;
        (first, all)
    });
    println!(
        "attach to {HISTORY} entries: the first after {:.2} ms (must 5), {:.0} entries a second (must 500000)",
        first.as_secs_f64() * 1e3,
        per_second(HISTORY, all.as_secs_f64())
    );
}

fn list() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
    for number in 0..STORED {
        let facts = format!(
            "{{\"id\":\"session-{number}\",\"agent\":\"coder\",\"start\":\"\",\"created\":\"2026-03-01T12:00:00Z\"}}"
        );
        let (_, ticket) = journal
            .create(&format!("session-{number}"), facts.as_bytes())
            .unwrap();
        if number % 10_000 == 0 || number + 1 == STORED {
            ticket.wait().unwrap();
        }
    }
    journal.close().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    let request = |text: Option<&str>| {
        let asked =
            json!({"type": "sessions.list", "session_id": "", "request_id": "r", "text": text});
        let HostBody::SessionsList(asked) = HostMessage::parse(&asked.to_string()).unwrap().body
        else {
            unreachable!("it is what was written")
        };
        let begun = Instant::now();
        let answer = archive.list(&asked);
        (answer.sessions.unwrap().len(), begun.elapsed())
    };
    let (found, took) = request(None);
    assert_eq!(found, 50);
    // A text that no session has: the request searches as many sessions as one request may.
    let (found, sought) = request(Some("none has this"));
    assert_eq!(found, 0);
    drop(archive);
    let begun = Instant::now();
    let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
    let opened = begun.elapsed();
    drop(journal);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "first page of {STORED} sessions: {:.2} ms (must 20); a request that finds nothing {:.2} ms; opening that \
         journal {:.0} ms",
        ms(took),
        ms(sought),
        ms(opened)
    );
}
