//! Received messages of the history, by session and type.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::Value;

use super::{CaseSession, Trial};
use crate::{
    history::{PipePair, Record, RecordedEvent},
    wire::{self, Message, Parsed},
};

/// A received message, and its place in the history.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedMessage {
    /// Place.
    pub index: usize,
    /// When it came.
    pub at: Duration,
    /// The line as a message.
    pub parsed: Arc<Parsed>,
}

impl ReceivedMessage {
    pub(super) fn from_record(index: usize, record: &Record) -> Option<Self> {
        match &record.event {
            RecordedEvent::Adapter { parsed, .. } | RecordedEvent::Host { parsed, .. }
                if parsed.message().is_some() =>
            {
                Some(Self {
                    index,
                    at: record.at,
                    parsed: Arc::clone(parsed),
                })
            }
            _ => None,
        }
    }

    /// The message.
    pub(crate) fn message(&self) -> &Message {
        static EMPTY: std::sync::LazyLock<Message> = std::sync::LazyLock::new(Message::new);
        self.parsed.message().unwrap_or(&EMPTY)
    }

    /// Returns its type.
    pub(crate) fn kind(&self) -> &str {
        wire::kind(self.message())
    }

    /// Returns its session id.
    pub(crate) fn session(&self) -> &str {
        wire::session(self.message())
    }

    /// Returns whether it is of a session and a type.
    pub(crate) fn is_of(&self, session: &CaseSession, kind: &str) -> bool {
        self.session() == session.id() && self.kind() == kind
    }

    /// Returns whether it is of a type and has a member with this text.
    pub(crate) fn is_with(&self, kind: &str, member: &str, text: &str) -> bool {
        self.kind() == kind && self.text(member) == text
    }

    /// A member that is text, or the empty string.
    pub(crate) fn text(&self, member: &str) -> &str {
        wire::text(self.message(), member)
    }

    /// A member.
    pub(crate) fn get(&self, member: &str) -> Option<&Value> {
        self.message().get(member)
    }

    /// A member, or `null` if it is absent.
    pub(crate) fn value(&self, member: &str) -> Value {
        self.get(member).cloned().unwrap_or_default()
    }

    /// The elements of a member; none if it is absent or no array.
    pub(crate) fn list(&self, member: &str) -> Vec<Value> {
        let elements = self.get(member).and_then(Value::as_array);
        elements.cloned().unwrap_or_default()
    }

    /// Returns its addition to the text on a channel; empty for another message. An absent, null or
    /// empty channel is `stdout`.
    pub(crate) fn on_channel(&self, channel: &str) -> &str {
        let named = match self.text("channel") {
            "" => "stdout",
            named => named,
        };
        if self.kind() == "output" && named == channel {
            self.text("content")
        } else {
            ""
        }
    }
}

/// The text of an answer: an adapter cuts it into outputs as it likes, so only the joined contents
/// mean anything.
pub(crate) fn answer_of<'a>(messages: impl IntoIterator<Item = &'a ReceivedMessage>) -> String {
    messages
        .into_iter()
        .map(|seen| seen.on_channel("stdout"))
        .collect()
}

impl Trial {
    /// Everything that the adapter's side wrote on the upper link, from a place on.
    pub(crate) fn seen_from(&self, from: usize) -> Vec<ReceivedMessage> {
        let mut seen = Vec::new();
        self.history.scan(from, |index, record| {
            if record.link == PipePair::Upper && record.adapter_message().is_some() {
                seen.extend(ReceivedMessage::from_record(index, record));
            }
            None::<()>
        });
        seen
    }

    /// Returns the number of bytes that the program wrote between two places, for a session or for all.
    pub(crate) fn bytes_written(
        &self,
        s: Option<&CaseSession>,
        from: usize,
        until: usize,
    ) -> usize {
        let mut written = 0;
        self.history.scan(from, |index, record| {
            let of_session = |s: &CaseSession| {
                let message = record.adapter_message();
                message.is_some_and(|message| wire::session(message) == s.id())
            };
            if let (PipePair::Upper, RecordedEvent::Adapter { bytes, .. }) =
                (record.link, &record.event)
                && s.is_none_or(of_session)
                && index < until
            {
                written += bytes.len();
            }
            None::<()>
        });
        written
    }

    /// Everything that the program wrote for a session.
    pub(crate) fn of_session(&self, session: &CaseSession) -> Vec<ReceivedMessage> {
        self.since(0, session)
    }

    /// The same from a place on.
    pub(crate) fn since(&self, from: usize, session: &CaseSession) -> Vec<ReceivedMessage> {
        let mut seen = self.seen_from(from);
        seen.retain(|seen| seen.session() == session.id());
        seen
    }

    /// Returns whether a message of a type has come for a session, from a place on.
    pub(crate) fn has_come(&self, from: usize, session: &CaseSession, kind: &str) -> bool {
        let seen = self.seen_from(from);
        seen.iter().any(|seen| seen.is_of(session, kind))
    }

    /// Everything of a type that the program wrote for a session.
    pub(crate) fn of_kind(&self, session: &CaseSession, kind: &str) -> Vec<ReceivedMessage> {
        let mut seen = self.of_session(session);
        seen.retain(|seen| seen.kind() == kind);
        seen
    }

    /// Returns the number of the program's messages of a type for a session.
    pub(crate) fn count(&self, session: &CaseSession, kind: &str) -> usize {
        self.of_kind(session, kind).len()
    }

    /// Returns the program's messages for sessions that were never opened, without messages of the
    /// pipe.
    pub(crate) fn for_strangers(&self) -> Vec<ReceivedMessage> {
        let mut opened: HashSet<String> = HashSet::from([String::new()]);
        self.history.scan(0, |_, record| {
            let start = record
                .host_message()
                .filter(|message| wire::kind(message) == "session.start")?;
            opened.insert(wire::session(start).to_owned());
            None::<()>
        });
        let mut seen = self.seen_from(0);
        seen.retain(|seen| match seen.get("session_id") {
            Some(Value::String(id)) => !opened.contains(id),
            _ => true,
        });
        seen
    }
}
