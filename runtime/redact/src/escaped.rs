//! A text without its escapes, and where each of its bytes stood.

use std::ops::Range;

/// A text with its escapes decoded.
#[derive(Debug)]
pub(super) struct View {
    pub(super) text: Vec<u8>,
    escapes: Vec<Escape>,
}

/// An escape: the ends of the decoded bytes and of the original ones.
#[derive(Debug)]
struct Escape {
    end: usize,
    original_end: usize,
    length: u8,
    original_length: u8,
}

impl View {
    /// Returns the original range of a part, including the whole of an escape at either end.
    pub(super) fn original(&self, part: Range<usize>) -> Range<usize> {
        let start = match self.place(part.start) {
            Ok(plain) => plain,
            Err(escape) => escape.original_end - usize::from(escape.original_length),
        };
        let end = match self.place(part.end) {
            Ok(plain) => plain,
            Err(escape) => escape.original_end,
        };
        start..end
    }

    /// Returns the original position of a decoded one, or the escape that contains it.
    fn place(&self, at: usize) -> Result<usize, &Escape> {
        let before = self.escapes.partition_point(|escape| escape.end <= at);
        match self.escapes.get(before) {
            Some(escape) if escape.end - usize::from(escape.length) < at => Err(escape),
            _ => Ok(
                match before.checked_sub(1).map(|last| &self.escapes[last]) {
                    Some(last) => last.original_end + at - last.end,
                    None => at,
                },
            ),
        }
    }
}

/// The text with `\n`, `\"`, `\/`, `\u00e9`, `\u{e9}`, `\xe9` and their like read, as JSON and
/// programs write them. `None` where there are none but those that a registered value is known with
/// anyway.
pub(super) fn backslashes(text: &[u8]) -> Option<View> {
    let tells = |at: usize| matches!(text.get(at + 1), Some(b'u' | b'U' | b'x' | b'/'));
    memchr::memchr_iter(b'\\', text).find(|at| tells(*at))?;
    Some(read(text, b'\\', backslash))
}

/// The text with `%2F` and its like read. `None` where there are none.
pub(super) fn percents(text: &[u8]) -> Option<View> {
    memchr::memchr_iter(b'%', text).find(|at| percent(&text[*at..]).is_some())?;
    Some(read(text, b'%', percent))
}

/// The bytes of an escape that a text begins with, and its length.
type EscapeBytes = (([u8; 4], u8), u8);

fn read(text: &[u8], mark: u8, escape: impl Fn(&[u8]) -> Option<EscapeBytes>) -> View {
    let mut view = View {
        text: Vec::with_capacity(text.len()),
        escapes: Vec::new(),
    };
    let mut at = 0;
    while at < text.len() {
        let plain = memchr::memchr(mark, &text[at..]).unwrap_or(text.len() - at);
        view.text.extend_from_slice(&text[at..at + plain]);
        at += plain;
        if at == text.len() {
            break;
        }
        if let Some(((bytes, length), original_length)) = escape(&text[at..]) {
            view.text.extend_from_slice(&bytes[..usize::from(length)]);
            at += usize::from(original_length);
            view.escapes.push(Escape {
                end: view.text.len(),
                original_end: at,
                length,
                original_length,
            });
        } else {
            view.text.push(mark);
            at += 1;
        }
    }
    view
}

fn percent(text: &[u8]) -> Option<EscapeBytes> {
    let byte = number(text.get(1..3)?)?;
    Some((([byte as u8, 0, 0, 0], 1), 3))
}

fn backslash(text: &[u8]) -> Option<EscapeBytes> {
    let one = |byte| Some((([byte, 0, 0, 0], 1), 2));
    match *text.get(1)? {
        byte @ (b'"' | b'\'' | b'\\' | b'/') => one(byte),
        b'n' => one(b'\n'),
        b'r' => one(b'\r'),
        b't' => one(b'\t'),
        b'b' => one(0x08),
        b'f' => one(0x0c),
        b'x' => Some((([number(text.get(2..4)?)? as u8, 0, 0, 0], 1), 4)),
        b'U' => letter(number(text.get(2..10)?)?, 10),
        b'u' if text.get(2) == Some(&b'{') => {
            let digits = text[3..].iter().take(7).position(|byte| *byte == b'}')?;
            letter(number(&text[3..3 + digits])?, digits + 4)
        }
        b'u' => {
            let unit = number(text.get(2..6)?)?;
            let low = || match text.get(6..8)? {
                b"\\u" => number(text.get(8..12)?),
                _ => None,
            };
            match unit {
                0xD800..0xDC00 => {
                    let low = low().filter(|low| (0xDC00..0xE000).contains(low))?;
                    letter(0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12)
                }
                unit => letter(unit, 6),
            }
        }
        _ => None,
    }
}

fn letter(number: u32, length: usize) -> Option<EscapeBytes> {
    let mut bytes = [0; 4];
    let written = char::from_u32(number)?.encode_utf8(&mut bytes).len();
    Some(((bytes, written as u8), length as u8))
}

/// A number of hexadecimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    let digit = |number: u32, byte: &u8| Some(number << 4 | char::from(*byte).to_digit(16)?);
    (1..=8).contains(&digits.len()).then_some(())?;
    digits.iter().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_places_found_again() {
        for (text, said) in [
            (r"a\u00e9b", "aéb"),
            (r"\u{1F600}\ud83d\ude00\U0001F600", "😀😀😀"),
            (r#"\x41\/\"\\\n\t\'"#, "A/\"\\\n\t'"),
            (r"\\u0041", r"\u0041"),
            (
                r"\ud83d\u0041 \udc00 \u12 \u{110000} \q \x4",
                r"\ud83dA \udc00 \u12 \u{110000} \q \x4",
            ),
            (r"\", r"\"),
        ] {
            let view = read(text.as_bytes(), b'\\', backslash);
            assert_eq!(String::from_utf8_lossy(&view.text), said, "{text}");
            assert_eq!(view.original(0..view.text.len()), 0..text.len());
        }
        let view = backslashes(r"x\n\u00e9y\u0041z".as_bytes()).unwrap();
        assert_eq!(view.text, "x\néyAz".as_bytes());
        assert_eq!(
            view.original(1..3),
            1..9,
            "a part of a letter is the whole escape"
        );
        assert_eq!(view.original(3..5), 3..10);
        assert_eq!(view.original(5..6), 10..16);
        assert_eq!(view.original(6..7), 16..17);
        let view = percents(b"a%2Fb%2fc%zz%").unwrap();
        assert_eq!(view.text, b"a/b/c%zz%");
        assert_eq!(view.original(1..2), 1..4);
        assert_eq!(view.original(4..9), 8..13);
    }

    #[test]
    fn a_text_without_escapes_is_not_read() {
        assert!(backslashes(br#"plain \n \" \\ text"#).is_none());
        assert!(percents(b"100% of 5%x").is_none());
    }
}
