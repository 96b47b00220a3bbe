//! Cost and throughput of a real server.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use tokio::{task::JoinSet, time::sleep};
use trunkline_cluster::{
    marks::Marks,
    nats::{Nats, NatsOptions},
    row::{Row, SessionRow},
    store::{Space, Store, key_of},
};

use crate::{server::Server, world::rows};

/// Port of the server's monitoring.
const MONITOR: &str = "18222";
const ARGS: [&str; 5] = ["-p", "-1", "-m", MONITOR, "-js"];

/// Duration of each row's measurement.
const ROUND: Duration = Duration::from_secs(3);

/// Number of connections that share the requests in flight.
const CONNECTIONS: usize = 8;

/// Number of sessions per host.
const OF_A_HOST: usize = 1000;

async fn connect(server: &Server, host: &str) -> Nats {
    let options = NatsOptions {
        servers: server.url(),
        creds: None,
        ca: None,
        prefix: "trunkline".to_owned(),
        host: host.to_owned(),
        marks: Marks::default(),
        replicas: Some(1),
    };
    Nats::connect(&options).await.unwrap()
}

async fn connections(server: &Server) -> Vec<Nats> {
    stream::iter(0..CONNECTIONS)
        .then(|n| async move { connect(server, &format!("c{n}")).await })
        .collect()
        .await
}

fn row(number: u64) -> (String, SessionRow) {
    let row = rows::opened(number, number as usize / OF_A_HOST);
    (key_of(&row.id), row)
}

