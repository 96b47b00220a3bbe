//! Limits of a child's tree, and their enforcement on this system.
//!
//! A cgroup counts a whole tree, whatever its processes do to themselves; a resource limit counts
//! one process, or everything of one user. The first start finds out what works, by trying it:
//!
//! | | cgroup v2 | cgroup v1 | resource limits |
//! |---|---|---|---|
//! | processes | `pids.max` | `pids.max` | `RLIMIT_NPROC`: counts *all* processes of the user, root is exempt; only for an explicit number |
//! | open files | | | `RLIMIT_NOFILE`, for each process |
//! | memory | `memory.max` | `memory.limit_in_bytes` | `RLIMIT_DATA`, for each process: private memory that can be written |
//!
//! `RLIMIT_DATA` and not `RLIMIT_AS`: runtimes such as V8 reserve far more addresses than they ever
//! use.
//!
//! A limit that cannot be enforced here is never a failure. [`support`] names it with the reason.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

mod cgroup;
mod hierarchy;

pub(crate) use self::cgroup::{Cgroup, is_cgroup_of};
use self::hierarchy::Backend;
use crate::system::before_exec::Confinement;

/// Limits of a child's tree. `None` sets no limit.
///
/// Processes between host and child, such as an [init program](crate::init), count as part of the
/// tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum of simultaneous processes and threads. If no cgroup can count them, only a number
    /// other than [`Limits::PROCESSES`] is enforced.
    pub processes: Option<u64>,
    /// Open files of each process. More than the host's own hard limit is that limit.
    pub open_files: Option<u64>,
    /// Memory of the whole tree, in bytes.
    pub memory: Option<u64>,
}

impl Limits {
    /// Default maximum of processes and threads of a tree: above the need of a build with many
    /// jobs, far below the size of a process table.
    pub const PROCESSES: u64 = 4096;

    /// No limit of ours.
    pub const NONE: Self = Self {
        processes: None,
        open_files: None,
        memory: None,
    };
}

impl Default for Limits {
    /// [`Limits::PROCESSES`], and no other limit.
    fn default() -> Self {
        Self {
            processes: Some(Self::PROCESSES),
            open_files: None,
            memory: None,
        }
    }
}

/// A number of bytes for people, in the largest unit that it is a whole number of: `1GiB`,
/// `1536MiB`, `1000 bytes`.
#[must_use]
pub fn shown_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| format!("{}{unit}", bytes >> shift),
    )
}

/// Enforcement of each limit on this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSupport {
    /// [`Limits::processes`].
    pub processes: Enforcement,
    /// [`Limits::open_files`].
    pub open_files: Enforcement,
    /// [`Limits::memory`].
    pub memory: Enforcement,
}

/// Enforcement of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// The enforcer.
    pub by: Enforcer,
    /// Reason why no better one works, and the change to make; `None` if there is no better one.
    pub not_better: Option<String>,
}

/// Enforcer of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Enforcer {
    /// The unified hierarchy, for the whole tree.
    CgroupV2,
    /// A hierarchy of its own, for the whole tree.
    CgroupV1,
    /// A resource limit of each process, or of the user.
    Rlimit,
    /// Nothing.
    Nothing,
}

impl Enforcer {
    /// Returns its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimit => "resource limit",
            Self::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the enforcement of each limit. Determined once, by making and removing an empty cgroup,
/// which blocks.
#[must_use]
pub fn support() -> LimitSupport {
    let backend = backend();
    // The kernel checks the user in the outermost namespace. Root of a user namespace is not
    // exempt, which cannot be known here; it has more than is reported then.
    let without_pids = if geteuid().is_root() {
        Enforcer::Nothing
    } else {
        Enforcer::Rlimit
    };
    LimitSupport {
        processes: enforcement(backend.processes(), without_pids),
        open_files: Enforcement {
            by: Enforcer::Rlimit,
            not_better: None,
        },
        memory: enforcement(backend.memory(), Enforcer::Rlimit),
    }
}

fn enforcement(by_cgroup: Result<Enforcer, &str>, else_by: Enforcer) -> Enforcement {
    match by_cgroup {
        Ok(by) => Enforcement {
            by,
            not_better: None,
        },
        Err(why) => Enforcement {
            by: else_by,
            not_better: Some(why.to_owned()),
        },
    }
}

fn backend() -> &'static Backend {
    static BACKEND: OnceLock<Backend> = OnceLock::new();
    BACKEND.get_or_init(|| Backend::find(Path::new("/proc/self")))
}

/// Makes what holds `limits` for one child: its cgroup, if it gets one, and what the child does for
/// it. Blocks.
///
/// # Errors
///
/// When a cgroup that was just made cannot be opened.
pub(crate) fn prepare(limits: &Limits) -> io::Result<(Option<Cgroup>, Confinement)> {
    let mut confinement = Confinement::default();
    let cgroup = Cgroup::create(backend(), limits);
    let (counts_processes, counts_memory) = cgroup.as_ref().map_or((false, false), |cgroup| {
        (cgroup.limits_processes(), cgroup.limits_memory())
    });
    if let Some(cgroup) = &cgroup {
        confinement.entrances = cgroup.entrances()?;
    }
    confinement.limits = resource_limits(limits, counts_processes, counts_memory);
    Ok((cgroup, confinement))
}

/// Soft limit of open files before it was raised.
static OPEN_FILES: OnceLock<Option<u64>> = OnceLock::new();

/// Raises this process's limit of open files to its hard limit and returns it; `None` is unlimited.
/// Children are started with the previous soft limit, because a program that calls `select` breaks
/// with more than 1,024.
///
/// # Errors
///
/// The system refuses.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    OPEN_FILES.get_or_init(|| limit.current);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    Ok(limit.maximum)
}

/// The resource limits for what no cgroup counts. A hard limit can only be lowered, so none asks for more.
fn resource_limits(
    limits: &Limits,
    counts_processes: bool,
    counts_memory: bool,
) -> Vec<(Resource, Rlimit)> {
    let asked_for = limits
        .processes
        .filter(|number| !counts_processes && *number != Limits::PROCESSES);
    let wanted = [
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, asked_for),
        (Resource::Data, limits.memory.filter(|_| !counts_memory)),
    ];
    let lowered = wanted.into_iter().filter_map(|(resource, wanted)| {
        Some((resource, at_most(wanted?, getrlimit(resource).maximum)))
    });
    let restored = OPEN_FILES
        .get()
        .filter(|_| limits.open_files.is_none())
        .map(|before| {
            let limit = getrlimit(Resource::Nofile);
            (
                Resource::Nofile,
                Rlimit {
                    current: *before,
                    ..limit
                },
            )
        });
    lowered.chain(restored).collect()
}

fn at_most(wanted: u64, hard: Option<u64>) -> Rlimit {
    let value = hard.map_or(wanted, |hard| wanted.min(hard));
    Rlimit {
        current: Some(value),
        maximum: Some(value),
    }
}

#[cfg(test)]
mod tests;
