//! Paths of the host that a child gets, and the checks of them.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use crate::view::RESERVED;
use crate::{Inside, Sandbox, SandboxError};

/// Maximum of symbolic links in one path. The kernel has the same limit.
const MAX_LINKS: usize = 40;

/// A path of the host that is visible inside, or covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Name of the setting that contains the path.
    pub(crate) list: &'static str,
    /// The path as it was written.
    pub(crate) named: PathBuf,
    /// Other names of the same path that were granted.
    pub(crate) also: Vec<PathBuf>,
    /// The path without links, and the links on the way to it.
    pub(crate) place: Place,
    pub(crate) access: Access,
    /// True if another grant already includes the path, so that only its aliases and links are
    /// needed.
    pub(crate) given: bool,
}

/// Access to a path, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// None: an empty folder covers it.
    Covered,
    /// None: the null device covers it. For anything but folders.
    Masked,
    Read,
    Write,
}

/// A path whose symbolic links were followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The resulting path. No part of it is a link.
    pub(crate) real: PathBuf,
    /// The links on the way, in order, with the target of each. No parent of a link is a link.
    pub(crate) links: Vec<Link>,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) at: PathBuf,
    pub(crate) target: PathBuf,
}

/// Follows the symbolic links of `path`, which is absolute, one by one.
///
/// # Errors
///
/// A part of the path is missing or cannot be read.
pub(crate) fn follow(path: &Path) -> io::Result<Place> {
    let mut place = Place {
        real: "/".into(),
        links: Vec::new(),
    };
    let mut left = parts(path);
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
            return Err(rustix::io::Errno::LOOP.into());
        }
        let next = std::fs::read_link(&at)?;
        if next.is_absolute() {
            place.real = "/".into();
        }
        left.extend(parts(&next));
        place.links.push(Link {
            target: at.canonicalize()?,
            at,
        });
    }
    Ok(place)
}

/// Returns the parts of a path in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
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
pub(crate) fn grants(sandbox: &Sandbox, inside: &Inside<'_>) -> Result<Vec<Grant>, SandboxError> {
    let mut asked = Vec::new();
    for path in &sandbox.writable {
        asked.push(grant("writable", path, Access::Write)?);
    }
    for path in &sandbox.read_only {
        asked.push(grant("read_only", path, Access::Read)?);
    }
    let work_dir = grant("the working directory", inside.work_dir, Access::Write)?;
    let access = deepest(&asked, &work_dir.place.real).map_or(Access::Write, |over| over.access);
    asked.push(Grant { access, ..work_dir });
    for grant in &asked {
        refuse_reserved(grant, inside)?;
    }
    let covers = covers(&asked, inside)?;
    let kept = kept(&asked, inside)?;

    let mut all = asked;
    all.extend(covers);
    all.extend(kept);
    if let Some(path) = inside.exchange {
        all.push(grant("the exchange folder", path, Access::Write)?);
    }
    all.push(grant("the private folder", inside.private, Access::Read)?);
    all.push(grant("the temporary folder", inside.temp, Access::Write)?);
    all.push(grant("the init program", inside.init, Access::Read)?);
    refuse_turned_links(&all)?;
    Ok(ordered(all))
}

/// Returns the home folder inside: the host's if it is granted or declared, otherwise the temporary
/// folder.
pub(crate) fn home(grants: &[Grant], inside: &Inside<'_>) -> OsString {
    let declared = inside.declared.contains_key(OsStr::new("HOME"));
    match inside.variable("HOME") {
        Some(home) if declared || is_granted(grants, Path::new(home)) => home.to_owned(),
        Some(_) | None => inside.temp.into(),
    }
}

fn is_granted(grants: &[Grant], path: &Path) -> bool {
    let Ok(place) = follow(path) else {
        return false;
    };
    deepest(grants, &place.real).is_some_and(|over| over.access >= Access::Read)
}

