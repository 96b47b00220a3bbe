//! Messages from the host to the adapter.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{SessionState, names, objects};
use crate::{
    Json, MessageId, RequestId, Sha256,
    field::{Value, Why},
};

objects! {
    /// Opens a session; the first message of its id ([session.1]). Everything in it is an extension.
    #[derive(Default)]
    pub struct SessionStart {
        /// The protocol's version that the host speaks ([ext.1]).
        pub protocol: Option<u32>,
        /// Extensions that the host understands ([ext.1]). Absent: only the core.
        pub extensions: Option<Vec<String>>,
        /// The longest line that the host reads, in bytes without its LF ([frame.11]).
        pub max_line: Option<u64>,
        /// The conversation to resume (`resume`).
        pub resume: Option<Resume>,
        /// Picks the agent behind a relay ([relay.1]).
        pub agent_id: Option<String>,
        /// The hub's name for its user.
        pub user_id: Option<String>,
        /// The hub's name for the task.
        pub task_id: Option<String>,
        /// The hub's name for this run of the task.
        pub run_id: Option<String>,
        /// The agent's role in the hub's work.
        pub role: Option<String>,
        /// Number of the attempt at the task, as counted by the hub.
        pub iteration: Option<u64>,
        /// Context for prompts and for the environment of what the adapter starts.
        pub variables: Option<BTreeMap<String, String>>,
        /// The session's working directory, absolute.
        pub cwd: Option<String>,
        /// More directories that the agent may work in, absolute.
        pub add_dirs: Option<Vec<String>>,
        /// The folder in which files are exchanged, absolute ([file.6]).
        pub exchange_dir: Option<String>,
        /// The model.
        pub model: Option<String>,
        /// The effort of the model's reasoning, in its own words.
        pub reasoning_effort: Option<String>,
        /// The sampling temperature.
        pub temperature: Option<f64>,
        /// Instructions for the model.
        pub system_prompt: Option<String>,
        /// The place of the instructions: after the agent's own, or instead of them.
        pub system_prompt_mode: Option<SystemPromptMode>,
        /// The agent's mode, by its id.
        pub mode: Option<String>,
        /// The mode in which tools are permitted.
        pub permission_mode: Option<String>,
        /// The only tools that run, as `Tool` or `Tool(pattern)`.
        pub allowed_tools: Option<Vec<String>>,
        /// Tools that never run.
        pub denied_tools: Option<Vec<String>>,
        /// The only domains that are reached.
        pub allowed_domains: Option<Vec<String>>,
        /// The most turns of the model within one turn.
        pub max_turns: Option<u64>,
        /// The most that the session may cost, in USD.
        pub max_cost_usd: Option<f64>,
        /// The most tokens that the session may use.
        pub max_tokens: Option<u64>,
        /// Timeout for each turn, in milliseconds.
        pub turn_timeout_ms: Option<u64>,
        /// Timeout for the silence of a running turn, in milliseconds.
        pub inactivity_timeout_ms: Option<u64>,
        /// JSON Schema of the answer of each turn.
        pub output_schema: Option<Json>,
        /// MCP servers, as the agent takes them.
        pub mcp_servers: Option<Json>,
        /// Skills, as the agent takes them.
        pub skills: Option<Json>,
        /// Environment of what the adapter starts for this session.
        pub env: Option<BTreeMap<String, String>>,
        /// Further arguments for the agent's command.
        pub extra_args: Option<Vec<String>>,
    }

    /// The conversation that a session resumes (`resume`).
    #[derive(Default)]
    pub struct Resume {
        /// The agent's own id of the session.
        pub native_session_id: Option<String>,
        /// The adapter's `session_params`, untouched.
        pub params: Option<Json>,
        /// True to replay earlier messages, marked as history.
        pub history: Option<bool>,
        /// True to begin a copy of the conversation, which stays as it is. Only for an adapter with
        /// the capability `forks_sessions`.
        pub fork: Option<bool>,
    }

    /// The user's input: begins a turn, or adds to the running one ([turn.1], [turn.10]).
    #[derive(Default)]
    pub struct UserInput {
        /// The text. Absent and null mean the empty string ([msg.3]).
        #[serde(default)]
        pub content: String = text_or_empty,
        /// The input's own id (`turns`).
        pub message_id: Option<MessageId>,
        /// The effect: it begins a turn, the default, or adds to the running one (`turns`).
        pub mode: Option<InputMode>,
        /// The limits of its turn; a steer has none (`options`).
        pub limits: Option<InputLimits>,
    }

    /// Limits of an input's turn, which narrow the limits of its session ([ext.7]).
    #[derive(Default)]
    pub struct InputLimits {
        /// The most tokens that the turn may use.
        pub max_tokens: Option<u64>,
        /// Timeout for the turn, in milliseconds.
        pub turn_timeout_ms: Option<u64>,
        /// Timeout for the turn's silence, in milliseconds.
        pub inactivity_timeout_ms: Option<u64>,
    }

    /// Announces a file to the adapter ([file.2]).
    #[derive(Default)]
    pub struct FileInput {
        /// A label, never a path. Absent: the base name of the path ([file.5]).
        pub file_name: Option<String>,
        /// The MIME type. Absent: `application/octet-stream` ([file.5]).
        pub file_mime_type: Option<String>,
        /// The absolute path of the file.
        pub file_path: String,
        /// The file's size, in bytes (`large`).
        pub size: Option<u64>,
        /// The digest of its bytes (`large`).
        pub sha256: Option<Sha256>,
    }

    /// Answers a `permission.request` ([permission.2]).
    pub struct PermissionResponse {
        /// The request that is answered.
        pub request_id: RequestId,
        /// True if the action may happen. Anything but `true` denies ([permission.4]).
        #[serde(default)]
        pub approved: bool = true_alone,
        /// The option that was chosen (`control`).
        pub option_id: Option<String>,
        /// Short for the first option of kind `allow_always` (`control`).
        pub always_allow: Option<bool>,
        /// The tool's input as the user changed it (`control`).
        pub updated_input: Option<Json>,
        /// The message for the agent (`control`).
        pub message: Option<String>,
        /// True if the turn ends with this denial (`control`).
        pub end_turn: Option<bool>,
        /// Origin of the decision (`turns`).
        pub reason: Option<StopReason>,
    }

    /// Ends the running turn, or removes the queued one of this `turn_id` ([turn.4], [turn.9]).
    #[derive(Default)]
    pub struct Stop {
        /// Reason (`turns`).
        pub reason: Option<StopReason>,
    }

    /// Ends the session; the last message of its id ([session.4]).
    #[derive(Default)]
    pub struct SessionClose {}

    /// Changes options of a live session; answered by one `session.info` (`options`).
    #[derive(Default)]
    pub struct SessionUpdate {
        /// The model.
        pub model: Option<String>,
        /// The effort of the model's reasoning.
        pub reasoning_effort: Option<String>,
        /// The agent's mode, by its id.
        pub mode: Option<String>,
        /// The mode in which tools are permitted.
        pub permission_mode: Option<String>,
        /// The only tools that run.
        pub allowed_tools: Option<Vec<String>>,
        /// Tools that never run.
        pub denied_tools: Option<Vec<String>>,
        /// Values of the agent's own options, by their ids.
        pub options: Option<BTreeMap<String, Json>>,
    }

    /// Answers an `input.request` (`questions`).
    pub struct InputResponse {
        /// The question that is answered.
        pub request_id: RequestId,
        /// The values by field id.
        pub values: Option<BTreeMap<String, Json>>,
        /// True if there is no answer.
        pub cancelled: Option<bool>,
    }

    /// Holds back every message of the session ([flow.1]).
    #[derive(Default)]
    pub struct FlowPause {}

    /// Lets them go in order ([flow.1]).
    #[derive(Default)]
    pub struct FlowResume {}

    /// Asks for a sign of life; answered by `pong` (`control`).
    #[derive(Default)]
    pub struct Ping {
        /// Copied into the answer.
        pub nonce: Option<Json>,
    }

    /// Requests the sessions that can be resumed (`resume`); from a relay, the sessions of its
    /// journal ([journal.12]) or an agent's own ([relay.10]).
    pub struct SessionsList {
        /// Copied into the answer.
        pub request_id: RequestId,
        /// Only sessions of this working directory.
        pub cwd: Option<String>,
        /// At most so many.
        pub limit: Option<u32>,
        /// With `journal` among them a relay answers with the sessions of its journal.
        pub extensions: Option<Vec<String>>,
        /// Only the session of this id.
        pub id: Option<String>,
        /// Only sessions of this agent; without `journal` the agent itself is asked ([relay.10]).
        pub agent_id: Option<String>,
        /// Only those that do this.
        pub state: Option<SessionState>,
        /// True: only the archived ones. Otherwise only the others.
        pub archived: Option<bool>,
        /// Only those with this text in title or id, without regard of case.
        pub text: Option<String>,
        /// The `next` of the answer before: only what comes behind that.
        pub cursor: Option<String>,
    }

    /// Asks a relay for its agents ([relay.4]).
    pub struct AgentsList {
        /// Copied into the answer.
        pub request_id: RequestId,
        /// True if the health of each is asked for, too.
        pub health: Option<bool>,
        /// Number of open sessions to include.
        pub sessions: Option<u32>,
    }
}

