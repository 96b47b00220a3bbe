//! Handles the adapter's output, line by line.

use std::time::Instant;

use trunkline_protocol::{Item, Unread};
use trunkline_redact as redact;
use trunkline_wirelog::WireEvent;

use super::Driver;

impl Driver {
    /// Hands what was read to the core, line by line.
    pub(super) fn handle_read(&mut self, bytes: usize, now: Instant) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        self.agent.counters.bytes_in.add(bytes as u64);
        if let Some(up) = &mut self.up {
            up.heard = Some(now);
        }
        connection.see(WireEvent::FromAdapter(connection.lines.just_read(bytes)));
        self.core.handle_bytes(now);
        connection.lines.filled(bytes);
        let mut lines = 0;
        while let Some(item) = connection.lines.next() {
            lines += 1;
            self.handle_line(item, now);
            self.apply_with(Some(&mut connection), now);
        }
        self.agent.counters.lines_in.add(lines);
        self.connection = Some(connection);
    }

    pub(super) fn handle_line(&mut self, item: Item<'_>, now: Instant) {
        let read = self.core.handle_line(item, now);
        let counters = &self.agent.counters;
        match item {
            Item::Line(line) => {
                let Err(unread) = read else { return };
                match &unread {
                    Unread::Noise => counters.noise.one(),
                    Unread::UnknownType { .. } => counters.unknown_type.one(),
                    _ => counters.bad.one(),
                }
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = line.len(),
                    "a line was not taken: {}",
                    redact::text(&unread.to_string())
                );
            }
            Item::TooLong { bytes, .. } => {
                counters.too_long.one();
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes,
                    "a line was over the limit and was skipped"
                );
            }
            Item::NotUtf8 { line } => {
                counters.noise.one();
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = line.len(),
                    "a line was not UTF-8"
                );
            }
            Item::NotObject(line) => {
                counters.noise.one();
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = line.len(),
                    "a line was not a message"
                );
            }
            Item::Cut(rest) => {
                counters.noise.one();
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = rest.len(),
                    "the output ended within a line"
                );
            }
        }
    }
}
