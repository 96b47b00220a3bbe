//! The two directions: which types there are, what each is called, which extension brings it.

use super::{
    AgentsList, AgentsListResult, Compaction, ContextUsage, Custom, ErrorEvent, FileDelivered,
    FileInput, FileOutput, FlowPause, FlowResume, HostFact, InputRequest, InputResponse,
    InputResult, InputSteered, Lag, Log, Message, Output, PermissionCancel, PermissionRequest,
    PermissionResponse, Ping, Plan, Pong, Progress, RateLimit, RequestDecided, SessionAttach,
    SessionAttached, SessionClose, SessionClosed, SessionDetach, SessionEdit, SessionEditResult,
    SessionEdited, SessionFork, SessionHistory, SessionHistoryResult, SessionInfo, SessionReady,
    SessionRefused, SessionStart, SessionUpdate, SessionsList, SessionsListResult, SteerResult,
    Stop, StopRequested, Thinking, ToolEnd, ToolStart, ToolUpdate, TurnBegin, TurnComplete, Usage,
    UserInput, Working,
};
use crate::{
    Channel, Extensions,
    envelope::direction::Direction,
    escape,
    field::{Fault, Fields, Object},
    head::Head,
};

macro_rules! direction {
    (
        $(#[$kind_doc:meta])* kind $Kind:ident;
        $(#[$body_doc:meta])* body $Body:ident {
            $( $(#[$doc:meta])* $Variant:ident($Type:ty) = $wire:literal, $extension:ident; )*
        }
    ) => {
        $(#[$kind_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Kind {
            $( $(#[$doc])* $Variant, )*
        }

        impl $Kind {
            /// Every type of this direction.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),*];

            /// The type that is written so. `None` for an unknown one.
            #[inline]
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name { $( $wire => Some(Self::$Variant), )* _ => None }
            }

            /// The type as it is written on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$Variant => $wire ),* }
            }

            /// The extensions that bring this type, any of which is enough; the empty set for the core.
            #[inline]
            #[must_use]
            pub const fn extensions(self) -> Extensions {
                match self { $( Self::$Variant => direction!(@ext $extension) ),* }
            }

            /// Returns true if it may be sent to a peer that agreed on these extensions ([ext.1], [ext.2]).
            #[inline]
            #[must_use]
            pub const fn is_agreed(self, agreed: Extensions) -> bool {
                self.extensions().is_empty() || self.extensions().intersects(agreed)
            }
        }

        $(#[$body_doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $Body {
            $( $(#[$doc])* $Variant($Type), )*
        }

        impl $Body {
            /// The type of the message.
            #[inline]
            #[must_use]
            pub const fn kind(&self) -> $Kind {
                match self { $( Self::$Variant(_) => $Kind::$Variant ),* }
            }
        }

        impl Direction for $Body {
            type Kind = $Kind;

            fn type_name(&self) -> &'static str {
                self.kind().as_str()
            }

            fn write_members(&self, out: &mut Vec<u8>) {
                if let Some((content, channel)) = self.text_alone() {
                    out.extend_from_slice(b"{\"content\":");
                    escape::write_str(out, content);
                    if let Some(channel) = channel {
                        out.extend_from_slice(b",\"channel\":");
                        escape::write_str(out, channel.as_str());
                    }
                    out.push(b'}');
                    return;
                }
                match self { $( Self::$Variant(body) => escape::write_value(out, body) ),* }
            }

            fn named(name: &str) -> Option<$Kind> {
                $Kind::named(name)
            }

            fn name_of(kind: $Kind) -> &'static str {
                kind.as_str()
            }

            fn fields(kind: $Kind) -> &'static [&'static str] {
                match kind { $( $Kind::$Variant => <$Type as Object>::FIELDS ),* }
            }

            fn is_of_pipe(kind: $Kind) -> bool {
                kind.is_of_pipe()
            }

            #[cfg(feature = "schema")]
            fn schema(kind: $Kind, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use schemars::JsonSchema;
                match kind { $( $Kind::$Variant => <$Type>::json_schema(generator) ),* }
            }

            fn from_head(kind: $Kind, head: &mut Head<'_>) -> Option<Self> {
                Self::plain(kind, head)
            }

            fn read(kind: $Kind, fields: &Fields<'_>) -> Result<Self, Fault> {
                Ok(match kind { $( $Kind::$Variant => Self::$Variant(<$Type as Object>::read(fields)?) ),* })
            }
        }

        $( impl From<$Type> for $Body {
            fn from(body: $Type) -> Self {
                Self::$Variant(body)
            }
        } )*
    };
    (@ext CORE) => { Extensions::empty() };
    (@ext ANY) => { Extensions::all() };
    (@ext $extension:ident) => { Extensions::$extension };
}

direction! {
    /// The types of messages from the host to the adapter.
    kind HostKind;
    /// A message from the host to the adapter, without its ids.
    body HostBody {
        /// Opens a session.
        SessionStart(Box<SessionStart>) = "session.start", CORE;
        /// Text of the user.
        UserInput(UserInput) = "user.input", CORE;
        /// Announces a file.
        FileInput(FileInput) = "file.input", CORE;
        /// Answers a permission request.
        PermissionResponse(PermissionResponse) = "permission.response", CORE;
        /// Ends the running turn.
        Stop(Stop) = "stop", CORE;
        /// Ends the session.
        SessionClose(SessionClose) = "session.close", CORE;
        /// Changes options of the session.
        SessionUpdate(Box<SessionUpdate>) = "session.update", OPTIONS;
        /// Answers a question.
        InputResponse(InputResponse) = "input.response", QUESTIONS;
        /// Holds back the session's messages.
        FlowPause(FlowPause) = "flow.pause", FLOW;
        /// Lets them go.
        FlowResume(FlowResume) = "flow.resume", FLOW;
        /// Asks for a sign of life.
        Ping(Ping) = "ping", CONTROL;
        /// Asks for sessions that can be resumed.
        SessionsList(SessionsList) = "sessions.list", RESUME;
        /// Asks a relay for its agents.
        AgentsList(AgentsList) = "agents.list", ANY;
    }
}

direction! {
    /// The types of messages from the adapter to the host.
    kind AdapterKind;
    /// A message from the adapter to the host, without its ids.
    body AdapterBody {
        /// A piece of the answer.
        Output(Output) = "output", CORE;
        /// Ends a turn.
        TurnComplete(Box<TurnComplete>) = "turn.complete", CORE;
        /// A file for the user.
        FileOutput(FileOutput) = "file.output", CORE;
        /// Asks whether an action may happen.
        PermissionRequest(Box<PermissionRequest>) = "permission.request", CORE;
        /// The adapter's first message of a session.
        SessionReady(Box<SessionReady>) = "session.ready", ANY;
        /// Information that becomes known later.
        SessionInfo(Box<SessionInfo>) = "session.info", ANY;
        /// Says whether a steer reached the turn.
        SteerResult(SteerResult) = "steer.result", TURNS;
        /// A piece of what the model thinks.
        Thinking(Thinking) = "thinking", EVENTS;
        /// A whole message of the conversation.
        Message(Message) = "message", EVENTS;
        /// A tool call begins.
        ToolStart(Box<ToolStart>) = "tool.start", EVENTS;
        /// A tool call continues.
        ToolUpdate(Box<ToolUpdate>) = "tool.update", EVENTS;
        /// A tool call has ended.
        ToolEnd(Box<ToolEnd>) = "tool.end", EVENTS;
        /// The plan.
        Plan(Plan) = "plan", EVENTS;
        /// A line on how the work goes.
        Progress(Progress) = "progress", EVENTS;
        /// A line for a log.
        Log(Log) = "log", EVENTS;
        /// Something went wrong.
        Error(ErrorEvent) = "error", EVENTS;
        /// Anything else.
        Custom(Custom) = "custom", EVENTS;
        /// Tokens and cost.
        Usage(Box<Usage>) = "usage", USAGE;
        /// Fill level of the context.
        ContextUsage(ContextUsage) = "context.usage", USAGE;
        /// The context was shortened.
        Compaction(Compaction) = "compaction", USAGE;
        /// Used part of a limit.
        RateLimit(RateLimit) = "rate_limit", USAGE;
        /// The answer to `sessions.list`.
        SessionsListResult(SessionsListResult) = "sessions.list.result", RESUME;
        /// Asks the user.
        InputRequest(Box<InputRequest>) = "input.request", QUESTIONS;
        /// Alive; quiet work continues.
        Working(Working) = "working", CONTROL;
        /// The answer to `ping`.
        Pong(Pong) = "pong", CONTROL;
        /// The adapter ends the session.
        SessionClosed(Box<SessionClosed>) = "session.closed", CONTROL;
        /// Withdraws a request.
        PermissionCancel(PermissionCancel) = "permission.cancel", CONTROL;
        /// The answer to `agents.list`.
        AgentsListResult(AgentsListResult) = "agents.list.result", ANY;
    }
}

direction! {
    /// The types of messages from a hub to a relay that keeps a journal, beside [`HostKind`] ([journal.1]).
    kind HubKind;
    /// A message from a hub to a relay that keeps a journal, without its ids.
    body HubBody {
        /// Opens a session of the journal.
        SessionAttach(SessionAttach) = "session.attach", ANY;
        /// Leaves it.
        SessionDetach(SessionDetach) = "session.detach", ANY;
        /// Asks for entries.
        SessionHistory(SessionHistory) = "session.history", ANY;
        /// Changes the title of a session, or archives it.
        SessionEdit(SessionEdit) = "session.edit", ANY;
        /// Opens a session as a copy of another.
        SessionFork(Box<SessionFork>) = "session.fork", ANY;
    }
}

direction! {
    /// The types of messages from a relay that keeps a journal to its hub, beside [`AdapterKind`]
    /// ([journal.1]).
    kind RelayKind;
    /// A message from a relay that keeps a journal to its hub, without its ids.
    body RelayBody {
        /// The answer to `session.attach`.
        SessionAttached(Box<SessionAttached>) = "session.attached", ANY;
        /// The session was not attached, opened or forked.
        SessionRefused(SessionRefused) = "session.refused", ANY;
        /// The answer to an input.
        InputResult(InputResult) = "input.result", ANY;
        /// The answer to `session.history`.
        SessionHistoryResult(SessionHistoryResult) = "session.history.result", ANY;
        /// The answer to `session.edit`.
        SessionEditResult(SessionEditResult) = "session.edit.result", ANY;
        /// Entries that this hub does not get.
        Lag(Lag) = "lag", ANY;
        /// Something happened to the session.
        HostFact(HostFact) = "host.fact", ANY;
        /// The title was changed, or the session was archived.
        SessionEdited(SessionEdited) = "session.edited", ANY;
        /// An input was accepted.
        TurnBegin(TurnBegin) = "turn.begin", ANY;
        /// An input was accepted for the running turn.
        InputSteered(InputSteered) = "input.steered", ANY;
        /// A file was handed to the agent.
        FileDelivered(FileDelivered) = "file.delivered", ANY;
        /// A request is settled.
        RequestDecided(RequestDecided) = "request.decided", ANY;
        /// A stop of a turn was requested.
        StopRequested(StopRequested) = "stop.requested", ANY;
    }
}

/// Says that a direction has no message of the pipe, and none that is read or written in a way of its own.
macro_rules! of_sessions {
    ($($Kind:ident $Body:ident;)*) => {$(
        impl $Kind {
            /// Returns true if it belongs to the pipe rather than to a session. None does.
            #[inline]
            #[must_use]
            pub const fn is_of_pipe(self) -> bool {
                false
            }
        }

        impl $Body {
            fn text_alone(&self) -> Option<(&str, Option<&Channel>)> {
                None
            }

            fn plain(_: $Kind, _: &mut Head<'_>) -> Option<Self> {
                None
            }
        }
    )*};
}

of_sessions! {
    HubKind HubBody;
    RelayKind RelayBody;
}

impl HostKind {
    /// Returns true if it belongs to the pipe rather than to a session: its `session_id` is empty ([msg.1]).
    #[inline]
    #[must_use]
    pub const fn is_of_pipe(self) -> bool {
        matches!(self, Self::Ping | Self::SessionsList | Self::AgentsList)
    }
}

impl AdapterKind {
    /// Returns true if it belongs to the pipe rather than to a session: its `session_id` is empty ([msg.1]).
    #[inline]
    #[must_use]
    pub const fn is_of_pipe(self) -> bool {
        matches!(
            self,
            Self::Pong | Self::SessionsListResult | Self::AgentsListResult
        )
    }
}

impl HostBody {
    /// The text of a message that has nothing else: the many and the long ones are written the fast way.
    fn text_alone(&self) -> Option<(&str, Option<&Channel>)> {
        match self {
            Self::UserInput(UserInput {
                content,
                message_id: None,
                mode: None,
                limits: None,
            }) => Some((content, None)),
            _ => None,
        }
    }

    /// The body of a message that has nothing but what every reader reads first.
    fn plain(kind: HostKind, head: &mut Head<'_>) -> Option<Self> {
        match (kind, head.take_content()) {
            (HostKind::UserInput, content) => Some(Self::UserInput(UserInput::text(
                content.unwrap_or_default(),
            ))),
            (HostKind::Stop, _) => Some(Self::Stop(Stop::default())),
            (HostKind::SessionStart, _) => Some(Self::SessionStart(Box::default())),
            (HostKind::SessionClose, _) => Some(Self::SessionClose(SessionClose::default())),
            _ => None,
        }
    }
}

impl AdapterBody {
    /// Returns true for a replayed message, which belongs to no turn ([ext.5]).
    #[must_use]
    pub fn is_history(&self) -> bool {
        let history = match self {
            Self::Output(output) => output.history,
            Self::Thinking(thinking) => thinking.history,
            Self::Message(message) => message.history,
            Self::ToolStart(start) => start.history,
            Self::ToolUpdate(update) => update.history,
            Self::ToolEnd(end) => end.history,
            Self::Plan(plan) => plan.history,
            Self::PermissionRequest(request) => request.history,
            Self::Progress(progress) => progress.history,
            Self::Log(log) => log.history,
            Self::Error(error) => error.history,
            Self::Custom(custom) => custom.history,
            _ => None,
        };
        history == Some(true)
    }

    /// The text of a message that has nothing else: the many and the long ones are written the fast way.
    fn text_alone(&self) -> Option<(&str, Option<&Channel>)> {
        match self {
            Self::Output(Output {
                content,
                channel,
                message_id: None,
                parent_tool_call_id: None,
                history: None,
            }) => Some((content, channel.as_ref())),
            _ => None,
        }
    }

    /// The body of a message that has nothing but what every reader reads first.
    fn plain(kind: AdapterKind, head: &mut Head<'_>) -> Option<Self> {
        match kind {
            AdapterKind::Output => {
                let channel = head.channel.as_deref().map(Channel::named);
                Some(Self::Output(Output {
                    content: head.take_content()?,
                    channel,
                    ..Output::default()
                }))
            }
            AdapterKind::TurnComplete => Some(Self::TurnComplete(Box::default())),
            _ => None,
        }
    }
}

macro_rules! boxed {
    ($($Body:ident: $($Type:ident),*;)*) => {$($(
        impl From<$Type> for $Body {
            fn from(body: $Type) -> Self {
                Self::$Type(Box::new(body))
            }
        }
    )*)*};
}

boxed! {
    HostBody: SessionStart, SessionUpdate;
    AdapterBody: TurnComplete, PermissionRequest, SessionReady, SessionInfo, ToolStart, ToolUpdate, ToolEnd, Usage,
        InputRequest, SessionClosed;
    HubBody: SessionFork;
    RelayBody: SessionAttached;
}
