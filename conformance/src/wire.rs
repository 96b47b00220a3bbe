//! The suite's own reader and writer of lines: bytes to messages and back, sharing nothing with
//! what it judges.

use hmac_sha256::Hash as Sha256;
use memchr::memchr;
use serde_json::{Map, Value};

mod odd;

/// A message: a JSON object.
pub(crate) type Message = Map<String, Value>;

/// Classification of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parsed {
    /// A JSON object.
    Message(Message),
    /// Nothing but white space.
    Blank,
    /// Anything else, with the reason ([frame.6]).
    Noise(String),
}

impl Parsed {
    /// Reads one line, without its LF.
    pub(crate) fn parse(line: &[u8]) -> Self {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => return Self::Noise(format!("not UTF-8 at byte {}", error.valid_up_to())),
        };
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return Self::Blank;
        }
        // Not `from_str`, which is compiled here: debug builds optimize `serde_json`.
        match text.parse::<Value>() {
            Ok(Value::Object(message)) => Self::Message(message),
            Ok(Value::Array(_)) => Self::Noise("a JSON array, not an object".to_owned()),
            Ok(_) => Self::Noise("a JSON value, not an object".to_owned()),
            Err(error) => Self::Noise(format!("no JSON: {error}")),
        }
    }

    /// Reads one line as a reader must that tolerates odd JSON ([frame.10]): an unpaired surrogate
    /// becomes U+FFFD, what is nested too deeply becomes null, a number out of range becomes 0.
    pub(crate) fn lenient(line: &[u8]) -> Self {
        match Self::parse(line) {
            Self::Noise(reason) => match std::str::from_utf8(line).map(odd::tamed) {
                Ok(tamed) => match Self::parse(tamed.as_bytes()) {
                    Self::Message(message) => Self::Message(message),
                    _ => Self::Noise(reason),
                },
                Err(_) => Self::Noise(reason),
            },
            parsed => parsed,
        }
    }

    /// The message, if it is one.
    pub(crate) fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Blank | Self::Noise(_) => None,
        }
    }
}

/// The text of a member, or the empty string.
pub(crate) fn text<'a>(message: &'a Message, member: &str) -> &'a str {
    message
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The type of a message, or the empty string.
pub(crate) fn kind(message: &Message) -> &str {
    text(message, "type")
}

/// The session id of a message, or the empty string.
pub(crate) fn session(message: &Message) -> &str {
    text(message, "session_id")
}

/// An object with more members, of which those that it has already are replaced.
pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
    object
}

/// The SHA-256 of bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::hash(bytes))
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a message as one line with its LF, U+2028 and U+2029 escaped ([frame.1], [frame.2]).
/// `type` and `session_id` come first, as most hosts write them; cases that want another order
/// spell it.
pub(crate) fn line_of(message: &Value) -> Vec<u8> {
    let mut text = match message.as_object() {
        Some(members) => {
            let first = |name: &&str| matches!(*name, "type" | "session_id");
            let rest = members
                .keys()
                .map(String::as_str)
                .filter(|name| !first(name));
            let known = ["type", "session_id"]
                .into_iter()
                .filter(|name| members.contains_key(*name));
            let member = |name| format!("{}:{}", Value::from(name), members[name]);
            format!(
                "{{{}}}",
                known.chain(rest).map(member).collect::<Vec<_>>().join(",")
            )
        }
        None => message.to_string(),
    };
    if text.contains("\u{2028}") || text.contains("\u{2029}") {
        text = text
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
    }
    text.push('\n');
    text.into_bytes()
}

/// The pieces of bytes, each with the LF that ends it; the last may have none.
pub(crate) fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        let (piece, rest) = bytes.split_at(length);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Splits bytes at LF and nowhere else, however they arrive.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    rest: Vec<u8>,
}

impl Splitter {
    /// Takes bytes and hands each line that they end to `each`, without its LF.
    pub(crate) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.rest.is_empty() {
                each(&bytes[..end]);
            } else {
                self.rest.extend_from_slice(&bytes[..end]);
                each(&self.rest);
                self.rest.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.rest.extend_from_slice(bytes);
    }

    /// Returns the text after the last LF.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_lf_and_nowhere_else() {
        let bytes = "a\u{2028}b\u{85}\r\n\n\u{e9}".as_bytes();
        for cut in 0..bytes.len() {
            let mut splitter = Splitter::default();
            let mut lines = Vec::new();
            splitter.take(&bytes[..cut], |line| lines.push(line.to_vec()));
            splitter.take(&bytes[cut..], |line| lines.push(line.to_vec()));
            assert_eq!(
                lines,
                ["a\u{2028}b\u{85}\r".as_bytes().to_vec(), vec![]],
                "cut at {cut}"
            );
            assert_eq!(splitter.rest(), "\u{e9}".as_bytes());
        }
    }

    #[test]
    fn what_is_no_object_is_noise() {
        for noise in [
            "[]",
            "1",
            "null",
            "{",
            "{'a':1}",
            "{}{}",
            "{} x",
            "hello",
            "\u{feff}{}",
        ] {
            assert!(
                matches!(Parsed::parse(noise.as_bytes()), Parsed::Noise(_)),
                "{noise}"
            );
        }
        assert!(matches!(
            Parsed::parse(b"{\"a\":\"\xff\"}"),
            Parsed::Noise(_)
        ));
        assert_eq!(Parsed::parse(b" \t\r"), Parsed::Blank);
        assert!(matches!(Parsed::parse(b" {\"a\":1}\r"), Parsed::Message(_)));
    }

    #[test]
    fn separators_are_escaped() {
        assert_eq!(
            line_of(&serde_json::json!({"a":"\u{2028}"})),
            b"{\"a\":\"\\u2028\"}\n"
        );
    }

    #[test]
    fn the_type_stands_first() {
        let message = serde_json::json!({"a\"":1,"session_id":"s","type":"t"});
        assert_eq!(
            line_of(&message),
            b"{\"type\":\"t\",\"session_id\":\"s\",\"a\\\"\":1}\n"
        );
    }
}
