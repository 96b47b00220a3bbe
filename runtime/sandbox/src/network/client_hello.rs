//! Parser of the first message of a TLS client, with the name of the server.

use super::record::{APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, RecordReader};

/// Limit of a ClientHello, in bytes. Today's have 200 bytes to 2 KiB. A session ticket and a few
/// key shares of future algorithms fit.
const MAX_HELLO: usize = 32 * 1024;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

/// Information about the server in a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// Server name as the client sent it.
    pub(crate) server_name: Option<String>,
    /// True if the message contains an Encrypted Client Hello, so that the real name may differ. A
    /// GREASE extension cannot be distinguished from a real one.
    pub(crate) encrypted: bool,
}

/// Error if bytes are not a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelloProblem {
    /// The bytes do not begin like TLS.
    NotTls,
    /// The bytes begin like TLS, but break its rules or exceed a limit.
    Malformed,
}

/// Assembles a ClientHello from bytes in portions of any size, over any number of records.
///
/// It stores the message without the headers of records, and processes each byte once.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    place: HelloPosition,
    record: RecordReader,
    message: Vec<u8>,
}

/// Position of a ClientHello in its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum HelloPosition {
    #[default]
    First,
    /// Follows a HelloRetryRequest. Early data and a change of cipher spec, which the client sent
    /// before it received the request, come first.
    AfterRetry,
}

impl HelloReader {
    /// Creates a reader of the ClientHello that answers a HelloRetryRequest.
    pub(crate) fn after_retry() -> Self {
        Self {
            place: HelloPosition::AfterRetry,
            ..Self::default()
        }
    }

    /// Reads the next bytes. Returns the complete message, and the number of these bytes that
    /// belong to it.
    ///
    /// Must not be called again after it returned a message or an error.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(ClientHello, usize)>, HelloProblem> {
        let mut rest = bytes;
        while let Some(part) = self
            .record
            .next(&mut rest)
            .map_err(|kind| self.unexpected_record(kind))?
        {
            match (part.kind, self.place) {
                (HANDSHAKE, _) => self.message.extend_from_slice(part.content),
                (CHANGE_CIPHER_SPEC | APPLICATION_DATA, HelloPosition::AfterRetry)
                    if self.message.is_empty() =>
                {
                    continue;
                }
                (kind, _) => return Err(self.unexpected_record(kind)),
            }
            if let Some(hello) = self.parse_message()? {
                return Ok(Some((hello, bytes.len() - rest.len())));
            }
        }
        Ok(None)
    }

    /// Returns the error for a record of another kind, or for bytes that are no record, at this
    /// point.
    fn unexpected_record(&self, kind: u8) -> HelloProblem {
        let begun = kind == HANDSHAKE
            || !self.message.is_empty()
            || self.place == HelloPosition::AfterRetry;
        if begun {
            HelloProblem::Malformed
        } else {
            HelloProblem::NotTls
        }
    }

    fn parse_message(&self) -> Result<Option<ClientHello>, HelloProblem> {
        let Some((kind, rest)) = self.message.split_first() else {
            return Ok(None);
        };
        if *kind != CLIENT_HELLO {
            return Err(HelloProblem::Malformed);
        }
        let Some((length, body)) = rest.split_first_chunk::<3>() else {
            return Ok(None);
        };
        let [a, b, c] = *length;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_HELLO || body.len() > length {
            return Err(HelloProblem::Malformed);
        }
        if body.len() < length {
            return Ok(None);
        }
        // A second message in the same record could contain another name.
        if self.record.is_within() {
            return Err(HelloProblem::Malformed);
        }
        parse_body(&mut Bytes(body))
            .map(Some)
            .ok_or(HelloProblem::Malformed)
    }
}

/// Parses `legacy_version, random, session id, cipher suites, compression methods, extensions` (RFC
/// 8446, section 4.1.2). Returns `None` if the message is ambiguous: a repeated extension, a second
/// name, trailing bytes.
fn parse_body(body: &mut Bytes<'_>) -> Option<ClientHello> {
    body.read_bytes(2 + 32)?;
    body.read_vector8()?;
    body.read_vector16()?;
    body.read_vector8()?;
    let mut hello = ClientHello {
        server_name: None,
        encrypted: false,
    };
    if body.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = body.read_vector16()?;
    if !body.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.read_u16()?;
        let mut content = extensions.read_vector16()?;
        match kind {
            SERVER_NAME if hello.server_name.is_some() => return None,
            SERVER_NAME => hello.server_name = Some(parse_server_name(&mut content)?),
            ENCRYPTED_CLIENT_HELLO => hello.encrypted = true,
            _ => {}
        }
    }
    Some(hello)
}

/// Parses a list of exactly one host name (RFC 6066, section 3).
fn parse_server_name(content: &mut Bytes<'_>) -> Option<String> {
    let mut list = content.read_vector16()?;
    let [kind] = *list.read_bytes(1)? else {
        return None;
    };
    let name = list.read_vector16()?;
    let is_only_entry = content.0.is_empty() && list.0.is_empty();
    let name = String::from_utf8(name.0.to_vec()).ok()?;
    (is_only_entry && kind == HOST_NAME && !name.is_empty()).then_some(name)
}

/// Remaining bytes of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn read_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn read_u16(&mut self) -> Option<u16> {
        let [high, low] = *self.read_bytes(2)? else {
            return None;
        };
        Some(u16::from_be_bytes([high, low]))
    }

    fn read_vector8(&mut self) -> Option<Self> {
        let [length] = *self.read_bytes(1)? else {
            return None;
        };
        self.read_bytes(usize::from(length)).map(Self)
    }

    fn read_vector16(&mut self) -> Option<Self> {
        let length = self.read_u16()?;
        self.read_bytes(usize::from(length)).map(Self)
    }
}

#[cfg(test)]
mod tests;
