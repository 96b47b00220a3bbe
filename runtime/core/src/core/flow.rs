//! When the adapter is asked to hold back a session's messages ([flow.1]).
//!
//! It is asked while a turn runs that its user does not read or that is over its rate, or whose
//! user has paused the session. Nothing that the user waits for may be held back with it: a pause
//! ends before a stop, a steer and an update are written, and with the turn.

use std::time::Instant;

use trunkline_protocol::{Envelope, Extensions, FlowPause, FlowResume, HostBody};

use super::{Core, Effect, Key, queue::Queued, session::Session, turn::OpenTurn};

/// Reader of a turn's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The turn's own reader. With another input waiting, its user may read the later turn first.
    OfTurn,
    /// The session's reader, which reads every turn in order.
    OfSession,
}

impl Session {
    /// Returns true if the adapter should hold back the running turn.
    fn wants_pause(&self) -> bool {
        let Some(work) = &self.work else { return false };
        let Some(running) = work
            .running
            .as_ref()
            .filter(|running| !running.is_stopping())
        else {
            return false;
        };
        let is_update = |queued: &Queued| matches!(queued, Queued::Update { .. });
        let is_input = |queued: &Queued| matches!(queued, Queued::Input { .. });
        let is_unread = match running.unread {
            Some(Reader::OfTurn) => work.ahead.is_empty() && !work.queue.iter().any(is_input),
            Some(Reader::OfSession) => true,
            None => false,
        };
        let answer_is_due = !work.steers.is_empty()
            || !work.updates.is_empty()
            || work.queue.iter().any(is_update)
            || work.ahead.iter().any(OpenTurn::is_stopping);
        (self.paused || is_unread || running.over_rate) && !answer_is_due
    }
}

impl Core {
    /// The user reads no events of a session for now: the inactivity deadline rests ([flow.2]).
    pub fn handle_pause(&mut self, key: Key, now: Instant) {
        self.set_paused(key, true, now);
    }

    /// The user reads on.
    pub fn handle_resume(&mut self, key: Key, now: Instant) {
        self.set_paused(key, false, now);
    }

    fn set_paused(&mut self, key: Key, paused: bool, now: Instant) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(session) = self.get(index) else {
            return;
        };
        session.paused = paused;
        if let Some(running) = session.running() {
            running.rested_until(now);
        }
        self.settle_flow(index, now);
    }

    /// So much of the running turn is unread that the adapter is to wait.
    pub fn handle_unread(&mut self, key: Key, reader: Reader, now: Instant) {
        self.set_unread(key, Some(reader), now);
    }

    /// The reader has caught up.
    pub fn handle_read_down(&mut self, key: Key, now: Instant) {
        self.set_unread(key, None, now);
    }

    fn set_unread(&mut self, key: Key, unread: Option<Reader>, now: Instant) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(running) = self.get(index).and_then(|session| session.running()) else {
            return;
        };
        running.unread = unread;
        self.settle_flow(index, now);
    }

    /// Asks the adapter to hold the session's messages back, or to release them, if that has
    /// changed.
    pub(super) fn settle_flow(&mut self, index: u32, now: Instant) {
        let is_up = self.process_is_up();
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        let is_wanted = session.wants_pause() && session.has_agreed(Extensions::FLOW);
        if session.held == is_wanted {
            return;
        }
        let Some(wire) = session.wire.clone().filter(|_| is_up) else {
            return;
        };
        session.held = is_wanted;
        if let Some(running) = session.running() {
            running.rested_until(now);
            running.held_bytes = 0;
        }
        let body: HostBody = if is_wanted {
            FlowPause::default().into()
        } else {
            FlowResume::default().into()
        };
        self.effect(Effect::Write {
            key,
            input_of: None,
            message: Envelope::new(wire, body),
        });
    }
}
