//! Segments: files of blocks, one behind the other. Only the newest is appended to.
//!
//! A full segment has a directory file beside it, sorted by session, so that a few reads find the
//! chunks of a session. It repeats what the blocks have: when it is missing or damaged, the blocks
//! are read instead.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    SessionKey,
    block::{ALIGN, BlockHeader, ChunkHeader, ChunkKind, HEADER, MAGIC, u32_at, u64_at},
};

/// The first bytes of a directory file. Each entry has a checksum of its own.
const DIRECTORY: [u8; 8] = *b"TLJD\x02\0\0\0";
/// The first bytes of an older directory file, which has one checksum for all entries.
const DIRECTORY_V1: [u8; 8] = *b"TLJD\x01\0\0\0";
/// The length before the entries: the first bytes, the number of entries, the checksum of all of
/// them.
const DIRECTORY_HEADER: usize = 16;
const DIRECTORY_ENTRY: usize = 40;

/// Length of a read of a segment, in bytes.
const WINDOW: usize = 256 * 1024;

/// The location of a chunk in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLocation {
    pub(crate) session: SessionKey,
    pub(crate) kind: ChunkKind,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Offset in the file, in bytes.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

impl ChunkLocation {
    /// Locates a chunk of the block that begins at `block_at`.
    pub(crate) fn new(chunk: &ChunkHeader, block_at: u64) -> Self {
        Self {
            session: chunk.session,
            kind: chunk.kind,
            first: chunk.first,
            count: chunk.count,
            at: block_at + HEADER as u64 + u64::from(chunk.at),
            bytes: chunk.bytes,
            sum: chunk.sum,
        }
    }

    /// Returns the number behind the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Returns whether these bytes are what was written.
    pub(crate) fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes as usize && crc32fast::hash(bytes) == self.sum
    }
}

/// Returns the path of a segment.
pub(crate) fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.log"))
}

/// Returns the path of a segment's directory file.
pub(crate) fn directory_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.dir"))
}

/// Returns the number in a segment's name.
pub(crate) fn number_from_path(path: &Path) -> Option<u32> {
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    is_log
        .then(|| path.file_stem()?.to_str()?.parse().ok())
        .flatten()
}

/// Opens a file of the journal for reading and writing; makes a missing one.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Opens a file of the journal for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open_options().open(path)
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options
        .read(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed());
    options
}

/// A block in a segment.
#[derive(Debug)]
pub(crate) struct FoundBlock {
    pub(crate) at: u64,
    pub(crate) header: BlockHeader,
    pub(crate) chunks: Vec<ChunkHeader>,
}

/// A step of a scan.
#[derive(Debug)]
pub(crate) enum ScanItem {
    Block(FoundBlock),
    /// Bytes that are no block, up to the next one or to the end.
    Damaged {
        from: u64,
        to: u64,
    },
    End,
}

/// Reads the headers and directories of a segment, one block after the other, without the payload.
#[derive(Debug)]
pub(crate) struct SegmentScan<'a> {
    file: &'a File,
    at: u64,
    size: u64,
    /// The bytes from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> SegmentScan<'a> {
    pub(crate) fn new(file: &'a File, from: u64) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            at: from,
            size,
            window: Vec::new(),
            window_at: 0,
        })
    }

    pub(crate) fn next_item(&mut self) -> io::Result<ScanItem> {
        if self.at >= self.size {
            return Ok(ScanItem::End);
        }
        if let Some(block) = self.block_at(self.at)? {
            self.at += block.header.bytes();
            return Ok(ScanItem::Block(block));
        }
        let from = self.at;
        self.at = self.find_block(from + ALIGN as u64)?;
        Ok(ScanItem::Damaged { from, to: self.at })
    }

    /// Reads bytes within the file's size.
    fn read_bytes(&mut self, at: u64, bytes: usize) -> io::Result<&[u8]> {
        let end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + bytes as u64 > end {
            let left = usize::try_from(self.size - at).unwrap_or(usize::MAX);
            self.window.resize(bytes.max(WINDOW).min(left), 0);
            self.window_at = at;
            self.file.read_exact_at(&mut self.window, at)?;
        }
        let begin = usize::try_from(at - self.window_at).unwrap_or(usize::MAX);
        Ok(&self.window[begin..begin + bytes])
    }

    fn block_at(&mut self, at: u64) -> io::Result<Option<FoundBlock>> {
        if at + HEADER as u64 > self.size {
            return Ok(None);
        }
        let header = self.read_bytes(at, HEADER)?.first_chunk();
        let header = header.and_then(BlockHeader::parse);
        let Some(header) = header.filter(|header| at.saturating_add(header.bytes()) <= self.size)
        else {
            return Ok(None);
        };
        let bytes = usize::try_from(header.directory_bytes()).unwrap_or(usize::MAX);
        let directory = self.read_bytes(at + header.directory_at(), bytes)?;
        Ok(header
            .parse_directory(directory)
            .map(|chunks| FoundBlock { at, header, chunks }))
    }

    /// Finds the next whole block at or behind `from`. Returns the file's size if there is none.
    fn find_block(&mut self, from: u64) -> io::Result<u64> {
        let mut at = from.next_multiple_of(ALIGN as u64);
        while at + HEADER as u64 <= self.size {
            if self.read_bytes(at, HEADER)?.starts_with(&MAGIC) && self.block_at(at)?.is_some() {
                return Ok(at);
            }
            at += ALIGN as u64;
        }
        Ok(self.size)
    }
}

