//! Files of people and of agents, which the hub has whole in a frame.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use tempfile::TempDir;

/// The largest file in either direction, in bytes: the default limit of the hub, and of a host.
pub(crate) const MAX_FILE: usize = 10 << 20;

/// Bytes of all files of people that are kept.
const MAX_KEPT_BYTES: u64 = 256 << 20;

/// A private folder, removed with this.
#[derive(Debug)]
pub(crate) struct UploadFolder {
    folder: TempDir,
    bytes: u64,
    of_sessions: BTreeMap<String, Vec<(PathBuf, u64)>>,
    files: u64,
}

impl UploadFolder {
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

    /// Writes a file that a person gave, up to [`Self::forget`] of its session. `name` is a label.
    ///
    /// # Errors
    /// The reason why it is not kept.
    pub(crate) fn keep(
        &mut self,
        session: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<PathBuf, String> {
        // A small one takes a block.
        let size = (bytes.len() as u64).max(4096);
        check_size(bytes.len())?;
        if self.bytes + size > MAX_KEPT_BYTES {
            return Err(format!(
                "the files of all sessions would be larger than {} MiB",
                MAX_KEPT_BYTES >> 20
            ));
        }
        self.files += 1;
        // With the number before the name no file replaces another.
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

    /// Removes the files of a session.
    pub(crate) fn forget(&mut self, session: &str) {
        for (path, size) in self.of_sessions.remove(session).unwrap_or_default() {
            self.bytes -= size;
            // The folder is removed with this process in any case.
            let _ = fs::remove_file(path);
        }
    }
}

/// Reads a file that an agent gave.
///
/// # Errors
/// The reason why it cannot be sent.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(flags.cast_signed());
    let file = options.open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    check_size(bytes.len()).map(|()| bytes)
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    Ok(())
}

/// The last part of a name, without control characters.
pub(crate) fn base_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last.chars().filter(|c| !c.is_control()).take(100).collect();
    if kept.trim_matches('.').is_empty() {
        "file".to_owned()
    } else {
        kept
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
        let mut files = UploadFolder::new().unwrap();
        let path = files.keep("s", "a.txt", b"abc").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(read_file(&path).unwrap(), b"abc");
        assert!(files.keep("s", "large", &vec![0; MAX_FILE + 1]).is_err());
        files.bytes = MAX_KEPT_BYTES - 4096;
        assert!(files.keep("t", "b", b"b").is_ok());
        assert!(files.keep("t", "c", b"c").is_err(), "the folder is full");
        files.forget("s");
        assert!(!path.exists() && files.keep("t", "c", b"c").is_ok());
    }

    #[test]
    fn what_is_not_a_file_or_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        let link = folder.path().join("link");
        fs::File::create(&large)
            .unwrap()
            .set_len(MAX_FILE as u64 + 1)
            .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        for path in [&large, &link, folder.path(), &folder.path().join("none")] {
            assert!(read_file(path).is_err(), "{}", path.display());
        }
    }
}
