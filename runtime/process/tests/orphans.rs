//! Starts and stops leave no process, descriptor, zombie, thread, folder, cgroup or record. Alone
//! in its file: it counts what the whole program holds.
//!
//! `TRUNKLINE_TEST_CYCLES=10000` runs so many in each containment, instead of a hundred.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests, their helper functions too"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use trunkline_process::{
    Child, ChildSpec, Containment, Limits, StopSteps, containment_support, spawn, stop,
};
use trunkline_testing::skipped;

#[path = "process/watch.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of one child, which use more of it"
)]
mod watch;

/// Containment for the shared functions; here each child sets its own.
const CONTAINMENT: Containment = Containment::Group;

/// Default number of children in each containment.
const CYCLES: usize = 100;

#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    /// Every process that descends from this one.
    descendants: BTreeSet<u32>,
    folders: usize,
    cgroups: usize,
    records: usize,
}

/// Places in which children can leave something.
#[derive(Debug)]
struct Places {
    containment: Containment,
    root: tempfile::TempDir,
    records: PathBuf,
    /// Parents of the children's cgroups.
    cgroups: Vec<PathBuf>,
    /// Remains of an earlier, killed program with this one's process id.
    older: BTreeSet<PathBuf>,
}

impl Places {
    /// Starts one child to learn where its cgroups are.
    async fn find(containment: Containment) -> Self {
        let root = tempfile::tempdir().unwrap();
        let records = root.path().join("records");
        fs::create_dir(root.path().join("private")).unwrap();
        let mut places = Self {
            containment,
            root,
            records,
            cgroups: Vec::new(),
            older: BTreeSet::new(),
        };
        let child = places.begin().await;
        let record = fs::read_dir(&places.records)
            .unwrap()
            .next()
            .expect("it is recorded")
            .unwrap();
        let text = fs::read_to_string(record.path()).unwrap();
        let cgroups: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("cgroup "))
            .map(Path::new)
            .collect();
        places.cgroups = cgroups
            .iter()
            .map(|path| path.parent().unwrap().to_owned())
            .collect();
        places.older = places
            .own_cgroups()
            .filter(|path| !cgroups.contains(path.as_path()))
            .collect();
        watch::within("the end", child.finish()).await;
        places
    }

    fn private(&self) -> PathBuf {
        self.root.path().join("private")
    }

    fn spec(&self, program: &str) -> ChildSpec {
        // A limit of each kind, so that a cgroup of each kind is made.
        let limits = Limits {
            memory: Some(1 << 30),
            open_files: Some(256),
            ..Limits::default()
        };
        let spec = ChildSpec::new(program)
            .config("{}")
            .containment(self.containment)
            .limits(limits);
        spec.private_root(self.private()).record_dir(&self.records)
    }

    async fn begin(&self) -> Child {
        let mut child = watch::within("the start", spawn(self.spec("cat")))
            .await
            .unwrap();
        let mut stdin = child.take_stdin().unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        child
    }

    fn held(&self) -> Held {
        let count = |dir: &Path| fs::read_dir(dir).unwrap().count();
        Held {
            descriptors: count(Path::new("/proc/self/fd")),
            threads: count(Path::new("/proc/self/task")),
            descendants: descendants(),
            folders: count(&self.private()),
            cgroups: self
                .own_cgroups()
                .filter(|path| !self.older.contains(path))
                .count(),
            records: count(&self.records),
        }
    }

    /// Returns the cgroups with this program's process id in their name.
    fn own_cgroups(&self) -> impl Iterator<Item = PathBuf> {
        let own = format!("trunkline-{}-", std::process::id());
        let all = self
            .cgroups
            .iter()
            .flat_map(|place| fs::read_dir(place).unwrap().flatten());
        all.filter(move |entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&own))
        })
        .map(|entry| entry.path())
    }

    /// Runs one child for each way to end.
    async fn cycle(&self, round: usize) {
        let mut child = self.begin().await;
        match round % 4 {
            0 => drop(watch::within("the stop", stop(child, StopSteps::default())).await),
            1 => drop(watch::within("the end", child.finish()).await),
            2 => {
                watch::within("the end", child.wait()).await;
            }
            _ => {
                let hasty = StopSteps {
                    close: Duration::ZERO,
                    eof: Duration::ZERO,
                    term: Duration::ZERO,
                };
                watch::within("the stop", stop(child, hasty)).await;
                assert!(spawn(self.spec("no-such-adapter")).await.is_err());
                drop(self.begin().await);
            }
        }
    }
}

/// Zombies too.
fn descendants() -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat
                .rsplit(')')
                .next()?
                .split_ascii_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = BTreeSet::new();
    let mut next = vec![std::process::id()];
    while let Some(above) = next.pop() {
        let below = parents
            .iter()
            .filter(|(_, parent)| *parent == above)
            .map(|(pid, _)| *pid);
        next.extend(below.filter(|pid| found.insert(*pid)));
    }
    found
}

#[test]
fn many_starts_and_stops_leave_nothing() {
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    let asked = std::env::var("TRUNKLINE_TEST_CYCLES").ok();
    let cycles = asked.map_or(CYCLES, |asked| asked.parse().expect("a number"));
    let support = containment_support();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        for containment in [
            Containment::Group,
            Containment::Reaper,
            Containment::Namespace,
        ] {
            match support.choose(containment, Containment::Auto) {
                Ok(_) => leave_nothing(containment, cycles).await,
                Err(why) => skipped(&format!("no {}: {why}", watch::missing(containment))),
            }
        }
    });
}

async fn leave_nothing(containment: Containment, cycles: usize) {
    let places = Places::find(containment).await;
    for round in 0..4 {
        places.cycle(round).await;
    }
    watch::eventually("the warm-up is over", || {
        let held = places.held();
        held.descendants.is_empty() && (held.folders, held.cgroups, held.records) == (0, 0, 0)
    })
    .await;
    let before = places.held();
    let begun = Instant::now();
    for round in 0..cycles {
        places.cycle(round).await;
    }
    let took = begun.elapsed();
    let mut after = places.held();
    watch::eventually("everything is given back", || {
        after = places.held();
        after == before
    })
    .await;
    println!(
        "{containment}: {cycles} cycles took {took:?}, and hold what was held before: {after:?}"
    );
}
