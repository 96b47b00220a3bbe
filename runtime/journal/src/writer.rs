//! The thread that writes: takes everything that was gathered, writes it at once, and resolves the
//! tickets.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    NotStored, SyncMode,
    block::{BlockBuilder, BlockHeader, ChunkHeader, NewChunk},
    head::{HeadFile, LogHead},
    journal::{JournalState, PendingWrites, wall_clock},
    lock::FolderLock,
    retention::RetentionClock,
    segment,
    ticket::WriteOutcome,
};

/// Delay between a write that failed and the next try.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Interval at which a full disk is checked while there is nothing to write.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Room that a block keeps between writes, in bytes.
const KEPT_ROOM: usize = 256 * 1024;

/// Sessions whose ends are kept between writes without a new allocation.
const KEPT_SESSIONS: usize = 1024;

/// Interval at which retention looks for old sessions, while the journal is used.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// A file of this size is deleted when the disk is full, so that open work can end in order.
pub(crate) const RESERVE: &str = "reserve";
const RESERVED_BYTES: u64 = 4 << 20;

/// The file of the checkpoint, and the file that becomes it.
pub(crate) const CHECKPOINT: &str = "checkpoint";
const NEW_CHECKPOINT: &str = "checkpoint.new";

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    pub(crate) state: Arc<JournalState>,
    pub(crate) head: HeadFile,
    /// The newest segment.
    pub(crate) file: File,
    pub(crate) number: u32,
    /// The offset of the next block.
    pub(crate) at: u64,
    /// Bytes written since the last checkpoint.
    pub(crate) behind_checkpoint: u64,
    /// The copy of the file `format` that each epoch and each segment begins with.
    pub(crate) format: Vec<u8>,
    pub(crate) retention_clock: RetentionClock,
    pub(crate) _lock: FolderLock,
}

impl BlockWriter {
    /// Writes until the journal is closed and nothing waits.
    pub(crate) fn run(mut self) {
        let mut spare = BlockBuilder::default();
        let opened = Instant::now();
        let mut swept = opened;
        while let Some(outcome) = self.take_pending(&mut spare) {
            self.write_pending(&mut spare, &outcome);
            self.restore_reserve();
            if self.at >= self.state.options.segment {
                self.begin_segment();
            }
            if swept.elapsed() > SWEEP_INTERVAL {
                swept = Instant::now();
                let now = self
                    .retention_clock
                    .begin_sweep(wall_clock(), opened.elapsed());
                self.state.clone().sweep(now);
            }
        }
        self.mark_closed();
    }

    /// Waits for something to write, and takes it. Returns `None` when the journal is closed.
    fn take_pending(&self, spare: &mut BlockBuilder) -> Option<Arc<WriteOutcome>> {
        let mut pending = self.state.lock_pending();
        while pending.block.is_empty() || !(pending.is_due || pending.is_closing) {
            if pending.is_closing {
                pending.is_over = true;
                return None;
            }
            pending.is_writer_idle = true;
            if pending.is_disk_full {
                pending = self.state.wait_for_writer(pending, DISK_CHECK_INTERVAL);
                drop(pending);
                self.restore_reserve();
                pending = self.state.lock_pending();
                continue;
            }
            pending = self
                .state
                .wakes_writer
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let pending = &mut *pending;
        pending.is_due = false;
        std::mem::swap(&mut pending.block, spare);
        std::mem::swap(&mut pending.last_put, &mut pending.last_in_write);
        pending.writing = spare.payload_bytes();
        pending.since = Some(Instant::now());
        let outcome = std::mem::take(&mut pending.outcome);
        pending.outcome_in_write = Some(outcome.clone());
        Some(outcome)
    }

    /// Writes a block and resolves its tickets.
    fn write_pending(&mut self, block: &mut BlockBuilder, outcome: &WriteOutcome) {
        let result = self.commit_block(block);
        let mut pending = self.state.lock_pending();
        let mut lost = None;
        if let Err(error) = &result {
            tracing::warn!(folder = %self.state.folder.display(), "what waited is lost: {error}");
            // What was put meanwhile may count on numbers that are lost.
            let mut behind = std::mem::take(&mut pending.block);
            lost = Some(std::mem::take(&mut pending.outcome));
            pending.last_put.clear();
            let mut index = self.state.lock_index();
            index.release_ids(block.chunks());
            index.release_ids(behind.chunks());
            drop(index);
            behind.clear(KEPT_ROOM);
            pending.block = behind;
        }
        // The index has the ends of these sessions from here on.
        pending.outcome_in_write = None;
        pending.last_in_write.clear();
        pending.last_in_write.shrink_to(KEPT_SESSIONS);
        pending.writing = 0;
        self.state.count_waiting(&pending);
        pending.since = None;
        let was_in_trouble =
            std::mem::take(&mut pending.is_stall_logged) | pending.failed.is_some();
        pending.failed = result.clone().err();
        drop(pending);
        block.clear(KEPT_ROOM);
        if was_in_trouble && result.is_ok() {
            // At the level of the warning that it ends.
            tracing::warn!(folder = %self.state.folder.display(), "the journal can be written again");
        }
        outcome.resolve(result.clone());
        if let Some(lost) = lost {
            lost.resolve(result);
        }
    }

    /// Writes a block, and repeats a write that fails. While the journal is being closed, one more
    /// try is made.
    fn commit_block(&mut self, block: &mut BlockBuilder) -> Result<(), NotStored> {
        if self.at == 0 {
            block.push_chunk(NewChunk::format_copy(&self.format));
        }
        let number = self.state.lock_index().block + 1;
        let (header, bytes, chunks) = block.seal(number, self.state.epoch, wall_clock());
        let mut is_last = false;
        while let Err(error) = self.write_with_reserve(number, bytes) {
            let why = NotStored::unwritable(error.to_string());
            if is_last {
                return Err(why);
            }
            let mut pending = self.state.lock_pending();
            if pending.failed.is_none() {
                tracing::warn!(folder = %self.state.folder.display(), "{why}; the write is repeated");
            }
            pending.failed = Some(why);
            if !pending.is_closing {
                pending = self.state.wait_for_writer(pending, RETRY_DELAY);
            }
            is_last = pending.is_closing;
        }
        self.add_written(&header, bytes, chunks);
        Ok(())
    }

    /// Writes the first block of an epoch: a copy of the file `format`, which belongs to no
    /// session.
    pub(crate) fn begin_epoch(&mut self) -> io::Result<()> {
        let mut block = BlockBuilder::default();
        block.push_chunk(NewChunk::format_copy(&self.format));
        let number = self.state.lock_index().block + 1;
        let (header, bytes, chunks) = block.seal(number, self.state.epoch, wall_clock());
        self.write_with_reserve(number, bytes)?;
        self.add_written(&header, bytes, chunks);
        self.make_reserve();
        Ok(())
    }

    fn add_written(&mut self, header: &BlockHeader, bytes: &[u8], chunks: &[ChunkHeader]) {
        self.state
            .lock_index()
            .add_block(self.number, self.at, header, chunks);
        self.at += bytes.len() as u64;
        self.behind_checkpoint += bytes.len() as u64;
    }

    /// Writes the bytes of a block; on a full disk into the room of the reserve.
    fn write_with_reserve(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.write_block(number, bytes) {
                Err(error) if is_full(&error) && self.free_reserve() => {}
                written => return written,
            }
        }
    }

