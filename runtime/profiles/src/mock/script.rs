//! Script of a mock: key `mock`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use trunkline_sdk::{
    Category,
    protocol::{AdapterBody, AdapterMessage},
};

use crate::agent::settings::Wait;

/// A script, or a few options for every turn; without either it echoes.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MockConfig {
    /// The turns of each session. Those with `when` serve every input that contains it; the others
    /// are played one after the other.
    pub(super) turns: Vec<ScriptedTurn>,
    /// Behavior after all turns were played.
    pub(super) then: Then,
    /// Answer of a turn that no script covers, as a text or any JSON. Unset: the input.
    pub(super) stdout: Option<Value>,
    /// Duration of such a turn.
    pub(super) delay: Wait,
    /// Tokens that it uses.
    pub(super) tokens: Option<u64>,
    /// Exit code; any but 0 fails it.
    pub(super) exit_code: Option<i32>,
    /// Reason of its failure. Unset: it does not fail.
    pub(super) failure: String,
}

/// Behavior after all scripted turns were played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Then {
    /// Answer of a turn that no script covers: `stdout` or an echo.
    #[default]
    Echo,
    /// The script again.
    Repeat,
    /// The last turn again.
    Last,
    /// A failed turn.
    Fail,
}

/// A turn of a script.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedTurn {
    /// Serve every input that contains this, and no other.
    #[serde(default)]
    pub(super) when: String,
    /// Steps, in order.
    pub(super) steps: Vec<MockStep>,
}

/// A step of a mock. In texts `{{input}}` is the user's text; in texts of a turn with `when`,
/// `{{rest}}` is the text behind that.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Step"))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum MockStep {
    /// Says something.
    Output(String),
    /// Says something on stderr.
    Stderr(String),
    /// Says something on a channel.
    On {
        /// The channel.
        channel: String,
        /// The text.
        content: String,
    },
    /// Thinks something.
    Thinking(String),
    /// Waits.
    Delay(Wait),
    /// Waits until it is stopped.
    UntilStop,
    /// Calls a tool.
    Tool {
        /// The tool.
        tool: String,
        /// Input.
        #[serde(default)]
        input: Option<Value>,
        /// Output.
        #[serde(default)]
        content: String,
        /// True to fail.
        #[serde(default)]
        is_error: bool,
        /// Duration.
        #[serde(default)]
        delay: Wait,
    },
    /// Asks whether it may do something, and does one or the other.
    Permission {
        /// The tool.
        tool: String,
        /// Text for a person.
        #[serde(default)]
        description: String,
        /// Target.
        #[serde(default)]
        resource: String,
        /// Steps after an approval.
        #[serde(default)]
        approved: Vec<Self>,
        /// Steps after a denial.
        #[serde(default)]
        denied: Vec<Self>,
    },
    /// Writes a file that the user gets.
    File {
        /// Name of the file.
        name: String,
        /// Content.
        #[serde(default)]
        content: String,
    },
    /// Creates an empty file at a path, which shows that something was done.
    Touch(String),
    /// Sends any message, given as on the wire, without its ids.
    Event(MockEvent),
    /// Tells tokens and cost, as in a `usage` message.
    Usage(Usage),
    /// Fails the turn.
    Fail {
        /// The kind of failure.
        #[serde(default)]
        #[cfg_attr(test, schemars(with = "Category"))]
        category: CategoryName,
        /// Text for a person.
        #[serde(default)]
        message: String,
        /// The agent's own code.
        #[serde(default)]
        code: Option<String>,
        /// When trying again makes sense, in RFC 3339.
        #[serde(default)]
        retry_at: Option<String>,
    },
    /// Ends the turn with an exit code; any but 0 fails it.
    ExitCode(i32),
    /// Ends the process.
    Exit(u8),
}

/// A category by its name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct CategoryName(pub(super) Category);

impl Default for CategoryName {
    fn default() -> Self {
        Self(Category::Other)
    }
}

impl TryFrom<String> for CategoryName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let unknown = || format!("{name:?} is not a category of failures, such as rate_limit");
        Category::named(&name).map(Self).ok_or_else(unknown)
    }
}

/// A message of the adapter, checked when the configuration is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct MockEvent(pub(super) AdapterBody);

impl TryFrom<Map<String, Value>> for MockEvent {
    type Error = String;

    fn try_from(mut message: Map<String, Value>) -> Result<Self, String> {
        message.insert("session_id".to_owned(), json!("script"));
        let text = Value::Object(message).to_string();
        AdapterMessage::parse(&text)
            .map(|message| Self(message.body))
            .map_err(|error| format!("not a message of an adapter: {error}"))
    }
}

/// The members of a `usage` message.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(with = "trunkline_sdk::protocol::Usage", description = "")
)]
pub(super) struct Usage(pub(super) AdapterBody);

impl TryFrom<Map<String, Value>> for Usage {
    type Error = String;

