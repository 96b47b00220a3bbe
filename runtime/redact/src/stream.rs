//! Hiding secrets in what comes in chunks.

use std::borrow::Cow;
use std::sync::Arc;

use crate::redactor::{Redactor, write};
use crate::shared::shared;

/// Limit of a held unfinished line, in bytes. Beyond it the beginning is passed on.
pub const MAX_PENDING: usize = 64 * 1024;

/// Bytes that stay held then. No pattern of a registered value is as long, nor is a name with its
/// separator.
const TAIL: usize = 8 * 1024;

/// Redacts a stream of bytes by whole lines, so that a secret split over chunks is found. A line
/// that ends within the base64 text of a value waits for the next one.
///
/// A line longer than [`MAX_PENDING`] is passed on in parts, none of which ends within a secret. If
/// a secret is itself as long, the rest of its line is hidden with it.
#[derive(Debug, Default)]
pub struct Stream {
    /// `None` is the shared one, as it is when a line is complete.
    redactor: Option<Arc<Redactor>>,
    pending: Vec<u8>,
    state: StreamState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StreamState {
    #[default]
    Line,
    /// Within a secret that is longer than what may be kept: nothing is shown up to the end of the line.
    Hiding,
}

impl Stream {
    /// Hides by this redactor instead of the [`shared`] one.
    #[must_use]
    pub fn with(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor: Some(redactor),
            ..Self::default()
        }
    }

    /// Takes a chunk; `shown` gets what can be shown by now, in one piece or several.
    pub fn push(&mut self, chunk: &[u8], mut shown: impl FnMut(&[u8])) {
        for part in chunk.chunks(MAX_PENDING) {
            self.push_part(part, &mut shown);
        }
    }

    fn push_part(&mut self, mut part: &[u8], shown: &mut impl FnMut(&[u8])) {
        if self.state == StreamState::Hiding {
            let Some(end) = part.iter().position(|byte| *byte == b'\n') else {
                return;
            };
            part = &part[end..];
            self.state = StreamState::Line;
        }
        if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
            let (lines, rest) = part.split_at(last + 1);
            if self.pending.is_empty() {
                let complete = self.show(lines, shown);
                self.pending.extend_from_slice(&lines[complete..]);
            } else {
                self.pending.extend_from_slice(lines);
                let complete = self.show(&self.pending, shown);
                self.pending.drain(..complete);
                // One long line does not cost its memory forever.
                self.pending.shrink_to(TAIL);
            }
            part = rest;
        }
        self.pending.extend_from_slice(part);
        if self.pending.len() > MAX_PENDING {
            self.relieve(shown);
        }
    }

    /// Ends the stream: `shown` gets the unfinished last line.
    pub fn finish(&mut self, mut shown: impl FnMut(&[u8])) {
        self.show_pending(&mut shown);
        self.state = StreamState::Line;
    }

    fn redactor(&self) -> Cow<'_, Arc<Redactor>> {
        self.redactor
            .as_ref()
            .map_or_else(|| Cow::Owned(shared()), Cow::Borrowed)
    }

    /// Passes on whole lines, except the last ones if the next line may continue them. Returns
    /// where these begin.
    fn show(&self, lines: &[u8], shown: &mut impl FnMut(&[u8])) -> usize {
        let redactor = self.redactor();
        let complete = redactor.complete(lines);
        if complete > 0 {
            shown(&redactor.bytes(&lines[..complete]));
        }
        complete
    }

    fn show_pending(&mut self, shown: &mut impl FnMut(&[u8])) {
        if !self.pending.is_empty() {
            shown(&self.redactor().bytes(&self.pending));
            self.pending.clear();
        }
        self.pending.shrink_to(TAIL);
    }

    /// Shows the beginning of a line that is too long to wait for its end.
    fn relieve(&mut self, shown: &mut impl FnMut(&[u8])) {
        let redactor = self.redactor();
        let spans = redactor.spans(&self.pending);
        let mut cut = self.pending.len() - TAIL;
        for span in spans.iter().rev() {
            if span.from < cut && cut < span.hidden.end {
                cut = span.from;
            }
        }
        // One secret fills it all: what is behind it is hidden as well, or what begins there would be cut.
        let giant = spans
            .iter()
            .filter(|_| cut < TAIL)
            .max_by_key(|span| span.hidden.len());
        let state = if giant.is_some() {
            StreamState::Hiding
        } else {
            StreamState::Line
        };
        cut = giant.map_or(cut, |span| span.hidden.end);
        let before = spans.partition_point(|span| span.hidden.end <= cut);
        let mut out = Vec::with_capacity(cut);
        write(&self.pending[..cut], &spans[..before], &mut out);
        drop(redactor);
        self.state = state;
        match state {
            StreamState::Line => drop(self.pending.drain(..cut)),
            StreamState::Hiding => self.pending.clear(),
        }
        shown(&out);
    }
}
