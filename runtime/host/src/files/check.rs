//! From a path that a peer named to an open file that may be read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use trunkline_protocol::{Hasher, Sha256};

use super::confined::{OpenFolder, open_folder};
use super::refusal::Refusal;
use super::roots::Roots;

/// Time for which a file must be unchanged before it is copied: longer than a tick of any file
/// system's clock, within which two writes have the same time.
const REST: Duration = Duration::from_millis(20);

/// The longest path, in bytes: what the kernel takes.
const MAX_PATH: usize = 4096;

/// A file that passed: opened, regular, within the limit. What is read from it is what was checked,
/// whatever its path names by now. Dropping it closes the file.
#[derive(Debug)]
pub struct CheckedFile {
    file: File,
    path: PathBuf,
    limit: u64,
    seen: Seen,
    announced: Announced,
}

/// Size and digest that the sender announces; both are optional.
#[derive(Debug, Clone, Copy, Default)]
pub struct Announced {
    /// The size, in bytes.
    pub size: Option<u64>,
    /// The digest.
    pub sha256: Option<Sha256>,
}

/// Metadata of the handle, to notice a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// Opens the file that a peer named, if it is in one of `roots`, and checks it ([file.4]): a
/// regular file with one link and at most `max_bytes` bytes, reached without `..` and without any
/// link. Never waits for another process.
///
/// # Errors
///
/// The [`Refusal`], as precise as the system reports it.
pub fn check(path: &Path, roots: &Roots, max_bytes: u64) -> Result<CheckedFile, Refusal> {
    check_by(open_folder, path, roots, max_bytes)
}

/// [`check`], by a given way to open the folder.
pub(super) fn check_by(
    open_folder: OpenFolder,
    path: &Path,
    roots: &Roots,
    max_bytes: u64,
) -> Result<CheckedFile, Refusal> {
    Found::look(open_folder, path, roots)?.open(max_bytes)
}

/// A regular file that was seen in a folder that we hold, not opened yet.
pub(super) struct Found<'a> {
    path: &'a Path,
    folder: OwnedFd,
    name: &'a OsStr,
    seen: Seen,
}

impl<'a> Found<'a> {
    /// Walks to the file's folder and looks at the file without opening it: opening a FIFO or a
    /// device can do things.
    pub(super) fn look(
        open_folder: OpenFolder,
        path: &'a Path,
        roots: &Roots,
    ) -> Result<Self, Refusal> {
        check_letters(path)?;
        let (root, rest) = roots.holding(path).ok_or(Refusal::Outside)?;
        let name = rest.file_name().ok_or(Refusal::NotRegular)?;
        let folder = match rest.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => open_folder(root.as_fd(), folder)?,
            _ => rustix::io::fcntl_dupfd_cloexec(root, 0).map_err(Refusal::on_open)?,
        };
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Refusal::on_open)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Refusal::Symlink),
            _ => return Err(Refusal::NotRegular),
        }
        Ok(Self {
            path,
            folder,
            name,
            seen: Seen::from_stat(&stat),
        })
    }

    /// Opens it, by its one name in the folder that we hold, and checks the handle.
    pub(super) fn open(self, max_bytes: u64) -> Result<CheckedFile, Refusal> {
        // NONBLOCK: had it become a FIFO, the open would wait for a writer. NOCTTY: or a terminal,
        // become ours.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, self.name, flags, Mode::empty());
        let file = File::from(opened.map_err(Refusal::on_open)?);
        let stat = stat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotRegular);
        }
        let seen = Seen::from_stat(&stat);
        if stat.st_nlink > 1 {
            return Err(Refusal::HardLinked);
        }
        if stat.st_nlink == 0 || (seen.device, seen.inode) != (self.seen.device, self.seen.inode) {
            return Err(Refusal::Changed);
        }
        within(seen.size, max_bytes)?;
        Ok(CheckedFile {
            file,
            path: self.path.to_owned(),
            limit: max_bytes,
            seen,
            announced: Announced::default(),
        })
    }
}

