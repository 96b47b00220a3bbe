//! The head: how far the journal was written, outside of what was written.
//!
//! A log whose end was cut off reads like one that ends there. The head tells the difference. It is written after each
//! block, so it may be one behind, and never ahead.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::{
    block::{u32_at, u64_at},
    segment,
};

const NAME: &str = "head";
const FIRST: [u8; 8] = *b"TLJH\x01\0\0\0";
const BYTES: usize = 32;

/// What the head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// The number of the last block.
    pub(crate) block: u64,
    pub(crate) epoch: u64,
    /// Whether the journal was closed since.
    pub(crate) is_closed: bool,
}

/// The file of the head.
#[derive(Debug)]
pub(crate) struct HeadFile(File);

impl HeadFile {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        segment::open(&folder.join(NAME)).map(Self)
    }

    pub(crate) fn write(&self, head: Head) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&FIRST);
        bytes[8..16].copy_from_slice(&head.block.to_le_bytes());
        bytes[16..24].copy_from_slice(&head.epoch.to_le_bytes());
        bytes[24] = u8::from(head.is_closed);
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        self.0.write_all_at(&bytes, 0)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Reads the head of a folder; `None` where there is none, or not what was written.
pub(crate) fn read(folder: &Path) -> io::Result<Option<Head>> {
    let mut bytes = [0; BYTES];
    match segment::open_to_read(&folder.join(NAME))
        .and_then(|file| file.read_exact_at(&mut bytes, 0))
    {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let is_whole = bytes[..8] == FIRST && u32_at(&bytes, 28) == crc32fast::hash(&bytes[..28]);
    let head = Head {
        block: u64_at(&bytes, 8),
        epoch: u64_at(&bytes, 16),
        is_closed: bytes[24] != 0,
    };
    Ok(is_whole.then_some(head))
}
