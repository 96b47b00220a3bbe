//! The cgroup of one child: what counts and limits its tree, and knows who belongs to it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Limits;
use super::hierarchy::{Backend, CgroupFolder, Controller, Version};

/// Limit of skipped names that are in use: by earlier hosts with the same process id that were
/// killed with SIGKILL.
const NAMES_TRIED: usize = 1000;

/// The depth of cgroups in a cgroup: a host that runs in one makes its own below it.
const MAX_NESTED_DEPTH: usize = 16;

/// The cgroup of a child: a folder in each hierarchy that limits it, or one that only records the
/// membership.
///
/// The folders are removed by [`Cgroup::remove`] after their processes have ended; dropping tries
/// once, which is enough if no process ever joined.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folders: Vec<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    version: Version,
    limits: Vec<Controller>,
}

impl Cgroup {
    /// Makes the cgroup that `limits` need. `None` when nothing here makes one; a folder that
    /// cannot be made is reported and done without.
    pub(super) fn create(backend: &Backend, limits: &Limits) -> Option<Self> {
        let wanted = [
            (Controller::Processes, limits.processes),
            (Controller::Memory, limits.memory),
        ];
        let mut made = Self {
            folders: Vec::new(),
        };
        for (controller, limit) in wanted {
            let (Some(limit), Some(place)) = (limit, backend.place(controller)) else {
                continue;
            };
            if let Err(error) = made.limit(place, controller, limit) {
                tracing::warn!(folder = ?place.folder, ?controller, %error, "a child starts without its cgroup");
            }
        }
        if made.folders.is_empty()
            && let Some(place) = backend
                .membership
                .as_ref()
                .or(backend.place(Controller::Processes))
            && let Err(error) = made.folder_in(place)
        {
            tracing::warn!(folder = ?place.folder, %error, "a child starts without a cgroup");
        }
        (!made.folders.is_empty()).then_some(made)
    }

    fn limit(
        &mut self,
        place: &CgroupFolder,
        controller: Controller,
        limit: u64,
    ) -> io::Result<()> {
        let at = self.folder_in(place)?;
        let folder = &mut self.folders[at];
        let written = write_limit(&folder.path, place.version, controller, limit);
        if written.is_ok() {
            folder.limits.push(controller);
        } else if folder.limits.is_empty() {
            remove_folder(&self.folders.remove(at).path);
        }
        written
    }

    /// Returns the index of the folder in a place, and makes it if necessary.
    fn folder_in(&mut self, place: &CgroupFolder) -> io::Result<usize> {
        if let Some(at) = self
            .folders
            .iter()
            .position(|folder| folder.path.parent() == Some(&place.folder))
        {
            return Ok(at);
        }
        let path = make_folder(&place.folder)?;
        self.folders.push(Folder {
            path,
            version: place.version,
            limits: Vec::new(),
        });
        Ok(self.folders.len() - 1)
    }

    pub(super) fn limits_processes(&self) -> bool {
        self.folders
            .iter()
            .any(|folder| folder.limits.contains(&Controller::Processes))
    }

    pub(super) fn limits_memory(&self) -> bool {
        self.memory_folder().is_some()
    }

    fn memory_folder(&self) -> Option<&Folder> {
        self.folders
            .iter()
            .find(|folder| folder.limits.contains(&Controller::Memory))
    }

    /// The files through which a process joins, by writing `0`.
    pub(super) fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |folder: &Folder| {
            // A process of one thread, as after a fork, may join version 1 by `tasks`, which does
            // not make every other fork and exit of the machine wait as `cgroup.procs` does up to
            // Linux 6.17.
            let file = match folder.version {
                Version::V1 => "tasks",
                Version::V2 => "cgroup.procs",
            };
            Ok(OpenOptions::new()
                .write(true)
                .open(folder.path.join(file))?
                .into())
        };
        self.folders.iter().map(open).collect()
    }

    /// Returns its folders, for a record.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| folder.path.as_path())
    }

    /// A cgroup that another host made, to be ended.
    pub(crate) fn left_behind(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let folder = |path: PathBuf| {
            let version = if path.join("cgroup.events").exists() {
                Version::V2
            } else {
                Version::V1
            };
            Folder {
                path,
                version,
                limits: Vec::new(),
            }
        };
        Self {
            folders: paths.into_iter().map(folder).collect(),
        }
    }

    /// Sends SIGKILL to all its processes and returns their ids: empty if none is left.
    ///
    /// Reaches processes that left session and process group. Does not wait for them; costs a few
    /// reads if there are none.
    ///
    /// In version 2 the kernel kills all at once. In version 1 no process can be made during the
    /// walk if processes are limited; otherwise a second pass may find new ones.
    pub(crate) fn kill(&self) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for folder in &self.folders {
            let before = folder.processes();
            if before.is_empty() {
                continue;
            }
            let at_once = folder.version == Version::V2
                && write_existing(&folder.path.join("cgroup.kill"), b"1").is_ok();
            if !at_once {
                folder.kill_each(&before);
            }
            found.extend(before);
        }
        found
    }

    /// The numbers of its processes.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        self.folders.iter().flat_map(Folder::processes).collect()
    }

    /// Returns the number of its processes that the kernel killed because of their memory. Two
    /// small reads.
    pub(crate) fn memory_kills(&self) -> u64 {
        let Some(folder) = self.memory_folder() else {
            return 0;
        };
        let file = match folder.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = fs::read_to_string(folder.path.join(file)).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Removes its folders, with the cgroups that a host in them has left; whether all are gone.
    /// The kernel keeps those in which a process still runs.
    pub(crate) fn remove(&mut self) -> bool {
        self.folders.retain(|folder| !folder.remove());
        self.folders.is_empty()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.remove() {
            let processes = self.processes();
            tracing::warn!(folders = ?self.folders, ?processes, "a cgroup stays behind: it could not be removed");
        }
    }
}

