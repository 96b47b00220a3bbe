//! What hosts before this one have left, because a power cut or SIGKILL ended them.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use tokio::runtime::Handle;
use trunkline_process::sweep;

/// The records of live process trees, until they have been looked through once.
#[derive(Debug)]
pub(crate) struct Leftovers(Mutex<Option<PathBuf>>);

impl Leftovers {
    pub(crate) fn new(records: Option<PathBuf>) -> Self {
        Self(Mutex::new(records))
    }

    /// Ends what is left, beside everything else; the second call does nothing.
    pub(crate) fn sweep(&self, runtime: &Handle) {
        if let Some(records) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.spawn_blocking(move || end_all(&records));
        }
    }
}

fn end_all(records: &Path) {
    let swept = match sweep(records) {
        Ok(swept) => swept,
        Err(error) => {
            tracing::warn!(?records, %error, "cannot look for what earlier hosts left");
            return;
        }
    };
    if swept.trees > 0 {
        let (trees, processes, folders) = (swept.trees, swept.processes, swept.folders);
        tracing::info!(trees, processes, folders, "ended what earlier hosts left");
    }
    for record in swept.unfinished {
        tracing::warn!(?record, "what an earlier host left is still there; the next host tries again");
    }
    for (file, why) in swept.refused {
        tracing::warn!(?file, why, "among the records is what no host has written; remove it");
    }
}
