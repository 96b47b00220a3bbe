//! The stream over all sessions of a daemon.

use std::{io, time::Duration};

use hyper::{Method, body::Incoming};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    ClientError, HttpClient, ReconnectBackoff,
    connection::STEADY,
    http::{HttpRequest, lost, over_limit, read_part},
};

/// Limit for an event of the stream, in bytes. Those of a snapshot have about 64 KiB.
pub const MAX_CHANGE_BYTES: usize = 4 << 20;

/// Changes that were read ahead of the caller. Then the stream is not read.
const MAX_AHEAD: usize = 8;

/// Silence after which the stream counts as lost. The daemon sends a heartbeat each 15 s.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// An event of the stream over all sessions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionChange {
    /// The kind of the event.
    pub kind: ChangeKind,
    /// The whole event, with the members that the daemon's page names.
    pub data: Value,
    /// The position behind the event; `None` within a snapshot.
    pub position: Option<String>,
}

/// The kind of a [`SessionChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// All that was given before is void: drop it. A snapshot follows.
    Reset,
    /// States of sessions; the last part of a snapshot is `complete`.
    Snapshot,
    /// The whole state of a session.
    Session,
    /// The start or the end of a turn.
    Turn,
    /// A permission or a question that was opened or answered.
    Request,
    /// A kind that this version does not know.
    Other,
}

impl SessionChange {
    /// Reads the data of an event; `None` if it is no object.
    fn parse(data: &[u8]) -> Option<Self> {
        let data: Value = serde_json::from_slice(data).ok().filter(Value::is_object)?;
        Some(Self {
            kind: match data["type"].as_str() {
                Some("reset") => ChangeKind::Reset,
                Some("snapshot") => ChangeKind::Snapshot,
                Some("session") => ChangeKind::Session,
                Some("turn") => ChangeKind::Turn,
                Some("request") => ChangeKind::Request,
                _ => ChangeKind::Other,
            },
            data,
            position: None,
        })
    }
}

/// The changes of all sessions: a snapshot, then each change once, however often the connection
/// breaks. Dropping it closes the stream.
///
/// A stream that breaks continues behind its last change, by the rules of [`HttpClient`]. If the
/// daemon cannot continue, or a snapshot was cut, the next event is a [`ChangeKind::Reset`]. Eight
/// events of at most [`MAX_CHANGE_BYTES`] are read ahead.
#[derive(Debug)]
pub struct SessionChanges {
    changes: mpsc::Receiver<Result<SessionChange, ClientError>>,
    position: Option<String>,
    end: Option<ClientError>,
    _reader: JoinSet<()>,
}

impl SessionChanges {
    pub(crate) fn begin(http: HttpClient, after: Option<String>) -> Self {
        let (sender, changes) = mpsc::channel(MAX_AHEAD);
        let reader = ChangeReader {
            http,
            changes: sender,
            position: after.clone().unwrap_or_default(),
            backoff: ReconnectBackoff::default(),
            has_sent: false,
        };
        let mut task = JoinSet::new();
        task.spawn(reader.run());
        Self {
            changes,
            position: after,
            end: None,
            _reader: task,
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// A permanent error, or the last temporary one when the attempts are used up. Each further call
    /// returns it again. [`ClientError::RequestFailed`] for an event of more than
    /// [`MAX_CHANGE_BYTES`]; otherwise as [`HttpClient::request`].
    ///
    /// # Cancel safety
    /// Cancelling loses no event, and delays no connection.
    pub async fn next(&mut self) -> Result<SessionChange, ClientError> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let received = self.changes.recv().await;
        let received = received.unwrap_or(Err(ClientError::ClientClosed));
        match &received {
            Ok(change) => self.position.clone_from(&change.position),
            Err(error) => self.end = Some(error.clone()),
        }
        received
    }

    /// Returns the position behind the last event that [`SessionChanges::next`] returned. Another
    /// stream can continue there. `None` within a snapshot.
    #[must_use]
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }
}

/// Reads the stream, again after each loss.
struct ChangeReader {
    http: HttpClient,
    changes: mpsc::Sender<Result<SessionChange, ClientError>>,
    /// The position behind the last event; empty without one.
    position: String,
    backoff: ReconnectBackoff,
    /// True if the caller has, or will have, an event since the last reset.
    has_sent: bool,
}

