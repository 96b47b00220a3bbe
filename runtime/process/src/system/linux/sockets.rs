//! Finds the process that has a socket open, and whether it is an agent's.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{Pid, geteuid};

use super::ancestry::Ancestry;
use crate::system::proc::{self, Stat};

/// The most processes that are examined.
const MAX_PROCESSES: usize = 256 * 1024;

/// The most open files that are examined, of one process and of all that are below no host.
const MAX_FILES: usize = 1024 * 1024;
const MAX_FILES_PER_PROCESS: usize = 256 * 1024;

/// The most open files of processes below a host that are examined. What is found there gives the
/// reason of a refusal, and changes no decision.
const MAX_FILES_BELOW_HOSTS: usize = 4 * 1024;

/// The kind of process that has a socket open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketHolder {
    /// A process that is below no host has it, or this process itself.
    Outside,
    /// Of the processes whose files can be read only such have it that are below a host.
    BelowHost,
    /// No process has it whose files can be read. It may be an agent's: a descriptor on its way
    /// through another socket is in no process.
    NotFound,
}

/// Returns the holder of each socket, in the order of `inodes`. Blocks for `/proc`: for as long as
/// it takes to read the open files of the processes below no host.
///
/// A host and what is below it are meant as in [`is_below_host`](crate::is_below_host). However many
/// files and processes an agent has, they cost one look at each process's parent.
#[must_use]
pub fn find_socket_holders(inodes: &[u64]) -> Vec<SocketHolder> {
    let mut search = Search {
        wanted: inodes
            .iter()
            .map(|inode| (*inode, SocketHolder::NotFound))
            .collect(),
        missing: 0,
    };
    search.missing = search.wanted.len();
    let mut ancestry = Ancestry::new();
    let mut below_hosts = Vec::new();
    let mut files = MAX_FILES;
    for pid in proc::pids().take(MAX_PROCESSES) {
        if search.missing == 0 {
            break;
        }
        match ancestry.is_below_host(pid) {
            Some(false) => search.examine(pid, SocketHolder::Outside, &mut files),
            Some(true) => below_hosts.push(pid),
            None => {}
        }
    }
    let mut files = MAX_FILES_BELOW_HOSTS;
    for pid in below_hosts {
        if search.missing == 0 || files == 0 {
            break;
        }
        search.examine(pid, SocketHolder::BelowHost, &mut files);
    }
    inodes.iter().map(|inode| search.wanted[inode]).collect()
}

/// A search for the holders of sockets.
#[derive(Debug)]
struct Search {
    wanted: HashMap<u64, SocketHolder>,
    /// Number of sockets that were not found yet.
    missing: usize,
}

impl Search {
    /// Examines the open files of a process of a kind, and at most `files` of them.
    fn examine(&mut self, pid: Pid, kind: SocketHolder, files: &mut usize) {
        let before = Stat::read(pid);
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else {
            return;
        };
        let mut found = Vec::new();
        for file in open.flatten().take(MAX_FILES_PER_PROCESS.min(*files)) {
            *files -= 1;
            // One that was closed meanwhile has no target.
            let inode = fs::read_link(file.path()).ok();
            let inode = inode.and_then(|target| parse_socket_link(target.to_str()?));
            if let Some(inode) = inode
                && self.wanted.get(&inode) == Some(&SocketHolder::NotFound)
            {
                found.push(inode);
            }
        }
        // The number may have been another process's when its ancestors were read.
        if found.is_empty() || (kind == SocketHolder::Outside && !is_still_outside(pid, before)) {
            return;
        }
        for inode in found {
            if let Some(holder) = self.wanted.get_mut(&inode)
                && *holder == SocketHolder::NotFound
            {
                *holder = kind;
                self.missing -= 1;
            }
        }
    }
}

