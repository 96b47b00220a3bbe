//! JSON text, read without being converted: a relay passes on what it does not interpret, and an
//! adapter reads a member only where it needs it ([frame.10]).

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Map, Value, value::RawValue};

/// A member of the outermost object.
#[derive(Debug)]
pub struct Member<'a> {
    /// The key, its escapes undone.
    pub key: String,
    /// The value as it was written.
    pub raw: &'a str,
    /// Nesting depth of the value.
    pub depth: usize,
}

/// The members of a text that is one JSON object; nothing for anything else ([frame.6]).
pub fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::new();
    read_members(text, &mut members).ok()?;
    Some(members)
}

/// Returns the nesting depth of a valid value.
pub fn depth(value: &str) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The session that the first bytes of a line name, if they do before anything that is cut off ([frame.5]).
pub fn session_named_in(head: &[u8]) -> Option<String> {
    let mut members = Vec::new();
    // The cut makes it fail, behind the members that are whole.
    let _ = read_members(head.utf8_chunks().next()?.valid(), &mut members);
    let id = members
        .iter()
        .find(|member| member.key == "session_id")?
        .raw;
    id.starts_with('"').then(|| decode(id).0)
}

/// Adds the members of an object to `members`, one after the other, until the text is not valid.
fn read_members<'a>(text: &'a str, members: &mut Vec<Member<'a>>) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(MemberReader(members))?;
    reader.end()
}

struct MemberReader<'m, 'a>(&'m mut Vec<Member<'a>>);

impl<'a> Visitor<'a> for MemberReader<'_, 'a> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            self.0.push(Member {
                key: decode(key.get()).0,
                raw: value.get(),
                depth: depth(value.get()),
            });
        }
        Ok(())
    }
}

/// A member that is text, or the empty string.
pub fn text<'a>(members: &'a Map<String, Value>, name: &str) -> &'a str {
    members
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The halves of a text of two characters or more.
pub fn halves(text: &str) -> Option<[&str; 2]> {
    let (first, second) = text.split_at(text.ceil_char_boundary(text.len() / 2));
    (!first.is_empty() && !second.is_empty()).then_some([first, second])
}

/// Decodes the escapes of a JSON string; the flag is true if it held an unpaired surrogate
/// ([frame.10]).
pub fn decode(raw: &str) -> (String, bool) {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let mut out = String::with_capacity(inner.len());
    let mut lone = false;
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let (character, length) = escape(tail);
        lone |= character.is_none();
        out.push(character.unwrap_or('\u{fffd}'));
        rest = &tail[length.min(tail.len())..];
    }
    out.push_str(rest);
    (out, lone)
}

/// The character of the escape at the start of `text` and its length; none for half a surrogate pair.
fn escape(text: &str) -> (Option<char>, usize) {
    let unit = |from: usize| {
        text.get(from..from + 4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let plain = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let first = unit(2).unwrap_or(0xfffd);
            if (0xd800..0xdc00).contains(&first)
                && text.get(6..8) == Some("\\u")
                && let Some(second) = unit(8).filter(|unit| (0xdc00..0xe000).contains(unit))
            {
                return (
                    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)),
                    12,
                );
            }
            return (char::from_u32(first), 6);
        }
        Some(other) => char::from(*other),
        None => '\u{fffd}',
    };
    (Some(plain), 2)
}

/// The same JSON as a writer may put it on the wire: no raw CR, the separators as escapes, no half of a
/// surrogate pair ([frame.1], [frame.2], [frame.10]).
pub fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\r', '\u{2028}', '\u{2029}', '\\']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let (clean, length) = match tail.as_bytes()[0] {
            b'\r' => (" ", 1),
            b'\\' => {
                let (character, length) = escape(tail);
                let length = length.min(tail.len());
                (character.map_or("\\ufffd", |_| &tail[..length]), length)
            }
            _ if tail.starts_with('\u{2028}') => ("\\u2028", 3),
            _ => ("\\u2029", 3),
        };
        out.push_str(clean);
        rest = &tail[length..];
    }
    out.push_str(rest);
    out
}

/// Returns the same JSON in ASCII.
pub fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Returns a text as a JSON string for the wire.
pub fn quote(text: &str) -> String {
    clean(&Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_noise() {
        for text in [
            "",
            "[]",
            "7",
            "{",
            "{}x",
            "{'a':1}",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":\"\u{1}\"}",
            "{}{}",
        ] {
            assert!(members(text).is_none(), "{text}");
        }
    }

    #[test]
    fn values_of_any_depth_and_size_pass() {
        let deep = format!(
            "{{\"a\":{}1{},\"n\":1e999}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let found = members(&deep).expect("an object");
        assert_eq!((found[0].depth, found[1].raw), (10_000, "1e999"));
    }

    #[test]
    fn surrogates_pair_or_are_replaced() {
        assert_eq!(decode("\"\\ud83d\\ude00\""), ("\u{1f600}".into(), false));
        assert_eq!(decode("\"a\\ud83db\""), ("a\u{fffd}b".into(), true));
        assert_eq!(
            clean("\"\\ud83d\\u0041\u{2028}\""),
            "\"\\ufffd\\u0041\\u2028\""
        );
        assert_eq!(clean("\"\\ud83d\\ude00\\\\u\""), "\"\\ud83d\\ude00\\\\u\"");
    }

    #[test]
    fn a_cut_line_may_name_its_session() {
        let first = br#"{"type":"user.input" , "n":1, "session_id":"s-\u0031","content":"xxx"#;
        assert_eq!(session_named_in(first).as_deref(), Some("s-1"));
        assert_eq!(session_named_in(br#"{"content":"xxxxx"#), None);
    }
}
