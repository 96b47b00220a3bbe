//! The entries of a session as Server-Sent Events: each once, from where a client left off.

use std::{
    borrow::Cow,
    convert::Infallible,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use prometheus::IntGauge;
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};
use trunkline_protocol::{Role, SessionAttach, SessionState};
use trunkline_sessions::{Listener, StreamItem};

use super::{Asks, Gate, Named, Query};
use crate::{
    gateway::Shared,
    pass::{Pass, Stream},
    problem::{Answer, Problem},
};

/// How often something is said where nothing happens: a proxy that cuts idle connections finds none.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The least time between two writes to one of many: what happens meanwhile goes out together.
const GATHER: Duration = Duration::from_millis(10);

/// How many of a session's listeners are few: they hear all at once.
const FEW: usize = 16;

/// How much padding the first bytes have: a proxy that gathers some before it passes them on does so at once.
const PADDING: usize = 2048;

/// The first bytes: how soon to come back, and the padding.
pub(super) static BEGINNING: LazyLock<Bytes> =
    LazyLock::new(|| format!("retry: 1000\n:{:1$}\n\n", "", PADDING).into());

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    after: Option<u64>,
    epoch: Option<u64>,
}

pub(super) async fn stream(
    State(shared): Gate,
    Extension(pass): Asks,
    Named(id): Named,
    Query(from): Query<From>,
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
    let (attached, listener) = shared.sessions_for(&pass).attach(&id, &attach).await?;
    if attached.state == Some(SessionState::Closed) && attach.after >= attached.last_seq {
        // Nothing will come: a browser that gets this does not connect again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let counted = pass
        .stream()
        .ok_or_else(|| Problem::too_many("the token has too many streams open"))?;
    let telling = Telling {
        _open: Open::new(shared.metrics.streams.clone()),
        shared,
        pass,
        listener,
        has_begun: false,
        is_over: false,
        again: Instant::now(),
        _counted: counted,
    };
    // Who reads slowly asks later, and reads the journal then.
    let body = futures_util::stream::unfold(telling, async |mut telling: Telling| {
        telling
            .next()
            .await
            .map(|chunk| (Ok::<_, Infallible>(chunk), telling))
    });
    Ok(sent(Body::from_stream(body)))
}

/// An answer that is events.
pub(super) fn sent(events: Body) -> Response {
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

/// What a client hears. It has no task of its own: there may be many that are idle.
struct Telling {
    shared: Arc<Shared>,
    pass: Pass,
    listener: Listener,
    has_begun: bool,
    is_over: bool,
    /// When it may be written to again, where it is one of many.
    again: Instant,
    _open: Open,
    _counted: Stream,
}

/// A stream that is open, in the figures.
pub(super) struct Open(IntGauge);

impl Open {
    pub(super) fn new(streams: IntGauge) -> Self {
        streams.inc();
        Self(streams)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Telling {
    /// What is said next; `None` when the client may hear no more, or nothing more will come.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(BEGINNING.clone());
        }
        if self.is_over {
            return None;
        }
        let (shared, pass) = (self.shared.clone(), self.pass.clone());
        tokio::select! {
            chunk = self.events() => chunk,
            () = shared.passes.ended(&pass) => None,
            () = shared.ending() => None,
        }
    }

    async fn events(&mut self) -> Option<Bytes> {
        if self.listener.listeners() > FEW {
            sleep_until(self.again).await;
        }
        let mut lines = Vec::new();
        tokio::select! {
            heard = self.listener.next(&mut lines) => match heard {
                Ok(StreamItem::Entries | StreamItem::Reply) => {}
                Ok(StreamItem::Ended(end)) => lines.extend(self.listener.last_line(end)),
                Err(error) => {
                    tracing::warn!(session = %self.listener.session(), "{error}");
                    lines.extend(self.listener.unreadable_line(&error));
                }
            },
            () = sleep(HEARTBEAT) => return Some(Bytes::from_static(b":\n\n")),
        }
        let (frames, is_last) = frames(&lines);
        self.is_over = is_last;
        self.again = Instant::now() + GATHER;
        Some(frames.into())
    }
}

/// Lines as events, and whether the session's last is among them.
fn frames(lines: &[u8]) -> (Vec<u8>, bool) {
    let mut frames = Vec::with_capacity(lines.len() + lines.len() / 4);
    let mut is_last = false;
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else {
            continue;
        };
        let Some(kind) = kind_of(line) else { continue };
        if let Some(seq) = seq_of(line) {
            frames.extend_from_slice(b"id: ");
            frames.extend_from_slice(seq.as_bytes());
            frames.push(b'\n');
        }
        frames.extend_from_slice(b"event: ");
        frames.extend_from_slice(kind.as_bytes());
        frames.extend_from_slice(b"\ndata: ");
        frames.extend_from_slice(without_path(line).as_bytes());
        frames.extend_from_slice(b"\n\n");
        is_last |= matches!(kind, "session.closed" | "session.refused");
    }
    (frames, is_last)
}

/// The type of a line that this program wrote, which begins with it.
fn kind_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("{\"type\":\"")?;
    rest.split_once('"').map(|(kind, _)| kind)
}

/// The number of an entry, which stands near its end.
fn seq_of(line: &str) -> Option<&str> {
    const MEMBER: &str = ",\"seq\":";
    let tail = &line[line.floor_char_boundary(line.len().saturating_sub(128))..];
    let at = tail.rfind(MEMBER)? + MEMBER.len();
    let seq = &tail[at..];
    Some(&seq[..seq.find(|c: char| !c.is_ascii_digit()).unwrap_or(seq.len())])
}

/// A line without the path of a file, which is this machine's matter: a client reads the file by its SHA-256.
pub(crate) fn without_path(line: &str) -> Cow<'_, str> {
    if kind_of(line) != Some("file.output") {
        return Cow::Borrowed(line);
    }
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line) {
        Ok(mut message) => {
            message.shift_remove("file_path");
            Cow::Owned(serde_json::Value::Object(message).to_string())
        }
        Err(_) => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event_with_its_number_and_its_type() {
        let entry = r#"{"type":"output","session_id":"s","content":",\"seq\":9","seq":12,"epoch":3,"time":"2026-01-01T00:00:00.000Z"}"#;
        let told = r#"{"type":"lag","session_id":"s","from":1,"to":2}"#;
        let (text, is_last) = frames(format!("{entry}\n{told}\n").as_bytes());
        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text,
            format!("id: 12\nevent: output\ndata: {entry}\n\nevent: lag\ndata: {told}\n\n")
        );
        assert!(!is_last);
        let closed = r#"{"type":"session.closed","session_id":"s","seq":13,"epoch":3,"time":"t"}"#;
        assert!(frames(format!("{closed}\n").as_bytes()).1);
    }

    #[test]
    fn a_path_of_this_machine_is_not_told() {
        let line = r#"{"type":"file.output","session_id":"s","file_path":"/home/a/x","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        let told =
            r#"{"type":"file.output","session_id":"s","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        assert_eq!(without_path(line), told);
        let other = r#"{"type":"output","session_id":"s","content":"file_path"}"#;
        assert!(matches!(without_path(other), Cow::Borrowed(same) if same == other));
    }
}
