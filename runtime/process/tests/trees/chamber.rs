//! The chamber: runs cells, and looks for what they leave.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use trunkline_process::{Enforcer, containment_support, limit_support};
use trunkline_testing::skipped;

use super::INIT;
use super::cell::{Cell, Dying, Holder, all};
use super::host::CELL;

/// Timeout of a guaranteed end: only a hang takes longer, however busy the machine is.
const PROMISED: Duration = Duration::from_secs(60);
/// Wait for an end that is not guaranteed.
const UNPROMISED: Duration = Duration::from_secs(1);
/// Timeout of a whole chamber.
const LIMIT: Duration = Duration::from_secs(240);
/// Processes of a chamber, far above what a cell needs.
pub(crate) const CAP: u32 = 300;
const CHAMBER: &str = "TRUNKLINE_TEST_CHAMBER";

/// Runs all cells of a holder in a chamber.
pub(crate) fn run(holder: Holder) {
    let cap = Cap::new(CAP);
    let hoppers = if cap.is_some() { "1" } else { "" };
    let variables = [(CHAMBER, &*holder.name()), ("HOPPERS", hoppers)];
    enter(
        cap.as_ref(),
        "trees::chamber::chamber",
        &variables,
        "cells are as promised",
    );
}

/// Runs an ignored test of this program in a chamber; it succeeds when the test prints `word`.
pub(crate) fn enter(cap: Option<&Cap>, test: &str, variables: &[(&str, &str)], word: &str) {
    trunkline_process::init::use_program(INIT);
    if let Err(why) = containment_support().namespace {
        return skipped(&format!("no PID namespace: {why}"));
    }
    let mut command = Command::new(INIT);
    command.args(["trunkline-init", "--namespace", "--"]);
    if let Some(cap) = cap {
        command
            .args(["/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(cap.0.join("cgroup.procs"));
    }
    command.arg(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "--nocapture", test])
        .envs(variables.iter().copied());
    let mut chamber = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let told = std::thread::spawn({
        let stdout = chamber.stdout.take().unwrap();
        move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .collect::<Vec<_>>()
        }
    });
    let ended = loop {
        if let Some(status) = chamber.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            chamber.kill().unwrap();
            break chamber.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let told = told.join().unwrap().join("\n");
    assert!(ended.success() && told.contains(word), "{ended}:\n{told}");
    println!("{told}");
}

/// A cgroup that caps processes; without one nothing that forks without end is let loose.
pub(crate) struct Cap(PathBuf);

impl Cap {
    pub(crate) fn new(processes: u32) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |controller: &str| {
            own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                (fields.next()? == controller)
                    .then(|| fields.next().map(|path| path.trim_start_matches('/')))?
            })
        };
        let v1 = of("pids").map(|path| PathBuf::from("/sys/fs/cgroup/pids").join(path));
        let v2 = of("").map(|path| PathBuf::from("/sys/fs/cgroup").join(path));
        for parent in [v1, v2].into_iter().flatten() {
            let name = format!(
                "trunkline-test-{}-{:?}",
                std::process::id(),
                std::thread::current().id()
            );
            let folder = parent.join(name.replace(['(', ')'], ""));
            if fs::create_dir(&folder).is_ok() {
                if fs::write(folder.join("pids.max"), processes.to_string()).is_ok() {
                    return Some(Self(folder));
                }
                let _ = fs::remove_dir(&folder);
            }
        }
        None
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        // Its processes have ended; the kernel counts them out a moment later. Hosts that were
        // killed have left the cgroups of their children in it.
        let begun = Instant::now();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < PROMISED {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
#[ignore = "a part of the matrix, which runs it in a PID namespace"]
fn chamber() {
    let Ok(holder) = std::env::var(CHAMBER) else {
        return;
    };
    assert!(std::process::id() < 10, "this is not a PID namespace");
    let hoppers = std::env::var("HOPPERS").is_ok_and(|yes| !yes.is_empty());
    let counted = matches!(
        limit_support().processes.by,
        Enforcer::CgroupV1 | Enforcer::CgroupV2
    );
    let mut ran = 0;
    let mut slowest = (Duration::ZERO, String::new());
    let cells = all().filter(|cell| cell.holder.name() == holder && cell.is_possible());
    for cell in cells.filter(|cell| hoppers || cell.kind != "hopper") {
        let promised = cell.is_promised(counted);
        let took = enact(cell, if promised { PROMISED } else { UNPROMISED });
        ran += 1;
        if promised {
            let took = took.unwrap_or_else(|left| panic!("{} left {left:?}", cell.name()));
            slowest = slowest.max((took, cell.name()));
        } else if took.is_ok() && cell.kind == "daemon" && cell.dying != Dying::HostExits {
            // The search can fail: here is what it has to find.
            panic!("{} left nothing; is the search blind?", cell.name());
        }
    }
    println!(
        "\n{ran} {holder} cells are as promised; the slowest, {}, took {:?}",
        slowest.1, slowest.0
    );
}

/// Returns the time until nothing was left, or the processes that were left.
fn enact(cell: Cell, bound: Duration) -> Result<Duration, BTreeMap<i32, String>> {
    let mut host = Host::start(cell);
    let leader = host.until_ready();
    let begun = match cell.dying {
        Dying::HostKilled => {
            let begun = Instant::now();
            host.process.kill().unwrap();
            begun
        }
        Dying::Killed => {
            let begun = Instant::now();
            host.tell("go");
            kill_program(leader, cell);
            begun
        }
        Dying::Stop | Dying::Drop | Dying::End => {
            host.tell("go");
            host.until("done");
            Instant::now()
        }
        Dying::HostExits => {
            host.tell("go");
            host.process.wait().unwrap();
            Instant::now()
        }
    };
    let spared = i32::try_from(host.process.id()).unwrap();
    let outcome = loop {
        let left = others(spared);
        if left.is_empty() {
            break Ok(begun.elapsed());
        }
        if begun.elapsed() > bound {
            break Err(left);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let _ = host.process.kill();
    host.process.wait().unwrap();
    clear();
    outcome
}

/// Kills the program that the host started: below its leader, past the process that holds the tree.
fn kill_program(leader: i32, cell: Cell) {
    let program = (0..cell.holder.processes()).fold(leader, |above, _| child_of(above));
    kill_process(Pid::from_raw(program).unwrap(), Signal::KILL).unwrap();
}

fn child_of(parent: i32) -> i32 {
    let all = processes();
    all.into_iter()
        .find(|(pid, (above, _))| *above == parent && *pid != parent)
        .unwrap()
        .0
}

/// Everybody but the first process, this one, and the host.
pub(crate) fn others(host: i32) -> BTreeMap<i32, String> {
    let own = i32::try_from(std::process::id()).unwrap();
    let all = processes()
        .into_iter()
        .filter(|(pid, _)| ![1, own, host].contains(pid));
    all.map(|(pid, (_, name))| (pid, name)).collect()
}

/// Every process that is not a zombie, with its parent and its name.
fn processes() -> BTreeMap<i32, (i32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let alive = !matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        alive.then(|| (pid, (parent, name.to_owned())))
    });
    stats.collect()
}

/// Kills what a cell without a promise has left: all but the first process and this one.
pub(crate) fn clear() {
    let begun = Instant::now();
    loop {
        let left = others(0);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PROMISED, "{left:?} cannot be killed");
        // Everybody in the namespace that we may signal, at once: also one that is between two forks.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::SIGKILL);
    }
}

struct Host {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    fn start(cell: Cell) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "trees::host::host"])
            .env(CELL, cell.name())
            .env_remove(super::chamber::CHAMBER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take().unwrap();
        let stdout = process.stdout.take().unwrap();
        Self {
            process,
            stdin,
            stdout: BufReader::new(stdout),
        }
    }

    /// Gives the number of the child's leader.
    fn until_ready(&mut self) -> i32 {
        self.until("ready")
            .split_once(' ')
            .unwrap()
            .1
            .trim()
            .parse()
            .unwrap()
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.stdin, "{word}").unwrap();
    }

    fn until(&mut self, word: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(word) {
            line.clear();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the host ended before it was {word}"
            );
        }
        line
    }
}
