//! Finds the running processes of a tree whose host is gone.
//!
//! These are its first process and all descendants of it, and all whose `TMPDIR` or
//! `ADAPTER_CONFIG` is in the tree's private folder: a daemon has no parent that identifies it, but
//! has its environment. A process that left its parents *and* changed its environment is found only
//! by its cgroup.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::entry::StartedProcess;
use crate::environment::{ADAPTER_CONFIG, TMPDIR};
use crate::system::proc::{self, Stat};

/// Bytes of a process's environment that are read.
const ENVIRONMENT: u64 = 1 << 20;

/// A process and the folders that its environment names.
#[derive(Debug, Clone)]
pub(super) struct RunningProcess {
    stat: Stat,
    folders: Vec<PathBuf>,
}

/// Identity of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<'a> {
    /// First process, if ids of its PID namespace are valid here.
    pub(super) leader: Option<StartedProcess>,
    /// Its private folder.
    pub(super) folder: Option<&'a Path>,
    /// When its host started: no process of the tree is older.
    pub(super) since: u64,
}

/// All processes that run.
pub(super) fn running() -> Vec<RunningProcess> {
    let all = proc::all().into_iter().filter(|stat| !stat.is_zombie);
    all.map(|stat| RunningProcess {
        stat,
        folders: folders_of(stat.pid),
    })
    .collect()
}

/// Returns the processes that must not be killed, whatever a record contains: this process and its
/// ancestors, and live hosts with all their descendants.
pub(super) fn spared(all: &[RunningProcess], live_hosts: &[StartedProcess]) -> HashSet<Pid> {
    let this = rustix::process::getpid();
    let parents: HashMap<Pid, Pid> = all
        .iter()
        .filter_map(|running| Some((running.stat.pid, running.stat.parent?)))
        .collect();
    let hosts = all
        .iter()
        .filter(|running| live_hosts.contains(&running.stat.into()));
    let mut spared = with_descendants(all, hosts.map(|running| running.stat.pid).chain([this]));
    let mut ancestor = this;
    while let Some(parent) = parents.get(&ancestor) {
        // A race may make a circle of numbers.
        if !spared.insert(*parent) {
            break;
        }
        ancestor = *parent;
    }
    spared
}

/// The processes of a tree.
pub(super) fn members(
    all: &[RunningProcess],
    marks: Marks<'_>,
    spared: &HashSet<Pid>,
) -> Vec<StartedProcess> {
    let is_root = |running: &&RunningProcess| {
        let marked = |folder: &Path| {
            running
                .folders
                .iter()
                .any(|named| named.starts_with(folder))
        };
        marks.leader == Some(running.stat.into())
            || (running.stat.started >= marks.since && marks.folder.is_some_and(marked))
    };
    let members = with_descendants(
        all,
        all.iter().filter(is_root).map(|running| running.stat.pid),
    );
    let wanted = |pid: &Pid| members.contains(pid) && !spared.contains(pid);
    all.iter()
        .filter(|running| wanted(&running.stat.pid))
        .map(|running| running.stat.into())
        .collect()
}

fn with_descendants(all: &[RunningProcess], roots: impl Iterator<Item = Pid>) -> HashSet<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for RunningProcess { stat, .. } in all {
        if let Some(parent) = stat.parent {
            children.entry(parent).or_default().push(stat.pid);
        }
    }
    let mut found = HashSet::new();
    let mut next: Vec<Pid> = roots.collect();
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            next.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    found
}

