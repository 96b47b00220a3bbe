//! Erasing a removed session: its bytes become zeros, and what only zeros are left of is given back to the disk.

use std::{fs, io, os::unix::fs::FileExt, sync::Arc};

use rustix::fs::{FallocateFlags, fallocate};

use crate::{
    NotStored, SessionKey,
    block::{Kind, Record},
    index::Life,
    journal::Shared,
    segment::{self, Place},
};

/// What the disk gives back: whole pages of it.
const PAGE: u64 = 4096;

impl Shared {
    /// Writes zeros over all that the log has of a session, on the disk.
    fn erase(&self, session: SessionKey) -> Result<(), NotStored> {
        let (segments, newest) = {
            let index = self.index();
            let newest = index
                .segments
                .last_key_value()
                .map_or(0, |(number, _)| *number);
            (index.slot(session).map(|slot| slot.segments), newest)
        };
        let Some((first, last)) = segments else {
            return Ok(());
        };
        for number in first..=last {
            self.erase_in(number, newest, session)
                .map_err(|error| stays(&error))?;
        }
        self.index().forget_places(session);
        Ok(())
    }

    fn erase_in(&self, number: u32, newest: u32, session: SessionKey) -> io::Result<()> {
        let places = self.places(number, newest, session)?;
        if places.is_empty() {
            return Ok(());
        }
        let path = self.segment(number);
        let file = match fs::OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        for place in &places {
            zero(&file, place)?;
        }
        file.sync_data()?;
        let bytes = places.iter().map(|place| u64::from(place.bytes)).sum();
        let mut index = self.index();
        let is_empty = index.erase(number, bytes);
        let is_newest = index
            .segments
            .last_key_value()
            .is_some_and(|(last, _)| *last == number);
        if is_empty && !is_newest {
            index.segments.remove(&number);
            drop(index);
            let _ = fs::remove_file(segment::sorted_path(&self.folder, number));
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Removes a session: says so, erases its bytes, says that this is done.
    pub(crate) fn remove(&self, session: SessionKey) -> Result<(), NotStored> {
        let last = match self.index().slot(session) {
            Some(slot) if slot.life != Life::Erased => slot.last,
            _ => return Ok(()),
        };
        let record = |kind| Record {
            session,
            kind,
            first: last,
            count: 0,
            id: 0,
            bytes: b"",
        };
        self.wait(&self.put(record(Kind::Removed)))?;
        self.erase(session)?;
        self.remove_files(session).map_err(|error| stays(&error))?;
        self.wait(&self.put(record(Kind::Erased)))
    }

    /// Removes sessions on a thread of its own.
    pub(crate) fn remove_beside(self: Arc<Self>, sessions: Vec<SessionKey>) {
        if sessions.is_empty() {
            return;
        }
        let remove = move || {
            for session in sessions {
                // In use since it was chosen.
                if self.held().contains_key(&session) {
                    continue;
                }
                if let Err(error) = self.remove(session) {
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

fn stays(error: &io::Error) -> NotStored {
    NotStored {
        why: format!("a removed session stays for now: {error}").into(),
    }
}

fn zero(file: &fs::File, place: &Place) -> io::Result<()> {
    let zeros = [0; 16 * 1024];
    let (mut at, end) = (place.at, place.at + u64::from(place.bytes));
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
        // Where the file system makes no holes, the zeros stay.
        let _ = fallocate(file, hole, pages.start, pages.end - pages.start);
    }
    Ok(())
}
