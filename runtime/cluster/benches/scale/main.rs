//! Scale of a cluster: `cargo bench -p trunkline-cluster --bench scale [PART] [--OPTION N …]`.
//!
//! `simulate`, or one of its parts `spread`, `traffic`, `deaths` and `outage`, needs no server:
//! hosts and their clock are simulated, their decisions are made by the program's own functions.
//! The options are `--hosts`, `--sessions`, `--seed` and `--ttl` (seconds). `rates`, `watchers` and
//! `memory` measure a real server, `nats-server` from `PATH` or from `TRUNKLINE_NATS_SERVER`, which
//! shares the machine's cores with its clients.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a benchmark reports on stdout and may panic; its counts are small"
)]

mod measured;
#[path = "../../tests/nats/server.rs"]
mod server;
mod simulated;
#[path = "../../tests/simulation/world.rs"]
mod world;

use std::time::Duration;

use tokio::runtime::Builder;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let option = |name: &str, default: u64| {
        let at = args
            .iter()
            .position(|arg| arg.strip_prefix("--") == Some(name));
        at.map_or(default, |at| {
            args[at + 1]
                .parse()
                .expect("a number is behind each option")
        })
    };
    let is_asked = |what: &str| match args.first().filter(|first| !first.starts_with("--")) {
        Some(first) => first == what,
        None => true,
    };
    let scale = world::Scale {
        hosts: option("hosts", 100) as usize,
        sessions: option("sessions", 100_000) as usize,
        seed: option("seed", 1),
        ttl: Duration::from_secs(option("ttl", 30)),
    };
    for (name, simulate) in simulated::ROWS {
        if is_asked(name) || is_asked("simulate") {
            simulate(scale);
        }
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if is_asked("rates") {
        runtime.block_on(measured::rates());
    }
    if is_asked("watchers") {
        runtime.block_on(measured::watchers(option("most", 1000) as usize));
    }
    if is_asked("memory") {
        runtime.block_on(measured::memory(option("sessions", 200_000)));
    }
}
