//! Lookups of the names of files, beside the driver: where links lead, for the permission policy.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;
use trunkline_core::policy::{FoundNames, PathNames, PathQuery};

/// Timeout of a lookup. What it has not found by then counts as unresolved.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// The most lookups of one link at a time, each with a thread that the file system may hold.
const MAX_LOOKUPS: usize = 16;
/// The most links that are followed for one path, as on Linux.
const MAX_LINKS: usize = 40;
/// The longest component of a path, in bytes: no file has a longer name.
const MAX_COMPONENT: usize = 255;
/// The most names that one lookup finds, in bytes.
const MAX_NAME_BYTES: usize = 64 * 1024;

/// The bound of the lookups of one link.
#[derive(Debug)]
pub(super) struct NameLookups(Arc<Semaphore>);

/// The bound of the lookups of one session: one at a time, so that a session whose file system
/// hangs holds one thread.
pub(super) type SessionLookups = Arc<Semaphore>;

impl Default for NameLookups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS)))
    }
}

impl NameLookups {
    /// Returns the bound of a new session.
    pub(super) fn session_bound() -> SessionLookups {
        Arc::new(Semaphore::new(1))
    }

    /// Looks up the names and passes them on, at the latest after [`LOOKUP_TIMEOUT`].
    pub(super) fn begin(
        &self,
        session: SessionLookups,
        query: PathQuery,
        pass_on: impl FnOnce(FoundNames) + Send + 'static,
    ) {
        let found = self.run(session, move || {
            find_names(&query, Instant::now() + LOOKUP_TIMEOUT)
        });
        tokio::spawn(async move { pass_on(found.await) });
    }

    /// Runs a lookup on a thread of its own. One that takes too long found nothing; its thread
    /// counts until it ends.
    fn run(
        &self,
        session: SessionLookups,
        find: impl FnOnce() -> FoundNames + Send + 'static,
    ) -> impl Future<Output = FoundNames> + Send + 'static {
        let link = self.0.clone();
        let found = async move {
            let permits = (
                session.acquire_owned().await.ok()?,
                link.acquire_owned().await.ok()?,
            );
            let lookup = tokio::task::spawn_blocking(move || {
                let found = find();
                drop(permits);
                found
            });
            lookup.await.ok()
        };
        async move {
            let found = tokio::time::timeout(LOOKUP_TIMEOUT, found).await;
            found.ok().flatten().unwrap_or_default()
        }
    }
}

/// Finds the names of paths. Blocks on the file system; between two calls of it, no longer than
/// until the deadline.
fn find_names(query: &PathQuery, deadline: Instant) -> FoundNames {
    let mut walk = LinkWalk {
        deadline,
        left: MAX_NAME_BYTES,
    };
    let mut dirs: Vec<_> = query
        .dirs
        .iter()
        .map(|dir| walk.follow(dir, &mut Vec::new()))
        .collect();
    let work_dir = dirs.first().cloned().flatten();
    dirs.dedup();
    let names = |path: &String| (path.clone(), walk.names(&dirs, path));
    FoundNames {
        paths: query.paths.iter().map(names).collect(),
        work_dir: work_dir.and_then(|dir| dir.into_os_string().into_string().ok()),
    }
}

/// Follows links as the file system would, and notes each name on the way.
struct LinkWalk {
    deadline: Instant,
    /// Bytes left for further names.
    left: usize,
}

impl LinkWalk {
    /// Returns the names of a path below the directories, of which the first is the working
    /// directory.
    fn names(&mut self, dirs: &[Option<PathBuf>], path: &str) -> PathNames {
        let scheme = path.as_bytes().get(..5);
        if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"file:")) {
            // The tool decides which file a URL means.
            return PathNames::default();
        }
        let starts: Vec<_> = if path.starts_with('/') {
            vec![Some(PathBuf::from(path))]
        } else {
            let below = |dir: &Option<PathBuf>| Some(dir.as_ref()?.join(path));
            dirs.iter().map(below).collect()
        };
        let mut others = Vec::new();
        let targets: Vec<_> = starts
            .into_iter()
            .map(|start| {
                let target = self.follow(&start?, &mut others)?;
                self.note(target)
            })
            .collect();
        let is_resolved = targets.iter().all(Option::is_some);
        let target = targets.first().cloned().flatten();
        others.extend(targets.into_iter().flatten());
        PathNames {
            target: target.filter(|_| is_resolved),
            others,
        }
    }

    /// Returns the target of an absolute path: the path without links, or its nearest
    /// existing folder with the rest. `None` if the file system does not show it.
    fn follow(&mut self, path: &Path, names: &mut Vec<String>) -> Option<PathBuf> {
        let mut target = PathBuf::from("/");
        let mut ahead = Vec::new();
        push_components(&mut ahead, path);
        let mut links = 0;
        let mut exists = true;
        while let Some(component) = ahead.pop() {
            // Links below `/proc` lead elsewhere for each process.
            if Instant::now() >= self.deadline || target == Path::new("/proc") {
                return None;
            }
            if component == ".." {
                if !exists {
                    return None;
                }
                target.pop();
                continue;
            }
            exists &= component.len() <= MAX_COMPONENT;
            target.push(component);
            if !exists {
                continue;
            }
            match fs::symlink_metadata(&target) {
                Ok(found) if found.is_symlink() => {
                    links += 1;
                    let link = fs::read_link(&target).ok().filter(|_| links <= MAX_LINKS)?;
                    target.pop();
                    if link.is_absolute() {
                        target = PathBuf::from("/");
                    }
                    push_components(&mut ahead, &link);
                    let mut name = target.clone();
                    name.extend(ahead.iter().rev());
                    names.push(self.note(name)?);
                }
                Ok(found) if found.is_dir() || ahead.is_empty() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => exists = false,
                Ok(_) | Err(_) => return None,
            }
        }
        Some(target)
    }

    /// Returns a name as text, if there is room for it.
    fn note(&mut self, name: PathBuf) -> Option<String> {
        let name = name.into_os_string().into_string().ok()?;
        self.left = self.left.checked_sub(name.len())?;
        Some(name)
    }
}

/// Puts the components of a path before those that are still ahead, of which the last is the next.
fn push_components(ahead: &mut Vec<OsString>, path: &Path) {
    let behind = ahead.len();
    ahead.extend(path.components().filter_map(|component| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    }));
    ahead[behind..].reverse();
}

#[cfg(test)]
mod tests;
