//! The file: private, bounded, with one older file beside it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, fstat,
        ftruncate, open, openat, renameat, renameat_with, statat,
    },
    io::Errno,
};

/// Bytes of a file that are read to find out whether it is a log.
const FIRST_BYTES: u64 = 64;

/// Error of a log that cannot be started; the text reads after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or the file cannot be opened or made.
    #[error("begin the wire log {}: {why}; name a file in a folder that you may write to", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        why: io::Error,
    },
    /// There is something else at its place.
    #[error("begin a wire log: {} exists and is not a wire log; name another file", .0.display())]
    Other(PathBuf),
    /// Another process writes it.
    #[error("begin the wire log {}: another process writes it; name another file", .0.display())]
    InUse(PathBuf),
    /// The thread cannot be started.
    #[error("start the thread of the wire log")]
    Thread(#[source] io::Error),
}

/// A file that only its owner can read, in a folder that is held open.
#[derive(Debug)]
pub(crate) struct LogFile {
    folder: OwnedFd,
    name: String,
    file: File,
    size: u64,
    limit: u64,
    /// True if the last write ended within a line.
    is_torn: bool,
}

impl LogFile {
    /// Makes the file. A log of an earlier run becomes `FILE.1`.
    pub(crate) fn open(path: &Path, limit: u64) -> Result<Self, OpenError> {
        let failed = |why: io::Error| OpenError::Io {
            path: path.to_owned(),
            why,
        };
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let name = name.to_string_lossy().into_owned();
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(parent, flags, Mode::empty()).map_err(|why| failed(why.into()))?;
        for name in [older(&name), name.clone()] {
            match is_log(&folder, &name) {
                Ok(true) => {}
                Ok(false) => return Err(OpenError::Other(path.with_file_name(name))),
                Err(Errno::NOENT) => continue,
                Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse(path.to_owned())),
                Err(Errno::LOOP) => return Err(OpenError::Other(path.with_file_name(name))),
                Err(why) => return Err(failed(why.into())),
            }
        }
        match renameat(&folder, &name, &folder, older(&name)) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(why) => return Err(failed(why.into())),
        }
        let file = create(&folder, &name).map_err(|why| failed(why.into()))?;
        Ok(Self {
            folder,
            name,
            file,
            size: 0,
            limit,
            is_torn: false,
        })
    }

    /// Makes an empty older file where there is none.
    pub(crate) fn make_older(path: &Path) -> io::Result<PathBuf> {
        let path = path.with_file_name(older(
            &path.file_name().unwrap_or_default().to_string_lossy(),
        ));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
            _ => Ok(path),
        }
    }

    /// Returns true if this many more bytes belong in the next file.
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        self.size > 0 && self.size + more as u64 > self.limit
    }

    /// Returns true if the file has twice its maximum size, because it could not be rotated.
    pub(crate) fn is_far_too_full(&self) -> bool {
        self.size > self.limit.saturating_mul(2)
    }

    /// Keeps the file as `FILE.1`, and begins a new one.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        let own = fstat(&self.file)?;
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => {
                self.file = self.keep()?;
            }
            // Taken away by someone: theirs is what they have.
            Err(Errno::NOENT) => self.file = create(&self.folder, &self.name)?,
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "another file has taken its place",
                ));
            }
            Err(why) => return Err(why.into()),
        }
        (self.size, self.is_torn) = (0, false);
        Ok(())
    }

    /// Renames the file to the older one and returns an empty file under its name.
    ///
    /// If there is an older one, the two exchange their names. A mount over a file in a sandbox
    /// moves with the file, so both stay covered; a new file would not be.
    fn keep(&self) -> Result<File, Errno> {
        let folder = &self.folder;
        let name = &self.name;
        let older = older(&self.name);
        if let Some(next) = spare(folder, &older) {
            match renameat_with(folder, name, folder, &older, RenameFlags::EXCHANGE) {
                Ok(()) => return ftruncate(&next, 0).map(|()| next),
                // The file system cannot do that.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                Err(why) => return Err(why),
            }
        }
        renameat(folder, name, folder, &older)?;
        create(folder, name)
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// How many bytes went in, and why no more did. What comes next begins on a line of its own.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        if self.is_torn {
            self.file.write_all(b"\n").map_err(|why| (0, why))?;
            self.is_torn = false;
            self.size += 1;
        }
        let mut written = 0;
        while written < lines.len() {
            match self.file.write(&lines[written..]) {
                Ok(0) => return Err(self.torn(written, lines, io::ErrorKind::WriteZero.into())),
                Ok(bytes) => {
                    written += bytes;
                    self.size += bytes as u64;
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(self.torn(written, lines, why)),
            }
        }
        Ok(())
    }

    fn torn(&mut self, written: usize, lines: &[u8], why: io::Error) -> (usize, io::Error) {
        self.is_torn = written > 0 && lines[written - 1] != b'\n';
        (written, why)
    }
}

#[cfg(test)]
impl LogFile {
    pub(crate) fn replace(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }
}

/// `FILE.1`.
fn older(name: &str) -> String {
    format!("{name}.1")
}

/// Returns true if a file is empty, or a log without a writer.
fn is_log(folder: &OwnedFd, name: &str) -> Result<bool, Errno> {
    // NONBLOCK: a FIFO would wait for a writer. NOCTTY: a terminal would become ours.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(false);
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let mut first = Vec::new();
    let read = File::from(file).take(FIRST_BYTES).read_to_end(&mut first);
    let is_record = first.starts_with(b"{\"t\":")
        && memchr::memmem::find(&first, b"\"ev\":\"header\"").is_some();
    Ok(read.is_ok() && (first.is_empty() || is_record))
}

/// Makes a file that is not there yet, locked as long as it is open.
fn create(folder: &OwnedFd, name: &str) -> Result<File, Errno> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    lock(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?)
}

/// An older file whose content may go: one that has no other name.
fn spare(folder: &OwnedFd, name: &str) -> Option<File> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    let found = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    (is_file && found.st_nlink == 1).then(|| lock(file).ok())?
}

/// Makes a file private, and keeps it locked as long as it is open.
fn lock(file: OwnedFd) -> Result<File, Errno> {
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    // Of a file system without locks two writers would share one file; each has made its own, so
    // none is lost.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(File::from(file))
}
