//! A host is killed, and the next one sweeps: nothing is left of what was recorded, and nothing
//! else is touched.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::AsyncBufReadExt;
use trunkline_process::{ChildSpec, Containment, Swept, spawn, sweep};

use super::chamber::{self, CAP, Cap, others};

const SWEEPS: &str = "TRUNKLINE_TEST_SWEEPS";
const HOST: &str = "TRUNKLINE_TEST_RECORDING_HOST";
const FOLDER: &str = "TRUNKLINE_TEST_FOLDER";

/// A daemon, and a child that ends with its input. There are two processes from the moment that the
/// daemon speaks.
const TREE: &str = "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & exec cat";

#[test]
fn the_next_host_ends_what_a_killed_one_left() {
    let cap = Cap::new(CAP);
    chamber::enter(
        cap.as_ref(),
        "trees::records::sweeps",
        &[(SWEEPS, "1")],
        "all is swept",
    );
}

#[test]
#[ignore = "a part of the test above, which runs it in a PID namespace"]
fn sweeps() {
    if std::env::var_os(SWEEPS).is_none() {
        return;
    }
    assert!(std::process::id() < 10, "this is not a PID namespace");
    for containment in [
        Containment::Namespace,
        Containment::Reaper,
        Containment::Group,
    ] {
        a_killed_host(containment, Known::AsItIs);
    }
    a_killed_host(Containment::Group, Known::ByItsFolderAlone);
    a_live_host();
    a_number_that_is_used_again();
    println!("\nall is swept");
}

/// Evidence by which a sweep can find a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    AsItIs,
    /// It was taken out of its cgroup, as if there were none.
    ByItsFolderAlone,
}

fn a_killed_host(containment: Containment, known: Known) {
    let mut host = Host::start(containment);
    let record = host.record();
    let cgroups = cgroups(&record);
    if known == Known::ByItsFolderAlone {
        for cgroup in &cgroups {
            let above = cgroup.parent().unwrap().join("cgroup.procs");
            for pid in fs::read_to_string(cgroup.join("cgroup.procs"))
                .unwrap()
                .lines()
            {
                fs::write(&above, pid).unwrap();
            }
        }
    }
    host.kill();
    if containment == Containment::Group {
        assert!(
            !others(0).is_empty(),
            "the daemon is gone before it is swept"
        );
    }
    let swept = sweep(&host.records()).unwrap();
    assert_eq!(
        (swept.trees, &swept.unfinished, &swept.refused),
        (1, &vec![], &vec![]),
        "{containment}"
    );
    assert!(
        containment != Containment::Group || swept.processes > 0,
        "{swept:?}"
    );
    assert_eq!(swept.folders, 1 + cgroups.len(), "{swept:?}");
    until_alone();
    host.assert_empty();
    assert!(cgroups.iter().all(|cgroup| !cgroup.exists()), "{cgroups:?}");
    assert_eq!(sweep(&host.records()).unwrap(), Swept::default());
}

fn a_live_host() {
    let mut live = Host::start(Containment::Group);
    // Names change while they start.
    let numbers = || others(0).into_keys().collect::<Vec<_>>();
    let before = numbers();
    assert_eq!(sweep(&live.records()).unwrap(), Swept::default());
    assert_eq!(numbers(), before);
    assert!(live.record().contains("\nleader "));
    live.kill();
    sweep(&live.records()).unwrap();
    until_alone();
    live.assert_empty();
}

fn a_number_that_is_used_again() {
    let mut host = Host::start(Containment::Group);
    let record = host.record();
    let others_line = |name: &str| {
        record
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} in {record}"))
    };
    // An orphan: what descends from a sweep's own process is spared anyway.
    let told = Command::new("/bin/sh")
        .args(["-c", "sleep 600 >/dev/null 2>&1 & echo $!"])
        .output()
        .unwrap();
    let stranger: u32 = String::from_utf8(told.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let stat = fs::read_to_string(format!("/proc/{stranger}/stat")).unwrap();
    let started: u64 = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_ascii_whitespace()
        .nth(19)
        .unwrap()
        .parse()
        .unwrap();
    let records = private_folder();
    let write = |started: u64| {
        let boot = others_line("boot ");
        let namespace = others_line("namespace ");
        let text = format!(
            "trunkline-tree 1\nhost 4000000 1\n{boot}\n{namespace}\ncontainment group\nready\nleader {stranger} {started}\n"
        );
        let path = records.path().join("tree-4000000-1");
        fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, mode).unwrap();
    };

    write(started - 1);
    let swept = sweep(records.path()).unwrap();
    assert_eq!((swept.trees, swept.processes), (1, 0), "{swept:?}");
    assert!(
        others(0).contains_key(&stranger.cast_signed()),
        "a stranger was killed"
    );
    write(started);
    let swept = sweep(records.path()).unwrap();
    assert_eq!((swept.trees, swept.processes), (1, 1), "{swept:?}");

    host.kill();
    sweep(&host.records()).unwrap();
    until_alone();
}

/// Waits until only the first process and this one are left.
fn until_alone() {
    let begun = Instant::now();
    while !others(0).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", others(0));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn private_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    folder
}

fn cgroups(record: &str) -> Vec<PathBuf> {
    record
        .lines()
        .filter_map(|line| line.strip_prefix("cgroup ").map(PathBuf::from))
        .collect()
}

/// A host in a process of its own that has one child.
struct Host {
    process: Child,
    folder: TempDir,
}

impl Host {
    fn start(containment: Containment) -> Self {
        let folder = private_folder();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "trees::records::recording_host",
            ])
            .env(HOST, containment.name())
            .env(FOLDER, folder.path())
            .env_remove(SWEEPS)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(
                stdout.read_line(&mut line).unwrap() > 0,
                "the host ended before it was ready"
            );
        }
        Self { process, folder }
    }

    fn records(&self) -> PathBuf {
        self.folder.path().join("state/children")
    }

    fn private_root(&self) -> PathBuf {
        self.folder.path().join("private")
    }

    /// The text of its one record.
    fn record(&self) -> String {
        let mut files: Vec<_> = fs::read_dir(self.records()).unwrap().collect();
        assert_eq!(files.len(), 1);
        fs::read_to_string(files.pop().unwrap().unwrap().path()).unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn assert_empty(&self) {
        let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!(
            (count(&self.records()), count(&self.private_root())),
            (0, 0)
        );
    }
}

#[tokio::test]
#[ignore = "a part of the test above, which runs it in a process of its own"]
async fn recording_host() {
    let (Ok(containment), Some(folder)) = (std::env::var(HOST), std::env::var_os(FOLDER)) else {
        return;
    };
    let all = [
        Containment::Namespace,
        Containment::Reaper,
        Containment::Group,
    ];
    let containment = all
        .into_iter()
        .find(|one| one.name() == containment)
        .unwrap();
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    let folder = PathBuf::from(folder);
    fs::create_dir(folder.join("private")).unwrap();
    let spec = ChildSpec::new("/bin/sh")
        .args(["-c", TREE])
        .containment(containment)
        .private_root(folder.join("private"))
        .record_dir(folder.join("state/children"));
    let mut child = spawn(spec).await.unwrap();
    let mut stdout = tokio::io::BufReader::new(child.take_stdout().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    assert!(line.trim().parse::<u32>().is_ok(), "{line}");
    println!("\nready");
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}
