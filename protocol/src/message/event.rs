//! Events within a turn besides its answer (`events`).

use super::{names, objects};
use crate::{Channel, Json, MessageId, ToolCallId};

objects! {
    /// A piece of the answer: a delta ([turn.2]).
    #[derive(Default)]
    pub struct Output {
        /// The text.
        pub content: String,
        /// The channel; absent: stdout.
        pub channel: Option<Channel>,
        /// The message whose deltas belong together (`events`).
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that speaks (`events`).
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is a replay of an earlier event: it belongs to no turn (`events`).
        pub history: Option<bool>,
    }

    /// A piece of what the model thinks: a delta.
    #[derive(Default)]
    pub struct Thinking {
        /// The text.
        pub content: String,
        /// The message whose deltas belong together.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that thinks.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A whole message of the conversation.
    #[derive(Default)]
    pub struct Message {
        /// Speaker: `user`, `assistant`, or a role of the agent's own.
        pub role: String,
        /// The text.
        pub content: String,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The message's id.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that speaks.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A tool call begins.
    pub struct ToolStart {
        /// The call.
        pub tool_call_id: ToolCallId,
        /// The tool's name.
        pub tool: String,
        /// The kind of the tool, in the agent's words.
        pub kind: Option<String>,
        /// The text for a person.
        pub title: Option<String>,
        /// The tool's input.
        pub input: Option<Json>,
        /// The files that it touches.
        pub locations: Option<Json>,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that calls.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A tool call continues.
    pub struct ToolUpdate {
        /// The call.
        pub tool_call_id: ToolCallId,
        /// The text that it printed since the last update: a delta.
        pub content: Option<String>,
        /// The stream on which it printed it: `stdout`, `stderr`.
        pub stream: Option<String>,
        /// The text for a person from now on.
        pub title: Option<String>,
        /// Input of the tool, as far as it is known.
        pub input: Option<Json>,
        /// The files that it touches, whole each time.
        pub locations: Option<Json>,
        /// The agent's own data.
        pub data: Option<Json>,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that calls.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A tool call has ended. Each start has one end.
    pub struct ToolEnd {
        /// The call.
        pub tool_call_id: ToolCallId,
        /// Result of the call.
        pub content: Option<String>,
        /// True if it failed.
        pub is_error: Option<bool>,
        /// True if the result was cut, by the tool, the agent or for the length of a line ([frame.11]).
        pub truncated: Option<bool>,
        /// The changes that it made to files.
        pub diffs: Option<Vec<Diff>>,
        /// The agent's own data.
        pub data: Option<Json>,
        /// The time that it took, in milliseconds.
        pub duration_ms: Option<u64>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that called.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A change of one file: both texts, or a patch.
    #[derive(Default)]
    pub struct Diff {
        /// The file.
        pub path: String,
        /// The text before; absent for a new file.
        pub old_text: Option<String>,
        /// The text after.
        pub new_text: Option<String>,
        /// The change as a unified diff.
        pub patch: Option<String>,
    }

    /// The plan, whole each time.
    #[derive(Default)]
    pub struct Plan {
        /// Entries in order.
        pub entries: Vec<PlanEntry>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that plans.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// An entry of a plan.
    #[derive(Default)]
    pub struct PlanEntry {
        /// The text of the step.
        pub content: String,
        /// The state of the step.
        pub status: Option<PlanStatus>,
        /// The importance, in the agent's words.
        pub priority: Option<String>,
    }

    /// A line on how the work goes.
    #[derive(Default)]
    pub struct Progress {
        /// The text.
        pub message: String,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that it is about.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// A line for a log.
    #[derive(Default)]
    pub struct Log {
        /// The source.
        pub stream: Option<LogStream>,
        /// The text.
        pub content: String,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that it is about.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// Something went wrong. It ends nothing by itself.
    #[derive(Default)]
    pub struct ErrorEvent {
        /// The kind of failure ([ext.6]).
        pub category: Option<super::Category>,
        /// The text for a person.
        pub message: String,
        /// True if the turn will fail for it.
        pub fatal: Option<bool>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that it is about.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }

    /// Any other event of the agent.
    #[derive(Default)]
    pub struct Custom {
        /// The name, in the agent's words.
        pub name: String,
        /// The agent's own data.
        pub data: Option<Json>,
        /// True if members were cut or left out, since a line has a longest length ([frame.11]).
        pub truncated: Option<bool>,
        /// The message that it belongs to.
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that it is about.
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed.
        pub history: Option<bool>,
    }
}

names! {
    /// The state of a plan's entry.
    pub enum PlanStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
    }

    /// The source of a log line.
    pub enum LogStream {
        /// Unchanged output of the agent.
        Raw = "raw",
        /// The agent's stderr.
        Stderr = "stderr",
        /// The host.
        Host = "host",
        /// Information about the run.
        Meta = "meta",
    }
}

impl ToolStart {
    /// The beginning of a call of this tool, without an input.
    #[must_use]
    pub fn new(tool_call_id: ToolCallId, tool: impl Into<String>) -> Self {
        Self {
            tool_call_id,
            tool: tool.into(),
            kind: None,
            title: None,
            input: None,
            locations: None,
            truncated: None,
            message_id: None,
            parent_tool_call_id: None,
            history: None,
        }
    }
}

impl ToolUpdate {
    /// Creates an update of a call without content.
    #[must_use]
    pub fn new(tool_call_id: ToolCallId) -> Self {
        Self {
            tool_call_id,
            content: None,
            stream: None,
            title: None,
            input: None,
            locations: None,
            data: None,
            truncated: None,
            message_id: None,
            parent_tool_call_id: None,
            history: None,
        }
    }
}

impl ToolEnd {
    /// The end of a call, without a result.
    #[must_use]
    pub fn new(tool_call_id: ToolCallId) -> Self {
        Self {
            tool_call_id,
            content: None,
            is_error: None,
            truncated: None,
            diffs: None,
            data: None,
            duration_ms: None,
            message_id: None,
            parent_tool_call_id: None,
            history: None,
        }
    }
}

impl Output {
    /// A piece of the answer.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Text on a channel.
    #[must_use]
    pub fn on(channel: Channel, content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            channel: Some(channel),
            ..Self::default()
        }
    }

    /// The channel, which is stdout where none is named.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.channel.as_ref().unwrap_or(&Channel::Stdout)
    }
}
