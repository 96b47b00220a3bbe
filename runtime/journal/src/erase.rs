//! Erases a removed session: its bytes become zeros, and whole pages of zeros are given back to the
//! disk.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    sync::{Arc, atomic::Ordering},
};

use rustix::fs::{FallocateFlags, fallocate};

use crate::{
    NotStored, SessionKey,
    block::{ChunkKind, NewChunk},
    index::SessionLife,
    journal::JournalState,
    retention::RemovalReason,
    segment::{self, ChunkLocation},
};

/// Unit in which the disk takes bytes back.
const PAGE: u64 = 4096;

impl JournalState {
    /// Overwrites all chunks of a session with zeros, on the disk.
    fn erase_session(&self, session: SessionKey) -> Result<(), NotStored> {
        let index = self.lock_index();
        let newest = index.newest_segment();
        let segments = index.slot(session).map(|slot| slot.segments);
        drop(index);
        let Some((first, last)) = segments else {
            return Ok(());
        };
        for number in first..=last {
            self.erase_in_segment(number, newest, session)
                .map_err(|error| not_removed(&error))?;
        }
        self.lock_index().forget_chunks(session);
        Ok(())
    }

    fn erase_in_segment(&self, number: u32, newest: u32, session: SessionKey) -> io::Result<()> {
        let chunks = self.find_chunks(number, newest, session)?;
        if chunks.is_empty() {
            return Ok(());
        }
        let path = self.segment_path(number);
        let file = match fs::OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        for chunk in &chunks {
            write_zeros(&file, chunk)?;
        }
        file.sync_data()?;
        let bytes = chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        let mut index = self.lock_index();
        let is_empty = index.count_erased(number, bytes);
        if is_empty && index.newest_segment() != number {
            index.segments.remove(&number);
            drop(index);
            let _ = fs::remove_file(segment::directory_path(&self.folder, number));
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Removes a session: records that, erases its bytes, and records that this is done.
    pub(crate) fn remove_session(&self, session: SessionKey) -> Result<(), NotStored> {
        let last = match self.lock_index().slot(session) {
            Some(slot) if slot.life != SessionLife::Erased => slot.last,
            _ => return Ok(()),
        };
        let record = |kind| NewChunk {
            session,
            kind,
            first: last,
            count: 0,
            id: 0,
            bytes: b"",
        };
        self.wait_stored(&self.put_chunk(record(ChunkKind::Removed)))?;
        self.erase_session(session)?;
        self.remove_files(session)
            .map_err(|error| not_removed(&error))?;
        self.wait_stored(&self.put_chunk(record(ChunkKind::Erased)))
    }

    /// Removes sessions on a thread of its own, and logs those with a reason. Without one a removal
    /// is continued.
    pub(crate) fn remove_in_background(
        self: Arc<Self>,
        sessions: Vec<(SessionKey, Option<RemovalReason>)>,
    ) {
        if sessions.is_empty() {
            return;
        }
        let remove = move || {
            for (session, reason) in sessions {
                // Taken into use since it was chosen.
                if self.lock_holds().contains_key(&session) {
                    continue;
                }
                if let Some(reason) = reason {
                    self.log_removal(session, reason);
                }
                let removed = self.remove_session(session);
                if reason.is_some() {
                    self.retired.fetch_add(1, Ordering::Release);
                }
                if let Err(error) = removed {
                    return tracing::warn!("{error}");
                }
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("journal-remove".to_owned())
            .spawn(remove)
        {
            tracing::warn!("removed sessions of the journal stay for now: {error}");
        }
    }
}

fn not_removed(error: &io::Error) -> NotStored {
    NotStored::unwritable(format!("a removed session stays for now: {error}"))
}

fn write_zeros(file: &fs::File, chunk: &ChunkLocation) -> io::Result<()> {
    let zeros = [0; 16 * 1024];
    let mut at = chunk.at;
    let end = at + u64::from(chunk.bytes);
    let pages = at.next_multiple_of(PAGE)..end / PAGE * PAGE;
    while at < end {
        let bytes = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(zeros.len());
        file.write_all_at(&zeros[..bytes], at)?;
        at += bytes as u64;
    }
    if pages.start < pages.end {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the zeros.
        let _ = fallocate(file, hole, pages.start, pages.end - pages.start);
    }
    Ok(())
}
