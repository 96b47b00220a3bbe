//! Removing what sessions leave, beside everything else: a disk may take a millisecond for a
//! folder, and one that an adapter filled much longer.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use trunkline_process::remove_tree;

/// Limit of folders and files that wait to be removed. Further ones stay until the host ends.
const QUEUED: usize = 64 * 1024;

/// Number of folders that are removed in parallel when the host ends: the disk delays each of them,
/// but not all.
const SIDE_BY_SIDE: usize = 8;

/// From how many folders on another thread helps.
const SHARE: usize = 64;

/// A thread that removes folders and files in order, until the host ends. It starts with the first
/// removal.
#[derive(Debug, Default)]
pub(crate) struct Remover {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<PathBuf>,
    thread: Option<JoinHandle<()>>,
    /// Number of those without room.
    left: u64,
    closed: bool,
}

impl Remover {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a file, or a folder with all it holds, later. Never waits.
    pub(crate) fn remove(self: &Arc<Self>, path: PathBuf) {
        let mut state = self.lock();
        if state.closed {
            // It goes with the host's folder.
            return;
        }
        if state.queue.len() >= QUEUED {
            return state.leave(&path, "too many wait to be removed");
        }
        if state.thread.is_none() {
            let own = self.clone();
            match thread::Builder::new()
                .name("trunkline-remove".to_owned())
                .spawn(move || own.serve())
            {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => return state.leave(&path, &error.to_string()),
            }
        }
        state.queue.push_back(path);
        let is_first = state.queue.len() == 1;
        drop(state);
        if is_first {
            self.more.notify_one();
        }
    }

    /// Ends the thread after what it is at. What waits is left to the removal of the host's folder.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue = VecDeque::new();
        let thread = state.thread.take();
        drop(state);
        self.more.notify_one();
        if let Some(thread) = thread {
            // An error means that it panicked: it is gone.
            let _ = thread.join();
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.closed {
            match state.queue.pop_front() {
                Some(path) => {
                    drop(state);
                    if let Err(error) = remove(&path) {
                        tracing::warn!(?path, %error, "could not remove what a session left");
                    }
                    state = self.lock();
                }
                None => {
                    state = self
                        .more
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }
}

impl State {
    /// Counts a path that stays until the host ends, and logs each doubling of the count.
    fn leave(&mut self, path: &Path, why: &str) {
        self.left += 1;
        if self.left.is_power_of_two() {
            let left = self.left;
            tracing::warn!(
                left,
                ?path,
                why,
                "what sessions left stays until the host ends"
            );
        }
    }
}

/// Most folders hold nothing, and go with one call.
fn remove(path: &Path) -> io::Result<()> {
    if unlinkat(CWD, path, AtFlags::REMOVEDIR).is_ok() {
        Ok(())
    } else {
        remove_tree(path)
    }
}

/// Removes the folders in a folder that hold nothing, several at a time. All else stays.
pub(crate) fn remove_empty_folders(parent: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A folder that cannot be opened or listed is left to the removal of its parent, which reports
    // the reason.
    let Ok(handle) = openat(CWD, parent, flags, Mode::empty()) else {
        return;
    };
    let Ok(listing) = Dir::read_from(&handle) else {
        return;
    };
    let names: Vec<OsString> = listing
        .flatten()
        .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()))
        .collect();
    let threads = (names.len() / SHARE).clamp(1, SIDE_BY_SIDE);
    let remove = |share: &[OsString]| {
        for name in share {
            let _ = unlinkat(&handle, name, AtFlags::REMOVEDIR);
        }
    };
    thread::scope(|scope| {
        for share in names.chunks(names.len().div_ceil(threads).max(1)) {
            let helper = thread::Builder::new().spawn_scoped(scope, || remove(share));
            if helper.is_err() {
                remove(share);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::Exchanges;

    #[test]
    fn a_session_that_ends_waits_for_no_folder() {
        let parent = tempfile::tempdir().unwrap();
        let remover = Arc::new(Remover::default());
        // A thread that exists and removes nothing.
        remover.lock().thread = Some(thread::spawn(|| {}));
        let exchanges = Arc::new(Exchanges::named(parent.path()).removed_by(remover.clone()));
        let exchange = exchanges.make().unwrap();
        let folder = exchange.path();
        fs::create_dir_all(folder.join("full/of/things")).unwrap();
        drop(exchange);
        assert!(folder.exists());
        assert_eq!(remover.lock().queue.len(), 1);

        // The real one does.
        remover.lock().thread = None;
        drop(exchanges.make().unwrap());
        while fs::read_dir(parent.path()).unwrap().count() > 0 {
            thread::yield_now();
        }
        remover.close();
    }

    #[test]
    fn the_folder_of_an_agent_that_was_replaced_goes_with_its_last_session() {
        let parent = tempfile::tempdir().unwrap();
        let remover = Arc::new(Remover::default());
        let exchanges = |name: &str| {
            Arc::new(Exchanges::named(&parent.path().join(name)).removed_by(remover.clone()))
        };
        let replaced = exchanges("replaced");
        let stays = exchanges("stays");
        let sessions = [replaced.make().unwrap(), stays.make().unwrap()];
        replaced.retire();
        drop(stays);
        drop(replaced);
        assert!(parent.path().join("replaced").exists());
        drop(sessions);
        while parent.path().join("replaced").exists() {
            thread::yield_now();
        }
        assert!(parent.path().join("stays").exists());
        remover.close();
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_comes_after_the_end_is_left() {
        let remover = Arc::new(Remover::default());
        remover.lock().thread = Some(thread::spawn(|| {}));
        for _ in 0..QUEUED + 3 {
            remover.remove(PathBuf::from("/nowhere/x"));
        }
        let state = remover.lock();
        assert_eq!((state.queue.len(), state.left), (QUEUED, 3));
        drop(state);
        remover.close();
        remover.remove(PathBuf::from("/nowhere/x"));
        let state = remover.lock();
        assert!(state.queue.is_empty() && state.thread.is_none());
    }

    #[test]
    fn empty_folders_go_side_by_side_and_all_else_stays() {
        let parent = tempfile::tempdir().unwrap();
        for name in 0..10 * SHARE {
            fs::create_dir(parent.path().join(name.to_string())).unwrap();
        }
        fs::write(parent.path().join("7/file"), "").unwrap();
        std::os::unix::fs::symlink("/", parent.path().join("link")).unwrap();
        remove_empty_folders(parent.path());
        let mut left: Vec<_> = fs::read_dir(parent.path())
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["7", "link"]);
        remove_empty_folders(&parent.path().join("missing"));
    }
}
