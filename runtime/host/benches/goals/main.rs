//! The goals of the runtime: what a host with a user's defaults costs, to a baseline that is
//! measured in turns with it.
//!
//! `cargo bench -p trunkline-host --bench goals [ROW…]`. Baselines: *blocking ping-pong* (two
//! processes, blocking reads and writes of one 100-byte line) and the *inline loop* (one thread, 64
//! KiB reads, memchr, borrowed parse, direct call, one write per wake: no sessions, limits or
//! errors). The counterpart is this program again, as a fast adapter, whose processor time is not
//! counted; the row `wirelog` has the host without a wire log as its baseline. Quote ratios, not
//! times. `goals instructions turns|stream COUNT` does one kind of work for valgrind to count.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark reports on stdout and may panic"
)]

mod baseline;
mod cost;
mod counterpart;
mod host;
mod report;

use cost::Cost;
use host::{Offer, Runtime};
use report::{Goal, Row};

/// Number of measurements of each goal, in turns with the others; the median counts.
const ROUNDS: usize = 9;

const TURNS: usize = 100_000;
const MESSAGES: usize = 400_000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    match args.first().map(String::as_str) {
        Some("counterpart") => return counterpart::run(&args[1..]),
        Some("instructions") => return host::work(&args[1], args[2].parse().unwrap()),
        _ => {}
    }
    println!("{}", report::HEAD);
    for (name, measure) in ROWS {
        if args.is_empty() || args.iter().any(|arg| name.contains(arg.as_str())) {
            for row in measure() {
                println!("{row}");
            }
        }
    }
}

type Measure = fn() -> Vec<Row>;

const ROWS: &[(&str, Measure)] = &[
    // First: what others have freed would be taken again, and not be seen.
    ("memory", memory),
    ("turns", turns),
    ("stream", stream),
    ("latency", latency),
    ("open", opening),
    ("flood", flood),
    ("wirelog", wire_log),
];

fn rounds<T>(measure: impl FnMut() -> T) -> Vec<T> {
    std::iter::repeat_with(measure).take(ROUNDS).collect()
}

fn goal(name: &'static str, unit: &'static str, must: f64, aim: f64) -> Goal {
    Goal {
        name,
        unit,
        must,
        aim,
    }
}

fn turns() -> Vec<Row> {
    let measured = rounds(|| {
        let bounds = [64, 1000].map(|in_flight| baseline::inline_turns(in_flight, TURNS));
        let one_thread =
            [64, 1000].map(|in_flight| host::turns(Runtime::Current, in_flight, TURNS));
        (bounds, one_thread, host::turns(Runtime::Multi, 64, TURNS))
    });
    type Round = ([Cost; 2], [Cost; 2], Cost);
    let each =
        |pick: fn(&Round) -> (f64, f64)| -> Vec<(f64, f64)> { measured.iter().map(pick).collect() };
    vec![
        Row::ratio(
            goal("CPU a turn, 64 in flight, one thread", "ns", 2.0, 1.4),
            each(|(bounds, ours, _)| (ours[0].cpu_ns, bounds[0].cpu_ns)),
        ),
        Row::ratio(
            goal("CPU a turn, 1000 in flight, one thread", "ns", 3.0, 2.0),
            each(|(bounds, ours, _)| (ours[1].cpu_ns, bounds[1].cpu_ns)),
        ),
        Row::ratio(
            goal("CPU a turn, 64 in flight, two threads", "ns", 3.5, 2.5),
            each(|(bounds, _, ours)| (ours.cpu_ns, bounds[0].cpu_ns)),
        ),
        Row::ratio(
            goal("turns a second, 64 in flight, one thread", "/s", 0.65, 0.9),
            each(|(bounds, ours, _)| (ours[0].per_second, bounds[0].per_second)),
        ),
    ]
}

fn stream() -> Vec<Row> {
    let measured = rounds(|| {
        (
            host::stream(Runtime::Current, MESSAGES),
            baseline::inline_stream(MESSAGES),
        )
    });
    let pairs = measured
        .iter()
        .map(|(ours, bound)| (ours.cpu_ns, bound.cpu_ns))
        .collect();
    vec![Row::ratio(
        goal(
            "CPU a streamed output of 120 bytes, one thread",
            "ns",
            1.25,
            1.0,
        ),
        pairs,
    )]
}

fn latency() -> Vec<Row> {
    let pairs = rounds(|| {
        let bound = baseline::ping_pong(10_000);
        (host::latency(Runtime::Current, 10_000).p50, bound.p50)
    });
    vec![Row::ratio(
        goal(
            "turn p50, 1 in flight, to blocking ping-pong",
            "µs",
            1.3,
            1.1,
        ),
        pairs,
    )]
}

fn opening() -> Vec<Row> {
    let measured =
        rounds(|| [Offer::Defaults, Offer::Nothing].map(|offer| host::opening(offer, 2_000) / 1e3));
    let of = |at: usize| measured.iter().map(|both| both[at]).collect();
    vec![
        Row::value(
            goal(
                "CPU of opening a session, all extensions offered",
                "µs",
                30.0,
                15.0,
            ),
            of(0),
        ),
        Row::value(
            goal("CPU of opening a session, the core alone", "µs", 5.0, 3.0),
            of(1),
        ),
    ]
}

/// With and without, in turns.
fn wire_log() -> Vec<Row> {
    let measured = rounds(|| {
        let without = host::turns(Runtime::Current, 64, TURNS);
        (without, host::turns_logged(Runtime::Current, 64, TURNS))
    });
    let turns = measured
        .iter()
        .map(|(without, (with, _))| (with.per_second, without.per_second))
        .collect();
    let dropped = measured
        .iter()
        .map(|(_, (_, dropped))| 100.0 * dropped)
        .collect();
    vec![
        Row::ratio(
            goal(
                "turns a second, 64 in flight, wire log on, to off",
                "/s",
                0.7,
                0.8,
            ),
            turns,
        ),
        Row::value(
            goal("lines that this wire log dropped", "%", 50.0, 0.0),
            dropped,
        ),
    ]
}

fn memory() -> Vec<Row> {
    // The same to a few bytes each time.
    vec![Row::value(
        goal("memory of an idle session, 100,000 open", "B", 900.0, 800.0),
        vec![host::idle_memory(100_000)],
    )]
}

fn flood() -> Vec<Row> {
    let p99 = rounds(|| host::latency_beside_flood().p99 / 1e3);
    vec![Row::value(
        goal("small session's p99 beside lines of 1 MiB", "ms", 2.3, 2.0),
        p99,
    )]
}
