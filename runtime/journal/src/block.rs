//! A block, which is what one commit writes: lines and facts of many sessions, and a directory of them.
//!
//! ```text
//! head 40 │ payload, zeros up to 8 │ directory: 40 a chunk │ its checksum 4, zeros 4
//! ```
//!
//! Numbers are little-endian. The directory stands last, so that a block is built in one buffer and written at once.
//! Head, directory and each chunk have a checksum of their own: a flipped bit costs one chunk, not those around it.

use crate::SessionKey;

/// The first bytes of a block.
pub(crate) const MAGIC: [u8; 4] = *b"TLJ1";

/// The bytes of a head, and of an entry of the directory.
pub(crate) const HEAD: usize = 40;
const ENTRY: usize = 40;
/// The bytes behind a directory.
const TAIL: usize = 8;

/// Blocks begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lines, one for each entry of a session.
    Entries,
    /// What is known of a session: the latest replaces those before.
    Facts,
    /// A mark in a session's life that is no entry.
    Mark,
    /// The session is removed; its bytes are to be erased.
    Removed,
    /// They are.
    Erased,
}

impl Kind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Entries => 1,
            Self::Facts => 2,
            Self::Mark => 3,
            Self::Removed => 4,
            Self::Erased => 5,
        }
    }

    pub(crate) fn of(code: u8) -> Option<Self> {
        [
            Self::Entries,
            Self::Facts,
            Self::Mark,
            Self::Removed,
            Self::Erased,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

/// An entry of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) session: SessionKey,
    pub(crate) kind: Kind,
    /// The number of the first entry; of other kinds the number of the last entry before.
    pub(crate) first: u64,
    /// How many entries; 0 for other kinds.
    pub(crate) count: u32,
    /// Where it begins in the payload, and its length.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    /// The checksum of these bytes.
    pub(crate) sum: u32,
    /// The first chunk of a session has the hash of its id, and no other does.
    pub(crate) id: u64,
}

impl Chunk {
    /// The entry behind the last of it.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// The first bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// How many chunks there are.
    pub(crate) chunks: u32,
    /// The bytes of the payload.
    pub(crate) payload: u32,
    /// Blocks of a journal are numbered from 1, without a gap.
    pub(crate) number: u64,
    /// Which opening of the journal wrote it.
    pub(crate) epoch: u64,
    /// When: milliseconds since 1970.
    pub(crate) time: u64,
}

impl Head {
    /// Reads a head; `None` where none stands.
    pub(crate) fn read(bytes: &[u8; HEAD]) -> Option<Self> {
        let head = Self {
            chunks: u32_at(bytes, 8),
            payload: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            time: u64_at(bytes, 32),
        };
        (bytes[..4] == MAGIC && u32_at(bytes, 4) == crc32fast::hash(&bytes[8..])).then_some(head)
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[8..12].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.time.to_le_bytes());
        let sum = crc32fast::hash(&bytes[8..HEAD]);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Where the directory begins, from the block's begin.
    pub(crate) fn directory_at(self) -> u64 {
        (HEAD as u64 + u64::from(self.payload)).next_multiple_of(ALIGN as u64)
    }

    /// The bytes of the directory with its checksum.
    pub(crate) fn directory_bytes(self) -> u64 {
        u64::from(self.chunks) * ENTRY as u64 + TAIL as u64
    }

    /// The bytes of the whole block.
    pub(crate) fn bytes(self) -> u64 {
        self.directory_at() + self.directory_bytes()
    }

    /// Reads the directory from its bytes; `None` where they are not what was written.
    pub(crate) fn directory(self, bytes: &[u8]) -> Option<Vec<Chunk>> {
        let (entries, tail) = bytes.split_at_checked(self.chunks as usize * ENTRY)?;
        if tail.len() != TAIL || u32_at(tail, 0) != crc32fast::hash(entries) {
            return None;
        }
        entries
            .chunks_exact(ENTRY)
            .map(|entry| self.chunk(entry))
            .collect()
    }

    fn chunk(self, entry: &[u8]) -> Option<Chunk> {
        let chunk = Chunk {
            session: SessionKey(u64_at(entry, 0)),
            first: u64_at(entry, 8),
            count: u32_at(entry, 16) >> 8,
            kind: Kind::of(entry[16])?,
            at: u32_at(entry, 20),
            bytes: u32_at(entry, 24),
            sum: u32_at(entry, 28),
            id: u64_at(entry, 32),
        };
        let end = u64::from(chunk.at) + u64::from(chunk.bytes);
        let counted = chunk.first.checked_add(u64::from(chunk.count)).is_some();
        (end <= u64::from(self.payload) && counted).then_some(chunk)
    }
}

/// The most entries of one chunk: the count shares its four bytes with the kind.
const MOST_ENTRIES: u32 = (1 << 24) - 1;

/// A block that is being gathered.
#[derive(Debug)]
pub(crate) struct Builder {
    /// The room of the head, then the payload.
    buffer: Vec<u8>,
    chunks: Vec<Chunk>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            buffer: vec![0; HEAD],
            chunks: Vec::new(),
        }
    }
}

