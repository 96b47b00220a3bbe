//! The configuration that all wrapped agents share.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deadlines::Deadlines;
use super::tool_loop::ToolLoopAction;

/// A wait, written `"90s"`, `"5m"`, `"1h 30m"`, or as a number of seconds. `""`, `"0"`, `"0s"` and
/// 0 are no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wait(pub(crate) Option<Duration>);

impl Wait {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Some(Duration::from_secs(seconds)))
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Waits;
        impl Visitor<'_> for Waits {
            type Value = Wait;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration such as \"90s\" or \"5m\", or a number of seconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Wait, E> {
                match text.trim() {
                    "" | "0" => Ok(Wait(None)),
                    text => {
                        let wait = humantime::parse_duration(text).map_err(|_| {
                            E::custom("it is not a duration such as `90s` or `5m`; a plain number has no quotes")
                        })?;
                        Ok(Wait((!wait.is_zero()).then_some(wait)))
                    }
                }
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Wait, E> {
                Ok(Wait((seconds > 0).then(|| Duration::from_secs(seconds))))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Wait, E> {
                let wait = Duration::try_from_secs_f64(seconds).map_err(E::custom)?;
                Ok(Wait((!wait.is_zero()).then_some(wait)))
            }
        }
        deserializer.deserialize_any(Waits)
    }
}

impl Serialize for Wait {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.map_or_else(String::new, |wait| {
            humantime::format_duration(wait).to_string()
        });
        serializer.serialize_str(&text)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Wait {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Wait".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "number"], "description": "A duration such as \"90s\" or \"5m\"; \"\" is no limit." })
    }
}

/// Settings of a profile's configuration that the shared machinery reads.
#[derive(Clone)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Common {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) work_dir: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) model: String,
    pub(crate) model_aliases: BTreeMap<String, String>,
    pub(crate) system_prompt: String,
    pub(crate) prompt_template: String,
    pub(crate) variables_prefix: String,
    pub(crate) skills: Vec<String>,
    pub(crate) mcp_servers: Option<Value>,
    pub(crate) tool_loop: ToolLoopAction,
    pub(crate) deadlines: Deadlines,
    /// True if it has a temperature.
    pub(crate) takes_temperature: bool,
}

impl Common {
    /// The defaults of a profile that runs this program.
    #[cfg(test)]
    pub(crate) fn for_test(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            ..Self::default()
        }
    }
}

