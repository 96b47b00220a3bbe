//! Messages of a relay with a journal: a message, and the stamp of its entry.

use crate::{AdapterBody, AdapterMessage, Head, RelayMessage, Unread, field::Fields};

/// The members of an entry that are not its message's.
pub(crate) const STAMP: &[&str] = &["seq", "epoch", "time"];

/// Members of a journal's entry beside its message (`journal`). A line that is no entry has no
/// number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stamp {
    /// Sequence number in the session, from 1.
    pub seq: Option<u64>,
    /// The epoch in which it was written.
    pub epoch: Option<u64>,
    /// When it was written, RFC 3339.
    pub time: Option<String>,
}

/// A message of a relay with a journal.
#[derive(Debug, Clone, PartialEq)]
pub enum FromRelay {
    /// As any adapter.
    Adapter(AdapterMessage),
    /// As only such a relay does.
    Relay(RelayMessage),
}

impl FromRelay {
    /// Reads a line without its LF.
    ///
    /// # Errors
    /// [`Unread`], as [`Envelope::parse`](crate::Envelope::parse). A stamp of the wrong type is none.
    pub fn parse(line: &str) -> Result<(Self, Stamp), Unread> {
        let head = Head::read(line)?;
        match head.kind_of::<AdapterBody>() {
            Err(Unread::UnknownType { .. }) => head
                .stamped()
                .map(|(message, stamp)| (Self::Relay(message), stamp)),
            _ => head
                .stamped()
                .map(|(message, stamp)| (Self::Adapter(message), stamp)),
        }
    }
}

impl Stamp {
    /// Reads what there is of it.
    pub(crate) fn from_fields(fields: &Fields<'_>) -> Self {
        Self {
            seq: fields.read("seq").ok().flatten(),
            epoch: fields.read("epoch").ok().flatten(),
            time: fields.read("time").ok().flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fact, RelayBody};

    #[test]
    fn a_line_gives_its_message_and_its_stamp() {
        let stamp = |seq, epoch, time: Option<&str>| Stamp {
            seq,
            epoch,
            time: time.map(str::to_owned),
        };
        for (members, expected) in [
            ("", stamp(None, None, None)),
            (
                r#","seq":7,"epoch":2,"time":"2026-03-01T12:00:00Z""#,
                stamp(Some(7), Some(2), Some("2026-03-01T12:00:00Z")),
            ),
            (r#","seq":"7","epoch":-2,"time":3"#, stamp(None, None, None)),
            (
                r#","seq":6,"seq":7,"epoch":null"#,
                stamp(Some(7), None, None),
            ),
        ] {
            let line = format!(
                r#"{{"type":"output","session_id":"s","turn_id":"t","content":"c"{members}}}"#
            );
            let (message, told) = FromRelay::parse(&line).unwrap();
            assert_eq!(told, expected, "{line}");
            let FromRelay::Adapter(message) = message else {
                panic!("{line}")
            };
            assert_eq!(message, AdapterMessage::parse(&line).unwrap());

            let line =
                format!(r#"{{"type":"host.fact","session_id":"s","fact":"opened"{members}}}"#);
            let (message, told) = FromRelay::parse(&line).unwrap();
            assert_eq!(told, expected, "{line}");
            let FromRelay::Relay(RelayMessage {
                body: RelayBody::HostFact(fact),
                ..
            }) = message
            else {
                panic!("{line}")
            };
            assert_eq!(fact.fact, Some(Fact::Opened));
        }
        for (line, kind) in [
            (
                r#"{"type":"of.no.one","session_id":"s"}"#,
                "unknown type \"of.no.one\"",
            ),
            (
                r#"{"type":"output","session_id":"s"}"#,
                "output without content",
            ),
            ("[]", "not a JSON object"),
        ] {
            assert_eq!(FromRelay::parse(line).unwrap_err().to_string(), kind);
        }
    }
}
