//! What the adapter says, line by line.

use std::time::Instant;

use trunkline_protocol::{Category, Head, Item, Unread, session_named_in, type_named_in};
use trunkline_redact as redact;

use super::Driver;

impl Driver {
    /// Hands what was read to the core, line by line.
    pub(super) fn received(&mut self, bytes: usize, now: Instant) {
        let Some(mut connection) = self.connection.take() else { return };
        self.agent.counters.bytes_in.add(bytes as u64);
        connection.lines.filled(bytes);
        let mut lines = 0;
        while let Some(item) = connection.lines.next() {
            lines += 1;
            self.item(item, now);
            self.apply_with(Some(&mut connection), now);
        }
        self.agent.counters.lines_in.add(lines);
        self.connection = Some(connection);
    }

    pub(super) fn item(&mut self, item: Item<'_>, now: Instant) {
        let counters = &self.agent.counters;
        match item {
            Item::Line(line) => {
                // Read in place: a head that is moved costs as much as finding its members.
                let read = match &mut Head::read(line) {
                    Ok(head) => self.core.handle_line(head, now),
                    Err(unread) => Err(unread.clone()),
                };
                let Err(unread) = read else { return };
                let counters = &self.agent.counters;
                match &unread {
                    Unread::Noise => counters.noise.one(),
                    Unread::UnknownType { .. } => counters.unknown_type.one(),
                    Unread::Bad { session_id, kind, .. } => {
                        counters.bad.one();
                        if kind.is_none()
                            && let Some(session_id) = session_id
                        {
                            self.core.handle_bad(
                                session_id.as_str(),
                                Category::Protocol,
                                &unread.to_string(),
                            );
                        }
                    }
                    _ => counters.bad.one(),
                }
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = line.len(),
                    "a line was not taken: {}",
                    redact::text(&unread.to_string())
                );
            }
            Item::TooLong { first, bytes } => {
                counters.too_long.one();
                tracing::debug!(agent = &*self.agent.id, bytes, "a line was over the limit and was skipped");
                if let Some(session_id) = session_named_in(first) {
                    let why =
                        format!("a line of {bytes} bytes was over the limit (`max_line`) and was skipped");
                    self.core.handle_bad(session_id.as_str(), Category::Oversize, &why);
                    if type_named_in(first).as_deref() == Some("turn.complete") {
                        self.core.handle_oversize_end(session_id.as_str(), now);
                    }
                }
            }
            Item::NotUtf8 { line } => {
                counters.noise.one();
                tracing::debug!(agent = &*self.agent.id, bytes = line.len(), "a line was not UTF-8");
                if let Some(session_id) = session_named_in(line) {
                    self.core.handle_bad(
                        session_id.as_str(),
                        Category::Protocol,
                        "a message was not UTF-8 and was skipped",
                    );
                }
            }
            Item::NotObject(line) => {
                counters.noise.one();
                tracing::debug!(agent = &*self.agent.id, bytes = line.len(), "a line was not a message");
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