/// What is appended to a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) session: SessionKey,
    pub(crate) kind: Kind,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) id: u64,
    pub(crate) bytes: &'a [u8],
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The bytes that were gathered.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len() - HEAD
    }

    /// What was gathered.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Empties it, and keeps no more than so much room.
    pub(crate) fn clear(&mut self, room: usize) {
        self.buffer.truncate(HEAD);
        self.chunks.clear();
        self.buffer.shrink_to(room);
        self.chunks.shrink_to(room / ENTRY);
    }

    /// Appends a record. Entries that follow the last record's make one chunk with it.
    pub(crate) fn push(&mut self, record: Record<'_>) {
        let at = u32::try_from(self.buffer.len() - HEAD).unwrap_or(u32::MAX);
        let bytes = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        self.buffer.extend_from_slice(record.bytes);
        if record.kind == Kind::Entries
            && let Some(last) = self.chunks.last_mut()
            && (last.session, last.kind, last.end())
                == (record.session, Kind::Entries, record.first)
            && last.count + record.count <= MOST_ENTRIES
        {
            last.count += record.count;
            last.bytes += bytes;
            return;
        }
        self.chunks.push(Chunk {
            session: record.session,
            kind: record.kind,
            first: record.first,
            count: record.count,
            at,
            bytes,
            sum: 0,
            id: record.id,
        });
    }

    /// Completes the block: its head, its bytes and its directory.
    pub(crate) fn seal(&mut self, number: u64, epoch: u64, time: u64) -> (Head, &[u8], &[Chunk]) {
        let payload = self.bytes();
        for chunk in &mut self.chunks {
            let begin = HEAD + chunk.at as usize;
            chunk.sum = crc32fast::hash(&self.buffer[begin..begin + chunk.bytes as usize]);
        }
        self.buffer
            .resize(self.buffer.len().next_multiple_of(ALIGN), 0);
        let directory = self.buffer.len();
        for chunk in &self.chunks {
            self.buffer
                .extend_from_slice(&chunk.session.0.to_le_bytes());
            self.buffer.extend_from_slice(&chunk.first.to_le_bytes());
            let count = chunk.count << 8 | u32::from(chunk.kind.code());
            for number in [count, chunk.at, chunk.bytes, chunk.sum] {
                self.buffer.extend_from_slice(&number.to_le_bytes());
            }
            self.buffer.extend_from_slice(&chunk.id.to_le_bytes());
        }
        let sum = crc32fast::hash(&self.buffer[directory..]);
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        let head = Head {
            chunks: u32::try_from(self.chunks.len()).unwrap_or(u32::MAX),
            payload: u32::try_from(payload).unwrap_or(u32::MAX),
            number,
            epoch,
            time,
        };
        head.write(&mut self.buffer[..HEAD]);
        (head, &self.buffer, &self.chunks)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(session: u64, first: u64, lines: &[u8]) -> Record<'_> {
        let count = u32::try_from(memchr::memchr_iter(b'\n', lines).count()).unwrap();
        Record {
            session: SessionKey(session),
            kind: Kind::Entries,
            first,
            count,
            id: 0,
            bytes: lines,
        }
    }

    fn reread(bytes: &[u8]) -> Option<(Head, Vec<Chunk>)> {
        let head = Head::read(bytes.first_chunk()?)?;
        let begin = usize::try_from(head.directory_at()).ok()?;
        let end = usize::try_from(head.bytes()).ok()?;
        Some((head, head.directory(bytes.get(begin..end)?)?))
    }

    #[test]
    fn what_was_written_is_read() {
        let mut builder = Builder::default();
        builder.push(record(1, 1, b"one\n"));
        builder.push(record(1, 2, b"two\nthree\n"));
        builder.push(record(2, 7, b"other\n"));
        builder.push(record(1, 4, b"four\n"));
        builder.push(record(1, 9, b"nine\n"));
        let (_, bytes, chunks) = builder.seal(3, 4, 5);
        let (head, reread) = reread(bytes).unwrap();
        assert_eq!(
            head,
            Head {
                chunks: 4,
                payload: 30,
                number: 3,
                epoch: 4,
                time: 5
            }
        );
        assert_eq!(head.bytes(), bytes.len() as u64);
        assert_eq!(reread, chunks);
        // Neighbours of one session whose numbers follow each other are one chunk.
        let shapes: Vec<_> = reread
            .iter()
            .map(|c| (c.session.0, c.first, c.count, c.bytes))
            .collect();
        assert_eq!(
            shapes,
            [(1, 1, 3, 14), (2, 7, 1, 6), (1, 4, 1, 5), (1, 9, 1, 5)]
        );
    }

    proptest! {
        #[test]
        fn a_flipped_bit_outside_the_payload_is_noticed(bit in 0_usize..8 * (HEAD + 3 * ENTRY + 4)) {
            let mut builder = Builder::default();
            builder.push(record(1, 1, b"12345678\n1234567"));
            builder.push(record(2, 1, b"12345678\n1234567"));
            builder.push(record(3, 1, b"12345678\n1234567"));
            let (_, bytes, _) = builder.seal(1, 1, 1);
            let mut bytes = bytes.to_vec();
            let at = if bit / 8 < HEAD { bit / 8 } else { bit / 8 + 48 };
            bytes[at] ^= 1 << (bit % 8);
            prop_assert!(reread(&bytes).is_none());
        }

        #[test]
        fn garbage_is_no_block(bytes in proptest::collection::vec(any::<u8>(), HEAD..200)) {
            prop_assert!(reread(&bytes).is_none());
        }
    }
}
