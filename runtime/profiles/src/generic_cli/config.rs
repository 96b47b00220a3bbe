//! Configuration: key `cli`.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::ending::Endings;
use crate::agent::settings::Wait;

/// Maximum size of a compiled prompt pattern, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;

/// An interactive program.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct CliConfig {
    /// The program: a name that is looked up in PATH, or a path.
    pub(super) command: String,
    /// Arguments.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// The directory if a session names none. Unset: the adapter's own.
    #[serde(default)]
    pub(super) work_dir: String,
    /// Variables of its environment.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Number of processes.
    #[serde(default)]
    pub(super) spawn_policy: SpawnPolicy,
    /// True to run it on a terminal of its own, without echo, with stdout and stderr in one.
    #[serde(default)]
    pub(super) pty: bool,
    /// The terminal's width, in characters.
    #[serde(default = "columns")]
    pub(super) columns: u16,
    /// The terminal's height, in lines.
    #[serde(default = "rows")]
    pub(super) rows: u16,
    /// The end of the output when the program waits for the next input, as a regular expression;
    /// `^` is the beginning of a line. It ends a turn.
    #[serde(default)]
    pub(super) prompt_pattern: Prompt,
    /// A line that ends a turn. It is not shown.
    #[serde(default)]
    #[serde(deserialize_with = "one_line")]
    pub(super) sentinel: String,
    /// Encoding of line ends within an input.
    #[serde(default)]
    pub(super) newlines: Newlines,
    /// The command sent after each input, so that the program prints the sentinel.
    #[serde(default)]
    pub(super) sentinel_command: String,
    /// True to report an estimate of a turn's usage: a token for four bytes of input, and of
    /// output.
    #[serde(default)]
    pub(super) estimate_usage: bool,
    /// The silence after output that ends a turn.
    /// Unset: two seconds with neither a prompt nor a sentinel; otherwise silence ends nothing.
    #[serde(default)]
    pub(super) idle: Option<Wait>,
    /// The longest time to the first output, if silence ends a turn.
    #[serde(default = "thirty_seconds")]
    pub(super) first_output: Wait,
    /// The longest time from the start to the first prompt, with a prompt pattern.
    #[serde(default = "thirty_seconds")]
    pub(super) start_timeout: Wait,
}

/// Returns a line for comparison, without spaces at its end.
fn one_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let line = String::deserialize(deserializer)?;
    match line.trim_end() {
        line if line.contains(['\n', '\r']) => {
            Err(de::Error::custom("it has several lines, and is one"))
        }
        line => Ok(line.to_owned()),
    }
}

fn columns() -> u16 {
    120
}

fn rows() -> u16 {
    40
}

fn thirty_seconds() -> Wait {
    Wait::seconds(30)
}

/// Number of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum SpawnPolicy {
    /// One for each session.
    #[default]
    #[serde(alias = "")]
    PerSession,
    /// One for all sessions: their turns follow one another, and they share the program's memory.
    Persistent,
}

/// Encoding of line ends within an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Newlines {
    /// As they are: the program gets several lines.
    #[default]
    Keep,
    /// As spaces: for a program that answers each line.
    Space,
}

/// A pattern that matches at the end of a text; empty for none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "String", description = "", extend("format" = "regex", "default" = "")))]
pub(super) struct Prompt(Option<Regex>);

impl TryFrom<String> for Prompt {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, String> {
        if pattern.is_empty() {
            return Ok(Self(None));
        }
        let built = RegexBuilder::new(&format!(r"(?:{pattern})\z"))
            .multi_line(true)
            .size_limit(MAX_PATTERN)
            .build()
            .map_err(|error| format!("not a regular expression: {error}"))?;
        if built.is_match("") {
            return Err("the pattern matches where there is no output at all".to_owned());
        }
        Ok(Self(Some(built)))
    }
}

impl CliConfig {
    /// By what a turn ends.
    pub(super) fn endings(&self) -> Endings {
        let prompt = self.prompt_pattern.0.clone();
        let sentinel = Some(self.sentinel.clone()).filter(|sentinel| !sentinel.is_empty());
        let usual = (prompt.is_none() && sentinel.is_none()).then(|| Wait::seconds(2));
        let idle = self.idle.or(usual).and_then(|idle| idle.0);
        Endings {
            prompt,
            sentinel,
            idle,
            first_output: idle.and(self.first_output.0),
        }
    }

