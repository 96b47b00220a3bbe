//! Messages that wait for the streams of a connection, and the choice of each message's stream. Has
//! no clock, input, or output.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::{Notify, oneshot};

/// Limit for sessions with a stream of their own. Messages of further sessions go to the
/// connection's stream.
pub(super) const MAX_STREAMS: usize = 512;

/// Limit for the bytes of one chunk of events. The last message may exceed it.
const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// Waiting messages of a connection. `None` as a session means the connection's own stream.
#[derive(Debug, Default)]
pub(super) struct ConnectionStreams {
    connection: StreamMailbox,
    sessions: HashMap<String, StreamMailbox>,
    /// Sessions that the client has opened without naming their stream. Their messages all go to
    /// the connection's stream, even if their own exists later: two streams have no common order.
    aside: HashSet<String>,
    /// Streams for the responses to the client's requests, by the client's id.
    expected: HashMap<String, ExpectedResponse>,
    /// Sessions of the requests to the client, by our id.
    asked: HashMap<String, String>,
    /// Receives the first response.
    first: Option<oneshot::Sender<Vec<u8>>>,
    /// Bytes that wait in all streams.
    bytes: usize,
}

/// Waiting messages of one stream.
#[derive(Debug, Default)]
struct StreamMailbox {
    messages: VecDeque<Vec<u8>>,
    is_open: bool,
    wake: Arc<Notify>,
}

/// Request that waits for its response.
#[derive(Debug)]
struct ExpectedResponse {
    session: Option<String>,
    /// True if the request opens the session. An error then goes to the connection, since the
    /// session's stream may never exist.
    opens: bool,
}

/// Error of a stream that cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenStreamError {
    /// Another request has it open.
    Open,
    /// The limit is reached.
    Full,
}

/// Members of a message that decide its stream.
#[derive(Debug, Default, Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<MessageIds>,
    result: Option<MessageIds>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageIds {
    session_id: Option<String>,
    request_id: Option<Value>,
}

impl ConnectionStreams {
    /// Creates the streams of a connection. The first response goes to `first`.
    pub(super) fn new(first: oneshot::Sender<Vec<u8>>) -> Self {
        Self {
            first: Some(first),
            ..Self::default()
        }
    }

    /// Bytes that wait in all streams.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if any stream is open.
    pub(super) fn is_read(&self) -> bool {
        self.connection.is_open || self.sessions.values().any(|mailbox| mailbox.is_open)
    }

    /// Records that the client opens a session, and whether it names the session's stream.
    pub(super) fn note_opened(&mut self, session: &str, names_stream: bool) {
        let has_stream = if names_stream {
            self.ensure_mailbox(session)
        } else {
            self.has_own(session)
        };
        if has_stream {
            self.aside.remove(session);
        } else if self.aside.len() < MAX_STREAMS {
            self.aside.insert(session.to_owned());
        }
    }

    /// Records a request of the client, whose response will follow.
    pub(super) fn expect_response(&mut self, id: String, session: Option<String>, opens: bool) {
        self.expected
            .insert(id, ExpectedResponse { session, opens });
    }

    /// Forgets a request that was not sent.
    pub(super) fn forget_expected(&mut self, id: &str) {
        self.expected.remove(id);
    }

    /// Returns the session of a request to the client.
    pub(super) fn request_session(&self, id: &str) -> Option<&str> {
        self.asked.get(id).map(String::as_str)
    }

    /// Records the client's response to a request.
    pub(super) fn finish_request(&mut self, id: &str) {
        self.asked.remove(id);
    }