impl CheckedFile {
    /// Opens a file of the hub, which may name any path that this user may read, links included: a
    /// regular file within the limit. Never waits for another process.
    pub(super) fn of_hub(path: &Path, max_bytes: u64) -> Result<Self, Refusal> {
        check_letters(path)?;
        let stat_before = rustix::fs::stat(path).map_err(Refusal::on_open)?;
        if FileType::from_raw_mode(stat_before.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotRegular);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(Refusal::on_open)?);
        let stat = stat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotRegular);
        }
        let seen = Seen::from_stat(&stat);
        within(seen.size, max_bytes)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            limit: max_bytes,
            seen,
            announced: Announced::default(),
        })
    }

    /// Compares the file with its sender's announcement: the size here, the digest during the copy.
    ///
    /// # Errors
    ///
    /// [`Refusal::OtherSize`].
    pub fn announced_as(self, announced: Announced) -> Result<Self, Refusal> {
        match announced.size {
            Some(announced) if announced != self.size() => Err(Refusal::OtherSize {
                size: self.size(),
                announced,
            }),
            _ => Ok(Self { announced, ..self }),
        }
    }

    /// The path as the peer named it. For reports: never open it again.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size when it was checked, in bytes.
    pub fn size(&self) -> u64 {
        self.seen.size
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads it as text, as it was announced.
    pub(super) fn read(&self) -> Result<String, Refusal> {
        let mut source = Hasher::new((&self.file).take(self.limit.saturating_add(1)));
        let mut bytes = Vec::new();
        source
            .read_to_end(&mut bytes)
            .map_err(|error| Refusal::Unreadable(error.kind()))?;
        let (size, sha256) = source.finish();
        within(size, self.limit)?;
        if size != self.seen.size {
            return Err(Refusal::Changed);
        }
        self.check_digest(sha256)?;
        String::from_utf8(bytes).map_err(|_| Refusal::Unreadable(io::ErrorKind::InvalidData))
    }

    /// The most that may be read from it, in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Waits until a further write would change the time of the last one, so that
    /// [`check_unchanged`](Self::check_unchanged) sees it. Blocks, for [`REST`] at most; mostly not
    /// at all.
    pub(super) fn let_rest(&self) {
        let (seconds, nanos) = self.seen.modified;
        let modified = u64::try_from(seconds).unwrap_or(0);
        let modified = UNIX_EPOCH + Duration::new(modified, u32::try_from(nanos).unwrap_or(0));
        let age = SystemTime::now()
            .duration_since(modified)
            .unwrap_or_default();
        // A time that is far ahead is none that a write would set.
        let is_ahead = modified > SystemTime::now() + REST;
        if !is_ahead && age < REST {
            std::thread::sleep(REST - age);
        }
    }

    /// Refuses a file whose bytes are not those that were announced.
    pub(super) fn check_digest(&self, digest: Sha256) -> Result<(), Refusal> {
        let is_other = self
            .announced
            .sha256
            .is_some_and(|announced| announced != digest);
        if is_other {
            Err(Refusal::OtherDigest)
        } else {
            Ok(())
        }
    }

    /// Refuses a file that is not as it was when it was checked: grown, cut or written.
    pub(super) fn check_unchanged(&self) -> Result<(), Refusal> {
        let now = Seen::from_stat(&stat(&self.file)?);
        within(now.size, self.limit)?;
        if now == self.seen {
            Ok(())
        } else {
            Err(Refusal::Changed)
        }
    }
}

impl Seen {
    fn from_stat(stat: &Stat) -> Self {
        // The widths of these fields differ between systems.
        Self {
            device: stat.st_dev as _,
            inode: stat.st_ino as _,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as _, stat.st_mtime_nsec as _),
        }
    }
}

/// Refuses a path by its text.
fn check_letters(path: &Path) -> Result<(), Refusal> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.starts_with(b"/") {
        return Err(Refusal::NotAbsolute);
    }
    if bytes.contains(&0) {
        return Err(Refusal::Nul);
    }
    if bytes.iter().any(u8::is_ascii_control) {
        return Err(Refusal::ControlCharacter);
    }
    if bytes.len() >= MAX_PATH {
        return Err(Refusal::Unreadable(io::ErrorKind::InvalidFilename));
    }
    if path
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return Err(Refusal::Parent);
    }
    // `components` drops these, which denote a folder.
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(Refusal::NotRegular);
    }
    Ok(())
}

fn stat(file: &File) -> Result<Stat, Refusal> {
    rustix::fs::fstat(file).map_err(|errno| Refusal::Unreadable(io::Error::from(errno).kind()))
}

/// Refuses a size above the limit.
pub(super) fn within(size: u64, limit: u64) -> Result<(), Refusal> {
    if size > limit {
        Err(Refusal::TooLarge { size, limit })
    } else {
        Ok(())
    }
}
