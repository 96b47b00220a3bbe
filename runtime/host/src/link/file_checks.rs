//! Files that the adapter names: checked and copied beside the driver, reported in their place
//! ([file.4], [file.7]).

mod dispatch;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use trunkline_core::Key;
use trunkline_protocol::{Category, ErrorEvent, FileOutput, Meta};
use trunkline_redact as redact;

use self::dispatch::Dispatch;
use crate::{
    Event, EventKind, File, TurnScope,
    counters::LiveCounters,
    files::{self, Announced, Pinned, Refusal, Roots, StoreDir},
    mailbox::Promise,
    session::SessionShared,
};

/// Criteria for all files of a link.
#[derive(Debug)]
pub(super) struct FileChecks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<StoreDir>,
    /// Folders that every session of the agent may give files from.
    roots: Vec<Pinned>,
    counters: Arc<LiveCounters>,
    dispatch: Mutex<Dispatch<(FileCheck, Promise)>>,
}

/// A file to check.
#[derive(Debug)]
pub(super) struct FileCheck {
    pub(super) key: Key,
    pub(super) session: Arc<SessionShared>,
    pub(super) temp_dir: Option<PathBuf>,
    pub(super) scope: TurnScope,
    pub(super) file: FileOutput,
    pub(super) meta: Option<Box<Meta>>,
}

impl FileChecks {
    /// `roots` are the folders that every session of the agent may give files from.
    pub(super) fn new(
        store: Arc<StoreDir>,
        roots: Vec<Pinned>,
        counters: Arc<LiveCounters>,
    ) -> Self {
        Self(Arc::new(Shared {
            store,
            roots,
            counters,
            dispatch: Mutex::default(),
        }))
    }

    /// Checks a file beside the driver; the promise is kept with the file or with its refusal.
    pub(super) fn begin(&self, check: FileCheck, promise: Promise) {
        let put = self
            .0
            .dispatch()
            .put(check.key, check.weight(), (check, promise));
        match put {
            Ok(true) => {
                let shared = self.0.clone();
                tokio::task::spawn_blocking(move || shared.work());
            }
            Ok(false) => {}
            Err((check, promise)) => {
                self.0.counters.files_refused.one();
                promise.keep(refused(
                    &check,
                    "too many files wait to be checked; wait for some of them",
                ));
            }
        }
    }
}

impl Drop for FileChecks {
    /// The driver has gone, and with it the readers of the files.
    fn drop(&mut self) {
        let waiting = self.0.dispatch().clear();
        // After the lock: a promise that is dropped wakes its reader.
        drop(waiting);
    }
}

impl Shared {
    fn dispatch(&self) -> MutexGuard<'_, Dispatch<(FileCheck, Promise)>> {
        self.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks what waits until nothing may be begun.
    fn work(&self) {
        loop {
            // A guard in the condition of a loop would be held while it runs.
            let next = self.dispatch().take();
            let Some((check, promise)) = next else { return };
            let key = check.key;
            let weight = check.weight();
            promise.keep(self.checked(check));
            self.dispatch().done(key, weight);
        }
    }

    fn checked(&self, check: FileCheck) -> Event {
        match self.take(&check) {
            Ok(taken) => {
                let path = Path::new(&check.file.file_path);
                let name = files::file_name(check.file.file_name.as_deref(), path);
                let mime_type = files::mime_type(check.file.file_mime_type.as_deref()).to_owned();
                let kind = EventKind::File(Box::new(File {
                    name,
                    mime_type,
                    path: taken.path,
                    size: taken.size,
                    sha256: taken.sha256,
                }));
                Event {
                    meta: check.meta,
                    ..Event::new(check.scope, kind)
                }
            }
            Err(refusal) => {
                self.counters.files_refused.one();
                refused(&check, &refusal.to_string())
            }
        }
    }

    fn take(&self, check: &FileCheck) -> Result<files::StoredFile, Refusal> {
        let own = check
            .temp_dir
            .clone()
            .map(Pinned::exactly)
            .into_iter()
            .chain(check.session.roots());
        let mut roots = Roots::new();
        for folder in self.roots.iter().cloned().chain(own) {
            // A folder that is not there lets nothing in.
            let _ = roots.allow_pinned(&folder);
        }
        let path = Path::new(&check.file.file_path);
        let FileOutput { size, sha256, .. } = check.file;
        let checked = files::check(path, &roots, check.session.inbox.max_file_bytes())?
            .announced_as(Announced { size, sha256 })?;
        let room = check.session.room_for(checked.size())?;
        let stored = files::store(&checked, &self.store)?;
        room.keep(stored.path.clone());
        Ok(stored)
    }
}

impl FileCheck {
    /// Returns its memory while it waits, in bytes.
    fn weight(&self) -> u64 {
        let FileOutput {
            file_path,
            file_name,
            file_mime_type,
            ..
        } = &self.file;
        let texts = [file_name, file_mime_type]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum::<usize>();
        let meta = self.meta.as_ref().map_or(0, |meta| meta.json().get().len());
        (size_of::<Self>() + file_path.len() + texts + meta) as u64
    }
}

fn refused(check: &FileCheck, why: &str) -> Event {
    let name = files::file_name(
        check.file.file_name.as_deref(),
        Path::new(&check.file.file_path),
    );
    let message = format!(
        "{} was not taken: {}",
        redact::text(&format!("{name:?}")),
        redact::message(why)
    );
    let error = ErrorEvent {
        category: Some(Category::FileRefused),
        message,
        fatal: Some(false),
        ..ErrorEvent::default()
    };
    Event::new(check.scope, EventKind::Error(error))
}