    /// Queues a message for its stream.
    pub(super) fn route_message(&mut self, message: Vec<u8>) {
        let head: MessageHead<'_> = serde_json::from_slice(&message).unwrap_or_default();
        let id = head.id.map(RawValue::get);
        let names = head.params.unwrap_or_default();
        let session = match head.method.as_deref() {
            None => {
                if let Some(first) = self.first.take() {
                    // A failure is ignored: the client has left.
                    return drop(first.send(message));
                }
                if let Some(new) = head.result.and_then(|result| result.session_id) {
                    self.note_opened(&new, true);
                }
                let expected = id.and_then(|id| self.expected.remove(id));
                expected
                    .filter(|expected| !(expected.opens && head.error.is_some()))
                    .and_then(|expected| expected.session)
            }
            // It follows the request in the same stream.
            Some("$/cancel_request") => names
                .request_id
                .and_then(|id| self.asked.remove(&id.to_string())),
            Some(_) => names.session_id,
        };
        let session = session.filter(|session| self.has_own(session));
        if let (Some(_), Some(id), Some(session)) = (&head.method, id, &session) {
            self.asked.insert(id.to_owned(), session.clone());
        }
        self.bytes += message.len();
        let mailbox = session
            .and_then(|session| self.sessions.get_mut(&session))
            .unwrap_or(&mut self.connection);
        mailbox.messages.push_back(message);
        mailbox.wake.notify_one();
    }

    /// Opens a stream. Returns the signal that wakes its reader.
    pub(super) fn open(&mut self, session: Option<&str>) -> Result<Arc<Notify>, OpenStreamError> {
        if session.is_some_and(|session| !self.ensure_mailbox(session)) {
            return Err(OpenStreamError::Full);
        }
        let mailbox = self.mailbox_mut(session).ok_or(OpenStreamError::Full)?;
        if std::mem::replace(&mut mailbox.is_open, true) {
            return Err(OpenStreamError::Open);
        }
        Ok(mailbox.wake.clone())
    }

    /// Removes waiting messages of a stream, as events.
    pub(super) fn take_events(&mut self, session: Option<&str>) -> Option<Vec<u8>> {
        let mailbox = self.mailbox_mut(session)?;
        let mut events = Vec::new();
        let mut taken = 0;
        while taken < MAX_CHUNK_BYTES
            && let Some(message) = mailbox.messages.pop_front()
        {
            taken += message.len();
            events.extend_from_slice(b"data: ");
            events.extend_from_slice(&message);
            events.extend_from_slice(b"\n\n");
        }
        self.bytes -= taken;
        (taken > 0).then_some(events)
    }

    /// Closes a stream without its reader.
    pub(super) fn close(&mut self, session: Option<&str>) {
        if let Some(mailbox) = self.mailbox_mut(session) {
            mailbox.is_open = false;
        }
    }

    fn mailbox_mut(&mut self, session: Option<&str>) -> Option<&mut StreamMailbox> {
        match session {
            Some(session) => self.sessions.get_mut(session),
            None => Some(&mut self.connection),
        }
    }

    /// Returns true if a session's messages go to a stream of its own.
    fn has_own(&self, session: &str) -> bool {
        self.sessions.contains_key(session) && !self.aside.contains(session)
    }

