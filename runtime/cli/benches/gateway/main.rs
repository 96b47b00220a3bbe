//! What the daemon costs its clients, with real processes: `cargo bench -p trunkline --bench
//! gateway [ROW…]`.
//!
//! The rows are `pipe`, `crowd`, `idle` and `turn`, and with the feature `cluster` the rows of
//! `cluster.rs`. The adapter, and many clients at once, are this program again. All share the
//! machine's cores: quote ratios, not times.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark reports on stdout and may panic; its counts are small"
)]

#[cfg(feature = "cluster")]
mod cluster;
mod counterpart;
mod crowd;
mod daemon;
mod flight;

use std::{
    io::BufRead,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use crowd::{Crowd, PER_TOKEN};
use daemon::{Daemon, Pipe, Socket};

/// How often each is measured, in turns with what it is compared with; the median counts.
const ROUNDS: usize = 5;
const TURNS: usize = 40_000;
const IN_FLIGHT: usize = 64;
const CROWD: usize = 1000;
const PACED: usize = 500;
const IDLE: usize = 10_000;
const ASKED: usize = 2000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    match args.first().map(String::as_str) {
        Some("counterpart") => return counterpart::run(),
        Some("listen") => return crowd::run(&args[1..]),
        _ => {}
    }
    let rows: [(&str, fn()); 4] = [
        ("pipe", pipe),
        ("crowd", crowded),
        ("idle", idle),
        ("turn", turn),
    ];
    let rows = rows.to_vec();
    #[cfg(feature = "cluster")]
    let rows = [&*rows, &cluster::ROWS].concat();
    for (name, measure) in rows {
        if args.is_empty() || args.iter().any(|arg| name.contains(arg.as_str())) {
            measure();
        }
    }
}

/// Nanoseconds of the clock that all processes share.
fn clock() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The median, and the spread, of ratios.
fn ratio(rounds: &[(f64, f64)]) -> String {
    let ratios = sorted(rounds.iter().map(|(ours, beside)| ours / beside).collect());
    format!(
        "{:.2} ({:.2} to {:.2})",
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1]
    )
}

/// The median and the 99th percentile, in milliseconds.
fn times(times: &[Duration]) -> String {
    let times = sorted(times.iter().map(|time| time.as_secs_f64() * 1e3).collect());
    format!(
        "p50 {:.2} ms, p99 {:.2} ms",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    )
}

fn pipe() {
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let beside = flight::begun(&mut Pipe::serve(), "s", TURNS);
            (
                flight::begun(&mut Socket::connect(&Daemon::up()), "s", TURNS),
                beside,
            )
        })
        .collect();
    let (ours, beside) = rounds[ROUNDS / 2];
    println!(
        "turns a second over a WebSocket, {IN_FLIGHT} in flight, × `serve` on a pipe: {} (must 0.5); {ours:.0} and {beside:.0}",
        ratio(&rounds)
    );
}

/// Duration of a session whose outputs are 10 ms apart, and their delay at a listener.
fn paced(daemon: &Daemon, session: &str, after: u64) -> (f64, Vec<Duration>, u64) {
    let token = daemon.token();
    let mut events = daemon.client(&token).events(session, after);
    let begun = Instant::now();
    let input = format!("{{\"content\":\"paced {PACED}\"}}");
    daemon
        .client(&token)
        .ask("POST", &format!("/v1/sessions/{session}/inputs"), &input);
    let mut late = Vec::new();
    let mut seq = after;
    let mut line = String::new();
    while !line.contains("\"turn.complete\"") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0);
        let at =
            counterpart::text(&line, "content").and_then(|content| content.strip_prefix("at "));
        if let Some(at) = at.and_then(|at| at.parse::<u128>().ok()) {
            let nanos = clock().saturating_sub(at);
            late.push(Duration::from_nanos(u64::try_from(nanos).unwrap()));
        }
        if let Some(id) = line.strip_prefix("id: ") {
            seq = id.trim().parse().unwrap();
        }
    }
    (begun.elapsed().as_secs_f64(), late, seq)
}

fn crowded() {
    let daemon = Daemon::up();
    let token = daemon.token();
    let session = daemon.client(&token).open();
    let (mut after, mut rounds, mut alone, mut among, mut used) =
        (0, Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..ROUNDS {
        let (beside, late, seq) = paced(&daemon, &session, after);
        alone.extend(late);
        let crowd = Crowd::join(
            &daemon.http,
            std::slice::from_ref(&token),
            &session,
            seq,
            CROWD,
        );
        let cpu = daemon.cpu();
        let before = seq;
        let (ours, late, seq) = paced(&daemon, &session, before);
        used += (daemon.cpu() - cpu) / ours;
        among.extend(late);
        crowd.leave(seq - before);
        rounds.push((ours, beside));
        after = seq;
    }
    println!(
        "a session at 100 entries a second with {CROWD} subscribers, × without: {} (must 1.1); the daemon uses {:.2} cores",
        ratio(&rounds),
        used / ROUNDS as f64
    );
    println!(
        "an entry reaches a subscriber: alone {}, among {CROWD} {}",
        times(&alone),
        times(&among)
    );
}

fn idle() {
    let daemon = Daemon::up();
    let tokens: Vec<_> = (0..IDLE / PER_TOKEN).map(|_| daemon.token()).collect();
    let mut client = daemon.client(&tokens[0]);
    let session = client.open();
    client.ask(
        "POST",
        &format!("/v1/sessions/{session}/inputs?wait=end"),
        "{\"content\":\"1\"}",
    );
    let before = daemon.resident();
    let crowd = Crowd::join(&daemon.http, &tokens, &session, 0, IDLE);
    let each = (daemon.resident() - before) / IDLE as u64;
    println!("memory of an idle event stream, {IDLE} open: {each} bytes (must 16384)");
    assert_eq!(
        daemon.client(&tokens[0]).ask("GET", "/v1/me", "")["scope"],
        "control",
        "others are still served"
    );
    crowd.leave(0);
}

fn turn() {
    let daemon = Daemon::up();
    let token = daemon.token();
    let mut client = daemon.client(&token);
    let session = client.open();
    let path = format!("/v1/sessions/{session}/inputs?wait=end");
    let timed = |work: &mut dyn FnMut()| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    let input = "{\"content\":\"1\"}";
    let kept: Vec<_> = (0..ASKED)
        .map(|_| timed(&mut || drop(client.ask("POST", &path, input))))
        .collect();
    let fresh: Vec<_> = (0..ASKED)
        .map(|_| timed(&mut || drop(daemon.client(&token).ask("POST", &path, input))))
        .collect();
    println!(
        "a turn by a request that waits for its end: {} (must p50 1); on a new connection {}",
        times(&kept),
        times(&fresh)
    );
    if Command::new("curl").arg("--version").output().is_err() {
        return println!("no curl is here");
    }
    let curl = |url: &str| {
        let mut command = Command::new("curl");
        command.args([
            "-s",
            "-o",
            "/dev/null",
            "-H",
            &format!("Authorization: Bearer {token}"),
            "-d",
            input,
            url,
        ]);
        command.output().unwrap();
    };
    let turn = format!("http://{}{path}", daemon.http);
    let health = format!("http://{}/healthz", daemon.http);
    let mut whole = Vec::new();
    let mut start = Vec::new();
    for _ in 0..200 {
        start.push(timed(&mut || curl(&health)));
        whole.push(timed(&mut || curl(&turn)));
    }
    println!(
        "the same by `curl`: {}; a `curl` that asks for no turn: {}",
        times(&whole),
        times(&start)
    );
}
