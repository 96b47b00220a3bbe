//! The thread that writes: takes all that was gathered, writes it at once, says so.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    NotStored, SessionKey, Sync,
    block::{self, Builder, Chunk, Kind, Record},
    head::{Head, HeadFile},
    journal::{Gathered, Shared, now},
    lock::Lock,
    segment,
    ticket::Batch,
};

/// How long after a write that failed it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// How often a full disk is looked at, while nothing is to be written.
const LOOK: Duration = Duration::from_secs(1);

/// How much room a block keeps between writes, in bytes.
const KEPT: usize = 256 * 1024;

/// How often old sessions are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// What is on disk for the moment when the disk is full: deleted then, so that what is under way can end in order.
pub(crate) const RESERVE: &str = "reserve";
const RESERVED: u64 = 4 << 20;

/// The file of checkpoints, and the one that becomes it.
pub(crate) const CHECKPOINT: &str = "checkpoint";
const NEW_CHECKPOINT: &str = "checkpoint.new";

/// What the thread has.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: HeadFile,
    /// The newest segment.
    pub(crate) file: File,
    pub(crate) number: u32,
    /// Where the next block goes.
    pub(crate) at: u64,
    /// What was written since the last checkpoint, in bytes.
    pub(crate) behind_checkpoint: u64,
    pub(crate) _lock: Lock,
}

