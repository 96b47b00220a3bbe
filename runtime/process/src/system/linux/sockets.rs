//! Who has a socket open: a process that descends from this one, or another.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Pid;

use crate::system::proc;

/// How many processes are looked at.
const PROCESSES: usize = 16 * 1024;

/// How many open files of theirs.
const FILES: usize = 256 * 1024;

/// How often processes that have begun meanwhile are looked at.
const ROUNDS: usize = 32;

/// Who has a socket open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketHolder {
    /// A process that descends from this one.
    Descendant,
    /// No process that descends from this one.
    Other,
    /// It cannot be told: there are too many processes or open files, or not all may be looked at.
    Unknown,
}

/// Who has the socket of this inode open, of the processes that `/proc` shows. Blocks for `/proc`:
/// for as long as a read of the open files of all descendants takes.
///
/// A descendant that passes its socket on to a process that is none, or holds it in no table while
/// it is looked for, is not found.
#[must_use]
pub fn holder_of_socket(inode: u64) -> SocketHolder {
    let own = rustix::process::getpid();
    let mut search = Search {
        wanted: format!("socket:[{inode}]"),
        seen: HashSet::new(),
        files: 0,
    };
    let mut is_hidden = false;
    let mut rounds = 0;
    loop {
        // Until there is none that has begun meanwhile: it could have it from one that was looked
        // at too late.
        let begun: Vec<_> = descendants(own)
            .into_iter()
            .filter(|pid| !search.seen.contains(pid))
            .collect();
        if begun.is_empty() {
            break;
        }
        rounds += 1;
        for pid in begun {
            match search.has(pid) {
                Some(true) => return SocketHolder::Descendant,
                Some(false) => {}
                // One that has ended has nothing open.
                None => is_hidden |= Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists(),
            }
            if search.is_over() || rounds > ROUNDS {
                return SocketHolder::Unknown;
            }
        }
    }
    // Where one cannot be looked at, the holder must be seen elsewhere.
    match is_hidden && !search.anywhere_else() {
        true => SocketHolder::Unknown,
        false => SocketHolder::Other,
    }
}

/// A search for one socket.
struct Search {
    wanted: String,
    seen: HashSet<Pid>,
    files: usize,
}

impl Search {
    /// Whether a process has it open. `None` where its open files are not shown.
    fn has(&mut self, pid: Pid) -> Option<bool> {
        self.seen.insert(pid);
        let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
        for file in files {
            self.files += 1;
            let file = file.ok()?.path();
            match fs::read_link(file) {
                Ok(target) if target.as_os_str() == self.wanted.as_str() => return Some(true),
                // Closed meanwhile.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return None,
            }
            if self.is_over() {
                return None;
            }
        }
        Some(false)
    }

    fn is_over(&self) -> bool {
        self.files > FILES || self.seen.len() > PROCESSES
    }

    /// Whether a process has it open that was not looked at before.
    fn anywhere_else(&mut self) -> bool {
        let others: Vec<_> = proc::all().into_iter().map(|stat| stat.pid).collect();
        others
            .into_iter()
            .any(|pid| !self.seen.contains(&pid) && !self.is_over() && self.has(pid) == Some(true))
    }
}

/// All processes that descend from one, itself excluded.
fn descendants(ancestor: Pid) -> Vec<Pid> {
    let Some(mut next) = children(ancestor) else {
        // A kernel without lists of children.
        return proc::descendants(ancestor)
            .into_iter()
            .map(|stat| stat.pid)
            .collect();
    };
    let mut found = HashSet::new();
    while let Some(pid) = next.pop() {
        if found.insert(pid) && found.len() <= PROCESSES {
            next.extend(children(pid).unwrap_or_default());
        }
    }
    found.into_iter().collect()
}

/// The children of all threads of a process. `None` where they cannot be read.
fn children(pid: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))
        .ok()?
        .flatten()
    {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
            ),
            // A thread that has just ended has a folder no more.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use super::*;

    /// Whether a process has anything open.
    fn has_files(pid: Pid) -> bool {
        fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))
            .is_ok_and(|mut files| files.next().is_some())
    }

    #[test]
    fn a_socket_of_a_grandchild_is_found_and_ones_own_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd()))
            .unwrap()
            .ino();
        assert_eq!(holder_of_socket(inode), SocketHolder::Other);
        let stdin = Stdio::from(OwnedFd::from(stream));
        // The shell waits for another that has the socket alone.
        let script = "exec 3<&0; sleep 600 <&3 3<&- & exec <&- 3<&-; wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(stdin)
            .spawn()
            .unwrap();
        assert_eq!(holder_of_socket(inode), SocketHolder::Descendant);
        let shell = Pid::from_child(&child);
        let grandchild = loop {
            match children(shell).unwrap_or_default().pop() {
                Some(pid) => break pid,
                None => std::thread::yield_now(),
            }
        };
        for pid in [shell, grandchild] {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        // Not this one's to wait for: it is gone when its folder is, or has nothing open.
        while has_files(grandchild) {
            std::thread::yield_now();
        }
        assert_eq!(holder_of_socket(inode), SocketHolder::Other);
    }
}
