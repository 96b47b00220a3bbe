//! A hub for the time of one request: joins a session, says something, and hears what follows.

use std::time::Duration;

use tokio::time::timeout;
use trunkline_protocol::{
    AdapterMessage, Envelope, HostBody, HostMessage, RelayMessage, SessionAttach, SessionAttached,
    SessionId, TurnId,
};
use trunkline_sessions::{Listener, Sessions, StreamEnd, StreamItem};

use crate::problem::{Answer, Problem};

/// For how long an answer is waited for that follows at once.
const SOON: Duration = Duration::from_secs(15);

/// One line that a session says.
#[derive(Debug)]
pub(crate) enum Line {
    /// In the words of an adapter.
    Adapter(AdapterMessage),
    /// In those of a relay.
    Relay(RelayMessage),
}

/// A session that a request has joined.
#[derive(Debug)]
pub(crate) struct One {
    pub(crate) attached: SessionAttached,
    listener: Listener,
    lines: Vec<u8>,
    /// How far they were read.
    read: usize,
}

impl One {
    /// Joins a session, from the next entry on.
    pub(crate) async fn join(sessions: &Sessions, id: &SessionId) -> Answer<Self> {
        Ok(Self::of(sessions.join(id).await?))
    }

    /// Joins a session from behind an entry.
    pub(crate) async fn join_after(
        sessions: &Sessions,
        id: &SessionId,
        after: u64,
    ) -> Answer<Self> {
        let attach = SessionAttach {
            after,
            ..SessionAttach::default()
        };
        Ok(Self::of(sessions.attach(id, &attach).await?))
    }

    fn of((attached, listener): (SessionAttached, Listener)) -> Self {
        Self {
            attached,
            listener,
            lines: Vec::new(),
            read: 0,
        }
    }

    /// The name under which it speaks.
    pub(crate) fn name(&self) -> Option<&str> {
        self.attached.listener.as_deref()
    }

    pub(crate) async fn say(&self, turn: Option<TurnId>, body: impl Into<HostBody>) -> Answer<()> {
        let message = HostMessage {
            turn_id: turn,
            ..Envelope::new(self.listener.session().clone(), body.into())
        };
        match self.listener.speaker().say(message).await {
            true => Ok(()),
            false => Err(Problem::unavailable(
                "the session has just left the memory; try again",
            )),
        }
    }

    /// Hears lines until one of them gives something.
    pub(crate) async fn until<T>(
        &mut self,
        mut is: impl FnMut(&Line, &str) -> Option<T>,
    ) -> Answer<T> {
        loop {
            while let Some(end) = memchr::memchr(b'\n', &self.lines[self.read..]) {
                let line = &self.lines[self.read..self.read + end];
                self.read += end + 1;
                let Ok(text) = std::str::from_utf8(line) else {
                    continue;
                };
                let line = match AdapterMessage::parse(text) {
                    Ok(message) => Line::Adapter(message),
                    Err(_) => match RelayMessage::parse(text) {
                        Ok(message) => Line::Relay(message),
                        Err(_) => continue,
                    },
                };
                if let Some(found) = is(&line, text) {
                    return Ok(found);
                }
            }
            self.lines.clear();
            self.read = 0;
            match self.listener.next(&mut self.lines).await {
                Ok(StreamItem::Entries | StreamItem::Reply) => {}
                Ok(StreamItem::Ended(end)) => {
                    return Err(Problem::unavailable(match end {
                        StreamEnd::HostEnding => "the host ends",
                        StreamEnd::Moved => "the session has just moved; try again",
                        StreamEnd::Interrupted => {
                            "the session was interrupted and is about to be opened again; try again"
                        }
                        StreamEnd::Overrun => "too many replies wait; try again",
                    }));
                }
                Err(error) => return Err(Problem::failed(error.to_string())),
            }
        }
    }

    /// The same for what follows at once.
    pub(crate) async fn soon<T>(&mut self, is: impl FnMut(&Line, &str) -> Option<T>) -> Answer<T> {
        let late = || {
            Problem::unavailable(
                "the session did not answer in time; what was said may still count",
            )
        };
        timeout(SOON, self.until(is))
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}