impl ChangeReader {
    async fn run(mut self) {
        loop {
            let mut path = "/v1/events".to_owned();
            if !self.position.is_empty() {
                path = format!("{path}?after={}", crate::http::encode(&self.position));
            }
            let request = HttpRequest::new(Method::GET, path);
            let error = match self.http.open(&request).await {
                Ok((response, _connection)) => {
                    let connected_at = Instant::now();
                    let error = self.read(response.into_body()).await;
                    if connected_at.elapsed() >= STEADY {
                        self.backoff.reset();
                    }
                    lost(&error)
                }
                Err(error) => error,
            };
            let Some(delay) = self.http.next_delay(&mut self.backoff, &error) else {
                // A reader that was dropped needs no cause.
                let _ = self.changes.send(Err(error)).await;
                return;
            };
            if self.position.is_empty() && std::mem::take(&mut self.has_sent) {
                let reset = json!({ "type": "reset", "reason": "cut_snapshot" });
                let _ = self.send(reset.to_string().as_bytes()).await;
                self.has_sent = false;
            }
            sleep(delay).await;
        }
    }

    /// Reads one connection. Returns the cause of its end.
    async fn read(&mut self, mut body: Incoming) -> io::Error {
        let mut events = EventReader {
            id: self.position.clone(),
            ..EventReader::default()
        };
        loop {
            let part = match read_part(&mut body, MAX_SILENCE).await {
                Ok(Some(part)) => part,
                Ok(None) => return io::Error::other("the stream over all sessions has ended"),
                Err(error) => return error,
            };
            for byte in part {
                let event = match events.push(byte) {
                    Ok(event) => event,
                    Err(error) => return error,
                };
                if let Some((id, data)) = event {
                    self.position = id;
                    if self.send(&data).await.is_err() {
                        return io::Error::other("the reader was dropped");
                    }
                }
            }
        }
    }

    async fn send(&mut self, data: &[u8]) -> Result<(), ()> {
        let Some(mut change) = SessionChange::parse(data) else {
            return Ok(());
        };
        self.backoff.reset();
        self.has_sent = true;
        change.position = Some(self.position.clone()).filter(|position| !position.is_empty());
        self.changes.send(Ok(change)).await.map_err(drop)
    }
}

/// Reads Server-Sent Events, as the HTML standard defines them.
#[derive(Debug, Default)]
struct EventReader {
    line: Vec<u8>,
    data: Vec<u8>,
    id: String,
    /// True if the last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    has_begun: bool,
}

impl EventReader {
    /// Takes a byte. Returns the id and the data of the event that it completes.
    fn push(&mut self, byte: u8) -> io::Result<Option<(String, Vec<u8>)>> {
        let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
        match byte {
            b'\n' if after_cr => Ok(None),
            b'\n' | b'\r' => Ok(self.end_line()),
            _ if self.line.len() + self.data.len() >= MAX_CHANGE_BYTES => {
                Err(over_limit(MAX_CHANGE_BYTES, "MAX_CHANGE_BYTES"))
            }
            _ => {
                self.line.push(byte);
                Ok(None)
            }
        }
    }

    fn end_line(&mut self) -> Option<(String, Vec<u8>)> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let line = line
            .strip_prefix('\u{FEFF}')
            .filter(|_| is_first)
            .unwrap_or(&line);
        if line.is_empty() {
            // Without data it has a position only.
            return Some((self.id.clone(), std::mem::take(&mut self.data)));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.data.extend_from_slice(value.as_bytes());
                self.data.push(b'\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            // A comment, `event`, `retry`, or something newer.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_their_positions_are_read_and_bounded() {
        let mut reader = EventReader::default();
        let stream = "\u{FEFF}id: 1\r\n: x\ndata: {\ndata:}\r\rid\ndata: \u{2028}\n\n:\nid: 3\n\n";
        let mut events = Vec::new();
        for byte in stream.bytes() {
            events.extend(reader.push(byte).unwrap());
        }
        let event = |id: &str, data: &str| (id.to_owned(), data.as_bytes().to_vec());
        let wanted = [
            event("1", "{\n}\n"),
            event("", "\u{2028}\n"),
            event("3", ""),
        ];
        assert_eq!(events, wanted);
        for line in ["data: aaaaaaaaaaa", "data: aaaaaaaaaaa\n"] {
            let mut bytes = line.bytes().cycle();
            let error = (0..2 * MAX_CHANGE_BYTES)
                .find_map(|_| EventReader::push(&mut reader, bytes.next()?).err());
            assert!(error.unwrap().to_string().contains("MAX_CHANGE_BYTES"));
            reader = EventReader::default();
        }
    }
}
