//! The events of a session.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use trunkline_core::{SessionEnd, TurnEnd, TurnScope};
use trunkline_protocol::{
    AdapterBody, Compaction, ContextUsage, Custom, ErrorEvent, FileOutput, Json, Log, Message,
    Meta, Output, PermissionCancel, Plan, Progress, RateLimit, RequestId, SessionInfo, Sha256,
    StopReason, Thinking, ToolEnd, ToolStart, ToolUpdate, Usage, filled, json_len,
};

use crate::request::{Permission, Question};

/// An event of a session. Serialised, it is the message that reports it on the wire. That message has no
/// `time`: only entries of a journal have one there.
#[derive(Debug)]
pub struct Event {
    /// The turn that it belongs to.
    pub scope: TurnScope,
    /// The kind of the event, with its data.
    pub kind: EventKind,
    /// Data that the adapter attached; passes through untouched ([ext.4]).
    pub meta: Option<Box<Meta>>,
    /// The wall-clock time at which the host received the message or made the event. It steps back
    /// when the clock does, so it does not order events.
    pub time: SystemTime,
}

/// The kind of the event, with its data.
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
    /// A tool call continues.
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
    /// Anything else that the agent reports.
    Custom(Custom),
    /// Tokens and cost.
    Usage(Box<Usage>),
    /// Fill level of the context.
    ContextUsage(ContextUsage),
    /// The context was shortened.
    Compaction(Compaction),
    /// Used part of a limit.
    RateLimit(RateLimit),
    /// New information about the session: its native id, model, modes; `context: lost` after a
    /// restart ([process.5]).
    Info(Box<SessionInfo>),
    /// Alive; quiet work continues.
    Working,
    /// The turn runs without any message: a note from the host, once for each silence of
    /// `stall_after`. Nothing is stopped.
    Stalled {
        /// Duration of the silence.
        silent_for: Duration,
        /// The time to the first deadline that ends the turn. `None` if it has none.
        deadline_in: Option<Duration>,
    },
    /// A file for the user, copied into the host's own store ([file.7]).
    File(Box<File>),
    /// The agent asks whether it may do something. Dropped unanswered, it is denied.
    Permission(Permission),
    /// The agent asks the user. Dropped unanswered, it is cancelled.
    Question(Question),
    /// A permission or a question has been settled without the user.
    Withdrawn {
        /// The request.
        request_id: RequestId,
        /// Reason.
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
    /// The host's copy, read-only. It exists until the session's last handle is dropped.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub sha256: Sha256,
}

/// The `file.output` that announces the host's copy.
impl From<File> for FileOutput {
    fn from(file: File) -> Self {
        let path = file.path.into_os_string().into_string();
        Self {
            file_name: Some(file.name),
            file_mime_type: Some(file.mime_type),
            file_path: path.unwrap_or_else(|path| path.to_string_lossy().into_owned()),
            size: Some(file.size),
            sha256: Some(file.sha256),
        }
    }
}

impl Event {
    /// Creates an event that happens now, without `meta`.
    #[must_use]
    pub fn new(scope: TurnScope, kind: EventKind) -> Self {
        Self {
            scope,
            kind,
            meta: None,
            time: SystemTime::now(),
        }
    }

    /// Returns the event with these members, by name and JSON, in the place of its own, and the
    /// error of the first that has another type.
    pub(crate) fn filled(self, members: &[(String, String)]) -> (Self, Option<String>) {
        let Self {
            scope,
            kind,
            meta,
            time,
        } = self;
        let (kind, bad) = match kind {
            EventKind::End(mut end) => {
                let body = AdapterBody::TurnComplete(end.complete.take().unwrap_or_default());
                match filled(&body, members) {
                    Ok(AdapterBody::TurnComplete(complete)) => {
                        end.complete = Some(complete);
                        (EventKind::End(end), None)
                    }
                    Ok(_) => (EventKind::End(end), None),
                    Err(why) => {
                        if let AdapterBody::TurnComplete(complete) = body {
                            end.complete = Some(complete);
                        }
                        (EventKind::End(end), Some(why.to_string()))
                    }
                }
            }
            kind => match kind.into_body() {
                Ok(body) => {
                    let (body, bad) = match filled(&body, members) {
                        Ok(whole) => (whole, None),
                        Err(why) => (body, Some(why.to_string())),
                    };
                    (
                        EventKind::from_body(body).unwrap_or(EventKind::Working),
                        bad,
                    )
                }
                Err(kind) => (kind, None),
            },
        };
        let event = Self {
            scope,
            kind,
            meta,
            time,
        };
        (event, bad)
    }
}

