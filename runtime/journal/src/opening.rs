//! Opens a journal: takes its lock, reads the log, and begins an epoch.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    thread::JoinHandle,
};

use crate::{
    Damage, Damaged, OpenError, Options, SessionKey,
    format::{self, FormatRecord, FormatState},
    head::{self, HeadFile},
    index::SessionIndex,
    journal::{JournalState, PendingWrites, hash_id, wall_clock},
    lock::{FolderLock, LockError},
    reader,
    retention::RetentionClock,
    segment::{self, ChunkLocation, ScanItem, SegmentDirectory, SegmentScan},
    writer::{BlockWriter, CHECKPOINT, write_whole},
};

/// Sessions that a salt without a checksum is compared with.
const COMPARED_SESSIONS: usize = 16;

/// The state of a journal when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpeningReport {
    /// The sessions in which something was open when the journal was last used: entries or marks
    /// came after their last facts, or these note something open.
    pub unsettled: Vec<SessionKey>,
    /// The parts that cannot be read.
    pub damaged: Vec<Damaged>,
    /// True if the journal was closed when it was last used. A new journal counts as closed.
    pub was_closed: bool,
}

/// The treatment of damaged files that repeat what the log has: the checkpoint, and the directory
/// files of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DerivedFiles {
    Repair,
    /// Another process may have the journal open.
    Leave,
}

/// The contents of the log.
#[derive(Debug, Default)]
pub(crate) struct ScannedLog {
    pub(crate) index: SessionIndex,
    pub(crate) damaged: Vec<Damaged>,
    /// The newest segment, and the end of its last whole block.
    pub(crate) newest: (u32, u64),
    /// The bytes that the checkpoint does not have.
    pub(crate) behind_checkpoint: u64,
    /// The latest copy of the file `format` behind the checkpoint.
    pub(crate) format_copy: Option<FormatRecord>,
    /// The time of the last block behind the checkpoint: milliseconds since 1970.
    pub(crate) last_time: Option<u64>,
}

pub(crate) fn open(
    folder: &Path,
    options: Options,
) -> Result<(Arc<JournalState>, JoinHandle<()>, OpeningReport), OpenError> {
    let (writer, opened) = prepare(folder, options)?;
    let state = writer.state.clone();
    let thread = std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(move || writer.run())
        .map_err(|source| OpenError::Io {
            folder: folder.to_owned(),
            what: "served by a thread",
            source,
        })?;
    let removed = state.lock_index().find_removed();
    let removed = removed.into_iter().map(|session| (session, None));
    state.clone().remove_in_background(removed.collect());
    Ok((state, thread, opened))
}

/// Opens a journal, up to the thread that writes.
pub(crate) fn prepare(
    folder: &Path,
    options: Options,
) -> Result<(BlockWriter, OpeningReport), OpenError> {
    let failed = |what| {
        let folder = folder.to_owned();
        move |source| OpenError::Io {
            folder,
            what,
            source,
        }
    };
    make_folder(folder).map_err(failed("made"))?;
    let lock = FolderLock::acquire(folder).map_err(|error| match error {
        LockError::Held(pid) => OpenError::InUse {
            folder: folder.to_owned(),
            pid,
        },
        LockError::Io(source) => failed("locked")(source),
    })?;
    let format_state = format::read_format(folder).map_err(failed("read"))?;
    let mut log = read_log(folder, DerivedFiles::Repair).map_err(failed("read"))?;
    let resolved = format::resolve_format(folder, format_state.clone(), log.format_copy.take())?;
    if let (FormatState::Unsealed(_), Some(record)) = (&format_state, &resolved) {
        compare_salt(folder, &log.index, record, &options)?;
    }
    let format =
        format::repair_format(folder, &format_state, resolved).map_err(failed("written"))?;
    let head = head::read_head(folder).map_err(failed("read"))?.whole();
    if let Some(head) = head.filter(|head| head.block > log.index.block) {
        log.damaged.push(Damaged {
            session: None,
            damage: Damage::MissingEnd {
                from: log.index.block + 1,
                to: head.block,
            },
        });
    }
    let was_closed = head.is_none_or(|head| head.is_closed && head.block == log.index.block);
    // Continues behind blocks that only the head knows: a number never means two blocks.
    log.index.block = log.index.block.max(head.map_or(0, |head| head.block));
    let last_epoch = log
        .index
        .epoch
        .max(log.index.last_session_epoch())
        .max(head.map_or(0, |head| head.epoch));
    let retention_clock = RetentionClock::new(last_confirmed_time(&log, head));
    let opened = OpeningReport {
        unsettled: log.index.find_unsettled(),
        damaged: log.damaged,
        was_closed,
    };

    let (number, at) = log.newest;
    let file = segment::open(&segment::path(folder, number)).map_err(failed("written"))?;
    file.set_len(at).map_err(failed("written"))?;
    log.index.segments.entry(number).or_default();
    let state = Arc::new(JournalState {
        folder: folder.to_owned(),
        options,
        epoch: last_epoch.saturating_add(1),
        hash_key: format.hash_key(),
        pending: Mutex::new(PendingWrites::default()),
        wakes_writer: Condvar::new(),
        waiting_bytes: AtomicUsize::new(0),
        has_gathered: AtomicBool::new(false),
        retired: AtomicU64::new(0),
        index: Mutex::new(log.index),
        holds: Mutex::default(),
    });
    let mut writer = BlockWriter {
        state,
        head: HeadFile::open(folder).map_err(failed("written"))?,
        file,
        number,
        at,
        behind_checkpoint: log.behind_checkpoint,
        format: format.to_bytes(),
        retention_clock,
        _lock: lock,
    };
    // Shows besides that the journal can be written.
    writer.begin_epoch().map_err(failed("written"))?;
    Ok((writer, opened))
}

