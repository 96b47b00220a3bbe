//! The configuration of the profile `claude-code`.

use serde::{Deserialize, Serialize};

use super::agent_file::AgentFile;
use crate::agent::settings::settings;

/// Relation of a system prompt to Claude's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum PromptMode {
    /// After it.
    #[default]
    Append,
    /// In its place.
    Replace,
}

/// The published spelling of the mode that asks for nothing.
const DANGEROUS_MODE: &str = "dangerously-skip-permissions";

/// The values of `permission_mode`, for the schema.
#[cfg(test)]
pub(super) const PERMISSION_MODES: [&str; 12] = [
    "",
    "default",
    "manual",
    "ask",
    "plan",
    "acceptEdits",
    "accept-edits",
    "dontAsk",
    "dont-ask",
    "auto",
    "bypassPermissions",
    DANGEROUS_MODE,
];

settings! {
    /// Claude Code: one `claude` process for each session.
    struct ClaudeCode, "claude";
    {
        /// Permission mode: `default`, `plan`, `acceptEdits`, `dontAsk`, `auto`. Empty: the one in
        /// Claude's settings.
        #[cfg_attr(test, schemars(extend("enum" = PERMISSION_MODES)))]
        permission_mode: String = String::new(),
        /// The most turns of the model within one turn. 0: no limit.
        max_turns: u64 = 0,
        /// Tools that run without asking, as `Bash(git *)` or `Edit`.
        allowed_tools: Vec<String> = Vec::new(),
        /// Tools that never run.
        disallowed_tools: Vec<String> = Vec::new(),
        /// Adds `TodoWrite` to the tools that never run.
        deny_todo_write: bool = false,
        /// More directories that Claude may work in.
        add_dirs: Vec<String> = Vec::new(),
        /// The most that a session may cost, in USD. 0: no limit.
        max_budget_usd: f64 = 0.0,
        /// Position of the system prompt: after Claude's own (`append`) or instead of it
        /// (`replace`).
        system_prompt_mode: PromptMode = PromptMode::Append,
        /// The effort of the model if a session sets none: `low`, `medium`, `high`, `xhigh`, `max`.
        reasoning_effort: String = String::new(),
        /// The models to fall back to when the chosen one is overloaded.
        fallback_model: String = String::new(),
        /// A file with more of Claude's settings.
        settings: String = String::new(),
        /// Runs commands in Claude's own sandbox, there without asking, and never outside of it.
        sandbox: bool = false,
        /// The names that commands in that sandbox reach, unless a session names fewer of them.
        allowed_domains: Vec<String> = Vec::new(),
        /// The agent that sessions run as, given to Claude by a file. Absent: Claude's own.
        agent: Option<AgentFile> = None,
        /// A folder of command files: `NAME.md` is called by `/NAME`.
        commands_dir: String = String::new(),
        /// Claude's settings files that count: `user`, `project`, `local`. Absent: all.
        setting_sources: Option<Vec<String>> = None,
        /// Uses only the MCP servers of this configuration and of the session, none of Claude's own files.
        strict_mcp_config: bool = false,
        /// Uses the servers of `.mcp.json` files from the working directory upwards without asking,
        /// joined by name with the servers of this configuration and of the session; Claude reads
        /// no other file for them.
        project_mcp: bool = false,
        /// Lets commands and sub-agents continue in the background after the turn that started them.
        background_tasks: bool = false,
        /// Runs every tool without asking. Claude refuses it as root, unless `IS_SANDBOX=1`
        /// declares a sandbox.
        dangerous: bool = false,
    }
}

impl ClaudeCode {
    /// Returns true if tools run without asking: by `dangerous`, or by the published mode of that
    /// name.
    pub(crate) fn is_dangerous(&self) -> bool {
        self.dangerous || self.permission_mode == DANGEROUS_MODE
    }

    /// The configured permission mode, unless it is the dangerous one.
    pub(crate) fn permission_mode(&self) -> Option<&str> {
        Some(self.permission_mode.as_str())
            .filter(|mode| !mode.is_empty() && *mode != DANGEROUS_MODE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sample_loads() {
        let sample = r#"{"command": "claude", "work_dir": "/home/user/projects", "env": {}, "model": "sonnet",
            "permission_mode": "dangerously-skip-permissions", "max_turns": 50,
            "allowed_tools": ["Read", "Write", "Bash"], "system_prompt": "You are a helpful coding assistant."}"#;
        let settings: ClaudeCode = serde_json::from_str(sample).unwrap();
        assert!(settings.is_dangerous());
        assert_eq!((settings.permission_mode(), settings.max_turns), (None, 50));
        let defaults: ClaudeCode = serde_json::from_str("{}").unwrap();
        assert!(!defaults.is_dangerous());
        let published = serde_json::to_value(&defaults).unwrap();
        for (key, value) in [
            ("command", serde_json::json!("claude")),
            ("work_dir", "".into()),
            ("env", serde_json::json!({})),
            ("model", "".into()),
            ("permission_mode", "".into()),
            ("max_turns", 0.into()),
            ("allowed_tools", serde_json::json!([])),
            ("system_prompt", "".into()),
        ] {
            assert_eq!(published[key], value, "{key}");
        }
    }
}