impl EventKind {
    /// Converts a message of the adapter to an event, if it is one by itself: a file, a request and
    /// an end are not.
    #[must_use]
    pub fn from_body(body: AdapterBody) -> Option<Self> {
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
            AdapterBody::Working(_) => Self::Working,
            AdapterBody::PermissionCancel(PermissionCancel { request_id, reason }) => {
                Self::Withdrawn {
                    request_id,
                    reason: reason.unwrap_or(StopReason::Stopped),
                }
            }
            AdapterBody::SessionReady(_)
            | AdapterBody::TurnComplete(_)
            | AdapterBody::FileOutput(_)
            | AdapterBody::PermissionRequest(_)
            | AdapterBody::InputRequest(_)
            | AdapterBody::SteerResult(_)
            | AdapterBody::SessionClosed(_)
            | AdapterBody::SessionsListResult(_)
            | AdapterBody::AgentsListResult(_)
            | AdapterBody::Pong(_) => return None,
        })
    }

    /// The message that this event is on the wire, if it is plain data.
    ///
    /// # Errors
    /// The event itself, if it is a stall, a file, an end, or a request or its withdrawal: there
    /// the host has a part in it.
    pub fn into_body(self) -> Result<AdapterBody, Self> {
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
            other @ (Self::Stalled { .. }
            | Self::File(_)
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
                let channel = output
                    .channel
                    .as_ref()
                    .map_or(0, |channel| channel.as_str().len());
                output.content.len() + channel
            }
            Self::Thinking(thinking) => thinking.content.len(),
            Self::Message(message) => message.role.len() + message.content.len(),
            Self::ToolStart(start) => {
                let texts = [&start.kind, &start.title];
                SMALL
                    + start.tool.len()
                    + of_texts(texts)
                    + of_json([&start.input, &start.locations])
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
                            SMALL
                                + diff.path.len()
                                + of_texts([&diff.old_text, &diff.new_text, &diff.patch])
                        })
                        .sum::<usize>()
            }
            Self::Plan(plan) => {
                let entries = plan.entries.iter();
                entries
                    .map(|entry| SMALL + entry.content.len() + of_texts([&entry.priority]))
                    .sum()
            }
            Self::Log(log) => log.content.len(),
            Self::Progress(progress) => progress.message.len(),
            Self::Error(error) => error.message.len(),
            Self::Custom(custom) => custom.name.len() + of_json([&custom.data]),
            Self::Usage(usage) => {
                let models = usage.models.iter().flatten();
                let models =
                    models.map(|(name, of)| 2 * SMALL + name.len() + of_texts([&of.provider]));
                SMALL + of_texts([&usage.model, &usage.provider]) + models.sum::<usize>()
            }
            Self::RateLimit(limit) => {
                SMALL + of_texts([&limit.window, &limit.status, &limit.resets_at])
            }
            Self::Permission(permission) => SMALL + json_len(permission.request()),
            Self::Question(question) => SMALL + json_len(question.request()),
            Self::Info(info) => SMALL + json_len(info),
            Self::File(file) => SMALL + file.name.len() + file.mime_type.len(),
            Self::ContextUsage(_)
            | Self::Compaction(_)
            | Self::Working
            | Self::Stalled { .. }
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
    values
        .into_iter()
        .flatten()
        .map(|value| value.get().len())
        .sum()
}
