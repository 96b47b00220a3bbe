//! Texts with placeholders: `{{input}}`.

use std::{collections::BTreeMap, fmt::Write};

use serde::de::IgnoredAny;
use serde_json::Value;

/// What stands for a placeholder, for one turn.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pub(crate) input: &'a str,
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    /// The paths of the files that came with the input, one a line.
    pub(crate) files: &'a str,
    pub(crate) named: &'a BTreeMap<&'static str, String>,
    pub(crate) variables: &'a BTreeMap<String, String>,
}

impl<'a> Values<'a> {
    /// What stands for placeholders where there is no turn.
    pub(super) fn sample(
        named: &'a BTreeMap<&'static str, String>,
        variables: &'a BTreeMap<String, String>,
    ) -> Self {
        Self {
            input: "input",
            session_id: "session",
            turn_id: "turn",
            files: "",
            named,
            variables,
        }
    }
}

/// The placeholders that hold an option of the session.
pub(super) const OPTIONS: [&str; 9] = [
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

/// Where values are put, and so how they are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
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
    Value(Placeholder),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    Input,
    SessionId,
    TurnId,
    Files,
    Option(&'static str),
    Variable(String),
}

impl Template {
    /// Reads a text. `{{` that does not close, or closes over what is not a name, is text: JSON is full of braces.
    ///
    /// # Errors
    /// The name, where it is none of ours.
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
            let value = Placeholder::of(name.trim())?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Value(value));
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    pub(super) fn render(&self, values: &Values<'_>, place: Place) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(placeholder) => escape(placeholder.value(values), place, &mut out),
            }
        }
        out
    }

    /// The options of a session that the text holds.
    pub(super) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(Placeholder::Option(name)) => Some(*name),
            Part::Value(Placeholder::Variable(_)) => Some("variables"),
            Part::Value(_) | Part::Text(_) => None,
        })
    }

    pub(super) fn holds_input(&self) -> bool {
        self.0.contains(&Part::Value(Placeholder::Input))
    }

    pub(super) fn holds_files(&self) -> bool {
        self.0.contains(&Part::Value(Placeholder::Files))
    }

    /// Whether it is a JSON object or array, whatever stands for its placeholders.
    pub(super) fn is_json(&self) -> bool {
        let (named, variables) = (BTreeMap::new(), BTreeMap::new());
        let text = self.render(&Values::sample(&named, &variables), Place::Json);
        text.trim_start().starts_with(['{', '['])
            && serde_json::from_str::<IgnoredAny>(&text).is_ok()
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

impl Placeholder {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "input" => Self::Input,
            "session_id" => Self::SessionId,
            "turn_id" => Self::TurnId,
            "files" => Self::Files,
            _ => match (
                OPTIONS.into_iter().find(|option| *option == name),
                name.split_once('.'),
            ) {
                (Some(option), _) => Self::Option(option),
                (None, Some(("variables", variable))) if !variable.is_empty() => {
                    Self::Variable(variable.to_owned())
                }
                _ => {
                    return Err(format!(
                        "`{{{{{name}}}}}` is not a placeholder; there are input, session_id, turn_id, files, {} and variables.NAME",
                        OPTIONS.join(", ")
                    ));
                }
            },
        })
    }

    fn value<'a>(&self, values: &'a Values<'_>) -> &'a str {
        match self {
            Self::Input => values.input,
            Self::SessionId => values.session_id,
            Self::TurnId => values.turn_id,
            Self::Files => values.files,
            Self::Option(name) => values.named.get(name).map_or("", String::as_str),
            Self::Variable(name) => values.variables.get(name).map_or("", String::as_str),
        }
    }
}

fn escape(text: &str, place: Place, out: &mut String) {
    match place {
        Place::Plain => out.push_str(text),
        Place::Json => {
            let quoted = Value::String(text.to_owned()).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
        Place::Url => {
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

    fn values<'a>(
        input: &'a str,
        named: &'a BTreeMap<&'static str, String>,
        variables: &'a BTreeMap<String, String>,
    ) -> Values<'a> {
        Values {
            input,
            session_id: "s-1",
            turn_id: "t-1",
            files: "",
            named,
            variables,
        }
    }

    #[test]
    fn values_are_escaped_for_where_they_stand() {
        let named = BTreeMap::from([("model", "large".to_owned())]);
        let variables = BTreeMap::from([("TEAM".to_owned(), "a&b".to_owned())]);
        let values = values("say \"hi\"\n{{model}} ö", &named, &variables);
        let render = |text: &str, place| Template::parse(text).unwrap().render(&values, place);
        assert_eq!(render("{{input}}", Place::Plain), "say \"hi\"\n{{model}} ö");
        assert_eq!(
            render(r#"{"q":"{{input}}","m":"{{ model }}"}"#, Place::Json),
            r#"{"q":"say \"hi\"\n{{model}} ö","m":"large"}"#
        );
        assert_eq!(
            render("?q={{input}}&t={{variables.TEAM}}", Place::Url),
            "?q=say%20%22hi%22%0A%7B%7Bmodel%7D%7D%20%C3%B6&t=a%26b"
        );
        assert_eq!(
            render("{{session_id}}/{{turn_id}}/{{user_id}}", Place::Plain),
            "s-1/t-1/"
        );
    }

    #[test]
    fn braces_that_hold_no_name_are_text() {
        let fixed = BTreeMap::new();
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
            assert_eq!(
                template.render(&values("x", &BTreeMap::new(), &fixed), Place::Plain),
                text
            );
        }
        let template = Template::parse("{{{input}}}").unwrap();
        assert_eq!(
            template.render(&values("x", &BTreeMap::new(), &fixed), Place::Plain),
            "{x}"
        );
        assert!(template.holds_input());
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
