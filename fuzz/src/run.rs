//! Running a target: briefly and always alike, or for as long as is asked.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::fs;
use std::hash::{BuildHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::Target;
use crate::spoil::inputs;

/// The cases of a short run, and of one round of a long one.
const CASES: u32 = 500;

/// Timeout of a case.
const SLOW: Duration = Duration::from_secs(10);

/// Returns the folder of a target's seeds: one input per file. A long run adds its findings, which
/// stay after the repair.
fn folder(target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target.name)
}

/// The seeds in the target and those in its folder.
fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
    let files = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    seeds.extend(files.into_iter().filter_map(|file| fs::read(file).ok()));
    seeds
}

/// Runs every seed, and the same few hundred spoilt ones each time.
///
/// # Panics
/// Where a promise breaks; the text has the smallest input for it that was found.
pub fn short(target: &Target) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| (target.run)(seed));
    round(
        target,
        &seeds,
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
}

/// Runs spoilt seeds, others each time, for as long as is asked. Returns how many.
///
/// # Panics
/// Where a promise breaks; the smallest input for it that was found is written among the seeds.
pub fn long(target: &Target, time: Duration) -> u64 {
    let seeds = seeds(target);
    let began = Instant::now();
    let mut cases = 0;
    while began.elapsed() < time {
        round(
            target,
            &seeds,
            TestRng::from_seed(RngAlgorithm::ChaCha, &chance()),
        );
        cases += u64::from(CASES);
    }
    cases
}

/// The seed of a round that no other had: a hasher's keys are random.
fn chance() -> [u8; 32] {
    let mut seed = [0; 32];
    for (number, part) in seed.chunks_mut(8).enumerate() {
        part.copy_from_slice(&RandomState::new().hash_one(number).to_ne_bytes());
    }
    seed
}

fn round(target: &Target, seeds: &[Vec<u8>], rng: TestRng) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&inputs(seeds.to_vec(), target.words), |input| {
        let began = Instant::now();
        (target.run)(&input);
        if began.elapsed() > SLOW {
            return Err(TestCaseError::fail(format!(
                "it took {:?}",
                began.elapsed()
            )));
        }
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => {
            let mut hasher = DefaultHasher::new();
            input.hash(&mut hasher);
            let file = folder(target).join(format!("found-{:016x}", hasher.finish()));
            let kept = fs::create_dir_all(folder(target)).and_then(|()| fs::write(&file, &input));
            let place =
                kept.map_or_else(|error| error.to_string(), |()| file.display().to_string());
            panic!(
                "{}: {why}\ninput: {:?}\nkept in: {place}",
                target.name,
                String::from_utf8_lossy(&input)
            );
        }
        Err(TestError::Abort(why)) => panic!("{}: the run was given up: {why}", target.name),
    }
}
