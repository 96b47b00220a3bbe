//! The exchange folder of a session.

use std::{
    fs::{DirBuilder, File, Permissions},
    io::{self, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, chmodat, mkdirat, openat, unlinkat},
    io::Errno,
};
use trunkline_process::remove_tree;
use trunkline_protocol::{LargeMember, MAX_LARGE, Sha256};
use uuid::Uuid;

use super::check::{Announced, CheckedFile, check, within};
use super::copy::{Copied, CopyError, copy_into};
use super::label;
use super::refusal::Refusal;
use super::removal::Remover;
use super::roots::{Pinned, Roots};

/// Limit of numbered names that are tried before a random one.
const NUMBERED: usize = 100;

/// A folder, held open, that is read and entered by no link.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The folder of all sessions' exchange folders: private (0700), held open; they are numbered in it.
#[derive(Debug)]
pub struct Exchanges {
    path: PathBuf,
    opened: OnceLock<Opened>,
    next: AtomicU64,
    /// Remover in the background; without it, folders are removed at once.
    remover: Option<Arc<Remover>>,
    /// True if the folder is removed with this value, and not with the host's.
    goes: AtomicBool,
}

#[derive(Debug)]
struct Opened {
    handle: OwnedFd,
    /// True if the umask removes bits from a private folder.
    is_masked: bool,
}

/// A session's private folder (0700) that host and adapter both use ([file.6]). Dropping it removes
/// it with all it holds.
#[derive(Debug)]
pub struct Exchange {
    parent: Arc<Exchanges>,
    /// Number that names it.
    number: u64,
}

/// A hub's file in the exchange folder: whole, the adapter's to read and to change, there until the
/// session closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The absolute path: `file_path` of `file.input`.
    pub path: PathBuf,
    /// The label, made safe: `file_name` of `file.input`. The name in `path` may have a number more.
    pub file_name: String,
    /// Size in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub sha256: Sha256,
}

