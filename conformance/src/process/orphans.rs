//! Processes that a program leaves behind: found by group, by mark, or by working directory; killed
//! and counted.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal,
        set_child_subreaper, waitpid,
    },
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// A process that outlived the program that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Process id.
    pub pid: u32,
    /// Name, as the kernel knows it.
    pub name: String,
    /// True if it has ended and was not reaped.
    pub zombie: bool,
}

/// A process of this machine.
#[derive(Debug)]
pub(super) struct SeenProcess {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) name: String,
    pub(super) zombie: bool,
    /// Flags of the kernel.
    flags: u64,
    /// When it was started: with the pid, what no other process ever has.
    started: u64,
    pub(super) processor: Duration,
    pub(super) resident: u64,
}

impl SeenProcess {
    /// True for a process that the kernel is ending, or that has SIGKILL and no processor yet.
    fn is_ending(&self) -> bool {
        const PF_EXITING: u64 = 0x4;
        let killed = || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
            let pending = status
                .lines()
                .find_map(|line| line.strip_prefix("ShdPnd:"))?;
            u64::from_str_radix(pending.trim(), 16).ok()
        };
        let kill = 1 << (Signal::KILL.as_raw() - 1);
        self.flags & PF_EXITING != 0 || killed().is_some_and(|pending| pending & kill != 0)
    }

    /// True for a living process that was forked and has not called exec.
    fn awaits_exec(&self) -> bool {
        const PF_FORKNOEXEC: u64 = 0x40;
        !self.zombie && self.flags & PF_FORKNOEXEC != 0 && !self.is_ending()
    }
}

/// Makes orphans of the program under test children of this process, so that they can be seen and reaped.
pub(crate) fn become_subreaper() {
    // Without it an orphan goes to init; it is found all the same, only not reaped by us.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends this process at SIGINT, SIGTERM and SIGHUP, after everything that it has started.
pub(crate) fn end_descendants_at_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else {
            return;
        };
        // Killing may uncover children that were started meanwhile.
        for _ in 0..8 {
            let below = descendants(std::process::id());
            let mut found = processes();
            found.retain(|process| !process.zombie && below.contains(&process.pid));
            if found.is_empty() {
                break;
            }
            found.iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(5));
        }
        // Fails only for a signal that has no default.
        let _ = emulate_default_handler(signal);
    });
}

