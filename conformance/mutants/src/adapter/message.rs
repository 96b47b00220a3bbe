//! Written messages: one message as one line ([frame.1], [frame.2]).

use serde_json::{Map, Value, json};
use trunkline_conformance_mutants::json::{ascii, halves, text};

use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// The members of a message, or of a part of one.
pub(crate) type Members = Map<String, Value>;

/// A message to the host, before it has a session.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) kind: &'static str,
    pub(crate) turn_id: Option<String>,
    pub(crate) members: Members,
}

impl Message {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            turn_id: None,
            members: Members::new(),
        }
    }

    pub(crate) fn with_members(kind: &'static str, members: Members) -> Self {
        Self {
            kind,
            turn_id: None,
            members,
        }
    }

    /// A piece of the answer.
    pub(crate) fn output(content: &str) -> Self {
        Self::new("output").with("content", content)
    }

    /// Creates a note of the adapter or host about the session.
    pub(crate) fn system(content: &str) -> Self {
        Self::output(content).with("channel", "system")
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Returns the two halves of an output with two characters or more; otherwise only itself.
    pub(crate) fn halves(self) -> Vec<Self> {
        match halves(text(&self.members, "content")) {
            Some(halves) if self.kind == "output" => {
                halves.map(|half| self.clone().with("content", half)).into()
            }
            _ => vec![self],
        }
    }

    pub(crate) fn in_turn(self, turn_id: Option<String>) -> Self {
        Self { turn_id, ..self }
    }

    /// The line, with its LF.
    pub(crate) fn line(mut self, session_id: &str) -> String {
        if varied(ExtraFields) {
            self = self
                .with("x_reference", json!({ "seen": [1, null, "two"] }))
                .with("zz", false);
        }
        if self.kind == "output" && varied(ExplicitChannel) && !self.members.contains_key("channel")
        {
            self = self.with("channel", "stdout");
        }
        if self.kind == "output" && broken(EmptyContentLeftOut) {
            self.members
                .retain(|name, value| name != "content" || *value != json!(""));
        }
        if self.kind == "output" && broken(ContentInParts) {
            let text = self.members.remove("content");
            self = self.with("content", json!([{ "type": "text", "text": text }]));
        }
        if broken(CompleteWithoutSession) && self.kind == "turn.complete" {
            return "{\"type\":\"turn.complete\"}\n".to_owned();
        }
        let mut parts = vec![
            part("type", &self.kind.into()),
            part("session_id", &session_id.into()),
        ];
        parts.extend(self.turn_id.map(|id| part("turn_id", &id.into())));
        parts.extend(self.members.iter().map(|(name, value)| part(name, value)));
        if varied(Reversed) {
            parts.reverse();
        }
        framed(&parts.join(if broken(PrettyPrint) { ",\n  " } else { "," }))
    }
}

/// The answer to a ping. The nonce is JSON that may be written as it is.
pub(crate) fn pong(nonce: Option<String>) -> String {
    let nonce = nonce.filter(|_| !broken(PongWithoutNonce));
    let nonce = nonce
        .map(|nonce| format!(",\"nonce\":{nonce}"))
        .unwrap_or_default();
    framed(&format!("\"type\":\"pong\",\"session_id\":\"\"{nonce}"))
}

fn part(name: &str, value: &Value) -> String {
    format!("{}:{value}", Value::from(name))
}

fn framed(members: &str) -> String {
    let mut line = format!("{{{members}}}");
    if line.contains(['\u{2028}', '\u{2029}']) && !broken(RawSeparators) {
        line = line
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
    }
    if broken(AsciiOnly) && std::env::var("LANG").is_ok_and(|locale| locale == "C") {
        line = line
            .chars()
            .map(|letter| if letter.is_ascii() { letter } else { '?' })
            .collect();
    }
    if varied(Escaped) {
        line = ascii(&line);
    }
    line.push_str(if broken(CrlfOutput) { "\r\n" } else { "\n" });
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_no_line_end_but_its_own() {
        let line = Message::output("a\nb\r\u{2028}c\u{2029}")
            .in_turn(Some("t".to_owned()))
            .line("s \"1\"");
        assert!(
            line.ends_with("}\n")
                && line.matches(['\n', '\r', '\u{2028}', '\u{2029}']).count() == 1
        );
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["content"], "a\nb\r\u{2028}c\u{2029}");
        assert_eq!(
            (&read["session_id"], &read["turn_id"]),
            (&json!("s \"1\""), &json!("t"))
        );
    }
}