/// Returns whether a process is the one that it was before, and is below no host now.
fn is_still_outside(pid: Pid, before: Option<Stat>) -> bool {
    let is_outside = Ancestry::new().is_below_host(pid) == Some(false);
    let started = |stat: Option<Stat>| stat.map(|stat| stat.started);
    is_outside && before.is_some() && started(Stat::read(pid)) == started(before)
}

/// Mounts of the cgroup hierarchy of version 2.
const CGROUP_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Returns true if no agent can have made a socket that was made in the cgroup (version 2) of this
/// id: this user may not move a process there, and no process there is a host or a descendant of
/// one. This clears a socket whose holder's open files cannot be read, such as an SSH server's.
/// Always false for the superuser, who may move all processes. Blocks for `/proc`.
#[must_use]
pub fn is_cgroup_without_agents(id: u64) -> bool {
    if geteuid().is_root() {
        return false;
    }
    let mut pids = proc::pids().take(MAX_PROCESSES);
    let Some(folder) = pids.find_map(|pid| find_cgroup(pid, id)) else {
        return false;
    };
    let list = folder.join("cgroup.procs");
    let is_other_users = fs::metadata(&list).is_ok_and(|file| file.uid() != geteuid().as_raw());
    if !is_other_users || access(&list, Access::WRITE_OK).is_ok() {
        return false;
    }
    let mut ancestry = Ancestry::new();
    let mut is_outside = |line: &str| {
        let pid = line.parse().ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| {
            ancestry.is_below_host(pid) == Some(false) && ancestry.is_host(pid) == Some(false)
        })
    };
    fs::read_to_string(&list).is_ok_and(|text| text.lines().all(&mut is_outside))
}

/// Returns the folder of a process's cgroup, if it has this id: the number of its inode.
fn find_cgroup(pid: Pid, id: u64) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut folders = CGROUP_MOUNTS
        .iter()
        .map(|mount| Path::new(mount).join(path));
    folders.find(|folder| fs::metadata(folder).is_ok_and(|found| found.ino() == id))
}

/// Parses the target of a link in `/proc/PID/fd`: `socket:[INODE]`.
fn parse_socket_link(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn connect() -> (TcpStream, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let file = fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        (stream, file.ino())
    }

    #[test]
    fn sockets_are_told_apart_by_their_holders() {
        let (own, own_inode) = connect();
        let (stream, inode) = connect();
        let (closed, closed_inode) = connect();
        assert_eq!(
            find_socket_holders(&[inode, own_inode, inode]),
            [SocketHolder::Outside; 3]
        );
        // The shell waits for a child that has the socket, and has it no more itself.
        let script = "exec 3<&0; sleep 600 <&3 3<&- & exec <&- 3<&-; echo; wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::from(OwnedFd::from(stream)))
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        drop(closed);
        // A process that another test starts has a copy of a socket until it runs its program.
        loop {
            match find_socket_holders(&[inode, own_inode, closed_inode])[..] {
                [
                    SocketHolder::BelowHost,
                    SocketHolder::Outside,
                    SocketHolder::NotFound,
                ] => break,
                _ => std::thread::yield_now(),
            }
        }
        rustix::process::kill_process_group(Pid::from_child(&child), rustix::process::Signal::KILL)
            .unwrap();
        child.wait().unwrap();
        drop(own);
    }

    #[test]
    fn a_cgroup_that_no_process_is_in_proves_nothing() {
        // The root has the first inode, and this user or others may be in it.
        for id in [0, 1, u64::MAX] {
            assert!(!is_cgroup_without_agents(id), "{id}");
        }
    }

    #[test]
    fn only_links_of_sockets_are_parsed() {
        assert_eq!(parse_socket_link("socket:[17]"), Some(17));
        for other in [
            "socket:[",
            "socket:[]",
            "pipe:[17]",
            "/socket:[17]",
            "socket:[17] ",
        ] {
            assert_eq!(parse_socket_link(other), None, "{other}");
        }
    }
}
