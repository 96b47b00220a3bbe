//! The lines of a switch: carried whole, and its own answers.

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

use super::Output;

/// Whose lines they are.
pub(super) enum Of {
    /// This host's.
    Own,
    /// Another's, and where it says which sessions the hub has there no more.
    Other(Refused),
}

/// Sessions of other hosts that a hub was told to be there no more.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused(Arc<Mutex<HashSet<SessionId>>>);

impl Refused {
    /// How many are kept. The hub's pipe ends when it attaches to a further one at its next host.
    const MOST: usize = 64 * 1024;

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a host tells.
    fn note(&self, lines: &[u8]) {
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
            if all.len() < Self::MOST {
                all.extend(id);
            }
        }
    }

    /// Whether the hub was told that a session is there no more, since that was asked last.
    pub(super) fn take(&self, id: &SessionId) -> bool {
        self.lock().remove(id)
    }
}

/// Carries whole lines to the hub until there are no more. What is cut is not carried.
pub(super) async fn copy_lines(
    mut from: impl AsyncRead + Unpin,
    to: Output,
    of: Of,
    mut is_over: watch::Receiver<bool>,
) {
    let mut lines = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            // Gone is over.
            _ = is_over.wait_for(|is| *is) => return,
            read = from.read_buf(&mut lines) => read,
        };
        let Ok(1..) = read else { return };
        let Some(end) = memchr::memrchr(b'\n', &lines) else {
            continue;
        };
        let mut to = to.lock().await;
        let written = match &of {
            Of::Own => to.write_all(&lines[..=end]).await,
            Of::Other(refused) => {
                // The switch knows it before the hub does.
                refused.note(&lines[..=end]);
                to.write_all(&hidden(&lines[..=end])).await
            }
        };
        if written.is_err() || to.flush().await.is_err() {
            return;
        }
        lines.drain(..=end);
    }
}

/// Lines without the paths of another machine.
fn hidden(lines: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(lines) {
        Ok(text) => match without_paths(text) {
            Cow::Borrowed(_) => lines.into(),
            Cow::Owned(shown) => shown.into_bytes().into(),
        },
        Err(_) => lines.into(),
    }
}

/// Writes a line.
pub(super) async fn write(to: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    to.write_all(line).await?;
    to.write_all(b"\n").await?;
    to.flush().await
}

/// What a hub hears of something that it said.
pub(super) fn error(id: SessionId, category: Category, message: &str) -> Vec<u8> {
    let event = ErrorEvent {
        category: Some(category),
        message: message.to_owned(),
        fatal: Some(false),
        ..ErrorEvent::default()
    };
    AdapterMessage::new(id, AdapterBody::from(event)).to_line()
}

/// That a session is not there now.
pub(super) fn refused(id: &SessionId, why: String) -> Vec<u8> {
    RelayMessage::new(id.clone(), ends::refused(AttachRefusal::Unavailable, why)).to_line()
}
