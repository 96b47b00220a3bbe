//! The first pass over the usual line: an object whose members are all strings.
//!
//! Such a line is read whole and checked whole, many bytes at a time. Anything else, a number or an
//! object among the members, an error, is left to the general reader; this one never accepts what
//! that one would not.

use std::borrow::Cow;

use crate::swar;

/// Result of one pass over a line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scanned<'a> {
    pub(crate) kind: Option<Cow<'a, str>>,
    pub(crate) session_id: Option<Cow<'a, str>>,
    pub(crate) turn_id: Option<Cow<'a, str>>,
    pub(crate) content: Option<Cow<'a, str>>,
    pub(crate) channel: Option<Cow<'a, str>>,
    /// True if there were no other members.
    pub(crate) plain: bool,
}

/// Reads a line of string members; nothing where it is anything else.
pub(crate) fn scan(line: &str) -> Option<Scanned<'_>> {
    frequent(line).or_else(|| usual(line))
}

/// Beginning of the two most frequent lines, if they are written without white space and with their
/// type first.
const OUTPUT: &str = "{\"type\":\"output\",\"session_id\":\"";
const COMPLETE: &str = "{\"type\":\"turn.complete\",\"session_id\":\"";

/// Reads a line of the most frequent form by comparing it with what such a line has between its values.
#[inline]
fn frequent(line: &str) -> Option<Scanned<'_>> {
    let (kind, rest) = match line.strip_prefix(OUTPUT) {
        Some(rest) => ("output", rest),
        None => ("turn.complete", line.strip_prefix(COMPLETE)?),
    };
    let (session_id, mut rest) = plain_text(rest)?;
    let mut scanned = Scanned {
        kind: Some(Cow::Borrowed(kind)),
        session_id: Some(Cow::Borrowed(session_id)),
        plain: true,
        ..Scanned::default()
    };
    while rest != "}" {
        let (slot, text) = if let Some(text) = rest.strip_prefix(",\"content\":\"") {
            (&mut scanned.content, text)
        } else {
            (&mut scanned.turn_id, rest.strip_prefix(",\"turn_id\":\"")?)
        };
        let (text, after) = plain_text(text)?;
        *slot = Some(Cow::Borrowed(text));
        rest = after;
    }
    Some(scanned)
}

/// Splits the rest of a string without escapes off, and its quote.
#[inline]
fn plain_text(rest: &str) -> Option<(&str, &str)> {
    let length = end_of_plain(rest.as_bytes())?;
    let (text, after) = rest.split_at_checked(length)?;
    Some((text, after.strip_prefix('"')?))
}

fn usual(line: &str) -> Option<Scanned<'_>> {
    let mut scanned = Scanned {
        plain: true,
        ..Scanned::default()
    };
    let mut at = Cursor { line, at: 0 };
    at.expect(b'{')?;
    loop {
        let name = at.name()?;
        at.expect(b':')?;
        let value = at.string()?;
        match name {
            Name::Kind => scanned.kind = Some(value),
            Name::SessionId => scanned.session_id = Some(value),
            Name::TurnId => scanned.turn_id = Some(value),
            Name::Content => scanned.content = Some(value),
            Name::Channel => scanned.channel = Some(value),
            Name::Other => scanned.plain = false,
        }
        match at.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    at.is_at_end().then_some(scanned)
}

/// The names that are looked for.
#[derive(Clone, Copy)]
pub(crate) enum Name {
    Kind,
    SessionId,
    TurnId,
    Content,
    Channel,
    Other,
}

impl Name {
    /// Returns the name at this position with its closing quote, and their length.
    #[inline(always)]
    fn written_at(bytes: &[u8]) -> Option<(Self, usize)> {
        // Comparisons with constants: each becomes one or two words.
        if bytes.starts_with(b"type\"") {
            Some((Self::Kind, 5))
        } else if bytes.starts_with(b"session_id\"") {
            Some((Self::SessionId, 11))
        } else if bytes.starts_with(b"content\"") {
            Some((Self::Content, 8))
        } else if bytes.starts_with(b"turn_id\"") {
            Some((Self::TurnId, 8))
        } else if bytes.starts_with(b"channel\"") {
            Some((Self::Channel, 8))
        } else {
            None
        }
    }

    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "type" => Self::Kind,
            "session_id" => Self::SessionId,
            "turn_id" => Self::TurnId,
            "content" => Self::Content,
            "channel" => Self::Channel,
            _ => Self::Other,
        }
    }
}

struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is not white space.
    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.line.as_bytes().get(self.at)?;
            self.at += 1;
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
        }
    }

    #[inline(always)]
    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    fn is_at_end(&mut self) -> bool {
        self.next().is_none()
    }

    /// Returns the name of a member. Expected names are compared in place.
    #[inline(always)]
    fn name(&mut self) -> Option<Name> {
        self.expect(b'"')?;
        let rest = &self.line.as_bytes()[self.at..];
        if let Some((name, length)) = Name::written_at(rest) {
            self.at += length;
            return Some(name);
        }
        self.at -= 1;
        self.string().map(|name| Name::parse(&name))
    }

    /// A string, borrowed where it has no escapes.
    #[inline(always)]
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.at;
        let rest = &self.line.as_bytes()[start..];
        let length = end_of_plain(rest)?;
        self.at = start + length + 1;
        if rest[length] == b'"' {
            Some(Cow::Borrowed(&self.line[start..start + length]))
        } else {
            self.escaped(start)
        }
    }

    /// A string with something in it that is not plain: an escape, or what no string may hold.
    #[cold]
    fn escaped(&mut self, start: usize) -> Option<Cow<'a, str>> {
        let rest = &self.line.as_bytes()[start..];
        let mut end = self.at - 1 - start;
        // The string ends at the first quote that no backslash precedes.
        while *rest.get(end)? == b'\\' {
            end += 2;
            end += memchr::memchr2(b'"', b'\\', rest.get(end..)?)?;
        }
        self.at = start + end + 1;
        // Between the quotes are whole characters: a quote is never within one.
        serde_json::from_str(&self.line[start - 1..self.at])
            .ok()
            .map(Cow::Owned)
    }
}

/// Returns the position of the first quote, backslash or control character. Short strings are read
/// word by word, long ones by vectors.
#[inline(always)]
fn end_of_plain(bytes: &[u8]) -> Option<usize> {
    const SHORT: usize = 64;
    match swar::first_special(&bytes[..bytes.len().min(SHORT)]) {
        Some(found) => Some(found),
        None => end_of_long(bytes, SHORT),
    }
}

fn end_of_long(bytes: &[u8], from: usize) -> Option<usize> {
    let long = bytes.get(from..)?;
    let length = memchr::memchr2(b'"', b'\\', long)?;
    // A fold without a branch becomes a few vector instructions.
    let control = long[..length]
        .iter()
        .fold(false, |found, byte| found | (*byte < 0x20));
    (!control).then_some(from + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::scan;
    use crate::head::scan_generally;

    /// Whatever is scanned is what the general reader reads.
    fn check(line: &str) {
        if let Some(scanned) = scan(line) {
            assert_eq!(Some(scanned), scan_generally(line), "{line:?}");
        }
    }

    #[test]
    fn usual_lines_are_scanned() {
        for line in [
            r#"{"type":"output","session_id":"s","content":"a\n\"b\" \u00e9 ü","channel":"stdout"}"#,
            r#" { "type" : "turn.complete" , "session_id":"s" } "#,
            r#"{"type":"x","type":"stop","session_id":"s","other":"y"}"#,
            r#"{"type":"output","session_id":"s","turn_id":"t1","content":"é"}"#,
            r#"{"type":"turn.complete","session_id":"s"}"#,
            r#"{"type":"output","session_id":"s","content":"x","content":"y"}"#,
            r#"{"type":"output","session_id":"s","content":"x","type":"log"}"#,
            r#"{"type":"output","session_id":"s" ,"content":"x"}"#,
        ] {
            assert!(scan(line).is_some(), "{line}");
            check(line);
        }
    }

    #[test]
    fn what_is_not_a_line_of_strings_is_left() {
        for line in [
            "",
            "{",
            "{}",
            "[]",
            r#"{"a"}"#,
            r#"{"a":1}"#,
            r#"{"a":null}"#,
            r#"{"a":"b",}"#,
            r#"{"a":"b"}x"#,
            r#"{"a":"b"#,
            r#"{"a":"\"#,
            r#"{"a":"\q"}"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\t\"}",
            "{\"a\":\"\\n\t\"}",
            r#"{a:"b"}"#,
        ] {
            assert_eq!(scan(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn it_never_differs_from_the_general_reader(
            pieces in prop::collection::vec(prop_oneof![
                Just("{".to_owned()), Just("}".to_owned()), Just("\"".to_owned()), Just(":".to_owned()), Just(",".to_owned()),
                Just("\\".to_owned()), Just("\"type\":\"output\"".to_owned()), Just("\"content\":\"a\\u0041\"".to_owned()),
                Just("\"session_id\":\"s\"".to_owned()), Just("\"turn_id\":\"t\"".to_owned()), Just(" ".to_owned()), Just("\u{1}".to_owned()), Just("é".to_owned()),
                "[a-z\"\\\\{}:, ]{0,6}",
            ], 0..14)
        ) {
            check(&pieces.concat());
            check(&format!("{{{}}}", pieces.concat()));
            check(&format!("{}{}", super::OUTPUT, pieces.concat()));
            check(&format!("{}s\",\"content\":\"{}", super::COMPLETE, pieces.concat()));
        }
    }
}