impl SessionsList {
    /// A request for all of them.
    #[must_use]
    pub fn new(request_id: RequestId) -> Self {
        Self {
            request_id,
            cwd: None,
            limit: None,
            extensions: None,
            id: None,
            agent_id: None,
            state: None,
            archived: None,
            text: None,
            cursor: None,
        }
    }
}

names! {
    /// The effect of an input.
    pub enum InputMode {
        /// Begins a turn.
        Turn = "turn",
        /// Adds to the running turn ([turn.10]).
        Steer = "steer",
    }

    /// Reason why a turn was stopped or a request was settled.
    pub enum StopReason {
        /// A person asked for it.
        User = "user",
        /// A deadline passed.
        Timeout = "timeout",
        /// A rule of the host decided.
        Policy = "policy",
        /// The turn was stopped.
        Stopped = "stopped",
        /// The host shuts down.
        Shutdown = "shutdown",
    }

    /// The way in which a system prompt joins the agent's own.
    pub enum SystemPromptMode {
        /// After it.
        Append = "append",
        /// In its place.
        Replace = "replace",
    }
}

impl UserInput {
    /// An input of this text that begins a turn.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }
}

impl PermissionResponse {
    /// Creates an answer that only approves or denies the action.
    #[must_use]
    pub fn new(request_id: RequestId, approved: bool) -> Self {
        Self {
            request_id,
            approved,
            option_id: None,
            always_allow: None,
            updated_input: None,
            message: None,
            end_turn: None,
            reason: None,
        }
    }
}

/// Absent and null content is the empty string ([msg.3]).
fn text_or_empty(raw: Option<&RawValue>) -> Result<String, Why> {
    raw.map_or(Ok(String::new()), String::from_json)
}

/// Approval is the JSON value `true` and nothing else ([permission.4]).
fn true_alone(raw: Option<&RawValue>) -> Result<bool, Why> {
    Ok(raw.is_some_and(|raw| raw.get() == "true"))
}
