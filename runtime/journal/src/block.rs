//! Blocks: one block is written by one commit, with lines and facts of many sessions and a
//! directory of them.
//!
//! ```text
//! header 40 │ payload, zeros up to 8 │ directory: 40 a chunk │ its checksum 4, zeros 4
//! ```
//!
//! Numbers are little-endian. The directory comes last, so that a block is built in one buffer and
//! written at once. Header, directory and each chunk have a checksum of their own: a flipped bit
//! costs one chunk, not those around it.
//!
//! Two kinds of marks belong to no session (key 0). With bytes, a mark is a copy of the file
//! `format`. With an id, it notes that the session of this *key* is written under the epoch `first`
//! from here on.

use crate::SessionKey;

/// The first bytes of a block.
pub(crate) const MAGIC: [u8; 4] = *b"TLJ1";

/// Length of a block's header, in bytes.
pub(crate) const HEADER: usize = 40;
/// Length of a directory's entry, in bytes.
const ENTRY: usize = 40;
/// Length of the checksum and the zeros behind a directory, in bytes.
const TAIL: usize = 8;

/// Blocks begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// The key of chunks that belong to no session.
pub(crate) const NO_SESSION: SessionKey = SessionKey(0);

/// The contents of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    /// Lines, one for each entry of a session.
    Entries,
    /// The facts of a session: the latest replace those before.
    Facts,
    /// A mark of a session that is no entry.
    Mark,
    /// The session is removed; its bytes are erased next.
    Removed,
    /// The bytes of the session are erased.
    Erased,
}

impl ChunkKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Entries => 1,
            Self::Facts => 2,
            Self::Mark => 3,
            Self::Removed => 4,
            Self::Erased => 5,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
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
pub(crate) struct ChunkHeader {
    pub(crate) session: SessionKey,
    pub(crate) kind: ChunkKind,
    /// The number of the first entry; for other kinds the number of the last entry before.
    pub(crate) first: u64,
    /// The number of entries. Facts have 1 when something is open in the session, other kinds have
    /// 0.
    pub(crate) count: u32,
    /// Offset in the payload, and length, in bytes.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    /// The checksum of these bytes.
    pub(crate) sum: u32,
    /// The hash of the session's id in its first chunk, 0 in all others.
    pub(crate) id: u64,
}

impl ChunkHeader {
    /// Returns the number behind the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub(crate) fn is_of_session(&self) -> bool {
        self.session != NO_SESSION
    }

    /// Returns the session and the epoch that it is written under from here on, if the chunk notes
    /// one.
    pub(crate) fn noted_epoch(&self) -> Option<(SessionKey, u64)> {
        (!self.is_of_session() && self.id != 0).then_some((SessionKey(self.id), self.first))
    }

    /// Returns whether the chunk is a copy of the file `format`.
    pub(crate) fn is_format_copy(&self) -> bool {
        !self.is_of_session() && self.id == 0 && self.bytes > 0
    }
}

/// The first bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// The number of chunks.
    pub(crate) chunks: u32,
    /// The length of the payload, in bytes.
    pub(crate) payload: u32,
    /// Blocks of a journal are numbered from 1, without a gap.
    pub(crate) number: u64,
    /// The opening of the journal that wrote it.
    pub(crate) epoch: u64,
    /// The time of the write: milliseconds since 1970.
    pub(crate) time: u64,
}

impl BlockHeader {
    /// Parses a header; `None` if the bytes are not what was written.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let header = Self {
            chunks: u32_at(bytes, 8),
            payload: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            time: u64_at(bytes, 32),
        };
        (bytes[..4] == MAGIC && u32_at(bytes, 4) == crc32fast::hash(&bytes[8..])).then_some(header)
    }

    fn write_to(self, bytes: &mut [u8]) {
        bytes[8..12].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.time.to_le_bytes());
        let sum = crc32fast::hash(&bytes[8..HEADER]);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns the offset of the directory in the block.
    pub(crate) fn directory_at(self) -> u64 {
        (HEADER as u64 + u64::from(self.payload)).next_multiple_of(ALIGN as u64)
    }

    /// Returns the length of the directory with its checksum, in bytes.
    pub(crate) fn directory_bytes(self) -> u64 {
        u64::from(self.chunks) * ENTRY as u64 + TAIL as u64
    }

    /// Returns the length of the whole block, in bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.directory_at() + self.directory_bytes()
    }

    /// Parses the directory; `None` if the bytes are not what was written.
    pub(crate) fn parse_directory(self, bytes: &[u8]) -> Option<Vec<ChunkHeader>> {
        let (entries, tail) = bytes.split_at_checked(self.chunks as usize * ENTRY)?;
        if tail.len() != TAIL || u32_at(tail, 0) != crc32fast::hash(entries) {
            return None;
        }
        entries
            .chunks_exact(ENTRY)
            .map(|entry| self.parse_chunk(entry))
            .collect()
    }

    fn parse_chunk(self, entry: &[u8]) -> Option<ChunkHeader> {
        let chunk = ChunkHeader {
            session: SessionKey(u64_at(entry, 0)),
            first: u64_at(entry, 8),
            count: u32_at(entry, 16) >> 8,
            kind: ChunkKind::from_code(entry[16])?,
            at: u32_at(entry, 20),
            bytes: u32_at(entry, 24),
            sum: u32_at(entry, 28),
            id: u64_at(entry, 32),
        };
        let end = u64::from(chunk.at) + u64::from(chunk.bytes);
        let is_countable = chunk.first.checked_add(u64::from(chunk.count)).is_some();
        (end <= u64::from(self.payload) && is_countable).then_some(chunk)
    }
}

/// Most entries of one chunk: the count shares its four bytes with the kind.
const MAX_CHUNK_ENTRIES: u32 = (1 << 24) - 1;

