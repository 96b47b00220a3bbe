//! Messages from the adapter to the host that are not events of a turn.

use super::{
    AdapterInfo, AgentEntry, AgentOption, Capabilities, Command, Context, Diff, ListedSession,
    Mode, Model, OpenSession, PermissionOption, QuestionField, SessionEntry, StopReason, objects,
};
use crate::{
    Json, MessageId, RequestId, Sha256, ToolCallId,
    field::{Fault, Fields, Object},
};

objects! {
    /// A file for the user ([file.3]).
    #[derive(Default)]
    pub struct FileOutput {
        /// A label, never a path. Absent: the base name of the path ([file.5]).
        pub file_name: Option<String>,
        /// The MIME type. Absent: `application/octet-stream` ([file.5]).
        pub file_mime_type: Option<String>,
        /// The absolute path of the file. The host checks it ([file.4]).
        pub file_path: String,
        /// The file's size, in bytes (`large`).
        pub size: Option<u64>,
        /// The digest of its bytes (`large`).
        pub sha256: Option<Sha256>,
    }

    /// Asks whether an action may happen ([permission.1]).
    pub struct PermissionRequest {
        /// Names the request within its session.
        pub request_id: RequestId,
        /// The tool.
        pub tool: String,
        /// The text for a person. Always written; a host supplies one where an adapter did not
        /// ([permission.6]).
        #[cfg_attr(feature = "schema", schemars(required))]
        pub description: Option<String>,
        /// The object of the tool: a command, a path, an address. Always written; a host supplies
        /// the empty text where an adapter did not, and then no rule approves ([permission.6]).
        #[cfg_attr(feature = "schema", schemars(required))]
        pub resource: Option<String>,
        /// The tool's input (`control`).
        pub input: Option<Json>,
        /// A headline (`control`).
        pub title: Option<String>,
        /// The tool call that waits (`control`).
        pub tool_call_id: Option<ToolCallId>,
        /// The changes that the action would make to files (`control`).
        pub diffs: Option<Vec<Diff>>,
        /// When the agent gives up, RFC 3339 (`control`).
        pub expires_at: Option<String>,
        /// The ways to answer (`control`).
        pub options: Option<Vec<PermissionOption>>,
        /// True if members were cut or left out, since a line has a longest length (`control`, [frame.11]).
        pub truncated: Option<bool>,
        /// The message that it belongs to (`events`).
        pub message_id: Option<MessageId>,
        /// The tool call of the sub-agent that asks (`events`).
        pub parent_tool_call_id: Option<ToolCallId>,
        /// True if it is replayed (`events`): no answer is wanted.
        pub history: Option<bool>,
    }

    /// Withdraws a permission request or a question (`control`).
    pub struct PermissionCancel {
        /// The request.
        pub request_id: RequestId,
        /// Reason.
        pub reason: Option<StopReason>,
    }

    /// Asks the user (`questions`).
    pub struct InputRequest {
        /// Names the question within its session.
        pub request_id: RequestId,
        /// The text for a person.
        pub prompt: String,
        /// The fields of the question; none: one text.
        pub fields: Option<Vec<QuestionField>>,
        /// When the agent gives up, RFC 3339.
        pub expires_at: Option<String>,
    }

    /// News of a session after `session.ready` ([ext.2]), and the answer to `session.update`.
    #[derive(Default)]
    pub struct SessionInfo {
        /// The program behind the pipe.
        pub adapter: Option<AdapterInfo>,
        /// Capabilities of the adapter.
        pub capabilities: Option<Capabilities>,
        /// `queue` and `steer`, if it supports them ([turn.3], [turn.10]).
        pub input_modes: Option<Vec<String>>,
        /// The agent's own id of the session (`resume`).
        pub native_session_id: Option<String>,
        /// The id that a person reads (`resume`).
        pub display_id: Option<String>,
        /// The context of a resumed session: kept or lost (`resume`).
        pub context: Option<Context>,
        /// The options of `session.start` that it honours ([ext.7]).
        pub options_applied: Option<Vec<String>>,
        /// The model in force.
        pub model: Option<String>,
        /// The models that may be chosen.
        pub models: Option<Vec<Model>>,
        /// The reasoning effort in force.
        pub reasoning_effort: Option<String>,
        /// The mode in force.
        pub mode: Option<String>,
        /// The modes that may be chosen.
        pub modes: Option<Vec<Mode>>,
        /// The permission mode in force.
        pub permission_mode: Option<String>,
        /// The tools allowed.
        pub allowed_tools: Option<Vec<String>>,
        /// The tools denied.
        pub denied_tools: Option<Vec<String>>,
        /// The commands that the agent understands.
        pub commands: Option<Vec<Command>>,
        /// The agent's own options, whole each time.
        pub options: Option<Vec<AgentOption>>,
    }

    /// The answer to `sessions.list`.
    pub struct SessionsListResult {
        /// The request.
        pub request_id: RequestId,
        /// The sessions.
        pub entries: Option<Vec<SessionEntry>>,
        /// The sessions of the relay's journal, the last active first ([journal.12]).
        pub sessions: Option<Vec<ListedSession>>,
        /// Cursor for the next page, if there may be one.
        pub next: Option<String>,
        /// The hosts whose sessions are not among them, since they did not answer.
        pub missing: Option<Vec<String>>,
        /// Reason why there are none.
        pub error: Option<String>,
    }

    /// The answer to `agents.list` ([relay.4]).
    pub struct AgentsListResult {
        /// The request.
        pub request_id: RequestId,
        /// The agents.
        pub agents: Vec<AgentEntry>,
        /// Open sessions, if requested: first those with a running turn, then the youngest.
        pub sessions: Option<Vec<OpenSession>>,
    }

    /// Alive; quiet work continues (`control`).
    #[derive(Default)]
    pub struct Working {}

    /// The answer to `ping` (`control`).
    #[derive(Default)]
    pub struct Pong {
        /// The nonce of the `ping`.
        pub nonce: Option<Json>,
    }
}

impl SessionsListResult {
    /// The answer to this request, with nothing in it yet.
    #[must_use]
    pub fn to(request_id: RequestId) -> Self {
        Self {
            request_id,
            entries: None,
            sessions: None,
            next: None,
            missing: None,
            error: None,
        }
    }
}

/// The adapter's first message of a session, if it uses any extension ([ext.2]).
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionReady {
    /// The lower of both sides' versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// The extensions of the offer that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// The longest line that the adapter reads, in bytes without its LF ([frame.11]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line: Option<u64>,
    /// The rest of what it knows already.
    #[serde(flatten)]
    pub info: SessionInfo,
}

impl Object for SessionReady {
    const FIELDS: &'static [&'static str] = &READY_FIELDS;

    fn read(fields: &Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            protocol: fields.read("protocol")?,
            extensions: fields.read("extensions")?,
            max_line: fields.read("max_line")?,
            info: SessionInfo::read(fields)?,
        })
    }
}

/// The members of `session.info` after the three of `session.ready`.
const READY_FIELDS: [&str; SessionInfo::FIELDS.len() + 3] = {
    let mut fields = ["protocol"; SessionInfo::FIELDS.len() + 3];
    (fields[1], fields[2]) = ("extensions", "max_line");
    let mut at = 0;
    while at < SessionInfo::FIELDS.len() {
        fields[at + 3] = SessionInfo::FIELDS[at];
        at += 1;
    }
    fields
};
