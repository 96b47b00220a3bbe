//! Descriptions of an adapter and a session: capabilities, models, modes, commands.

use super::{HealthEntry, names, objects};
use crate::Json;

objects! {
    /// The program behind the pipe.
    #[derive(Default)]
    pub struct AdapterInfo {
        /// Name of the agent.
        pub name: String,
        /// Version of the agent.
        pub version: Option<String>,
    }

    /// The capabilities of an adapter.
    #[derive(Default)]
    pub struct Capabilities {
        /// True if it reports the agent's own session ids.
        pub native_session_ids: Option<bool>,
        /// True if the agent reports the end of a turn, rather than the adapter guessing it.
        pub turn_completion: Option<bool>,
        /// True if it can resume an earlier session.
        pub resume_attach: Option<bool>,
        /// True if it lists the agent's earlier sessions, by `sessions.list`.
        pub lists_sessions: Option<bool>,
        /// True if it reports the models and modes of a session before the first turn, once its
        /// agent has started.
        pub lists_choices: Option<bool>,
        /// True if it can begin a session as a copy of an earlier one, by `resume.fork`.
        pub forks_sessions: Option<bool>,
        /// The way in which the agent runs: `interactive`, `run-to-completion`, `request-response`.
        pub exec_model: Option<String>,
        /// True if an approval may change the tool's input, by `updated_input`.
        pub updated_input: Option<bool>,
        /// The most sessions at a time.
        pub max_sessions: Option<u64>,
    }

    /// A model that may be chosen.
    #[derive(Default)]
    pub struct Model {
        /// The value of `model`.
        pub id: String,
        /// The text for a person.
        pub label: Option<String>,
        /// The description.
        pub description: Option<String>,
    }

    /// A mode that may be chosen.
    #[derive(Default)]
    pub struct Mode {
        /// The value of `mode`.
        pub id: String,
        /// The text for a person.
        pub name: Option<String>,
        /// The description.
        pub description: Option<String>,
    }

    /// An option of the agent's own, which `session.update` sets.
    #[derive(Default)]
    pub struct AgentOption {
        /// The key of its value in `session.update`.
        pub id: String,
        /// The text for a person.
        pub label: Option<String>,
        /// The description.
        pub description: Option<String>,
        /// The category, in the agent's words.
        pub category: Option<String>,
        /// The kind of its value.
        pub kind: Option<AgentOptionKind>,
        /// The value in force: the id of a choice, or a boolean.
        pub value: Option<Json>,
        /// The choices, for `select`.
        pub choices: Option<Vec<Choice>>,
    }

    /// A command that the agent understands in its input.
    #[derive(Default)]
    pub struct Command {
        /// Name of the field.
        pub name: String,
        /// The description.
        pub description: Option<String>,
        /// The arguments that may follow it.
        pub hint: Option<String>,
        /// The text that an input carries to run it.
        pub text: Option<String>,
    }

    /// A question's field.
    #[derive(Default)]
    pub struct QuestionField {
        /// The key of its value in `input.response`.
        pub id: String,
        /// The text for a person.
        pub label: Option<String>,
        /// The kind of answer.
        pub kind: Option<FieldKind>,
        /// The choices, for `choice` and `choices`.
        pub choices: Option<Vec<Choice>>,
        /// True if it must be answered.
        pub required: Option<bool>,
        /// Value without an answer.
        pub default: Option<Json>,
    }

    /// A choice of a field.
    #[derive(Default)]
    pub struct Choice {
        /// The value.
        pub id: String,
        /// The text for a person.
        pub label: Option<String>,
        /// More of it.
        pub description: Option<String>,
    }

    /// A way to answer a permission request.
    #[derive(Default)]
    pub struct PermissionOption {
        /// The value of `option_id`.
        pub id: String,
        /// The text for a person.
        pub label: Option<String>,
        /// The effect. An option of unknown kind neither allows nor rejects by itself.
        pub kind: Option<OptionKind>,
    }

    /// An agent behind a relay ([relay.4]).
    #[derive(Default)]
    pub struct AgentEntry {
        /// The value of `agent_id`.
        pub id: String,
        /// The text for a person.
        pub name: Option<String>,
        /// The built-in adapter, or `external`.
        pub profile: Option<String>,
        /// The purpose.
        pub description: Option<String>,
        /// Capabilities of the agent.
        pub capabilities: Option<Capabilities>,
        /// Models of the agent.
        pub models: Option<Vec<Model>>,
        /// The state.
        pub state: Option<AgentState>,
        /// Health, if requested.
        pub health: Option<HealthEntry>,
    }

    /// A session that can be resumed.
    #[derive(Default)]
    pub struct SessionEntry {
        /// The value of `resume.native_session_id`.
        pub native_session_id: String,
        /// The text for a person.
        pub title: Option<String>,
        /// Working directory.
        pub cwd: Option<String>,
        /// The number of messages.
        pub message_count: Option<u64>,
        /// When it began, RFC 3339.
        pub created_at: Option<String>,
        /// When it last changed, RFC 3339.
        pub updated_at: Option<String>,
        /// The agent whose conversation it is, in the answer of a relay ([relay.10]).
        pub agent_id: Option<String>,
        /// The session of the relay's journal that continues it, if there is one ([relay.10]).
        pub session_id: Option<String>,
    }
}

names! {
    /// The kind of answer that a question's field asks for.
    pub enum FieldKind {
        /// A line of text.
        Text = "text",
        /// Text that is not shown and not kept.
        Secret = "secret",
        /// Yes or no.
        Boolean = "boolean",
        /// A number.
        Number = "number",
        /// A single choice.
        Choice = "choice",
        /// Any of the choices.
        Choices = "choices",
    }

    /// The kind of value that an option of an agent has.
    pub enum AgentOptionKind {
        /// A single choice.
        Select = "select",
        /// Yes or no.
        Boolean = "boolean",
    }

    /// The effect of a permission option.
    pub enum OptionKind {
        /// Allows this once.
        AllowOnce = "allow_once",
        /// Allows this and what is like it from now on.
        AllowAlways = "allow_always",
        /// Denies this once.
        RejectOnce = "reject_once",
        /// Denies this and what is like it from now on.
        RejectAlways = "reject_always",
    }

    /// The state of an agent behind a relay.
    pub enum AgentState {
        /// The process is not running; the next input starts it.
        Idle = "idle",
        /// The process is running.
        Running = "running",
        /// The process failed to start too often.
        Failed = "failed",
    }

    /// The context of a resumed session.
    pub enum Context {
        /// The agent remembers the conversation.
        Kept = "kept",
        /// The agent does not remember the conversation.
        Lost = "lost",
    }
}

impl OptionKind {
    /// Returns true if the option approves.
    #[must_use]
    pub const fn allows(self) -> bool {
        match self {
            Self::AllowOnce | Self::AllowAlways => true,
            Self::RejectOnce | Self::RejectAlways => false,
        }
    }
}
