//! Paths of the host that a child gets, and the checks of them.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use trunkline_process::MountIdentity;

use crate::view::RESERVED_FOLDER;
use crate::{Inside, Sandbox, SandboxError};

/// Maximum of symbolic links in one path. The kernel has the same limit.
const MAX_LINKS: usize = 40;

/// A path of the host that is visible inside, or covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathGrant {
    /// Name of the setting that contains the path.
    pub(crate) list: &'static str,
    /// The path as it was written.
    pub(crate) named: PathBuf,
    /// Other names of the same path that were granted.
    pub(crate) aliases: Vec<PathBuf>,
    /// The path without links, and the links on the way to it.
    pub(crate) place: ResolvedPath,
    pub(crate) access: PathAccess,
    /// True if another grant already includes the path, so that only its aliases and links are
    /// needed.
    pub(crate) is_implied: bool,
}

/// Access to a path, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathAccess {
    /// None: an empty folder covers it.
    Covered,
    /// None: the null device covers it. For anything but folders.
    Masked,
    Read,
    Write,
}

/// A path whose symbolic links were followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    /// The resulting path. No part of it is a link.
    pub(crate) real: PathBuf,
    /// The links on the way, in order, with the target of each. No parent of a link is a link.
    pub(crate) links: Vec<SymbolicLink>,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SymbolicLink {
    pub(crate) at: PathBuf,
    pub(crate) target: PathBuf,
}

/// Follows the symbolic links of `path`, which is absolute, one by one.
///
/// # Errors
///
/// A part of the path is missing or cannot be read.
pub(crate) fn follow_links(path: &Path) -> io::Result<ResolvedPath> {
    let mut place = ResolvedPath {
        real: "/".into(),
        links: Vec::new(),
    };
    let mut left = reversed_parts(path);
    while let Some(part) = left.pop() {
        if part == ".." {
            place.real.pop();
            continue;
        }
        let at = place.real.join(&part);
        if !std::fs::symlink_metadata(&at)?.is_symlink() {
            place.real = at;
            continue;
        }
        if place.links.len() == MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let next = std::fs::read_link(&at)?;
        if next.is_absolute() {
            place.real = "/".into();
        }
        left.extend(reversed_parts(&next));
        place.links.push(SymbolicLink {
            target: at.canonicalize()?,
            at,
        });
    }
    Ok(place)
}

/// Returns the parts of a path in reverse order.
fn reversed_parts(path: &Path) -> Vec<OsString> {
    let named = |part: Component<'_>| match part {
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        Component::ParentDir | Component::Normal(_) => Some(part.as_os_str().to_owned()),
    };
    path.components().rev().filter_map(named).collect()
}

/// Returns all grants of the child, from outer to inner.
///
/// # Errors
///
/// A path is missing, is not absolute, or may not be granted.
pub(crate) fn collect_grants(
    sandbox: &Sandbox,
    inside: &Inside<'_>,
) -> Result<Vec<PathGrant>, SandboxError> {
    let requested = requested_grants(sandbox, inside.work_dir)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    for grant in &requested {
        reject_reserved(grant, inside)?;
        for roots in &sandbox.allowed {
            roots.check(grant)?;
        }
    }
    let covers = cover_grants(&requested, inside)?;
    let kept = read_only_grants(&requested, inside)?;

    let mut all = requested.clone();
    all.extend(covers);
    all.extend(kept);
    if let Some(path) = inside.exchange {
        all.push(new_grant("the exchange folder", path, PathAccess::Write)?);
    }
    all.push(new_grant(
        "the private folder",
        inside.private,
        PathAccess::Read,
    )?);
    all.push(new_grant(
        "the temporary folder",
        inside.temp,
        PathAccess::Write,
    )?);
    all.push(new_grant(
        "the init program",
        inside.init,
        PathAccess::Read,
    )?);
    reject_changeable_links(&all)?;
    register_grants(inside.label, requested);
    Ok(order_grants(all))
}

/// Returns the grants of the settings and of the working directory.
fn requested_grants(sandbox: &Sandbox, work_dir: &Path) -> Vec<Result<PathGrant, SandboxError>> {
    let writable = sandbox.writable.iter();
    let writable = writable.map(|path| new_grant("writable", path, PathAccess::Write));
    let read_only = sandbox.read_only.iter();
    let read_only = read_only.map(|path| new_grant("read_only", path, PathAccess::Read));
    let mut requested: Vec<_> = writable.chain(read_only).collect();
    let mut work_dir = new_grant("the working directory", work_dir, PathAccess::Write);
    if let Ok(grant) = &mut work_dir
        && let Some(over) = find_innermost(requested.iter().flatten(), &grant.place.real)
    {
        grant.access = over.access;
    }
    requested.push(work_dir);
    requested
}

