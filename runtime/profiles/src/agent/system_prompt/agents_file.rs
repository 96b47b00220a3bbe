//! A system prompt as a block in `AGENTS.md` of the working directory, for agents that offer nothing better (census
//! row M04).

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

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
}

impl AgentsFile {
    /// Writes the block: in place of one that is there, else before everything else. Without an `AGENTS.md` the rest
    /// is that of `CLAUDE.md`.
    ///
    /// # Errors
    /// When a file is a symbolic link, no regular file or too large, or when somebody changes it at the same time; then
    /// nothing is changed.
    pub(crate) fn install(directory: &Path, prompt: &str) -> io::Result<Self> {
        let path = directory.join(FILE);
        let before = read(&path)?;
        let (base, permissions) = match &before {
            Some((text, permissions)) => (text.clone(), permissions.clone()),
            None => match read(&directory.join(BASE))? {
                Some((text, permissions)) => (text, permissions),
                None => (Vec::new(), Permissions::from_mode(0o644)),
            },
        };
        let block = format!("{BEGIN}\n{prompt}\n{END}\n").into_bytes();
        let rest = match find_block(&base) {
            Some((start, end)) => [&base[..start], &base[end..]].map(<[u8]>::to_vec),
            None => [Vec::new(), base],
        };
        let [head, tail] = rest;
        let gap: &[u8] = if tail.is_empty() || tail.starts_with(b"\n") { b"" } else { b"\n" };
        let written = [&head, &*block, gap, &tail].concat();
        let before = before.map(|(text, _)| text);
        let file = Self { path, before, written, block: [&*block, gap].concat(), is_restored: false };
        replace(&file.path, file.before.as_deref(), Some((&file.written, permissions)))?;
        Ok(file)
    }

    /// Puts things back and tells of failure, which dropping cannot.
    pub(crate) fn restore(mut self) -> io::Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_restored, true) {
            return Ok(());
        }
        let Some((now, permissions)) = read(&self.path)? else { return Ok(()) };
        if now == self.written {
            let before = self.before.as_deref().map(|before| (before, permissions));
            return replace(&self.path, Some(&now), before);
        }
        // Somebody else wrote here: what is not ours stays.
        let Some(at) = find(&now, &self.block) else { return Ok(()) };
        let stripped = [&now[..at], &now[at + self.block.len()..]].concat();
        replace(&self.path, Some(&now), Some((&stripped, permissions)))
    }
}

impl Drop for AgentsFile {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            tracing::warn!(path = %self.path.display(), %error, "the system prompt was left in the file");
        }
    }
}

/// Reads a regular file that is no symbolic link. Nothing where there is none.
fn read(path: &Path) -> io::Result<Option<(Vec<u8>, Permissions)>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
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
    Ok(Some((text, metadata.permissions())))
}

/// Replaces what a file holds, by a rename, if it still holds what it did.
fn replace(path: &Path, before: Option<&[u8]>, after: Option<(&[u8], Permissions)>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let prepared = match after {
        Some((text, permissions)) => {
            let mut file = tempfile::Builder::new().prefix(".trunkline-").tempfile_in(directory)?;
            file.write_all(text)?;
            File::set_permissions(file.as_file(), permissions)?;
            Some(file)
        }
        None => None,
    };
    let now = read(path)?.map(|(text, _)| text);
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

/// Where the block stands, with the line break after it.
fn find_block(text: &[u8]) -> Option<(usize, usize)> {
    let start = find(text, BEGIN.as_bytes())?;
    let end = start + find(&text[start..], END.as_bytes())? + END.len();
    Some((start, end + usize::from(text.get(end) == Some(&b'\n'))))
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
        let stale = "top\n<trunkline_system_prompt>\nold\n</trunkline_system_prompt>\nrest\n";
        for (files, during) in [
            (&[][..], BLOCK.to_owned()),
            (&[("CLAUDE.md", "claude\n")][..], format!("{BLOCK}\nclaude\n")),
            (&[("AGENTS.md", "agents\n"), ("CLAUDE.md", "claude\n")][..], format!("{BLOCK}\nagents\n")),
            (&[("AGENTS.md", stale)][..], format!("top\n{BLOCK}\nrest\n")),
            (&[("AGENTS.md", "")][..], BLOCK.to_owned()),
            (
                &[("AGENTS.md", "<trunkline_system_prompt>\nunclosed")][..],
                format!("{BLOCK}\n<trunkline_system_prompt>\nunclosed"),
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
