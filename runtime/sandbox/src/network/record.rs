//! Parser of TLS records from bytes in portions of any size (RFC 8446, section 5.1).

pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// Limit of the content of a record, in bytes: 16 KiB and the overhead of encryption.
const MAX_RECORD: usize = 16 * 1024 + 256;

/// Splits bytes into the contents of records.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    header: [u8; 5],
    header_length: usize,
    /// Number of bytes that the current record still lacks.
    left: usize,
}

/// A part of a record's content, never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordPart<'a> {
    pub(crate) kind: u8,
    pub(crate) content: &'a [u8],
}

impl RecordReader {
    /// Removes the next part from the front of `bytes`. Returns `None` when they are used up.
    ///
    /// # Errors
    ///
    /// The bytes are not a record. The error is the byte at the position of the record's type.
    pub(crate) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<RecordPart<'a>>, u8> {
        while self.left == 0 {
            let Some((first, rest)) = bytes.split_first() else {
                return Ok(None);
            };
            *bytes = rest;
            if let Some(place) = self.header.get_mut(self.header_length) {
                *place = *first;
            }
            self.header_length += 1;
            let [kind, major, _, high, low] = self.header;
            let is_record = (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&kind);
            if !is_record || self.header_length > 1 && major != 3 {
                // 0 is not a record type. With a wrong version, the type has no meaning.
                return Err(if is_record { 0 } else { kind });
            }
            if self.header_length == self.header.len() {
                self.header_length = 0;
                self.left = usize::from(u16::from_be_bytes([high, low]));
                if self.left == 0 || self.left > MAX_RECORD {
                    return Err(kind);
                }
            }
        }
        let (content, rest) = bytes.split_at(bytes.len().min(self.left));
        if content.is_empty() {
            return Ok(None);
        }
        *bytes = rest;
        self.left -= content.len();
        let [kind, ..] = self.header;
        Ok(Some(RecordPart { kind, content }))
    }

    /// Returns true if the current record is incomplete.
    pub(crate) fn is_within(&self) -> bool {
        self.left > 0
    }
}
