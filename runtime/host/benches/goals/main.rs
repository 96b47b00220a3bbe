//! The goals of the runtime, each as a ratio to a baseline that is measured in turns with it.
//!
//! `cargo bench -p trunkline-host --bench goals [ROW…]`. Baselines: *blocking ping-pong* (two processes, blocking reads
//! and writes of one 100-byte line) and the *inline bound* (one thread, 64 KiB reads, memchr, borrowed parse, direct
//! call, one write per wake: a host that does nothing). The counterpart is this program again, as a fast adapter.
//! Quote ratios, not times.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark reports on stdout and may panic"
)]

mod baseline;
mod counterpart;
mod host;
mod instructions;
mod report;

use std::time::Duration;

use report::Row;

/// How often each pair is measured; the median ratio counts.
const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.first().map(String::as_str) {
        Some("counterpart") => return counterpart::run(&args[1..]),
        Some("instructions") => return instructions::work(&args[1..]),
        _ => {}
    }
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| name.contains(arg.as_str()));
    println!("{}", report::HEAD);
    for (name, row) in ROWS {
        if wanted(name) {
            for row in row() {
                println!("{row}");
            }
        }
    }
}

type Measure = fn() -> Vec<Row>;

const ROWS: &[(&str, Measure)] = &[
    ("latency", latency),
    ("throughput", throughput),
    ("stream", stream),
    ("instructions", instructions::rows),
    ("memory", memory),
    ("many", many_sessions),
    ("flood", flood),
    ("slow", slow_consumer),
    ("full", both_pipes_full),
];

fn latency() -> Vec<Row> {
    let mut rows = Vec::new();
    for (runtime, reach, aim) in
        [(host::Runtime::Current, Some(1.5), Some(1.3)), (host::Runtime::Multi, None, None)]
    {
        let pairs = (0..ROUNDS).map(|_| {
            let bound = baseline::ping_pong(20_000);
            (host::latency(runtime, 1, 20_000).p50, bound.p50)
        });
        let name = format!("turn p50, 1 in flight, {runtime}, to blocking ping-pong");
        rows.push(Row::at_most(name, "µs", pairs, reach, aim));
    }
    rows
}

fn throughput() -> Vec<Row> {
    let mut rows = Vec::new();
    for in_flight in [64, 1000] {
        for (runtime, reach, aim) in
            [(host::Runtime::Current, Some(0.5), Some(0.65)), (host::Runtime::Multi, None, None)]
        {
            let turns = 200_000;
            let pairs = (0..ROUNDS).map(|_| {
                let bound = baseline::inline_turns(in_flight, turns);
                (host::throughput(runtime, in_flight, turns), bound)
            });
            let name = format!("turns/s, {in_flight} in flight, {runtime}, to the inline bound");
            rows.push(Row::at_least(
                name,
                "k/s",
                pairs.map(|(ours, bound)| (ours / 1e3, bound / 1e3)),
                reach,
                aim,
            ));
        }
    }
    rows
}

fn stream() -> Vec<Row> {
    let messages = 1_000_000;
    let mut rows = Vec::new();
    for (runtime, reach, aim) in
        [(host::Runtime::Current, Some(0.8), Some(1.2)), (host::Runtime::Multi, None, None)]
    {
        let pairs = (0..ROUNDS).map(|_| {
            let bound = baseline::inline_stream(messages);
            (host::stream(runtime, messages) / 1e3, bound / 1e3)
        });
        rows.push(Row::at_least(
            format!("messages/s of 120 B, {runtime}, to the inline bound"),
            "k/s",
            pairs,
            reach,
            aim,
        ));
    }
    let raw = baseline::bare_lines(messages) / 1e3;
    rows.push(Row::note(
        "messages/s of 120 B, bare pipe reader with memchr".to_owned(),
        format!("{raw:.0} k/s"),
    ));
    rows
}

fn memory() -> Vec<Row> {
    let bytes = host::idle_memory(100_000);
    vec![Row::at_most(
        "bytes per idle session, 100,000 open".to_owned(),
        "B",
        [(bytes, 1.0)].into_iter(),
        Some(1500.0),
        Some(800.0),
    )]
}

fn many_sessions() -> Vec<Row> {
    [10_000, 100_000]
        .into_iter()
        .map(|open| {
            let pairs = (0..ROUNDS).map(|_| {
                let (alone, among) = host::latency_among(open, 5_000);
                (among.p50, alone.p50)
            });
            Row::at_most(
                format!("turn p50 among {open} open sessions, to that with one"),
                "µs",
                pairs,
                Some(1.2),
                Some(1.1),
            )
        })
        .collect()
}

fn flood() -> Vec<Row> {
    let pairs = (0..ROUNDS).map(|_| {
        let line = baseline::giant_line_time(300);
        (host::latency_beside_flood(), line)
    });
    vec![Row::at_most(
        "small session's p99 beside 1 MiB lines, to one such line".to_owned(),
        "µs",
        pairs,
        Some(5.0),
        Some(3.0),
    )]
}

fn slow_consumer() -> Vec<Row> {
    let pairs = (0..ROUNDS).map(|_| {
        let idle = host::latency(host::Runtime::Current, 8, 20_000);
        (host::latency_beside_slow(Duration::from_millis(10)).p99, idle.p99)
    });
    vec![Row::at_most(
        "others' p99 beside a consumer of 10 ms a message, to idle".to_owned(),
        "µs",
        pairs,
        Some(2.0),
        Some(1.3),
    )]
}

fn both_pipes_full() -> Vec<Row> {
    let took = host::both_pipes_full(10_000);
    vec![Row::note(
        "10,000 turns of 4 KiB in flight, both pipes full".to_owned(),
        format!("finishes in {took:.1?}"),
    )]
}
