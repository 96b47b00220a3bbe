//! Events of a session, and the bounded queue between a connection and the reader of a session.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde_json::Value;
use tokio::sync::Notify;
use trunkline_protocol::{
    AdapterBody, Channel, FromRelay, RelayBody, SessionId, Stamp, TurnId, session_named_in,
};

use crate::{ClientError, Session, Turn};

/// The queued bytes of a session at which its host is asked to hold it back (`flow.pause`,
/// [relay.5]).
pub const PAUSE_SESSION_BYTES: usize = 2 << 20;

/// The queued bytes of a session to which its reader falls before the host sends more
/// (`flow.resume`).
pub const RESUME_SESSION_BYTES: usize = 1 << 20;

/// The queued bytes of a session at which the whole connection is not read, because its host did
/// not hold it back.
pub const STOP_READING_BYTES: usize = 16 << 20;

/// A message of a session: an entry of its journal, or an answer to this client that is no entry.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The number, epoch and time of an entry ([journal.3]); all `None` for what is no entry.
    pub stamp: Stamp,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// The content.
    pub body: EventBody,
    /// True for a permission request or a question that waits for an answer. False for one that is
    /// settled by a later entry of the journal, and for replayed history.
    pub awaits_answer: bool,
    /// True for an entry that this client caused: its input, its file, its stop, or the decision
    /// that its answer made. False for entries of other clients, and of the host.
    pub is_own: bool,
    pub(crate) line: Box<str>,
}

/// The content of an [`Event`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventBody {
    /// A message that any adapter sends. A `file.output` of a daemon over the network has an empty
    /// `file_path`.
    Adapter(AdapterBody),
    /// A message that only a relay with a journal sends ([journal.4]).
    Relay(RelayBody),
    /// A type that this version does not know; [`Event::line`] has all of it.
    Unknown,
    /// A line that was too long to be read ([frame.5]), and was skipped.
    TooLong {
        /// The length in bytes.
        bytes: u64,
    },
}

impl Event {
    /// The line as the host wrote it, without its LF.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns true if it is the end of this turn, and comes no second time.
    #[must_use]
    pub fn ends(&self, turn: &Turn) -> bool {
        matches!(self.body, EventBody::Adapter(AdapterBody::TurnComplete(_)))
            && !self.is_provisional()
            && self.turn_id.as_ref().is_none_or(|id| turn.is_called(id))
    }

    /// Returns true for an end that was not stored, and comes again as an entry ([journal.11]).
    #[must_use]
    pub fn is_provisional(&self) -> bool {
        let value = || serde_json::from_str::<Value>(&self.line);
        self.stamp.seq.is_none() && value().is_ok_and(|value| value["provisional"] == true)
    }

    /// The text of an `output` on channel `stdout`: a piece of the answer.
    #[must_use]
    pub fn answer_text(&self) -> Option<&str> {
        match &self.body {
            EventBody::Adapter(AdapterBody::Output(output))
                if output
                    .channel
                    .as_ref()
                    .is_none_or(|it| *it == Channel::Stdout) =>
            {
                Some(&output.content)
            }
            _ => None,
        }
    }

    pub(crate) fn too_long(bytes: u64) -> Self {
        Self {
            stamp: Stamp::default(),
            turn_id: None,
            body: EventBody::TooLong { bytes },
            awaits_answer: false,
            is_own: false,
            line: "".into(),
        }
    }

    /// Reads a line: the session that it names, and the event. `None` for what is not a message
    /// ([frame.6]).
    pub(crate) fn parse(line: &str) -> Option<(SessionId, Self)> {
        let parsed = FromRelay::parse(line).or_else(|problem| {
            // No path goes over a network: a daemon leaves it out there.
            let with_path = format!("{{\"file_path\":\"\",{}", &line[1..]);
            match FromRelay::parse(&with_path) {
                Ok(parsed @ (FromRelay::Adapter(_), _)) => Ok(parsed),
                _ => Err(problem),
            }
        });
        let (session_id, turn_id, body, stamp) = match parsed {
            Ok((FromRelay::Adapter(message), stamp)) => (
                message.session_id,
                message.turn_id,
                EventBody::Adapter(message.body),
                stamp,
            ),
            Ok((FromRelay::Relay(message), stamp)) => (
                message.session_id,
                message.turn_id,
                EventBody::Relay(message.body),
                stamp,
            ),
            Err(problem) => {
                tracing::debug!("a line of the host was not understood: {problem}");
                Self::parse_unknown(line)?
            }
        };
        let event = Self {
            stamp,
            turn_id,
            body,
            awaits_answer: false,
            is_own: false,
            line: line.into(),
        };
        Some((session_id, event))
    }

