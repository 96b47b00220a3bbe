//! An agent of Claude's by a file: front matter, and a body of four sections.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use trunkline_sdk::{Error, SystemPrompt, skill};

use super::command_line::{self, Mode};
use super::config::ClaudeCode;
use crate::agent::options::Options;

/// Default name of the file.
const NAME: &str = "trunkline";

/// The agent that a session runs as. Each section may have `{{variables.NAME}}` in it, as a prompt
/// template has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentFile {
    /// Name. Empty: `trunkline`.
    name: String,
    /// Purpose.
    description: String,
    /// Working method, for every persona.
    protocol: String,
    /// Identity.
    persona: String,
    /// Requirements for its work.
    contract: String,
    /// Forbidden actions.
    restrictions: String,
}

impl AgentFile {
    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() {
            NAME
        } else {
            &self.name
        }
    }
}

/// Returns the text of the file. `fill` puts a session's variables into a section; cuts are
/// reported.
///
/// # Errors
/// Its name cannot be a file's, or the permission mode is refused.
pub(super) fn compose(
    agent: &AgentFile,
    settings: &ClaudeCode,
    options: &Options,
    fill: impl Fn(&str) -> String,
    warnings: &mut Vec<String>,
) -> Result<String, Error> {
    let name = agent.name();
    if !skill::is_name(name) {
        return Err(Error::other(format!(
            "`agent.name`: {name:?} must be up to 64 letters, digits, `_`, `-`, `:` and `.`"
        )));
    }
    let mut text = "---\n".to_owned();
    // A JSON string is one of YAML, too.
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}: {}", serde_json::Value::from(value));
    };
    line("name", name);
    line(
        "description",
        if agent.description.is_empty() {
            "Works for the host."
        } else {
            &agent.description
        },
    );
    if let Some(model) = &options.model {
        line("model", model);
    }
    if let Some(tools) = command_line::built_in(options.allowed_tools.as_deref()) {
        line("tools", &tools.join(", "));
    }
    let denied = command_line::denied(settings, options)
        .collect::<Vec<_>>()
        .join(", ");
    if !denied.is_empty() {
        line("disallowedTools", &denied);
    }
    match command_line::permission_mode(settings, options)? {
        Mode::Dangerous => line("permissionMode", "bypassPermissions"),
        Mode::Of(Some(mode)) => line("permissionMode", mode),
        Mode::Of(None) => {}
    }
    let body = SystemPrompt::new()
        .section("protocol", fill(&agent.protocol))
        .section("persona", fill(&agent.persona))
        .section("contract", fill(&agent.contract))
        .section("restrictions", fill(&agent.restrictions))
        .compose();
    warnings.extend(body.cuts.iter().map(|cut| format!("`agent`: {cut}")));
    let _ = writeln!(text, "---\n\n{}", body.text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_sdk::{SessionStart, template};

    use super::*;

    fn text(
        configured: serde_json::Value,
        start: SessionStart,
    ) -> (Result<String, Error>, Vec<String>) {
        let settings: ClaudeCode = serde_json::from_value(configured).unwrap();
        let options = Options::new(&settings.common(), start).unwrap();
        let mut warnings = Vec::new();
        let fill = |text: &str| template::fill(text, "", "s1", &options.variables);
        let agent = settings.agent.clone().unwrap();
        (
            compose(&agent, &settings, &options, fill, &mut warnings),
            warnings,
        )
    }

    #[test]
    fn the_file_has_the_session_s_options_and_four_sections() {
        let configured = json!({
            "dangerous": true, "model": "opus", "disallowed_tools": ["Write"], "deny_todo_write": true,
            "agent": {
                "name": "wave", "description": "Looks: \"closely\".", "protocol": "Say what you did.\n",
                "persona": "You are {{variables.persona}}.", "contract": "All tests pass.",
                "restrictions": "Touch nothing below specs/.",
            },
        });
        let start = SessionStart {
            variables: Some([("persona".to_owned(), "a navigator".to_owned())].into()),
            allowed_tools: Some(vec!["Read".to_owned(), "Bash(git *)".to_owned()]),
            denied_tools: Some(vec!["WebFetch".to_owned()]),
            ..SessionStart::default()
        };
        insta::assert_snapshot!(text(configured, start).0.unwrap(), @r#"
        ---
        name: "wave"
        description: "Looks: \"closely\"."
        model: "opus"
        tools: "Read, Bash"
        disallowedTools: "Write, WebFetch, TodoWrite"
        permissionMode: "bypassPermissions"
        ---

        Say what you did.


        You are a navigator.

        All tests pass.

        Touch nothing below specs/.
        "#);
    }

    #[test]
    fn a_mode_that_asks_for_nothing_is_only_in_it_where_it_is_configured() {
        let plain = text(json!({"agent": {}}), SessionStart::default())
            .0
            .unwrap();
        assert!(
            plain.starts_with("---\nname: \"trunkline\"\n") && !plain.contains("permissionMode"),
            "{plain}"
        );
        let start = SessionStart {
            permission_mode: Some("bypassPermissions".into()),
            ..SessionStart::default()
        };
        assert!(text(json!({"agent": {}}), start).0.is_err());
        let plan = text(
            json!({"agent": {}, "permission_mode": "plan"}),
            SessionStart::default(),
        )
        .0
        .unwrap();
        assert!(plan.contains("permissionMode: \"plan\""), "{plan}");
    }

    #[test]
    fn what_is_too_long_is_reported_and_a_bad_name_refused() {
        let long = json!({"agent": {"persona": "x".repeat(30_000)}});
        let (text_of, warnings) = text(long, SessionStart::default());
        assert!(text_of.unwrap().chars().count() < 20_200);
        assert!(
            warnings.len() == 1 && warnings[0].contains("`persona`"),
            "{warnings:?}"
        );
        for name in ["../x", "a/b", "-x"] {
            assert!(
                text(json!({"agent": {"name": name}}), SessionStart::default())
                    .0
                    .is_err(),
                "{name}"
            );
        }
    }
}
