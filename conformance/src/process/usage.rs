//! What a process uses: memory, processor time, descriptors.

use std::{fs, time::Duration};

/// A sample of one process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub resident: u64,
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
        usage.descriptors += fs::read_dir(format!("/proc/{}/fd", process.pid)).map_or(0, Iterator::count);
    }
    usage
}