    /// Reads an entry of an unknown type: its number counts all the same ([journal.3]).
    fn parse_unknown(line: &str) -> Option<(SessionId, Option<TurnId>, EventBody, Stamp)> {
        let session = session_named_in(line.as_bytes())?;
        let value: Value = serde_json::from_str(line).ok()?;
        let mut stamp = Stamp::default();
        stamp.seq = Some(value.get("seq")?.as_u64()?);
        stamp.epoch = value.get("epoch").and_then(Value::as_u64);
        stamp.time = value.get("time").and_then(Value::as_str).map(str::to_owned);
        let turn_id = value.get("turn_id").and_then(Value::as_str);
        let turn_id = turn_id.and_then(|id| TurnId::new(id).ok());
        Some((session, turn_id, EventBody::Unknown, stamp))
    }

    /// The memory that it takes in a queue, in bytes: its line, its parsed content of about the
    /// same size, itself.
    fn weight(&self) -> usize {
        2 * self.line.len() + size_of::<Self>()
    }
}

/// Sessions that need the connection task: their readers made room, or their handles were dropped.
#[derive(Debug, Default)]
pub(crate) struct SessionsToVisit {
    sessions: Mutex<Vec<SessionId>>,
    notify: Notify,
}

impl SessionsToVisit {
    /// Names a session. A session is named at most once for each pause, and once when it is
    /// dropped.
    pub(crate) fn request(&self, session: SessionId) {
        lock(&self.sessions).push(session);
        self.notify.notify_one();
    }

    pub(crate) async fn requested(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> Vec<SessionId> {
        std::mem::take(&mut lock(&self.sessions))
    }
}

/// The queue of a session's events, and the cause of its end.
#[derive(Debug)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
    readable: Notify,
    cause: OnceLock<ClientError>,
}

#[derive(Debug)]
struct QueueState {
    events: VecDeque<Event>,
    bytes: usize,
    has_reader: bool,
    is_abandoned: bool,
    is_paused: bool,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(QueueState {
                events: VecDeque::new(),
                bytes: 0,
                has_reader: true,
                is_abandoned: false,
                is_paused: false,
            }),
            readable: Notify::new(),
            cause: OnceLock::new(),
        }
    }

    pub(crate) fn push(&self, event: Event) {
        let mut state = lock(&self.state);
        if state.has_reader {
            state.bytes += event.weight();
            state.events.push_back(event);
            drop(state);
            self.readable.notify_one();
        }
    }

    /// Ends the queue. What it holds can still be read.
    pub(crate) fn end(&self, cause: ClientError) {
        // The first cause counts.
        let _ = self.cause.set(cause);
        self.readable.notify_one();
    }

    pub(crate) fn cause(&self) -> Option<&ClientError> {
        self.cause.get()
    }

    /// Returns true once when the session must be held back. [`Self::unpause`] makes it possible
    /// again.
    pub(crate) fn pause(&self) -> bool {
        let mut state = lock(&self.state);
        let pauses = !state.is_paused && state.bytes >= PAUSE_SESSION_BYTES;
        state.is_paused |= pauses;
        pauses
    }

    /// Returns true if the session was held back.
    pub(crate) fn unpause(&self) -> bool {
        std::mem::take(&mut lock(&self.state).is_paused)
    }

    pub(crate) fn is_overfull(&self) -> bool {
        lock(&self.state).bytes >= STOP_READING_BYTES
    }

    /// The next event, and whether its removal made room that the connection task waits for.
    fn pop(&self) -> Option<(Event, bool)> {
        let mut state = lock(&self.state);
        let event = state.events.pop_front()?;
        let before = state.bytes;
        state.bytes -= event.weight();
        let has_room = [RESUME_SESSION_BYTES, STOP_READING_BYTES - 1]
            .iter()
            .any(|limit| before > *limit && state.bytes <= *limit);
        Some((event, has_room))
    }

    /// Notes that the last handle of the session was dropped.
    pub(crate) fn abandon(&self) {
        lock(&self.state).is_abandoned = true;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        lock(&self.state).is_abandoned
    }

    fn drop_reader(&self) {
        let mut state = lock(&self.state);
        state.has_reader = false;
        state.bytes = 0;
        state.events = VecDeque::new();
    }

    /// Returns true if the reader has read so much that the host may send more.
    pub(crate) fn is_drained(&self) -> bool {
        lock(&self.state).bytes <= RESUME_SESSION_BYTES
    }
}

