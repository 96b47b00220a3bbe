//! What a session's worker does, in the order in which the host said it ([session.3]).

use std::collections::VecDeque;

use trunkline_protocol::{FileInput, SessionStart, SessionUpdate, TurnId};

use super::running::Steer;
use crate::{Input, Turn};

/// Work that waits.
#[derive(Debug)]
pub(crate) enum Job {
    Start(Box<SessionStart>),
    Turn(QueuedTurn),
    /// So many inputs that were not taken in, from a host whose turns have no ids: answered when their turn comes.
    Refused(u64),
    File(FileInput),
    Update(Box<SessionUpdate>),
}

/// An input that waits for the turns before it ([turn.3]).
#[derive(Debug)]
pub(crate) struct QueuedTurn {
    pub(crate) id: Option<TurnId>,
    pub(crate) input: Input,
    /// What was added before it began: to the host it is the running turn already.
    pub(crate) steers: VecDeque<Steer>,
}

/// What the worker does next. Taking it begins it.
#[derive(Debug)]
pub(crate) enum Next {
    Start(Box<SessionStart>),
    Turn(Turn, Input),
    File(FileInput),
    Update(Box<SessionUpdate>),
    /// The session is over; the last that is done for it.
    Close,
}
