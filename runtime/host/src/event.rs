//! What a session tells its user.

use std::{fmt, path::PathBuf, time::Duration};

use trunkline_protocol::{
    AdapterBody, Category, ClosedReason, Compaction, ContextUsage, Custom, Delivered, ErrorEvent, Failure,
    Json, Log, Message, Meta, Output, Plan, Progress, RateLimit, RequestId, SessionInfo, Status, StopReason,
    Thinking, ToolEnd, ToolStart, ToolUpdate, TurnComplete, Usage,
};

use crate::request::{Permission, Question};

/// Numbers the turns of one session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnNo(pub(crate) u64);

impl TurnNo {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TurnNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// Which turn an event belongs to ([turn.6], [turn.9]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// This turn, which is running.
    Turn(TurnNo),
    /// No turn: a greeting, background work, news of the session.
    Outside,
    /// This turn, which has ended already.
    Late(TurnNo),
}

/// One thing that happened in a session. Serialised, it is the message that tells of it on the wire.
#[derive(Debug)]
pub struct Event {
    /// Where it belongs.
    pub place: Place,
    /// What happened.
    pub kind: EventKind,
    /// What the adapter attached; passes through untouched ([ext.4]).
    pub meta: Option<Box<Meta>>,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A piece of the answer.
    Output(Output),
    /// A piece of what the model thinks.
    Thinking(Thinking),
    /// A whole message of the conversation.
    Message(Message),
    /// A tool call begins.
    ToolStart(Box<ToolStart>),
    /// A tool call goes on.
    ToolUpdate(Box<ToolUpdate>),
    /// A tool call has ended; each start has one end, made by the host where the adapter left it out.
    ToolEnd(Box<ToolEnd>),
    /// The plan, whole.
    Plan(Plan),
    /// A line on how the work goes.
    Progress(Progress),
    /// A line for a log.
    Log(Log),
    /// Something went wrong; it ends nothing by itself. A refused file and a bad line come so, too.
    Error(ErrorEvent),
    /// Anything else that the agent tells.
    Custom(Custom),
    /// Tokens and cost.
    Usage(Box<Usage>),
    /// How full the context is.
    ContextUsage(ContextUsage),
    /// The context was shortened.
    Compaction(Compaction),
    /// How much of a limit is used.
    RateLimit(RateLimit),
    /// What is learnt of the session: its native id, model, modes; `context: lost` after a restart ([process.5]).
    Info(Box<SessionInfo>),
    /// Alive; quiet work goes on.
    Working,
    /// A file for the user, copied into the host's own store ([file.7]).
    File(File),
    /// The agent asks whether it may do something. Dropped unanswered, it is denied.
    Permission(Permission),
    /// The agent asks the user. Dropped unanswered, it is cancelled.
    Question(Question),
    /// A permission or a question has been settled without the user.
    Withdrawn {
        /// The request.
        request_id: RequestId,
        /// Why.
        reason: StopReason,
    },
    /// The turn has ended; the last event of a turn.
    End(Box<TurnEnd>),
    /// The session has ended; the last event of a session.
    Closed(Box<SessionEnd>),
}

/// A file that an adapter gave to the user.
#[derive(Debug, Clone)]
pub struct File {
    /// A label, never a path.
    pub name: String,
    /// The MIME type.
    pub mime_type: String,
    /// The host's copy, read-only. It stands until the session's last handle is dropped.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// The one end of a turn ([turn.7]).
#[derive(Debug, Clone)]
pub struct TurnEnd {
    /// Which turn.
    pub turn: TurnNo,
    /// What ended it.
    pub cause: Cause,
    /// How it ended.
    pub status: Status,
    /// What the adapter said of it; nothing where the host made the end, or the adapter said no more than that it came.
    pub complete: Option<Box<TurnComplete>>,
    /// What went wrong, where something did.
    pub error: Option<Failure>,
    /// Whether the input reached the agent ([process.4]).
    pub delivered: Delivered,
    /// How the adapter's process ended, where that ended the turn.
    pub exit: Option<ExitStatus>,
    /// The last of the process's stderr, where its end ended the turn.
    pub stderr_tail: Option<String>,
    /// From the input's write to the end; zero where it was not written.
    pub took: Duration,
}

impl TurnEnd {
    /// Whether the turn did what it was to do.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.status == Status::Completed
    }
}

