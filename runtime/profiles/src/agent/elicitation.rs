//! Elicitations of ACP and of MCP: the question that one asks, and the response that the answer makes. Pure.

use serde_json::{Map, Value, json};
use trunkline_sdk::protocol::{Choice, QuestionField};
use trunkline_sdk::{Answer, FieldKind, Json, Question};

use super::read::{list, text};

/// The most fields of a form, and the most choices of a field.
const MAX_FIELDS: usize = 50;

/// The field of a question that has none of its own.
const DONE: &str = "done";

/// The mode of an elicitation, which decides on the form of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elicitation {
    /// Values are entered.
    Form,
    /// Nothing is entered: a page is opened outside of the agent, or a form has no fields.
    Consent,
}

impl Elicitation {
    /// Reads the parameters of an elicitation, and the question that they ask.
    pub(crate) fn read(params: &Value) -> (Question, Self) {
        let message = text(params, "message").unwrap_or("The agent asks for an answer");
        if text(params, "mode") == Some("url") {
            let url = text(params, "url").unwrap_or_default();
            let question = Question::new(format!("{message}\n{url}"));
            return (
                question.ask_for(DONE, "Done", FieldKind::Boolean),
                Self::Consent,
            );
        }
        let schema = &params["requestedSchema"];
        let required = list(schema, "required");
        let fields = schema["properties"].as_object();
        let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
            let question = Question::new(message);
            return (
                question.ask_for(DONE, "Accept", FieldKind::Boolean),
                Self::Consent,
            );
        };
        let question = fields.iter().take(MAX_FIELDS).fold(
            Question::new(message),
            |question, (id, schema)| {
                let is_required = required.iter().any(|name| name.as_str() == Some(id));
                question.field(field(id, schema, is_required))
            },
        );
        (question, Self::Form)
    }

    /// The response that an answer makes. Without an answer the elicitation is cancelled.
    pub(crate) fn response(self, answer: &Answer) -> Value {
        if answer.is_cancelled() {
            return json!({ "action": "cancel" });
        }
        let values = answer.values.iter();
        let values =
            values.map(|(id, value)| (id.clone(), value.to::<Value>().unwrap_or_default()));
        let content: Map<_, _> = values.collect();
        match self {
            Self::Form => json!({ "action": "accept", "content": content }),
            Self::Consent if content.get(DONE) == Some(&Value::Bool(false)) => {
                json!({ "action": "decline" })
            }
            Self::Consent => json!({ "action": "accept" }),
        }
    }
}

/// The field of a form that a schema describes.
fn field(id: &str, schema: &Value, is_required: bool) -> QuestionField {
    let kind = text(schema, "type").unwrap_or_default();
    // A list names the choices of its items.
    let values = if kind == "array" {
        &schema["items"]
    } else {
        schema
    };
    let plain = list(values, "enum").iter().filter_map(Value::as_str);
    let plain = plain.map(|value| Choice {
        id: value.to_owned(),
        ..Choice::default()
    });
    let titled = list(values, "oneOf").iter().chain(list(values, "anyOf"));
    let titled = titled.filter_map(|one| {
        Some(Choice {
            id: one.get("const")?.as_str()?.to_owned(),
            label: text(one, "title").map(str::to_owned),
            description: text(one, "description").map(str::to_owned),
        })
    });
    let choices: Vec<_> = plain.chain(titled).take(MAX_FIELDS).collect();
    let kind = match kind {
        "boolean" => FieldKind::Boolean,
        "number" | "integer" => FieldKind::Number,
        "array" => FieldKind::Choices,
        _ if !choices.is_empty() => FieldKind::Choice,
        _ => FieldKind::Text,
    };
    let label = text(schema, "title").or(text(schema, "description"));
    QuestionField {
        id: id.to_owned(),
        label: Some(label.unwrap_or(id).to_owned()),
        kind: Some(kind),
        choices: (!choices.is_empty()).then_some(choices),
        required: Some(is_required),
        default: schema
            .get("default")
            .and_then(|value| Json::from_serialize(value).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_field_is_read_with_its_choices() {
        let params = json!({ "mode": "form", "message": "Where?", "requestedSchema": { "required": ["zone"], "properties": {
            "copies": { "type": "integer", "default": 2 },
            "dry": { "type": "boolean", "title": "Dry run" },
            "note": { "type": "string", "description": "A remark" },
            "plain": { "type": "string", "enum": ["a", "b"] },
            "tags": { "type": "array", "items": { "anyOf": [{ "const": "x", "title": "X" }] } },
            "words": { "type": "array", "items": { "type": "string", "enum": ["y"] } },
            "zone": { "type": "string", "oneOf": [{ "const": "eu", "title": "Europe", "description": "three zones" }, 7] },
        } } });
        let shown = format!("{:?}", Elicitation::read(&params).0);
        for part in [
            r#"id: "copies", label: Some("copies"), kind: Some(Number), choices: None, required: Some(false), default: Some("#,
            r#"label: Some("Dry run"), kind: Some(Boolean)"#,
            r#"label: Some("A remark"), kind: Some(Text)"#,
            r#"kind: Some(Choice), choices: Some([Choice { id: "a", label: None, description: None }, Choice { id: "b""#,
            r#"kind: Some(Choices), choices: Some([Choice { id: "x", label: Some("X")"#,
            r#"kind: Some(Choices), choices: Some([Choice { id: "y""#,
            r#"description: Some("three zones") }]), required: Some(true)"#,
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        for params in [
            json!(null),
            json!({ "requestedSchema": { "properties": { "a": 7 } } }),
        ] {
            drop(Elicitation::read(&params));
        }
    }
}
