//! Order of messages: total tables, used by the host's core and by the SDK.
//!
//! Every table answers for every pair, so a new type or phase does not compile until it is decided.
//! Nothing here has a clock or reads a byte.

use crate::{AdapterKind, HostKind, OptionKind, PermissionOption};

/// The phase of a session on one pipe ([session.1], [session.4]).
///
/// ```text
///           session.start            session.close, session.closed
/// Unstarted ─────────────▶ Open ───────────────────────────────────▶ Closed
///                           ▲                                           │
///                           └──────────── session.start ────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionPhase {
    /// No `session.start` has named it.
    Unstarted,
    /// Open.
    Open,
    /// Closed, by either side.
    Closed,
}

impl SessionPhase {
    /// Every phase.
    pub const ALL: [Self; 3] = [Self::Unstarted, Self::Open, Self::Closed];
}

/// The effect of a message on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionRule {
    /// Opens it, afresh where it was closed ([session.5]).
    Open,
    /// Is taken.
    Accept,
    /// Ends it.
    Close,
    /// Belongs to the pipe and to no session ([msg.1]).
    Pipe,
    /// Is ignored: the session was never started ([session.5]).
    IgnoreUnknown,
    /// Is ignored: the session is closed; what was in the pipe is late ([session.4]).
    IgnoreLate,
    /// Ignored, because it is a repetition ([session.7]).
    IgnoreRepeated,
}

/// The effect of a message from the host on a session, as the adapter sees it.
#[must_use]
pub const fn from_host(phase: SessionPhase, kind: HostKind) -> SessionRule {
    use HostKind as K;
    use SessionPhase as P;
    use SessionRule as R;
    match (phase, kind) {
        (_, K::Ping | K::SessionsList | K::AgentsList) => R::Pipe,
        (P::Unstarted | P::Closed, K::SessionStart) => R::Open,
        (P::Open, K::SessionStart) => R::IgnoreRepeated,
        (P::Open, K::SessionClose) => R::Close,
        (P::Closed, K::SessionClose) => R::IgnoreRepeated,
        (
            P::Open,
            K::UserInput
            | K::FileInput
            | K::PermissionResponse
            | K::Stop
            | K::SessionUpdate
            | K::InputResponse
            | K::FlowPause
            | K::FlowResume,
        ) => R::Accept,
        (
            P::Unstarted,
            K::UserInput
            | K::FileInput
            | K::PermissionResponse
            | K::Stop
            | K::SessionClose
            | K::SessionUpdate
            | K::InputResponse
            | K::FlowPause
            | K::FlowResume,
        ) => R::IgnoreUnknown,
        (
            P::Closed,
            K::UserInput
            | K::FileInput
            | K::PermissionResponse
            | K::Stop
            | K::SessionUpdate
            | K::InputResponse
            | K::FlowPause
            | K::FlowResume,
        ) => R::IgnoreLate,
    }
}

/// The effect of a message from the adapter on a session, as the host sees it.
#[must_use]
pub const fn from_adapter(phase: SessionPhase, kind: AdapterKind) -> SessionRule {
    use AdapterKind as K;
    use SessionPhase as P;
    use SessionRule as R;
    match (phase, kind) {
        (_, K::Pong | K::SessionsListResult | K::AgentsListResult) => R::Pipe,
        (P::Open, K::SessionClosed) => R::Close,
        (
            P::Open,
            K::Output
            | K::TurnComplete
            | K::FileOutput
            | K::PermissionRequest
            | K::SessionReady
            | K::SessionInfo
            | K::SteerResult
            | K::Thinking
            | K::Message
            | K::ToolStart
            | K::ToolUpdate
            | K::ToolEnd
            | K::Plan
            | K::Progress
            | K::Log
            | K::Error
            | K::Custom
            | K::Usage
            | K::ContextUsage
            | K::Compaction
            | K::RateLimit
            | K::InputRequest
            | K::Working
            | K::PermissionCancel,
        ) => R::Accept,
        (P::Unstarted, _) => R::IgnoreUnknown,
        (P::Closed, _) => R::IgnoreLate,
    }
}

/// The phase of a turn ([turn.1] to [turn.9]).
///
/// ```text
///         Begin            Stop              
/// Queued ───────▶ Running ──────▶ Stopping   Complete or Abort, from any of them
///    │               │               │    ────────────────────────────────────▶ Ended
///    └── Stop ───────┴───────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnPhase {
    /// Its input waits for the turns before it.
    Queued,
    /// Its input is being served.
    Running,
    /// Asked to stop, and not ended.
    Stopping,
    /// Ended, once.
    Ended,
}