impl Exchanges {
    /// Names the folder, absolute; it is made with the first that is made in it, or before.
    pub fn named(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            opened: OnceLock::new(),
            next: AtomicU64::new(0),
            remover: None,
            goes: AtomicBool::new(false),
        }
    }

    /// Makes the folder and its parents if they are missing, closed to other users, and opens it.
    ///
    /// # Errors
    ///
    /// The file system's error.
    pub fn prepare(&self) -> io::Result<()> {
        self.opened().map(drop)
    }

    fn opened(&self) -> io::Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let private = Permissions::from_mode(0o700);
        DirBuilder::new()
            .recursive(true)
            .mode(private.mode())
            .create(&self.path)?;
        let is_masked =
            std::fs::symlink_metadata(&self.path)?.permissions().mode() & 0o700 != 0o700;
        if is_masked {
            std::fs::set_permissions(&self.path, private)?;
        }
        let handle = rustix::fs::open(&self.path, FOLDER, Mode::empty())?;
        Ok(self.opened.get_or_init(|| Opened { handle, is_masked }))
    }

    /// The folder goes when the last that uses it has gone, and not with the host's.
    pub(crate) fn retire(&self) {
        self.goes.store(true, Ordering::Relaxed);
    }

    /// Sets the remover of dropped folders.
    pub(crate) fn removed_by(mut self, remover: Arc<Remover>) -> Self {
        self.remover = Some(remover);
        self
    }

    /// Makes a new folder.
    ///
    /// # Errors
    ///
    /// The file system's error.
    pub fn make(self: &Arc<Self>) -> io::Result<Exchange> {
        let opened = self.opened()?;
        let numbered =
            std::iter::repeat_with(|| self.next.fetch_add(1, Ordering::Relaxed)).take(NUMBERED);
        // An adapter that may write here may have taken the names that come next.
        let random = std::iter::once_with(|| Uuid::new_v4().as_u64_pair().0);
        for number in numbered.chain(random) {
            let name = number.to_string();
            match mkdirat(&opened.handle, &name, Mode::RWXU) {
                Ok(()) => {
                    let made = Exchange {
                        parent: self.clone(),
                        number,
                    };
                    if opened.is_masked {
                        chmodat(
                            &opened.handle,
                            &name,
                            Mode::RWXU,
                            rustix::fs::AtFlags::empty(),
                        )?;
                    }
                    return Ok(made);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Exchange {
    /// The folder, absolute: `session.start.exchange_dir`.
    pub fn path(&self) -> PathBuf {
        self.parent.path.join(self.number.to_string())
    }

    /// Copies a hub's file in, whole, under a name made of `label` (or of the path, [file.5]) that
    /// nothing in the folder has. `source` may be any regular file that this user can read: the hub
    /// is trusted to name it.
    ///
    /// # Errors
    ///
    /// As [`store`](super::store()); also [`Refusal::NotAbsolute`], [`Refusal::Missing`],
    /// [`Refusal::NotRegular`],
    /// [`Refusal::OtherSize`].
    /// Nothing stays behind then.
    pub fn place(
        &self,
        source: &Path,
        label: Option<&str>,
        announced: Announced,
        max_bytes: u64,
    ) -> Result<Placed, Refusal> {
        let checked = CheckedFile::of_hub(source, max_bytes)?.announced_as(announced)?;
        let file_name = label::file_name(label, source);
        let folder = self.opened()?;
        let numbers = (2..=NUMBERED).map(|number| label::numbered(&file_name, &number.to_string()));
        let random = std::iter::once_with(|| {
            label::numbered(&file_name, &Uuid::new_v4().simple().to_string())
        });
        for name in std::iter::once(file_name.clone())
            .chain(numbers)
            .chain(random)
        {
            match copy_into(folder.as_fd(), &name, &checked, Mode::RUSR | Mode::WUSR) {
                Ok(Copied { size, sha256 }) => {
                    return Ok(Placed {
                        path: self.path().join(name),
                        file_name,
                        size,
                        sha256,
                    });
                }
                Err(CopyError::NameTaken) => {}
                Err(CopyError::Refused(refusal)) => return Err(refusal),
            }
        }
        Err(Refusal::Store(io::ErrorKind::AlreadyExists))
    }
}

impl Exchange {
    /// Puts the JSON of a member into a new file of the folder ([large.2]).
    ///
    /// # Errors
    ///
    /// [`Refusal::TooLarge`], [`Refusal::Store`]. Nothing stays behind then.
    pub fn keep(&self, json: &str) -> Result<LargeMember, Refusal> {
        let storing = |error: io::Error| Refusal::Store(error.kind());
        within(json.len() as u64, MAX_LARGE)?;
        let name = format!("large-{}.json", Uuid::new_v4().simple());
        let folder = self.opened()?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|errno| storing(errno.into()))?);
        file.write_all(json.as_bytes()).map_err(|error| {
            // Best effort: the folder itself is ours and goes in the end.
            let _ = unlinkat(&folder, &name, AtFlags::empty());
            storing(error)
        })?;
        Ok(LargeMember {
            file_path: self.path().join(&name).to_string_lossy().into_owned(),
            size: json.len() as u64,
            sha256: Sha256::digest(json.as_bytes()),
        })
    }

    /// Reads the JSON of a member that the adapter put into a file right in the folder, and removes
    /// the file ([large.3]).
    ///
    /// # Errors
    ///
    /// As [`check`](super::check()) and [`store`](super::store()).
    pub fn take(&self, member: &LargeMember) -> Result<String, Refusal> {
        let path = Path::new(&member.file_path);
        let own = self.path();
        let name = path.file_name().ok_or(Refusal::NotRegular)?;
        if path.parent() != Some(&*own) {
            return Err(Refusal::Outside);
        }
        let mut roots = Roots::new();
        roots
            .allow_pinned(&Pinned::exactly(own))
            .map_err(|_| Refusal::Missing)?;
        let announced = Announced {
            size: Some(member.size),
            sha256: Some(member.sha256),
        };
        let text = check(path, &roots, MAX_LARGE)?
            .announced_as(announced)?
            .read()?;
        // By its name in the folder that we hold: no path of the adapter's is walked a second time.
        let _ = unlinkat(&self.opened()?, name, AtFlags::empty());
        Ok(text)
    }

    fn opened(&self) -> Result<OwnedFd, Refusal> {
        let parent = self
            .parent
            .opened()
            .map_err(|error| Refusal::Store(error.kind()))?;
        openat(
            &parent.handle,
            self.number.to_string(),
            FOLDER,
            Mode::empty(),
        )
        .map_err(|errno| Refusal::Store(io::Error::from(errno).kind()))
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        if *self.goes.get_mut()
            && self.opened.get().is_some()
            && let Some(remover) = &self.remover
        {
            // Behind what was in it.
            remover.remove(std::mem::take(&mut self.path));
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let path = self.path();
        if let Some(remover) = &self.parent.remover {
            remover.remove(path);
        } else if let Err(error) = remove_tree(&path) {
            tracing::warn!(?path, %error, "could not remove an exchange folder");
        }
    }
}
