//! How much of the machine a child's tree may take.

/// How much of the machine a child's tree may take. `None` is no limit of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Processes and threads at a time.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Memory of the whole tree, in bytes.
    pub memory: Option<u64>,
}

impl Limits {
    /// Processes and threads of a tree, where nothing else is said: above what a build with many jobs needs, far
    /// below what fills a process table.
    pub const PROCESSES: u64 = 4096;
}

impl Default for Limits {
    /// [`Limits::PROCESSES`], and no other limit.
    fn default() -> Self {
        Self { processes: Some(Self::PROCESSES), open_files: None, memory: None }
    }
}