impl Writer {
    /// Writes until it is to end and nothing waits.
    pub(crate) fn run(mut self) {
        let mut spare = Builder::default();
        let mut swept = Instant::now();
        while let Some(batch) = self.take(&mut spare) {
            let written = self.commit(&mut spare);
            if let Err(error) = &written {
                tracing::warn!(folder = %self.shared.folder.display(), "what waited is lost: {error}");
                self.shared.index().release_all(spare.chunks());
            }
            spare.clear(KEPT);
            let mut gathered = self.shared.gathered();
            (gathered.writing, gathered.since) = (0, None);
            let was_told = std::mem::take(&mut gathered.is_told) | gathered.failed.is_some();
            gathered.failed = written.clone().err();
            drop(gathered);
            if was_told && written.is_ok() {
                // As loud as what it ends.
                tracing::warn!(folder = %self.shared.folder.display(), "the journal can be written again");
            }
            batch.end(written);
            self.restore_reserve();
            if self.at >= self.shared.options.segment {
                self.next_segment();
            }
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                self.shared.clone().sweep_beside();
            }
        }
        self.end();
    }

    /// Waits for something to write, and takes it. `None` where it is to end.
    fn take(&self, spare: &mut Builder) -> Option<Arc<Batch>> {
        let mut gathered = self.shared.gathered();
        while gathered.block.is_empty() {
            if gathered.is_closing {
                gathered.is_over = true;
                return None;
            }
            if gathered.is_disk_full {
                gathered = self.shared.wait_for(gathered, LOOK);
                drop(gathered);
                self.restore_reserve();
                gathered = self.shared.gathered();
                continue;
            }
            gathered = self
                .shared
                .more
                .wait(gathered)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut gathered.block, spare);
        gathered.writing = spare.bytes();
        gathered.since = Some(Instant::now());
        Some(std::mem::take(&mut gathered.batch))
    }

    /// Writes a block, again and again where that fails. When the journal is to be closed it is tried once more.
    fn commit(&mut self, builder: &mut Builder) -> Result<(), NotStored> {
        let number = self.shared.index().block + 1;
        let (head, bytes, chunks) = builder.seal(number, self.shared.epoch, now());
        let mut is_last = false;
        while let Err(error) = self.write_somewhere(number, bytes) {
            let why = NotStored {
                why: error.to_string().into(),
            };
            if is_last {
                return Err(why);
            }
            let mut gathered = self.shared.gathered();
            if gathered.failed.is_none() {
                tracing::warn!(folder = %self.shared.folder.display(), "{why}; it is tried again");
            }
            gathered.failed = Some(why);
            if !gathered.is_closing {
                gathered = self.shared.wait_for(gathered, AGAIN);
            }
            is_last = gathered.is_closing;
        }
        self.written(&head, bytes, chunks);
        Ok(())
    }

    /// Writes the first block of an epoch: a mark that belongs to no session.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let mut block = Builder::default();
        block.push(Record {
            session: SessionKey(0),
            kind: Kind::Mark,
            first: 0,
            count: 0,
            id: 0,
            bytes: b"",
        });
        let number = self.shared.index().block + 1;
        let (head, bytes, chunks) = block.seal(number, self.shared.epoch, now());
        self.write_somewhere(number, bytes)?;
        self.written(&head, bytes, chunks);
        self.make_reserve();
        Ok(())
    }

    fn written(&mut self, head: &block::Head, bytes: &[u8], chunks: &[Chunk]) {
        self.shared.index().take(self.number, self.at, head, chunks);
        self.at += bytes.len() as u64;
        self.behind_checkpoint += bytes.len() as u64;
    }

    /// Writes the bytes of a block; on a full disk into the room of the reserve.
    fn write_somewhere(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.write(number, bytes) {
                Err(error) if is_full(&error) && self.free_reserve() => {}
                written => return written,
            }
        }
    }

    /// Writes the bytes of a block. What a write that fails leaves behind is written over, or cut off.
    fn write(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let written =
            self.file
                .write_all_at(bytes, self.at)
                .and_then(|()| match self.shared.options.sync {
                    Sync::Normal => Ok(()),
                    Sync::Full => self.file.sync_data(),
                });
        if written.is_err() {
            // In vain where the disk does nothing at all.
            let _ = self.file.set_len(self.at);
            return written;
        }
        let head = Head {
            block: number,
            epoch: self.shared.epoch,
            is_closed: false,
        };
        if let Err(error) = self.head.write(head) {
            // It only says how far the log goes, and an old one says too little, which is allowed.
            tracing::debug!("the head of the journal was not written: {error}");
        }
        Ok(())
    }

    /// Makes room on a full disk. Whether there was some to make.
    fn free_reserve(&self) -> bool {
        let is_freed = fs::remove_file(self.shared.folder.join(RESERVE)).is_ok();
        if is_freed {
            self.shared.gathered().is_disk_full = true;
            tracing::warn!(folder = %self.shared.folder.display(), "the disk is full: the journal uses its reserve");
        }
        is_freed
    }

    /// Makes the reserve again once the disk has room for it.
    fn restore_reserve(&self) {
        if self.shared.gathered().is_disk_full {
            self.make_reserve();
        }
    }

    fn make_reserve(&self) {
        let path = self.shared.folder.join(RESERVE);
        let made = segment::open(&path).and_then(|file| {
            Ok(rustix::fs::fallocate(
                &file,
                rustix::fs::FallocateFlags::empty(),
                0,
                RESERVED,
            )?)
        });
        if let Err(error) = &made {
            // Some file systems cannot promise room. What there is of it is of more use to the log.
            tracing::debug!("no reserve was made: {error}");
            let _ = fs::remove_file(path);
        }
        let is_disk_full = made.is_err_and(|error| is_full(&error));
        let was_full = std::mem::replace(&mut self.shared.gathered().is_disk_full, is_disk_full);
        if was_full && !is_disk_full {
            tracing::warn!(folder = %self.shared.folder.display(), "the disk has room again");
        }
    }

    /// Ends the newest segment and begins the next. Where that fails the old one goes on to grow.
    fn next_segment(&mut self) {
        let number = self.number + 1;
        let file = match segment::open(&self.shared.segment(number)) {
            Ok(file) => file,
            Err(error) => {
                return tracing::warn!("no new segment of the journal was begun: {error}");
            }
        };
        let mut index = self.shared.index();
        index.segments.entry(number).or_default();
        let places = index.take_newest();
        drop(index);
        // Without it the blocks themselves are read.
        let sorted = segment::sorted_path(&self.shared.folder, self.number);
        if let Err(error) = write_whole(&sorted, &segment::sorted(places)) {
            tracing::warn!("{} was not written: {error}", sorted.display());
        }
        (self.file, self.number, self.at) = (file, number, 0);
        self.checkpoint();
    }

    /// Writes a checkpoint where enough was written since the last to be worth it. For the begin of a segment.
    fn checkpoint(&mut self) {
        let bytes = self.shared.index().to_checkpoint();
        if self.behind_checkpoint < 2 * bytes.len() as u64 && self.behind_checkpoint < 1 << 30 {
            return;
        }
        match self.write_checkpoint(&bytes) {
            Ok(()) => self.behind_checkpoint = 0,
            Err(error) => tracing::warn!("the journal's checkpoint was not written: {error}"),
        }
    }

    fn write_checkpoint(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.shared.folder.join(NEW_CHECKPOINT);
        write_whole(&new, bytes)?;
        fs::rename(new, self.shared.folder.join(CHECKPOINT))
    }

    /// Leaves the journal as one that was closed.
    fn end(self) {
        let index = self.shared.index();
        let head = Head {
            block: index.block,
            epoch: index.epoch,
            is_closed: true,
        };
        drop(index);
        let closed = self
            .file
            .sync_data()
            .and_then(|()| self.head.write(head))
            .and_then(|()| self.head.sync());
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

/// Replaces a file by these bytes, on the disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = segment::open(path)?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

impl Shared {
    fn wait_for<'a>(
        &self,
        gathered: MutexGuard<'a, Gathered>,
        time: Duration,
    ) -> MutexGuard<'a, Gathered> {
        self.more
            .wait_timeout(gathered, time)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

impl crate::index::Index {
    /// Gives back the ids of sessions that were not stored.
    fn release_all(&mut self, chunks: &[Chunk]) {
        for chunk in chunks.iter().filter(|chunk| chunk.id != 0) {
            self.release(chunk.id);
        }
    }
}
