//! The changes of all sessions that a token sees as Server-Sent Events: a snapshot, then each change.

use axum::{http::HeaderMap, response::Response};
use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use trunkline_sessions::{ChangeGap, ChangeReader, SessionKey, Sessions};

use super::{
    Query,
    events::{GATHER, HEARTBEAT, ReadEvents, answer_events, write_event},
};
use crate::http::{
    operation::{RequestContext, parameters},
    problem::{Answer, Problem},
};

/// Most changes that are looked at before a write.
const MAX_BATCH: usize = 256;

parameters! {
    pub(super) struct ResumeQuery {
        /// Position of the last event that the client has.
        after: Option<String>,
    }
}

pub(super) async fn stream_changes(
    context: RequestContext,
    Query(from): Query<ResumeQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let last = match headers.get("last-event-id") {
        Some(last) => Some(
            last.to_str()
                .map_err(|_| Problem::unprocessable("Last-Event-ID is no position of an event"))?,
        ),
        None => from.after.as_deref(),
    };
    let sessions = context.sessions();
    let mut changes = sessions.changes();
    let phase = match last.map(str::trim).filter(|last| !last.is_empty()) {
        Some(last) => changes
            .resume(last)
            .map_or_else(StreamPhase::Reset, |()| StreamPhase::Live),
        None => StreamPhase::Snapshot(None),
    };
    let reader = ChangeEvents {
        sessions,
        changes,
        phase,
        again: Instant::now(),
    };
    answer_events(context, reader)
}

/// The next part of a stream of changes.
#[derive(Debug, Clone, Copy)]
enum StreamPhase {
    Reset(ChangeGap),
    /// The snapshot behind a session. Changes are written between its pages, so that a long one
    /// does not fall behind; the client applies both in the order in which they come.
    Snapshot(Option<SessionKey>),
    Live,
}

/// Reads the changes of all sessions.
struct ChangeEvents {
    sessions: Sessions,
    changes: ChangeReader,
    phase: StreamPhase,
    /// Time of the last write.
    again: Instant,
}

impl ReadEvents for ChangeEvents {
    async fn read_events(&mut self) -> Option<Bytes> {
        let mut frames = Vec::new();
        while frames.is_empty() {
            match self.phase {
                StreamPhase::Reset(gap) => {
                    let reset = json!({"type": "reset", "reason": gap.as_str()});
                    write_change("", "reset", &reset.to_string(), &mut frames);
                    self.phase = StreamPhase::Snapshot(None);
                }
                StreamPhase::Snapshot(behind) => self.write_page(behind, &mut frames).await?,
                StreamPhase::Live => {
                    sleep_until(self.again + GATHER).await;
                    tokio::select! {
                        biased;
                        () = self.changes.wait() => {}
                        () = sleep_until(self.again + HEARTBEAT) => {
                            // Without data this is no event, but the client keeps the position.
                            let position = self.changes.position();
                            frames.extend_from_slice(format!(":\nid: {position}\n\n").as_bytes());
                        }
                    }
                }
            }
            self.write_changes(&mut frames);
        }
        self.again = Instant::now();
        Some(frames.into())
    }
}

impl ChangeEvents {
    /// Writes a page of the snapshot. `None` if it cannot be read: the stream ends.
    async fn write_page(&mut self, behind: Option<SessionKey>, frames: &mut Vec<u8>) -> Option<()> {
        let page = match self.sessions.overview(behind).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!("the snapshot of a stream of events was not read: {error}");
                return None;
            }
        };
        let is_complete = page.end.is_none();
        let position = if is_complete {
            self.changes.position()
        } else {
            String::new()
        };
        let snapshot = json!({
            "type": "snapshot",
            "sessions": page.sessions,
            "complete": is_complete,
        });
        write_change(&position, "snapshot", &snapshot.to_string(), frames);
        self.phase = match page.end {
            Some(end) => StreamPhase::Snapshot(Some(end)),
            None => StreamPhase::Live,
        };
        Some(())
    }

    fn write_changes(&mut self, frames: &mut Vec<u8>) {
        match self.changes.take(MAX_BATCH) {
            Ok(changes) => {
                for change in changes {
                    // A position is sent only if everything before it was.
                    let position = match self.phase {
                        StreamPhase::Live => change.position(),
                        StreamPhase::Reset(_) | StreamPhase::Snapshot(_) => "",
                    };
                    write_change(position, change.subject(), change.json(), frames);
                }
            }
            Err(gap) => self.phase = StreamPhase::Reset(gap),
        }
    }
}

/// Writes an event with a position; an empty one makes the client forget the last.
fn write_change(position: &str, kind: &str, json: &str, frames: &mut Vec<u8>) {
    frames.extend_from_slice(format!("id: {position}\n").as_bytes());
    write_event(kind, json, frames);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use trunkline_host::{Host, config::AgentConfig};
    use trunkline_protocol::{RequestId, SessionEdit, SessionId, SessionStart};

    use super::*;

    /// Returns the id and the type of each event.
    fn events(frames: &Bytes) -> Vec<(String, String)> {
        let text = String::from_utf8(frames.to_vec()).unwrap();
        let event = |block: &str| {
            let field = |name| block.lines().find_map(|line| line.strip_prefix(name));
            let data: Value = serde_json::from_str(field("data: ").unwrap()).unwrap();
            let kind = data["type"].as_str().unwrap().to_owned();
            (field("id: ").unwrap().to_owned(), kind)
        };
        text.split_terminator("\n\n").map(event).collect()
    }

    #[tokio::test]
    async fn changes_between_the_pages_of_a_snapshot_have_no_position() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::builder()
            .agent_over(AgentConfig::external("a", "none"), || {
                tokio::io::split(tokio::io::duplex(1024).0)
            })
            .build()
            .unwrap();
        let path = folder.path().to_owned();
        let open = move || Sessions::open(host, &path, Default::default());
        let (sessions, _) = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
        let mut listeners = Vec::new();
        for number in 0..600 {
            let id = SessionId::new(format!("s-{number}")).unwrap();
            let start = SessionStart::default();
            listeners.push(sessions.start(&id, "a", start, None, None).unwrap());
        }
        for listener in &mut listeners {
            listener.next(&mut Vec::new()).await.unwrap();
        }
        let mut stream = ChangeEvents {
            changes: sessions.changes(),
            sessions: sessions.clone(),
            phase: StreamPhase::Snapshot(None),
            again: Instant::now(),
        };
        let mut chunks = Vec::new();
        for number in 0..4 {
            chunks.push(events(&stream.read_events().await.unwrap()));
            let edit = SessionEdit {
                request_id: RequestId::new("e").unwrap(),
                title: Some(format!("title {number}")),
                archived: None,
            };
            let id = SessionId::new("s-599").unwrap();
            assert_eq!(sessions.edit(&id, edit).await.error, None);
        }
        let shown = |chunk: &[(String, String)]| -> Vec<_> {
            let event = |(id, kind): &(String, String)| (!id.is_empty(), kind.clone());
            chunk.iter().map(event).collect()
        };
        let snapshot = |has_id| (has_id, "snapshot".to_owned());
        let change = |has_id| (has_id, "session".to_owned());
        assert_eq!(shown(&chunks[0]), [snapshot(false)]);
        assert_eq!(shown(&chunks[1]), [snapshot(false), change(false)]);
        assert_eq!(shown(&chunks[2]), [snapshot(true), change(true)]);
        assert_eq!(shown(&chunks[3]), [change(true)]);
    }
}
