//! Reads processes and PID namespaces from `/proc`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;

/// A process as described by `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    /// When it started, in ticks since the boot. A number that is used again has another start.
    pub(crate) started: u64,
    /// True if it has ended and is not reaped.
    pub(crate) is_zombie: bool,
    /// True if it is suspended, by a signal or by a debugger.
    pub(crate) is_suspended: bool,
}

impl Stat {
    /// The process of this number, if there is one.
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        Self::parse(
            pid,
            &fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?,
        )
    }

    fn parse(pid: Pid, text: &[u8]) -> Option<Self> {
        // The name may hold anything, a parenthesis too; the last one ends it.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&text[end + 1..])
            .ok()?
            .split_ascii_whitespace();
        let state = fields.next()?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        // The start is field 22; the state was field 3, the parent field 4.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self {
            pid,
            parent,
            started,
            is_zombie: state == "Z",
            is_suspended: matches!(state, "T" | "t"),
        })
    }
}

/// The id that this boot of the machine got.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// The inode of this process's PID namespace.
pub(crate) fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// All processes.
pub(crate) fn all() -> Vec<Stat> {
    pids().filter_map(Stat::read).collect()
}

/// The numbers of all processes.
pub(crate) fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        entry
            .file_name()
            .to_str()?
            .parse()
            .ok()
            .and_then(Pid::from_raw)
    })
}

/// All processes that descend from one, itself excluded, in no order.
pub(crate) fn descendants(ancestor: Pid) -> Vec<Stat> {
    let mut children: HashMap<Pid, Vec<Stat>> = HashMap::new();
    for stat in all() {
        if let Some(parent) = stat.parent {
            children.entry(parent).or_default().push(stat);
        }
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([ancestor]);
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if seen.insert(child.pid) {
                next.push(child.pid);
                found.push(child);
            }
        }
    }
    found
}

/// The most processes of a tree that [`find_suspended`] examines.
const MAX_EXAMINED: usize = 64;

/// Returns a process of a tree that is suspended, the nearest to its leader. Examines
/// [`MAX_EXAMINED`] processes at most, and only the leader where the kernel does not list children.
pub(crate) fn find_suspended(leader: Pid) -> Option<Pid> {
    let mut next = VecDeque::from([leader]);
    for _ in 0..MAX_EXAMINED {
        let pid = next.pop_front()?;
        if Stat::read(pid).is_some_and(|stat| stat.is_suspended) {
            return Some(pid);
        }
        next.extend(children(pid));
    }
    None
}

/// The children of a process, by the threads that forked them.
fn children(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|pids| {
            pids.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_trap() {
        let pid = Pid::from_raw(42).unwrap();
        let line = b"42 (a) Z (b) S 7 42 42 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1 2 3\n";
        let stat = Stat::parse(pid, line).unwrap();
        assert_eq!(
            (stat.parent, stat.started, stat.is_zombie),
            (Pid::from_raw(7), 98_765, false)
        );
        assert!(!stat.is_suspended);
        for state in ["T", "t"] {
            let line =
                format!("42 (a) {state} 7 42 42 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1");
            assert!(Stat::parse(pid, line.as_bytes()).unwrap().is_suspended);
        }
        assert_eq!(Stat::parse(pid, b"42 (a"), None);
        assert_eq!(Stat::parse(pid, b""), None);
    }

    #[test]
    fn a_process_is_found_under_its_parent() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let found = descendants(rustix::process::getpid());
        let pid = Pid::from_child(&child);
        assert!(
            found
                .iter()
                .any(|stat| stat.pid == pid && Stat::read(pid) == Some(*stat))
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Stat::read(pid), None);
    }
}
