//! Status of the link and its sessions.

use std::time::Instant;

use trunkline_process::Child;

use super::{Driver, Entry, key_of};
use crate::{
    AgentHealth, LastEnd, ProcessHealth, SessionStatus, health::state_of, session::SessionShared,
};

impl Driver {
    /// Returns the present health of the agent.
    pub(super) fn health(&self, now: Instant) -> AgentHealth {
        let figures = self.core.process_figures(now);
        let child = self.connection.as_ref();
        let process = child
            .zip(self.up.as_ref())
            .map(|(connection, up)| ProcessHealth {
                pid: connection.child.as_ref().map(Child::pid),
                age: now.saturating_duration_since(up.since),
                silent_for: now.saturating_duration_since(up.heard.unwrap_or(up.since)),
                was_heard: up.heard.is_some(),
                suspected_for: figures.suspected_for,
                stderr_tail: connection.stderr_tail(),
            });
        AgentHealth {
            agent: self.agent.id.to_string(),
            state: state_of(figures.phase),
            why: figures.why.and_then(|why| why.message),
            restart_in: figures.again_in,
            process,
            last_end: self.last_end.as_ref().map(|(at, end)| LastEnd {
                ago: now.saturating_duration_since(*at),
                ..end.clone()
            }),
            sessions: self.core.open_sessions(),
            running_turns: figures.running_turns,
            open_requests: figures.open_requests,
            longest_silence: figures.longest_silence,
            failing: self.failing.clone(),
            rates: self.meter.rates(now),
            counters: self.agent.counters.snapshot(),
            draining: 0,
            removed: false,
        }
    }

    /// Returns the present status of one session, or of all.
    pub(super) fn statuses(&self, of: Option<&SessionShared>, now: Instant) -> Vec<SessionStatus> {
        let wanted =
            |entry: &&Entry| of.is_none_or(|session| std::ptr::eq(session, &*entry.shared));
        let entries = match of {
            Some(session) => {
                let at = key_of(session).index() as usize;
                self.sessions.get(at..=at).unwrap_or_default()
            }
            None => &self.sessions,
        };
        entries
            .iter()
            .flatten()
            .filter(wanted)
            .filter_map(|entry| self.status(entry, now))
            .collect()
    }

    fn status(&self, entry: &Entry, now: Instant) -> Option<SessionStatus> {
        let shared = &entry.shared;
        let figures = self.core.figures(key_of(shared), now)?;
        let unread_in_turns = entry
            .turns
            .iter()
            .map(|(_, mailbox)| mailbox.unread())
            .sum::<u64>();
        Some(SessionStatus {
            id: shared.id.clone(),
            agent: shared.agent.id.to_string(),
            state: figures.state,
            age: now.saturating_duration_since(entry.opened),
            turn: figures.turn.map(|(turn, _)| turn),
            silent_for: figures.silent_for,
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
