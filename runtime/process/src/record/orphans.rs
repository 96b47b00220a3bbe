//! Ending what hosts that are gone have left.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fstatfs, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::Swept;
use super::entry::{LARGEST, NO_TREE, StartedProcess, TreeRecord};
use super::kept::is_name;
use super::search::{self, Marks};
use crate::limits::{Cgroup, is_cgroup_of};
use crate::private_dir;
use crate::remove::remove_tree;
use crate::system::proc::{boot, namespace};

/// Limit of files that a sweep checks; the next one sees the others.
const MOST_FILES: usize = 10_000;

/// Time for processes to die of SIGKILL.
const DYING: Duration = Duration::from_secs(5);
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(128));

/// The file system type of cgroups, version 1 and 2.
const CGROUP_MAGIC: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Ends what hosts that are gone have left behind, by their records in `dir`: processes, cgroups,
/// private folders. A folder without records, or none, is not an error. (Containers have labels:
/// `sweep_containers` of `trunkline-sandbox`.) Blocks; run it before the first child of this host,
/// or beside: what belongs to a live host, this one too, is never touched.
///
/// A process is killed when it is the recorded one, with the same start, or descends from it, or
/// was given the tree's private folder by its environment, or is in the tree's cgroup. One that
/// left all four is not found.
///
/// # Errors
///
/// When the records cannot be read, or others may write to `dir`.
pub fn sweep(dir: &Path) -> io::Result<Swept> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(CWD, dir, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(Swept::default()),
        Err(error) => return Err(error.into()),
    };
    let folder = File::from(folder);
    if let Err(why) = is_only_ours(&folder.metadata()?) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{dir:?}: {why}"),
        ));
    }
    let here = Here {
        boot: boot()?,
        namespace: namespace()?,
    };
    let mut swept = Swept::default();
    let mut left = Vec::new();
    let mut live = Vec::new();
    for name in names(&folder)? {
        match FileClass::in_folder(&folder, &name, &here) {
            FileClass::Left(orphan) => left.push((name, orphan)),
            FileClass::Live(host) => live.extend(host),
            FileClass::Nothing => {}
            FileClass::Refused(why) => swept.refused.push((dir.join(name), why)),
        }
    }
    for (name, orphan) in left {
        let end = orphan.end(&here, &live);
        swept.processes += end.processes;
        swept.folders += end.folders;
        if end.is_complete {
            let _ = unlinkat(&folder, &name, AtFlags::empty());
            swept.trees += usize::from(orphan.entry.containment != NO_TREE);
        } else {
            swept.unfinished.push(dir.join(name));
        }
    }
    Ok(swept)
}

/// Scope in which process ids are valid.
struct Here {
    boot: String,
    namespace: u64,
}

/// Classification of a file.
enum FileClass {
    /// The record of a host that is gone.
    Left(Remains),
    /// The record of a live host, which is known when its numbers mean something here.
    Live(Option<StartedProcess>),
    /// Removed, or empty.
    Nothing,
    Refused(String),
}

/// A tree whose host is gone. Its file stays locked: no other sweep has it meanwhile.
struct Remains {
    entry: TreeRecord,
    _file: File,
}

/// Result of ending a tree.
#[derive(Debug, Default)]
struct TreeEnd {
    processes: usize,
    folders: usize,
    is_complete: bool,
}

impl FileClass {
    fn in_folder(folder: &File, name: &OsStr, here: &Here) -> Self {
        match Self::look(folder, name, here) {
            Ok(found) => found,
            Err(why) => Self::Refused(why),
        }
    }

    fn look(folder: &File, name: &OsStr, here: &Here) -> Result<Self, String> {
        if !name.to_str().is_some_and(is_name) {
            return Err("its name is not the name of a record".to_owned());
        }
        // Not waiting for a writer, should it be a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Self::Nothing),
            Err(Errno::LOOP) => return Err("it is a link".to_owned()),
            Err(error) => return Err(format!("it cannot be opened: {error}")),
        };
        let failed = |error: io::Error| format!("it cannot be read: {error}");
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err("it is not a file".to_owned());
        }
        is_only_ours(&meta)?;
        if meta.len() > LARGEST {
            return Err(format!("it has {} bytes", meta.len()));
        }
        let is_locked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => true,
            Err(error) => return Err(format!("it cannot be locked: {error}")),
        };
        let mut text = Vec::new();
        (&file)
            .take(LARGEST)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let entry = TreeRecord::parse(&text);
        if is_locked {
            let known = |entry: TreeRecord| entry.is_meant_here(here).then_some(entry.host);
            return Ok(Self::Live(entry.ok().and_then(known)));
        }
        match file.metadata().map_err(failed)?.nlink() {
            0 => return Ok(Self::Nothing),
            1 => {}
            _ => return Err("it has a second name".to_owned()),
        }
        if text.is_empty() {
            // Its host died before it wrote, or has not locked it yet: it looks, and makes another.
            let _ = unlinkat(folder, name, AtFlags::empty());
            return Ok(Self::Nothing);
        }
        let entry = entry?;
        if entry.is_meant_here(here) && entry.host.runs() {
            // On a file system that knows no locks.
            return Ok(Self::Live(Some(entry.host)));
        }
        entry.check()?;
        Ok(Self::Left(Remains { entry, _file: file }))
    }
}

