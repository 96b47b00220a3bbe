//! Remains of earlier hosts that a power cut or SIGKILL ended.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::runtime::Handle;
use trunkline_process::{FolderRecord, remove_tree, sweep};
use trunkline_sandbox::{Backend, sweep_containers};

use crate::files::{Remover, StoreDir, remove_empty_folders};

/// The host's private folder: exchange folders, copies of files, the private folders of processes.
///
/// It is made when something needs it, so that a host which is killed before that leaves nothing.
/// It is recorded with the first session, before anything runs. Removed when it is dropped, and
/// then its record, which stays for the next host when the folder does.
#[derive(Debug)]
pub(crate) struct HostFolder {
    path: PathBuf,
    /// Folder of the records.
    records: Option<PathBuf>,
    made: Mutex<Option<Made>>,
    /// Removes what is in it before the end.
    pub(crate) remover: Arc<Remover>,
}

/// An existing folder.
#[derive(Debug)]
struct Made {
    files: Arc<StoreDir>,
    record: Option<FolderRecord>,
}

impl HostFolder {
    /// Names a folder that nothing else has the name of, among the temporary ones. Makes nothing.
    pub(crate) fn new(records: Option<PathBuf>) -> io::Result<Self> {
        // Without links, and in letters that the wire can carry: adapters see its paths, which are roots.
        let place = std::env::temp_dir().canonicalize()?;
        if place.to_str().is_none() {
            let message =
                format!("the folder for temporary files, {place:?}, is not named in UTF-8");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let path = place.join(format!("trunkline-{}", uuid::Uuid::new_v4().simple()));
        Ok(Self {
            path,
            records,
            made: Mutex::new(None),
            remover: Arc::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder, unless it exists. Returns the place for copies of files.
    pub(crate) fn make(&self) -> io::Result<Arc<StoreDir>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(made.files.clone());
        }
        DirBuilder::new().mode(0o700).create(&self.path)?;
        let files = StoreDir::open(&self.path.join("files")).map(Arc::new);
        let files = files.inspect_err(|_| self.remove(None))?;
        *made = Some(Made {
            files: files.clone(),
            record: None,
        });
        Ok(files)
    }

    /// Records the folder, if it exists, so that the next host removes it when this one is killed.
    pub(crate) fn record(&self) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(made), Some(records)) = (&mut *made, &self.records) else {
            return;
        };
        if made.record.is_some() {
            return;
        }
        match FolderRecord::create(records, &self.path) {
            Ok(record) => made.record = Some(record),
            Err(error) => {
                tracing::warn!(?records, %error, "cannot record what this host would leave")
            }
        }
    }

    fn remove(&self, record: Option<FolderRecord>) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::warn!(path = ?self.path, %error, "could not remove the host's private folder");
            if let Some(record) = record {
                record.keep();
            }
        }
    }
}

impl Drop for HostFolder {
    fn drop(&mut self) {
        self.remover.close();
        // A session left at most one folder there, mostly an empty one; there may be very many.
        for agent in std::fs::read_dir(self.path.join("exchange"))
            .into_iter()
            .flatten()
            .flatten()
        {
            remove_empty_folders(&agent.path());
        }
        if let Some(made) = self
            .made
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            self.remove(made.record);
        }
    }
}

/// Places that may contain remains, and those already searched: each is searched once.
#[derive(Debug)]
pub(crate) struct Orphans(Mutex<Places>);

#[derive(Debug)]
struct Places {
    /// The records of live process trees, until they are looked through.
    records: Option<PathBuf>,
    /// The engines whose containers outlive their host, each once.
    engines: Vec<Backend>,
    /// Number of searched places, from the first on.
    looked_at: usize,
}

impl Orphans {
    /// Creates the places; `backends` are the backends of all agents' sandboxes.
    pub(crate) fn new<'a>(
        records: Option<PathBuf>,
        backends: impl IntoIterator<Item = &'a Backend>,
    ) -> Self {
        let orphans = Self(Mutex::new(Places {
            records,
            engines: Vec::new(),
            looked_at: 0,
        }));
        orphans.add(backends);
        orphans
    }

    /// Adds the engines of further agents' sandboxes.
    pub(crate) fn add<'a>(&self, backends: impl IntoIterator<Item = &'a Backend>) {
        let engines = &mut self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .engines;
        for backend in backends {
            let leaves = !matches!(backend, Backend::Bubblewrap);
            if leaves && engines.iter().all(|other| !other.is_same_engine(backend)) {
                engines.push(backend.clone());
            }
        }
    }

    /// Ends the remains in the background; a second call without new places does nothing.
    pub(crate) fn sweep(&self, runtime: &Handle) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(records) = places.records.take() {
            runtime.spawn_blocking(move || end_all(&records));
        }
        let Places {
            engines, looked_at, ..
        } = &mut *places;
        for engine in engines.iter().skip(*looked_at) {
            let engine = engine.clone();
            runtime.spawn_blocking(move || remove_containers(&engine));
        }
        *looked_at = engines.len();
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
        let trees = swept.trees;
        let processes = swept.processes;
        let folders = swept.folders;
        tracing::info!(trees, processes, folders, "ended what earlier hosts left");
    }
    for record in swept.unfinished {
        tracing::warn!(
            ?record,
            "what an earlier host left is still there; the next host tries again"
        );
    }
    for (file, why) in swept.refused {
        tracing::warn!(
            ?file,
            why,
            "among the records is what no host has written; remove it"
        );
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
            std::fs::create_dir_all(at("parent")).unwrap();
            let own = HostFolder {
                path,
                records: Some(at("records")),
                made: Mutex::new(None),
                remover: Arc::default(),
            };
            assert!(!at("records").exists(), "nothing before the first session");
            own.record();
            assert!(!at("records").exists());
            for _ in 0..2 {
                own.make().unwrap();
                own.record();
            }
            assert_eq!((count("parent"), count("records")), (1, 1));
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
            std::fs::remove_dir_all(at("parent")).unwrap();
        }
    }

    #[test]
    fn every_engine_is_looked_at_once() {
        let podman = |image: &str, options: &[&str]| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            Backend::Podman {
                image: image.to_owned(),
                options,
            }
        };
        let docker = Backend::Docker {
            image: "a".to_owned(),
            options: vec![],
        };
        let backends = [
            podman("a", &[]),
            Backend::Bubblewrap,
            podman("b", &[]),
            podman("a", &["--root", "/r"]),
            docker.clone(),
        ];
        let orphans = Orphans::new(None, &backends);
        let places = orphans.0.into_inner().unwrap();
        assert_eq!(
            places.engines,
            [podman("a", &[]), podman("a", &["--root", "/r"]), docker]
        );
    }
}