/// Reads a journal as it is, and changes nothing.
pub(crate) fn open_to_read(folder: &Path) -> Result<Arc<JournalState>, OpenError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound if !folder.exists() => OpenError::NoJournal {
            folder: folder.to_owned(),
        },
        _ => OpenError::Io {
            folder: folder.to_owned(),
            what: "read",
            source,
        },
    };
    let format_state = format::read_format(folder).map_err(failed)?;
    let mut log = read_log(folder, DerivedFiles::Leave).map_err(failed)?;
    let resolved = format::resolve_format(folder, format_state, log.format_copy.take())?;
    let format = resolved.ok_or_else(|| OpenError::NoJournal {
        folder: folder.to_owned(),
    })?;
    let pending = PendingWrites {
        is_over: true,
        ..PendingWrites::default()
    };
    Ok(Arc::new(JournalState {
        folder: folder.to_owned(),
        options: Options::default(),
        epoch: log.index.epoch,
        hash_key: format.hash_key(),
        pending: Mutex::new(pending),
        wakes_writer: Condvar::new(),
        waiting_bytes: AtomicUsize::new(0),
        has_gathered: AtomicBool::new(false),
        retired: AtomicU64::new(0),
        index: Mutex::new(log.index),
        holds: Mutex::default(),
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

/// Compares a salt without a checksum with the ids of sessions, if the caller can read these in the
/// facts.
///
/// # Errors
/// [`OpenError::NoJournal`] if none of them was stored under this salt.
fn compare_salt(
    folder: &Path,
    index: &SessionIndex,
    record: &FormatRecord,
    options: &Options,
) -> Result<(), OpenError> {
    let Some(session_name) = options.session_name else {
        return Ok(());
    };
    let key = record.hash_key();
    let mut has_other = false;
    for (_, session) in index.newest_first(None).take(COMPARED_SESSIONS) {
        let Some((slot, location)) = index
            .slot(session)
            .and_then(|slot| Some((slot, slot.facts?)))
        else {
            continue;
        };
        let facts = reader::read_facts(folder, location).ok().flatten();
        match facts.and_then(|facts| session_name(&facts)) {
            Some(name) if hash_id(&key, &name) == slot.id => return Ok(()),
            Some(_) => has_other = true,
            None => {}
        }
    }
    if has_other {
        return Err(OpenError::NoJournal {
            folder: folder.to_owned(),
        });
    }
    Ok(())
}

/// Chooses the time from which the clock of retention continues.
fn last_confirmed_time(log: &ScannedLog, head: Option<head::LogHead>) -> u64 {
    head.and_then(|head| head.confirmed_time)
        .or(log.last_time)
        .or_else(|| log.index.newest_first(None).next().map(|(time, _)| time))
        .unwrap_or_else(wall_clock)
}

/// Returns the numbers of the segments of a folder.
pub(crate) fn segment_numbers(folder: &Path) -> io::Result<BTreeSet<u32>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(segment::number_from_path(&entry?.path())))
        .filter_map(Result::transpose)
        .collect()
}

pub(crate) fn read_if_exists(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the log: the checkpoint, and each segment that it does not have.
pub(crate) fn read_log(folder: &Path, derived: DerivedFiles) -> io::Result<ScannedLog> {
    let mut log = ScannedLog {
        newest: (1, 0),
        ..ScannedLog::default()
    };
    let numbers = segment_numbers(folder)?;
    let path = folder.join(CHECKPOINT);
    let bytes = read_if_exists(&path)?;
    let checkpoint = bytes.as_deref().and_then(SessionIndex::from_checkpoint);
    if checkpoint.is_none() && bytes.is_some() && derived == DerivedFiles::Repair {
        // The writer makes the next one.
        fs::remove_file(path)?;
    }
    // A checkpoint is made at the begin of a segment, which it has as an empty one.
    let from = checkpoint.as_ref().map_or(0, SessionIndex::newest_segment);
    log.index = checkpoint.unwrap_or_default();
    log.index
        .segments
        .retain(|number, _| numbers.contains(number));
    for number in numbers.range(from..).copied() {
        let is_newest = numbers.last() == Some(&number);
        log.read_segment(folder, number, is_newest, derived)?;
    }
    Ok(log)
}

impl ScannedLog {
    fn read_segment(
        &mut self,
        folder: &Path,
        number: u32,
        is_newest: bool,
        derived: DerivedFiles,
    ) -> io::Result<()> {
        let full = self.newest.0;
        if full != number {
            let chunks = self.index.take_newest();
            if derived == DerivedFiles::Repair && !chunks.is_empty() {
                let path = segment::directory_path(folder, full);
                let bytes = read_if_exists(&path)?;
                if bytes.is_none_or(|bytes| !segment::is_whole_directory(&bytes)) {
                    write_whole(&path, &segment::directory_bytes(chunks))?;
                }
            }
        }
        let file = segment::open_to_read(&segment::path(folder, number))?;
        let mut scan = SegmentScan::new(&file, 0)?;
        let size = file.metadata()?.len();
        let mut end = 0;
        loop {
            match scan.next_item()? {
                ScanItem::Block(block) => {
                    end = block.at + block.header.bytes();
                    self.behind_checkpoint += block.header.bytes();
                    self.last_time = Some(block.header.time);
                    for chunk in &block.chunks {
                        let copy = format::read_copy(&file, chunk, block.at)?;
                        self.format_copy = copy.or(self.format_copy.take());
                    }
                    self.note_missing_blocks(number, block.header.number);
                    self.index
                        .add_block(number, block.at, &block.header, &block.chunks);
                }
                // The remains of a write that did not finish: its ticket was not resolved.
                ScanItem::Damaged { to, .. } if to == size && is_newest => {}
                ScanItem::Damaged { from, to } => {
                    self.damaged.push(Damaged {
                        session: None,
                        damage: Damage::Unreadable {
                            segment: number,
                            from,
                            to,
                        },
                    });
                    end = to;
                }
                ScanItem::End => break,
            }
        }
        self.newest = (number, end);
        Ok(())
    }

    /// Notes the blocks that are missing before the one of this number.
    fn note_missing_blocks(&mut self, segment: u32, number: u64) {
        let next = self.index.block + 1;
        // A missing segment held nothing but removed sessions.
        if number > next && segment <= self.index.newest_segment() + 1 {
            self.damaged.push(Damaged {
                session: None,
                damage: Damage::MissingBlocks {
                    from: next,
                    to: number - 1,
                },
            });
        }
    }
}

/// Finds the chunks of a session in a full segment: in its directory file, or in its blocks.
pub(crate) fn find_chunks(
    folder: &Path,
    number: u32,
    session: SessionKey,
) -> io::Result<Vec<ChunkLocation>> {
    let directory = open_directory(folder, number)?;
    find_chunks_by(directory.as_ref(), folder, number, session)
}

/// Opens the directory file of a segment, if it exists and is intact.
pub(crate) fn open_directory(folder: &Path, number: u32) -> io::Result<Option<SegmentDirectory>> {
    match SegmentDirectory::open(&segment::directory_path(folder, number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        directory => directory,
    }
}

/// Finds the chunks of a session in a segment by its directory file, or in its blocks.
pub(crate) fn find_chunks_by(
    directory: Option<&SegmentDirectory>,
    folder: &Path,
    number: u32,
    session: SessionKey,
) -> io::Result<Vec<ChunkLocation>> {
    if let Some(directory) = directory
        && let Some(chunks) = directory.find_session(session)?
    {
        return Ok(chunks);
    }
    let file = match segment::open_to_read(&segment::path(folder, number)) {
        Ok(file) => file,
        // All sessions in it were removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut scan = SegmentScan::new(&file, 0)?;
    let mut chunks = Vec::new();
    loop {
        match scan.next_item()? {
            ScanItem::Block(block) => {
                let own = block.chunks.iter().filter(|chunk| chunk.session == session);
                chunks.extend(own.map(|chunk| ChunkLocation::new(chunk, block.at)));
            }
            ScanItem::Damaged { .. } => {}
            ScanItem::End => return Ok(chunks),
        }
    }
}
