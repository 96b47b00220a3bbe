//! `fs/read_text_file` and `fs/write_text_file`, within the session's directories.
//!
//! Every path is opened beneath a handle of its directory, and no symbolic link is followed on the
//! way, so that neither `..` nor a link nor a rename in between leads out.

use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::read::{count, text};
use crate::agent::rpc::{INTERNAL_ERROR, INVALID_PARAMS};

/// The largest file that is read or written, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The code for a file that is not there.
const NOT_FOUND: i64 = -32002;

/// Number of names that a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Any,
    One,
}

/// The answer to a request.
pub(crate) type RequestResult = Result<Value, (i64, String)>;

/// The directories of a session, absolute.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directories(Vec<Directory>);

/// A directory, as it was named, and where that is in truth.
#[derive(Debug, Clone)]
struct Directory {
    named: PathBuf,
    real: PathBuf,
}

impl Directories {
    pub(crate) fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let absolute = directories.into_iter().filter(|path| path.is_absolute());
        let looked_up = |named: PathBuf| {
            let real = named.canonicalize().unwrap_or_else(|_| named.clone());
            Directory { named, real }
        };
        Self(absolute.map(looked_up).collect())
    }

    /// Returns true if a path is within one of them, by its text.
    pub(crate) fn contain(&self, path: &Path) -> bool {
        self.split(path).is_ok()
    }

    /// The directory of a path and what remains of it beneath.
    fn split<'p>(&'p self, path: &'p Path) -> Result<(&'p Path, PathBuf), (i64, String)> {
        let refused = |why: &str| {
            let shown: String = path.to_string_lossy().chars().take(300).collect();
            (INVALID_PARAMS, format!("{shown}: {why}"))
        };
        if !path.is_absolute() {
            return Err(refused("an absolute path is needed"));
        }
        if path
            .components()
            .any(|part| matches!(part, Component::ParentDir))
        {
            return Err(refused("a path with `..` is refused"));
        }
        // The directory may itself be reached by a link; what is asked for beneath it may not.
        let beneath = |Directory { named, real }: &'p Directory| {
            let rest = path
                .strip_prefix(named)
                .or_else(|_| path.strip_prefix(real))
                .ok()?;
            Some((real.as_path(), rest.to_owned()))
        };
        self.0
            .iter()
            .filter_map(beneath)
            .find(|(_, rest)| rest.components().next().is_some())
            .ok_or_else(|| refused("outside the session's directories, so refused"))
    }

    /// Answers `fs/read_text_file`.
    pub(crate) fn read(&self, params: &Value) -> RequestResult {
        let path = path(params)?;
        let bytes = self.contents(path, Links::Any)?;
        let contents = String::from_utf8(bytes)
            .map_err(|_| (INTERNAL_ERROR, format!("{path}: not UTF-8 text")))?;
        let contents = lines(&contents, count(params, "line"), count(params, "limit"));
        Ok(json!({ "content": contents }))
    }

    /// Returns the content of a file to pass on: one without another name, which may be outside.
    ///
    /// # Errors
    /// The reason why it is not read.
    pub(crate) fn file(&self, path: &str) -> Result<Vec<u8>, (i64, String)> {
        self.contents(path, Links::One)
    }

    fn contents(&self, path: &str, links: Links) -> Result<Vec<u8>, (i64, String)> {
        let (file, metadata) = self.open(path, OFlags::RDONLY)?;
        if links == Links::One && metadata.nlink() != 1 {
            let why = format!("{path}: it has other names, so refused");
            return Err((INVALID_PARAMS, why));
        }
        check_size(path, metadata.len(), "read")?;
        let mut bytes = Vec::new();
        file.take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(path, &error))?;
        Ok(bytes)
    }

    /// Answers `fs/write_text_file`. Directories on the way are made, as editors do.
    pub(crate) fn write(&self, params: &Value) -> RequestResult {
        let path = path(params)?;
        let Some(contents) = params["content"].as_str() else {
            return Err((INVALID_PARAMS, "`content` is missing".to_owned()));
        };
        check_size(path, contents.len() as u64, "written")?;
        // Not cut by the open: it may be no regular file.
        let (mut file, _) = self.open(path, OFlags::WRONLY | OFlags::CREATE)?;
        file.set_len(0)
            .and_then(|()| file.write_all(contents.as_bytes()))
            .map_err(|error| failed(path, &error))?;
        Ok(json!({}))
    }

    /// Opens a regular file of the session. It does not block: a FIFO would wait for its other end.
    fn open(&self, path: &str, flags: OFlags) -> Result<(File, Metadata), (i64, String)> {
        let (root, rest) = self.split(Path::new(path))?;
        let root = open_root(root)?;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open_beneath(root, &rest, flags, Mode::from_raw_mode(0o666));
        let file = File::from(file.map_err(|errno| refused(path, errno))?);
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if !metadata.is_file() {
            return Err((INVALID_PARAMS, format!("{path}: not a regular file")));
        }
        Ok((file, metadata))
    }

    /// Returns a directory of the session for a program to run in: the first, or a requested one
    /// within the session's.
    ///
    /// # Errors
    /// The requested directory is outside.
    pub(crate) fn directory(&self, asked: Option<&str>) -> Result<Option<PathBuf>, (i64, String)> {
        let Some(asked) = asked else {
            return Ok(self.0.first().map(|directory| directory.real.clone()));
        };
        let refused = |why: &str| (INVALID_PARAMS, format!("cwd {asked}: {why}"));
        let real = Path::new(asked)
            .canonicalize()
            .map_err(|error| refused(&error.to_string()))?;
        if !real.is_dir() {
            return Err(refused("not a directory"));
        }
        if !self
            .0
            .iter()
            .any(|directory| real.starts_with(&directory.real))
        {
            return Err(refused("outside the session's directories, so refused"));
        }
        Ok(Some(real))
    }
}