/// Returns the CPU seconds and bytes of the server's process, by the kernel.
fn used(server: &Server) -> (f64, u64) {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // A hundred ticks a second, on every Linux.
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    (
        ticks / 100.0,
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024,
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the number of messages and bytes that the server has sent, by its monitoring.
fn sent() -> (f64, f64) {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{MONITOR}")).unwrap();
    stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let said: serde_json::Value =
        serde_json::from_str(&answer[answer.find('{').unwrap()..]).unwrap();
    (
        said["out_msgs"].as_f64().unwrap(),
        said["out_bytes"].as_f64().unwrap(),
    )
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// Repeats a request for a while with this many in flight, and prints the rate and the latencies.
async fn flood<F>(server: &Server, what: &str, in_flight: usize, work: impl Fn(u64) -> F)
where
    F: Future<Output = bool> + Send + 'static,
{
    let (begun, (cpu, _)) = (Instant::now(), used(server));
    let done: Vec<(f64, bool)> = stream::iter(0..)
        .take_while(|_| std::future::ready(begun.elapsed() < ROUND))
        .map(|number| {
            let work = work(number);
            tokio::spawn(async move {
                let begun = Instant::now();
                let is_done = work.await;
                (begun.elapsed().as_secs_f64() * 1e3, is_done)
            })
        })
        .buffer_unordered(in_flight)
        .map(|done| done.unwrap())
        .collect()
        .await;
    let took = begun.elapsed().as_secs_f64();
    let cores = used(server).0 - cpu;
    let failed = done.iter().filter(|(_, is_done)| !is_done).count();
    let times = sorted(done.iter().map(|(time, _)| *time).collect());
    println!(
        "{what}, {in_flight} in flight: {:.0} a second, p50 {:.2} ms, p99 {:.2} ms, not done {failed}, server {:.2} cores, {:.0} µs of one for each",
        (times.len() - failed) as f64 / took,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        cores / took,
        cores * 1e6 / times.len() as f64,
    );
}

/// The number of the first session that is looked for, behind those that were only put.
const FIRST: u64 = 1_000_000_000;

/// Measures the throughput of one server.
pub(crate) async fn rates() {
    let server = Server::start().expect("a nats-server is here");
    let all = connections(&server).await;
    let of = |number: u64| all[number as usize % CONNECTIONS].clone();
    let mut next = 0;
    for in_flight in [1, 8, 64, 512, 4096, 8000, 16_000] {
        let first = next;
        flood(&server, "put", in_flight, |number| {
            let ((key, row), nats) = (row(first + number), of(number));
            async move {
                nats.put(Space::Sessions, &key, 0, row.to_bytes())
                    .await
                    .is_ok()
            }
        })
        .await;
        next += 10_000_000;
    }
    let rows = 100 * OF_A_HOST as u64;
    fill(&all, FIRST, rows, 0).await;
    for in_flight in [1, 8, 64, 512, 4096, 8000, 16_000] {
        flood(&server, "last", in_flight, |number| {
            let ((key, _), nats) = (row(FIRST + number * 7919 % rows), of(number));
            async move { matches!(nats.last(Space::Sessions, &key).await, Ok(Some(_))) }
        })
        .await;
    }
    for in_flight in [1, 8, 64, 512] {
        flood(&server, "list of 1,000", in_flight, |number| {
            let prefix = SessionRow::index(
                &rows::name(FIRST as usize / OF_A_HOST + number as usize % 100),
                "",
            );
            let nats = of(number);
            async move {
                nats.list(Space::Sessions, &prefix)
                    .await
                    .is_ok_and(|found| found.len() == OF_A_HOST)
            }
        })
        .await;
    }
}

/// Keeps what the program keeps of so many sessions, with some batches each.
async fn fill(all: &[Nats], first: u64, count: u64, batches: u64) {
    let kept = stream::iter(first..first + count).map(|number| {
        let nats = all[number as usize % CONNECTIONS].clone();
        tokio::spawn(async move {
            let (key, row) = row(number);
            nats.put(
                Space::Sessions,
                &SessionRow::index(&row.host, &key),
                0,
                INDEXED.into(),
            )
            .await
            .unwrap();
            nats.put(Space::Sessions, &key, 0, row.to_bytes())
                .await
                .unwrap();
            let mut last = 0;
            for _ in 0..batches {
                last = nats
                    .put(Space::Journal, &key, last, rows::message(&row.id, 1))
                    .await
                    .unwrap();
            }
        })
    });
    kept.buffer_unordered(1024)
        .for_each(|kept| async { kept.unwrap() })
        .await;
}

/// Value of the key by which a session is found.
const INDEXED: &str = "1";

/// Measures the cost of watching all leases: each of the hosts renews every ten seconds, and
/// watches.
pub(crate) async fn watchers(most: usize) {
    for count in [10, 100, 300, 1000] {
        if count <= most {
            watch(count).await;
        }
    }
}

/// When a renewal was sent, and how many have seen it.
#[derive(Debug, Default)]
struct Renewal {
    sent: AtomicU64,
    seen: AtomicUsize,
}

async fn watch(count: usize) {
    const EVERY: Duration = Duration::from_secs(10);
    let server = Server::with(&ARGS).expect("a nats-server is here");
    let begun = Instant::now();
    let clock = move || begun.elapsed().as_nanos() as u64;
    let renewals: Arc<Vec<Renewal>> = Arc::new((0..count).map(|_| Renewal::default()).collect());
    let times: Arc<std::sync::Mutex<Vec<f64>>> = Arc::default();
    let hosts: Vec<Nats> = stream::iter(0..count)
        .map(|n| {
            let server = &server;
            async move { connect(server, &rows::name(n)).await }
        })
        .buffered(16)
        .collect()
        .await;
    // They end with this.
    let mut tasks = JoinSet::new();
    for nats in &hosts {
        let mut changes = nats.watch(Space::Hosts).await.unwrap();
        let renewals = renewals.clone();
        let times = times.clone();
        tasks.spawn(async move {
            while let Some(change) = changes.recv().await {
                let number: usize = change.key[5..].parse().unwrap();
                let renewal = &renewals[number];
                if renewal.seen.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    let took = clock() - renewal.sent.load(Ordering::Relaxed);
                    times.lock().unwrap().push(took as f64 / 1e6);
                }
            }
        });
    }
    for (number, nats) in hosts.into_iter().enumerate() {
        let renewals = renewals.clone();
        tasks.spawn(async move {
            let mut row = rows::host(&rows::me(&rows::name(number)), EVERY * 3);
            let mut last = 0;
            sleep(EVERY * number as u32 / count as u32).await;
            loop {
                renewals[number].seen.store(0, Ordering::Relaxed);
                renewals[number].sent.store(clock(), Ordering::Relaxed);
                last = nats
                    .put(Space::Hosts, &row.host, last, row.to_bytes())
                    .await
                    .unwrap();
                row.beat += 1;
                sleep(EVERY).await;
            }
        });
    }
    sleep(EVERY).await;
    times.lock().unwrap().clear();
    let (from, (cpu, _), (messages, bytes)) = (Instant::now(), used(&server), sent());
    sleep(EVERY * 3).await;
    let took = from.elapsed().as_secs_f64();
    let ((cpu_then, memory), (messages_then, bytes_then)) = (used(&server), sent());
    let times = sorted(std::mem::take(&mut *times.lock().unwrap()));
    println!(
        "{count} hosts: {:.1} renewals a second, each with all after p50 {:.1} ms, p99 {:.1} ms, worst {:.1} ms; server {:.2} cores, {:.1} µs of one for each message out, {:.0} MiB, {:.0} messages and {:.2} MB a second out",
        times.len() as f64 / took,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1],
        (cpu_then - cpu) / took,
        (cpu_then - cpu) * 1e6 / (messages_then - messages),
        mib(memory),
        (messages_then - messages) / took,
        (bytes_then - bytes) / took / 1e6,
    );
}

fn size_of(folder: &Path) -> u64 {
    let inside = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap());
    inside
        .map(|entry| match entry.metadata() {
            Ok(known) if known.is_dir() => size_of(&entry.path()),
            Ok(known) => known.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Measures the server's memory for idle sessions.
pub(crate) async fn memory(sessions: u64) {
    let mut server = Server::with(&ARGS).expect("a nats-server is here");
    let all = connections(&server).await;
    let say = |server: &Server, what: &str, took: Duration| {
        let memory = used(server).1;
        let disk = size_of(server.folder.path());
        println!(
            "{what}: {:.1} s, memory {:.0} MiB, disk {:.0} MiB; {:.0} and {:.0} bytes a session",
            took.as_secs_f64(),
            mib(memory),
            mib(disk),
            memory as f64 / sessions as f64,
            disk as f64 / sessions as f64,
        );
    };
    say(&server, "empty", Duration::ZERO);
    let begun = Instant::now();
    fill(&all, 0, sessions, 3).await;
    say(
        &server,
        &format!("{sessions} sessions with 3 batches"),
        begun.elapsed(),
    );
    drop(all);
    sleep(Duration::from_secs(30)).await;
    say(&server, "30 s later", Duration::ZERO);
    for (signal, what) in [
        ("TERM", "ended in order, and back"),
        ("KILL", "killed, and back"),
    ] {
        Command::new("kill")
            .args(["-s", signal, &server.child.id().to_string()])
            .status()
            .unwrap();
        server.child.wait().unwrap();
        let begun = Instant::now();
        server = Server::within(server.folder.clone(), &ARGS).unwrap();
        let nats = connect(&server, "c").await;
        assert!(
            nats.last(Space::Journal, &row(sessions - 1).0)
                .await
                .unwrap()
                .is_some()
        );
        let took = begun.elapsed();
        say(&server, what, took);
        sleep(Duration::from_secs(15)).await;
        say(&server, "15 s later", Duration::ZERO);
    }
}
