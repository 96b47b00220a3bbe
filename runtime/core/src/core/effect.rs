//! Effects: the actions that the core requests.

use std::time::Duration;

use trunkline_protocol::{
    AdapterBody, FileOutput, HostMessage, InputRequest, Large, Meta, PermissionRequest,
    SessionInfo, SessionsListResult,
};

use super::Key;
use crate::{
    Cause, SessionEnd, SteerError, TurnEnd, TurnNo, TurnScope, UpdateError, policy::PathQuery,
};

/// Names a caller that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An action. `key` names the session, `scope` the turn that an event belongs to, `meta` the
/// adapter's attachment.
#[derive(Debug)]
#[allow(missing_docs, reason = "the variant documents its fields")]
pub enum Effect {
    /// Start the adapter's process.
    Start,
    /// End the process, and call [`Core::handle_ended`](super::Core::handle_ended) when it is gone;
    /// it counts as ended for this reason.
    Kill(crate::Ended),
    /// Write a message. The turn is named where this is its input, which has left the queue: the
    /// turn has begun.
    Write {
        key: Key,
        input_of: Option<TurnNo>,
        message: HostMessage,
    },
    /// Write a message of the pipe itself.
    WritePipe(HostMessage),
    /// Hand over the answer to a request of [`Core::handle_list`](super::Core::handle_list).
    Listed(Box<SessionsListResult>),
    /// Record that the process has not answered a `ping`. Nothing is ended for it.
    Suspected { silent_for: Duration },
    /// Record that a suspected process has sent something.
    Trusted,
    /// Report an event to the session's user: a message of the adapter, or one that the core makes
    /// in its form. `large` lists the members that are in files.
    Deliver {
        key: Key,
        scope: TurnScope,
        body: AdapterBody,
        meta: Option<Box<Meta>>,
        large: Option<Box<Large>>,
    },
    /// Put the text of a turn's input into a file of the session's exchange folder, and report its
    /// path by [`Core::handle_placed`](super::Core::handle_placed).
    PlaceInput {
        key: Key,
        turn: TurnNo,
        content: String,
    },
    /// Ask the session's user for a permission; `serial` distinguishes it from another of the same
    /// id ([permission.4]).
    Ask {
        key: Key,
        scope: TurnScope,
        request: Box<PermissionRequest>,
        serial: u64,
        meta: Option<Box<Meta>>,
    },
    /// Look up the names of the paths of a permission, and pass them to
    /// [`Core::handle_names`](super::Core::handle_names): within a time, whatever the file system
    /// does.
    FindNames {
        key: Key,
        serial: u64,
        query: PathQuery,
    },
    /// Note that a lasting rule, and no pattern of the configuration, approved a permission.
    AllowedByRule { key: Key, rule: String },
    /// Ask the session's user a question.
    AskInput {
        key: Key,
        scope: TurnScope,
        request: Box<InputRequest>,
        serial: u64,
        meta: Option<Box<Meta>>,
    },
    /// Report that a running turn is silent, and for how long it may be yet; `None`: without end.
    Stalled {
        key: Key,
        turn: TurnNo,
        silent_for: Duration,
        deadline_in: Option<Duration>,
    },
    /// Check a file, copy it, and report it to the session's user, in this place among the events.
    CheckFile {
        key: Key,
        scope: TurnScope,
        file: FileOutput,
        meta: Option<Box<Meta>>,
    },
    /// An input of this many bytes has left the queue unwritten: its turn has ended.
    InputUnqueued { key: Key, bytes: usize },
    /// A file has left the queue, written or not; or an update was written, and its answer is still to come.
    Unqueued(Ticket),
    /// A turn has ended.
    End {
        key: Key,
        end: Box<TurnEnd>,
        meta: Option<Box<Meta>>,
        large: Option<Box<Large>>,
    },
    /// A steer was answered.
    Steered {
        ticket: Ticket,
        result: Result<(), SteerError>,
    },
    /// An update was answered.
    Updated {
        ticket: Ticket,
        result: Result<Box<SessionInfo>, UpdateError>,
    },
    /// A session has ended; its key is free. An input that comes too late for it ends with `cause`.
    Closed {
        key: Key,
        cause: Cause,
        end: Box<SessionEnd>,
    },
    /// Count something, of a session where it is one's.
    Count(Counter, Option<Key>),
}

/// A count that the core reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// A message of an unknown type, or of an extension that was not agreed on ([msg.2]).
    UnknownType,
    /// A message for a session that never was ([session.5]).
    UnknownSession,
    /// A message for a closed session, or of a turn that has ended ([session.4], [turn.9]).
    Late,
    /// A message with a `turn_id` that was never given ([turn.9]).
    Foreign,
    /// A `turn.complete` without a turn to end ([turn.9]).
    StrayEnd,
    /// An answer or a request that came twice or too late ([permission.4]).
    StrayRequest,
    /// A request that was denied at once, since too many wait.
    DeniedRequest,
    /// A message that the rules of the protocol do not allow here.
    Bad,
    /// A line that named a session and was not a message: the link counts it by what was wrong with it.
    BadOfSession,
    /// The process was started again.
    Restart,
}