/// A block that is being gathered.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    /// Room for the header, then the payload.
    buffer: Vec<u8>,
    chunks: Vec<ChunkHeader>,
}

impl Default for BlockBuilder {
    fn default() -> Self {
        Self {
            buffer: vec![0; HEADER],
            chunks: Vec::new(),
        }
    }
}

/// A chunk to append to a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewChunk<'a> {
    pub(crate) session: SessionKey,
    pub(crate) kind: ChunkKind,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) id: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> NewChunk<'a> {
    /// Makes the mark that notes the epoch of a session.
    pub(crate) fn epoch_note(session: SessionKey, epoch: u64) -> Self {
        Self {
            session: NO_SESSION,
            kind: ChunkKind::Mark,
            first: epoch,
            count: 0,
            id: session.0,
            bytes: b"",
        }
    }

    /// Makes the mark that holds a copy of the file `format`.
    pub(crate) fn format_copy(bytes: &'a [u8]) -> Self {
        Self {
            session: NO_SESSION,
            kind: ChunkKind::Mark,
            first: 0,
            count: 0,
            id: 0,
            bytes,
        }
    }
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the length of the payload so far, in bytes.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.buffer.len() - HEADER
    }

    pub(crate) fn chunks(&self) -> &[ChunkHeader] {
        &self.chunks
    }

    /// Empties the block, and keeps at most `room` bytes of its buffers.
    pub(crate) fn clear(&mut self, room: usize) {
        self.buffer.truncate(HEADER);
        self.chunks.clear();
        self.buffer.shrink_to(room);
        self.chunks.shrink_to(room / ENTRY);
    }

    /// Appends a chunk. Entries that follow the last chunk extend it.
    pub(crate) fn push_chunk(&mut self, chunk: NewChunk<'_>) {
        let at = u32::try_from(self.payload_bytes()).unwrap_or(u32::MAX);
        let bytes = u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX);
        // The room for the marks and the directory after a long chunk: a buffer without it doubles.
        self.buffer
            .reserve(chunk.bytes.len() + chunk.bytes.len() / 32);
        self.buffer.extend_from_slice(chunk.bytes);
        if chunk.kind == ChunkKind::Entries
            && let Some(last) = self.chunks.last_mut()
            && (last.session, last.kind, last.end())
                == (chunk.session, ChunkKind::Entries, chunk.first)
            && last.count + chunk.count <= MAX_CHUNK_ENTRIES
        {
            last.count += chunk.count;
            last.bytes += bytes;
            return;
        }
        self.chunks.push(ChunkHeader {
            session: chunk.session,
            kind: chunk.kind,
            first: chunk.first,
            count: chunk.count,
            at,
            bytes,
            sum: 0,
            id: chunk.id,
        });
    }

    /// Completes the block: its header, its bytes and its directory.
    pub(crate) fn seal(
        &mut self,
        number: u64,
        epoch: u64,
        time: u64,
    ) -> (BlockHeader, &[u8], &[ChunkHeader]) {
        let payload = self.payload_bytes();
        for chunk in &mut self.chunks {
            let begin = HEADER + chunk.at as usize;
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
        let header = BlockHeader {
            chunks: u32::try_from(self.chunks.len()).unwrap_or(u32::MAX),
            payload: u32::try_from(payload).unwrap_or(u32::MAX),
            number,
            epoch,
            time,
        };
        header.write_to(&mut self.buffer[..HEADER]);
        (header, &self.buffer, &self.chunks)
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

    fn record(session: u64, first: u64, lines: &[u8]) -> NewChunk<'_> {
        let count = u32::try_from(memchr::memchr_iter(b'\n', lines).count()).unwrap();
        NewChunk {
            session: SessionKey(session),
            kind: ChunkKind::Entries,
            first,
            count,
            id: 0,
            bytes: lines,
        }
    }

    fn reread(bytes: &[u8]) -> Option<(BlockHeader, Vec<ChunkHeader>)> {
        let head = BlockHeader::parse(bytes.first_chunk()?)?;
        let begin = usize::try_from(head.directory_at()).ok()?;
        let end = usize::try_from(head.bytes()).ok()?;
        Some((head, head.parse_directory(bytes.get(begin..end)?)?))
    }

    #[test]
    fn what_was_written_is_read() {
        let mut builder = BlockBuilder::default();
        builder.push_chunk(record(1, 1, b"one\n"));
        builder.push_chunk(record(1, 2, b"two\nthree\n"));
        builder.push_chunk(record(2, 7, b"other\n"));
        builder.push_chunk(record(1, 4, b"four\n"));
        builder.push_chunk(record(1, 9, b"nine\n"));
        let (_, bytes, chunks) = builder.seal(3, 4, 5);
        let (head, reread) = reread(bytes).unwrap();
        assert_eq!(
            head,
            BlockHeader {
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
        fn a_flipped_bit_outside_the_payload_is_noticed(bit in 0_usize..8 * (HEADER + 3 * ENTRY + 4)) {
            let mut builder = BlockBuilder::default();
            builder.push_chunk(record(1, 1, b"12345678\n1234567"));
            builder.push_chunk(record(2, 1, b"12345678\n1234567"));
            builder.push_chunk(record(3, 1, b"12345678\n1234567"));
            let (_, bytes, _) = builder.seal(1, 1, 1);
            let mut bytes = bytes.to_vec();
            let at = if bit / 8 < HEADER { bit / 8 } else { bit / 8 + 48 };
            bytes[at] ^= 1 << (bit % 8);
            prop_assert!(reread(&bytes).is_none());
        }

        #[test]
        fn garbage_is_no_block(bytes in proptest::collection::vec(any::<u8>(), HEADER..200)) {
            prop_assert!(reread(&bytes).is_none());
        }
    }
}
