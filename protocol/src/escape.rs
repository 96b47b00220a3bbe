//! Writing JSON that any line reader can split.
//!
//! U+2028 and U+2029 are legal in JSON strings, but some readers take them for the end of a line;
//! writers escape them ([frame.2]).

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::swar;

/// Appends a value as JSON.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    if value
        .serialize(&mut Serializer::with_formatter(
            ReservingWriter(out),
            Separators,
        ))
        .is_err()
    {
        // Only a map with keys that are not strings fails, and no message has one.
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Reserves room for a text, and for the escapes and members that follow a long one. Without the
/// latter, a buffer that fits the text would double for the closing brace.
fn reserve(out: &mut Vec<u8>, bytes: usize) {
    out.reserve(bytes + bytes / 32);
}

/// Writer at the end of a buffer, with the room that [`reserve`] adds.
struct ReservingWriter<'a>(&'a mut Vec<u8>);

impl io::Write for ReservingWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        reserve(self.0, bytes.len());
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a string as JSON, many bytes at a time where nothing needs an escape.
#[inline]
pub(crate) fn write_str(out: &mut Vec<u8>, text: &str) {
    reserve(out, text.len() + 2);
    out.push(b'"');
    let plain = plain_prefix(text.as_bytes());
    out.extend_from_slice(&text.as_bytes()[..plain]);
    if plain < text.len() {
        write_escaped(out, &text.as_bytes()[plain..]);
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, mut rest: &[u8]) {
    while !rest.is_empty() {
        let (plain, tail) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        rest = match tail {
            [] => tail,
            [0xE2, 0x80, last @ (0xA8 | 0xA9), after @ ..] => {
                out.extend_from_slice(if *last == 0xA8 {
                    b"\\u2028"
                } else {
                    b"\\u2029"
                });
                after
            }
            [byte, after @ ..] => {
                write_byte(out, *byte);
                after
            }
        };
    }
}

/// Returns the number of bytes at the front that are copied unchanged.
#[inline]
fn plain_prefix(bytes: &[u8]) -> usize {
    const SHORT: usize = 64;
    const STEP: usize = 32;
    let (short, long) = bytes.split_at(bytes.len().min(SHORT));
    if let Some(found) = swar::first_to_escape(short) {
        return found;
    }
    let needs_care = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\' || byte == 0xE2;
    let mut at = 0;
    for block in long.chunks_exact(STEP) {
        // A fold without a branch, so that it becomes a few vector instructions.
        if block
            .iter()
            .fold(false, |found, byte| found | needs_care(*byte))
        {
            break;
        }
        at += STEP;
    }
    short.len() + swar::first_to_escape(&long[at..]).map_or(long.len(), |found| at + found)
}

fn write_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        0x00..0x20 => {
            out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
            return;
        }
        _ => {
            out.push(byte);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// serde_json's compact form, with U+2028 and U+2029 escaped.
struct Separators;

impl Formatter for Separators {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            out.write_all(if tail.starts_with('\u{2028}') {
                b"\\u2028"
            } else {
                b"\\u2029"
            })?;
            rest = &tail[3..];
        }
        CompactFormatter.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{write_str, write_value};

    proptest! {
        #[test]
        fn both_writers_agree_and_read_back(text in "\\PC*|[\\x00-\\x7f]{0,80}|(.|\u{2028}|\u{2029}|\u{20ac}|\"|\\\\){0,100}") {
            let mut fast = Vec::new();
            let mut plain = Vec::new();
            write_str(&mut fast, &text);
            write_value(&mut plain, text.as_str());
            prop_assert_eq!(&fast, &plain);
            prop_assert!(!fast.windows(3).any(|bytes| bytes[..2] == [0xE2, 0x80] && (bytes[2] & 0xFE) == 0xA8));
            prop_assert!(fast.iter().all(|byte| *byte >= 0x20));
            prop_assert_eq!(serde_json::from_slice::<String>(&fast).unwrap(), text);
        }
    }
}
