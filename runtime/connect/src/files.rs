//! Files of the hub, which come whole in a frame, and files of agents, which go so.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use tempfile::TempDir;

/// The largest file, either way, in bytes: what the hub takes by default, and a host.
pub(crate) const MAX_FILE: usize = 10 << 20;

/// Bytes of all files that people gave and that are kept.
const KEPT: u64 = 256 << 20;

/// Where files are.
pub(crate) trait Files: Send {
    /// Keeps a file that a person gave, until its session is over. `name` is a label.
    ///
    /// # Errors
    /// Why it is not kept.
    fn keep(&mut self, session: &str, name: &str, bytes: &[u8]) -> Result<PathBuf, String>;

    /// Reads a file that an agent gave.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// Removes the files of a session.
    fn forget(&mut self, session: &str);
}

/// A private folder, removed with this.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    bytes: u64,
    of_sessions: BTreeMap<String, Vec<(PathBuf, u64)>>,
    files: u64,
}

impl Folder {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("trunkline-connect-")
            .tempdir()?;
        Ok(Self {
            folder,
            bytes: 0,
            of_sessions: BTreeMap::new(),
            files: 0,
        })
    }
}

impl Files for Folder {
    fn keep(&mut self, session: &str, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        // As a small one takes a block.
        let size = (bytes.len() as u64).max(4096);
        if bytes.len() > MAX_FILE {
            return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
        }
        if self.bytes + size > KEPT {
            return Err(format!(
                "the files of all sessions would be larger than {} MiB",
                KEPT >> 20
            ));
        }
        self.files += 1;
        // A number of its own before the name: no file takes another's place.
        let path = self.folder.path().join(format!("{}-{name}", self.files));
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| e.to_string())?;
        let written = file.write_all(bytes).map_err(|error| error.to_string());
        self.bytes += size;
        self.of_sessions
            .entry(session.to_owned())
            .or_default()
            .push((path.clone(), size));
        written.map(|()| path)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let mut options = fs::OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(flags.cast_signed())
            .open(path)
            .map_err(|e| e.to_string())?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err("it is not a file".to_owned());
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        match bytes.len() > MAX_FILE {
            true => Err(format!("it is larger than {} MiB", MAX_FILE >> 20)),
            false => Ok(bytes),
        }
    }

    fn forget(&mut self, session: &str) {
        for (path, size) in self.of_sessions.remove(session).unwrap_or_default() {
            self.bytes -= size;
            // The folder goes with this process in any case.
            let _ = fs::remove_file(path);
        }
    }
}

/// The last part of a name, without what could mean something to a shell or a person's terminal.
pub(crate) fn base_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last.chars().filter(|c| !c.is_control()).take(100).collect();
    match kept.trim_matches('.').is_empty() {
        true => "file".to_owned(),
        false => kept,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_name_of_the_hub_leaves_no_folder() {
        for (name, base) in [
            ("a.txt", "a.txt"),
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\b.txt", "b.txt"),
            ("..", "file"),
            ("a/", "file"),
            ("", "file"),
            ("a\n\u{1b}[2Jb", "a[2Jb"),
        ] {
            assert_eq!(base_name(name), base, "{name:?}");
        }
        assert_eq!(base_name(&"ä".repeat(300)).chars().count(), 100);
    }

    #[test]
    fn files_that_are_kept_are_private_bounded_and_given_back() {
        let mut files = Folder::new().unwrap();
        let path = files.keep("s", "a.txt", b"abc").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(files.read(&path).unwrap(), b"abc");
        assert!(files.keep("s", "large", &vec![0; MAX_FILE + 1]).is_err());
        files.bytes = KEPT - 4096;
        assert!(files.keep("t", "b", b"b").is_ok());
        assert!(files.keep("t", "c", b"c").is_err(), "the folder is full");
        files.forget("s");
        assert!(!path.exists() && files.keep("t", "c", b"c").is_ok());
    }

    #[test]
    fn what_is_not_a_file_or_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::new().unwrap();
        let (large, link) = (folder.path().join("large"), folder.path().join("link"));
        fs::File::create(&large)
            .unwrap()
            .set_len(MAX_FILE as u64 + 1)
            .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        for path in [&large, &link, folder.path(), &folder.path().join("none")] {
            assert!(files.read(path).is_err(), "{}", path.display());
        }
    }
}
