//! The head file: how far the log was written, kept outside of the log.
//!
//! A log whose end was cut off reads like a shorter log. The head shows the difference. It is
//! written after each block, so it may be one block behind, and is never ahead.
//!
//! ```text
//! first bytes 8 │ block 8 │ epoch 8 │ closed 1, zeros 3 │ checksum 4 ║ confirmed time 8 │ its checksum 4, zeros 4
//! ```
//!
//! The part behind the double line came later. A program that does not know it leaves it as it is.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::{
    block::{u32_at, u64_at},
    segment,
};

pub(crate) const NAME: &str = "head";
const FIRST: [u8; 8] = *b"TLJH\x01\0\0\0";
const BASE_BYTES: usize = 32;
const BYTES: usize = 48;

/// The contents of the head file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogHead {
    /// The number of the last block.
    pub(crate) block: u64,
    pub(crate) epoch: u64,
    /// True if the journal was closed after that block.
    pub(crate) is_closed: bool,
    /// The clock of retention: milliseconds since 1970. `None`: a program without one wrote the
    /// head.
    pub(crate) confirmed_time: Option<u64>,
}

/// The state of the head file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadState {
    Whole(LogHead),
    Missing,
    Damaged,
}

impl HeadState {
    pub(crate) fn whole(self) -> Option<LogHead> {
        match self {
            Self::Whole(head) => Some(head),
            Self::Missing | Self::Damaged => None,
        }
    }
}

/// The open head file of a writer.
#[derive(Debug)]
pub(crate) struct HeadFile(File);

impl HeadFile {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        segment::open(&folder.join(NAME)).map(Self)
    }

    pub(crate) fn write_head(&self, head: LogHead) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&FIRST);
        bytes[8..16].copy_from_slice(&head.block.to_le_bytes());
        bytes[16..24].copy_from_slice(&head.epoch.to_le_bytes());
        bytes[24] = u8::from(head.is_closed);
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        if let Some(time) = head.confirmed_time {
            bytes[32..40].copy_from_slice(&time.to_le_bytes());
            let sum = crc32fast::hash(&bytes[32..40]);
            bytes[40..44].copy_from_slice(&sum.to_le_bytes());
        }
        self.0.write_all_at(&bytes, 0)
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Reads the head of a folder.
pub(crate) fn read_head(folder: &Path) -> io::Result<HeadState> {
    let file = match segment::open_to_read(&folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HeadState::Missing),
        file => file?,
    };
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(parse_head(&bytes[..filled]).map_or(HeadState::Damaged, HeadState::Whole))
}

fn parse_head(bytes: &[u8]) -> Option<LogHead> {
    let (base, later) = bytes.split_at_checked(BASE_BYTES)?;
    if base[..8] != FIRST || u32_at(base, 28) != crc32fast::hash(&base[..28]) {
        return None;
    }
    let is_written = later.iter().any(|byte| *byte != 0);
    if is_written
        && (later.len() != BYTES - BASE_BYTES
            || u32_at(later, 8) != crc32fast::hash(&later[..8])
            || later[12..] != [0; 4])
    {
        return None;
    }
    Some(LogHead {
        block: u64_at(base, 8),
        epoch: u64_at(base, 16),
        is_closed: base[24] != 0,
        confirmed_time: is_written.then(|| u64_at(later, 0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_each_flipped_bit_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_head(folder.path()).unwrap(), HeadState::Missing);
        let mut head = LogHead {
            block: 7,
            epoch: 3,
            is_closed: true,
            confirmed_time: None,
        };
        for time in [None, Some(1_700_000_000_000)] {
            head.confirmed_time = time;
            HeadFile::open(folder.path())
                .unwrap()
                .write_head(head)
                .unwrap();
            assert_eq!(read_head(folder.path()).unwrap(), HeadState::Whole(head));
            let bytes = std::fs::read(folder.path().join(NAME)).unwrap();
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse_head(&flipped), None, "bit {bit}");
            }
            // The part that older programs write.
            head.confirmed_time = None;
            assert_eq!(parse_head(&bytes[..BASE_BYTES]), Some(head));
            assert_eq!(parse_head(&bytes[..BASE_BYTES - 1]), None);
        }
    }
}
