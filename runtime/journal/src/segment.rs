//! A segment: a file of blocks, one behind the other. Only the newest is appended to.
//!
//! A segment that is full gets a directory of its own beside it, sorted by session, so that a session's places are
//! found by a few reads. It repeats what the blocks say: where it is missing it is made again.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    SessionKey,
    block::{ALIGN, Chunk, HEAD, Head, Kind, MAGIC, u32_at, u64_at},
};

/// The first bytes of a sorted directory.
const SORTED: [u8; 8] = *b"TLJD\x01\0\0\0";
/// What stands before its entries: the first bytes, how many there are, their checksum.
const SORTED_HEAD: usize = 16;
const SORTED_ENTRY: usize = 40;

/// How much of a file is read at once.
const WINDOW: usize = 256 * 1024;

/// Where a chunk lies in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) session: SessionKey,
    pub(crate) kind: Kind,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// From the begin of the file, in bytes.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

impl Place {
    /// The place of a chunk of the block that begins at `block`.
    pub(crate) fn of(chunk: &Chunk, block: u64) -> Self {
        Self {
            session: chunk.session,
            kind: chunk.kind,
            first: chunk.first,
            count: chunk.count,
            at: block + HEAD as u64 + u64::from(chunk.at),
            bytes: chunk.bytes,
            sum: chunk.sum,
        }
    }

    /// The entry behind the last of it.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether it holds what was written.
    pub(crate) fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes as usize && crc32fast::hash(bytes) == self.sum
    }
}

/// The path of a segment.
pub(crate) fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.log"))
}

/// The path of its sorted directory.
pub(crate) fn sorted_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.dir"))
}

/// The number in a segment's name.
pub(crate) fn number_of(path: &Path) -> Option<u32> {
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    is_log
        .then(|| path.file_stem()?.to_str()?.parse().ok())
        .flatten()
}

/// Opens a file of the journal for reading and writing; makes it where it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Opens a file of the journal for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    options().open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options
        .read(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed());
    options
}

/// A block as it was found.
#[derive(Debug)]
pub(crate) struct FoundBlock {
    pub(crate) at: u64,
    pub(crate) head: Head,
    pub(crate) chunks: Vec<Chunk>,
}

/// What stands next in a segment.
#[derive(Debug)]
pub(crate) enum Found {
    Block(FoundBlock),
    /// Bytes that are no block, up to the next one or to the end.
    Damaged {
        from: u64,
        to: u64,
    },
    End,
}

/// Reads the heads and directories of a segment, one block after the other; not what they hold.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    file: &'a File,
    at: u64,
    size: u64,
    /// The bytes from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Scan<'a> {
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

    pub(crate) fn next(&mut self) -> io::Result<Found> {
        if self.at >= self.size {
            return Ok(Found::End);
        }
        if let Some(block) = self.block_at(self.at)? {
            self.at += block.head.bytes();
            return Ok(Found::Block(block));
        }
        let from = self.at;
        self.at = self.next_block(from + ALIGN as u64)?;
        Ok(Found::Damaged { from, to: self.at })
    }

    /// Bytes of the file, which has them.
    fn bytes(&mut self, at: u64, bytes: usize) -> io::Result<&[u8]> {
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
        if at + HEAD as u64 > self.size {
            return Ok(None);
        }
        let head = self.bytes(at, HEAD)?.first_chunk().and_then(Head::read);
        let Some(head) = head.filter(|head| at.saturating_add(head.bytes()) <= self.size) else {
            return Ok(None);
        };
        let bytes = usize::try_from(head.directory_bytes()).unwrap_or(usize::MAX);
        let directory = self.bytes(at + head.directory_at(), bytes)?;
        Ok(head
            .directory(directory)
            .map(|chunks| FoundBlock { at, head, chunks }))
    }

    /// Where the next whole block begins, at or behind `from`; the file's end where there is none.
    fn next_block(&mut self, from: u64) -> io::Result<u64> {
        let mut at = from.next_multiple_of(ALIGN as u64);
        while at + HEAD as u64 <= self.size {
            if self.bytes(at, HEAD)?.starts_with(&MAGIC) && self.block_at(at)?.is_some() {
                return Ok(at);
            }
            at += ALIGN as u64;
        }
        Ok(self.size)
    }
}