/// Stops all processes, so that none forks, then kills all. An id that belongs to another process
/// by now is skipped.
pub(super) fn kill(members: &[StartedProcess]) {
    let held: Vec<_> = members
        .iter()
        .filter_map(|process| Some((process, pidfd_open(process.pid, PidfdFlags::empty()).ok()?)))
        .filter(|(process, _)| process.runs())
        .collect();
    for signal in [Signal::STOP, Signal::KILL] {
        for (_, pidfd) in &held {
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

/// Returns the folders for temporary files and configuration in a process's environment. Empty for
/// processes that we may not read.
fn folders_of(pid: Pid) -> Vec<PathBuf> {
    let mut environment = Vec::new();
    let read = File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()))
        .and_then(|file| file.take(ENVIRONMENT).read_to_end(&mut environment));
    if read.is_err() {
        return Vec::new();
    }
    folders_in(&environment)
}

fn folders_in(environment: &[u8]) -> Vec<PathBuf> {
    let value = |variable: &[u8], name: &str| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(value)))
    };
    let variables = environment.split(|byte| *byte == 0);
    variables
        .filter_map(|variable| {
            [TMPDIR, ADAPTER_CONFIG]
                .into_iter()
                .find_map(|name| value(variable, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    fn running(number: i32, parent: i32, started: u64, folder: Option<&str>) -> RunningProcess {
        let stat = Stat {
            pid: pid(number),
            parent: Pid::from_raw(parent),
            started,
            is_zombie: false,
            is_suspended: false,
        };
        RunningProcess {
            stat,
            folders: folder.map(PathBuf::from).into_iter().collect(),
        }
    }

    fn found(all: &[RunningProcess], marks: Marks<'_>, spared: &HashSet<Pid>) -> Vec<i32> {
        members(all, marks, spared)
            .into_iter()
            .map(|process| process.pid.as_raw_nonzero().get())
            .collect()
    }

    const MARKS: Marks<'_> = Marks {
        leader: None,
        folder: None,
        since: 100,
    };

    #[test]
    fn a_tree_is_its_leader_its_descendants_and_who_carries_its_folder() {
        let all = [
            running(1, 0, 0, None),
            running(10, 1, 100, None),
            running(11, 10, 101, None),
            running(12, 11, 102, Some("/other")),
            running(20, 1, 103, Some("/t/trunkline-a/tmp")),
            running(21, 20, 104, None),
            running(30, 1, 105, Some("/t/trunkline-ab/tmp")),
            running(40, 1, 99, Some("/t/trunkline-a/tmp")),
        ];
        let leader = Some(StartedProcess {
            pid: pid(10),
            started: 100,
        });
        let folder = Some(Path::new("/t/trunkline-a"));
        assert_eq!(
            found(&all, Marks { leader, ..MARKS }, &HashSet::new()),
            [10, 11, 12]
        );
        assert_eq!(
            found(&all, Marks { folder, ..MARKS }, &HashSet::new()),
            [20, 21]
        );
        assert_eq!(
            found(
                &all,
                Marks {
                    leader,
                    folder,
                    ..MARKS
                },
                &HashSet::from([pid(11)])
            ),
            [10, 12, 20, 21]
        );
        assert_eq!(found(&all, MARKS, &HashSet::new()), Vec::<i32>::new());
    }

    #[test]
    fn a_number_that_is_used_again_is_a_stranger() {
        let all = [running(10, 1, 500, None), running(11, 10, 501, None)];
        let leader = Some(StartedProcess {
            pid: pid(10),
            started: 100,
        });
        assert_eq!(
            found(&all, Marks { leader, ..MARKS }, &HashSet::new()),
            Vec::<i32>::new()
        );
    }

    #[test]
    fn this_process_its_ancestors_and_live_hosts_are_spared() {
        let this = rustix::process::getpid().as_raw_nonzero().get();
        let live = StartedProcess {
            pid: pid(900_010),
            started: 7,
        };
        let all = [
            running(900_001, 0, 0, None),
            running(900_002, 900_001, 1, None),
            running(this, 900_002, 2, None),
            running(900_003, this, 3, None),
            running(900_010, 900_001, 7, None),
            running(900_011, 900_010, 8, None),
            running(900_020, 900_001, 9, None),
        ];
        let spared = spared(&all, &[live]);
        for number in [900_001, 900_002, this, 900_003, 900_010, 900_011] {
            assert!(spared.contains(&pid(number)), "{number}");
        }
        assert!(!spared.contains(&pid(900_020)));
        assert!(
            !super::spared(&all, &[StartedProcess { started: 8, ..live }]).contains(&pid(900_011))
        );
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let this = rustix::process::getpid().as_raw_nonzero().get();
        let all = [
            running(this, 900_002, 1, None),
            running(900_002, this, 1, None),
        ];
        assert_eq!(spared(&all, &[]).len(), 2);
    }

    #[test]
    fn the_environment_names_folders() {
        let text =
            b"PATH=/bin\0TMPDIR=/t/x/tmp\0MY_TMPDIR=/no\0ADAPTER_CONFIG=/t/x/config.json\0TMPDIRS=/no\0";
        assert_eq!(
            folders_in(text),
            [Path::new("/t/x/tmp"), Path::new("/t/x/config.json")]
        );
        assert_eq!(folders_in(b""), Vec::<PathBuf>::new());
    }
}
