//! Questions: those of codex, and those of MCP servers.

use serde_json::{Map, Value, json};
use trunkline_sdk::protocol::{Choice, QuestionField};
use trunkline_sdk::{Answer, FieldKind, Json, Question};

use super::{Ask, consent, text};
use crate::agent::read::list;

/// The most fields of a question, and the most choices of a field.
const MOST_FIELDS: usize = 50;

/// How the values of a question are written.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Form {
    /// `{answers: {id: {answers: [text]}}}`.
    Answers,
    /// `{action, content}`.
    Elicitation,
}

pub(super) fn questions(params: &Value) -> Ask {
    let asked: Vec<_> = list(params, "questions").iter().take(MOST_FIELDS).collect();
    let prompt = asked
        .iter()
        .map(|one| text(one, "question"))
        .collect::<Vec<_>>()
        .join("\n");
    let prompt = if prompt.is_empty() {
        "Codex asks for an answer".to_owned()
    } else {
        prompt
    };
    let mut question = Question::new(prompt);
    for one in asked {
        let options = list(one, "options").iter().take(MOST_FIELDS);
        let choices: Vec<_> = options
            .map(|option| Choice {
                id: text(option, "label").to_owned(),
                label: Some(text(option, "label").to_owned()),
                description: option["description"].as_str().map(str::to_owned),
            })
            .collect();
        let kind = match (one.get("isSecret"), choices.is_empty()) {
            (Some(Value::Bool(true)), _) => FieldKind::Secret,
            (_, true) => FieldKind::Text,
            (_, false) => FieldKind::Choice,
        };
        question = question.field(QuestionField {
            id: text(one, "id").to_owned(),
            label: Some(text(one, "question").to_owned()),
            kind: Some(kind),
            choices: (!choices.is_empty()).then_some(choices),
            required: Some(true),
            default: None,
        });
    }
    Ask::Question(question, Form::Answers)
}

/// An MCP server asks. A form without fields asks for consent: a permission.
pub(super) fn elicitation(params: &Value) -> Ask {
    let message = text(params, "message");
    let server = text(params, "serverName");
    let properties = params["requestedSchema"]["properties"].as_object();
    if text(params, "mode") == "url" {
        let prompt = format!("{message}\n{}", text(params, "url"));
        let question = Question::new(prompt).ask_for("done", "Done", FieldKind::Boolean);
        return Ask::Question(question, Form::Elicitation);
    }
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return consent(params, message, server);
    };
    let required = params["requestedSchema"]["required"].as_array();
    let mut question = Question::new(message);
    for (id, schema) in properties.iter().take(MOST_FIELDS) {
        let names = list(schema, "enum").iter().filter_map(Value::as_str);
        let titled = list(schema, "oneOf").iter();
        let titled = titled.filter_map(|one| Some((one.get("const")?.as_str()?, one.get("title"))));
        let choices: Vec<_> = names
            .map(|name| (name, None))
            .chain(titled)
            .take(MOST_FIELDS)
            .map(|(name, title)| Choice {
                id: name.to_owned(),
                label: title.and_then(Value::as_str).map(str::to_owned),
                description: None,
            })
            .collect();
        let kind = match text(schema, "type") {
            "boolean" => FieldKind::Boolean,
            "number" | "integer" => FieldKind::Number,
            "array" => FieldKind::Choices,
            _ if !choices.is_empty() => FieldKind::Choice,
            _ => FieldKind::Text,
        };
        let label = ["title", "description"]
            .iter()
            .find_map(|key| schema.get(*key)?.as_str());
        question = question.field(QuestionField {
            id: id.clone(),
            label: Some(label.unwrap_or(id).to_owned()),
            kind: Some(kind),
            choices: (!choices.is_empty()).then_some(choices),
            required: Some(
                required.is_some_and(|names| names.iter().any(|name| name == id.as_str())),
            ),
            default: schema.get("default").and_then(|value| Json::of(value).ok()),
        });
    }
    Ask::Question(question, Form::Elicitation)
}

impl Form {
    /// The answer to what a person gave; without it, that no one answered.
    pub(crate) fn of(self, answer: &Answer) -> Value {
        let values = answer
            .values
            .iter()
            .map(|(id, value)| (id, value.to::<Value>().unwrap_or_default()));
        match self {
            Self::Answers if answer.is_cancelled() => json!({ "answers": {} }),
            Self::Answers => {
                let texts = |value: Value| match value {
                    Value::Array(values) => values.iter().map(plain).collect(),
                    value => vec![plain(&value)],
                };
                let answers: Map<_, _> = values
                    .map(|(id, value)| (id.clone(), json!({ "answers": texts(value) })))
                    .collect();
                json!({ "answers": answers })
            }
            Self::Elicitation if answer.is_cancelled() => {
                json!({ "action": "cancel", "content": null, "_meta": null })
            }
            Self::Elicitation => {
                let content: Map<_, _> = values.map(|(id, value)| (id.clone(), value)).collect();
                json!({ "action": "accept", "content": content, "_meta": null })
            }
        }
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
