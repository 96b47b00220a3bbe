//! Uploads: files that clients send by PUT, kept until an input names them.
//!
//! Each byte has one owner. An upload belongs to this store until an input of its session names it;
//! then the journal has its bytes, and only its label stays here. The removal of a session removes
//! its uploads, and a timer removes uploads after an hour.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;
use tokio::time::{Instant, MissedTickBehavior};
use trunkline_protocol::SessionId;

use crate::auth::token::{hex, write_private_file};

/// The largest upload, in bytes.
pub(crate) const MAX_UPLOAD: u64 = 64 * 1024 * 1024;

/// Limit for all uploads, in bytes: those that wait for an input, and those that are being
/// received.
const MAX_ALL: u64 = 1024 * 1024 * 1024;

/// The part of [`MAX_ALL`] that one token can use.
const MAX_OF_TOKEN: u64 = 256 * 1024 * 1024;

/// The room that is counted for the smallest upload, in bytes: it limits the number of files.
const MIN_ROOM: u64 = 64 * 1024;

/// The time after which an upload is removed, named by an input or not.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The time between two sweeps for expired uploads.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The extension of the file that holds an upload's label.
const LABEL: &str = "label";

/// Error of an upload that is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The room for all uploads is taken.
    #[error(
        "uploads that wait for an input use all of their {MAX_ALL} bytes; try again when inputs have named some"
    )]
    Full,
    /// The token's part of the room is taken.
    #[error(
        "uploads of this token that wait for an input use all of its {MAX_OF_TOKEN} bytes; name them in an input \
         before you send more"
    )]
    FullForToken,
    /// The session was removed while the upload was received.
    #[error("the session was removed")]
    SessionRemoved,
    /// The file system's error.
    #[error("failed to keep the upload: {0}")]
    Io(#[from] io::Error),
}

/// Upload that waits for an input, or was named by one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundUpload {
    /// The file. `None` if the journal has its bytes.
    pub(crate) path: Option<PathBuf>,
    /// The label that its client gave it.
    pub(crate) label: Option<String>,
}

/// The uploads of all sessions, in a folder that one process has. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Uploads {
    folder: Arc<PathBuf>,
    ledger: Arc<Mutex<UploadLedger>>,
}

/// The room that uploads use. Files are created and removed only while it is locked, so it agrees
/// with the folder.
#[derive(Debug, Default)]
struct UploadLedger {
    reservations: HashMap<u64, RoomReservation>,
    stored: HashMap<UploadKey, StoredUpload>,
    next_reservation: u64,
}

/// Name of the session's folder, and the SHA-256 of the content in hex.
type UploadKey = (String, String);

/// Room of an upload that is being received.
#[derive(Debug)]
struct RoomReservation {
    session_folder: String,
    token: Option<String>,
    room: u64,
    is_cancelled: Arc<AtomicBool>,
}

/// Upload that waits for an input, or its label after that.
#[derive(Debug)]
struct StoredUpload {
    /// The token that sent it. `None` for the user's own uploads and for all of an earlier run.
    token: Option<String>,
    room: u64,
    expires: Instant,
}

/// Upload that is being received. Dropping it frees its room and its file.
#[derive(Debug)]
pub(crate) struct IncomingUpload {
    session_folder: String,
    /// Dropped before the reservation: the room is free when the file is gone.
    file: NamedTempFile,
    reservation: HeldReservation,
    max_bytes: u64,
    is_cancelled: Arc<AtomicBool>,
}

/// Ends a reservation when it is dropped.
#[derive(Debug)]
struct HeldReservation {
    number: u64,
    /// The session's folder.
    folder: PathBuf,
    ledger: Arc<Mutex<UploadLedger>>,
}

impl Drop for HeldReservation {
    fn drop(&mut self) {
        let mut ledger = lock(&self.ledger);
        ledger.reservations.remove(&self.number);
        // The folder stays while it has uploads.
        let _ = fs::remove_dir(&self.folder);
    }
}

impl IncomingUpload {
    /// Opens the file for writing.
    pub(crate) fn reopen(&self) -> io::Result<fs::File> {
        self.file.reopen()
    }

    /// The bytes that were reserved for its content.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns true if its session was removed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }
}

