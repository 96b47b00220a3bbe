//! What a program leaves behind: found by group, by mark, or by where it runs; killed and counted.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

/// A process that outlived the program that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its id.
    pub pid: u32,
    /// Its name, as the kernel knows it.
    pub name: String,
    /// Whether it has ended and nobody has reaped it.
    pub zombie: bool,
}

/// One process of this machine.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) name: String,
    pub(super) zombie: bool,
    pub(super) processor: Duration,
    pub(super) resident: u64,
}

/// Makes orphans of the program under test children of this process, so that they can be seen and reaped.
pub fn become_subreaper() {
    // Without it an orphan goes to init; it is found all the same, only not reaped by us.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

/// Finds what is left of a case, kills it, reaps it, and tells what it was.
pub fn sweep(group: u32, mark: &str, folder: &Path) -> Vec<Leftover> {
    let own = std::process::id();
    let mut left = Vec::new();
    // Killing may uncover children that were started meanwhile: look again until nothing is there.
    for _ in 0..8 {
        let found: Vec<Seen> = processes()
            .into_iter()
            .filter(|process| process.pid != own && belongs(process, group, mark, folder))
            .collect();
        if found.is_empty() {
            break;
        }
        for process in found {
            let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else { continue };
            // Either may fail because it has gone meanwhile.
            let _ = kill_process(pid, Signal::KILL);
            let reaped = waitpid(Some(pid), WaitOptions::NOHANG).is_ok_and(|status| status.is_some());
            // A zombie that another process has yet to reap is not a survivor.
            let survives = !process.zombie || reaped;
            if survives && left.iter().all(|known: &Leftover| known.pid != process.pid) {
                left.push(Leftover { pid: process.pid, name: process.name, zombie: process.zombie });
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    left
}

fn belongs(process: &Seen, group: u32, mark: &str, folder: &Path) -> bool {
    if process.group == group {
        return true;
    }
    let proc = format!("/proc/{}", process.pid);
    let marked = || {
        fs::read(format!("{proc}/environ")).is_ok_and(|environ| {
            let wanted = format!("{}={mark}", super::MARK);
            environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
    };
    let inside = || fs::read_link(format!("{proc}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    // A host may scrub the environment of its adapter; the stub's arguments still name the folder.
    let named = || {
        let folder = folder.as_os_str().as_encoded_bytes();
        fs::read(format!("{proc}/cmdline"))
            .is_ok_and(|line| !folder.is_empty() && line.windows(folder.len()).any(|part| part == folder))
    };
    marked() || inside() || named()
}

/// Everything that runs now.
pub(super) fn processes() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Reads a line of `/proc/PID/stat`; the name stands in parentheses and may hold anything.
fn parse_stat(pid: u32, stat: &str) -> Option<Seen> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)?;
    Some(Seen {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        group: u32::try_from(number(2)?).ok()?,
        name,
        zombie: fields.first() == Some(&"Z"),
        // The kernel counts in hundredths of a second for programs.
        processor: Duration::from_millis(ticks * 10),
        resident: number(21)? * rustix::param::page_size() as u64,
    })
}

/// Whether a process runs: neither gone nor waiting to be reaped.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    stat.and_then(|stat| parse_stat(pid, &stat)).is_some_and(|process| !process.zombie)
}

/// The processes below a process, itself not counted.
pub fn descendants(of: u32) -> Vec<u32> {
    let all = processes();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.pid));
        next += 1;
    }
    found.split_off(1)
}
