//! A log file that several processes append to, with one older file beside it.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A log file of mode 0600, closed on drop.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// Size limit in bytes, at which it becomes the older file.
    limit: u64,
    file: Mutex<File>,
}

impl LogFile {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = append_to(path)?;
        // Resolves a link, so that the rotation renames its target and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            path,
            limit,
            file: Mutex::new(file),
        })
    }

    /// Appends to the file at the path, which another process may have replaced.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // The old file stays in use if no new one can be created.
        if !self.is_at_path(&file) {
            self.reopen(&mut file);
        }
        if self.is_full(&file, bytes.len()) && self.keep_as_older(&file) {
            self.reopen(&mut file);
        }
        file.write(bytes)
    }

    fn reopen(&self, file: &mut File) {
        if let Ok(new) = append_to(&self.path) {
            *file = new;
        }
    }

    fn is_at_path(&self, file: &File) -> bool {
        match (file.metadata(), fs::metadata(&self.path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    fn is_full(&self, file: &File, more: usize) -> bool {
        file.metadata().is_ok_and(|meta| {
            meta.is_file() && meta.len() > 0 && meta.len() + more as u64 > self.limit
        })
    }

    /// Renames the file to the older one. Returns true if another file belongs at the path now.
    fn keep_as_older(&self, file: &File) -> bool {
        // One of several processes renames the file; the others find it renamed.
        if file.lock().is_err() {
            return false;
        }
        let is_kept = !self.is_at_path(file) || fs::rename(&self.path, older(&self.path)).is_ok();
        let _ = file.unlock();
        is_kept
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Returns the path of the older file, `FILE.1`.
fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_full_file_becomes_the_older_one_and_both_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let one = LogFile::open(&path, 30).unwrap();
        let two = LogFile::open(&path, 30).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        for (log, line) in [
            (&one, "first line\n"),
            (&two, "second line\n"),
            (&one, "third line\n"),
            (&two, "fourth\n"),
        ] {
            assert_eq!(log.append(line.as_bytes()).unwrap(), line.len());
        }
        assert_eq!(read(&older(&path)), "first line\nsecond line\n");
        assert_eq!(read(&path), "third line\nfourth\n");
        two.append(b"a line that is longer than the limit is\n")
            .unwrap();
        assert_eq!(
            read(&older(&path)),
            "third line\nfourth\n",
            "one older file"
        );
        one.append(b"x\n").unwrap();
        assert_eq!(
            read(&older(&path)),
            "a line that is longer than the limit is\n"
        );
        for path in [path.clone(), older(&path)] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_was_taken_away_is_made_anew_and_a_device_is_not_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = LogFile::open(&path, 30).unwrap();
        log.append(b"one\n").unwrap();
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        log.append(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        let device = LogFile::open(Path::new("/dev/null"), 3).unwrap();
        device.append(b"more than three\n").unwrap();
        assert!(Path::new("/dev/null").exists() && !Path::new("/dev/null.1").exists());
    }

    #[test]
    fn what_a_link_leads_to_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let log = LogFile::open(&link, 8).unwrap();
        log.append(b"first\n").unwrap();
        log.append(b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "second\n");
        assert_eq!(fs::read_to_string(older(&target)).unwrap(), "first\n");
    }
}
