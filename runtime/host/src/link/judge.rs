//! Files that the adapter names: judged and copied beside the driver, told in their place ([file.4], [file.7]).

mod desk;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use trunkline_core::Key;
use trunkline_process::redact;
use trunkline_protocol::{Category, ErrorEvent, FileOutput, Meta};

use self::desk::Desk;
use crate::{
    Event, EventKind, File, TurnScope,
    counters::Counting,
    files::{self, Pinned, Refusal, Roots, StoreDir},
    mailbox::Promise,
    session::SessionShared,
};

/// What all files of a link are judged by.
#[derive(Debug)]
pub(super) struct Judge(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<StoreDir>,
    /// Folders that every session of the agent may give files from.
    roots: Vec<Pinned>,
    counting: Arc<Counting>,
    desk: Mutex<Desk<(Case, Promise)>>,
}

/// One file to judge.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) key: Key,
    pub(super) session: Arc<SessionShared>,
    pub(super) temp_dir: Option<PathBuf>,
    pub(super) scope: TurnScope,
    pub(super) file: FileOutput,
    pub(super) meta: Option<Box<Meta>>,
}

impl Judge {
    /// `roots` are the folders that every session of the agent may give files from.
    pub(super) fn new(store: Arc<StoreDir>, roots: Vec<Pinned>, counting: Arc<Counting>) -> Self {
        Self(Arc::new(Shared { store, roots, counting, desk: Mutex::default() }))
    }

    /// Judges a file beside the driver; the promise is kept with the file or with its refusal.
    pub(super) fn begin(&self, case: Case, promise: Promise) {
        let put = self.0.desk().put(case.key, case.weight(), (case, promise));
        match put {
            Ok(true) => {
                let shared = self.0.clone();
                tokio::task::spawn_blocking(move || shared.work());
            }
            Ok(false) => {}
            Err((case, promise)) => {
                self.0.counting.files_refused.one();
                promise.keep(refused(&case, "too many files wait to be judged; wait for some of them"));
            }
        }
    }
}

impl Drop for Judge {
    /// The driver has gone, and with it whoever the files are for.
    fn drop(&mut self) {
        let waiting = self.0.desk().clear();
        // After the lock: a promise that is dropped wakes its reader.
        drop(waiting);
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk<(Case, Promise)>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges what waits until nothing may be begun.
    fn work(&self) {
        loop {
            // A guard in the condition of a loop would be held while it runs.
            let next = self.desk().take();
            let Some((case, promise)) = next else { return };
            let (key, weight) = (case.key, case.weight());
            promise.keep(self.judged(case));
            self.desk().done(key, weight);
        }
    }

    fn judged(&self, case: Case) -> Event {
        match self.take(&case) {
            Ok(taken) => {
                let path = Path::new(&case.file.file_path);
                let name = files::file_name(case.file.file_name.as_deref(), path);
                let mime_type = files::mime_type(case.file.file_mime_type.as_deref()).to_owned();
                let kind = EventKind::File(File { name, mime_type, path: taken.path, size: taken.size });
                Event { scope: case.scope, kind, meta: case.meta }
            }
            Err(refusal) => {
                self.counting.files_refused.one();
                refused(&case, &refusal.to_string())
            }
        }
    }

    fn take(&self, case: &Case) -> Result<files::StoredFile, Refusal> {
        let own = case.temp_dir.clone().map(Pinned::exactly).into_iter().chain(case.session.roots());
        let mut roots = Roots::new();
        for folder in self.roots.iter().cloned().chain(own) {
            // A folder that is not there lets nothing in.
            let _ = roots.allow_pinned(&folder);
        }
        let path = Path::new(&case.file.file_path);
        let judged = files::judge(path, &roots, case.session.inbox.max_file_bytes())?;
        let room = case.session.room_for(judged.size())?;
        let stored = files::store(&judged, &self.store)?;
        room.keep(stored.path.clone());
        Ok(stored)
    }
}

impl Case {
    /// What it holds of memory while it waits, in bytes.
    fn weight(&self) -> u64 {
        let FileOutput { file_path, file_name, file_mime_type, .. } = &self.file;
        let texts = [file_name, file_mime_type].into_iter().flatten().map(String::len).sum::<usize>();
        let meta = self.meta.as_ref().map_or(0, |meta| meta.json().get().len());
        (size_of::<Self>() + file_path.len() + texts + meta) as u64
    }
}

fn refused(case: &Case, why: &str) -> Event {
    let name = files::file_name(case.file.file_name.as_deref(), Path::new(&case.file.file_path));
    let message = redact::text(&format!("{name:?} was not taken: {why}")).into_owned();
    let error = ErrorEvent {
        category: Some(Category::FileRefused),
        message,
        fatal: Some(false),
        ..ErrorEvent::default()
    };
    Event { scope: case.scope, kind: EventKind::Error(error), meta: None }
}
