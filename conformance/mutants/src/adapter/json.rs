//! What is read of a line: the members of one object, each only where it is asked for ([frame.10]).

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Value, value::RawValue};

/// Deeper values make a message bad where they are read ([frame.10]).
const DEEPEST: usize = 128;

/// The longest id ([msg.1], [msg.6]).
const LONGEST_ID: usize = 256;

/// A field, as it was found.
#[derive(Debug, PartialEq, Clone)]
pub(crate) enum Field<T> {
    /// Missing, or null ([msg.3]).
    Absent,
    /// Not what the table says.
    Wrong,
    Is(T),
}

impl<T> Field<T> {
    /// An optional field: wrong is absent ([msg.5]).
    pub(crate) fn optional(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }
}

/// The members of an object, unread. Of duplicates the last.
#[derive(Debug)]
pub(crate) struct Fields<'a>(HashMap<String, &'a str>);

impl<'a> Fields<'a> {
    /// The object that a line is, if it is one.
    pub(crate) fn of_line(line: &'a str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(line).ok()?;
        Self::of(raw.get())
    }

    /// The members of a value that is known to be JSON.
    pub(crate) fn of(value: &'a str) -> Option<Self> {
        let mut rest = value.trim().strip_prefix('{')?.trim_start();
        let mut members = HashMap::new();
        while !rest.starts_with('}') {
            let (key, after) = cut_value(rest)?;
            let (value, after) = cut_value(after.trim_start().strip_prefix(':')?.trim_start())?;
            members.insert(text_of(key)?.0, value);
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        Some(Self(members))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The text of a value; null is absent.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|value| *value != "null")
    }

    /// A free text. An unpaired surrogate in it is U+FFFD.
    pub(crate) fn text(&self, name: &str) -> Field<String> {
        match self.raw(name) {
            None => Field::Absent,
            Some(raw) => text_of(raw).map_or(Field::Wrong, |(text, _)| Field::Is(text)),
        }
    }

    /// A text that must be as it was written: a type, an id. Of any length.
    pub(crate) fn exact(&self, name: &str) -> Field<String> {
        match self.raw(name) {
            None => Field::Absent,
            Some(raw) => match text_of(raw) {
                Some((text, Repaired::No)) => Field::Is(text),
                Some((_, Repaired::Yes)) | None => Field::Wrong,
            },
        }
    }

    /// An id: an empty one is absent, a long one wrong ([msg.6]).
    pub(crate) fn id(&self, name: &str) -> Field<String> {
        match self.exact(name) {
            Field::Is(id) if id.is_empty() => Field::Absent,
            Field::Is(id) if id.len() > LONGEST_ID => Field::Wrong,
            other => other,
        }
    }

    /// An id that a message can do without: one that is no string is absent, but a long one makes the message bad, and
    /// so does one that holds half a character ([msg.5], [msg.6], [frame.10]).
    pub(crate) fn optional_id(&self, name: &str) -> Field<String> {
        match self.raw(name) {
            Some(raw) if !raw.starts_with('"') => Field::Absent,
            Some(_) | None => self.id(name),
        }
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }

    /// A value of any kind, read whole.
    pub(crate) fn value(&self, name: &str) -> Field<Value> {
        match self.raw(name) {
            None => Field::Absent,
            Some(raw) if depth(raw) > DEEPEST => Field::Wrong,
            Some(raw) => serde_json::from_str(&cleaned(raw)).map_or(Field::Wrong, Field::Is),
        }
    }

    /// An array whose elements are all texts ([msg.5]).
    pub(crate) fn texts(&self, name: &str) -> Field<Vec<String>> {
        match self.value(name) {
            Field::Absent => Field::Absent,
            Field::Is(Value::Array(all)) => {
                let texts = all.into_iter().map(|one| match one {
                    Value::String(text) => Some(text),
                    _ => None,
                });
                texts.collect::<Option<_>>().map_or(Field::Wrong, Field::Is)
            }
            Field::Is(_) | Field::Wrong => Field::Wrong,
        }
    }
}

/// Whether a text held half a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repaired {
    Yes,
    No,
}

/// How deep a value is nested that is known to be JSON.
pub(crate) fn depth(raw: &str) -> usize {
    let (mut depth, mut deepest, mut rest) = (0_usize, 0, raw);
    while let Some(at) = rest.find(['"', '[', '{', ']', '}']) {
        match rest.as_bytes()[at] {
            b'"' => {
                rest = &rest[at + text_end(&rest[at..]).unwrap_or(rest.len() - at)..];
                continue;
            }
            b'[' | b'{' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        deepest = deepest.max(depth);
        rest = &rest[at + 1..];
    }
    deepest
}

/// A value that may be written out again: without white space around its parts, without half characters.
pub(crate) fn cleaned(raw: &str) -> String {
    let mut clean = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['"', ' ', '\t', '\n', '\r']) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match text_end(rest) {
            Some(end) if rest.starts_with('"') => {
                clean.push_str(&paired(&rest[..end]));
                end
            }
            _ => 1,
        };
        rest = &rest[end..];
    }
    clean.push_str(rest);
    clean
}

