//! Messages that wait to be written: one buffer, drained by one write.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::AsyncWrite;
use trunkline_protocol::{HostBody, HostMessage};

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES: usize = 256 * 1024;

/// Whole lines on their way into the pipe.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    buffer: Vec<u8>,
    /// Up to where the buffer was written.
    sent: usize,
    /// All bytes that were ever written.
    written: u64,
    /// Bytes of other messages than inputs that were added since the buffer was last empty.
    answers: usize,
}

impl Outbox {
    /// Appends a message.
    pub(super) fn push(&mut self, message: &HostMessage) {
        let before = self.buffer.len();
        message.write(&mut self.buffer);
        if !matches!(message.body, HostBody::UserInput(_)) {
            self.answers += self.buffer.len() - before;
        }
    }

    /// About how many of the bytes that wait are answers: inputs are admitted, these come as the
    /// adapter asks.
    pub(super) fn answers(&self) -> usize {
        self.answers.min(self.len())
    }

    /// Returns the number of waiting bytes.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the waiting bytes that were appended behind this position in all output.
    pub(super) fn since(&self, end: u64) -> &[u8] {
        let at = usize::try_from(end.saturating_sub(self.written)).unwrap_or(usize::MAX);
        self.buffer
            .get(self.sent.saturating_add(at)..)
            .unwrap_or_default()
    }

    /// Returns the number of bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the position of the next message in all output.
    pub(super) fn end(&self) -> u64 {
        self.written + self.len() as u64
    }

    /// Writes once and returns the number of bytes.
    pub(super) fn poll_write<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        writer: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let result = std::task::ready!(Pin::new(writer).poll_write(cx, &self.buffer[self.sent..]));
        if let Ok(bytes) = result {
            self.sent += bytes;
            self.written += bytes as u64;
            if self.sent == self.buffer.len() {
                (self.sent, self.answers) = (0, 0);
                self.buffer.clear();
                if self.buffer.capacity() > KEPT_BYTES {
                    self.buffer = Vec::new();
                }
            } else if self.sent > self.buffer.len() / 2 && self.sent > KEPT_BYTES {
                self.buffer.drain(..self.sent);
                self.sent = 0;
            }
        }
        Poll::Ready(match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            result => result,
        })
    }
}
