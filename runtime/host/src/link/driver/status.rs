//! What the link says of its sessions.

use std::time::Instant;

use super::{Driver, Entry, key_of};
use crate::{SessionStatus, session::SessionShared};

impl Driver {
    /// What one session does now, or all.
    pub(super) fn statuses(&self, of: Option<&SessionShared>, now: Instant) -> Vec<SessionStatus> {
        let wanted = |entry: &&Entry| of.is_none_or(|session| std::ptr::eq(session, &*entry.shared));
        let entries = match of {
            Some(session) => {
                let at = key_of(session).index() as usize;
                self.sessions.get(at..=at).unwrap_or_default()
            }
            None => &self.sessions,
        };
        entries.iter().flatten().filter(wanted).filter_map(|entry| self.status(entry, now)).collect()
    }

    fn status(&self, entry: &Entry, now: Instant) -> Option<SessionStatus> {
        let shared = &entry.shared;
        let figures = self.core.figures(key_of(shared), now)?;
        let unread_in_turns = entry.turns.iter().map(|(_, mailbox)| mailbox.unread()).sum::<u64>();
        Some(SessionStatus {
            id: shared.id.clone(),
            agent: shared.agent.id.to_string(),
            state: figures.state,
            age: now.saturating_duration_since(entry.opened),
            turn: figures.turn.map(|(turn, _)| turn),
            turn_age: figures.turn.map(|(_, age)| age),
            queued_inputs: figures.queued_inputs,
            queue_age: figures.queue_age,
            queue_time: figures.queue_time,
            open_requests: figures.open_requests,
            bytes_in: figures.bytes_in,
            bytes_out: entry.bytes_out,
            unread_bytes: unread_in_turns + shared.unread(),
            held_back: figures.held_back,
        })
    }
}
