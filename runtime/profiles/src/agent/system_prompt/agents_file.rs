//! A system prompt as a block in `AGENTS.md` of the working directory, for agents that offer nothing better (census
//! row M04).

use std::{
    fs::{File, Metadata, OpenOptions, Permissions},
    io::{self, Read as _, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, Gid, OFlags, Uid, fchown, flock};

const FILE: &str = "AGENTS.md";
const BASE: &str = "CLAUDE.md";
const BEGIN: &str = "<trunkline_system_prompt>";
const END: &str = "</trunkline_system_prompt>";

/// The largest file that is read and rewritten, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// The block in the file, as long as this lives. [`Self::restore`] and dropping put things back as they were: a file
/// that only this made is removed; one that somebody changed meanwhile loses this block and nothing else.
#[derive(Debug)]
pub(crate) struct AgentsFile {
    path: PathBuf,
    /// What the file held; nothing where there was none.
    before: Option<Vec<u8>>,
    written: Vec<u8>,
    block: Vec<u8>,
    is_restored: bool,
    /// The directory, locked: one block at a time.
    _locked: File,
}

impl AgentsFile {
    /// Writes the block before everything else that is in `AGENTS.md`, or, where there is none, before what is in
    /// `CLAUDE.md`. A block that an earlier process could not remove goes.
    ///
    /// # Errors
    /// When a file is a symbolic link, no regular file or too large, when somebody changes it at the same time, or when
    /// another session's block is there; then nothing is changed.
    pub(crate) fn install(directory: &Path, prompt: &str) -> io::Result<Self> {
        let path = directory.join(FILE);
        let locked = File::open(directory)?;
        flock(&locked, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| told(&path, "another session has its own there"))?;
        let there = read(&path)?;
        let base = read(&directory.join(BASE))?;
        let before = there.as_ref().and_then(|there| match without_block(&there.text) {
            None => Some(there.text.clone()),
            // Nothing but what an earlier process wrote.
            Some(rest) if rest.is_empty() || base.as_ref().is_some_and(|base| base.text == rest) => None,
            Some(rest) => Some(rest),
        });
        let rest = before.as_deref().or(base.as_ref().map(|base| &*base.text)).unwrap_or_default();
        let gap = if rest.is_empty() { "" } else { "\n" };
        let block = format!("{BEGIN}\n{prompt}\n{END}\n{gap}").into_bytes();
        let written = [&block, rest].concat();
        let like = there.as_ref().or(base.as_ref()).map(|file| &file.metadata);
        replace(&path, there.as_ref().map(|there| &*there.text), Some(&written), like)?;
        Ok(Self { path, before, written, block, is_restored: false, _locked: locked })
    }

    /// Puts things back and tells of failure, which dropping cannot.
    pub(crate) fn restore(mut self) -> io::Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        let Some(now) = read(&self.path)? else { return Ok(()) };
        if now.text == self.written {
            return replace(&self.path, Some(&now.text), self.before.as_deref(), Some(&now.metadata));
        }
        // Somebody else wrote here: what is not ours stays.
        let Some(at) = find(&now.text, &self.block) else { return Ok(()) };
        let stripped = [&now.text[..at], &now.text[at + self.block.len()..]].concat();
        replace(&self.path, Some(&now.text), Some(&stripped), Some(&now.metadata))
    }
}

impl Drop for AgentsFile {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            tracing::warn!(path = %self.path.display(), %error, "the system prompt was left in the file");
        }
    }
}

/// A file as it was read.
struct Read {
    text: Vec<u8>,
    metadata: Metadata,
}

/// Reads a regular file that is no symbolic link. Nothing where there is none.
fn read(path: &Path) -> io::Result<Option<Read>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(path, &error.to_string())),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(told(path, "it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(told(path, "it is too large to put a system prompt into"));
    }
    Ok(Some(Read { text, metadata }))
}

/// Replaces what a file holds, by a rename, if it still holds what it did; the new file has mode and owner of the old.
fn replace(
    path: &Path,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    like: Option<&Metadata>,
) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let prepared = match after {
        Some(text) => {
            let mut file = tempfile::Builder::new().prefix(".trunkline-").tempfile_in(directory)?;
            file.write_all(text)?;
            let own = file.as_file().metadata()?;
            if let Some(like) = like.filter(|like| (like.uid(), like.gid()) != (own.uid(), own.gid())) {
                fchown(file.as_file(), Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid())))?;
            }
            let permissions = like.map_or_else(|| Permissions::from_mode(0o644), Metadata::permissions);
            file.as_file().set_permissions(permissions)?;
            Some(file)
        }
        None => None,
    };
    let now = read(path)?.map(|now| now.text);
    if now.as_deref() != before {
        return Err(told(path, "somebody else is changing it"));
    }
    match (prepared, before) {
        (Some(file), Some(_)) => drop(file.persist(path).map_err(|error| error.error)?),
        (Some(file), None) => drop(file.persist_noclobber(path).map_err(|error| error.error)?),
        (None, _) => std::fs::remove_file(path)?,
    }
    Ok(())
}

fn told(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("put the system prompt into {}: {why}", path.display()))
}