/// A step of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnStep {
    /// Its input is written, or begins to be served.
    Begin,
    /// The adapter sends something of it.
    Emit,
    /// A stop is requested.
    Stop,
    /// End of a turn by its `turn.complete`.
    Complete,
    /// Something else ends it: a deadline, the session's or the process's end.
    Abort,
}

/// A step that is not legal in a phase. The turn stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Illegal {
    /// The phase of the turn.
    pub phase: TurnPhase,
    /// The step.
    pub step: TurnStep,
}

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} does not happen to a turn that is {:?}",
            self.step, self.phase
        )
    }
}

impl std::error::Error for Illegal {}

impl TurnPhase {
    /// Every phase.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Running, Self::Stopping, Self::Ended];

    /// Returns the phase after a step.
    ///
    /// A queued turn that is stopped ends at once ([turn.9], [turn.11]). A second stop changes
    /// nothing ([turn.5]).
    ///
    /// # Errors
    /// [`Illegal`], which the caller counts: an end for no turn, a message of a turn that has ended (late).
    pub const fn after(self, step: TurnStep) -> Result<Self, Illegal> {
        use TurnStep as S;
        match (self, step) {
            (Self::Queued, S::Begin) => Ok(Self::Running),
            (Self::Queued, S::Stop | S::Abort) => Ok(Self::Ended),
            (Self::Running, S::Emit) => Ok(Self::Running),
            (Self::Running, S::Stop) => Ok(Self::Stopping),
            (Self::Running | Self::Stopping, S::Complete | S::Abort) => Ok(Self::Ended),
            (Self::Stopping, S::Emit | S::Stop) => Ok(Self::Stopping),
            (Self::Ended, S::Stop) => Ok(Self::Ended),
            (Self::Queued, S::Emit | S::Complete)
            | (Self::Running | Self::Stopping, S::Begin)
            | (Self::Ended, S::Begin | S::Emit | S::Complete | S::Abort) => {
                Err(Illegal { phase: self, step })
            }
        }
    }
}

impl TurnStep {
    /// Every step.
    pub const ALL: [Self; 5] = [
        Self::Begin,
        Self::Emit,
        Self::Stop,
        Self::Complete,
        Self::Abort,
    ];
}

/// The phase of a permission request or a question ([permission.2] to [permission.4]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestPhase {
    /// Never sent, or settled.
    Settled,
    /// Waits for its answer.
    Pending,
}

/// A step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestStep {
    /// The adapter asks.
    Ask,
    /// The host answers.
    Answer,
    /// The adapter withdraws it.
    Withdraw,
    /// A stop, an end, a deadline or the lack of a reader settles it as denied.
    Deny,
}

/// The effect of a step on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestRule {
    /// Pending from now on.
    Open,
    /// Settled from now on.
    Settle,
    /// The request is bad: its id is pending already; the first one remains ([permission.4]).
    Reject,
    /// Late, or never asked for; ignored ([permission.4]).
    Ignore,
}

/// The effect of a step on a request. After settlement an id may be used again ([permission.4]).
#[must_use]
pub const fn request(phase: RequestPhase, step: RequestStep) -> RequestRule {
    use RequestPhase as P;
    use RequestRule as R;
    use RequestStep as S;
    match (phase, step) {
        (P::Settled, S::Ask) => R::Open,
        (P::Pending, S::Ask) => R::Reject,
        (P::Pending, S::Answer | S::Withdraw | S::Deny) => R::Settle,
        (P::Settled, S::Answer | S::Withdraw | S::Deny) => R::Ignore,
    }
}

/// Returns true if an answer to a permission request approves, given the options that were offered.
///
/// It does if it has `approved` and any chosen option was offered and is not of a reject kind. An
/// option without a known kind decides nothing ([ext.5]).
#[must_use]
pub fn approves(approved: bool, option_id: Option<&str>, offered: &[PermissionOption]) -> bool {
    let allows = |chosen: &str| {
        let option = offered.iter().find(|option| option.id == chosen);
        option.is_some_and(|option| option.kind.is_none_or(OptionKind::allows))
    };
    approved && option_id.is_none_or(allows)
}
