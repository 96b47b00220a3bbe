//! Configuration: key `job`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{answer::AnswerConfig, input::InputMode};
use crate::agent::settings::Wait;

/// A program that is run for each input: key `job`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// The program: a name that is looked up in PATH, or a path.
    pub(super) command: String,
    /// Arguments. One of them may contain the input; see `input`.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// The directory if a session names none. Unset: the adapter's own.
    #[serde(default)]
    pub(super) work_dir: String,
    /// Variables of its environment.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Way of the input to the program: on stdin, as the argument `{{input}}`, or in a file whose
    /// path replaces `{{input_file}}` in an argument.
    #[serde(default)]
    pub(super) input: InputMode,
    /// Interpretation of the output: its text, usage and results.
    #[serde(default)]
    pub(super) answer: AnswerConfig,
    /// True to report an estimate for a turn without known usage: a token for four bytes of input,
    /// and of output.
    #[serde(default)]
    pub(super) estimate_usage: bool,
    /// Timeout of a run, after which all of its processes are ended.
    #[serde(default = "five_minutes")]
    pub(super) max_runtime: Wait,
}

fn five_minutes() -> Wait {
    Wait::seconds(300)
}

/// The configuration, of which the keys agree with each other.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Keys")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(description = ""))]
pub(crate) struct JobConfig(pub(super) Keys);

impl TryFrom<Keys> for JobConfig {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        keys.input.check(&keys.args)?;
        keys.answer.check()?;
        Ok(Self(keys))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_defaults_are_the_published_ones() {
        let JobConfig(config) = serde_json::from_str(r#"{"command":"x"}"#).unwrap();
        assert_eq!(
            (config.work_dir.as_str(), config.max_runtime),
            ("", Wait::seconds(300))
        );
        assert!(config.args.is_empty() && config.env.is_empty());
        assert!(config.input == InputMode::Stdin && !config.estimate_usage);
        let sample = r#"{"command":"/usr/local/bin/batch-job","args":["--output-json"],"work_dir":"/tmp/jobs","env":{},"max_runtime":"5m"}"#;
        assert!(serde_json::from_str::<JobConfig>(sample).is_ok());
        assert!(
            serde_json::from_str::<JobConfig>("{}").is_err(),
            "a program must be named"
        );
    }

    #[test]
    fn keys_that_do_not_agree_are_an_error_of_the_configuration() {
        for (keys, why) in [
            (json!({ "input": "argument" }), "no argument is `{{input}}`"),
            (
                json!({ "input": "argument", "args": ["{{input_file}}"] }),
                "no argument is `{{input}}`",
            ),
            (
                json!({ "input": "file", "args": ["{{input}}"] }),
                "no argument holds `{{input_file}}`",
            ),
            (
                json!({ "input": "argument", "args": ["-c", "say {{input}}"] }),
                "becomes code",
            ),
            (
                json!({ "input": "argument", "args": ["a b={{input}}"] }),
                "becomes code",
            ),
            (json!({ "input": "arg" }), "unknown variant `arg`"),
            (
                json!({ "answer": { "text": "/a" } }),
                "`answer.text` needs `answer.format`",
            ),
            (
                json!({ "answer": { "usage": { "input_tokens": "/a" } } }),
                "`answer.usage` needs `answer.format`",
            ),
            (
                json!({ "answer": { "format": "json", "cost_usd": "a" } }),
                "not a JSON pointer",
            ),
            (
                json!({ "answer": { "format": "json", "usage": { "tokens": "/a" } } }),
                "unknown field `tokens`",
            ),
            (
                json!({ "answer": { "format": "xml" } }),
                "unknown variant `xml`",
            ),
        ] {
            let mut config = json!({ "command": "x" });
            config
                .as_object_mut()
                .unwrap()
                .extend(keys.as_object().unwrap().clone());
            let refused = serde_json::from_value::<JobConfig>(config.clone())
                .unwrap_err()
                .to_string();
            assert!(refused.contains(why), "{config}: {refused}");
        }
        for keys in [
            json!({ "args": ["{{input}}"] }),
            json!({ "input": "argument", "args": ["-p", "{{input}}"] }),
            json!({ "input": "argument", "args": ["--prompt={{input}}"] }),
            json!({ "input": "file", "args": ["-c", "wc -l < {{input_file}}"] }),
            json!({ "answer": { "format": "jsonl" } }),
        ] {
            let mut config = json!({ "command": "x" });
            config
                .as_object_mut()
                .unwrap()
                .extend(keys.as_object().unwrap().clone());
            assert!(
                serde_json::from_value::<JobConfig>(config).is_ok(),
                "{keys}"
            );
        }
    }
}
