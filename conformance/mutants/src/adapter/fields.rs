//! The fields of a message: each is read only where it is needed ([frame.10]).

use std::collections::HashMap;

use serde_json::Value;
use trunkline_conformance_mutants::json::{Member, clean, decode, members};

/// Deeper values make a message bad where they are read ([frame.10]).
const DEEPEST: usize = 128;

/// The longest id ([msg.1], [msg.6]).
const LONGEST_ID: usize = 256;

/// A field, as it was found.
#[derive(Debug, PartialEq, Clone)]
pub(crate) enum Field<T> {
    /// Missing, or null ([msg.3]).
    Absent,
    /// Different from the table.
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
pub(crate) struct Fields<'a>(HashMap<String, Member<'a>>);

impl<'a> Fields<'a> {
    /// The object that a line is, if it is one.
    pub(crate) fn of_line(line: &'a str) -> Option<Self> {
        Some(Self(
            members(line)?
                .into_iter()
                .map(|member| (member.key.clone(), member))
                .collect(),
        ))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The text of a value; null is absent.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        Some(self.member(name)?.raw)
    }

    fn member(&self, name: &str) -> Option<&Member<'a>> {
        self.0.get(name).filter(|member| member.raw != "null")
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
                Some((text, false)) => Field::Is(text),
                Some((_, true)) | None => Field::Wrong,
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

    /// An id that a message can do without: one that is not a string is absent, but a long one
    /// makes the message bad, and so does one that holds half a character ([msg.5], [msg.6],
    /// [frame.10]).
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
        match self.member(name) {
            None => Field::Absent,
            Some(member) if member.depth > DEEPEST => Field::Wrong,
            Some(member) => {
                serde_json::from_str(&clean(member.raw)).map_or(Field::Wrong, Field::Is)
            }
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

/// The text of a JSON string, and whether it held half a character.
fn text_of(raw: &str) -> Option<(String, bool)> {
    raw.starts_with('"').then(|| decode(raw))
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
        assert_eq!(
            (text("c").as_str(), text("d").as_str()),
            ("\\ud83d", "\u{fffd}x\u{fffd}A")
        );
        assert_eq!(fields.exact("a"), Field::Wrong);
        assert_eq!(fields.exact("b"), Field::Is("😀".to_owned()));
    }

    #[test]
    fn odd_values_do_no_harm() {
        let deep = format!(
            "{{\"x\":{}{},\"n\":1e999,\"a\":1,\"a\":\"z\"}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let fields = Fields::of_line(&deep).unwrap();
        assert_eq!(fields.text("a"), Field::Is("z".to_owned()));
        assert_eq!(fields.value("x"), Field::Wrong);
        assert_eq!(fields.value("n"), Field::Wrong);
        assert_eq!(fields.member("x").unwrap().depth, 10_000);
        for noise in [
            "",
            "[]",
            "{",
            "{\"a\":1,}",
            "{'a':1}",
            "{\"a\":01}",
            "{}{}",
            "{\"a\":\"\t\"}",
            "null",
        ] {
            assert!(Fields::of_line(noise).is_none(), "{noise}");
        }
    }

    #[test]
    fn long_ids_are_wrong_and_empty_ones_absent() {
        let line = format!(
            "{{\"a\":\"{}\",\"b\":\"{}\",\"c\":\"\",\"d\":7}}",
            "x".repeat(256),
            "x".repeat(257)
        );
        let fields = Fields::of_line(&line).unwrap();
        assert!(matches!(fields.id("a"), Field::Is(_)));
        assert_eq!(
            (fields.id("b"), fields.id("c"), fields.id("d")),
            (Field::Wrong, Field::Absent, Field::Wrong)
        );
        assert_eq!(
            (fields.optional_id("b"), fields.optional_id("d")),
            (Field::Wrong, Field::Absent)
        );
    }
}
