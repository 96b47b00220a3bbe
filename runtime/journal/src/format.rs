//! The file `format`: the version of a journal, and the salt under which its sessions are found.
//!
//! ```text
//! {"format":1,"salt":"…","sum":"c0ffee00"}
//! ```
//!
//! `sum` is the CRC-32 of all bytes before it, in hex; a later format has it too. Each epoch and
//! each segment of the log begin with a copy of the file, so that a damaged or missing one is made
//! again. Journals of older programs have neither.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    OpenError,
    block::ChunkHeader,
    opening::{read_if_exists, segment_numbers},
    segment::{self, ChunkLocation, ScanItem, SegmentScan},
    writer::write_whole,
};

pub(crate) const FILE: &str = "format";
/// The file that becomes [`FILE`].
const NEW_FILE: &str = "format.new";
/// The latest format that this program knows.
const LATEST: u64 = 1;
/// The text in front of the checksum.
const SUM_KEY: &[u8] = b",\"sum\":\"";

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FormatRecord {
    format: u64,
    /// Keeps the hashes of ids from being guessed.
    salt: String,
}

/// The state of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FormatState {
    /// The checksum is right.
    Sealed(FormatRecord),
    /// No checksum: an older program wrote the file, or it is damaged.
    Unsealed(FormatRecord),
    Damaged,
    Missing,
}

impl FormatRecord {
    fn generate() -> Self {
        Self {
            format: LATEST,
            salt: Uuid::new_v4().to_string(),
        }
    }

    /// Returns the bytes of the file, with the checksum.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        // The closing brace comes behind the checksum.
        bytes.pop();
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(SUM_KEY);
        bytes.extend_from_slice(format!("{sum:08x}\"}}").as_bytes());
        bytes
    }

    /// Returns the key under which ids are hashed.
    pub(crate) fn hash_key(&self) -> [u8; 32] {
        hmac_sha256::Hash::hash(self.salt.as_bytes())
    }

    fn check_version(self, folder: &Path) -> Result<Self, OpenError> {
        if self.format > LATEST {
            return Err(OpenError::Newer {
                folder: folder.to_owned(),
                found: self.format,
                known: LATEST,
            });
        }
        Ok(self)
    }
}

fn parse_format(bytes: &[u8]) -> FormatState {
    let record = serde_json::from_slice::<FormatRecord>(bytes);
    let sum_at = memchr::memmem::rfind(bytes, SUM_KEY);
    match (record, sum_at) {
        (Ok(record), None) => FormatState::Unsealed(record),
        (Ok(record), Some(at)) => {
            let sum = format!("{:08x}\"}}", crc32fast::hash(&bytes[..at]));
            if bytes[at + SUM_KEY.len()..] == *sum.as_bytes() {
                FormatState::Sealed(record)
            } else {
                FormatState::Damaged
            }
        }
        (Err(_), _) => FormatState::Damaged,
    }
}

/// Reads the file of a folder.
pub(crate) fn read_format(folder: &Path) -> io::Result<FormatState> {
    let bytes = read_if_exists(&folder.join(FILE))?;
    Ok(bytes.map_or(FormatState::Missing, |bytes| parse_format(&bytes)))
}

/// Replaces the file of a folder. An interrupted call leaves the old one.
pub(crate) fn write_format(folder: &Path, record: &FormatRecord) -> io::Result<()> {
    let new = folder.join(NEW_FILE);
    write_whole(&new, &record.to_bytes())?;
    fs::rename(new, folder.join(FILE))
}

