//! Texts with placeholders: `{{input}}`.

use std::{collections::BTreeMap, fmt::Write};

use serde::de::IgnoredAny;
use serde_json::Value;
use trunkline_sdk::SessionStart;

/// The placeholders that hold something of the turn. `files` are the paths of the files that came
/// with the input, one a line.
pub(super) const OF_TURN: [&str; 4] = ["input", "session_id", "turn_id", "files"];

/// The placeholders that hold an option of the session.
const OPTIONS: [&str; 9] = [
    "agent_id",
    "user_id",
    "task_id",
    "run_id",
    "role",
    "iteration",
    "model",
    "temperature",
    "system_prompt",
];

/// Prefix of the placeholders that hold a variable of the session.
const VARIABLES: &str = "variables.";

/// Values of placeholders, by their names. A placeholder without a value is empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(BTreeMap<String, String>);

impl<'a, T: IntoIterator<Item = (&'a str, &'a str)>> From<T> for Values {
    fn from(values: T) -> Self {
        let owned = values.into_iter();
        Self(
            owned
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

impl Values {
    /// Values that hold for every turn of a session.
    pub(super) fn of_session(start: SessionStart) -> Self {
        let given = [
            start.agent_id,
            start.user_id,
            start.task_id,
            start.run_id,
            start.role,
            start.iteration.map(|iteration| iteration.to_string()),
            start.model,
            start.temperature.map(|temperature| temperature.to_string()),
            start.system_prompt,
        ];
        let options = OPTIONS.into_iter().zip(given);
        let options = options.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let variables = start.variables.into_iter().flatten();
        let variables = variables.map(|(name, value)| (format!("{VARIABLES}{name}"), value));
        Self(options.chain(variables).collect())
    }

    /// Values for a look at a template when there is no turn.
    pub(super) fn sample() -> Self {
        Self::from([
            ("input", "input"),
            ("session_id", "session"),
            ("turn_id", "turn"),
        ])
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }
}

/// Place of a value, which decides how it is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValuePosition {
    /// As they are.
    Plain,
    /// Inside a JSON string.
    Json,
    /// In a URL.
    Url,
}

/// A text that was read once, so that a mistyped placeholder is known before the first turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A placeholder, by its name.
    Value(String),
}

impl Template {
    /// Reads a text. `{{` that does not close, or closes over something that is not a name, is
    /// text: JSON is full of braces.
    ///
    /// # Errors
    /// The name, if it is unknown.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut plain = String::new();
        while let Some(at) = rest.find("{{") {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            let name = from[2..]
                .split_once("}}")
                .map(|(name, _)| name)
                .filter(|name| is_name(name.trim()));
            let Some(name) = name else {
                plain.push('{');
                rest = &from[1..];
                continue;
            };
            rest = &from[name.len() + 4..];
            let name = name.trim();
            if !is_placeholder(name) {
                return Err(format!(
                    "`{{{{{name}}}}}` is not a placeholder; there are {}, {} and variables.NAME",
                    OF_TURN.join(", "),
                    OPTIONS.join(", ")
                ));
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Value(name.to_owned()));
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    pub(super) fn render(&self, values: &Values, place: ValuePosition) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(name) => escape(values.get(name).unwrap_or_default(), place, &mut out),
            }
        }
        out
    }

    fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The options of a session that the text holds.
    pub(super) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.placeholders().filter_map(|name| {
            if name.starts_with(VARIABLES) {
                return Some("variables");
            }
            OPTIONS.into_iter().find(|option| *option == name)
        })
    }

    /// Returns true if the text holds this placeholder.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.placeholders().any(|held| held == name)
    }

    /// Returns true if the text is a JSON object or array for any values.
    pub(super) fn is_json(&self) -> bool {
        let text = self.render(&Values::sample(), ValuePosition::Json);
        text.trim_start().starts_with(['{', '['])
            && serde_json::from_str::<IgnoredAny>(&text).is_ok()
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.placeholders().next().is_none()
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn is_placeholder(name: &str) -> bool {
    let variable = name.strip_prefix(VARIABLES);
    variable.is_some_and(|variable| !variable.is_empty())
        || OF_TURN.contains(&name)
        || OPTIONS.contains(&name)
}

fn escape(text: &str, place: ValuePosition, out: &mut String) {
    match place {
        ValuePosition::Plain => out.push_str(text),
        ValuePosition::Json => {
            let quoted = Value::String(text.to_owned()).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
        ValuePosition::Url => {
            for byte in text.bytes() {
                if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
                    out.push(char::from(byte));
                } else {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "%{byte:02X}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Values {
        let mut values = Values::from([("session_id", "s-1"), ("turn_id", "t-1")]);
        for (name, value) in given {
            values.set(name, value);
        }
        values
    }

    #[test]
    fn values_are_escaped_for_where_they_stand() {
        let values = values([
            ("input", "say \"hi\"\n{{model}} ö"),
            ("model", "large"),
            ("variables.TEAM", "a&b"),
        ]);
        let render = |text: &str, place| Template::parse(text).unwrap().render(&values, place);
        assert_eq!(
            render("{{input}}", ValuePosition::Plain),
            "say \"hi\"\n{{model}} ö"
        );
        assert_eq!(
            render(
                r#"{"q":"{{input}}","m":"{{ model }}"}"#,
                ValuePosition::Json
            ),
            r#"{"q":"say \"hi\"\n{{model}} ö","m":"large"}"#
        );
        assert_eq!(
            render("?q={{input}}&t={{variables.TEAM}}", ValuePosition::Url),
            "?q=say%20%22hi%22%0A%7B%7Bmodel%7D%7D%20%C3%B6&t=a%26b"
        );
        assert_eq!(
            render(
                "{{session_id}}/{{turn_id}}/{{user_id}}",
                ValuePosition::Plain
            ),
            "s-1/t-1/"
        );
    }

    #[test]
    fn braces_that_hold_no_name_are_text() {
        let values = values([("input", "x")]);
        for text in [
            "{{",
            "{{}}",
            r#"{"a":{"b":1}}"#,
            "{{a b}}",
            "}} {{",
            "{{{\"a\"}}}",
        ] {
            let template = Template::parse(text).unwrap();
            assert!(template.is_fixed(), "{text}");
            assert_eq!(template.render(&values, ValuePosition::Plain), text);
        }
        let template = Template::parse("{{{input}}}").unwrap();
        assert_eq!(template.render(&values, ValuePosition::Plain), "{x}");
        assert!(template.holds("input"));
    }

    #[test]
    fn json_is_known_by_its_looks() {
        let is_json = |text: &str| Template::parse(text).unwrap().is_json();
        assert!(is_json(r#" {"q":"{{input}}","n":[1,"{{model}}"]}"#) && is_json("[]"));
        assert!(
            !is_json("{{input}}")
                && !is_json(r#"{"q":{{input}}}"#)
                && !is_json("\"text\"")
                && !is_json("{")
        );
    }

    #[test]
    fn an_unknown_name_is_told() {
        assert!(
            Template::parse("a {{imput}}")
                .unwrap_err()
                .contains("`{{imput}}` is not a placeholder")
        );
        assert!(Template::parse("{{variables.}}").is_err());
        let options: Vec<_> = Template::parse("{{model}}{{variables.X}}{{input}}")
            .unwrap()
            .options()
            .collect();
        assert_eq!(options, ["model", "variables"]);
    }
}