/// Grants of the sandboxed children of this process: of each one that was started or may be. What a
/// child could change once is never trusted again, so nothing is removed.
static GRANTED: RwLock<Vec<(String, Vec<PathGrant>)>> = RwLock::new(Vec::new());

fn register_grants(label: &str, grants: Vec<PathGrant>) {
    let mut granted = GRANTED.write().unwrap_or_else(PoisonError::into_inner);
    let registered = (label.to_owned(), grants);
    if !granted.contains(&registered) {
        granted.push(registered);
    }
}

/// Registers the paths that agents may write: label, sandbox and working directory of each. From now
/// on, no grant leads through a link in one of them. To be called before any of the agents starts,
/// because an earlier process may have changed links there. Reads metadata of files, so it blocks.
pub fn guard_writable<'a>(agents: impl IntoIterator<Item = (&'a str, &'a Sandbox, PathBuf)>) {
    let existing = |(label, sandbox, work_dir): (&'a str, &Sandbox, PathBuf)| {
        let requested = requested_grants(sandbox, &work_dir);
        (label, requested.into_iter().flatten().collect())
    };
    let mut all: Vec<(&str, Vec<PathGrant>)> = agents.into_iter().map(existing).collect();
    // The target of a changed link is no folder of the agent, so the folders around links come first.
    all.sort_by_key(|(_, grants)| grants.iter().any(|grant| !grant.place.links.is_empty()));
    for (label, grants) in all {
        let is_own = |grant: &&PathGrant| changeable_link(&grants, &grant.place).is_none();
        register_grants(label, grants.iter().filter(is_own).cloned().collect());
    }
}

/// Rejects mounted paths that another child could exchange for a link between check and mount. For
/// containers: nothing inside compares what their engine has mounted.
pub(crate) fn reject_exchangeable(grants: &[PathGrant], label: &str) -> Result<(), SandboxError> {
    let granted = GRANTED.read().unwrap_or_else(PoisonError::into_inner);
    let others: Vec<_> = granted.iter().filter(|(other, _)| other != label).collect();
    let is_mounted = |grant: &&PathGrant| !grant.is_implied || !grant.aliases.is_empty();
    for grant in grants.iter().filter(is_mounted) {
        let real = &grant.place.real;
        let over = others
            .iter()
            .filter_map(|(_, grants)| find_innermost(grants, real));
        let mut over = over.filter(|over| over.access == PathAccess::Write);
        if let Some(over) = over.find(|over| over.place.real != *real) {
            return Err(refused_grant(
                grant,
                format!(
                    "another agent in a sandbox may write in {:?}, so it could exchange the path while the container \
                     starts; use bubblewrap, or a folder elsewhere, and restart the host",
                    over.place.real
                ),
            ));
        }
    }
    Ok(())
}

/// Returns `path` without links, or `None` if a sandboxed child may change one of them. The last
/// parts of the path may be missing. Reads metadata of files, so it blocks.
pub fn resolve_guarded(path: &Path) -> Option<PathBuf> {
    let (place, missing) = split_existing(&std::path::absolute(path).ok()?);
    changeable_link(&[], &place)
        .is_none()
        .then(|| join_missing(place, &missing))
}

/// Returns the first link on the way to a place that a child with these grants or a registered one
/// may change, and the granted folder that lets it.
fn changeable_link<'a>(
    own: &[PathGrant],
    place: &'a ResolvedPath,
) -> Option<(&'a SymbolicLink, PathBuf)> {
    let granted = GRANTED.read().unwrap_or_else(PoisonError::into_inner);
    let lists = || {
        granted
            .iter()
            .map(|(_, grants)| grants.as_slice())
            .chain([own])
    };
    place.links.iter().find_map(|link| {
        let folder = link.at.parent()?;
        let mut over = lists().filter_map(|grants| find_innermost(grants, folder));
        let over = over.find(|over| over.access == PathAccess::Write)?;
        Some((link, over.place.real.clone()))
    })
}