/// Refuses a file that is too large to be `done`.
fn check_size(path: &str, bytes: u64, done: &str) -> Result<(), (i64, String)> {
    if bytes > LARGEST {
        let why = format!("{path}: {bytes} bytes are more than the {LARGEST} that are {done}");
        return Err((INTERNAL_ERROR, why));
    }
    Ok(())
}

fn failed(path: &str, error: &std::io::Error) -> (i64, String) {
    (INTERNAL_ERROR, format!("{path}: {error}"))
}

fn path(params: &Value) -> Result<&str, (i64, String)> {
    text(params, "path").ok_or_else(|| (INVALID_PARAMS, "`path` is missing".to_owned()))
}

fn open_root(root: &Path) -> Result<OwnedFd, (i64, String)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty())
        .map_err(|errno| (INTERNAL_ERROR, format!("{}: {errno}", root.display())))
}

fn refused(path: &str, errno: Errno) -> (i64, String) {
    match errno {
        Errno::NOENT => (NOT_FOUND, format!("{path}: not found")),
        Errno::LOOP => (
            INVALID_PARAMS,
            format!("{path}: through a symbolic link, so refused"),
        ),
        errno => (INTERNAL_ERROR, format!("{path}: {errno}")),
    }
}

/// Opens a file beneath a directory, one name after the other, and follows no link. To create it,
/// makes the directories that lead to it.
fn open_beneath(root: OwnedFd, rest: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let name = rest.file_name().ok_or(Errno::INVAL)?;
    let mut at = root;
    for part in rest.parent().unwrap_or(Path::new("")).components() {
        let Component::Normal(part) = part else {
            return Err(Errno::INVAL);
        };
        if flags.contains(OFlags::CREATE) {
            match rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        at = open_directory(at.as_fd(), part)?;
    }
    rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

fn open_directory(at: BorrowedFd<'_>, name: &std::ffi::OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty()).map_err(|errno| match errno {
        // A link is reported as no directory here; a check distinguishes the two, only for the
        // report.
        Errno::NOTDIR if is_link(at, name) => Errno::LOOP,
        errno => errno,
    })
}

fn is_link(at: BorrowedFd<'_>, name: &std::ffi::OsStr) -> bool {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink
    })
}