    fn try_from(mut message: Map<String, Value>) -> Result<Self, String> {
        message.insert("type".to_owned(), json!("usage"));
        MockEvent::try_from(message).map(|event| Self(event.0))
    }
}

/// Position of a session in the script.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    played: usize,
}

/// Answer to an input.
#[derive(Debug)]
pub(super) enum Next<'a> {
    Turn(&'a ScriptedTurn),
    Uncovered,
    Over,
}

impl MockConfig {
    /// Returns the next turn of a session for an input.
    pub(super) fn next<'a>(&'a self, progress: &mut Progress, input: &str) -> Next<'a> {
        let called = |turn: &&ScriptedTurn| !turn.when.is_empty() && input.contains(&turn.when);
        if let Some(turn) = self.turns.iter().find(called) {
            return Next::Turn(turn);
        }
        let ordered: Vec<_> = self
            .turns
            .iter()
            .filter(|turn| turn.when.is_empty())
            .collect();
        let at = progress.played;
        progress.played += 1;
        let turn = match (ordered.get(at), self.then) {
            (Some(turn), _) => Some(*turn),
            (None, _) if ordered.is_empty() => return Next::Uncovered,
            (None, Then::Echo) => return Next::Uncovered,
            (None, Then::Fail) => None,
            (None, Then::Repeat) => Some(ordered[at % ordered.len()]),
            (None, Then::Last) => ordered.last().copied(),
        };
        turn.map_or(Next::Over, Next::Turn)
    }
}

/// Puts the user's text into a text.
pub(super) fn fill(text: &str, input: &str, when: &str) -> String {
    let rest = input
        .split_once(when)
        .map_or(input, |(_, rest)| rest)
        .trim();
    // The user's text is not a template, whatever it contains.
    let with_input = |text: &str| text.replace("{{input}}", input);
    text.split("{{rest}}")
        .map(with_input)
        .collect::<Vec<_>>()
        .join(rest)
}

/// Returns true if a script may create a file at this path: absolute, and without a step back.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|part| !matches!(part, std::path::Component::ParentDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl schemars::JsonSchema for MockEvent {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Event".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": "object", "required": ["type"], "properties": { "type": { "type": "string" } } })
        }
    }

    fn read(text: &str) -> Result<MockConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn played(then: &str) -> Vec<String> {
        let config = read(&format!(
            r#"{{"turns":[{{"steps":[{{"output":"1"}}]}},{{"when":"now","steps":[{{"output":"w"}}]}},{{"steps":[{{"output":"2"}}]}}],"then":"{then}"}}"#
        ))
        .unwrap();
        let mut progress = Progress::default();
        let inputs = ["a", "b now", "c", "d", "e"];
        let mut answers = Vec::new();
        for input in inputs {
            answers.push(match config.next(&mut progress, input) {
                Next::Turn(turn) => match &turn.steps[0] {
                    MockStep::Output(text) => text.clone(),
                    step => panic!("{step:?}"),
                },
                Next::Uncovered => "uncovered".to_owned(),
                Next::Over => "over".to_owned(),
            });
        }
        answers
    }

    #[test]
    fn turns_follow_one_another_and_then_what_was_chosen() {
        assert_eq!(played("echo"), ["1", "w", "2", "uncovered", "uncovered"]);
        assert_eq!(played("repeat"), ["1", "w", "2", "1", "2"]);
        assert_eq!(played("last"), ["1", "w", "2", "2", "2"]);
        assert_eq!(played("fail"), ["1", "w", "2", "over", "over"]);
    }

    #[test]
    fn a_bad_script_is_told_before_it_is_played() {
        let why = |text: &str| read(text).expect_err(text);
        assert!(why(r#"{"turns":[{"steps":[{"shout":"x"}]}]}"#).contains("shout"));
        assert!(
            why(r#"{"turns":[{"steps":[{"fail":{"category":"bad luck"}}]}]}"#)
                .contains("not a category")
        );
        assert!(
            why(r#"{"turns":[{"steps":[{"event":{"type":"shout"}}]}]}"#).contains("not a message")
        );
        assert!(why(r#"{"turns":[{"steps":[{"usage":3}]}]}"#).contains("expected a map"));
        assert!(why(r#"{"nope":1}"#).contains("nope"));
        assert!(read(r#"{"turns":[{"steps":["until_stop",{"delay":"1s"},{"exit":3}]}]}"#).is_ok());
    }

    #[test]
    fn texts_hold_what_the_user_said() {
        assert_eq!(
            fill("<{{input}}|{{rest}}>", "please /say hi {{rest}}", "/say"),
            "<please /say hi {{rest}}|hi {{rest}}>"
        );
        assert_eq!(
            fill("{{rest}}, {{input}}", "/say {{input}}", "/say"),
            "{{input}}, /say {{input}}"
        );
        assert_eq!(fill("{{rest}}", "hello", ""), "hello");
    }
}