/// Returns the device and inode number of each mounted path of the host, opened without following a
/// link.
///
/// # Errors
///
/// A path has become a link, or is missing.
pub(crate) fn identify_mounts(grants: &[PathGrant]) -> Result<Vec<MountIdentity>, SandboxError> {
    let is_mounted = |grant: &&PathGrant| !grant.is_implied && grant.access >= PathAccess::Read;
    let identify = |grant: &PathGrant| match identify_without_links(&grant.place.real) {
        Ok(identity) => Ok((identity, grant.place.real.clone())),
        Err(source) => Err(SandboxError::Missing {
            list: grant.list,
            path: grant.named.clone(),
            source: source.into(),
        }),
    };
    grants.iter().filter(is_mounted).map(identify).collect()
}

fn identify_without_links(path: &Path) -> rustix::io::Result<(u64, u64)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::open("/", flags, Mode::empty())?;
    for part in path.components().skip(1) {
        // The handle of a link is not a folder, so the next part is not found in it.
        at = rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty())?;
    }
    let found = rustix::fs::fstat(&at)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok((found.st_dev, found.st_ino))
}

/// Returns the home folder inside: the host's if it is granted or declared, otherwise the temporary
/// folder.
pub(crate) fn home_folder(grants: &[PathGrant], inside: &Inside<'_>) -> OsString {
    let declared = inside.declared.contains_key(OsStr::new("HOME"));
    match inside.variable("HOME") {
        Some(home) if declared || is_readable(grants, Path::new(home)) => home.to_owned(),
        Some(_) | None => inside.temp.into(),
    }
}

fn is_readable(grants: &[PathGrant], path: &Path) -> bool {
    let Ok(place) = follow_links(path) else {
        return false;
    };
    find_innermost(grants, &place.real).is_some_and(|over| over.access >= PathAccess::Read)
}

