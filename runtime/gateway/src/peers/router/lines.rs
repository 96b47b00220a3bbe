//! Lines of the router: copying, and its own answers.

use std::{
    borrow::Cow,
    collections::HashSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, AttachRefusal, Category, ErrorEvent, Head, RelayMessage, SessionId,
};
use trunkline_sessions::{ends, without_paths};

use super::HubOutput;

/// Source of copied lines.
pub(super) enum LineSource {
    /// This host's relay.
    Own,
    /// Another host, with the set that collects the sessions it refuses.
    Other(RefusedSessions),
}

/// Sessions that other hosts have refused to a hub.
#[derive(Debug, Clone, Default)]
pub(super) struct RefusedSessions(Arc<Mutex<HashSet<SessionId>>>);

impl RefusedSessions {
    /// Limit for the set. For a session that no longer fits, the pipe ends when the hub attaches to
    /// it elsewhere.
    const MAX_SESSIONS: usize = 64 * 1024;

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the `session.refused` messages among the lines of a host.
    fn record(&self, lines: &[u8]) {
        const START: &[u8] = b"{\"type\":\"session.refused\"";
        if memchr::memmem::find(lines, START).is_none() {
            return;
        }
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| line.starts_with(START))
        {
            let head = std::str::from_utf8(line)
                .ok()
                .and_then(|line| Head::read(line).ok());
            let id = head.and_then(|head| SessionId::new(&*head.session_id).ok());
            let mut all = self.lock();
            if all.len() < Self::MAX_SESSIONS {
                all.extend(id);
            }
        }
    }

    /// Returns true if a host has refused the session since the last call.
    pub(super) fn remove(&self, id: &SessionId) -> bool {
        self.lock().remove(id)
    }
}

/// Copies complete lines to the hub until the source ends. Drops an incomplete last line.
pub(super) async fn copy_lines(
    mut from: impl AsyncRead + Unpin,
    to: HubOutput,
    of: LineSource,
    mut is_over: watch::Receiver<bool>,
) {
    let mut lines = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            // A dropped sender counts as a stop.
            _ = is_over.wait_for(|is| *is) => return,
            read = from.read_buf(&mut lines) => read,
        };
        let Ok(1..) = read else { return };
        let Some(end) = memchr::memrchr(b'\n', &lines) else {
            continue;
        };
        let mut to = to.lock().await;
        let written = match &of {
            LineSource::Own => to.write_all(&lines[..=end]).await,
            LineSource::Other(refused) => {
                // Recorded first: the hub may attach as soon as it has the line.
                refused.record(&lines[..=end]);
                to.write_all(&hide_paths(&lines[..=end])).await
            }
        };
        if written.is_err() || to.flush().await.is_err() {
            return;
        }
        lines.drain(..=end);
    }
}

/// Removes paths of another machine from lines.
fn hide_paths(lines: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(lines) {
        Ok(text) => match without_paths(text) {
            Cow::Borrowed(_) => lines.into(),
            Cow::Owned(shown) => shown.into_bytes().into(),
        },
        Err(_) => lines.into(),
    }
}

/// Writes a line and its end, and flushes.
pub(super) async fn write_line(to: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    to.write_all(line).await?;
    to.write_all(b"\n").await?;
    to.flush().await
}

/// Encodes a non-fatal error about a message of the hub.
pub(super) fn error_line(id: SessionId, category: Category, message: &str) -> Vec<u8> {
    let event = ErrorEvent {
        category: Some(category),
        message: message.to_owned(),
        fatal: Some(false),
        ..ErrorEvent::default()
    };
    AdapterMessage::new(id, AdapterBody::from(event)).to_line()
}

/// Encodes `session.refused` for an unavailable session.
pub(super) fn refused_line(id: &SessionId, why: String) -> Vec<u8> {
    RelayMessage::new(id.clone(), ends::refused(AttachRefusal::Unavailable, why)).to_line()
}
