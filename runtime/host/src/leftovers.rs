//! What hosts before this one have left, because a power cut or SIGKILL ended them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tokio::runtime::Handle;
use trunkline_process::{Backend, FolderRecord, remove_tree, sandbox::sweep_containers, sweep};

/// The host's private folder: exchange folders, copies of files, the private folders of processes. Removed when it is
/// dropped, and then its record, which stays for the next host when the folder does.
#[derive(Debug)]
pub(crate) struct HostFolder {
    folder: PathBuf,
    record: OnceLock<FolderRecord>,
}

impl HostFolder {
    pub(crate) fn create() -> io::Result<Self> {
        let made = tempfile::Builder::new().prefix("trunkline-").tempdir()?;
        Ok(Self { folder: made.keep(), record: OnceLock::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    fn record(&self, records: &Path) {
        match FolderRecord::create(records, self.path()) {
            // There is one call.
            Ok(record) => drop(self.record.set(record)),
            Err(error) => tracing::warn!(?records, %error, "cannot record what this host would leave"),
        }
    }
}

impl Drop for HostFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.folder) {
            tracing::warn!(path = ?self.folder, %error, "could not remove the host's private folder");
            if let Some(record) = self.record.take() {
                record.keep();
            }
        }
    }
}

/// Where something may be left, until it has been looked through once.
#[derive(Debug)]
pub(crate) struct Leftovers(Mutex<Option<Places>>);

#[derive(Debug)]
struct Places {
    /// The records of live process trees.
    records: Option<PathBuf>,
    /// What this host would leave.
    own: Arc<HostFolder>,
    /// The engines whose containers outlive their host, each once.
    engines: Vec<Backend>,
}

impl Leftovers {
    /// `backends` are those of all agents' sandboxes.
    pub(crate) fn new<'a>(
        records: Option<PathBuf>,
        own: Arc<HostFolder>,
        backends: impl IntoIterator<Item = &'a Backend>,
    ) -> Self {
        let mut engines: Vec<Backend> = Vec::new();
        for backend in backends {
            let leaves = !matches!(backend, Backend::Bubblewrap);
            if leaves && engines.iter().all(|other| !other.is_same_engine(backend)) {
                engines.push(backend.clone());
            }
        }
        Self(Mutex::new(Some(Places { records, own, engines })))
    }

    /// Ends what is left, and records what this host would leave, beside everything else; the second call does nothing.
    pub(crate) fn sweep(&self, runtime: &Handle) {
        let Some(places) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if let Some(records) = places.records {
            let own = places.own;
            runtime.spawn_blocking(move || {
                own.record(&records);
                drop(own);
                end_all(&records);
            });
        }
        for engine in places.engines {
            runtime.spawn_blocking(move || remove_containers(&engine));
        }
    }
}

fn remove_containers(engine: &Backend) {
    match sweep_containers(engine) {
        Ok(0) => {}
        Ok(containers) => tracing::info!(containers, "removed what earlier hosts left"),
        Err(error) => tracing::warn!(%error, "cannot look for containers that earlier hosts left"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_folder_that_stays_keeps_its_record() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let count = |name: &str| std::fs::read_dir(at(name)).unwrap().count();
        for (is_blocked, left) in [(true, (1, 1)), (false, (0, 0))] {
            let path = at("parent/trunkline-host");
            std::fs::create_dir_all(&path).unwrap();
            let own = HostFolder { folder: path, record: OnceLock::new() };
            own.record(&at("records"));
            assert_eq!(count("records"), 1);
            if is_blocked {
                // A file where the folder above was keeps root too from reaching it.
                std::fs::rename(at("parent"), at("aside")).unwrap();
                std::fs::write(at("parent"), "").unwrap();
            }
            drop(own);
            if is_blocked {
                std::fs::remove_file(at("parent")).unwrap();
                std::fs::rename(at("aside"), at("parent")).unwrap();
            }
            assert_eq!((count("parent"), count("records")), left);
            std::fs::remove_dir_all(at("records")).unwrap();
        }
    }

    #[test]
    fn every_engine_is_looked_at_once() {
        let podman = |image: &str, options: &[&str]| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            Backend::Podman { image: image.to_owned(), options }
        };
        let docker = Backend::Docker { image: "a".to_owned(), options: vec![] };
        let backends = [
            podman("a", &[]),
            Backend::Bubblewrap,
            podman("b", &[]),
            podman("a", &["--root", "/r"]),
            docker.clone(),
        ];
        let own = Arc::new(HostFolder::create().unwrap());
        let leftovers = Leftovers::new(None, own, &backends);
        let places = leftovers.0.into_inner().unwrap().unwrap();
        assert_eq!(places.engines, [podman("a", &[]), podman("a", &["--root", "/r"]), docker]);
    }
}