/// What ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Its `turn.complete` came.
    Complete,
    /// It was stopped before its input was written ([turn.11]).
    StoppedUnsent,
    /// The adapter's process ended.
    ProcessExit,
    /// The adapter's stdout ended while the process lived.
    EndOfStream,
    /// `start_timeout` passed before the process said anything.
    StartTimeout,
    /// The process could not be started, or failed too often.
    StartFailed,
    /// `turn_timeout` passed.
    TurnTimeout,
    /// `inactivity_timeout` passed.
    Inactivity,
    /// A stop was not answered within `stop_timeout` ([turn.8]).
    StopUnanswered,
    /// The adapter ended the session ([session.8]).
    SessionClosed,
    /// The user closed the session.
    Closed,
    /// The host shuts down.
    Shutdown,
    /// Its `turn.complete` was longer than a line may be.
    Oversize,
    /// `max_turn_output` or the spool's limit was reached.
    Limit,
    /// An option that must be enforced is not ([ext.7]).
    Refused,
}

impl Cause {
    /// The cause as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::StoppedUnsent => "stopped_unsent",
            Self::ProcessExit => "process_exit",
            Self::EndOfStream => "end_of_stream",
            Self::StartTimeout => "start_timeout",
            Self::StartFailed => "start_failed",
            Self::TurnTimeout => "turn_timeout",
            Self::Inactivity => "inactivity_timeout",
            Self::StopUnanswered => "stop_unanswered",
            Self::SessionClosed => "session_closed",
            Self::Closed => "closed",
            Self::Shutdown => "shutdown",
            Self::Oversize => "oversize",
            Self::Limit => "limit",
            Self::Refused => "refused",
        }
    }

    /// The error category that tells it on the wire ([ext.6]), where it is a failure.
    #[must_use]
    pub const fn category(self) -> Option<Category> {
        match self {
            Self::Complete | Self::StoppedUnsent | Self::Closed | Self::Shutdown => None,
            Self::ProcessExit | Self::EndOfStream | Self::SessionClosed => Some(Category::ProcessExit),
            Self::StartTimeout | Self::TurnTimeout | Self::Inactivity => Some(Category::Timeout),
            Self::StartFailed => Some(Category::NotInstalled),
            Self::StopUnanswered => Some(Category::StopUnanswered),
            Self::Oversize | Self::Limit => Some(Category::Oversize),
            Self::Refused => Some(Category::Protocol),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a process ended: by itself with a code, or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExitStatus {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (_, Some(signal)) => write!(f, "killed by signal {signal}"),
            (Some(code), None) => write!(f, "exit status {code}"),
            (None, None) => f.write_str("an unknown exit status"),
        }
    }
}

/// Why a session has ended.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// Why, in the words of `session.closed`.
    pub reason: ClosedReason,
    /// What went wrong, where something did.
    pub error: Option<Failure>,
}

impl EventKind {
    /// The event that a message of the adapter is, where it is one by itself.
    pub(crate) fn from_body(body: AdapterBody) -> Option<Self> {
        Some(match body {
            AdapterBody::Output(output) => Self::Output(output),
            AdapterBody::Thinking(thinking) => Self::Thinking(thinking),
            AdapterBody::Message(message) => Self::Message(message),
            AdapterBody::ToolStart(start) => Self::ToolStart(start),
            AdapterBody::ToolUpdate(update) => Self::ToolUpdate(update),
            AdapterBody::ToolEnd(end) => Self::ToolEnd(end),
            AdapterBody::Plan(plan) => Self::Plan(plan),
            AdapterBody::Progress(progress) => Self::Progress(progress),
            AdapterBody::Log(log) => Self::Log(log),
            AdapterBody::Error(error) => Self::Error(error),
            AdapterBody::Custom(custom) => Self::Custom(custom),
            AdapterBody::Usage(usage) => Self::Usage(usage),
            AdapterBody::ContextUsage(usage) => Self::ContextUsage(usage),
            AdapterBody::Compaction(compaction) => Self::Compaction(compaction),
            AdapterBody::RateLimit(limit) => Self::RateLimit(limit),
            AdapterBody::SessionInfo(info) => Self::Info(info),
            AdapterBody::SessionReady(ready) => Self::Info(Box::new(ready.info)),
            AdapterBody::Working(_) => Self::Working,
            AdapterBody::TurnComplete(_)
            | AdapterBody::FileOutput(_)
            | AdapterBody::PermissionRequest(_)
            | AdapterBody::PermissionCancel(_)
            | AdapterBody::InputRequest(_)
            | AdapterBody::SteerResult(_)
            | AdapterBody::SessionClosed(_)
            | AdapterBody::SessionsListResult(_)
            | AdapterBody::AgentsListResult(_)
            | AdapterBody::Pong(_) => return None,
        })
    }

