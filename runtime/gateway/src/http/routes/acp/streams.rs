//! What waits for the streams of a connection over HTTP, and which message goes to which. No clock,
//! no input, no output.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::{Notify, oneshot};

/// How many sessions of a connection have streams of their own. Messages of further ones go to the
/// connection's.
pub(super) const STREAMS: usize = 512;

/// How much is handed to a stream at a time, in bytes, and one message.
const CHUNK: usize = 256 * 1024;

/// What waits for the streams of a connection. A session is `None` for the connection's own stream.
#[derive(Debug, Default)]
pub(super) struct Streams {
    connection: Mailbox,
    sessions: HashMap<String, Mailbox>,
    /// Sessions that the client has opened without naming their stream: their messages all go to
    /// the connection's, even when there is a stream later, for two streams have no order.
    aside: HashSet<String>,
    /// Where the answers to the client's requests go.
    expected: HashMap<String, Expected>,
    /// Of which session the client was asked, by our id.
    asked: HashMap<String, String>,
    /// Who waits for the first answer.
    first: Option<oneshot::Sender<Vec<u8>>>,
    /// How much waits in all.
    bytes: usize,
}

/// What waits for one stream.
#[derive(Debug, Default)]
struct Mailbox {
    messages: VecDeque<Vec<u8>>,
    is_open: bool,
    wake: Arc<Notify>,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Expected {
    session: Option<String>,
    /// Whether it opens the session. Then an error is for the connection: the session's stream may
    /// never be there.
    opens: bool,
}

/// Why a stream is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Someone has it.
    Open,
    /// There are too many.
    Full,
}

/// Of a message only what says where it goes.
#[derive(Debug, Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<Names>,
    result: Option<Names>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    session_id: Option<String>,
    request_id: Option<Value>,
}

impl Streams {
    /// One whose first answer goes to who waits for it.
    pub(super) fn new(first: oneshot::Sender<Vec<u8>>) -> Self {
        Self {
            first: Some(first),
            ..Self::default()
        }
    }

    /// How much waits, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether anyone reads.
    pub(super) fn is_read(&self) -> bool {
        self.connection.is_open || self.sessions.values().any(|mailbox| mailbox.is_open)
    }

    /// The client opens a session, and names its stream or does not.
    pub(super) fn opens(&mut self, session: &str, names_stream: bool) {
        let has_stream = match names_stream {
            true => self.ensure(session),
            false => self.has_own(session),
        };
        match has_stream {
            true => drop(self.aside.remove(session)),
            false if self.aside.len() < STREAMS => drop(self.aside.insert(session.to_owned())),
            false => {}
        }
    }

    /// The client has said a request, which will be answered.
    pub(super) fn expect(&mut self, id: String, session: Option<String>, opens: bool) {
        self.expected.insert(id, Expected { session, opens });
    }

    /// The request was not said.
    pub(super) fn unexpect(&mut self, id: &str) {
        self.expected.remove(id);
    }

    /// Of which session a request to the client was.
    pub(super) fn asked(&self, id: &str) -> Option<&str> {
        self.asked.get(id).map(String::as_str)
    }

    /// The client has answered a request.
    pub(super) fn answered(&mut self, id: &str) {
        self.asked.remove(id);
    }

