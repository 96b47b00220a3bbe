//! The parts of a value that are searched for, and their encodings.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::grams::SHORTEST;
use crate::wrapped::HEAD;

/// Length of the pieces of a long value, in bytes. A multiple of 3, so that the base64 text of the
/// whole consists of the base64 texts of its pieces.
const PIECE: usize = 510;

/// The encoding of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The bytes themselves, or a text from which they can be read one by one.
    Plain,
    /// Base64: characters beside it still carry bits of the value.
    Base64,
}

/// Returns the parts of a value to search for: the whole, the keys of a comma-separated pool, the
/// lines of a multi-line text. Parts below 12 bytes are left out, because ordinary text would
/// match.
pub(super) fn parts(value: &[u8]) -> Vec<&[u8]> {
    let value = value.trim_ascii();
    let mut parts: Vec<&[u8]> = pieces(value);
    for separator in [b',', b'\n'] {
        let split = value
            .split(|byte| *byte == separator)
            .map(<[u8]>::trim_ascii);
        parts.extend(
            split
                .filter(|part| part.len() < value.len() && is_key(part))
                .flat_map(pieces),
        );
    }
    parts.retain(|part| part.len() >= SHORTEST);
    parts
}

/// Returns true if a part of a value is a secret by itself: not prose, not JSON, not the first or
/// last line of a PEM text.
fn is_key(part: &[u8]) -> bool {
    !part
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || b"\"'{}[]".contains(byte))
        && !part.starts_with(b"-----")
}

fn pieces(value: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = value;
    // The last piece takes the remainder, so none is short.
    while rest.len() >= 2 * PIECE {
        let (piece, after) = rest.split_at(PIECE);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Every form of one part, each at least 12 bytes long. Other escapes than these are read before
/// values are looked for; see [`escaped`](crate::escaped).
pub(super) fn forms(part: &[u8]) -> Vec<(Form, Vec<u8>)> {
    let mut forms = vec![(Form::Plain, part.to_vec())];
    let mut add = |form, pattern: Vec<u8>| {
        if pattern.len() >= SHORTEST && !forms.iter().any(|(_, known)| *known == pattern) {
            forms.push((form, pattern));
        }
    };
    let escaped = escape(part);
    add(Form::Plain, escape(&escaped));
    add(Form::Plain, escaped);
    // As in the name of a host.
    add(Form::Plain, part.to_ascii_lowercase());
    // As in a form that is sent; the rest of it is escaped by percents.
    add(
        Form::Plain,
        part.iter()
            .map(|byte| if *byte == b' ' { b'+' } else { *byte })
            .collect(),
    );
    // The value can begin at the first, second or third byte of a group of three.
    for skipped in 0..3 {
        let whole = &part[skipped.min(part.len())..];
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let mut encoded = engine.encode(whole).into_bytes();
            // The last character contains bits of the text that follows the value.
            encoded.truncate(whole.len() * 8 / 6);
            // The form whose first characters are on the previous line.
            add(
                Form::Base64,
                encoded.get(HEAD..).unwrap_or_default().to_vec(),
            );
            add(Form::Base64, encoded);
        }
    }
    forms
}

/// Escapes a value as a JSON string or Rust's `Debug` text does.
fn escape(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'"' | b'\\' => escaped.extend([b'\\', *byte]),
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            b'\t' => escaped.extend(b"\\t"),
            _ => escaped.push(*byte),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(parts: &[&[u8]]) -> Vec<String> {
        parts
            .iter()
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect()
    }

    #[test]
    fn a_pool_and_lines_are_known_by_their_parts() {
        for (value, known) in [
            ("elevenchars", &[][..]),
            ("twelve-chars", &["twelve-chars"]),
            (" twelve-chars\n", &["twelve-chars"]),
            (
                "key-number-one, key-number-two,short",
                &[
                    "key-number-one, key-number-two,short",
                    "key-number-one",
                    "key-number-two",
                ],
            ),
            (
                "-----BEGIN KEY-----\nAAAAAAAAAAAAAAAA\nBBBBBBBBBBBBBBBB\nCC==",
                &[
                    "-----BEGIN KEY-----\nAAAAAAAAAAAAAAAA\nBBBBBBBBBBBBBBBB\nCC==",
                    "AAAAAAAAAAAAAAAA",
                    "BBBBBBBBBBBBBBBB",
                ],
            ),
            (
                r#"{"type":"service_account","id":1}"#,
                &[r#"{"type":"service_account","id":1}"#],
            ),
        ] {
            assert_eq!(texts(&parts(value.as_bytes())), known);
        }
    }

    #[test]
    fn a_long_value_is_known_by_pieces_without_a_short_one() {
        let long = vec![b'x'; 10 * PIECE + 7];
        let pieces = parts(&long);
        assert_eq!(pieces.concat(), long);
        assert!(
            pieces
                .iter()
                .all(|piece| (PIECE..2 * PIECE).contains(&piece.len()))
        );
    }

    #[test]
    fn a_value_is_known_in_the_forms_it_travels_in() {
        let value = "Pa\"ss\\wörd/with+more";
        let forms = forms(value.as_bytes());
        let has = |text: &str| forms.iter().any(|(_, pattern)| pattern == text.as_bytes());
        assert!(has(value));
        assert!(has(r#"Pa\"ss\\wörd/with+more"#));
        assert!(has(r#"Pa\\\"ss\\\\wörd/with+more"#));
        assert!(has("pa\"ss\\wörd/with+more"));
        for before in ["", "u", "us", "user:"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{value}!"));
            let found = forms.iter().any(|(form, pattern)| {
                *form == Form::Base64 && encoded.contains(std::str::from_utf8(pattern).unwrap())
            });
            assert!(found, "after {before:?}");
        }
    }
}
