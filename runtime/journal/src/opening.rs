//! Opening a journal: takes its lock, reads what is there, and begins an epoch.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Damage, Damaged, OpenError, Options, SessionKey,
    head::{self, HeadFile},
    index::Index,
    journal::{Gathered, Shared},
    lock::{Lock, Refused},
    segment::{self, Found, Place, Scan},
    writer::{CHECKPOINT, Writer, write_whole},
};

/// The file that says what a folder is.
const FORMAT: &str = "format";
/// The latest format.
const KNOWN: u64 = 1;

/// What was found at the opening of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// The sessions that something was open in when the journal was last used: entries or marks came after their last
    /// facts, or these said so.
    pub unsettled: Vec<SessionKey>,
    /// What cannot be read any more.
    pub damaged: Vec<Damaged>,
    /// Whether the journal was closed when it was last used; also that of a new one.
    pub was_closed: bool,
}

/// What stands in [`FORMAT`].
#[derive(Debug, Serialize, Deserialize)]
struct Format {
    format: u64,
    /// Keeps the hashes of ids from being guessed.
    salt: String,
}

/// What happens to a sorted directory that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is written.
    Written,
    /// It stays missing: the journal may be another process's.
    Left,
}

/// What the log holds, as it was read.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) index: Index,
    pub(crate) damaged: Vec<Damaged>,
    /// The newest segment, and where its last whole block ends.
    pub(crate) newest: (u32, u64),
    /// The bytes that the checkpoint does not have.
    pub(crate) behind_checkpoint: u64,
}

pub(crate) fn open(
    folder: &Path,
    options: Options,
) -> Result<(Arc<Shared>, JoinHandle<()>, Opened), OpenError> {
    let failed = |what| {
        let folder = folder.to_owned();
        move |source| OpenError::Io {
            folder,
            what,
            source,
        }
    };
    make_folder(folder).map_err(failed("made"))?;
    let lock = Lock::take(folder).map_err(|refused| match refused {
        Refused::Held(pid) => OpenError::InUse {
            folder: folder.to_owned(),
            pid,
        },
        Refused::Io(source) => failed("locked")(source),
    })?;
    let salt = format(folder)?;
    let head = head::read(folder).map_err(failed("read"))?;
    let mut log = read_log(folder, Missing::Written).map_err(failed("read"))?;
    if let Some(head) = head.filter(|head| head.block > log.index.block) {
        let missing = Damage::MissingEnd {
            from: log.index.block + 1,
            to: head.block,
        };
        log.damaged.push(Damaged {
            session: None,
            damage: missing,
        });
    }
    let was_closed = head.is_none_or(|head| head.is_closed && head.block == log.index.block);
    // Behind what a head knows and the log has lost: a number never means two blocks.
    log.index.block = log.index.block.max(head.map_or(0, |head| head.block));
    let epoch = log.index.epoch.max(head.map_or(0, |head| head.epoch)) + 1;
    let opened = Opened {
        unsettled: log.index.unsettled(),
        damaged: log.damaged,
        was_closed,
    };

    let (number, at) = log.newest;
    let file = segment::open(&segment::path(folder, number)).map_err(failed("written"))?;
    file.set_len(at).map_err(failed("written"))?;
    log.index.segments.entry(number).or_default();
    let salt = hmac_sha256::Hash::hash(salt.as_bytes());
    let shared = Arc::new(Shared {
        folder: folder.to_owned(),
        options,
        epoch,
        salt,
        gathered: Mutex::new(Gathered::default()),
        more: Condvar::new(),
        index: Mutex::new(log.index),
        held: Mutex::default(),
    });
    let mut writer = Writer {
        shared: shared.clone(),
        head: HeadFile::open(folder).map_err(failed("written"))?,
        file,
        number,
        at,
        behind_checkpoint: log.behind_checkpoint,
        _lock: lock,
    };
    // It also shows that the journal can be written.
    writer.begin().map_err(failed("written"))?;
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || writer.run());
    let thread = thread.map_err(failed("served by a thread"))?;
    let left = shared.index().to_erase();
    shared.clone().remove_beside(left);
    Ok((shared, thread, opened))
}

/// Reads a journal as it is, and changes nothing.
pub(crate) fn look(folder: &Path) -> Result<Arc<Shared>, OpenError> {
    let failed = |source| OpenError::Io {
        folder: folder.to_owned(),
        what: "read",
        source,
    };
    let salt = match fs::read(folder.join(FORMAT)) {
        Ok(bytes) => known_format(folder, &bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::NoJournal {
                folder: folder.to_owned(),
            });
        }
        Err(source) => return Err(failed(source)),
    };
    let log = read_log(folder, Missing::Left).map_err(failed)?;
    let gathered = Gathered {
        is_over: true,
        ..Gathered::default()
    };
    Ok(Arc::new(Shared {
        folder: folder.to_owned(),
        options: Options::default(),
        epoch: log.index.epoch,
        salt: hmac_sha256::Hash::hash(salt.as_bytes()),
        gathered: Mutex::new(gathered),
        more: Condvar::new(),
        index: Mutex::new(log.index),
        held: Mutex::default(),
    }))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
    let mut permissions = fs::metadata(folder)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o700);
        fs::set_permissions(folder, permissions)?;
    }
    Ok(())
}

