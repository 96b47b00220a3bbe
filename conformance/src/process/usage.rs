//! Resources of a process: memory, processor time, descriptors.

use std::{fs, time::Duration};

/// A sample of one process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub resident: u64,
    /// The most that each process has had resident so far, together, in bytes.
    pub peak: u64,
    /// Processor time so far.
    pub processor: Duration,
    /// Open descriptors.
    pub descriptors: usize,
    /// Processes.
    pub processes: usize,
}

/// Samples a process group. Processes that end meanwhile count as nothing.
pub(crate) fn usage_of(group: u32) -> Usage {
    let mut usage = Usage::default();
    for process in super::orphans::processes() {
        if process.group != group {
            continue;
        }
        usage.processes += 1;
        usage.processor += process.processor;
        usage.resident += process.resident;
        usage.peak += peak_of(process.pid);
        usage.descriptors +=
            fs::read_dir(format!("/proc/{}/fd", process.pid)).map_or(0, Iterator::count);
    }
    usage
}

/// The most that a process has had resident, in bytes; 0 once it has ended.
fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() << 10
}
