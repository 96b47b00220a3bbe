//! Processes that a run must not leave behind.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::hub::{Step, expect};

/// Time for killed processes to end.
const GONE: Duration = Duration::from_secs(10);

/// A process as people know it: number and command line.
pub(crate) type Process = (u32, String);

/// Returns the processes with a folder in their environment, or with files in it.
pub(crate) fn find_processes(folder: &Path) -> Vec<Process> {
    let folder = folder.as_os_str().as_encoded_bytes();
    every(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let lies = fs::read_link(process.join("cwd")).unwrap_or_default();
        memchr::memmem::find(&environment, folder).is_some()
            || lies.as_os_str().as_encoded_bytes().starts_with(folder)
    })
}

/// Fails if a process of a folder remains after its time to end.
pub(crate) fn none_of(folder: &Path) -> Step {
    let begun = Instant::now();
    loop {
        let left = find_processes(folder);
        if left.is_empty() || begun.elapsed() > GONE {
            return expect(
                left.is_empty(),
                "no process left behind",
                format_args!("{left:?}"),
            );
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes of this network namespace but this one and those that it started itself.
pub(crate) fn strangers() -> Vec<Process> {
    let here = fs::read_link("/proc/self/ns/net").ok();
    let own = std::process::id();
    every(|process| {
        fs::read_link(process.join("ns/net")).ok() == here
            && !process.ends_with(own.to_string())
            && parent(process) != Some(own)
    })
}

fn every(mut counts: impl FnMut(&Path) -> bool) -> Vec<Process> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = processes.flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        (number != std::process::id() && counts(&entry.path())).then(|| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            (
                number,
                String::from_utf8_lossy(&line)
                    .replace('\0', " ")
                    .trim()
                    .to_owned(),
            )
        })
    });
    // A process without a command line has ended and waits to be taken note of.
    processes.filter(|(_, line)| !line.is_empty()).collect()
}

/// The parent of a process.
pub(crate) fn parent_of(process: u32) -> Option<u32> {
    parent(&Path::new("/proc").join(process.to_string()))
}

/// Kills a process by SIGKILL.
pub(crate) fn kill(process: u32) -> Step {
    let killed = std::process::Command::new("kill")
        .args(["-9", &process.to_string()])
        .status();
    let killed = killed.is_ok_and(|status| status.success());
    expect(
        killed,
        format_args!("process {process} killed"),
        "a failure",
    )
}

fn parent(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}