fn new_grant(
    list: &'static str,
    path: &Path,
    access: PathAccess,
) -> Result<PathGrant, SandboxError> {
    if !path.is_absolute() {
        return Err(SandboxError::NotAbsolute {
            list,
            path: path.to_owned(),
        });
    }
    match follow_links(path) {
        Ok(place) => {
            let aliases = if place.real == path {
                Vec::new()
            } else {
                vec![path.to_owned()]
            };
            Ok(PathGrant {
                list,
                named: path.to_owned(),
                aliases,
                place,
                access,
                is_implied: false,
            })
        }
        Err(source) => Err(SandboxError::Missing {
            list,
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns the innermost grant that contains `path`. Of two grants of one path, the narrower
/// counts.
fn find_innermost<'a>(
    grants: impl IntoIterator<Item = &'a PathGrant>,
    path: &Path,
) -> Option<&'a PathGrant> {
    let over = grants
        .into_iter()
        .filter(|grant| path.starts_with(&grant.place.real));
    over.max_by_key(|grant| (path_depth(&grant.place.real), Reverse(grant.access)))
}

fn refused_grant(grant: &PathGrant, reason: impl Into<String>) -> SandboxError {
    SandboxError::Refused {
        list: grant.list,
        path: grant.named.clone(),
        reason: reason.into(),
    }
}

/// Rejects paths that the sandbox creates itself, and grants that would expose the machine.
fn reject_reserved(grant: &PathGrant, inside: &Inside<'_>) -> Result<(), SandboxError> {
    let real = &grant.place.real;
    for own in ["/proc", "/dev"] {
        if real.starts_with(own) {
            return Err(refused_grant(
                grant,
                format!("a sandbox has a {own} of its own"),
            ));
        }
    }
    if real.starts_with(RESERVED_FOLDER)
        || (Path::new(RESERVED_FOLDER).starts_with(real) && covers_reserved_folder(grant, inside))
    {
        return Err(refused_grant(
            grant,
            format!("{RESERVED_FOLDER} is reserved for the socket of the sandbox's proxy"),
        ));
    }
    if grant.access != PathAccess::Write {
        return Ok(());
    }
    if real == Path::new("/") {
        return Err(refused_grant(
            grant,
            "all of the machine would be writable; name folders of it",
        ));
    }
    if real.starts_with("/sys") {
        return Err(refused_grant(
            grant,
            "settings of the kernel would be writable",
        ));
    }
    Ok(())
}

/// Returns true if the mount point of the proxy's socket would be created in a folder of the host.
/// Not below `/`: an empty `/run` covers the host's.
fn covers_reserved_folder(grant: &PathGrant, inside: &Inside<'_>) -> bool {
    inside.outlet.is_some() && grant.place.real != Path::new("/")
}

/// Returns covers for the private folders of other children and the hidden paths of the host that
/// are inside readable grants.
///
/// Rejects grants that would let the child write around them: it could move the parent folder away.
fn cover_grants(
    requested: &[PathGrant],
    inside: &Inside<'_>,
) -> Result<Vec<PathGrant>, SandboxError> {
    let own =
        follow_links(inside.private).map_or_else(|_| inside.private.to_owned(), |place| place.real);
    let further: Vec<PathBuf> = inside
        .hidden
        .iter()
        .map(|path| resolve_future_path(path))
        .collect();
    for hidden in std::iter::once(&own).chain(&further) {
        if let Some(within) = requested
            .iter()
            .find(|grant| grant.place.real.starts_with(hidden))
        {
            return Err(refused_grant(
                within,
                format!("it is in {hidden:?}, which the host keeps to itself"),
            ));
        }
    }
    let others = own.parent().map(|root| {
        (
            root,
            format!("it would show the private folders of others in {root:?}; name folders in it"),
        )
    });
    let further = further.iter().map(|hidden| {
        (
            hidden.as_path(),
            format!(
                "it would show {hidden:?}, which the host keeps to itself; name folders beside it"
            ),
        )
    });
    let mut covers: Vec<PathGrant> = Vec::new();
    for (hidden, reason) in others.into_iter().chain(further) {
        let Some(over) = find_innermost(requested, hidden) else {
            continue;
        };
        if over.access == PathAccess::Write || over.place.real == hidden {
            return Err(refused_grant(over, reason));
        }
        // A missing folder shows nothing.
        if hidden.is_dir() {
            covers.extend(cover_path(over, hidden));
        }
    }
    let mut places: Vec<_> = inside
        .covered
        .iter()
        .filter_map(|path| Some(follow_links(path).ok()?.real))
        .collect();
    // A folder precedes its content, because its cover hides the content as well.
    places.sort();
    for real in places {
        if let Some(within) = requested
            .iter()
            .find(|grant| grant.place.real.starts_with(&real))
        {
            return Err(refused_grant(
                within,
                format!("it is in {real:?}, which the host keeps to itself"),
            ));
        }
        if covers
            .iter()
            .all(|cover| !real.starts_with(&cover.place.real))
        {
            covers
                .extend(find_innermost(requested, &real).and_then(|over| cover_path(over, &real)));
        }
    }
    Ok(covers)
}

/// Returns the grant that covers an existing path. Returns `None` if the whole machine can be read
/// and an empty folder of the sandbox hides the path anyway.
fn cover_path(over: &PathGrant, real: &Path) -> Option<PathGrant> {
    if over.place.real == Path::new("/") && ["/tmp", "/run"].iter().any(|own| real.starts_with(own))
    {
        return None;
    }
    let access = if real.is_dir() {
        PathAccess::Covered
    } else {
        PathAccess::Masked
    };
    Some(PathGrant {
        access,
        ..writable_grant(over.list, real)
    })
}

/// Returns read-only grants of the files that the host reads and trusts and that the child could
/// otherwise write.
fn read_only_grants(
    requested: &[PathGrant],
    inside: &Inside<'_>,
) -> Result<Vec<PathGrant>, SandboxError> {
    let is_writable = |path: &Path| {
        find_innermost(requested, path).is_some_and(|over| over.access == PathAccess::Write)
    };
    let mut kept = Vec::new();
    let unwritable = inside.unwritable.iter().map(|path| (path, false));
    for (path, may_be_made) in unwritable.chain(inside.reserved.iter().map(|path| (path, true))) {
        let exposed = |reason: String| SandboxError::Exposed {
            path: path.clone(),
            reason,
        };
        let (place, missing) = split_existing(path);
        if let Some(link) = place.links.iter().find(|link| is_writable(&link.at)) {
            let real = &place.real;
            return Err(exposed(format!(
                "{:?} is a link that the child can turn; use {real:?} itself",
                link.at
            )));
        }
        let is_there = missing.as_os_str().is_empty();
        let real = join_missing(place, &missing);
        if !is_writable(&real) {
            continue;
        }
        if !is_there {
            if !may_be_made {
                return Err(exposed(
                    "it is not there, and the child could make it; make it yourself".to_owned(),
                ));
            }
            create_empty_file(&real).map_err(|source| SandboxError::Write {
                path: real.clone(),
                source,
            })?;
        }
        let names = real
            .symlink_metadata()
            .map_err(|error| exposed(error.to_string()))?;
        if names.is_file() && names.nlink() > 1 {
            return Err(exposed(
                "it has a second name, by which the child could write it; copy it".to_owned(),
            ));
        }
        let place = ResolvedPath {
            real,
            links: Vec::new(),
        };
        let named = path.clone();
        let list = "a file that the host reads";
        kept.push(PathGrant {
            list,
            named,
            aliases: Vec::new(),
            place,
            access: PathAccess::Read,
            is_implied: false,
        });
    }
    Ok(kept)
}

/// Creates an empty file with its parent folders, unless it exists.
fn create_empty_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        // Another host has created it in the meantime.
        Err(error)
            if error.kind() == io::ErrorKind::AlreadyExists
                && path.symlink_metadata()?.is_file() =>
        {
            Ok(())
        }
        made => made.map(drop),
    }
}

