//! Times a piece of work again and again, for benchmarks of any crate.

use std::{
    env,
    hint::black_box,
    time::{Duration, Instant},
};

/// Number of measured samples.
const SAMPLES: usize = 50;

/// Minimum length of a sample: a shorter one would measure the clock.
const MIN_SAMPLE: Duration = Duration::from_millis(20);

/// Times `work` and prints the median of a run, the fastest and the slowest, and how many of `bytes`
/// a second that is. An argument of the benchmark chooses the names that contain it.
pub(crate) fn measure<T>(name: &str, bytes: Option<usize>, mut work: impl FnMut() -> T) {
    let mut filters = env::args()
        .skip(1)
        .filter(|filter| !filter.starts_with('-'));
    if filters.next().is_some_and(|filter| !name.contains(&filter)) {
        return;
    }
    let mut sample = |runs: u32| {
        let begun = Instant::now();
        for _ in 0..runs {
            black_box(work());
        }
        begun.elapsed()
    };
    let mut runs = 1;
    // Also warms up.
    while sample(runs) < MIN_SAMPLE {
        runs *= 2;
    }
    let mut times: Vec<_> = (0..SAMPLES).map(|_| sample(runs) / runs).collect();
    times.sort_unstable();
    let median = times[SAMPLES / 2];
    let rate = bytes.map(|bytes| {
        let rate = bytes as f64 / median.as_secs_f64() / f64::from(1 << 20);
        format!("  {rate:.0} MiB/s")
    });
    println!(
        "{name:<50} {median:>10.2?}  ({:.2?} to {:.2?}){}",
        times[0],
        times[SAMPLES - 1],
        rate.unwrap_or_default()
    );
}
