//! Jobs of a session's worker, in the host's order ([session.3]).

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use trunkline_protocol::{FileInput, LargeMember, SessionStart, SessionUpdate, TurnId};

use super::running::Steer;
use crate::Input;

/// Work that waits.
#[derive(Debug)]
pub(crate) enum Job {
    Start(Box<SessionStart>),
    Turn(QueuedTurn),
    /// So many inputs that were not taken in, from a host whose turns have no ids: answered when
    /// their turn comes.
    Refused(u64),
    File(FileInput),
    Update(Box<SessionUpdate>),
}

/// An input that waits for the turns before it ([turn.3]).
#[derive(Debug)]
pub(crate) struct QueuedTurn {
    pub(crate) id: Option<TurnId>,
    pub(crate) input: Input,
    /// File of the input's text, if it was too long for a line.
    pub(crate) large: Option<LargeMember>,
    /// Steers that arrived before it began: to the host it is the running turn already.
    pub(crate) steers: VecDeque<Steer>,
}

/// A turn that runs, as its handle knows it.
#[derive(Debug)]
pub(crate) struct BegunTurn {
    pub(crate) serial: u64,
    pub(crate) id: Option<TurnId>,
    pub(crate) stop: CancellationToken,
    /// Rung when something was added.
    pub(crate) steered: Arc<Notify>,
}

/// The next job of the worker. Taking it begins it.
#[derive(Debug)]
pub(crate) enum Next {
    Start(Box<SessionStart>),
    Turn(BegunTurn, Input, Option<LargeMember>),
    File(FileInput),
    Update(Box<SessionUpdate>),
    /// The session is over; the last that is done for it.
    Close,
}
