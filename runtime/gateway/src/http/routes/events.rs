//! Server-Sent Events: the entries of a session, each once, after the last one that a client has.

use std::{borrow::Cow, convert::Infallible, future::Future, sync::LazyLock, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use prometheus::IntGauge;
use tokio::time::{Instant, sleep, sleep_until};
use trunkline_protocol::{Head, RelayMessage, Role, SessionAttach, SessionState};
use trunkline_sessions::{Entry, EntryItem, EntryListener, without_path};

use super::{Query, SessionPath};
use crate::http::{
    operation::{RequestContext, parameters},
    problem::{Answer, Problem},
};

/// Interval of comments on an idle stream, so that no proxy closes it.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Minimum time between two writes to one of many listeners; events in between are sent together.
pub(super) const GATHER: Duration = Duration::from_millis(10);

/// Number of listeners of a session up to which each gets its events at once.
const FEW: usize = 16;

/// Padding of the first bytes, so that a buffering proxy forwards them at once.
const PADDING: usize = 2048;

/// First bytes of a stream: the time until a reconnect, and the padding.
static BEGINNING: LazyLock<Bytes> =
    LazyLock::new(|| format!("retry: 1000\n:{:1$}\n\n", "", PADDING).into());

parameters! {
    pub(super) struct EventsQuery {
        /// Number of the last entry that the client has.
        after: Option<u64>,
        /// Epoch of that entry; 409 if the journal has another one there.
        epoch: Option<u64>,
    }
}

pub(super) async fn stream_entries(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Query(from): Query<EventsQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let after =
        match headers.get("last-event-id") {
            Some(last) => {
                let last = last.to_str().ok().and_then(|last| last.trim().parse().ok());
                Some(last.ok_or_else(|| {
                    Problem::unprocessable("Last-Event-ID is no number of an entry")
                })?)
            }
            None => from.after,
        };
    let attach = SessionAttach {
        after: after.unwrap_or(0),
        epoch: from.epoch,
        role: Some(Role::Observe),
        ..SessionAttach::default()
    };
    let (attached, listener) = context.sessions().attach(&id, &attach).await?;
    if attached.state == Some(SessionState::Closed) && attach.after >= attached.last_seq {
        // The session is closed: a browser does not reconnect after this.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let reader = EntryReader {
        entries: listener.into_entries(),
        is_over: false,
        again: Instant::now(),
    };
    // A client that reads slowly polls later, and gets the entries of the journal then.
    answer_events(context, reader)
}

/// A source of the events of a stream.
pub(super) trait ReadEvents: Send + 'static {
    /// Waits for further events and returns their frames. `None` at the end.
    ///
    /// # Cancel safety
    /// Events may be lost: the stream ends.
    fn read_events(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Answers with the events of a source, until it ends, the token is revoked or the daemon ends. The
/// stream has no task of its own, since there may be many that are idle.
pub(super) fn answer_events(
    RequestContext { shared, principal }: RequestContext,
    source: impl ReadEvents,
) -> Answer<Response> {
    let counted = principal.stream()?;
    let open = (OpenStream::new(shared.metrics.streams.clone()), counted);
    let begin = stream::iter([Ok(BEGINNING.clone())]);
    let state = (source, open, shared, principal);
    let events = stream::unfold(state, async |mut state| {
        let (source, _, shared, principal) = &mut state;
        let chunk = tokio::select! {
            chunk = source.read_events() => chunk,
            () = shared.known_tokens.ended(principal) => None,
            () = shared.ending() => None,
        };
        chunk.map(|chunk| (Ok::<_, Infallible>(chunk), state))
    });
    Ok(sent(Body::from_stream(begin.chain(events))))
}

/// Creates an answer with events.
fn sent(events: Body) -> Response {
    let mut response = events.into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Reads the entries of a session.
struct EntryReader {
    entries: EntryListener,
    is_over: bool,
    /// Time of the next write, if the session has many listeners.
    again: Instant,
}

/// Open stream, counted in the metrics.
struct OpenStream(IntGauge);

impl OpenStream {
    fn new(streams: IntGauge) -> Self {
        streams.inc();
        Self(streams)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ReadEvents for EntryReader {
    async fn read_events(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.entries.listener().listeners() > FEW {
            sleep_until(self.again).await;
        }
        let mut frames = Vec::new();
        let mut item = tokio::select! {
            item = self.entries.next() => item,
            () = sleep(HEARTBEAT) => return Some(Bytes::from_static(b":\n\n")),
        };
        loop {
            self.is_over |= match item {
                Ok(EntryItem::Entry(entry)) => write_entry(&entry, &mut frames),
                Ok(EntryItem::Lag(lag)) => {
                    let id = self.entries.listener().session().clone();
                    write_line(&RelayMessage::new(id, lag).to_line(), &mut frames)
                }
                Ok(EntryItem::Reply(reply)) => {
                    let mut line = Vec::new();
                    reply.write(self.entries.listener().session(), &mut line);
                    write_line(&line, &mut frames)
                }
                Ok(EntryItem::Ended(end)) => {
                    write_line(&self.entries.listener().last_line(end), &mut frames)
                }
                Err(error) => {
                    let listener = self.entries.listener();
                    tracing::warn!(session = %listener.session(), "{error}");
                    write_line(&listener.unreadable_line(&error), &mut frames)
                }
            };
            if self.is_over || !self.entries.has_ready() {
                break;
            }
            item = self.entries.next().await;
        }
        self.again = Instant::now() + GATHER;
        Some(frames.into())
    }
}

/// Appends an entry as an event with its number. Returns whether it is the session's last.
fn write_entry(entry: &Entry, frames: &mut Vec<u8>) -> bool {
    let kind = entry.kind();
    frames.extend_from_slice(format!("id: {}\n", entry.seq()).as_bytes());
    write_event(&kind, &without_path(entry.line()), frames);
    kind == "session.closed"
}

/// Appends a line that is no entry as an event. Returns whether the stream ends with it.
fn write_line(line: &[u8], frames: &mut Vec<u8>) -> bool {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end();
    let kind = Head::read(line).map_or(Cow::Borrowed(""), |head| head.kind);
    write_event(&kind, line, frames);
    kind == "session.refused"
}

pub(super) fn write_event(kind: &str, data: &str, frames: &mut Vec<u8>) {
    const FIELDS: usize = "event: \ndata: \n\n".len();
    frames.reserve(FIELDS + kind.len() + data.len());
    frames.extend_from_slice(b"event: ");
    frames.extend_from_slice(kind.as_bytes());
    frames.extend_from_slice(b"\ndata: ");
    frames.extend_from_slice(data.as_bytes());
    frames.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_entry_has_no_number_and_a_refusal_is_the_last() {
        let lag = r#"{"type":"lag","session_id":"s","from":1,"to":2}"#;
        let refused = r#"{"type":"session.refused","session_id":"s","reason":"unavailable"}"#;
        let mut frames = Vec::new();
        assert!(!write_line(format!("{lag}\n").as_bytes(), &mut frames));
        assert!(write_line(format!("{refused}\n").as_bytes(), &mut frames));
        let text = String::from_utf8(frames).unwrap();
        let expected =
            format!("event: lag\ndata: {lag}\n\nevent: session.refused\ndata: {refused}\n\n");
        assert_eq!(text, expected);
    }
}