    /// Returns the bytes to write for an input.
    pub(super) fn line(&self, input: &str) -> Vec<u8> {
        let mut line = match self.newlines {
            Newlines::Keep => input.as_bytes().to_vec(),
            Newlines::Space => input
                .replace("\r\n", " ")
                .replace(['\r', '\n'], " ")
                .into_bytes(),
        };
        if self.pty {
            // Keys that a terminal takes for signals: SIGINT, SIGQUIT, SIGTSTP.
            line.retain(|byte| !matches!(byte, 0x03 | 0x1a | 0x1c));
        }
        line.push(b'\n');
        if !self.sentinel_command.is_empty() {
            line.extend_from_slice(self.sentinel_command.as_bytes());
            line.push(b'\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<CliConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_published_ones() {
        let config = read(r#"{"command":"x"}"#).unwrap();
        assert!(
            config.args.is_empty()
                && config.work_dir.is_empty()
                && config.env.is_empty()
                && !config.pty
        );
        assert_eq!(config.spawn_policy, SpawnPolicy::PerSession);
        assert_eq!(config.endings().idle, Some(Duration::from_secs(2)));
        assert!(read("{}").unwrap_err().contains("command"));
        let sample = r#"{"command":"/usr/local/bin/my-agent","args":["--interactive","--no-color"],
            "work_dir":"/home/user/projects","env":{"AGENT_MODE":"chat"},"spawn_policy":"per-session"}"#;
        assert_eq!(read(sample).unwrap().line("hi"), b"hi\n");
        assert_eq!(
            read(r#"{"command":"x","spawn_policy":"persistent"}"#)
                .unwrap()
                .spawn_policy,
            SpawnPolicy::Persistent
        );
    }

    #[test]
    fn silence_ends_a_turn_where_nothing_better_does() {
        let idle = |more: &str| {
            read(&format!(r#"{{"command":"x"{more}}}"#))
                .unwrap()
                .endings()
                .idle
        };
        assert_eq!(idle(r#","prompt_pattern":"> ""#), None);
        assert_eq!(
            idle(r#","sentinel":"END","sentinel_command":"echo END""#),
            None
        );
        assert_eq!(
            idle(r#","sentinel":"END","idle":"5s""#),
            Some(Duration::from_secs(5))
        );
        assert_eq!(idle(r#","idle":"0""#), None);
        assert_eq!(
            idle(r#","sentinel":" ""#),
            Some(Duration::from_secs(2)),
            "no sentinel"
        );
    }

    #[test]
    fn an_input_is_one_line_where_it_is_to() {
        let line = |more: &str| {
            read(&format!(r#"{{"command":"x"{more}}}"#))
                .unwrap()
                .line("a\r\nb\nc")
        };
        assert_eq!(line(""), b"a\r\nb\nc\n");
        let config = |pty| read(&format!(r#"{{"command":"x","pty":{pty}}}"#)).unwrap();
        let keys = "a\u{3}\u{1a}\u{1c}\u{1b}b";
        assert_eq!(
            config(true).line(keys),
            b"a\x1bb\n",
            "what a person says suspends no program"
        );
        assert_eq!(config(false).line(keys), b"a\x03\x1a\x1c\x1bb\n");
        assert_eq!(
            line(r#","newlines":"space","sentinel":"E","sentinel_command":"echo E""#),
            b"a b c\necho E\n"
        );
    }

    #[test]
    fn a_sentinel_is_a_line_without_the_spaces_at_its_end() {
        let sentinel = |sentinel: &str| {
            read(&serde_json::json!({"command": "x", "sentinel": sentinel}).to_string())
        };
        assert_eq!(sentinel(" <END> \n").unwrap().sentinel, " <END>");
        assert!(sentinel("a\nb").unwrap_err().contains("several lines"));
    }

    #[test]
    fn a_pattern_that_cannot_work_is_told() {
        for pattern in ["(", "x*", "$"] {
            let config = serde_json::json!({ "command": "x", "prompt_pattern": pattern });
            assert!(read(&config.to_string()).is_err(), "{pattern}");
        }
        let prompt = read(r#"{"command":"x","prompt_pattern":"^\\$ $"}"#)
            .unwrap()
            .endings()
            .prompt
            .unwrap();
        assert!(prompt.is_match("a\n$ ") && !prompt.is_match("a $ ") && !prompt.is_match("$ ls"));
    }
}