/// Finds the remaining processes of a case, kills and reaps them, and returns them. The program
/// itself, the leader of the group, has ended and is not reaped yet: until then no other group has
/// its id.
pub fn sweep(group: u32, mark: &str, folder: &Path) -> Vec<Orphan> {
    let own = std::process::id();
    let remaining = || -> Vec<SeenProcess> {
        processes()
            .into_iter()
            .filter(|process| process.pid != own && !(process.pid == group && process.zombie))
            .filter(|process| belongs(process, group, mark, folder))
            .collect()
    };
    let mut left = Vec::new();
    // A child between fork and exec notices by itself that its parent has ended.
    let patience = Instant::now() + Duration::from_secs(1);
    while Instant::now() < patience && remaining().iter().any(SeenProcess::awaits_exec) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Killing may uncover children that were started meanwhile: repeat until none is found.
    for _ in 0..8 {
        // Before the first kill, which may end others.
        let with_end = |process: SeenProcess| (process.is_ending(), process);
        let found: Vec<(bool, SeenProcess)> = remaining().into_iter().map(with_end).collect();
        if found.is_empty() {
            break;
        }
        for (ending, process) in found {
            let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else {
                continue;
            };
            kill(&process);
            let reaped =
                waitpid(Some(pid), WaitOptions::NOHANG).is_ok_and(|status| status.is_some());
            // Neither what the kernel is ending nor a zombie that another process has yet to reap survives.
            let survives = if process.zombie { reaped } else { !ending };
            if survives && left.iter().all(|known: &Orphan| known.pid != process.pid) {
                left.push(Orphan {
                    pid: process.pid,
                    name: process.name,
                    zombie: process.zombie,
                });
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    left
}

fn belongs(process: &SeenProcess, group: u32, mark: &str, folder: &Path) -> bool {
    if process.group == group {
        return true;
    }
    let proc = format!("/proc/{}", process.pid);
    let marked = || {
        fs::read(format!("{proc}/environ")).is_ok_and(|environ| {
            let wanted = format!("{}={mark}", super::MARK);
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        })
    };
    let inside = || fs::read_link(format!("{proc}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    // A host may scrub the environment of its adapter; the stub's arguments still name the folder.
    let named = || {
        let folder = folder.as_os_str().as_encoded_bytes();
        fs::read(format!("{proc}/cmdline")).is_ok_and(|line| {
            !folder.is_empty() && line.windows(folder.len()).any(|part| part == folder)
        })
    };
    marked() || inside() || named()
}

/// Kills every process whose arguments are accepted.
pub fn kill_all(wanted: impl Fn(&[&[u8]]) -> bool) {
    for process in processes() {
        let Ok(line) = fs::read(format!("/proc/{}/cmdline", process.pid)) else {
            continue;
        };
        let args: Vec<&[u8]> = line
            .strip_suffix(b"\0")
            .unwrap_or(&line)
            .split(|byte| *byte == 0)
            .collect();
        if wanted(&args) {
            kill(&process);
        }
    }
}

/// Kills a process that was found, unless its id belongs to another one by now. Every pid that the
/// suite signals was found in `/proc` or returned by its own fork, and never reported by another
/// process, which may be in another PID namespace.
fn kill(process: &SeenProcess) {
    let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else {
        return;
    };
    let is_same = || seen(process.pid).is_some_and(|now| now.started == process.started);
    // It may go at any time: then there is nothing to kill.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) if is_same() => drop(pidfd_send_signal(&pidfd, Signal::KILL)),
        Err(Errno::NOSYS) if is_same() => drop(kill_process(pid, Signal::KILL)),
        Ok(_) | Err(_) => {}
    }
}

/// Ensures that the ids in `/proc` are valid here, and not those of an outer PID namespace: this
/// process may be in one of its own without a `/proc` for it.
pub(super) fn demand_own_proc() -> io::Result<()> {
    match fs::read_link("/proc/self") {
        Ok(own) if own.as_os_str() != std::process::id().to_string().as_str() => {
            Err(io::Error::other(
                "/proc shows another PID namespace than the suite's: mount one of its own (unshare --mount-proc)",
            ))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Everything that runs now, by its pid for this process, also what is in PID namespaces below.
pub(super) fn processes() -> Vec<SeenProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    if demand_own_proc().is_err() {
        return Vec::new();
    }
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(seen).collect()
}

fn seen(pid: u32) -> Option<SeenProcess> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of `/proc/PID/stat`; the name is in parentheses and may contain anything.
fn parse_stat(pid: u32, stat: &str) -> Option<SeenProcess> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)?;
    Some(SeenProcess {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        group: u32::try_from(number(2)?).ok()?,
        name,
        zombie: fields.first() == Some(&"Z"),
        flags: number(6)?,
        started: number(19)?,
        // The kernel counts in hundredths of a second for programs.
        processor: Duration::from_millis(ticks * 10),
        resident: number(21)? * rustix::param::page_size() as u64,
    })
}

/// The processes below a process, itself not counted.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let all = processes();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            all.iter()
                .filter(|process| process.parent == parent)
                .map(|process| process.pid),
        );
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    /// Starts Python that forks, prints a line and ends; its child continues for the given seconds.
    fn fork(folder: &Path, seconds: f64) {
        let program = "import os, sys, time\nif os.fork() == 0: time.sleep(float(sys.argv[1])); os._exit(0)\nprint(flush=True)";
        let mut child = Command::new("python3")
            .args(["-c", program, &seconds.to_string()])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_fork_that_ends_by_itself_within_a_second_has_not_survived() {
        for (seconds, survivors) in [(0.1, 0), (60.0, 1)] {
            let folder = tempfile::tempdir().unwrap();
            fork(folder.path(), seconds);
            let left = sweep(u32::MAX, "no-such-mark", folder.path());
            assert_eq!(left.len(), survivors, "{left:?}");
        }
    }
}
