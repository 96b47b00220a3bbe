//! What the core asks for.

use trunkline_protocol::{FileOutput, HostMessage, InputRequest, Meta, PermissionRequest, SessionInfo};

use super::{Key, queue::UpdateError};
use crate::{EventKind, Place, SessionEnd, TurnEnd, TurnNo, error::SteerError};

/// Names a caller that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(pub(crate) u64);

/// One thing to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Start the adapter's process.
    Start,
    /// End the process and say when it is gone; it counts as ended for this reason.
    Kill(super::Ended),
    /// Write a message. The turn is named where this is its input, which has left the queue: the turn has begun.
    Write { key: Key, input_of: Option<TurnNo>, message: HostMessage },
    /// Tell the session's user.
    Deliver { key: Key, place: Place, kind: EventKind, meta: Option<Box<Meta>> },
    /// Ask the session's user for a permission.
    Ask { key: Key, place: Place, request: Box<PermissionRequest>, serial: u64, meta: Option<Box<Meta>> },
    /// Ask the session's user a question.
    AskInput { key: Key, place: Place, request: Box<InputRequest>, serial: u64, meta: Option<Box<Meta>> },
    /// Judge a file, copy it, and tell the session's user, in this place among the events.
    Judge { key: Key, place: Place, file: FileOutput, meta: Option<Box<Meta>> },
    /// An input has left the queue unwritten: its turn has ended.
    Unqueued { key: Key, bytes: usize },
    /// A turn has ended.
    End { key: Key, end: Box<TurnEnd>, meta: Option<Box<Meta>> },
    /// A steer was answered.
    Steered { ticket: Ticket, result: Result<(), SteerError> },
    /// An update was answered.
    Updated { ticket: Ticket, result: Result<Box<SessionInfo>, UpdateError> },
    /// A session has ended; its key is free.
    Closed { key: Key, end: Box<SessionEnd> },
    /// Count something, of a session where it is one's.
    Note(Noted, Option<Key>),
}

/// What is counted ([Counters](crate::Counters)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    UnknownType,
    UnknownSession,
    Late,
    Foreign,
    StrayEnd,
    StrayRequest,
    DeniedRequest,
    Bad,
    /// A line that named a session and was no message: the link counts it by what was wrong with it.
    BadOfSession,
    Restart,
}