fn grant(list: &'static str, path: &Path, access: Access) -> Result<Grant, SandboxError> {
    if !path.is_absolute() {
        return Err(SandboxError::NotAbsolute {
            list,
            path: path.to_owned(),
        });
    }
    match follow(path) {
        Ok(place) => {
            let also = if place.real == path {
                Vec::new()
            } else {
                vec![path.to_owned()]
            };
            Ok(Grant {
                list,
                named: path.to_owned(),
                also,
                place,
                access,
                given: false,
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
fn deepest<'a>(grants: &'a [Grant], path: &Path) -> Option<&'a Grant> {
    let over = grants
        .iter()
        .filter(|grant| path.starts_with(&grant.place.real));
    over.max_by_key(|grant| (depth(&grant.place.real), Reverse(grant.access)))
}

fn refuse(grant: &Grant, reason: impl Into<String>) -> SandboxError {
    SandboxError::Refused {
        list: grant.list,
        path: grant.named.clone(),
        reason: reason.into(),
    }
}

/// Rejects paths that the sandbox creates itself, and grants that would expose the machine.
fn refuse_reserved(grant: &Grant, inside: &Inside<'_>) -> Result<(), SandboxError> {
    let real = &grant.place.real;
    for own in ["/proc", "/dev"] {
        if real.starts_with(own) {
            return Err(refuse(grant, format!("a sandbox has a {own} of its own")));
        }
    }
    if real.starts_with(RESERVED)
        || (Path::new(RESERVED).starts_with(real) && covers_reserved(grant, inside))
    {
        return Err(refuse(
            grant,
            format!("{RESERVED} is where a sandbox keeps the way to its proxy"),
        ));
    }
    if grant.access != Access::Write {
        return Ok(());
    }
    if real == Path::new("/") {
        return Err(refuse(
            grant,
            "all of the machine would be writable; name folders of it",
        ));
    }
    if real.starts_with("/sys") {
        return Err(refuse(grant, "settings of the kernel would be writable"));
    }
    Ok(())
}

/// Returns true if the mount point of the proxy's socket would be created in a folder of the host.
/// Not below `/`: an empty `/run` covers the host's.
fn covers_reserved(grant: &Grant, inside: &Inside<'_>) -> bool {
    inside.outlet.is_some() && grant.place.real != Path::new("/")
}

/// Returns covers for the private folders of other children and the hidden paths of the host that
/// are inside readable grants.
///
/// Rejects grants that would let the child write around them: it could move the parent folder away.
fn covers(asked: &[Grant], inside: &Inside<'_>) -> Result<Vec<Grant>, SandboxError> {
    let own = follow(inside.private).map_or_else(|_| inside.private.to_owned(), |place| place.real);
    let further: Vec<PathBuf> = inside.hidden.iter().map(|path| place_to_be(path)).collect();
    for hidden in std::iter::once(&own).chain(&further) {
        if let Some(within) = asked
            .iter()
            .find(|grant| grant.place.real.starts_with(hidden))
        {
            return Err(refuse(
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
    let mut covers: Vec<Grant> = Vec::new();
    for (hidden, reason) in others.into_iter().chain(further) {
        let Some(over) = deepest(asked, hidden) else {
            continue;
        };
        if over.access == Access::Write || over.place.real == hidden {
            return Err(refuse(over, reason));
        }
        // A missing folder shows nothing.
        if hidden.is_dir() {
            covers.extend(cover(over, hidden));
        }
    }
    let mut places: Vec<_> = inside
        .covered
        .iter()
        .filter_map(|path| Some(follow(path).ok()?.real))
        .collect();
    // A folder precedes its content, because its cover hides the content as well.
    places.sort();
    for real in places {
        if let Some(within) = asked
            .iter()
            .find(|grant| grant.place.real.starts_with(&real))
        {
            return Err(refuse(
                within,
                format!("it is in {real:?}, which the host keeps to itself"),
            ));
        }
        if covers
            .iter()
            .all(|cover| !real.starts_with(&cover.place.real))
        {
            covers.extend(deepest(asked, &real).and_then(|over| cover(over, &real)));
        }
    }
    Ok(covers)
}

/// Returns the grant that covers an existing path. Returns `None` if the whole machine can be read
/// and an empty folder of the sandbox hides the path anyway.
fn cover(over: &Grant, real: &Path) -> Option<Grant> {
    if over.place.real == Path::new("/") && ["/tmp", "/run"].iter().any(|own| real.starts_with(own))
    {
        return None;
    }
    let access = if real.is_dir() {
        Access::Covered
    } else {
        Access::Masked
    };
    Some(Grant {
        access,
        ..at(over.list, real)
    })
}

/// Returns read-only grants of the files that the host reads and trusts and that the child could
/// otherwise write.
fn kept(asked: &[Grant], inside: &Inside<'_>) -> Result<Vec<Grant>, SandboxError> {
    let is_writable =
        |path: &Path| deepest(asked, path).is_some_and(|over| over.access == Access::Write);
    let mut kept = Vec::new();
    let unwritable = inside.unwritable.iter().map(|path| (path, false));
    for (path, may_be_made) in unwritable.chain(inside.reserved.iter().map(|path| (path, true))) {
        let exposed = |reason: String| SandboxError::Exposed {
            path: path.clone(),
            reason,
        };
        let (place, missing) = nearest(path);
        if let Some(link) = place.links.iter().find(|link| is_writable(&link.at)) {
            let real = &place.real;
            return Err(exposed(format!(
                "{:?} is a link that the child can turn; use {real:?} itself",
                link.at
            )));
        }
        let is_there = missing.as_os_str().is_empty();
        let real = if is_there {
            place.real
        } else {
            place.real.join(missing)
        };
        if !is_writable(&real) {
            continue;
        }
        if !is_there {
            if !may_be_made {
                return Err(exposed(
                    "it is not there, and the child could make it; make it yourself".to_owned(),
                ));
            }
            make_empty(&real).map_err(|source| SandboxError::Write {
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
        let place = Place {
            real,
            links: Vec::new(),
        };
        let named = path.clone();
        let list = "a file that the host reads";
        kept.push(Grant {
            list,
            named,
            also: Vec::new(),
            place,
            access: Access::Read,
            given: false,
        });
    }
    Ok(kept)
}

/// Creates an empty file with its parent folders, unless it exists.
fn make_empty(path: &Path) -> io::Result<()> {
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
fn at(list: &'static str, real: &Path) -> Grant {
    let place = Place {
        real: real.to_owned(),
        links: Vec::new(),
    };
    Grant {
        list,
        named: real.to_owned(),
        also: Vec::new(),
        place,
        access: Access::Write,
        given: false,
    }
}

/// Returns `path` without links. Its last parts may be missing.
fn place_to_be(path: &Path) -> PathBuf {
    let (place, missing) = nearest(path);
    if missing.as_os_str().is_empty() {
        place.real
    } else {
        place.real.join(missing)
    }
}

/// Splits `path` into its existing part, with links followed, and the missing rest.
fn nearest(path: &Path) -> (Place, PathBuf) {
    let found = path
        .ancestors()
        .find_map(|outer| Some((follow(outer).ok()?, path.strip_prefix(outer).ok()?)));
    match found {
        Some((place, missing)) => (place, missing.to_owned()),
        None => (
            Place {
                real: path.to_owned(),
                links: Vec::new(),
            },
            PathBuf::new(),
        ),
    }
}

/// Rejects links in a writable folder that lead out of it. An earlier child may have created or
/// changed them.
fn refuse_turned_links(grants: &[Grant]) -> Result<(), SandboxError> {
    for grant in grants {
        for link in &grant.place.links {
            let within = deepest(grants, &link.at).filter(|over| over.access == Access::Write);
            if let Some(over) = within
                && !grant.place.real.starts_with(&over.place.real)
            {
                let reason = format!(
                    "{:?} is a link that the child can turn, as it may write in {:?}; name {:?} instead",
                    link.at, over.named, grant.place.real
                );
                return Err(refuse(grant, reason));
            }
        }
    }
    Ok(())
}

/// Sorts grants from outer to inner, merges grants of the same path, and drops grants that others
/// include.
///
/// Every folder between a read-only path and the writable folder around it is mounted onto itself.
/// A mount point cannot be renamed, so the child cannot replace the read-only path.
fn ordered(mut grants: Vec<Grant>) -> Vec<Grant> {
    // Of two grants of one path, the narrower comes first and is kept.
    grants.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut kept: Vec<Grant> = Vec::new();
    for mut grant in grants {
        let real = &grant.place.real;
        if let Some(other) = kept.iter_mut().find(|other| other.place.real == *real) {
            other.place.links.extend(grant.place.links);
            other.also.extend(grant.also);
            continue;
        }
        let may_write =
            |path: &Path| deepest(&kept, path).is_some_and(|over| over.access == Access::Write);
        if grant.access != Access::Write {
            let between: Vec<&Path> = real
                .ancestors()
                .skip(1)
                .filter(|folder| may_write(folder))
                .collect();
            for folder in between {
                match kept.iter_mut().find(|other| other.place.real == *folder) {
                    Some(other) => other.given = false,
                    None => kept.push(at(grant.list, folder)),
                }
            }
        } else {
            grant.given = may_write(real);
            if grant.given && grant.also.is_empty() {
                continue;
            }
        }
        kept.push(grant);
    }
    kept.sort_by(|a, b| order(a).cmp(&order(b)));
    kept
}

/// Sort key of a grant.
fn order(grant: &Grant) -> (usize, &Path, Access) {
    (depth(&grant.place.real), &grant.place.real, grant.access)
}

/// Returns the number of parts of a path.
pub(crate) fn depth(path: &Path) -> usize {
    path.components().count()
}

#[cfg(test)]
mod tests;
