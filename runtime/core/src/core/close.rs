//! The end of a session.

use std::time::Instant;

use trunkline_protocol::{Category, ClosedReason, Envelope, Failure, SessionClose, StopReason};

use super::{Core, Effect, Key, reason::Circumstances};
use crate::{Cause, SessionEnd};

/// The reason of a session's end.
#[derive(Debug)]
pub enum WhyClosed {
    /// The user closed it.
    User,
    /// The host shuts down.
    Shutdown,
    /// The adapter ended it ([session.8]).
    Adapter(ClosedReason, Option<Failure>),
    /// An option that must be enforced is not ([ext.7]).
    Refused(String),
    /// The output does not fit on the disk.
    Limit(String),
    /// The process ended, and its sessions end with it by configuration.
    ProcessEnded,
}

impl WhyClosed {
    /// The cause of the end of each turn that the session had.
    fn cause(&self) -> Cause {
        match self {
            Self::User => Cause::Closed,
            Self::Shutdown => Cause::Shutdown,
            Self::Adapter(..) => Cause::SessionClosed,
            Self::Refused(_) => Cause::Refused,
            Self::Limit(_) => Cause::Limit,
            Self::ProcessEnded => Cause::ProcessExit,
        }
    }
}

impl Core {
    /// Closes a session. Closing it again does nothing.
    pub fn handle_close(&mut self, key: Key, why: WhyClosed, now: Instant) {
        if let Some(index) = self.index_of(key) {
            self.close_session(index, why, now);
        }
    }

    /// Shuts down: every session ends, and the process is not started again.
    pub fn handle_shutdown(&mut self, now: Instant) {
        self.process_down();
        for index in self.indices() {
            self.close_session(index, WhyClosed::Shutdown, now);
        }
    }

    /// Ends a session: its turns, its requests, its id on the wire. Each turn that ends with it
    /// gets the error of the end.
    pub(super) fn close_session(&mut self, index: u32, why: WhyClosed, now: Instant) {
        let key = self.key_of(index);
        if self.get(index).is_none() {
            return;
        }
        let cause = why.cause();
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
        let by_adapter = cause == Cause::SessionClosed;
        let wire = self.get(index).and_then(|session| session.wire.take());
        // Nothing is written for the id but its close: the wire was taken above.
        self.drop_requests(index, StopReason::Shutdown);
        self.end_open_turns(index, cause, error.as_ref(), None, now);
        self.end_queued(index, cause, error.as_ref(), Circumstances::default());
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
            cause,
            end: Box::new(SessionEnd { reason, error }),
        });
        let slot = &mut self.sessions[index as usize];
        slot.session = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.open -= 1;
    }
}
