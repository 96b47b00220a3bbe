//! A hub: the near end of the line protocol, to a host on a socket or to one in this process.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use trunkline_host::protocol::{Body, Envelope, Item, LineReader, MAX_LINE, SessionId};

pub(crate) use trunkline_host::protocol::{FromRelay as Message, Stamp};

/// How long a leave may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Says lines to a relay and hears its lines. Dropping it leaves: the sessions go on where the relay does.
pub(crate) struct Hub {
    input: Box<dyn AsyncRead + Unpin + Send>,
    output: Box<dyn AsyncWrite + Unpin + Send>,
    lines: LineReader,
    /// What was said and is not written yet.
    said: Vec<u8>,
}

/// A line of the relay.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) message: Message,
    pub(crate) stamp: Stamp,
    /// The line itself, without its end.
    pub(crate) line: String,
}

impl Hub {
    /// A hub of these streams.
    pub(crate) fn new(
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        Self {
            input: Box::new(input),
            output: Box::new(output),
            lines: LineReader::of_peer(MAX_LINE),
            said: Vec::new(),
        }
    }

    /// Says a message. It is written while [`Hub::hear`] is awaited.
    pub(crate) fn say<B: Body>(&mut self, message: &Envelope<B>) {
        message.write(&mut self.said);
    }

    /// Leaves in order: the relay has read what was said when this resolves, unless it takes longer than a second.
    pub(crate) async fn leave(mut self) {
        let last = async {
            self.output.write_all(&self.said).await?;
            self.output.shutdown().await?;
            // Unread lines would break the pipe before the relay has read its end.
            tokio::io::copy(&mut self.input, &mut tokio::io::sink()).await
        };
        // A relay that is gone needs no leave.
        let _ = tokio::time::timeout(LAST_WORDS, last).await;
    }

    /// The next message that is understood. `None` at the relay's end.
    ///
    /// # Errors
    /// When the pipe breaks.
    ///
    /// # Cancel safety
    /// Loses nothing, in neither direction.
    pub(crate) async fn hear(&mut self) -> io::Result<Option<Told>> {
        loop {
            while let Some(item) = self.lines.next() {
                if let Item::Line(line) = item
                    && let Some(told) = Told::read(line)
                {
                    return Ok(Some(told));
                }
            }
            tokio::select! {
                written = self.output.write(&self.said), if !self.said.is_empty() => match written {
                    Ok(bytes) => drop(self.said.drain(..bytes)),
                    // What the relay said before can still be read.
                    Err(_) => self.said.clear(),
                },
                read = self.input.read(self.lines.space()) => match read? {
                    0 => return Ok(None),
                    bytes => self.lines.filled(bytes),
                },
            }
        }
    }
}

impl Told {
    /// The session that it is about.
    pub(crate) fn session(&self) -> &SessionId {
        match &self.message {
            Message::Adapter(message) => &message.session_id,
            Message::Relay(message) => &message.session_id,
        }
    }

    fn read(line: &str) -> Option<Self> {
        let (message, stamp) = match Message::parse(line) {
            Ok(told) => told,
            Err(unread) => {
                tracing::debug!("a line of the host was not understood: {unread}");
                return None;
            }
        };
        Some(Self {
            message,
            stamp,
            line: line.to_owned(),
        })
    }
}
