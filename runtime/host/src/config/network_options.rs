//! Options of a session that a client over a network may set.

use std::collections::BTreeSet;

use super::quantity::shown;
use super::read::nearest_or_all;
use super::session_may::options;

options! {
    /// An option of a session that the configuration may leave to clients over a network.
    ///
    /// What names a path, a program, a variable or a conversation of this machine is not among
    /// them, nor what approves tools ahead: a token is no shell. The others a session sets within
    /// [`SessionMay`](super::SessionMay), over a network or not.
    NetworkOption {
        /// `model`.
        Model = "model",
        /// `mode`, as far as the agent's configuration lets a session choose.
        Mode = "mode",
        /// `reasoning_effort`.
        ReasoningEffort = "reasoning_effort",
        /// `title`, a headline.
        Title = "title",
        /// `permission_mode`, likewise.
        PermissionMode = "permission_mode",
        /// `temperature`.
        Temperature = "temperature",
        /// `system_prompt`.
        SystemPrompt = "system_prompt",
        /// `system_prompt_mode`.
        SystemPromptMode = "system_prompt_mode",
        /// `denied_tools`.
        DeniedTools = "denied_tools",
        /// `allowed_domains`, of the agent's.
        AllowedDomains = "allowed_domains",
        /// `max_turns`.
        MaxTurns = "max_turns",
        /// `max_cost_usd`.
        MaxCostUsd = "max_cost_usd",
        /// `max_tokens`.
        MaxTokens = "max_tokens",
        /// `turn_timeout_ms`.
        TurnTimeout = "turn_timeout_ms",
        /// `inactivity_timeout_ms`.
        InactivityTimeout = "inactivity_timeout_ms",
        /// `output_schema`.
        OutputSchema = "output_schema",
    }
}

/// The options that clients over a network may set of sessions of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkOptions(BTreeSet<NetworkOption>);

impl NetworkOptions {
    /// Allows only these.
    pub fn listed(options: impl IntoIterator<Item = NetworkOption>) -> Self {
        Self(options.into_iter().collect())
    }

    /// True if it has the option of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|listed| listed == name)
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|option| option.name())
    }
}

impl From<Vec<NetworkOption>> for NetworkOptions {
    fn from(options: Vec<NetworkOption>) -> Self {
        Self::listed(options)
    }
}

impl Default for NetworkOptions {
    fn default() -> Self {
        use NetworkOption as O;
        Self::listed([
            O::Model,
            O::Mode,
            O::ReasoningEffort,
            O::Title,
            O::OutputSchema,
        ])
    }
}

impl NetworkOption {
    /// Reads a name.
    pub(super) fn from_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|option| option.name() == name);
        found.ok_or_else(|| {
            format!(
                "`{}` is no option that a network may set; {}",
                shown(name),
                nearest_or_all(name, &known)
            )
        })
    }
}
