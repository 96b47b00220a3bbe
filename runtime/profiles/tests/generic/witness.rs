//! Detects the end of a process, in any PID namespace.

use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    process::Command,
    sync::mpsc::{Receiver, sync_channel},
};

use crate::adapter::LIMIT;

/// A pipe in the file system: who opened it for writing and is gone has closed it.
pub(crate) struct Witness {
    folder: tempfile::TempDir,
    closed: Receiver<()>,
}

impl Witness {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let (told, closed) = sync_channel(1);
        std::thread::spawn(move || {
            let ended = File::open(path).and_then(|mut pipe| pipe.read_to_end(&mut Vec::new()));
            let _ = ended.map(|_| told.send(()));
        });
        Self { folder, closed }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    /// Waits until every process that holds it has ended.
    pub(crate) fn gone(&self) {
        self.closed.recv_timeout(LIMIT).expect("no process is left");
    }
}