/// All events of a session in order, each entry once, however often the connection breaks.
///
/// Events wait here while they are not read: from [`PAUSE_SESSION_BYTES`] on the host holds the
/// session back. Answers to this session's calls are held back, too, so a program reads events
/// while it waits for a turn's end. A program that wants no events drops this, and the session
/// continues unread.
#[derive(Debug)]
pub struct Events {
    pub(crate) session: Session,
}

impl Events {
    /// Waits for the next event. `Ok(None)` when the session is closed, or was left by this client.
    ///
    /// # Errors
    /// The cause with which the session ended early, after all events before it; again for each
    /// further call.
    ///
    /// # Cancel safety
    /// Cancelling loses no event.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.try_next() {
                return Ok(Some(event));
            }
            let Some(cause) = self.session.queue().cause().cloned() else {
                self.session.queue().readable.notified().await;
                continue;
            };
            // The last event may have come just before the end.
            return match self.try_next() {
                Some(event) => Ok(Some(event)),
                None if cause.is_orderly() => Ok(None),
                None => Err(cause),
            };
        }
    }

    /// The next event, if one is queued.
    pub fn try_next(&mut self) -> Option<Event> {
        let (event, has_room) = self.session.queue().pop()?;
        if has_room {
            self.session.request_attention();
        }
        Some(event)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.session.queue().drop_reader();
        self.session.request_attention();
    }
}

/// No code panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Event {
        Event::parse(line).unwrap().1
    }

    #[test]
    fn an_entry_of_an_unknown_type_keeps_its_number_and_noise_is_none() {
        let line =
            r#"{"type":"of.tomorrow","session_id":"s","turn_id":"t","seq":7,"epoch":2,"time":"x"}"#;
        let event = parse(line);
        assert_eq!((event.stamp.seq, event.stamp.epoch), (Some(7), Some(2)));
        assert_eq!(event.turn_id.as_ref().map(TurnId::as_str), Some("t"));
        assert_eq!((&event.body, event.line()), (&EventBody::Unknown, line));
        for noise in ["{}", "{", r#"{"type":"of.tomorrow","session_id":"s"}"#] {
            assert_eq!(Event::parse(noise), None, "{noise}");
        }
    }

    #[test]
    fn a_file_of_a_daemon_over_the_network_has_no_path() {
        let event = parse(r#"{"type":"file.output","session_id":"s","file_name":"a","seq":1}"#);
        let EventBody::Adapter(AdapterBody::FileOutput(file)) = &event.body else {
            panic!("{event:?}")
        };
        assert_eq!(
            (file.file_name.as_deref(), &*file.file_path),
            (Some("a"), "")
        );
        assert_eq!(event.stamp.seq, Some(1));
    }

    #[test]
    fn only_text_on_stdout_is_part_of_the_answer() {
        let text = |channel| {
            let line = format!(r#"{{"type":"output","session_id":"s","content":"a"{channel}}}"#);
            parse(&line).answer_text().map(str::to_owned)
        };
        assert_eq!(text(""), Some("a".to_owned()));
        assert_eq!(text(r#","channel":"stdout""#), Some("a".to_owned()));
        assert_eq!(text(r#","channel":"system""#), None);
    }
}
