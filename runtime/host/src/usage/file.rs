//! The file: several hosts append to it at once, and it becomes the older one when it is full.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt},
    path::PathBuf,
    time::Duration,
};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock};

use super::{FILE_NAME, LOCK_NAME, OLDER_NAME};

/// The tries to take a lock that another host holds.
const LOCK_TRIES: u32 = 20;
/// The pause between two of them.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct LogFile {
    folder: PathBuf,
    /// The size in bytes at which a file becomes the older one.
    limit: u64,
    open: Option<File>,
}

/// The error of a write that did not write all.
#[derive(Debug)]
pub(super) struct PartialWrite {
    /// The bytes that were written.
    pub(super) written: usize,
    pub(super) why: io::Error,
}

impl LogFile {
    pub(super) fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            open: None,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(FILE_NAME)
    }

    /// Appends whole lines with one write, so that lines of other hosts come before or after them.
    ///
    /// # Errors
    /// The bytes that were written, and why the rest was not. The next line begins on a line of its own.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), PartialWrite> {
        let mut file = self
            .current(lines.len() as u64)
            .map_err(|why| PartialWrite { written: 0, why })?;
        let (written, why) = match file.write(lines) {
            Ok(written) if written == lines.len() => return Ok(()),
            Ok(written) => (
                written,
                io::Error::new(io::ErrorKind::WriteZero, "a line was cut"),
            ),
            Err(why) => (0, why),
        };
        // Opening it again finds that it ends within a line.
        self.open = None;
        Err(PartialWrite { written, why })
    }

    /// Returns the file that has room for `more` bytes.
    fn current(&mut self, more: u64) -> io::Result<&File> {
        let is_current = self
            .open
            .as_ref()
            .is_some_and(|file| self.is_at_path(file).unwrap_or(false));
        if !is_current {
            self.open = Some(self.open()?);
        }
        let size = self
            .open
            .as_ref()
            .map_or(Ok(0), |file| file.metadata().map(|meta| meta.len()))?;
        if size > 0 && size + more > self.limit {
            self.rotate(more)?;
            self.open = Some(self.open()?);
        }
        self.open
            .as_ref()
            .ok_or_else(|| io::Error::other("it was just opened"))
    }

    /// Returns true if the path still leads to this file. Another host may have renamed it to the older one.
    fn is_at_path(&self, file: &File) -> io::Result<bool> {
        let own = file.metadata()?;
        let at_path = fs::symlink_metadata(self.path())?;
        Ok((own.dev(), own.ino()) == (at_path.dev(), at_path.ino()))
    }

    fn open(&self) -> io::Result<File> {
        if !self.folder.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.folder)?;
        }
        let file = self.open_private(FILE_NAME, OFlags::APPEND)?;
        let size = file.metadata()?.len();
        let mut last = [b'\n'];
        if size > 0 && file.read_at(&mut last, size - 1)? == 1 && last != [b'\n'] {
            // A full disk or a power cut has cut its last line.
            (&file).write_all(b"\n")?;
        }
        Ok(file)
    }

    fn open_private(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // NONBLOCK: a FIFO would wait for a reader. NOCTTY: a terminal would become ours.
        let flags = flags
            | OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::open(self.folder.join(name), flags, private)?);
        let mode = rustix::fs::fstat(&file)?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        if Mode::from_raw_mode(mode) != private {
            // The file of another user stays as it is.
            let _ = fchmod(&file, private);
        }
        Ok(file)
    }

    /// Renames the file to the older one, unless another host does or has. Without the lock the
    /// file keeps growing.
    fn rotate(&mut self, more: u64) -> io::Result<()> {
        let lock = self.open_private(LOCK_NAME, OFlags::empty())?;
        let mut tries = 0;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            tries += 1;
            if tries == LOCK_TRIES || error != rustix::io::Errno::WOULDBLOCK {
                return Ok(());
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let path = self.path();
        match fs::symlink_metadata(&path) {
            Ok(there) if there.len() + more > self.limit => {
                fs::rename(&path, self.folder.join(OLDER_NAME))
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn lines(path: PathBuf) -> Vec<String> {
        fs::read_to_string(path)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_full_file_becomes_the_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogFile::new(folder.path().to_owned(), 30);
        for number in 0..10 {
            log.append(format!("line {number:03}\n").as_bytes())
                .unwrap();
        }
        assert_eq!(
            lines(folder.path().join(OLDER_NAME)),
            ["line 006", "line 007", "line 008"]
        );
        assert_eq!(lines(folder.path().join(FILE_NAME)), ["line 009"]);
        for name in [FILE_NAME, OLDER_NAME, LOCK_NAME] {
            let mode = fs::metadata(folder.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, 0o600, "{name}");
        }
    }

    #[test]
    fn several_hosts_lose_no_line_and_cut_none() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = 4;
        let each = 500;
        let limit = 16 * 1024;
        std::thread::scope(|threads| {
            for host in 0..hosts {
                let folder = folder.path();
                threads.spawn(move || {
                    let mut log = LogFile::new(folder.to_owned(), limit);
                    for number in 0..each {
                        log.append(format!("{host} {number:05} {}\n", "x".repeat(20)).as_bytes())
                            .unwrap();
                    }
                });
            }
        });
        let all = [OLDER_NAME, FILE_NAME]
            .map(|name| lines(folder.path().join(name)))
            .concat();
        // Of 2000 lines of 29 bytes, the last two files remain.
        assert!(all.len() > 500, "{}", all.len());
        assert!(all.iter().all(|line| line.len() == 28), "{all:?}");
        for host in 0..hosts {
            let own: Vec<_> = all
                .iter()
                .filter(|line| line.starts_with(&host.to_string()))
                .collect();
            assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{own:?}");
        }
    }

    #[test]
    fn a_line_after_a_cut_one_begins_on_its_own() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), "{\"time\":\"20").unwrap();
        LogFile::new(folder.path().to_owned(), 1000)
            .append(b"whole\n")
            .unwrap();
        assert_eq!(
            lines(folder.path().join(FILE_NAME)),
            ["{\"time\":\"20", "whole"]
        );
    }

    #[test]
    fn a_lock_that_is_held_delays_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogFile::new(folder.path().to_owned(), 10);
        let lock = log.open_private(LOCK_NAME, OFlags::empty()).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        log.append(b"one\n").unwrap();
        log.append(b"two, longer\n").unwrap();
        assert_eq!(lines(folder.path().join(FILE_NAME)), ["one", "two, longer"]);
    }

    #[test]
    fn a_path_that_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        LogFile::new(folder.path().to_owned(), 10)
            .append(b"x\n")
            .unwrap_err();
        assert!(!folder.path().join("elsewhere").exists());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        LogFile::new(folder.path().to_owned(), 10)
            .append(b"x\n")
            .unwrap_err();
    }
}