    /// Writes the bytes of a block. The remains of a write that fails are overwritten, or cut off.
    fn write_block(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let written =
            self.file
                .write_all_at(bytes, self.at)
                .and_then(|()| match self.state.options.sync {
                    SyncMode::Normal => Ok(()),
                    SyncMode::Full => self.file.sync_data(),
                });
        if written.is_err() {
            // Fails too when the disk does nothing at all.
            let _ = self.file.set_len(self.at);
            return written;
        }
        let head = LogHead {
            block: number,
            epoch: self.state.epoch,
            is_closed: false,
            confirmed_time: Some(self.retention_clock.confirmed()),
        };
        if let Err(error) = self.head.write_head(head) {
            // An old head is allowed: it only claims less of the log.
            tracing::debug!("the head of the journal was not written: {error}");
        }
        Ok(())
    }

    /// Makes room on a full disk. Returns whether the reserve existed.
    fn free_reserve(&self) -> bool {
        let is_freed = fs::remove_file(self.state.folder.join(RESERVE)).is_ok();
        if is_freed {
            self.state.lock_pending().is_disk_full = true;
            tracing::warn!(folder = %self.state.folder.display(), "the disk is full: the journal uses its reserve");
        }
        is_freed
    }

    /// Makes the reserve again when the disk has room for it.
    fn restore_reserve(&self) {
        if self.state.lock_pending().is_disk_full {
            self.make_reserve();
        }
    }

    fn make_reserve(&self) {
        let path = self.state.folder.join(RESERVE);
        let made = segment::open(&path).and_then(|file| {
            Ok(rustix::fs::fallocate(
                &file,
                rustix::fs::FallocateFlags::empty(),
                0,
                RESERVED_BYTES,
            )?)
        });
        if let Err(error) = &made {
            // Some file systems cannot promise room. What they have is of more use to the log.
            tracing::debug!("no reserve was made: {error}");
            let _ = fs::remove_file(path);
        }
        let is_disk_full = made.is_err_and(|error| is_full(&error));
        let was_full = std::mem::replace(&mut self.state.lock_pending().is_disk_full, is_disk_full);
        if was_full && !is_disk_full {
            tracing::warn!(folder = %self.state.folder.display(), "the disk has room again");
        }
    }

    /// Ends the newest segment and begins the next. If that fails, the old one grows further.
    fn begin_segment(&mut self) {
        let number = self.number + 1;
        let file = match segment::open(&self.state.segment_path(number)) {
            Ok(file) => file,
            Err(error) => {
                return tracing::warn!("no new segment of the journal was begun: {error}");
            }
        };
        let mut index = self.state.lock_index();
        index.segments.entry(number).or_default();
        let chunks = index.take_newest();
        drop(index);
        // Without it the blocks themselves are read.
        let directory = segment::directory_path(&self.state.folder, self.number);
        if let Err(error) = write_whole(&directory, &segment::directory_bytes(chunks)) {
            tracing::warn!("{} was not written: {error}", directory.display());
        }
        self.file = file;
        self.number = number;
        self.at = 0;
        self.checkpoint_if_due();
    }