    /// The message that this event is on the wire, where it is plain data that can wait on disk.
    pub(crate) fn into_body(self) -> Result<AdapterBody, Self> {
        Ok(match self {
            Self::Output(output) => output.into(),
            Self::Thinking(thinking) => thinking.into(),
            Self::Message(message) => message.into(),
            Self::ToolStart(start) => start.into(),
            Self::ToolUpdate(update) => update.into(),
            Self::ToolEnd(end) => end.into(),
            Self::Plan(plan) => plan.into(),
            Self::Progress(progress) => progress.into(),
            Self::Log(log) => log.into(),
            Self::Error(error) => error.into(),
            Self::Custom(custom) => custom.into(),
            Self::Usage(usage) => usage.into(),
            Self::ContextUsage(usage) => usage.into(),
            Self::Compaction(compaction) => compaction.into(),
            Self::RateLimit(limit) => limit.into(),
            Self::Info(info) => info.into(),
            Self::Working => trunkline_protocol::Working::default().into(),
            other @ (Self::File(_)
            | Self::Permission(_)
            | Self::Question(_)
            | Self::Withdrawn { .. }
            | Self::End(_)
            | Self::Closed(_)) => return Err(other),
        })
    }

    /// About how many bytes of memory it holds besides itself.
    pub(crate) fn weight(&self) -> usize {
        const SMALL: usize = 64;
        match self {
            Self::Output(output) => {
                let channel = output.channel.as_ref().map_or(0, |channel| channel.as_str().len());
                output.content.len() + channel
            }
            Self::Thinking(thinking) => thinking.content.len(),
            Self::Message(message) => message.role.len() + message.content.len(),
            Self::ToolStart(start) => {
                let texts = [&start.kind, &start.title];
                SMALL + start.tool.len() + of_texts(texts) + of_json([&start.input, &start.locations])
            }
            Self::ToolUpdate(update) => {
                let texts = [&update.content, &update.stream, &update.title];
                SMALL + of_texts(texts) + of_json([&update.input, &update.data])
            }
            Self::ToolEnd(end) => {
                let diffs = end.diffs.iter().flatten();
                SMALL
                    + of_texts([&end.content])
                    + of_json([&end.data])
                    + diffs
                        .map(|diff| {
                            SMALL + diff.path.len() + of_texts([&diff.old_text, &diff.new_text, &diff.patch])
                        })
                        .sum::<usize>()
            }
            Self::Plan(plan) => {
                let entries = plan.entries.iter();
                entries.map(|entry| SMALL + entry.content.len() + of_texts([&entry.priority])).sum()
            }
            Self::Log(log) => log.content.len(),
            Self::Progress(progress) => progress.message.len(),
            Self::Error(error) => error.message.len(),
            Self::Custom(custom) => custom.name.len() + of_json([&custom.data]),
            Self::Usage(usage) => {
                let models = usage.models.iter().flatten();
                let models = models.map(|(name, of)| 2 * SMALL + name.len() + of_texts([&of.provider]));
                SMALL + of_texts([&usage.model, &usage.provider]) + models.sum::<usize>()
            }
            Self::RateLimit(limit) => SMALL + of_texts([&limit.window, &limit.status, &limit.resets_at]),
            Self::Permission(permission) => SMALL + json_bytes(permission.request()),
            Self::Question(question) => SMALL + json_bytes(question.request()),
            Self::Info(info) => SMALL + json_bytes(info),
            Self::File(file) => SMALL + file.name.len() + file.mime_type.len(),
            Self::ContextUsage(_)
            | Self::Compaction(_)
            | Self::Working
            | Self::Withdrawn { .. }
            | Self::End(_)
            | Self::Closed(_) => SMALL,
        }
    }
}

fn of_texts<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}

fn of_json<const N: usize>(values: [&Option<Json>; N]) -> usize {
    values.into_iter().flatten().map(|value| value.get().len()).sum()
}

/// How many bytes a value is as JSON: what is rare and has many members is weighed so.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Neither the counter nor a message fails; what was counted until then would be good enough.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
