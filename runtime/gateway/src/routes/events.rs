//! The entries of a session as Server-Sent Events: each once, from where a client left off.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use trunkline_protocol::{Role, SessionAttach, SessionState};
use trunkline_sessions::{Heard, Listener};

use super::{Asks, Gate, Named, Query};
use crate::{
    gateway::Shared,
    pass::{Pass, Stream},
    problem::{Answer, Problem},
};

/// How often something is said where nothing happens: a proxy that cuts idle connections finds none.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The least time between two writes: what happens meanwhile goes out together.
const GATHER: Duration = Duration::from_millis(10);

/// How much padding the first bytes have: a proxy that gathers some before it passes them on does so at once.
const PADDING: usize = 2048;

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
    let after = match headers.get("last-event-id") {
        Some(last) => {
            let last = last.to_str().ok().and_then(|last| last.trim().parse().ok());
            Some(last.ok_or_else(|| Problem::unprocessable("Last-Event-ID is no number of an entry"))?)
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
    let counted = pass.stream().ok_or_else(|| Problem::too_many("the token has too many streams open"))?;
    // A chunk waits at most: who reads slowly holds back its own task, and reads the journal later.
    let (chunks, body) = mpsc::channel(1);
    tokio::spawn(tell(Telling { shared: shared.clone(), pass, listener, chunks, _counted: counted }));
    let body = futures_util::stream::unfold(body, async |mut body: mpsc::Receiver<Bytes>| {
        body.recv().await.map(|chunk| (Ok::<_, Infallible>(chunk), body))
    });
    let mut response = Body::from_stream(body).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

struct Telling {
    shared: Arc<Shared>,
    pass: Pass,
    listener: Listener,
    chunks: mpsc::Sender<Bytes>,
    _counted: Stream,
}

/// Tells a client what happens, until it has gone, may hear no more, or nothing more will come.
async fn tell(mut telling: Telling) {
    let shared = telling.shared.clone();
    shared.metrics.streams.inc();
    let pass = telling.pass.clone();
    tokio::select! {
        () = telling.events() => {}
        () = shared.passes.ended(&pass) => {}
        () = shared.ending() => {}
    }
    shared.metrics.streams.dec();
}

impl Telling {
    async fn events(&mut self) {
        let mut first = b"retry: 1000\n:".to_vec();
        first.resize(PADDING, b' ');
        first.extend_from_slice(b"\n\n");
        if self.chunks.send(first.into()).await.is_err() {
            return;
        }
        let mut lines = Vec::new();
        loop {
            let next = Instant::now() + HEARTBEAT;
            let heard = tokio::select! {
                heard = self.listener.next(&mut lines) => heard,
                () = sleep_until(next) => {
                    if self.chunks.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return;
                    }
                    continue;
                }
                () = self.chunks.closed() => return,
            };
            match heard {
                Ok(Heard::Lines | Heard::Answer) => {}
                Ok(Heard::Over | Heard::LetGo) => return,
                Err(error) => return tracing::warn!(session = %self.listener.session(), "{error}"),
            }
            let (frames, is_last) = frames(&lines);
            lines.clear();
            let written = Instant::now() + GATHER;
            if self.chunks.send(frames.into()).await.is_err() || is_last {
                return;
            }
            sleep_until(written).await;
        }
    }
}

/// Lines as events, and whether the session's last is among them.
fn frames(lines: &[u8]) -> (Vec<u8>, bool) {
    let mut frames = Vec::with_capacity(lines.len() + lines.len() / 4);
    let mut is_last = false;
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
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
        is_last |= kind == "session.closed";
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
        assert_eq!(text, format!("id: 12\nevent: output\ndata: {entry}\n\nevent: lag\ndata: {told}\n\n"));
        assert!(!is_last);
        let closed = r#"{"type":"session.closed","session_id":"s","seq":13,"epoch":3,"time":"t"}"#;
        assert!(frames(format!("{closed}\n").as_bytes()).1);
    }

    #[test]
    fn a_path_of_this_machine_is_not_told() {
        let line = r#"{"type":"file.output","session_id":"s","file_path":"/home/a/x","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        let told = r#"{"type":"file.output","session_id":"s","sha256":"0","seq":1,"epoch":1,"time":"t"}"#;
        assert_eq!(without_path(line), told);
        let other = r#"{"type":"output","session_id":"s","content":"file_path"}"#;
        assert!(matches!(without_path(other), Cow::Borrowed(same) if same == other));
    }
}
