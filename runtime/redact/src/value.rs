//! The bounds of a value in a text, and whether it contains anything to hide.

use std::ops::Range;

use crate::placeholder::is_hidden;

/// The most that is skipped between a name and its value.
const BLANK: usize = 64;

/// A quote and the backslashes before it: one inside a JSON string has one, one inside that three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    mark: u8,
    backslashes: usize,
    /// The beginning of the quoted text.
    pub(super) end: usize,
}

/// The quote at `at`, with the backslashes before it.
pub(super) fn quote(text: &[u8], at: usize) -> Option<Quote> {
    let backslashes = text[at..]
        .iter()
        .take(16)
        .take_while(|byte| **byte == b'\\')
        .count();
    let mark = *text.get(at + backslashes)?;
    is_quote(mark).then_some(Quote {
        mark,
        backslashes,
        end: at + backslashes + 1,
    })
}

/// The quote that opens the value at `at`; as in `b'…'` and `Some("…")`, a prefix or a wrapper may
/// come before it.
pub(super) fn opening(text: &[u8], at: usize) -> Option<Quote> {
    let length = text[at..]
        .iter()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let word = &text[at..at + length];
    match text.get(at + length) {
        Some(b'(') if word.first().is_some_and(u8::is_ascii_uppercase) => {
            quote(text, at + length + 1)
        }
        _ if [b"".as_slice(), b"b", b"r", b"u", b"f", b"br", b"rb"].contains(&word) => {
            quote(text, at + length)
        }
        _ => None,
    }
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// Skips spaces, tabs and a terminal's colours.
pub(super) fn blank(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < text.len().min(from + BLANK) {
        match &text[at..] {
            [b' ' | b'\t', ..] => at += 1,
            [0x1b, b'[', rest @ ..] => {
                match rest
                    .iter()
                    .take(16)
                    .position(|byte| !b"0123456789;".contains(byte))
                {
                    Some(length) => at += length + 3,
                    None => return at,
                }
            }
            _ => return at.min(text.len()),
        }
    }
    at.min(text.len())
}

/// Returns the end of the text that `quote` opened: the matching quote, the end of the line, or the
/// end of the text.
///
/// Of `2n + 1` backslashes before a quote, at a depth where `n` belong to the quote, an escaped
/// quote has more.
pub(super) fn closing(text: &[u8], quote: Quote) -> usize {
    let mut backslashes = 0;
    for (at, byte) in text.iter().enumerate().skip(quote.end) {
        match *byte {
            b'\n' => return at,
            b'\\' => backslashes += 1,
            mark => {
                if mark == quote.mark
                    && backslashes % (2 * (quote.backslashes + 1)) == quote.backslashes
                {
                    return at - quote.backslashes;
                }
                backslashes = 0;
            }
        }
    }
    text.len()
}

/// Returns the end of a value without quotes: a blank, a quote, or an escaped quote inside a JSON
/// string. A quote behind `=` or a bracket belongs to the value with its content.
pub(super) fn bare(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = text.get(at) {
        match byte {
            0..=b' ' | 0x7f => return at,
            b'"' | b'\'' | b'`' | b'\\' => match quote(text, at) {
                Some(quote) if at > from && b"=([".contains(&text[at - 1]) => {
                    let end = closing(text, quote);
                    // One that nothing closes ends with its line.
                    match text.get(end + quote.backslashes) {
                        Some(mark) if *mark == quote.mark => at = end + quote.backslashes + 1,
                        _ => return end,
                    }
                }
                Some(_) => return at,
                None if matches!(text.get(at + 1), Some(b'n' | b'r' | b't')) => return at,
                None => at += 1,
            },
            _ => at += 1,
        }
    }
    at.min(text.len())
}

/// Where a list ends: behind its bracket, at the end of the line, or of all.
pub(super) fn list(text: &[u8], from: usize) -> Range<usize> {
    let end = text[from..]
        .iter()
        .position(|byte| matches!(byte, b']' | b'\n'));
    from..end.map_or(text.len(), |length| {
        from + length + usize::from(text[from + length] == b']')
    })
}

/// End of the line, or of the quotes around it.
pub(super) fn rest_of_line(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = text.get(at) {
        if matches!(byte, b'\n' | b'\r') || quote(text, at).is_some() {
            break;
        }
        if *byte == b'\\' && matches!(text.get(at + 1), Some(b'n' | b'r')) {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the end of the line, whatever it contains.
pub(super) fn line_end(text: &[u8], from: usize) -> usize {
    text[from..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(text.len(), |length| from + length)
}

/// Returns true if a text begins with the replacement of a list and continues as after one.
pub(super) fn is_hidden_list(text: &[u8]) -> bool {
    let end = list(text, 0).end;
    is_hidden(&text[..end])
        && text
            .get(end)
            .is_none_or(|byte| b",}] \\\r\n".contains(byte))
}

/// Returns true if a value is empty, or a word for "nothing".
pub(super) fn is_nothing(value: &[u8]) -> bool {
    let plain = value.strip_suffix(b",").unwrap_or(value);
    plain.iter().all(|byte| *byte == b'*')
        || [
            b"true".as_slice(),
            b"false",
            b"null",
            b"none",
            b"nil",
            b"undefined",
        ]
        .iter()
        .any(|word| plain.eq_ignore_ascii_case(word))
}

/// Returns true if a value is a count.
pub(super) fn is_count(value: &[u8]) -> bool {
    value.len() <= 24
        && value
            .iter()
            .all(|byte| byte.is_ascii_digit() || b"_.,/%()~kKM}]".contains(byte))
}

/// Returns true if a value without quotes is part of a sentence: it begins with a word of letters, and more
/// words follow it in its line. `token: unknown key` has no secret, nor has `key.py': [Errno 2] No`.
pub(super) fn is_in_sentence(text: &[u8], range: &Range<usize>) -> bool {
    let mut words = text[range.clone()].split(u8::is_ascii_whitespace);
    let word = words.next().unwrap_or_default();
    let word = word.strip_prefix(b"[").unwrap_or(word);
    let word = match word {
        [word @ .., b',' | b';' | b':' | b'.'] => word,
        _ => word,
    };
    let is_word = (1..20).contains(&word.len())
        && word
            .iter()
            .enumerate()
            .all(|(at, byte)| byte.is_ascii_lowercase() || (at == 0 && byte.is_ascii_uppercase()));
    let next = blank(text, range.end);
    is_word && next > range.end && text.get(next).is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns true if a word does not look like a word of a language.
pub(super) fn looks_random(value: &[u8]) -> bool {
    value.len() >= 8 && (value.len() >= 20 || value.iter().any(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_closes_at_its_own_depth() {
        for (text, inside) in [
            (r#""abc" rest"#, "abc"),
            (r#""a\"b\\" rest"#, r#"a\"b\\"#),
            (r#"\"abc\" rest"#, "abc"),
            (r#"\"a\\\"b\\\\\" rest"#, r#"a\\\"b\\\\"#),
            (r#"\\\"abc\\\" rest"#, "abc"),
            (r#"\\\"a\\\\\\\"b\\\" rest"#, r#"a\\\\\\\"b"#),
            ("'a\"b' rest", "a\"b"),
            ("\"cut off", "cut off"),
            ("\"line\nnext\"", "line"),
        ] {
            let opened = quote(text.as_bytes(), 0).unwrap();
            assert_eq!(
                &text[opened.end..closing(text.as_bytes(), opened)],
                inside,
                "{text}"
            );
        }
    }

    #[test]
    fn a_bare_value_ends_where_its_surroundings_go_on() {
        for (text, value) in [
            ("abc def", "abc"),
            ("abc\" rest", "abc"),
            (r"abc\nnext", "abc"),
            (r#"abc\" rest"#, "abc"),
            (r"a\bc", r"a\bc"),
            ("x=\"a b\" rest", "x=\"a b\""),
            ("a,b;c)", "a,b;c)"),
            ("x=\"a b\nnext", "x=\"a b"),
            ("x=(\"a b", "x=(\"a b"),
            ("", ""),
        ] {
            assert_eq!(&text[..bare(text.as_bytes(), 0)], value, "{text}");
        }
    }

    #[test]
    fn blanks_are_spaces_and_colours() {
        assert_eq!(blank(b" \t\x1b[0;2m \x1b[0mx", 0), 13);
        assert_eq!(blank(b"\x1b[", 0), 0);
        assert_eq!(blank(b"   ", 0), 3);
    }
}