impl Uploads {
    /// Opens the store of a state folder: removes what an earlier run has left incomplete or
    /// expired, and adopts the rest. No other process may use the folder. Blocks for the disk.
    ///
    /// # Errors
    /// The file system's error.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("inbox");
        create_private_dir(&folder)?;
        let stored = take_over(&folder)?;
        let ledger = UploadLedger {
            stored,
            ..UploadLedger::default()
        };
        Ok(Self {
            folder: Arc::new(folder),
            ledger: Arc::new(Mutex::new(ledger)),
        })
    }

    /// Reserves room for an upload and creates its file. `size` is the announced size of at most
    /// [`MAX_UPLOAD`] bytes; without it the room is for the largest. Blocks for the disk.
    ///
    /// # Errors
    /// [`UploadError::Full`] and [`UploadError::FullForToken`] if there is no room, and the file
    /// system's error.
    pub(crate) fn begin(
        &self,
        session: &SessionId,
        token: Option<&str>,
        size: Option<u64>,
    ) -> Result<IncomingUpload, UploadError> {
        let session_folder = folder_name(session);
        let max_bytes = size.unwrap_or(MAX_UPLOAD);
        let room = max_bytes.max(MIN_ROOM);
        let mut ledger = lock(&self.ledger);
        if ledger.room_taken(|_| true) + room > MAX_ALL {
            return Err(UploadError::Full);
        }
        if token.is_some() && ledger.room_taken(|by| by == token) + room > MAX_OF_TOKEN {
            return Err(UploadError::FullForToken);
        }
        let path = self.folder.join(&session_folder);
        create_private_dir(&path)?;
        let file = NamedTempFile::new_in(&path)?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let number = ledger.next_reservation;
        ledger.next_reservation += 1;
        ledger.reservations.insert(
            number,
            RoomReservation {
                session_folder: session_folder.clone(),
                token: token.map(str::to_owned),
                room,
                is_cancelled: is_cancelled.clone(),
            },
        );
        drop(ledger);
        Ok(IncomingUpload {
            session_folder,
            file,
            reservation: HeldReservation {
                number,
                folder: path,
                ledger: self.ledger.clone(),
            },
            max_bytes,
            is_cancelled,
        })
    }

    /// Keeps a received upload under the SHA-256 of its content in hex, with the label of its
    /// client. It replaces an earlier one of the same content. Blocks for the disk.
    ///
    /// # Errors
    /// [`UploadError::SessionRemoved`], and the file system's error.
    pub(crate) fn keep(
        &self,
        upload: IncomingUpload,
        sha256: &str,
        label: Option<&str>,
    ) -> Result<(), UploadError> {
        let IncomingUpload {
            session_folder,
            file,
            reservation,
            ..
        } = upload;
        let path = self.folder.join(&session_folder).join(sha256);
        let mut ledger = lock(&self.ledger);
        let Some(reserved) = ledger.reservations.get(&reservation.number) else {
            return Err(UploadError::SessionRemoved);
        };
        let stored = StoredUpload {
            token: reserved.token.clone(),
            room: file.as_file().metadata()?.len().max(MIN_ROOM),
            expires: Instant::now() + LIFETIME,
        };
        match label {
            Some(label) => write_private_file(&path.with_extension(LABEL), label.as_bytes())?,
            None => remove_if_there(&path.with_extension(LABEL))?,
        }
        file.persist(path).map_err(io::Error::from)?;
        ledger
            .stored
            .insert((session_folder, sha256.to_owned()), stored);
        // The reservation ends after the lock.
        drop(ledger);
        Ok(())
    }

    /// Finds an upload of a session by its SHA-256 in hex. Blocks for the disk.
    pub(crate) fn find(&self, session: &SessionId, sha256: &str) -> Option<FoundUpload> {
        let key = (folder_name(session), sha256.to_owned());
        let ledger = lock(&self.ledger);
        ledger.stored.get(&key)?;
        let path = self.path_of(&key);
        let label = fs::read_to_string(path.with_extension(LABEL)).ok();
        let path = path.is_file().then_some(path);
        Some(FoundUpload { path, label })
    }

    /// Deletes the bytes of an upload that the journal has. Its label stays for further inputs that
    /// name it. Blocks for the disk.
    ///
    /// # Errors
    /// The file system's error.
    pub(crate) fn release_bytes(&self, session: &SessionId, sha256: &str) -> io::Result<()> {
        let key = (folder_name(session), sha256.to_owned());
        let path = self.path_of(&key);
        let mut ledger = lock(&self.ledger);
        if let Some(stored) = ledger.stored.get_mut(&key) {
            remove_if_there(&path)?;
            stored.room = MIN_ROOM;
        }
        Ok(())
    }

    /// Removes all uploads of a session, and cancels those that are being received. Blocks for the
    /// disk.
    ///
    /// # Errors
    /// The file system's error.
    pub(crate) fn remove_session(&self, session: &SessionId) -> io::Result<()> {
        let folder = folder_name(session);
        let mut ledger = lock(&self.ledger);
        ledger.reservations.retain(|_, reservation| {
            let is_other = reservation.session_folder != folder;
            reservation
                .is_cancelled
                .fetch_or(!is_other, Ordering::AcqRel);
            is_other
        });
        match fs::remove_dir_all(self.folder.join(&folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) | Ok(()) => {}
        }
        ledger.stored.retain(|(of, _), _| *of != folder);
        Ok(())
    }

    /// Removes expired uploads at each [`SWEEP_INTERVAL`]. Never resolves.
    ///
    /// # Cancel safety
    /// A sweep that has begun continues.
    pub(crate) async fn sweep_regularly(&self) {
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let uploads = self.clone();
            let now = Instant::now();
            // Fails only at the end of the runtime.
            let _ = tokio::task::spawn_blocking(move || uploads.sweep(now)).await;
        }
    }

    /// Removes expired uploads. One whose file cannot be removed keeps its room until a later
    /// sweep.
    fn sweep(&self, now: Instant) {
        let mut ledger = lock(&self.ledger);
        ledger.stored.retain(|key, stored| {
            if stored.expires > now {
                return true;
            }
            let path = self.path_of(key);
            let removed =
                remove_if_there(&path).and_then(|()| remove_if_there(&path.with_extension(LABEL)));
            if let Err(error) = &removed {
                tracing::warn!(%error, path = %path.display(), "failed to remove an expired upload; the next sweep retries");
            }
            // The folder stays while it has other uploads.
            let _ = fs::remove_dir(self.folder.join(&key.0));
            removed.is_err()
        });
    }

    fn path_of(&self, (session_folder, sha256): &UploadKey) -> PathBuf {
        self.folder.join(session_folder).join(sha256)
    }
}