/// The text without a block that is in it, and without the empty line that comes after one. Nothing where there is none.
fn without_block(text: &[u8]) -> Option<Vec<u8>> {
    let start = find(text, BEGIN.as_bytes())?;
    let end = start + find(&text[start..], END.as_bytes())? + END.len();
    let after = &text[end..];
    let after = after.strip_prefix(b"\n").unwrap_or(after);
    let after = if start == 0 { after.strip_prefix(b"\n").unwrap_or(after) } else { after };
    Some([&text[..start], after].concat())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            Self(folder)
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn text(&self) -> String {
            fs::read_to_string(self.path().join(FILE)).unwrap()
        }

        /// Every file and its text.
        fn all(&self) -> Vec<(String, String)> {
            let mut all: Vec<_> = fs::read_dir(self.path())
                .unwrap()
                .map(|entry| {
                    let entry = entry.unwrap();
                    (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
                })
                .collect();
            all.sort();
            all
        }
    }

    const BLOCK: &str = "<trunkline_system_prompt>\nBe brief.\n</trunkline_system_prompt>\n";

    #[test]
    fn before_and_after_are_the_same_in_each_state() {
        for (files, during) in [
            (&[][..], BLOCK.to_owned()),
            (&[("CLAUDE.md", "claude\n")][..], format!("{BLOCK}\nclaude\n")),
            (&[("AGENTS.md", "agents\n"), ("CLAUDE.md", "claude\n")][..], format!("{BLOCK}\nagents\n")),
            (&[("AGENTS.md", "\nagents")][..], format!("{BLOCK}\n\nagents")),
            (&[("AGENTS.md", "")][..], BLOCK.to_owned()),
            (
                &[("AGENTS.md", "<trunkline_system_prompt>\nopen")][..],
                format!("{BLOCK}\n<trunkline_system_prompt>\nopen"),
            ),
        ] {
            let folder = Folder::with(files);
            let before = folder.all();
            let file = AgentsFile::install(folder.path(), "Be brief.").unwrap();
            assert_eq!(folder.text(), during, "{files:?}");
            file.restore().unwrap();
            assert_eq!(folder.all(), before);
            drop(AgentsFile::install(folder.path(), "Be brief.").unwrap());
            assert_eq!(folder.all(), before);
        }
    }

    #[test]
    fn what_a_killed_process_left_goes() {
        for files in [
            &[][..],
            &[("CLAUDE.md", "claude\n")][..],
            &[("AGENTS.md", "agents\n")][..],
            &[("AGENTS.md", "\nagents\n"), ("CLAUDE.md", "claude\n")][..],
        ] {
            let folder = Folder::with(files);
            let before = folder.all();
            let mut killed = AgentsFile::install(folder.path(), "Old.").unwrap();
            killed.is_restored = true;
            drop(killed);
            assert_ne!(folder.all(), before);
            AgentsFile::install(folder.path(), "Be brief.").unwrap().restore().unwrap();
            assert_eq!(folder.all(), before);
        }
        let folder = Folder::with(&[("AGENTS.md", &format!("top\n{BLOCK}rest\n"))]);
        AgentsFile::install(folder.path(), "New.").unwrap().restore().unwrap();
        assert_eq!(folder.text(), "top\nrest\n");
    }

    #[test]
    fn one_session_at_a_time_has_its_block_there() {
        let folder = Folder::with(&[("AGENTS.md", "agents\n")]);
        let first = AgentsFile::install(folder.path(), "First.").unwrap();
        let error = AgentsFile::install(folder.path(), "Second.").unwrap_err();
        assert!(error.to_string().contains("another session"), "{error}");
        assert!(folder.text().contains("First.") && !folder.text().contains("Second."));
        first.restore().unwrap();
        AgentsFile::install(folder.path(), "Second.").unwrap().restore().unwrap();
        assert_eq!(folder.text(), "agents\n");
    }

    #[test]
    fn a_change_at_the_same_time_is_not_overwritten() {
        let folder = Folder::with(&[("AGENTS.md", "agents\n")]);
        let path = folder.path().join(FILE);
        let error = replace(&path, Some(b"what it held"), Some(b"ours"), None).unwrap_err();
        assert!(error.to_string().contains("somebody else"), "{error}");
        replace(&path, None, Some(b"ours"), None).unwrap_err();
        assert_eq!(folder.all(), [("AGENTS.md".to_owned(), "agents\n".to_owned())]);
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_stays() {
        let folder = Folder::with(&[("AGENTS.md", "agents\n")]);
        let file = AgentsFile::install(folder.path(), "Be brief.").unwrap();
        fs::write(folder.path().join(FILE), format!("{}more\n", folder.text())).unwrap();
        file.restore().unwrap();
        assert_eq!(folder.text(), "agents\nmore\n");

        let file = AgentsFile::install(folder.path(), "Be brief.").unwrap();
        fs::write(folder.path().join(FILE), "all new\n").unwrap();
        file.restore().unwrap();
        assert_eq!(folder.text(), "all new\n");

        let file = AgentsFile::install(folder.path(), "Be brief.").unwrap();
        fs::remove_file(folder.path().join(FILE)).unwrap();
        file.restore().unwrap();
        assert_eq!(folder.all(), []);
    }

    #[test]
    fn permissions_stay() {
        let folder = Folder::with(&[("AGENTS.md", "agents\n")]);
        let path = folder.path().join(FILE);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let file = AgentsFile::install(folder.path(), "Be brief.").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        file.restore().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_link_a_folder_and_a_large_file_are_refused() {
        for prepare in [
            (|folder: &Path| std::os::unix::fs::symlink("/etc/hostname", folder.join(FILE)).unwrap())
                as fn(&Path),
            |folder| fs::create_dir(folder.join(FILE)).unwrap(),
            |folder| std::os::unix::fs::symlink("/etc/hostname", folder.join(BASE)).unwrap(),
            |folder| fs::write(folder.join(FILE), vec![b'x'; 5 * 1024 * 1024]).unwrap(),
        ] {
            let folder = Folder::with(&[]);
            prepare(folder.path());
            let names = || {
                fs::read_dir(folder.path())
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect::<Vec<_>>()
            };
            let before = names();
            AgentsFile::install(folder.path(), "Be brief.").unwrap_err();
            assert_eq!(names(), before);
        }
    }
}