/// The bytes of a sorted directory.
pub(crate) fn sorted(mut places: Vec<Place>) -> Vec<u8> {
    places.sort_by_key(|place| (place.session.0, place.at));
    let mut bytes = Vec::with_capacity(SORTED_HEAD + places.len() * SORTED_ENTRY);
    bytes.extend_from_slice(&SORTED);
    bytes.extend_from_slice(&[0; SORTED_HEAD - SORTED.len()]);
    for place in &places {
        bytes.extend_from_slice(&place.session.0.to_le_bytes());
        bytes.extend_from_slice(&place.first.to_le_bytes());
        bytes.extend_from_slice(&(place.count << 8 | u32::from(place.kind.code())).to_le_bytes());
        bytes.extend_from_slice(&place.bytes.to_le_bytes());
        bytes.extend_from_slice(&place.at.to_le_bytes());
        bytes.extend_from_slice(&place.sum.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    let sum = crc32fast::hash(&bytes[SORTED_HEAD..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn place_in(entry: &[u8]) -> Option<Place> {
    Some(Place {
        session: SessionKey(u64_at(entry, 0)),
        first: u64_at(entry, 8),
        count: u32_at(entry, 16) >> 8,
        kind: Kind::of(entry[16])?,
        bytes: u32_at(entry, 20),
        at: u64_at(entry, 24),
        sum: u32_at(entry, 32),
    })
}

/// A sorted directory on disk.
#[derive(Debug)]
pub(crate) struct Sorted {
    file: File,
    count: u64,
}

impl Sorted {
    /// Opens one; `None` where it is not what was written. Its entries are not compared with their checksum: what they
    /// lead to is.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = open_to_read(path)?;
        let mut head = [0; SORTED_HEAD];
        if file.read_exact_at(&mut head, 0).is_err() || head[..8] != SORTED {
            return Ok(None);
        }
        let count = u64::from(u32_at(&head, 8));
        let is_long_enough =
            file.metadata()?.len() == SORTED_HEAD as u64 + count * SORTED_ENTRY as u64;
        Ok(is_long_enough.then_some(Self { file, count }))
    }

    /// The places of one session, in the order in which they were written.
    pub(crate) fn of(&self, session: SessionKey) -> io::Result<Vec<Place>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut key = [0; 8];
            self.file.read_exact_at(&mut key, Self::at(middle))?;
            if u64::from_le_bytes(key) < session.0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut places = Vec::new();
        let mut buffer = [0; SORTED_ENTRY * 64];
        while low < self.count {
            let entries = usize::try_from(self.count - low).unwrap_or(64).min(64);
            let bytes = &mut buffer[..entries * SORTED_ENTRY];
            self.file.read_exact_at(bytes, Self::at(low))?;
            for entry in bytes.chunks_exact(SORTED_ENTRY) {
                match place_in(entry) {
                    Some(place) if place.session == session => places.push(place),
                    _ => return Ok(places),
                }
            }
            low += entries as u64;
        }
        Ok(places)
    }

    fn at(entry: u64) -> u64 {
        SORTED_HEAD as u64 + entry * SORTED_ENTRY as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::block::{Builder, Record};

    fn block(number: u64, session: u64, lines: &[u8]) -> Vec<u8> {
        let mut builder = Builder::default();
        let session = SessionKey(session);
        builder.push(Record {
            session,
            kind: Kind::Entries,
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
        let mut scan = Scan::new(&file, 0).unwrap();
        let mut found = Vec::new();
        loop {
            match scan.next().unwrap() {
                Found::Block(block) => found.push(format!("block {}", block.head.number)),
                Found::Damaged { from, to } => found.push(format!("damaged {}", to - from)),
                Found::End => return found,
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

        // What lies in the payload is not looked at here; a cut end is.
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

    #[test]
    fn a_sorted_directory_finds_each_session() {
        let places: Vec<_> = (0..1000)
            .map(|n| Place {
                session: SessionKey(n * 7 % 130),
                kind: Kind::Entries,
                first: n,
                count: 3,
                at: n * 10,
                bytes: 10,
                sum: 5,
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.dir");
        std::fs::write(&path, sorted(places.clone())).unwrap();
        let sorted = Sorted::open(&path).unwrap().unwrap();
        for session in 0..140 {
            let expected: Vec<_> = places
                .iter()
                .copied()
                .filter(|place| place.session.0 == session)
                .collect();
            assert_eq!(sorted.of(SessionKey(session)).unwrap(), expected);
        }
        std::fs::write(&path, b"TLJD\x01\0\0\0\x09\0\0\0").unwrap();
        assert!(Sorted::open(&path).unwrap().is_none());
    }
}
