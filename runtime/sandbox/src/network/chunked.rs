//! Reads and rewrites a chunked body (RFC 9112, section 7.1).

/// Limit of a line, in bytes: the size of a chunk, or a trailer.
const MAX_LINE: usize = 1024;

/// Limit of all trailers, in bytes.
const MAX_TRAILERS: usize = 8 * 1024;

/// Error: the chunks of a body are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedBody;

/// Reads a chunked body in portions of any size, and writes it in chunks of its own. Extensions and
/// trailers are dropped, because two readers might interpret them differently.
///
/// ```text
///  Size ── CR LF ──► Data ──► DataEnd ── CR LF ──► Size …
///    └── size 0 ──► Trailer ── empty line ──► Done
/// ```
#[derive(Debug, Default)]
pub(crate) struct ChunkedReader {
    state: State,
    /// Current line so far, up to and including its CR LF.
    line: Vec<u8>,
    trailers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    Done,
}

impl ChunkedReader {
    /// Parses the next bytes, and appends the rewritten chunks to `out`. When the body is complete,
    /// returns the bytes after it.
    pub(crate) fn push<'a>(
        &mut self,
        mut bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, MalformedBody> {
        while !bytes.is_empty() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(count);
                out.extend(format!("{count:x}\r\n").bytes());
                out.extend_from_slice(data);
                out.extend(b"\r\n");
                bytes = rest;
                self.state = match left - count as u64 {
                    0 => State::DataEnd,
                    left => State::Data(left),
                };
            } else {
                bytes = self.push_line(bytes, out)?;
            }
        }
        Ok((self.state == State::Done).then_some(bytes))
    }

    /// Reads bytes up to the end of the current line. Returns the remaining bytes.
    fn push_line<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], MalformedBody> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        self.line.extend_from_slice(part);
        if self.line.len() > MAX_LINE {
            return Err(MalformedBody);
        }
        if end.is_none() {
            return Ok(rest);
        }
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r\n").ok_or(MalformedBody)?;
        if line
            .iter()
            .any(|byte| byte.is_ascii_control() && *byte != b'\t')
        {
            return Err(MalformedBody);
        }
        self.state = match self.state {
            State::Size => match chunk_size(line)? {
                0 => State::Trailer,
                size => State::Data(size),
            },
            State::DataEnd if line.is_empty() => State::Size,
            State::DataEnd => return Err(MalformedBody),
            State::Trailer if line.is_empty() => {
                out.extend(b"0\r\n\r\n");
                State::Done
            }
            State::Trailer => {
                self.trailers += line.len();
                if self.trailers > MAX_TRAILERS {
                    return Err(MalformedBody);
                }
                State::Trailer
            }
            state @ (State::Data(_) | State::Done) => state,
        };
        Ok(rest)
    }
}

/// Parses hexadecimal digits with an optional extension after `;`.
fn chunk_size(line: &[u8]) -> Result<u64, MalformedBody> {
    let digits = line
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or(line)
        .trim_ascii_end();
    let text = std::str::from_utf8(digits).map_err(|_| MalformedBody)?;
    let plain = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain {
        u64::from_str_radix(text, 16).map_err(|_| MalformedBody)
    } else {
        Err(MalformedBody)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(parts: &[&[u8]]) -> Result<(Vec<u8>, bool), MalformedBody> {
        let mut reader = ChunkedReader::default();
        let mut out = Vec::new();
        let mut done = false;
        for part in parts {
            done = reader.push(part, &mut out)?.is_some();
        }
        Ok((out, done))
    }

    #[test]
    fn chunks_are_written_anew_without_extensions_and_trailers() {
        let body =
            b"5;name=\"v\"\r\nhello\r\n0A \r\n0123456789\r\n000\r\nTrailer: x\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(
            read(&[body]),
            Ok((b"5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n".to_vec(), true))
        );
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        for body in [
            &b"5\nhello\r\n"[..],
            b"5\r\nhello0\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"-1\r\n",
            b"\r\nhello",
            b" 5\r\nhello",
            b"5 5\r\nhello",
            b"fffffffffffffffff\r\n",
            b"5;a\rb\r\nhello",
            b"0\r\nTrailer: x\n\r\n",
        ] {
            assert_eq!(read(&[body]), Err(MalformedBody), "{}", body.escape_ascii());
        }
        assert_eq!(read(&[&[b'0'; MAX_LINE + 1]]), Err(MalformedBody));
        let trailers = [
            &b"0\r\n"[..],
            &b"Trailer: xxxxxxxxxxxxxxxxxxxxx\r\n".repeat(400),
        ]
        .concat();
        assert_eq!(read(&[&trailers]), Err(MalformedBody));
    }

    proptest! {
        #[test]
        fn a_body_means_the_same_however_it_comes(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in prop::collection::vec(1_usize..30, 1..8),
        ) {
            let mut body = Vec::new();
            for part in &parts {
                body.extend(format!("{:x}\r\n", part.len()).bytes());
                body.extend(part);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            let mut pieces = Vec::new();
            let mut rest = &body[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            let (out, done) = read(&pieces).unwrap();
            prop_assert!(done);
            // The rewritten body contains the same data.
            prop_assert_eq!(data(&out), parts.concat());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"0123;\r\n".to_vec())], 0..200)) {
            let _ = read(&[&bytes]);
        }
    }

    fn data(mut chunked: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        while let Some(end) = chunked.windows(2).position(|pair| pair == b"\r\n") {
            let size =
                usize::from_str_radix(std::str::from_utf8(&chunked[..end]).unwrap(), 16).unwrap();
            data.extend(&chunked[end + 2..end + 2 + size]);
            chunked = &chunked[end + 2 + size + 2..];
        }
        data
    }
}