    /// Puts a message where the client reads it.
    pub(super) fn put(&mut self, message: Vec<u8>) {
        let head: Head<'_> = serde_json::from_slice(&message).unwrap_or_default();
        let id = head.id.map(RawValue::get);
        let names = head.params.unwrap_or_default();
        let session = match head.method.as_deref() {
            None => {
                if let Some(first) = self.first.take() {
                    // In vain where the client has gone.
                    return drop(first.send(message));
                }
                if let Some(new) = head.result.and_then(|result| result.session_id) {
                    self.opens(&new, true);
                }
                let expected = id.and_then(|id| self.expected.remove(id));
                expected
                    .filter(|expected| !(expected.opens && head.error.is_some()))
                    .and_then(|expected| expected.session)
            }
            // It goes where the request went, and not before it.
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

    /// Opens a stream. What it gives wakes its reader.
    pub(super) fn open(&mut self, session: Option<&str>) -> Result<Arc<Notify>, Taken> {
        if session.is_some_and(|session| !self.ensure(session)) {
            return Err(Taken::Full);
        }
        let mailbox = self.of(session).ok_or(Taken::Full)?;
        match std::mem::replace(&mut mailbox.is_open, true) {
            true => Err(Taken::Open),
            false => Ok(mailbox.wake.clone()),
        }
    }

    /// Takes what waits for a stream, as events.
    pub(super) fn take(&mut self, session: Option<&str>) -> Option<Vec<u8>> {
        let mailbox = self.of(session)?;
        let (mut events, mut taken) = (Vec::new(), 0);
        while taken < CHUNK
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

    /// Its reader has gone.
    pub(super) fn close(&mut self, session: Option<&str>) {
        if let Some(mailbox) = self.of(session) {
            mailbox.is_open = false;
        }
    }

    fn of(&mut self, session: Option<&str>) -> Option<&mut Mailbox> {
        match session {
            Some(session) => self.sessions.get_mut(session),
            None => Some(&mut self.connection),
        }
    }

    /// Whether messages of a session have a stream of their own.
    fn has_own(&self, session: &str) -> bool {
        self.sessions.contains_key(session) && !self.aside.contains(session)
    }

    /// Makes sure that there is room for a stream.
    fn ensure(&mut self, session: &str) -> bool {
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= STREAMS {
                return false;
            }
            self.sessions.insert(session.to_owned(), Mailbox::default());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> Streams {
        let (first, _) = oneshot::channel();
        let mut streams = Streams::new(first);
        streams.put(br#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_vec());
        assert_eq!(
            streams.bytes(),
            0,
            "the first answer goes to who waits for it"
        );
        streams
    }

    fn taken(streams: &mut Streams, session: Option<&str>) -> String {
        let events = streams
            .take(session)
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
        streams.expect("1".to_owned(), None, false);
        let new = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
        for message in [new, UPDATE] {
            streams.put(message.as_bytes().to_vec());
        }
        streams.expect("\"a\"".to_owned(), Some("s".to_owned()), false);
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{"stopReason":"end_turn"}}"#;
        streams.put(answer.as_bytes().to_vec());
        assert_eq!(streams.bytes(), new.len() + UPDATE.len() + answer.len());
        assert_eq!(taken(&mut streams, None), format!("{new}\n"));
        streams.open(Some("s")).unwrap();
        assert_eq!(
            taken(&mut streams, Some("s")),
            format!("{UPDATE}\n{answer}\n")
        );
        assert_eq!(streams.bytes(), 0);
        assert_eq!(streams.open(Some("s")).unwrap_err(), Taken::Open);
        streams.close(Some("s"));
        streams.open(Some("s")).unwrap();
    }

    /// An answer must not overtake the history before it, so both go one way, whichever way that is.
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
            streams.opens("s", names_stream);
            streams.expect("1".to_owned(), Some("s".to_owned()), true);
            streams.put(UPDATE.as_bytes().to_vec());
            // A stream that comes meanwhile changes nothing.
            let _ = streams.open(Some("s"));
            streams.put(answer.as_bytes().to_vec());
            streams.put(UPDATE.as_bytes().to_vec());
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
            // Of a session that is none there is no stream that could be read.
            streams.expect("2".to_owned(), Some("s".to_owned()), true);
            streams.put(error.as_bytes().to_vec());
            assert_eq!(taken(&mut streams, None), format!("{error}\n"));
            // The next time it may name it.
            streams.opens("s", true);
            streams.put(UPDATE.as_bytes().to_vec());
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
                streams.opens("s", true);
            }
            streams.put(ask.as_bytes().to_vec());
            assert_eq!(streams.asked("7"), own.then_some("s"));
            streams.put(back.as_bytes().to_vec());
            assert_eq!(
                taken(&mut streams, own.then_some("s")),
                format!("{ask}\n{back}\n")
            );
            assert_eq!(streams.asked("7"), None);
        }
        streams.put(ask.as_bytes().to_vec());
        streams.answered("7");
        assert_eq!(streams.asked("7"), None);
    }

    #[test]
    fn a_connection_has_so_many_streams_and_further_sessions_share_its_own() {
        let mut streams = streams();
        for session in 0..STREAMS {
            streams.open(Some(&session.to_string())).unwrap();
        }
        assert_eq!(streams.open(Some("s")).unwrap_err(), Taken::Full);
        streams.opens("s", true);
        streams.put(UPDATE.as_bytes().to_vec());
        assert_eq!(taken(&mut streams, None), format!("{UPDATE}\n"));
    }

    #[test]
    fn a_stream_gets_so_much_at_a_time() {
        let mut streams = streams();
        let long = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}",
            "x".repeat(CHUNK / 2)
        );
        for _ in 0..4 {
            streams.put(long.clone().into_bytes());
        }
        assert_eq!(taken(&mut streams, None).lines().count(), 2);
        assert_eq!(streams.bytes(), 2 * long.len());
    }
}