/// Chooses the record of a journal: the copy in the log if there is one, then the file. `None`: the
/// folder is empty and becomes a journal.
///
/// # Errors
/// [`OpenError::Newer`] and [`OpenError::NoJournal`], and why the log cannot be read.
pub(crate) fn resolve_format(
    folder: &Path,
    state: FormatState,
    recent_copy: Option<FormatRecord>,
) -> Result<Option<FormatRecord>, OpenError> {
    let state = match state {
        FormatState::Sealed(record) => FormatState::Sealed(record.check_version(folder)?),
        FormatState::Unsealed(record) => FormatState::Unsealed(record.check_version(folder)?),
        other => other,
    };
    let failed = |source| OpenError::Io {
        folder: folder.to_owned(),
        what: "read",
        source,
    };
    let copy = match (recent_copy, &state) {
        (Some(copy), _) => Some(copy),
        // An older program, which wrote no checksum, wrote no copy either.
        (None, FormatState::Sealed(_) | FormatState::Unsealed(_)) => None,
        (None, _) => find_copy(folder).map_err(failed)?,
    };
    match (copy, state) {
        (Some(copy), _) => copy.check_version(folder).map(Some),
        (None, FormatState::Sealed(record) | FormatState::Unsealed(record)) => Ok(Some(record)),
        (None, FormatState::Missing) if segment_numbers(folder).map_err(failed)?.is_empty() => {
            Ok(None)
        }
        (None, FormatState::Missing | FormatState::Damaged) => Err(OpenError::NoJournal {
            folder: folder.to_owned(),
        }),
    }
}

/// Makes the file what it should be, and returns its record.
///
/// # Errors
/// Why it cannot be written.
pub(crate) fn repair_format(
    folder: &Path,
    state: &FormatState,
    resolved: Option<FormatRecord>,
) -> io::Result<FormatRecord> {
    let is_new = resolved.is_none();
    let record = resolved.unwrap_or_else(FormatRecord::generate);
    if *state == FormatState::Sealed(record.clone()) {
        return Ok(record);
    }
    write_format(folder, &record)?;
    if !is_new && *state != FormatState::Unsealed(record.clone()) {
        tracing::warn!(
            folder = %folder.display(),
            "the file `format` of the journal was missing or damaged, and was made again from the log"
        );
    }
    Ok(record)
}

/// Reads the copy that a chunk holds; `None` if the chunk holds no copy, or a damaged one.
pub(crate) fn read_copy(
    file: &fs::File,
    chunk: &ChunkHeader,
    block_at: u64,
) -> io::Result<Option<FormatRecord>> {
    if !chunk.is_format_copy() {
        return Ok(None);
    }
    let location = ChunkLocation::new(chunk, block_at);
    let mut bytes = vec![0; location.bytes as usize];
    file.read_exact_at(&mut bytes, location.at)?;
    Ok(match parse_format(&bytes) {
        FormatState::Sealed(record) if location.is_whole(&bytes) => Some(record),
        _ => None,
    })
}

/// Finds the latest copy in the log, newest segment first.
pub(crate) fn find_copy(folder: &Path) -> io::Result<Option<FormatRecord>> {
    for number in segment_numbers(folder)?.into_iter().rev() {
        let file = match segment::open_to_read(&segment::path(folder, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let mut scan = SegmentScan::new(&file, 0)?;
        let mut latest = None;
        loop {
            match scan.next_item()? {
                ScanItem::Block(block) => {
                    for chunk in &block.chunks {
                        latest = read_copy(&file, chunk, block.at)?.or(latest);
                    }
                }
                ScanItem::Damaged { .. } => {}
                ScanItem::End => break,
            }
        }
        if latest.is_some() {
            return Ok(latest);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_bit_of_the_file_unseals_it() {
        let record = FormatRecord::generate();
        let bytes = record.to_bytes();
        assert_eq!(parse_format(&bytes), FormatState::Sealed(record.clone()));
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match parse_format(&flipped) {
                FormatState::Damaged => {}
                // The name of the checksum is damaged, and nothing else.
                FormatState::Unsealed(read) => assert_eq!(read, record, "bit {bit}"),
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_later_format_with_more_members_is_sealed_too() {
        let mut bytes = br#"{"format":7,"salt":"x","more":[1]"#.to_vec();
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(format!(",\"sum\":\"{sum:08x}\"}}").as_bytes());
        let FormatState::Sealed(record) = parse_format(&bytes) else {
            panic!("{:?}", parse_format(&bytes));
        };
        assert!(matches!(
            record.check_version(Path::new("x")),
            Err(OpenError::Newer { found: 7, .. })
        ));
    }
}
