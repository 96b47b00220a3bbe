//! Tells the processes of agents from all others, by their ancestors.
//!
//! A process below a host of this crate is an agent's. A host is known by its spawner thread: every
//! process that starts children by this crate has one for as long as it runs, anyone may read a
//! thread's name in `/proc`, and no process can change one of another process. So an agent can
//! shed the mark only by leaving the tree of its host.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;

use rustix::process::{Pid, getpid};

use super::proc::Stat;
use crate::{init, spawner};

/// The deepest tree that is followed to its root.
const MAX_DEPTH: usize = 4096;

/// The most threads of a process that are examined.
const MAX_THREADS: usize = 64 * 1024;

/// The longest name of a thread that the kernel keeps, in bytes.
const MAX_THREAD_NAME: usize = 15;

/// The most bytes of a command line that are examined: a path and a word.
const MAX_COMMAND_LINE: u64 = 8192;

/// Returns whether a process is below a host: this process or another. `None` if `/proc` does not
/// show the process or one of its ancestors. Blocks for `/proc`.
///
/// Hosts that this process descends from do not count: to them the two processes are alike. An
/// agent that leaves its tree, for example by a service manager that starts a process for it, is
/// not recognized.
#[must_use]
pub fn is_below_host(pid: u32) -> Option<bool> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    Ancestry::new().is_below_host(pid)
}

/// Returns whether this process is an agent's: below any host, or in a PID namespace or a sandbox
/// that a host made. `None` if `/proc` does not show one of its ancestors. Blocks for `/proc`.
#[must_use]
pub fn is_started_by_agent() -> Option<bool> {
    // In a namespace only the init is visible, and not its host.
    let mut ancestry = Ancestry {
        counts_inits: true,
        ..Ancestry::default()
    };
    ancestry.is_below_host(getpid())
}

/// The ancestors of processes, each read once.
#[derive(Debug, Default)]
pub(super) struct Ancestry {
    /// Own process id, if this process counts as a host.
    own: Option<Pid>,
    /// True if the init program of a host counts as the host.
    counts_inits: bool,
    /// The ancestors of this process.
    shared: HashSet<Pid>,
    below_host: HashMap<Pid, Option<bool>>,
    hosts: HashMap<Pid, Option<bool>>,
}

/// A step from a process towards the root of its tree.
enum Ancestor {
    /// The answer is known.
    Root(Option<bool>),
    Parent(Pid),
}

impl Ancestry {
    pub(super) fn new() -> Self {
        let own = getpid();
        let mut shared = HashSet::new();
        let mut next = own;
        while let Some(parent) = Stat::read(next).and_then(|stat| stat.parent)
            && shared.len() < MAX_DEPTH
            && shared.insert(parent)
        {
            next = parent;
        }
        Self {
            own: Some(own),
            shared,
            ..Self::default()
        }
    }

    /// Returns whether a process is below a host, as [`is_below_host`].
    pub(super) fn is_below_host(&mut self, pid: Pid) -> Option<bool> {
        let mut path = Vec::new();
        let mut next = pid;
        let found = loop {
            if path.len() == MAX_DEPTH {
                break None;
            }
            if let Some(known) = self.below_host.get(&next) {
                break *known;
            }
            path.push(next);
            match self.ancestor(next) {
                Ancestor::Root(answer) => break answer,
                Ancestor::Parent(parent) => next = parent,
            }
        };
        self.below_host
            .extend(path.into_iter().map(|pid| (pid, found)));
        found
    }

    fn ancestor(&mut self, pid: Pid) -> Ancestor {
        if Some(pid) == self.own || self.shared.contains(&pid) {
            return Ancestor::Root(Some(false));
        }
        let Some(mut stat) = Stat::read(pid) else {
            return Ancestor::Root(None);
        };
        loop {
            let Some(parent) = stat.parent else {
                return Ancestor::Root(Some(false));
            };
            if Some(parent) == self.own {
                return Ancestor::Root(Some(true));
            }
            if self.shared.contains(&parent) {
                return Ancestor::Root(Some(false));
            }
            // A parent is the older one; a younger process got the number of one that has ended.
            let is_parent = Stat::read(parent).is_some_and(|above| above.started <= stat.started);
            match self.is_host(parent).filter(|_| is_parent) {
                Some(true) => return Ancestor::Root(Some(true)),
                Some(false) => return Ancestor::Parent(parent),
                None => {}
            }
            // If the parent has ended meanwhile, the process has another one.
            match Stat::read(pid) {
                Some(now) if now.started == stat.started && now.parent != stat.parent => stat = now,
                _ => return Ancestor::Root(None),
            }
        }
    }

    /// Returns whether a process is a host. `None` if its threads cannot be read.
    pub(super) fn is_host(&mut self, pid: Pid) -> Option<bool> {
        let is_host = || {
            if self.counts_inits && is_init(pid) {
                return Some(true);
            }
            has_spawner(pid)
        };
        *self.hosts.entry(pid).or_insert_with(is_host)
    }
}

/// Returns whether a process is the init of a host, by its first argument.
fn is_init(pid: Pid) -> bool {
    let mut line = Vec::new();
    let read = fs::File::open(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .and_then(|file| file.take(MAX_COMMAND_LINE).read_to_end(&mut line));
    // A process that has ended meanwhile is no ancestor.
    read.is_ok() && line.split(|byte| *byte == 0).nth(1) == Some(init::MARKER.as_bytes())
}

/// Returns whether a process has a spawner thread. `None` if its threads cannot be read.
fn has_spawner(pid: Pid) -> Option<bool> {
    let name = &spawner::THREAD_NAME[..MAX_THREAD_NAME];
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
    for (count, thread) in threads.enumerate() {
        if count == MAX_THREADS {
            return None;
        }
        // A thread that has ended meanwhile was no spawner.
        let read = fs::read_to_string(thread.ok()?.path().join("comm")).unwrap_or_default();
        if read.trim_end() == name {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{ChildSpec, spawn};

    #[test]
    fn children_of_this_process_are_below_a_host_and_its_ancestors_are_not() {
        let own = std::process::id();
        assert_eq!(is_below_host(own), Some(false));
        assert_eq!(
            is_below_host(std::os::unix::process::parent_id()),
            Some(false)
        );
        assert_eq!(is_below_host(1), Some(false));
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(is_below_host(child.id()), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(is_below_host(child.id()), None, "it has ended");
    }

    #[tokio::test]
    async fn a_process_that_starts_children_is_a_host() {
        let own = rustix::process::getpid();
        let child = spawn(ChildSpec::new("cat")).await.unwrap();
        assert_eq!(has_spawner(own), Some(true));
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(has_spawner(Pid::from_child(&other)), Some(false));
        other.kill().unwrap();
        other.wait().unwrap();
        drop(child);
    }
}
