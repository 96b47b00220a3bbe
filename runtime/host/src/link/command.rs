//! Commands of a link's users.

use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Span;
use trunkline_core::{
    Answer, EditRejected, Key, SteerError,
    policy::{FoundNames, Pattern},
};
use trunkline_protocol::{
    FileInput, Json, LargeMember, Meta, PermissionRequest, RequestId, SessionInfo, SessionStart,
    SessionUpdate, SessionsList, SessionsListResult, StopReason, UserInput,
};

use crate::{
    AgentHealth, Cause, Event, EventKind, SessionStatus, TurnEnd, TurnNo, TurnScope,
    config::StopSteps,
    error::UpdateError,
    mailbox::Mailbox,
    session::{Admitted, SessionShared},
};

/// A command.
#[derive(Debug)]
pub(crate) enum Command {
    Open {
        session: Arc<SessionShared>,
        chosen: bool,
        start: Option<Box<SessionStart>>,
        meta: Option<Box<Meta>>,
    },
    Send {
        session: Arc<SessionShared>,
        turn: TurnNo,
        mailbox: Mailbox,
        input: UserInput,
        meta: Option<Meta>,
        /// The span in which it was given.
        from: Span,
    },
    Steer {
        session: Arc<SessionShared>,
        input: Box<UserInput>,
        meta: Option<Meta>,
        admitted: Admitted,
        reply: Reply<(), SteerError>,
    },
    Update {
        session: Arc<SessionShared>,
        update: Box<SessionUpdate>,
        admitted: Admitted,
        reply: Reply<SessionInfo, UpdateError>,
    },
    File {
        session: Arc<SessionShared>,
        file: Box<FileInput>,
        admitted: Admitted,
    },
    /// The text of an input that is too long for a line is in a file, or could not be written.
    Placed {
        session: Arc<SessionShared>,
        turn: TurnNo,
        placed: Result<LargeMember, String>,
    },
    Stop {
        session: Arc<SessionShared>,
        turn: Option<TurnNo>,
        reason: StopReason,
    },
    Answer {
        session: Key,
        request_id: RequestId,
        serial: u64,
        answer: Answer,
    },
    /// The names of the paths of a permission were looked up.
    Names {
        session: Key,
        serial: u64,
        names: FoundNames,
    },
    /// Judges an edited input of a tool by the deny rules. The reply is empty if it may go to the
    /// adapter.
    CheckEdit {
        session: Key,
        tool: String,
        input: Json,
        names: Option<FoundNames>,
        reply: oneshot::Sender<Option<EditRejected>>,
    },
    /// Judges a lasting rule by the request that it is for. The reply is empty if it allows it.
    CheckRule {
        session: Key,
        request: Box<PermissionRequest>,
        rule: Pattern,
        names: Option<FoundNames>,
        reply: oneshot::Sender<Option<EditRejected>>,
    },
    /// The lasting rules have changed. The reply is sent when they count.
    RulesChanged(oneshot::Sender<()>),
    Pause(Arc<SessionShared>),
    Resume(Arc<SessionShared>),
    /// The reader of much unread output has caught up.
    ReadDown(Arc<SessionShared>),
    Close {
        session: Arc<SessionShared>,
        done: Option<oneshot::Sender<()>>,
    },
    /// Reports on one session, or on all.
    Status {
        of: Option<Arc<SessionShared>>,
        reply: oneshot::Sender<Vec<SessionStatus>>,
    },
    /// Reports on the link and its process.
    Health(oneshot::Sender<AgentHealth>),
    /// Asks the process for the sessions that its agent keeps. The session has agreed on `resume`.
    ListNative {
        session: Arc<SessionShared>,
        list: Box<SessionsList>,
        reply: oneshot::Sender<SessionsListResult>,
    },
    /// Starts a standby process.
    Standby,
    /// Tries a failed agent again now.
    Retry,
    /// Ends the process, or the back-off; dropped when the process has ended.
    Restart(oneshot::Sender<()>),
    /// Ends when the last session has ended. No other one comes.
    Retire,
    Shutdown {
        steps: StopSteps,
        done: Option<oneshot::Sender<()>>,
    },
}

impl Command {
    /// The link is gone: what the command would have begun ends here. A caller that waits learns it by
    /// the drop.
    pub(super) fn lose(self) {
        match self {
            Self::Open { session, .. } => session.lose(),
            Self::Send { turn, mailbox, .. } => {
                let end = Box::new(TurnEnd::unsent(turn, Cause::Shutdown, None));
                mailbox.finish_now(Event::new(TurnScope::Running(turn), EventKind::End(end)));
            }
            Self::Steer { .. }
            | Self::Update { .. }
            | Self::File { .. }
            | Self::Placed { .. }
            | Self::Stop { .. }
            | Self::Answer { .. }
            | Self::Names { .. }
            | Self::CheckEdit { .. }
            | Self::CheckRule { .. }
            | Self::RulesChanged(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::ReadDown(_)
            | Self::Close { .. }
            | Self::Status { .. }
            | Self::Health(_)
            | Self::ListNative { .. }
            | Self::Standby
            | Self::Retry
            | Self::Restart(_)
            | Self::Retire
            | Self::Shutdown { .. } => {}
        }
    }
}

/// Sender of a reply.
pub(crate) type Reply<T, E> = oneshot::Sender<Result<T, E>>;
