//! Places for cgroups: below the host's own, in each hierarchy that counts processes or memory.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;

use super::Enforcer;
use super::cgroup::make_folder;

/// A controller of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Processes,
    Memory,
}

impl Controller {
    const ALL: [Self; 2] = [Self::Processes, Self::Memory];

    /// Returns the kernel's name for it.
    fn name(self) -> &'static str {
        match self {
            Self::Processes => "pids",
            Self::Memory => "memory",
        }
    }

    /// The file that takes the limit.
    pub(super) fn limit_file(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Processes, _) => "pids.max",
            (Self::Memory, Version::V2) => "memory.max",
            (Self::Memory, Version::V1) => "memory.limit_in_bytes",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// A folder in which cgroups can be made, and was made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupFolder {
    pub(super) folder: PathBuf,
    pub(super) version: Version,
}

/// Place for each controller, or the reason why there is none.
#[derive(Debug)]
pub(super) struct Backend {
    processes: Result<CgroupFolder, String>,
    memory: Result<CgroupFolder, String>,
    /// Place whose cgroups limit nothing but record the membership of a tree; used if there is no
    /// better one.
    pub(super) membership: Option<CgroupFolder>,
}

impl Backend {
    /// Looks at the mounts and the cgroups of the process that `proc` describes, this one.
    pub(super) fn find(proc: &Path) -> Self {
        let read = |name: &str| {
            fs::read(proc.join(name))
                .map_err(|error| format!("cannot read {:?}: {error}", proc.join(name)))
        };
        match (read("mountinfo"), read("cgroup")) {
            (Ok(mounts), Ok(own)) => Self::judge(&mounts_in(&mounts), &own_cgroups_in(&own)),
            (Err(why), _) | (_, Err(why)) => Self {
                processes: Err(why.clone()),
                memory: Err(why),
                membership: None,
            },
        }
    }

    fn judge(mounts: &[Mount], own: &[OwnCgroup]) -> Self {
        let unified = unified(mounts, own);
        let found = |controller| match in_unified(unified.as_ref(), controller) {
            Ok(place) => Ok(place),
            Err(v2) => alone(mounts, own, controller)
                .map_err(|v1| format!("cgroup v2: {v2}; cgroup v1: {v1}")),
        };
        let [processes, memory] = Controller::ALL.map(found);
        let membership = unified
            .ok()
            .map(|folder| CgroupFolder {
                folder,
                version: Version::V2,
            })
            .filter(|place| processes.is_err() && attempt(place, None).is_ok());
        Self {
            processes,
            memory,
            membership,
        }
    }

    pub(super) fn place(&self, controller: Controller) -> Option<&CgroupFolder> {
        match controller {
            Controller::Processes => self.processes.as_ref().ok(),
            Controller::Memory => self.memory.as_ref().ok(),
        }
    }

    pub(super) fn processes(&self) -> Result<Enforcer, &str> {
        enforcer(&self.processes)
    }

    pub(super) fn memory(&self) -> Result<Enforcer, &str> {
        enforcer(&self.memory)
    }
}

fn enforcer(found: &Result<CgroupFolder, String>) -> Result<Enforcer, &str> {
    match found {
        Ok(CgroupFolder {
            version: Version::V2,
            ..
        }) => Ok(Enforcer::CgroupV2),
        Ok(CgroupFolder {
            version: Version::V1,
            ..
        }) => Ok(Enforcer::CgroupV1),
        Err(why) => Err(why),
    }
}

/// A mounted hierarchy, or a part of it.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The mounted cgroup of the hierarchy.
    root: PathBuf,
    point: PathBuf,
    /// The options of a version 1 hierarchy name its controllers.
    options: Vec<Vec<u8>>,
}

/// A line of `/proc/PID/cgroup`: a hierarchy, and the process's cgroup in it.
#[derive(Debug, PartialEq, Eq)]
struct OwnCgroup {
    /// Empty for version 2.
    controllers: Vec<Vec<u8>>,
    path: PathBuf,
}

/// Reads `mountinfo` as proc(5) describes it; lines of another form are other mounts.
fn mounts_in(text: &[u8]) -> Vec<Mount> {
    lines(text)
        .filter_map(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let separator = fields.iter().position(|field| *field == b"-")?;
            let version = match *fields.get(separator + 1)? {
                b"cgroup" => Version::V1,
                b"cgroup2" => Version::V2,
                _ => return None,
            };
            Some(Mount {
                version,
                root: unescaped(fields.get(3)?),
                point: unescaped(fields.get(4)?),
                options: words(fields.get(separator + 3)?),
            })
        })
        .collect()
}

fn own_cgroups_in(text: &[u8]) -> Vec<OwnCgroup> {
    lines(text)
        .filter_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
            let controllers = fields.next()?;
            let path = fields.next()?;
            Some(OwnCgroup {
                controllers: words(controllers),
                path: OsString::from_vec(path.to_vec()).into(),
            })
        })
        .collect()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

