//! Files on their way in: what a client gives by PUT, until an input names it.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use trunkline_protocol::SessionId;

use crate::token::hex;

/// The largest file, in bytes.
pub(crate) const FILE: u64 = 64 * 1024 * 1024;

/// How much they take together, in bytes.
const TOGETHER: u64 = 1024 * 1024 * 1024;

/// How the name of the file ends that holds a label.
const LABEL: &str = "label";

/// For how long one is kept that no input has named.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// The folder of the files that wait.
#[derive(Debug)]
pub(crate) struct Inbox(PathBuf);

impl Inbox {
    /// Opens it. Blocks for the disk.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("inbox");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(Self(folder))
    }

    /// The folder of a session's files, under a name that no id can lead out of.
    fn of(&self, session: &SessionId) -> PathBuf {
        self.0
            .join(hex(&hmac_sha256::Hash::hash(session.as_str().as_bytes())))
    }

    /// A new file, without a name until it is whole. Blocks for the disk.
    pub(crate) fn begin(&self) -> io::Result<tempfile::NamedTempFile> {
        let used: u64 = self.sweep()?;
        if used >= TOGETHER {
            let full = format!("{used} bytes wait in the inbox already, which is its limit");
            return Err(io::Error::new(io::ErrorKind::StorageFull, full));
        }
        tempfile::NamedTempFile::new_in(&self.0)
    }

    /// Keeps a whole file under its digest, with the label that its client gave it.
    pub(crate) fn keep(
        &self,
        file: tempfile::NamedTempFile,
        session: &SessionId,
        sha256: &str,
        label: Option<&str>,
    ) -> io::Result<()> {
        let folder = self.of(session);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let path = folder.join(sha256);
        match label {
            Some(label) => fs::write(path.with_extension(LABEL), label)?,
            None => drop(fs::remove_file(path.with_extension(LABEL))),
        }
        file.persist(path)?;
        Ok(())
    }

    /// A file of a session, and its label.
    pub(crate) fn find(
        &self,
        session: &SessionId,
        sha256: &str,
    ) -> Option<(PathBuf, Option<String>)> {
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = self.of(session).join(sha256);
        let label = || fs::read_to_string(path.with_extension(LABEL)).ok();
        (is_digest && path.is_file()).then(|| (path.clone(), label()))
    }

    /// Removes what has waited for too long, and says how much is left. Blocks for the disk.
    fn sweep(&self) -> io::Result<u64> {
        let mut left = 0;
        let now = SystemTime::now();
        for folder in fs::read_dir(&self.0)? {
            let folder = folder?.path();
            if !folder.is_dir() {
                // One that is being written, or that an earlier process has left.
                left += tidy(&folder, now);
                continue;
            }
            for file in fs::read_dir(&folder)? {
                left += tidy(&file?.path(), now);
            }
            // Where it is empty.
            let _ = fs::remove_dir(&folder);
        }
        Ok(left)
    }
}

fn tidy(file: &Path, now: SystemTime) -> u64 {
    let Ok(found) = fs::symlink_metadata(file) else {
        return 0;
    };
    let age = found
        .modified()
        .ok()
        .and_then(|since| now.duration_since(since).ok())
        .unwrap_or_default();
    if age > KEPT && fs::remove_file(file).is_ok() {
        0
    } else {
        found.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_found_by_its_digest_in_its_session_alone_and_is_gone_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let (a, b) = (
            SessionId::new("../a").unwrap(),
            SessionId::new("b").unwrap(),
        );
        let digest = "0".repeat(64);
        let mut file = inbox.begin().unwrap();
        file.write_all(b"x").unwrap();
        inbox.keep(file, &a, &digest, Some("y")).unwrap();
        let (found, label) = inbox.find(&a, &digest).unwrap();
        assert_eq!(label.as_deref(), Some("y"));
        assert!(found.starts_with(folder.path()), "{found:?}");
        for (session, name) in [
            (&b, &*digest),
            (&a, "../../tokens.json"),
            (&a, ""),
            (&a, "1"),
        ] {
            assert_eq!(inbox.find(session, name), None);
        }
        assert_eq!(inbox.sweep().unwrap(), 2);
        let old = SystemTime::now() - KEPT - Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(&found)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(inbox.sweep().unwrap(), 1, "the label goes later");
        assert_eq!(inbox.find(&a, &digest), None);
    }
}