/// Makes the configuration of a profile that wraps an agent: the keys that all of them have, and
/// its own. An unknown key is an error; an empty string is the same as an absent key.
///
/// ```text
/// settings! {
///     struct CodexSettings, "codex";
///     { approval_mode: String = String::new(), }
/// }
/// ```
macro_rules! settings {
    (
        $(#[$meta:meta])*
        struct $Name:ident, $program:literal;
        { $($(#[$field_meta:meta])* $field:ident: $Type:ty = $default:expr,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $Name {
            /// The agent's program: a name that is looked up in PATH, or a path.
            pub(crate) command: String,
            /// Further arguments, before those that the profile adds.
            pub(crate) args: Vec<String>,
            /// The agent's directory if a session names none.
            pub(crate) work_dir: String,
            /// Variables of the agent's environment.
            pub(crate) env: std::collections::BTreeMap<String, String>,
            /// The model when a session names none.
            pub(crate) model: String,
            /// Short names of models: what is written for what is asked.
            pub(crate) model_aliases: std::collections::BTreeMap<String, String>,
            /// Instructions for the model, when a session brings none.
            pub(crate) system_prompt: String,
            /// Template of the text that the agent is sent for an input: `{{input}}`,
            /// `{{session.id}}`, `{{variables.NAME}}`, … Empty: the unchanged input. `default`: an
            /// introduction of the agent, followed by the input.
            pub(crate) prompt_template: String,
            /// The prefix under which a session's `variables` become environment of the agent.
            /// Empty: they do not.
            pub(crate) variables_prefix: String,
            /// Folders of skills that every session has.
            pub(crate) skills: Vec<String>,
            /// MCP servers that every session has.
            pub(crate) mcp_servers: Option<serde_json::Value>,
            /// Action when the agent repeats the same tool calls.
            pub(crate) tool_loop: $crate::agent::tool_loop::ToolLoopAction,
            /// The longest start.
            pub(crate) start_timeout: $crate::agent::settings::Wait,
            /// The longest silence within a turn.
            pub(crate) silence_timeout: $crate::agent::settings::Wait,
            /// The longest turn.
            pub(crate) turn_timeout: $crate::agent::settings::Wait,
            $($(#[$field_meta])* pub(crate) $field: $Type,)*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self {
                    command: $program.to_owned(),
                    args: Vec::new(),
                    work_dir: String::new(),
                    env: std::collections::BTreeMap::new(),
                    model: String::new(),
                    model_aliases: std::collections::BTreeMap::new(),
                    system_prompt: String::new(),
                    prompt_template: String::new(),
                    variables_prefix: String::new(),
                    skills: Vec::new(),
                    mcp_servers: None,
                    tool_loop: $crate::agent::tool_loop::ToolLoopAction::default(),
                    start_timeout: $crate::agent::settings::Wait::seconds(120),
                    silence_timeout: $crate::agent::settings::Wait::seconds(600),
                    turn_timeout: $crate::agent::settings::Wait(None),
                    $($field: $default,)*
                }
            }
        }

        impl $Name {
            /// Returns the settings for the shared machinery.
            pub(crate) fn common(&self) -> $crate::agent::settings::Common {
                let command = if self.command.is_empty() { $program } else { &self.command };
                $crate::agent::settings::Common {
                    command: command.to_owned(),
                    args: self.args.clone(),
                    work_dir: self.work_dir.clone(),
                    env: self.env.clone(),
                    model: $crate::agent::model::configured(&self.model, $program, |name| {
                        $crate::agent::variables::value(&self.env, name)
                    }),
                    model_aliases: self.model_aliases.clone(),
                    system_prompt: self.system_prompt.clone(),
                    prompt_template: self.prompt_template.clone(),
                    variables_prefix: self.variables_prefix.clone(),
                    skills: self.skills.clone(),
                    mcp_servers: self.mcp_servers.clone(),
                    tool_loop: self.tool_loop,
                    deadlines: $crate::agent::deadlines::Deadlines {
                        start: self.start_timeout.0,
                        silence: self.silence_timeout.0,
                        turn: self.turn_timeout.0,
                    },
                    takes_temperature: false,
                }
            }
        }
    };
}

#[allow(
    unused_imports,
    reason = "the first profile that wraps an agent uses it"
)]
pub(crate) use settings;

#[cfg(test)]
mod tests {
    use super::*;

    settings! {
        /// A sample.
        struct Sample, "sample";
        {
            /// A key of its own.
            own: u32 = 7,
        }
    }

    fn read(text: &str) -> Result<Sample, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn defaults_hold_and_unknown_keys_are_errors() {
        let sample = read("{}").unwrap();
        assert_eq!(
            (sample.common().command.as_str(), sample.own),
            ("sample", 7)
        );
        assert_eq!(
            read(r#"{"command":""}"#).unwrap().common().command,
            "sample"
        );
        let error = read(r#"{"comand":"x"}"#).err().unwrap();
        assert!(
            error.to_string().contains("unknown field `comand`"),
            "{error}"
        );
    }

    #[test]
    fn a_variable_of_the_profile_chooses_the_model() {
        let model = |text: &str| {
            let kilo: crate::oneshot::opencode::Kilo = serde_json::from_str(text).unwrap();
            kilo.common().model
        };
        let env = r#""env":{"KILO_MODEL":"m","KILO_PROVIDER":"openrouter"}"#;
        assert_eq!(model(&format!("{{{env}}}")), "openrouter/m");
        assert_eq!(model(&format!(r#"{{{env},"model":"a/b"}}"#)), "a/b");
    }

    #[test]
    fn waits_are_text_or_seconds_and_nothing_is_no_limit() {
        let turn =
            |text: &str| read(&format!(r#"{{"turn_timeout":{text}}}"#)).map(|s| s.turn_timeout.0);
        assert_eq!(turn("\"1m 30s\"").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(turn("1.5").unwrap(), Some(Duration::from_millis(1500)));
        for none in ["\"\"", "\"0\"", "\"0s\"", "0"] {
            assert_eq!(turn(none).unwrap(), None);
        }
        assert!(turn("\"soon\"").is_err());
        assert!(turn("-1.0").is_err());
    }
}
