//! Finding lines in bytes ([frame.2] to [frame.7]).

use serde::de::IgnoredAny;

/// The least that [`LineReader::space`] offers, in bytes: one read of a full pipe.
pub const READ_BYTES: usize = 64 * 1024;

/// The longest line that is read unless configured otherwise, in bytes without the LF: 16 MiB ([frame.5]).
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// The length that every reader accepts, in bytes without the LF: 1 MiB ([frame.5]).
///
/// No reader's limit is below it, and a writer that does not know its reader keeps its lines within it.
pub const MIN_MAX_LINE: usize = 1024 * 1024;

/// The bytes that are kept of a line that is too long or not text, to find the session that it was for.
pub const FIRST_BYTES: usize = 1024;

/// A buffer larger than this is given back once it holds no more than one read. Lines of 1 MiB,
/// which every peer sends, do not make it grow and shrink each time.
const KEPT_BYTES: usize = 40 * READ_BYTES;

pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A line, or what was found in its place. Blank lines are not items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// Text that begins as an object, trimmed of white space. [`Head::read`](crate::Head::read)
    /// decides whether it is a message.
    Line(&'a str),
    /// A line over the limit ([frame.5]). It was skipped.
    TooLong {
        /// The first bytes, up to [`FIRST_BYTES`].
        first: &'a [u8],
        /// Length in bytes, without the LF.
        bytes: u64,
    },
    /// A line that is not UTF-8 ([frame.6]).
    NotUtf8 {
        /// The line.
        line: &'a [u8],
    },
    /// A line that does not begin as an object ([frame.6]).
    NotObject(&'a str),
    /// The text after the last LF at the end of the input, which does not parse ([frame.7]).
    Cut(&'a [u8]),
}

/// Splits a stream of bytes into lines: bytes in, [`Item`]s out.
///
/// However the bytes are split over reads, the items are the same. Memory is bounded by the limit
/// plus two reads and falls back after a long line. Each byte is looked at once for LF and once for
/// UTF-8.
///
/// ```
/// use trunkline_protocol::{Item, LineReader};
///
/// let mut reader = LineReader::new(1024);
/// for bytes in [&b"{\"type\":\"st"[..], b"op\"}\nbanner\n"] {
///     reader.space()[..bytes.len()].copy_from_slice(bytes);
///     reader.filled(bytes.len());
/// }
/// assert_eq!(reader.next(), Some(Item::Line("{\"type\":\"stop\"}")));
/// assert_eq!(reader.next(), Some(Item::NotObject("banner")));
/// assert_eq!(reader.next(), None);
/// ```
#[derive(Debug)]
pub struct LineReader {
    limit: usize,
    buffer: Vec<u8>,
    /// Beginning of the unfinished line.
    start: usize,
    /// Up to where no LF was found.
    searched: usize,
    /// End of the bytes that were read.
    end: usize,
    /// A line over the limit that has not ended yet.
    skipped: Option<Skipped>,
    /// The line that the last item borrowed, kept until the next call.
    reported: Skipped,
    /// True if a line began as an object: a BOM is data from then on ([frame.3]).
    begun: bool,
}

#[derive(Debug, Default)]
struct Skipped {
    first: Vec<u8>,
    bytes: u64,
}

impl LineReader {
    /// Reads a peer's lines of up to `max_line` bytes, the LF not counted. A limit below
    /// [`MIN_MAX_LINE`] is raised to it, since no reader may skip a line that every peer sends
    /// ([frame.5]).
    #[must_use]
    pub fn of_peer(max_line: usize) -> Self {
        Self::new(max_line.max(MIN_MAX_LINE))
    }

    /// Reads lines of up to `limit` bytes, the LF not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            skipped: None,
            reported: Skipped::default(),
            begun: false,
        }
    }

    /// Room for the next read: at least [`READ_BYTES`]. Take all items before asking.
    pub fn space(&mut self) -> &mut [u8] {
        let held = self.end - self.start;
        if held == 0 {
            (self.start, self.searched, self.end) = (0, 0, 0);
        }
        let oversized = self.buffer.len() > KEPT_BYTES && held <= READ_BYTES;
        if oversized || self.buffer.len() - self.end < READ_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = held;
            self.searched -= self.start;
            self.start = 0;
        }
        if oversized {
            self.buffer.truncate(held + READ_BYTES);
            self.buffer.shrink_to_fit();
        }
        if self.buffer.len() - self.end < READ_BYTES {
            // Doubling keeps a long line linear; a line never needs more than the limit and one read.
            let wanted = (2 * held).max(READ_BYTES) + READ_BYTES;
            let wanted = wanted.min(held.max(self.limit) + 2 * READ_BYTES);
            self.buffer.reserve_exact(wanted - self.buffer.len());
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Returns the bytes that a read has just put into [`LineReader::space`], before they are
    /// added: the first `bytes` bytes, or fewer at its end.
    #[must_use]
    pub fn just_read(&self, bytes: usize) -> &[u8] {
        let space = &self.buffer[self.end..];
        &space[..bytes.min(space.len())]
    }

    /// Adds the first `bytes` bytes of [`LineReader::space`] to what was read.
    ///
    /// # Panics
    /// When more are claimed than there was room for.
    pub fn filled(&mut self, bytes: usize) {
        assert!(
            bytes <= self.buffer.len() - self.end,
            "a read fills no more than the space it was given"
        );
        self.end += bytes;
    }

    /// The memory that the reader holds, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// The next item that is whole.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the reader, so this is not an Iterator"
    )]
    pub fn next(&mut self) -> Option<Item<'_>> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..self.end]) else {
                self.searched = self.end;
                self.shed();
                return None;
            };
            let line = self.start..self.searched + found;
            self.start = line.end + 1;
            self.searched = self.start;
            if let Some(mut skipped) = self.skipped.take() {
                skipped.bytes += line.len() as u64;
                return Some(self.report(skipped));
            }
            if line.len() > self.limit {
                let first =
                    self.buffer[line.start..line.end.min(line.start + FIRST_BYTES)].to_vec();
                return Some(self.report(Skipped {
                    first,
                    bytes: line.len() as u64,
                }));
            }
            let trimmed = self.trimmed(line);
            if !trimmed.is_empty() {
                return Some(judge(&self.buffer[trimmed]));
            }
        }
    }

    /// The item that is left when the input has ended: a last line without LF counts if it parses
    /// ([frame.7]).
    pub fn finish(&mut self) -> Option<Item<'_>> {
        let line = self.start..self.end;
        (self.start, self.searched) = (self.end, self.end);
        if let Some(mut skipped) = self.skipped.take() {
            skipped.bytes += line.len() as u64;
            return Some(self.report(skipped));
        }
        if line.len() > self.limit {
            let first = self.buffer[line.start..line.start + FIRST_BYTES.min(line.len())].to_vec();
            return Some(self.report(Skipped {
                first,
                bytes: line.len() as u64,
            }));
        }
        let trimmed = self.trimmed(line);
        let rest = &self.buffer[trimmed];
        if rest.is_empty() {
            return None;
        }
        match judge(rest) {
            Item::Line(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                Some(Item::Line(text))
            }
            _ => Some(Item::Cut(rest)),
        }
    }

    /// Drops what has been read of a line that is over the limit already.
    fn shed(&mut self) {
        let under_way = self.start..self.end;
        if let Some(skipped) = &mut self.skipped {
            skipped.bytes += under_way.len() as u64;
        } else if under_way.len() > self.limit.max(FIRST_BYTES) {
            // One byte more than the limit may be the CR or LF that ends the line: a line is judged
            // when it is longer still.
            let first = self.buffer[under_way.start..under_way.start + FIRST_BYTES].to_vec();
            self.skipped = Some(Skipped {
                first,
                bytes: under_way.len() as u64,
            });
        } else {
            return;
        }
        self.start = self.end;
    }

    fn report(&mut self, skipped: Skipped) -> Item<'_> {
        self.reported = skipped;
        Item::TooLong {
            first: &self.reported.first,
            bytes: self.reported.bytes,
        }
    }

    /// The line without white space at its ends and without a BOM before the first message ([frame.3]).
    fn trimmed(&mut self, line: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let mut bytes = &self.buffer[line.clone()];
        if let [b'{', .., b'}'] = bytes {
            self.begun = true;
            return line;
        }
        let mut from = line.start;
        if !self.begun && bytes.starts_with(BOM) {
            from += BOM.len();
            bytes = &bytes[BOM.len()..];
        }
        let lead = bytes.len() - bytes.trim_ascii_start().len();
        let length = bytes.trim_ascii().len();
        self.begun |= bytes.get(lead) == Some(&b'{');
        from + lead..from + lead + length
    }
}

fn judge(line: &[u8]) -> Item<'_> {
    match std::str::from_utf8(line) {
        Err(_) => Item::NotUtf8 { line },
        Ok(text) if text.starts_with('{') => Item::Line(text),
        Ok(text) => Item::NotObject(text),
    }
}