fn words(list: &[u8]) -> Vec<Vec<u8>> {
    list.split(|byte| *byte == b',')
        .filter(|word| !word.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

/// Space, tab, newline and backslash are written as three octal digits in `mountinfo`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let code = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if byte == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(path).into()
}

/// Returns the path of this process's cgroup, if the mount shows it.
fn seen(mount: &Mount, own: &OwnCgroup) -> Option<PathBuf> {
    let below = own.path.strip_prefix(&mount.root).ok()?;
    // A cgroup outside of our namespace is written with `..`.
    let plain = below
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    plain.then(|| mount.point.join(below))
}

/// The host's own cgroup in the unified hierarchy.
fn unified(mounts: &[Mount], own: &[OwnCgroup]) -> Result<PathBuf, String> {
    let own = own
        .iter()
        .find(|own| own.controllers.is_empty())
        .ok_or("not in this kernel")?;
    mounts
        .iter()
        .filter(|mount| mount.version == Version::V2)
        .find_map(|mount| seen(mount, own))
        .ok_or_else(|| "not mounted, or without this program's own cgroup".to_owned())
}

/// A place in the unified hierarchy whose cgroups have the controller.
fn in_unified(
    own: Result<&PathBuf, &String>,
    controller: Controller,
) -> Result<CgroupFolder, String> {
    let own = own.map_err(Clone::clone)?;
    let mut why = String::new();
    for folder in [
        Some(own.as_path()),
        own.parent().filter(|parent| is_delegated(parent)),
    ]
    .into_iter()
    .flatten()
    {
        let place = CgroupFolder {
            folder: folder.to_owned(),
            version: Version::V2,
        };
        match enable(folder, controller).and_then(|()| attempt(&place, Some(controller))) {
            Ok(()) => return Ok(place),
            Err(problem) if why.is_empty() => why = problem,
            Err(problem) => why = format!("{why}; {problem}"),
        }
    }
    Err(why)
}

/// Returns true if a cgroup was delegated together with the one in it that contains this process:
/// systemd marks it, and the root of a cgroup namespace belongs to the container. Only there may
/// siblings of our own cgroup be made.
fn is_delegated(folder: &Path) -> bool {
    let marked = ["user.delegate", "trusted.delegate"]
        .into_iter()
        .any(|name| {
            let mut value = [0u8; 8];
            getxattr(folder, name, &mut value).is_ok_and(|length| value[..length] == *b"1")
        });
    // A cgroup that is not a root of all has a type, and the root of a namespace has no cgroup
    // above it to be seen.
    let type_of = |folder: &Path| folder.join("cgroup.type").exists();
    marked
        || (type_of(folder)
            && folder
                .parent()
                .is_some_and(|above| !above.join("cgroup.procs").exists()))
}

/// Sees to it that cgroups below `folder` have the controller.
fn enable(folder: &Path, controller: Controller) -> Result<(), String> {
    let file = |name: &str| folder.join(name);
    let has = |name: &str| {
        let text = fs::read(file(name))
            .map_err(|error| format!("cannot read {:?}: {error}", file(name)))?;
        Ok::<_, String>(
            text.trim_ascii()
                .split(|byte| *byte == b' ')
                .any(|word| word == controller.name().as_bytes()),
        )
    };
    if has("cgroup.subtree_control")? {
        return Ok(());
    }
    if !has("cgroup.controllers")? {
        return Err(format!(
            "{folder:?} has no controller \"{}\"",
            controller.name()
        ));
    }
    // Checked before the attempt: with processes in it, enabling only "pids" would succeed and make
    // every other child of the cgroup unusable.
    let is_root = !file("cgroup.type").exists();
    let is_empty = fs::read(file("cgroup.procs")).is_ok_and(|processes| processes.is_empty());
    if !is_root && !is_empty {
        return Err(format!(
            "{folder:?} holds processes itself, this program for one, and then the kernel limits none below it; \
             a service manager gives a cgroup that works by Delegate=yes with DelegateSubgroup=host"
        ));
    }
    fs::write(
        file("cgroup.subtree_control"),
        format!("+{}", controller.name()),
    )
    .map_err(|error| {
        format!(
            "cannot enable \"{}\" in {folder:?}: {error}",
            controller.name()
        )
    })
}

/// A place in the version 1 hierarchy of the controller.
fn alone(
    mounts: &[Mount],
    own: &[OwnCgroup],
    controller: Controller,
) -> Result<CgroupFolder, String> {
    let name = controller.name();
    let named = |list: &[Vec<u8>]| list.iter().any(|word| word == name.as_bytes());
    let own = own
        .iter()
        .find(|own| named(&own.controllers))
        .ok_or_else(|| format!("no hierarchy for \"{name}\""))?;
    let folder = mounts
        .iter()
        .filter(|mount| mount.version == Version::V1 && named(&mount.options))
        .find_map(|mount| seen(mount, own))
        .ok_or_else(|| {
            format!("\"{name}\" is not mounted, or without this program's own cgroup")
        })?;
    // Before 5.11 a nested cgroup was not counted in its parent without this.
    let apart =
        fs::read(folder.join("memory.use_hierarchy")).is_ok_and(|value| value.trim_ascii() == b"0");
    if controller == Controller::Memory && apart {
        return Err(format!(
            "{folder:?} does not count what is below it (memory.use_hierarchy is 0)"
        ));
    }
    let place = CgroupFolder {
        folder,
        version: Version::V1,
    };
    attempt(&place, Some(controller))?;
    Ok(place)
}

/// Makes a cgroup, looks whether it can be limited, and removes it.
fn attempt(place: &CgroupFolder, controller: Option<Controller>) -> Result<(), String> {
    let folder = make_folder(&place.folder)
        .map_err(|error| format!("cannot make a cgroup in {:?}: {error}", place.folder))?;
    let file = controller.map_or("cgroup.procs", |controller| {
        controller.limit_file(place.version)
    });
    let writable = fs::OpenOptions::new().write(true).open(folder.join(file));
    let removed = fs::remove_dir(&folder);
    writable.map_err(|error: io::Error| {
        format!("{:?} cannot be written: {error}", folder.join(file))
    })?;
    removed.map_err(|error| format!("cannot remove {folder:?}: {error}"))
}

#[cfg(test)]
mod tests;