/// The session that the first bytes of a line name, if they do before anything nested.
pub(crate) fn session_named_in(first: &[u8]) -> Option<String> {
    let first = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&first[..error.valid_up_to()]).ok()?,
    };
    let mut rest = first.trim_start().strip_prefix('{')?.trim_start();
    loop {
        let (key, after) = cut_value(rest)?;
        let (value, after) = cut_value(after.trim_start().strip_prefix(':')?.trim_start())?;
        if text_of(key)?.0 == "session_id" {
            return text_of(value).map(|(id, _)| id);
        }
        rest = after.trim_start().strip_prefix(',')?.trim_start();
    }
}

/// A value at the start of a text, and what follows it.
fn cut_value(text: &str) -> Option<(&str, &str)> {
    let end = match text.as_bytes().first()? {
        b'"' => text_end(text)?,
        b'[' | b'{' => nest_end(text)?,
        _ => text.find([',', '}', ']', ':', ' ', '\t', '\r', '\n'])?,
    };
    Some(text.split_at(end))
}

fn text_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn nest_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match bytes.get(at)? {
            b'"' => {
                at += text_end(&text[at..])?;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The text of a JSON string.
fn text_of(raw: &str) -> Option<(String, Repaired)> {
    if !raw.starts_with('"') {
        return None;
    }
    if let Ok(text) = serde_json::from_str(raw) {
        return Some((text, Repaired::No));
    }
    Some((serde_json::from_str(&paired(raw)).ok()?, Repaired::Yes))
}

/// A JSON string in which each surrogate escape has its other half, or is U+FFFD.
fn paired(raw: &str) -> Cow<'_, str> {
    if !raw.contains("\\u") {
        return Cow::Borrowed(raw);
    }
    let mut clean = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match unit(rest) {
            Some(0xd800..0xdc00) => match unit(&rest[6..]) {
                Some(0xdc00..0xe000) => {
                    clean.push_str(&rest[..12]);
                    12
                }
                _ => replaced(&mut clean),
            },
            Some(0xdc00..0xe000) => replaced(&mut clean),
            Some(_) => {
                clean.push_str(&rest[..6]);
                6
            }
            None => {
                clean.push_str(&rest[..2]);
                2
            }
        };
        rest = &rest[end..];
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

fn replaced(clean: &mut String) -> usize {
    clean.push_str("\\ufffd");
    6
}

/// The code unit of the escape that a text begins with.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_become_replacement_characters() {
        let line = r#"{"a":"\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\ude00x\ud83d\u0041"}"#;
        let fields = Fields::of_line(line).unwrap();
        let text = |name| fields.text(name).optional().unwrap();
        assert_eq!((text("a").as_str(), text("b").as_str()), ("\u{fffd}", "😀"));
        assert_eq!((text("c").as_str(), text("d").as_str()), ("\\ud83d", "\u{fffd}x\u{fffd}A"));
        assert_eq!(fields.exact("a"), Field::Wrong);
        assert_eq!(fields.exact("b"), Field::Is("😀".to_owned()));
    }

    #[test]
    fn odd_values_do_no_harm() {
        let deep =
            format!("{{\"x\":{}{},\"n\":1e999,\"a\":1,\"a\":\"z\"}}", "[".repeat(10_000), "]".repeat(10_000));
        let fields = Fields::of_line(&deep).unwrap();
        assert_eq!(fields.text("a"), Field::Is("z".to_owned()));
        assert_eq!(fields.value("x"), Field::Wrong);
        assert_eq!(fields.value("n"), Field::Wrong);
        assert_eq!(depth(fields.raw("x").unwrap()), 10_000);
        for noise in ["", "[]", "{", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{}{}", "{\"a\":\"\t\"}", "null"]
        {
            assert!(Fields::of_line(noise).is_none(), "{noise}");
        }
    }

    #[test]
    fn long_ids_are_wrong_and_empty_ones_absent() {
        let line =
            format!("{{\"a\":\"{}\",\"b\":\"{}\",\"c\":\"\",\"d\":7}}", "x".repeat(256), "x".repeat(257));
        let fields = Fields::of_line(&line).unwrap();
        assert!(matches!(fields.id("a"), Field::Is(_)));
        assert_eq!(
            (fields.id("b"), fields.id("c"), fields.id("d")),
            (Field::Wrong, Field::Absent, Field::Wrong)
        );
        assert_eq!((fields.optional_id("b"), fields.optional_id("d")), (Field::Wrong, Field::Absent));
    }

    #[test]
    fn a_cut_line_may_name_its_session() {
        let first = br#"{"type":"user.input" , "n":1, "session_id":"s-\u0031","content":"xxx"#;
        assert_eq!(session_named_in(first).as_deref(), Some("s-1"));
        assert_eq!(session_named_in(br#"{"content":"xxxxx"#), None);
    }

    #[test]
    fn cleaned_values_hold_no_line_end() {
        assert_eq!(cleaned("[1,\r {\"a b\" :\"\\ud800\"} ]"), "[1,{\"a b\":\"\\ufffd\"}]");
    }
}