impl Folder {
    /// The processes in it and in the cgroups below it. Those that this PID namespace does not show
    /// are written as 0, and left out.
    fn processes(&self) -> BTreeSet<i32> {
        let mut folders = nested(&self.path);
        folders.push(self.path.clone());
        let texts = folders
            .iter()
            .map(|folder| fs::read_to_string(folder.join("cgroup.procs")));
        let numbers = texts.flat_map(|text| {
            let lines = text.unwrap_or_default();
            lines
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect::<Vec<i32>>()
        });
        numbers.filter(|number| *number > 0).collect()
    }

    /// Removes it; whether it is gone. What a live host has made below it stays: a cgroup without a
    /// process may be one that a process is about to join.
    fn remove(&self) -> bool {
        if remove_folder(&self.path) {
            return true;
        }
        let nested = nested(&self.path);
        if nested.is_empty() || !self.processes().is_empty() {
            return false;
        }
        nested.iter().all(|folder| remove_folder(folder)) && remove_folder(&self.path)
    }

    fn kill_each(&self, before: &BTreeSet<i32>) {
        // Fails where processes are not limited.
        let _ = write_existing(&self.path.join("pids.max"), b"0");
        let watched: Vec<_> = before
            .iter()
            .filter_map(|number| {
                Some((
                    number,
                    pidfd_open(Pid::from_raw(*number)?, PidfdFlags::empty()).ok()?,
                ))
            })
            .collect();
        // A number may have gone to a stranger before it was opened. It did not if it is still in here now.
        let still = self.processes();
        for (_, pidfd) in watched.iter().filter(|(number, _)| still.contains(number)) {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

fn write_limit(
    folder: &Path,
    version: Version,
    controller: Controller,
    limit: u64,
) -> io::Result<()> {
    let write =
        |file: &str, value: u64| write_existing(&folder.join(file), value.to_string().as_bytes());
    write(controller.limit_file(version), limit)?;
    // Otherwise the tree would fill the swap instead. Without swap there are no such files.
    let swap = match (controller, version) {
        (Controller::Memory, Version::V2) => write("memory.swap.max", 0),
        (Controller::Memory, Version::V1) => write("memory.memsw.limit_in_bytes", limit),
        (Controller::Processes, _) => Ok(()),
    };
    match swap {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a cgroup under a unique name.
pub(super) fn make_folder(place: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..NAMES_TRIED {
        let path = place.join(name(
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed),
        ));
        match DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST.into())
}

fn name(host: u32, number: u64) -> String {
    format!("trunkline-{host}-{number}")
}

/// Returns true if the host of this process id uses such a folder name.
pub(crate) fn is_cgroup_of(host: u32, folder: &str) -> bool {
    folder
        .strip_prefix("trunkline-")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(pid, number)| pid.parse() == Ok(host) && number.parse::<u64>().is_ok())
}

/// The cgroups in a cgroup, each behind those that are in it.
fn nested(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find_nested(path, MAX_NESTED_DEPTH, &mut found);
    found
}

fn find_nested(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A folder without others has two links, so most cgroups are not listed.
    let is_leaf = fs::symlink_metadata(path).is_ok_and(|folder| folder.nlink() == 2);
    if is_leaf || depth == 0 {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_nested(&entry.path(), depth - 1, found);
            found.push(entry.path());
        }
    }
}

fn remove_folder(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn write_existing(path: &Path, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut OpenOptions::new().write(true).open(path)?, bytes)
}

#[cfg(test)]
mod tests;