/// From this line on, counted from one, at most so many lines.
fn lines(contents: &str, line: Option<u64>, limit: Option<u64>) -> String {
    if line.is_none() && limit.is_none() {
        return contents.to_owned();
    }
    let skipped = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let taken = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    contents
        .split_inclusive('\n')
        .skip(skipped)
        .take(taken)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn ground() -> (tempfile::TempDir, Directories, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(root.join("../secret"), "secret").unwrap();
        (folder, Directories::new([root.clone()]), root)
    }

    fn path_params(root: &Path, path: &str) -> Value {
        json!({ "path": root.join(path) })
    }

    #[test]
    fn files_are_read_whole_or_by_lines() {
        let (_folder, directories, root) = ground();
        let read = |params: &Value| {
            directories
                .read(params)
                .map(|answer| answer["content"].as_str().unwrap().to_owned())
        };
        let mut params = path_params(&root, "sub/a.txt");
        assert_eq!(read(&params).unwrap(), "one\ntwo\nthree\n");
        params["line"] = json!(2);
        params["limit"] = json!(1);
        assert_eq!(read(&params).unwrap(), "two\n");
        params["line"] = json!(0);
        assert_eq!(read(&params).unwrap(), "one\n");
        params["line"] = json!(99);
        assert_eq!(read(&params).unwrap(), "");
        assert_eq!(
            read(&path_params(&root, "sub/none.txt")).unwrap_err().0,
            NOT_FOUND
        );
        assert!(read(&path_params(&root, "sub")).is_err());
        assert!(read(&json!({})).is_err() && read(&json!({"path": 3})).is_err());
    }

    #[test]
    fn nothing_outside_is_read_or_written() {
        let (_folder, directories, root) = ground();
        symlink(root.join("../secret"), root.join("link")).unwrap();
        symlink(root.join(".."), root.join("out")).unwrap();
        symlink("a.txt", root.join("sub/inner")).unwrap();
        for path in [
            "../secret",
            "sub/../../secret",
            "link",
            "out/secret",
            "sub/inner",
            "/etc/passwd",
            "",
            ".",
        ] {
            let mut params = path_params(&root, path);
            assert!(directories.read(&params).is_err(), "{path:?} was read");
            params["content"] = json!("overwritten");
            assert!(directories.write(&params).is_err(), "{path:?} was written");
        }
        assert!(
            directories.read(&json!({"path": "sub/a.txt"})).is_err(),
            "a relative path"
        );
        assert_eq!(
            std::fs::read_to_string(root.join("../secret")).unwrap(),
            "secret"
        );
        assert_eq!(
            std::fs::read_to_string(root.join("sub/a.txt")).unwrap(),
            "one\ntwo\nthree\n"
        );
    }

    #[test]
    fn what_is_handed_on_has_one_name_and_lies_within() {
        let (_folder, directories, root) = ground();
        let file = |path: &str| directories.file(root.join(path).to_str().unwrap());
        assert_eq!(file("sub/a.txt").unwrap(), b"one\ntwo\nthree\n");
        std::fs::hard_link(root.join("../secret"), root.join("hard")).unwrap();
        symlink("sub/a.txt", root.join("soft")).unwrap();
        std::fs::File::create(root.join("large"))
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        for path in [
            "hard",
            "soft",
            "large",
            "sub",
            "none",
            "../secret",
            "/etc/passwd",
        ] {
            assert!(file(path).is_err(), "{path}");
        }
    }

    #[test]
    fn files_are_written_with_their_directories() {
        let (_folder, directories, root) = ground();
        let mut params = path_params(&root, "new/deep/b.txt");
        params["content"] = json!("longer than before");
        directories.write(&params).unwrap();
        params["content"] = json!("short");
        directories.write(&params).unwrap();
        assert_eq!(
            std::fs::read_to_string(root.join("new/deep/b.txt")).unwrap(),
            "short"
        );
        assert!(
            directories.write(&path_params(&root, "c.txt")).is_err(),
            "no content"
        );
        assert!(!root.join("c.txt").exists());
    }

    #[test]
    fn what_is_no_regular_file_neither_blocks_nor_is_cut() {
        let (_folder, directories, root) = ground();
        let fifo = root.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
        let mut params = path_params(&root, "fifo");
        assert!(directories.read(&params).is_err());
        params["content"] = json!("x");
        assert!(directories.write(&params).is_err());
        std::fs::write(root.join("binary"), [0xff, 0xfe]).unwrap();
        assert!(directories.read(&path_params(&root, "binary")).is_err());
    }

    #[test]
    fn programs_run_within_the_directories() {
        let (_folder, directories, root) = ground();
        assert_eq!(directories.directory(None).unwrap(), Some(root.clone()));
        assert_eq!(
            directories.directory(root.join("sub").to_str()).unwrap(),
            Some(root.join("sub"))
        );
        symlink("/", root.join("slash")).unwrap();
        for outside in [
            "/",
            "/etc",
            root.join("slash").to_str().unwrap(),
            root.join("..").to_str().unwrap(),
            "none",
        ] {
            assert!(directories.directory(Some(outside)).is_err(), "{outside}");
        }
    }
}