    /// Creates the stream of a session. Returns false at the limit.
    fn ensure_mailbox(&mut self, session: &str) -> bool {
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= MAX_STREAMS {
                return false;
            }
            self.sessions
                .insert(session.to_owned(), StreamMailbox::default());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> ConnectionStreams {
        let (first, _) = oneshot::channel();
        let mut streams = ConnectionStreams::new(first);
        streams.route_message(br#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_vec());
        assert_eq!(
            streams.bytes(),
            0,
            "the first answer goes to who waits for it"
        );
        streams
    }

    fn taken(streams: &mut ConnectionStreams, session: Option<&str>) -> String {
        let events = streams
            .take_events(session)
            .map(|events| String::from_utf8(events).unwrap());
        events
            .unwrap_or_default()
            .replace("data: ", "")
            .replace("\n\n", "\n")
    }

    const UPDATE: &str =
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;

    #[test]
    fn a_new_session_has_its_stream_and_what_comes_before_it_is_read_waits() {
        let mut streams = streams();
        streams.expect_response("1".to_owned(), None, false);
        let new = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
        for message in [new, UPDATE] {
            streams.route_message(message.as_bytes().to_vec());
        }
        streams.expect_response("\"a\"".to_owned(), Some("s".to_owned()), false);
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{"stopReason":"end_turn"}}"#;
        streams.route_message(answer.as_bytes().to_vec());
        assert_eq!(streams.bytes(), new.len() + UPDATE.len() + answer.len());
        assert_eq!(taken(&mut streams, None), format!("{new}\n"));
        streams.open(Some("s")).unwrap();
        assert_eq!(
            taken(&mut streams, Some("s")),
            format!("{UPDATE}\n{answer}\n")
        );
        assert_eq!(streams.bytes(), 0);
        assert_eq!(streams.open(Some("s")).unwrap_err(), OpenStreamError::Open);
        streams.close(Some("s"));
        streams.open(Some("s")).unwrap();
    }

    /// A response must not overtake the history before it, so both go to the same stream.
    #[test]
    fn a_history_and_its_end_go_to_one_stream() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let error = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"m"}}"#;
        for (is_open, names_stream, own) in [
            (true, true, true),
            (false, true, true),
            (true, false, true),
            (false, false, false),
        ] {
            let mut streams = streams();
            if is_open {
                streams.open(Some("s")).unwrap();
            }
            streams.note_opened("s", names_stream);
            streams.expect_response("1".to_owned(), Some("s".to_owned()), true);
            streams.route_message(UPDATE.as_bytes().to_vec());
            // A stream that is opened meanwhile changes nothing.
            let _ = streams.open(Some("s"));
            streams.route_message(answer.as_bytes().to_vec());
            streams.route_message(UPDATE.as_bytes().to_vec());
            let told = format!("{UPDATE}\n{answer}\n{UPDATE}\n");
            let (on_session, on_connection) = if own { (&*told, "") } else { ("", &*told) };
            assert_eq!(
                taken(&mut streams, Some("s")),
                on_session,
                "{is_open} {names_stream}"
            );
            assert_eq!(
                taken(&mut streams, None),
                on_connection,
                "{is_open} {names_stream}"
            );
            // A session that does not exist has no stream that could be read.
            streams.expect_response("2".to_owned(), Some("s".to_owned()), true);
            streams.route_message(error.as_bytes().to_vec());
            assert_eq!(taken(&mut streams, None), format!("{error}\n"));
            // Later requests may name the stream.
            streams.note_opened("s", true);
            streams.route_message(UPDATE.as_bytes().to_vec());
            assert_eq!(taken(&mut streams, Some("s")), format!("{UPDATE}\n"));
        }
    }

    #[test]
    fn what_is_asked_is_taken_back_where_it_was_asked() {
        let mut streams = streams();
        let ask = r#"{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s"}}"#;
        let back = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#;
        for own in [false, true] {
            if own {
                streams.note_opened("s", true);
            }
            streams.route_message(ask.as_bytes().to_vec());
            assert_eq!(streams.request_session("7"), own.then_some("s"));
            streams.route_message(back.as_bytes().to_vec());
            assert_eq!(
                taken(&mut streams, own.then_some("s")),
                format!("{ask}\n{back}\n")
            );
            assert_eq!(streams.request_session("7"), None);
        }
        streams.route_message(ask.as_bytes().to_vec());
        streams.finish_request("7");
        assert_eq!(streams.request_session("7"), None);
    }

    #[test]
    fn a_connection_has_so_many_streams_and_further_sessions_share_its_own() {
        let mut streams = streams();
        for session in 0..MAX_STREAMS {
            streams.open(Some(&session.to_string())).unwrap();
        }
        assert_eq!(streams.open(Some("s")).unwrap_err(), OpenStreamError::Full);
        streams.note_opened("s", true);
        streams.route_message(UPDATE.as_bytes().to_vec());
        assert_eq!(taken(&mut streams, None), format!("{UPDATE}\n"));
    }

    #[test]
    fn a_stream_gets_so_much_at_a_time() {
        let mut streams = streams();
        let long = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}",
            "x".repeat(MAX_CHUNK_BYTES / 2)
        );
        for _ in 0..4 {
            streams.route_message(long.clone().into_bytes());
        }
        assert_eq!(taken(&mut streams, None).lines().count(), 2);
        assert_eq!(streams.bytes(), 2 * long.len());
    }
}