    /// Writes a checkpoint if enough was written since the last one. Only at the begin of a
    /// segment.
    fn checkpoint_if_due(&mut self) {
        let bytes = self.state.lock_index().to_checkpoint();
        if self.behind_checkpoint < 2 * bytes.len() as u64 && self.behind_checkpoint < 1 << 30 {
            return;
        }
        match self.write_checkpoint(&bytes) {
            Ok(()) => self.behind_checkpoint = 0,
            Err(error) => tracing::warn!("the journal's checkpoint was not written: {error}"),
        }
    }

    fn write_checkpoint(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.state.folder.join(NEW_CHECKPOINT);
        write_whole(&new, bytes)?;
        fs::rename(new, self.state.folder.join(CHECKPOINT))
    }

    /// Marks the journal as closed.
    fn mark_closed(self) {
        let index = self.state.lock_index();
        let head = LogHead {
            block: index.block,
            epoch: index.epoch,
            is_closed: true,
            confirmed_time: Some(self.retention_clock.confirmed()),
        };
        drop(index);
        let closed = self
            .file
            .sync_data()
            .and_then(|()| self.head.write_head(head))
            .and_then(|()| self.head.sync_data());
        if let Err(error) = closed {
            tracing::debug!("the journal was not marked as closed: {error}");
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Replaces the content of a file, and waits until it is on the disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = segment::open(path)?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

impl JournalState {
    fn wait_for_writer<'a>(
        &self,
        pending: MutexGuard<'a, PendingWrites>,
        timeout: Duration,
    ) -> MutexGuard<'a, PendingWrites> {
        self.wakes_writer
            .wait_timeout(pending, timeout)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, Options, SessionKey, Ticket, opening};

    fn put(journal: &Journal, session: SessionKey, first: u64) -> Ticket {
        let line = format!("entry {first}\n");
        journal.put_entries(session, 1, first, 1, line.as_bytes())
    }

    #[test]
    fn numbers_of_a_lost_write_are_counted_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, _) = opening::prepare(folder.path(), Options::default()).unwrap();
        let state = writer.state.clone();
        let journal = Journal::new(state.clone(), None);
        let mut spare = BlockBuilder::default();
        let (session, created) = journal.create("s", b"{}").unwrap();
        let stored = put(&journal, session, 1);
        let outcome = writer.take_pending(&mut spare).unwrap();
        writer.write_pending(&mut spare, &outcome);
        created.ended().unwrap().unwrap();
        stored.ended().unwrap().unwrap();

        // The disk does nothing any longer, and the journal is closed.
        let whole = std::mem::replace(&mut writer.file, File::open("/dev/null").unwrap());
        let in_write = put(&journal, session, 2);
        let (new, _) = journal.create("new", b"{}").unwrap();
        let outcome = writer.take_pending(&mut spare).unwrap();
        let behind = put(&journal, session, 3);
        let behind_in_new = put(&journal, new, 1);
        state.lock_pending().is_closing = true;
        writer.write_pending(&mut spare, &outcome);
        for lost in [in_write, behind, behind_in_new] {
            let why = lost.ended().unwrap().unwrap_err();
            assert!(matches!(why, NotStored::Unwritable { .. }), "{why}");
        }

        // The disk works again.
        writer.file = whole;
        let refused = put(&journal, session, 4).ended().unwrap().unwrap_err();
        assert!(refused.is_out_of_order(), "{refused}");
        let again = put(&journal, session, 2);
        let (new, _) = journal.create("new", b"{}").unwrap();
        let in_new = put(&journal, new, 1);
        let outcome = writer.take_pending(&mut spare).unwrap();
        writer.write_pending(&mut spare, &outcome);
        again.ended().unwrap().unwrap();
        in_new.ended().unwrap().unwrap();
        assert!(writer.take_pending(&mut spare).is_none());
        drop(writer);
        let journal = Journal::look(folder.path()).unwrap();
        assert_eq!(journal.known(session).unwrap().last, 2);
        assert_eq!(journal.find("new"), Some(new));
        assert_eq!(crate::check(folder.path()).unwrap().damaged, []);
    }

    #[test]
    fn the_clock_of_retention_is_kept_between_openings() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            opening::prepare(folder.path(), Options::default())
                .unwrap()
                .0
        };
        let mut writer = open();
        let start = writer.retention_clock.confirmed();
        let hour = Duration::from_secs(60 * 60);
        let late = start + 3_600_000;
        writer.retention_clock.begin_sweep(late, hour);
        assert_eq!(writer.retention_clock.confirmed(), late);
        writer.mark_closed();
        // Also without a proper end.
        for _ in 0..2 {
            assert_eq!(open().retention_clock.confirmed(), late);
        }
    }
}