/// Reads what the folder is, or says that it is a journal.
fn format(folder: &Path) -> Result<String, OpenError> {
    let path = folder.join(FORMAT);
    let io = |what| {
        move |source| OpenError::Io {
            folder: folder.to_owned(),
            what,
            source,
        }
    };
    match fs::read(&path) {
        Ok(bytes) => known_format(folder, &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !numbers(folder).map_err(io("read"))?.is_empty() {
                return Err(OpenError::NoJournal {
                    folder: folder.to_owned(),
                });
            }
            let format = Format {
                format: KNOWN,
                salt: Uuid::new_v4().to_string(),
            };
            let text = serde_json::to_vec(&format).unwrap_or_default();
            write_whole(&path, &text).map_err(io("written"))?;
            Ok(format.salt)
        }
        Err(source) => Err(io("read")(source)),
    }
}

fn known_format(folder: &Path, bytes: &[u8]) -> Result<String, OpenError> {
    match serde_json::from_slice::<Format>(bytes) {
        Ok(Format { format, .. }) if format > KNOWN => Err(OpenError::Newer {
            folder: folder.to_owned(),
            found: format,
            known: KNOWN,
        }),
        Ok(Format { salt, .. }) => Ok(salt),
        Err(_) => Err(OpenError::NoJournal {
            folder: folder.to_owned(),
        }),
    }
}

/// The numbers of the segments of a folder.
pub(crate) fn numbers(folder: &Path) -> io::Result<BTreeSet<u32>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(segment::number_of(&entry?.path())))
        .filter_map(Result::transpose)
        .collect()
}

/// Reads the log: the checkpoint, and each segment that it does not have.
pub(crate) fn read_log(folder: &Path, missing: Missing) -> io::Result<Log> {
    let mut log = Log {
        newest: (1, 0),
        ..Log::default()
    };
    let numbers = numbers(folder)?;
    let checkpoint = match fs::read(folder.join(CHECKPOINT)) {
        Ok(bytes) => Index::of_checkpoint(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // A checkpoint was made at the begin of its last segment, which it has as an empty one.
    let from = checkpoint
        .as_ref()
        .and_then(|index| index.segments.last_key_value())
        .map_or(0, |(number, _)| *number);
    log.index = checkpoint.unwrap_or_default();
    log.index
        .segments
        .retain(|number, _| numbers.contains(number));
    for number in numbers.range(from..).copied() {
        log.read_segment(folder, number, numbers.last() == Some(&number), missing)?;
    }
    Ok(log)
}

impl Log {
    fn read_segment(
        &mut self,
        folder: &Path,
        number: u32,
        is_newest: bool,
        missing: Missing,
    ) -> io::Result<()> {
        let sealed = self.newest.0;
        if sealed != number {
            let places = self.index.take_newest();
            let path = segment::sorted_path(folder, sealed);
            if missing == Missing::Written && !places.is_empty() && !path.exists() {
                write_whole(&path, &segment::sorted(places))?;
            }
        }
        let file = segment::open_to_read(&segment::path(folder, number))?;
        let mut scan = Scan::new(&file, 0)?;
        let size = file.metadata()?.len();
        let mut end = 0;
        loop {
            match scan.next()? {
                Found::Block(block) => {
                    end = block.at + block.head.bytes();
                    self.behind_checkpoint += block.head.bytes();
                    self.note_missing(number, block.head.number);
                    self.index
                        .take(number, block.at, &block.head, &block.chunks);
                }
                // What a write left that did not come to its end: it was not said to be stored.
                Found::Damaged { to, .. } if to == size && is_newest => {}
                Found::Damaged { from, to } => {
                    let damage = Damage::Unreadable {
                        segment: number,
                        from,
                        to,
                    };
                    self.damaged.push(Damaged {
                        session: None,
                        damage,
                    });
                    end = to;
                }
                Found::End => break,
            }
        }
        self.newest = (number, end);
        Ok(())
    }

    /// Notes blocks that are missing before the one of this number.
    fn note_missing(&mut self, segment: u32, number: u64) {
        let next = self.index.block + 1;
        // A segment that is not there held nothing but removed sessions.
        let follows = self
            .index
            .segments
            .last_key_value()
            .is_some_and(|(last, _)| segment <= last + 1);
        if self.index.block > 0 && number > next && follows {
            let damage = Damage::MissingBlocks {
                from: next,
                to: number - 1,
            };
            self.damaged.push(Damaged {
                session: None,
                damage,
            });
        }
    }
}

/// Reads the places of a segment that gets no more blocks: from its sorted directory, or from its blocks.
pub(crate) fn places(folder: &Path, number: u32, session: SessionKey) -> io::Result<Vec<Place>> {
    let sorted = match segment::Sorted::open(&segment::sorted_path(folder, number)) {
        Ok(sorted) => sorted,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(sorted) = sorted {
        return sorted.of(session);
    }
    let file: File = match segment::open_to_read(&segment::path(folder, number)) {
        Ok(file) => file,
        // All that was in it was removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let (mut scan, mut places) = (Scan::new(&file, 0)?, Vec::new());
    loop {
        match scan.next()? {
            Found::Block(block) => {
                let own = block.chunks.iter().filter(|chunk| chunk.session == session);
                places.extend(own.map(|chunk| Place::of(chunk, block.at)));
            }
            Found::Damaged { .. } => {}
            Found::End => return Ok(places),
        }
    }
}
