//! Entries as listeners get them: a number, the body, and the line in the journal.

use std::{borrow::Cow, ops::Range, sync::Arc};

use bytes::Bytes;
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Head, RelayBody, RelayMessage, SessionId, TurnId,
};

/// The content of an entry or of a reply, without its ids.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// A message that an adapter may send.
    Adapter(AdapterBody),
    /// A message that only a relay with a journal sends.
    Relay(RelayBody),
}

impl EntryBody {
    /// Returns the type as it is written on the wire.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Adapter(body) => body.kind().as_str(),
            Self::Relay(body) => body.kind().as_str(),
        }
    }
}

impl From<AdapterBody> for EntryBody {
    fn from(body: AdapterBody) -> Self {
        Self::Adapter(body)
    }
}

impl From<RelayBody> for EntryBody {
    fn from(body: RelayBody) -> Self {
        Self::Relay(body)
    }
}

/// The turn and the body of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryContent {
    /// The turn that the entry belongs to.
    pub turn_id: Option<TurnId>,
    /// The body.
    pub body: EntryBody,
}

impl EntryContent {
    /// Parses a line of the journal. `None` for a type that this version does not know.
    fn parse(line: &str) -> Option<Self> {
        let adapter = |message: AdapterMessage| Self {
            turn_id: message.turn_id,
            body: message.body.into(),
        };
        let relay = |message: RelayMessage| Self {
            turn_id: message.turn_id,
            body: message.body.into(),
        };
        let message = AdapterMessage::parse(line).map(adapter);
        message
            .or_else(|_| RelayMessage::parse(line).map(relay))
            .ok()
    }
}

/// An entry of a session ([journal.3]). Clones share the bytes and the content.
#[derive(Debug, Clone)]
pub struct Entry {
    seq: u64,
    line: Bytes,
    /// `None` for an entry that was read from the journal.
    content: Option<Arc<EntryContent>>,
}

impl Entry {
    /// Creates an entry from a line without its LF.
    pub(crate) fn new(seq: u64, line: Bytes, content: Option<Arc<EntryContent>>) -> Self {
        Self { seq, line, content }
    }

    /// Returns the sequence number, which counts from 1 within the session.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the line as the journal has it, without its LF.
    #[must_use]
    pub fn line(&self) -> &str {
        // The journal contains lines that this program wrote; a damaged one is no entry.
        std::str::from_utf8(&self.line).unwrap_or_default()
    }

    /// Returns the type as it is written on the wire, even if this version does not know it.
    #[must_use]
    pub fn kind(&self) -> Cow<'_, str> {
        match &self.content {
            Some(content) => Cow::Borrowed(content.body.kind()),
            None => Head::read(self.line()).map_or(Cow::Borrowed(""), |head| head.kind),
        }
    }

    /// Returns the content, and parses it if the entry was read from the journal. `None` for a type
    /// that this version does not know.
    #[must_use]
    pub fn content(&self) -> Option<Arc<EntryContent>> {
        match &self.content {
            Some(content) => Some(content.clone()),
            None => EntryContent::parse(self.line()).map(Arc::new),
        }
    }
}

/// A message to one listener that is not an entry ([journal.4]).
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The turn that the reply belongs to.
    pub turn_id: Option<TurnId>,
    /// The body.
    pub body: EntryBody,
    /// Set for an end that comes again as an entry once the journal can store it ([journal.11]).
    pub is_provisional: bool,
    /// Number of the entry that the listener gets before the reply; 0 for none.
    pub(crate) behind: u64,
}

impl Reply {
    pub(crate) fn new(turn_id: Option<TurnId>, body: impl Into<EntryBody>) -> Self {
        Self {
            turn_id,
            body: body.into(),
            is_provisional: false,
            behind: 0,
        }
    }

    /// Returns the reply as one that the listener gets behind an entry.
    pub(crate) fn behind(self, seq: u64) -> Self {
        Self {
            behind: seq,
            ..self
        }
    }

    /// Appends the reply as a line with its LF.
    pub fn write(self, session: &SessionId, lines: &mut Vec<u8>) {
        let session = session.clone();
        match self.body {
            EntryBody::Adapter(body) => AdapterMessage::new(session, body)
                .of_turn(self.turn_id)
                .write(lines),
            EntryBody::Relay(body) => RelayMessage::new(session, body)
                .of_turn(self.turn_id)
                .write(lines),
        }
        if self.is_provisional {
            // Replaces the brace and the LF.
            lines.truncate(lines.len() - 2);
            lines.extend_from_slice(b",\"provisional\":true}\n");
        }
    }
}

