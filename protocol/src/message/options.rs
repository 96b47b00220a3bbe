//! What an adapter tells of itself and of a session: capabilities, models, modes, commands.

use super::{names, objects};
use crate::Json;

objects! {
    /// The program behind the pipe.
    #[derive(Default)]
    pub struct AdapterInfo {
        /// Its name.
        pub name: String,
        /// Its version.
        pub version: Option<String>,
    }

    /// What an adapter can do.
    #[derive(Default)]
    pub struct Capabilities {
        /// Whether it tells the agent's own session ids.
        pub native_session_ids: Option<bool>,
        /// Whether the agent reports the end of a turn, rather than the adapter guessing it.
        pub turn_completion: Option<bool>,
        /// Whether it can go on with an earlier session.
        pub resume_attach: Option<bool>,
        /// How the agent runs: `interactive`, `run-to-completion`, `request-response`.
        pub exec_model: Option<String>,
        /// The most sessions at a time.
        pub max_sessions: Option<u64>,
    }

    /// A model that may be chosen.
    #[derive(Default)]
    pub struct Model {
        /// What is written in `model`.
        pub id: String,
        /// What a person reads.
        pub label: Option<String>,
    }

    /// A mode that may be chosen.
    #[derive(Default)]
    pub struct Mode {
        /// What is written in `mode`.
        pub id: String,
        /// What a person reads.
        pub name: Option<String>,
    }

    /// A command that the agent understands in its input.
    #[derive(Default)]
    pub struct Command {
        /// Its name.
        pub name: String,
        /// What it does.
        pub description: Option<String>,
        /// What may follow it.
        pub hint: Option<String>,
        /// The text that an input carries to run it.
        pub text: Option<String>,
    }

    /// A question's field.
    #[derive(Default)]
    pub struct QuestionField {
        /// The key of its value in `input.response`.
        pub id: String,
        /// What a person reads.
        pub label: Option<String>,
        /// What is asked for.
        pub kind: Option<FieldKind>,
        /// What may be chosen, for `choice` and `choices`.
        pub choices: Option<Vec<Choice>>,
        /// Whether it must be answered.
        pub required: Option<bool>,
        /// The value that stands without an answer.
        pub default: Option<Json>,
    }

    /// One of a field's choices.
    #[derive(Default)]
    pub struct Choice {
        /// The value.
        pub id: String,
        /// What a person reads.
        pub label: Option<String>,
        /// More of it.
        pub description: Option<String>,
    }

    /// One way to answer a permission request.
    #[derive(Default)]
    pub struct PermissionOption {
        /// What is written in `option_id`.
        pub id: String,
        /// What a person reads.
        pub label: Option<String>,
        /// What it does. An option of unknown kind neither allows nor rejects by itself.
        pub kind: Option<OptionKind>,
    }

    /// An agent behind a relay ([relay.4]).
    #[derive(Default)]
    pub struct AgentEntry {
        /// What is written in `agent_id`.
        pub id: String,
        /// What a person reads.
        pub name: Option<String>,
        /// The built-in adapter, or `external`.
        pub profile: Option<String>,
        /// What it is for.
        pub description: Option<String>,
        /// What it can do.
        pub capabilities: Option<Capabilities>,
        /// Its models.
        pub models: Option<Vec<Model>>,
        /// How it stands.
        pub state: Option<AgentState>,
    }

    /// A session that can be resumed.
    #[derive(Default)]
    pub struct SessionEntry {
        /// What is written in `resume.native_session_id`.
        pub native_session_id: String,
        /// What a person reads.
        pub title: Option<String>,
        /// Its working directory.
        pub cwd: Option<String>,
        /// How many messages it has.
        pub message_count: Option<u64>,
        /// When it began, RFC 3339.
        pub created_at: Option<String>,
        /// When it last changed, RFC 3339.
        pub updated_at: Option<String>,
    }
}

names! {
    /// What a question's field asks for.
    pub enum FieldKind {
        /// A line of text.
        Text = "text",
        /// Text that is not shown and not kept.
        Secret = "secret",
        /// Yes or no.
        Boolean = "boolean",
        /// A number.
        Number = "number",
        /// One of the choices.
        Choice = "choice",
        /// Any of the choices.
        Choices = "choices",
    }

    /// What a permission option does.
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

    /// How an agent behind a relay stands.
    pub enum AgentState {
        /// Its process does not run; the next input starts it.
        Idle = "idle",
        /// Its process runs.
        Running = "running",
        /// Its process failed to start too often.
        Failed = "failed",
    }

    /// Whether a resumed session remembers.
    pub enum Context {
        /// It does.
        Kept = "kept",
        /// It does not.
        Lost = "lost",
    }
}

impl OptionKind {
    /// Whether the option approves.
    #[must_use]
    pub const fn allows(self) -> bool {
        match self {
            Self::AllowOnce | Self::AllowAlways => true,
            Self::RejectOnce | Self::RejectAlways => false,
        }
    }
}