/// Makes the bytes of a directory file.
pub(crate) fn directory_bytes(mut chunks: Vec<ChunkLocation>) -> Vec<u8> {
    chunks.sort_by_key(|chunk| (chunk.session.0, chunk.at));
    let mut bytes = Vec::with_capacity(DIRECTORY_HEADER + chunks.len() * DIRECTORY_ENTRY);
    bytes.extend_from_slice(&DIRECTORY);
    bytes.extend_from_slice(&[0; DIRECTORY_HEADER - DIRECTORY.len()]);
    for chunk in &chunks {
        let begin = bytes.len();
        bytes.extend_from_slice(&chunk.session.0.to_le_bytes());
        bytes.extend_from_slice(&chunk.first.to_le_bytes());
        bytes.extend_from_slice(&(chunk.count << 8 | u32::from(chunk.kind.code())).to_le_bytes());
        bytes.extend_from_slice(&chunk.bytes.to_le_bytes());
        bytes.extend_from_slice(&chunk.at.to_le_bytes());
        bytes.extend_from_slice(&chunk.sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[begin..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    let sum = crc32fast::hash(&bytes[DIRECTORY_HEADER..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns whether a directory file is what was written, each byte of it.
pub(crate) fn is_whole_directory(bytes: &[u8]) -> bool {
    let Some((header, entries)) = bytes.split_at_checked(DIRECTORY_HEADER) else {
        return false;
    };
    (header[..8] == DIRECTORY || header[..8] == DIRECTORY_V1)
        && u64::from(u32_at(header, 8)) * DIRECTORY_ENTRY as u64 == entries.len() as u64
        && u32_at(header, 12) == crc32fast::hash(entries)
}

fn parse_directory_entry(entry: &[u8]) -> Option<ChunkLocation> {
    Some(ChunkLocation {
        session: SessionKey(u64_at(entry, 0)),
        first: u64_at(entry, 8),
        count: u32_at(entry, 16) >> 8,
        kind: ChunkKind::from_code(entry[16])?,
        bytes: u32_at(entry, 20),
        at: u64_at(entry, 24),
        sum: u32_at(entry, 32),
    })
}

/// An open directory file.
#[derive(Debug)]
pub(crate) struct SegmentDirectory {
    file: File,
    count: u64,
    /// True if each entry has a checksum. The older version was checked as a whole when it was
    /// opened.
    has_sums: bool,
}

impl SegmentDirectory {
    /// Opens a directory file; `None` if it is not what was written.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = open_to_read(path)?;
        let mut header = [0; DIRECTORY_HEADER];
        if file.read_exact_at(&mut header, 0).is_err() {
            return Ok(None);
        }
        let count = u64::from(u32_at(&header, 8));
        let size = DIRECTORY_HEADER as u64 + count * DIRECTORY_ENTRY as u64;
        if file.metadata()?.len() != size {
            return Ok(None);
        }
        let has_sums = header[..8] == DIRECTORY;
        if !has_sums && !is_whole_directory(&std::fs::read(path)?) {
            return Ok(None);
        }
        Ok(Some(Self {
            file,
            count,
            has_sums,
        }))
    }

    /// Finds the chunks of one session, in the order in which they were written; `None` if an entry
    /// on the way is damaged.
    pub(crate) fn find_session(
        &self,
        session: SessionKey,
    ) -> io::Result<Option<Vec<ChunkLocation>>> {
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(chunk) = self.read_entry(middle)? else {
                return Ok(None);
            };
            if chunk.session < session {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut chunks = Vec::new();
        let mut buffer = [0; DIRECTORY_ENTRY * 64];
        while low < self.count {
            let entries = usize::try_from(self.count - low).unwrap_or(64).min(64);
            let bytes = &mut buffer[..entries * DIRECTORY_ENTRY];
            self.file.read_exact_at(bytes, Self::entry_at(low))?;
            for entry in bytes.chunks_exact(DIRECTORY_ENTRY) {
                match self.check_entry(entry) {
                    Some(chunk) if chunk.session == session => chunks.push(chunk),
                    Some(_) => return Ok(Some(chunks)),
                    None => return Ok(None),
                }
            }
            low += entries as u64;
        }
        Ok(Some(chunks))
    }

    fn read_entry(&self, number: u64) -> io::Result<Option<ChunkLocation>> {
        let mut entry = [0; DIRECTORY_ENTRY];
        self.file
            .read_exact_at(&mut entry, Self::entry_at(number))?;
        Ok(self.check_entry(&entry))
    }

    /// Parses an entry; `None` if it is not what was written.
    fn check_entry(&self, entry: &[u8]) -> Option<ChunkLocation> {
        let is_whole = !self.has_sums || u32_at(entry, 36) == crc32fast::hash(&entry[..36]);
        is_whole.then(|| parse_directory_entry(entry)).flatten()
    }

    fn entry_at(number: u64) -> u64 {
        DIRECTORY_HEADER as u64 + number * DIRECTORY_ENTRY as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::block::{BlockBuilder, NewChunk};

    fn block(number: u64, session: u64, lines: &[u8]) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        let session = SessionKey(session);
        builder.push_chunk(NewChunk {
            session,
            kind: ChunkKind::Entries,
            first: number,
            count: 1,
            id: 0,
            bytes: lines,
        });
        builder.seal(number, 1, 0).1.to_vec()
    }

    fn scanned(bytes: &[u8]) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut scan = SegmentScan::new(&file, 0).unwrap();
        let mut found = Vec::new();
        loop {
            match scan.next_item().unwrap() {
                ScanItem::Block(block) => found.push(format!("block {}", block.header.number)),
                ScanItem::Damaged { from, to } => found.push(format!("damaged {}", to - from)),
                ScanItem::End => return found,
            }
        }
    }

    #[test]
    fn a_scan_goes_on_behind_what_is_damaged() {
        let one = block(1, 1, b"first\n");
        let two = block(2, 1, &[b'x'; 100_000]);
        let three = block(3, 2, b"third\n");
        let whole = [one.clone(), two.clone(), three.clone()].concat();
        assert_eq!(scanned(&whole), ["block 1", "block 2", "block 3"]);

        let mut flipped = whole.clone();
        flipped[one.len() + 17] ^= 1;
        let lost = format!("damaged {}", two.len());
        assert_eq!(scanned(&flipped), ["block 1", &lost, "block 3"]);

        // A scan does not read the payload. It notices a cut end.
        let mut inside = whole.clone();
        inside[one.len() + 1000] ^= 1;
        assert_eq!(scanned(&inside), ["block 1", "block 2", "block 3"]);
        let cut = &whole[..whole.len() - 1];
        assert_eq!(
            scanned(cut),
            [
                "block 1",
                "block 2",
                &format!("damaged {}", three.len() - 1)
            ]
        );
    }

    #[test]
    fn a_block_within_a_line_is_not_taken_for_one() {
        // A hub may write what looks like a block; JSON has no zeros, and blocks are counted.
        let inner = block(9, 9, b"inner\n");
        let outer = block(1, 1, &inner);
        assert_eq!(scanned(&outer), ["block 1"]);
    }

    fn chunks() -> Vec<ChunkLocation> {
        (0..1000)
            .map(|n| ChunkLocation {
                session: SessionKey(n * 7 % 130),
                kind: ChunkKind::Entries,
                first: n,
                count: 3,
                at: n * 10,
                bytes: 10,
                sum: 5,
            })
            .collect()
    }

    fn chunks_of(session: u64) -> Vec<ChunkLocation> {
        let mut chunks = chunks();
        chunks.retain(|chunk| chunk.session.0 == session);
        chunks
    }

    /// The bytes of a directory as an older program wrote them.
    fn older_directory() -> Vec<u8> {
        let mut bytes = directory_bytes(chunks());
        bytes[..8].copy_from_slice(&DIRECTORY_V1);
        for entry in bytes[DIRECTORY_HEADER..].chunks_exact_mut(DIRECTORY_ENTRY) {
            entry[36..].fill(0);
        }
        let sum = crc32fast::hash(&bytes[DIRECTORY_HEADER..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_directory_finds_each_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.dir");
        for bytes in [directory_bytes(chunks()), older_directory()] {
            assert!(is_whole_directory(&bytes));
            std::fs::write(&path, bytes).unwrap();
            let directory = SegmentDirectory::open(&path).unwrap().unwrap();
            for session in 0..140 {
                let found = directory.find_session(SessionKey(session)).unwrap();
                assert_eq!(found, Some(chunks_of(session)));
            }
        }
        std::fs::write(&path, b"TLJD\x02\0\0\0\x09\0\0\0").unwrap();
        assert!(SegmentDirectory::open(&path).unwrap().is_none());
    }

    #[test]
    fn a_flipped_bit_of_a_directory_misleads_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.dir");
        for bytes in [directory_bytes(chunks()), older_directory()] {
            let entries = 8 * DIRECTORY_HEADER..8 * bytes.len();
            for bit in (0..8 * DIRECTORY_HEADER).chain(entries.step_by(3989)) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_whole_directory(&flipped), "bit {bit}");
                std::fs::write(&path, flipped).unwrap();
                let Some(directory) = SegmentDirectory::open(&path).unwrap() else {
                    continue;
                };
                for session in 0..140 {
                    if let Some(found) = directory.find_session(SessionKey(session)).unwrap() {
                        assert_eq!(found, chunks_of(session), "bit {bit}");
                    }
                }
            }
        }
    }
}