/// Splits lines into entries. The first line has the number `first`.
pub(crate) fn split_lines(first: u64, lines: &Bytes) -> impl Iterator<Item = Entry> + '_ {
    line_ranges(lines)
        .zip(first..)
        .map(|(range, seq)| Entry::new(seq, lines.slice(range), None))
}

/// Returns the ranges of lines that each end with an LF, without the LF.
pub(crate) fn line_ranges(lines: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    memchr::memchr_iter(b'\n', lines).map(move |end| std::mem::replace(&mut start, end + 1)..end)
}

/// Members with paths of this machine, by the beginning of their line. A relay writes the type
/// first.
const PATH_MEMBERS: [(&str, &str); 2] = [
    ("{\"type\":\"file.output\"", "file_path"),
    // An adapter's own, with the directory in which it resumes.
    ("{\"type\":\"turn.complete\"", "session_params"),
];

/// Returns lines without paths, which only this machine knows: a client reads a file by its SHA-256.
#[must_use]
pub fn without_paths(lines: &str) -> Cow<'_, str> {
    if !PATH_MEMBERS
        .iter()
        .any(|(begin, member)| lines.contains(begin) && lines.contains(member))
    {
        return Cow::Borrowed(lines);
    }
    let shown: String = lines.split_inclusive('\n').map(without_path).collect();
    Cow::Owned(shown)
}

/// Returns a line without the path in it.
#[must_use]
pub fn without_path(line: &str) -> Cow<'_, str> {
    let has_path =
        |(begin, member): &&(&str, &str)| line.starts_with(begin) && line.contains(member);
    let Some((_, member)) = PATH_MEMBERS.iter().find(has_path) else {
        return Cow::Borrowed(line);
    };
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line) {
        Ok(mut message) => {
            message.shift_remove(*member);
            let end = if line.ends_with('\n') { "\n" } else { "" };
            Cow::Owned(serde_json::Value::Object(message).to_string() + end)
        }
        Err(_) => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::Output;

    use super::*;

    #[test]
    fn an_entry_of_the_journal_has_the_content_of_the_one_in_memory() {
        let line = r#"{"type":"output","session_id":"s","turn_id":"t","content":",\"seq\":9","seq":12,"epoch":3,"time":"2026-01-01T00:00:00.000Z"}"#;
        let unknown = r#"{"type":"later","session_id":"s","seq":13,"epoch":3,"time":"t"}"#;
        let lines = Bytes::from(format!("{line}\n{unknown}\n"));
        let read: Vec<_> = split_lines(12, &lines).collect();
        assert_eq!((read[0].seq(), read[0].line()), (12, line));
        assert_eq!(
            (&*read[0].kind(), &*read[1].kind(), read[1].seq()),
            ("output", "later", 13)
        );
        assert!(read[1].content().is_none());
        let content = EntryContent {
            turn_id: TurnId::new("t").ok(),
            body: AdapterBody::Output(Output::text(",\"seq\":9")).into(),
        };
        assert_eq!(*read[0].content().unwrap(), content);
    }

    #[test]
    fn a_reply_has_no_number() {
        let session = SessionId::new("s").unwrap();
        let mut lines = Vec::new();
        let mut reply = Reply::new(None, AdapterBody::Output(Output::text("x")));
        reply.clone().write(&session, &mut lines);
        reply.is_provisional = true;
        reply.write(&session, &mut lines);
        let written = r#"{"type":"output","session_id":"s","content":"x"}
{"type":"output","session_id":"s","content":"x","provisional":true}
"#;
        assert_eq!(String::from_utf8(lines).unwrap(), written);
    }

    #[test]
    fn a_path_of_this_machine_is_left_out() {
        let line = r#"{"type":"file.output","session_id":"s","file_path":"/home/a/x","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        let told =
            r#"{"type":"file.output","session_id":"s","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        assert_eq!(without_path(line), told);
        let end = r#"{"type":"turn.complete","session_id":"s","session_params":{"cwd":"/home/a"},"status":"completed"}"#;
        let shown = r#"{"type":"turn.complete","session_id":"s","status":"completed"}"#;
        assert_eq!(without_path(end), shown);
        let lines = format!("{end}\n{shown}\n{line}\n");
        assert_eq!(without_paths(&lines), format!("{shown}\n{shown}\n{told}\n"));
        let other = r#"{"type":"output","session_id":"s","content":"file_path"}"#;
        assert!(matches!(without_path(other), Cow::Borrowed(same) if same == other));
    }
}
