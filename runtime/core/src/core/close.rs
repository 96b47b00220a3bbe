//! How sessions end.

use std::time::Instant;

use trunkline_protocol::{Category, ClosedReason, Envelope, Failure, SessionClose, StopReason};

use super::{Core, Effect, Key};
use crate::SessionEnd;

/// Why a session ends.
#[derive(Debug)]
pub enum WhyClosed {
    /// Its user closed it.
    User,
    /// The host shuts down.
    Shutdown,
    /// The adapter ended it ([session.8]).
    Adapter(ClosedReason, Option<Failure>),
    /// What must be enforced is not ([ext.7]).
    Refused(String),
    /// Its output does not fit on disk.
    Limit(String),
    /// The process ended, and the configuration says that its sessions end with it.
    ProcessEnded,
}

impl Core {
    /// The user closes a session. Closing twice is closing once.
    pub fn handle_close(&mut self, key: Key, why: WhyClosed, now: Instant) {
        if let Some(index) = self.index_of(key) {
            self.close_session(index, why, now);
        }
    }

    /// The host shuts down: every session ends, the process is not started again.
    pub fn handle_shutdown(&mut self, now: Instant) {
        self.process_down();
        for index in self.indices() {
            self.close_session(index, WhyClosed::Shutdown, now);
        }
    }

    /// Ends a session: its turns, its requests, its id on the wire.
    pub(super) fn close_session(&mut self, index: u32, why: WhyClosed, now: Instant) {
        let key = self.key_of(index);
        if self.get(index).is_none() {
            return;
        }
        let cause = Self::cause_of(&why);
        let (reason, error) = match why {
            WhyClosed::User => (ClosedReason::Finished, None),
            WhyClosed::Shutdown => (ClosedReason::Shutdown, None),
            WhyClosed::Adapter(reason, error) => (reason, error),
            WhyClosed::Refused(why) => (
                ClosedReason::Refused,
                Some(Failure::new(Category::Protocol, why)),
            ),
            WhyClosed::Limit(why) => (
                ClosedReason::Limit,
                Some(Failure::new(Category::Oversize, why)),
            ),
            WhyClosed::ProcessEnded => (
                ClosedReason::Failed,
                Some(Failure::new(
                    Category::ProcessExit,
                    "the adapter's process ended",
                )),
            ),
        };
        let by_adapter = cause == crate::Cause::SessionClosed;
        let wire = self.get(index).and_then(|session| session.wire.take());
        // Nothing is written for the id but its close: the wire was taken above.
        self.drop_requests(index, StopReason::Shutdown);
        self.end_running(index, cause, None, now);
        self.end_queued(index, cause, error.as_ref(), None);
        self.fail_updates(index);
        self.forget_known(index);
        if let Some(wire) = wire {
            self.forget_wire(&wire);
            if !by_adapter {
                self.effect(Effect::Write {
                    key,
                    input_of: None,
                    message: Envelope::new(wire, SessionClose::default()),
                });
            }
        }
        self.effect(Effect::Closed {
            key,
            end: Box::new(SessionEnd { reason, error }),
        });
        let slot = &mut self.sessions[index as usize];
        slot.session = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.open -= 1;
    }
}
