//! Relays under all loads of a day at once: slow and vanishing hubs, killed adapters, stops,
//! permissions that are never answered, pauses, refused inputs. Each input has exactly one end, and
//! the process keeps its descriptors, and all that it allocated for a relay is freed ([turn.1],
//! [turn.7]).
//!
//! No harness: this program is hub, relay and, started by the host below with an argument, adapter.
//! By default it runs three seeds, for some seconds. `TRUNKLINE_SOAK=600` runs for 600 seconds;
//! `TRUNKLINE_SEED` is the first seed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing step fails the test; printing is the test"
)]
#![allow(
    unreachable_pub,
    reason = "the modules of one test program share what they need"
)]

mod adapter;
mod hub;
mod life;
mod rng;

use std::{
    alloc::System,
    process::ExitCode,
    time::{Duration, Instant},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::{
    life::{Tally, live},
    rng::Rng,
};

/// Number of seeds of the short form.
const SHORT_SEEDS: u64 = 3;

/// Number of relays that live at a time.
const AT_A_TIME: u64 = 4;

/// Tolerance of the allocated memory between two moments without a relay, in bytes.
const SLACK: usize = 64 << 10;

/// Number of rounds before the memory of a long run is measured for the first time.
const WARM_UP_ROUNDS: u64 = 12;

/// Time until dropped work that was not waited for must be freed.
const GONE_BY: Duration = Duration::from_secs(20);

/// Counts allocated memory that is not freed. The resident memory also counts what the allocator
/// keeps for later.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("adapter") => adapter::serve(adapter::Kind::Full),
        Some("core-adapter") => adapter::serve(adapter::Kind::Core),
        // The option that test runners pass to a program with a harness.
        Some("--list") => ExitCode::SUCCESS,
        _ => soak(),
    }
}

#[tokio::main]
async fn soak() -> ExitCode {
    // Leftovers of a dropped relay, which the next one sweeps, stay in the build's own folder.
    tempfile::env::override_temp_dir(env!("CARGO_TARGET_TMPDIR").as_ref()).unwrap();
    let seconds = std::env::var("TRUNKLINE_SOAK")
        .ok()
        .map(|seconds| seconds.parse().unwrap());
    let mut seed = trunkline_testing::seed();
    let begun = Instant::now();
    let mut tally = Tally::default();
    // The first rounds allocate permanent memory: threads, pools, the registry of signals. The
    // remains of rare events had appeared within 24 seconds in each long run.
    let (rounds, steps) = match seconds {
        Some(_) => (WARM_UP_ROUNDS, 1500),
        None => (1, 40),
    };
    let mut base = Footprint::MAX;
    for seed in 0..rounds {
        round(seed, steps, &mut tally).await;
        if 2 * seed >= rounds - 1 {
            // The least of several: after a round, dropped work may not be freed yet.
            base = base.least(Footprint::now());
        }
    }
    let mut told = Instant::now();
    match seconds {
        None => {
            for seed in seed..seed.saturating_add(SHORT_SEEDS) {
                round(seed, 150, &mut tally).await;
            }
        }
        Some(seconds) => {
            while begun.elapsed() < Duration::from_secs(seconds) && tally.failures.is_empty() {
                round(seed, 1500, &mut tally).await;
                seed += 1;
                let last = Footprint::now();
                if told.elapsed() > Duration::from_secs(10) {
                    told = Instant::now();
                    println!(
                        "{:4} s, seed {seed}: {tally}; {last}",
                        begun.elapsed().as_secs()
                    );
                }
            }
        }
    }
    let waited = Instant::now();
    while Footprint::now().exceeds(base) && waited.elapsed() < GONE_BY {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let last = Footprint::now();
    println!(
        "{} s: {tally}; {base} at first, {last} at last",
        begun.elapsed().as_secs()
    );
    if last.descriptors > base.descriptors {
        tally.failures.push(format!(
            "descriptors were left open: {} at first, {} at last: {:?}",
            base.descriptors,
            last.descriptors,
            Footprint::names()
        ));
    }
    if last.allocated > base.allocated + SLACK {
        tally.failures.push(format!(
            "memory was not freed: {base} at first, {last} at last"
        ));
    }
    for failure in &tally.failures {
        println!("FAILED: {failure}");
    }
    if tally.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs several relays at a time, each with its own random numbers, until all have ended.
async fn round(seed: u64, steps: u32, tally: &mut Tally) {
    let mut lives = tokio::task::JoinSet::new();
    for which in 0..AT_A_TIME {
        lives.spawn(live(Rng::new(seed.wrapping_mul(AT_A_TIME) + which), steps));
    }
    while let Some(life) = lives.join_next().await {
        let mut life = life.unwrap();
        for failure in &mut life.failures {
            *failure = format!("seed {seed}: {failure}");
        }
        tally.add(life);
    }
}

/// Resources of the process.
#[derive(Clone, Copy)]
struct Footprint {
    descriptors: usize,
    allocated: usize,
    resident: u64,
}

impl Footprint {
    const MAX: Self = Self {
        descriptors: usize::MAX,
        allocated: usize::MAX,
        resident: u64::MAX,
    };

    fn least(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.min(other.descriptors),
            allocated: self.allocated.min(other.allocated),
            resident: self.resident.min(other.resident),
        }
    }

    fn now() -> Self {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let stats = ALLOCATOR.stats();
        Self {
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            allocated: stats
                .bytes_allocated
                .saturating_sub(stats.bytes_deallocated),
            resident: pages * 4096,
        }
    }

    fn exceeds(self, base: Self) -> bool {
        self.descriptors > base.descriptors || self.allocated > base.allocated + SLACK
    }

    fn names() -> Vec<String> {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl std::fmt::Display for Footprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            descriptors,
            allocated,
            resident,
        } = self;
        write!(
            f,
            "{descriptors} descriptors, {} KiB allocated, {} MiB resident",
            allocated >> 10,
            resident >> 20
        )
    }
}
