//! Files that the adapter names: judged and copied beside the driver, told in their place ([file.4], [file.7]).

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use trunkline_process::redact;
use trunkline_protocol::{Category, ErrorEvent, FileOutput, Meta};

use crate::{
    Event, EventKind, File, Place,
    counters::Counting,
    files::{self, Pinned, Refusal, Roots, StoreDir},
    lane::Promise,
    session::SessionShared,
};

/// How many files of one link may be judged at a time. One more is refused.
const AT_A_TIME: usize = 256;

/// What all files of a link are judged by.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) store: Arc<StoreDir>,
    /// Folders that every session of the agent may give files from.
    pub(super) roots: Vec<Pinned>,
    pub(super) counting: Arc<Counting>,
    pub(super) under_way: Arc<AtomicUsize>,
}

/// One file to judge.
pub(super) struct Case {
    pub(super) session: Arc<SessionShared>,
    pub(super) temp_dir: Option<PathBuf>,
    pub(super) place: Place,
    pub(super) file: FileOutput,
    pub(super) meta: Option<Box<Meta>>,
}

impl Judge {
    /// Judges a file beside the driver; the promise is kept with the file or with its refusal.
    pub(super) fn begin(&self, case: Case, promise: Promise) {
        let counting = self.counting.clone();
        if self.under_way.fetch_add(1, Ordering::AcqRel) >= AT_A_TIME {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
            counting.files_refused.one();
            return promise.keep(refused(&case, "too many files at a time"));
        }
        let (store, mut roots, under_way) = (self.store.clone(), self.roots.clone(), self.under_way.clone());
        let max_bytes = case.session.inbox.max_file_bytes();
        roots.extend(case.temp_dir.clone().map(Pinned::exactly));
        roots.extend(case.session.roots());
        tokio::task::spawn_blocking(move || {
            let event = match take(Path::new(&case.file.file_path), &roots, max_bytes, &store) {
                Ok(taken) => {
                    case.session.took(taken.path.clone());
                    let name =
                        files::file_name(case.file.file_name.as_deref(), Path::new(&case.file.file_path));
                    let mime_type = files::mime_type(case.file.file_mime_type.as_deref()).to_owned();
                    let kind = EventKind::File(File { name, mime_type, path: taken.path, size: taken.size });
                    Event { place: case.place, kind, meta: case.meta }
                }
                Err(refusal) => {
                    counting.files_refused.one();
                    refused(&case, &refusal.to_string())
                }
            };
            promise.keep(event);
            under_way.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

fn take(
    path: &Path,
    folders: &[Pinned],
    max_bytes: u64,
    store: &StoreDir,
) -> Result<files::StoredFile, Refusal> {
    let mut roots = Roots::new();
    for folder in folders {
        // A folder that is not there lets nothing in.
        let _ = roots.allow_pinned(folder);
    }
    files::store(&files::judge(path, &roots, max_bytes)?, store)
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
    Event { place: case.place, kind: EventKind::Error(error), meta: None }
}