impl TreeRecord {
    fn is_meant_here(&self, here: &Here) -> bool {
        self.boot == here.boot && self.namespace == here.namespace
    }

    /// Checks that a host of ours could have made everything that it names.
    fn check(&self) -> Result<(), String> {
        for cgroup in &self.cgroups {
            check_cgroup(cgroup, self.host)?;
        }
        if let Some((inode, folder)) = &self.folder {
            check_folder(folder, *inode)?;
        }
        Ok(())
    }
}

impl Remains {
    fn end(&self, here: &Here, live: &[StartedProcess]) -> TreeEnd {
        let TreeRecord {
            boot,
            namespace,
            host,
            cgroups,
            folder,
            leader,
            ..
        } = &self.entry;
        let mut end = TreeEnd {
            is_complete: true,
            ..TreeEnd::default()
        };
        if *boot == here.boot {
            let present: Vec<PathBuf> = cgroups
                .iter()
                .filter(|path| path.exists())
                .cloned()
                .collect();
            let folders = present.len();
            let mut cgroup = Cgroup::left_behind(present);
            let is_here = *namespace == here.namespace;
            let marks = Marks {
                leader: leader.filter(|_| is_here),
                folder: folder.as_ref().map(|(_, path)| path.as_path()),
                since: host.started,
            };
            let (killed, is_dead) = kill_all(marks, &cgroup, live);
            end.processes = killed;
            let is_gone = is_dead && cgroup.remove();
            if is_gone {
                end.folders += folders;
            }
            end.is_complete &= is_gone;
        }
        if let Some((_, path)) = folder
            && end.is_complete
            && path.exists()
        {
            match remove_tree(path) {
                Ok(()) => end.folders += 1,
                Err(error) => {
                    tracing::warn!(?path, %error, "could not remove a folder that an earlier host left");
                    end.is_complete = false;
                }
            }
        }
        end
    }
}

/// Kills all processes of a tree until none is found; how many there were, and whether none is left.
fn kill_all(marks: Marks<'_>, cgroup: &Cgroup, live: &[StartedProcess]) -> (usize, bool) {
    let begun = Instant::now();
    let mut met: BTreeSet<i32> = BTreeSet::new();
    let (mut pause, longest) = LOOK_AGAIN;
    loop {
        let all = search::running();
        let spared = search::spared(&all, live);
        let members = search::members(&all, marks, &spared);
        search::kill(&members);
        let mut found: BTreeSet<i32> = members
            .iter()
            .map(|member| member.pid.as_raw_nonzero().get())
            .collect();
        // A host that a tree has started, this one perhaps, is in its cgroup and ends by other means.
        let is_shared = spared
            .iter()
            .any(|pid| cgroup.processes().contains(&pid.as_raw_nonzero().get()));
        if !is_shared {
            found.extend(cgroup.kill());
        }
        let is_dead = found.is_empty();
        met.append(&mut found);
        if is_dead || begun.elapsed() > DYING {
            return (met.len(), is_dead);
        }
        thread::sleep(pause);
        pause = longest.min(pause * 2);
    }
}

/// Checks that no other user can have made it or can write to it.
fn is_only_ours(meta: &fs::Metadata) -> Result<(), String> {
    if meta.uid() != geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if meta.mode() & 0o022 != 0 {
        return Err("others may write to it".to_owned());
    }
    Ok(())
}

/// An absolute path without detours, whose last part is given too.
fn last_of(path: &Path) -> Result<&str, String> {
    let mut parts = path.components();
    let is_plain = parts.next() == Some(Component::RootDir)
        && parts.all(|part| matches!(part, Component::Normal(_)));
    let last = path
        .file_name()
        .and_then(OsStr::to_str)
        .filter(|_| is_plain);
    last.ok_or_else(|| format!("{path:?} is not a path of ours"))
}

fn check_cgroup(path: &Path, host: StartedProcess) -> Result<(), String> {
    if !is_cgroup_of(
        host.pid.as_raw_nonzero().get().cast_unsigned(),
        last_of(path)?,
    ) {
        return Err(format!("{path:?} is not a cgroup of its host"));
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(CWD, path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(format!("{path:?} cannot be opened: {error}")),
    };
    let kind = fstatfs(&folder)
        .map_err(|error| format!("{path:?}: {error}"))?
        .f_type;
    // The type of this number is another on each platform.
    if !CGROUP_MAGIC
        .iter()
        .any(|magic| i128::from(*magic) == i128::from(kind))
    {
        return Err(format!("{path:?} is not a cgroup"));
    }
    let meta = File::from(folder)
        .metadata()
        .map_err(|error| format!("{path:?}: {error}"))?;
    is_only_ours(&meta).map_err(|why| format!("{path:?}: {why}"))
}

fn check_folder(path: &Path, inode: u64) -> Result<(), String> {
    if !last_of(path)?.starts_with(private_dir::PREFIX) {
        return Err(format!("{path:?} has no name that a private folder has"));
    }
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{path:?}: {error}")),
    };
    if !meta.is_dir() || meta.ino() != inode {
        return Err(format!("{path:?} is not the folder that was recorded"));
    }
    is_only_ours(&meta).map_err(|why| format!("{path:?}: {why}"))
}

/// The files of a folder, as many as one sweep looks at.
fn names(folder: &File) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() == MOST_FILES {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