impl UploadLedger {
    /// Sums the room of all uploads whose token fits.
    fn room_taken(&self, fits: impl Fn(Option<&str>) -> bool) -> u64 {
        let reserved = self
            .reservations
            .values()
            .map(|reservation| (&reservation.token, reservation.room));
        let stored = self
            .stored
            .values()
            .map(|stored| (&stored.token, stored.room));
        reserved
            .chain(stored)
            .filter(|(token, _)| fits(token.as_deref()))
            .map(|(_, room)| room)
            .sum()
    }
}

fn lock(ledger: &Mutex<UploadLedger>) -> MutexGuard<'_, UploadLedger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of a session's folder: a hash, which cannot lead out of the store.
fn folder_name(session: &SessionId) -> String {
    hex(&hmac_sha256::Hash::hash(session.as_str().as_bytes()))
}

fn is_sha256(name: &str) -> bool {
    name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Lists the uploads of an earlier run that can still be named, and removes all else.
fn take_over(folder: &Path) -> io::Result<HashMap<UploadKey, StoredUpload>> {
    let mut stored: HashMap<UploadKey, StoredUpload> = HashMap::new();
    for session in fs::read_dir(folder)? {
        let session = session?.path();
        if !fs::symlink_metadata(&session)?.is_dir() {
            // An upload that an earlier version did not complete.
            remove_if_there(&session)?;
            continue;
        }
        for file in fs::read_dir(&session)? {
            let path = file?.path();
            match take_over_file(&session, &path)? {
                Some((key, found)) => {
                    let known = stored.entry(key).or_insert(found);
                    known.room = known.room.max(fs::symlink_metadata(&path)?.len());
                }
                None => remove_if_there(&path)?,
            }
        }
        // The folder stays while it has uploads.
        let _ = fs::remove_dir(&session);
    }
    Ok(stored)
}

/// Returns the upload that a file belongs to, or `None` if it is incomplete or expired.
fn take_over_file(session: &Path, path: &Path) -> io::Result<Option<(UploadKey, StoredUpload)>> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let upload = if path.extension().is_some_and(|extension| extension == LABEL) {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    let (Some(session), Some(sha256)) = (name(session), name(&upload).filter(|it| is_sha256(it)))
    else {
        return Ok(None);
    };
    let modified = fs::symlink_metadata(path)?.modified()?;
    // A clock that was set back makes the upload younger, not older.
    let age = SystemTime::now()
        .duration_since(modified)
        .unwrap_or_default();
    let left = LIFETIME.saturating_sub(age);
    let stored = StoredUpload {
        token: None,
        room: MIN_ROOM,
        expires: Instant::now() + left,
    };
    Ok((!left.is_zero()).then_some(((session, sha256), stored)))
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) | Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