/// Creates a writable grant of a path without links.
fn writable_grant(list: &'static str, real: &Path) -> PathGrant {
    let place = ResolvedPath {
        real: real.to_owned(),
        links: Vec::new(),
    };
    PathGrant {
        list,
        named: real.to_owned(),
        aliases: Vec::new(),
        place,
        access: PathAccess::Write,
        is_implied: false,
    }
}

/// Returns `path` without links. Its last parts may be missing.
fn resolve_future_path(path: &Path) -> PathBuf {
    let (place, missing) = split_existing(path);
    join_missing(place, &missing)
}

fn join_missing(place: ResolvedPath, missing: &Path) -> PathBuf {
    if missing.as_os_str().is_empty() {
        place.real
    } else {
        place.real.join(missing)
    }
}

/// Splits `path` into its existing part, with links followed, and the missing rest.
fn split_existing(path: &Path) -> (ResolvedPath, PathBuf) {
    let found = path
        .ancestors()
        .find_map(|outer| Some((follow_links(outer).ok()?, path.strip_prefix(outer).ok()?)));
    match found {
        Some((place, missing)) => (place, missing.to_owned()),
        None => (
            ResolvedPath {
                real: path.to_owned(),
                links: Vec::new(),
            },
            PathBuf::new(),
        ),
    }
}

/// Rejects links that a child may have changed, or may change before the next start.
fn reject_changeable_links(grants: &[PathGrant]) -> Result<(), SandboxError> {
    for grant in grants {
        if let Some((link, folder)) = changeable_link(grants, &grant.place) {
            let reason = format!(
                "{:?} is a link to {:?} that an agent in a sandbox can change, as it may write in {folder:?}; \
                 remove the link, or name {:?} itself if you mean it",
                link.at, link.target, grant.place.real
            );
            return Err(refused_grant(grant, reason));
        }
    }
    Ok(())
}

/// Sorts grants from outer to inner, merges grants of the same path, and drops grants that others
/// include.
///
/// Every folder between a read-only path and the writable folder around it is mounted onto itself.
/// A mount point cannot be renamed, so the child cannot replace the read-only path.
fn order_grants(mut grants: Vec<PathGrant>) -> Vec<PathGrant> {
    // Of two grants of one path, the narrower comes first and is kept.
    grants.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let mut kept: Vec<PathGrant> = Vec::new();
    for mut grant in grants {
        let real = &grant.place.real;
        if let Some(other) = kept.iter_mut().find(|other| other.place.real == *real) {
            other.place.links.extend(grant.place.links);
            other.aliases.extend(grant.aliases);
            continue;
        }
        let may_write = |path: &Path| {
            find_innermost(&kept, path).is_some_and(|over| over.access == PathAccess::Write)
        };
        if grant.access != PathAccess::Write {
            let between: Vec<&Path> = real
                .ancestors()
                .skip(1)
                .filter(|folder| may_write(folder))
                .collect();
            for folder in between {
                match kept.iter_mut().find(|other| other.place.real == *folder) {
                    Some(other) => other.is_implied = false,
                    None => kept.push(writable_grant(grant.list, folder)),
                }
            }
        } else {
            grant.is_implied = may_write(real);
            if grant.is_implied && grant.aliases.is_empty() {
                continue;
            }
        }
        kept.push(grant);
    }
    kept.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    kept
}

/// Sort key of a grant.
fn sort_key(grant: &PathGrant) -> (usize, &Path, PathAccess) {
    (
        path_depth(&grant.place.real),
        &grant.place.real,
        grant.access,
    )
}

/// Returns the number of parts of a path.
pub(crate) fn path_depth(path: &Path) -> usize {
    path.components().count()
}

#[cfg(test)]
mod tests;
