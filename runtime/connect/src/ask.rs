//! Questions: the hub's page shows them with buttons, and the text of a button comes as an ordinary
//! message.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trunkline_protocol::{Choice, FieldKind, InputRequest, Json, QuestionField, RequestId};

use crate::show;

/// A question that waits for the answers to its fields, one by one.
#[derive(Debug)]
pub(crate) struct PendingQuestion {
    pub(crate) request_id: RequestId,
    prompt: String,
    fields: Vec<QuestionField>,
    values: BTreeMap<String, Json>,
}

/// The effect of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum AnswerOutcome {
    /// All fields have a value.
    Whole(BTreeMap<String, Json>),
    /// The next field is shown, or the same again with the reason.
    Next(Option<String>),
}

impl PendingQuestion {
    /// A question of an agent. `None` if it asks for a secret: the hub stores all messages.
    pub(crate) fn new(request: InputRequest) -> Option<Self> {
        let mut fields = request.fields.unwrap_or_default();
        if fields.is_empty() {
            fields.push(QuestionField {
                id: "answer".to_owned(),
                ..QuestionField::default()
            });
        }
        let secret = fields
            .iter()
            .any(|field| field.kind == Some(FieldKind::Secret));
        (!secret).then(|| Self {
            request_id: request.request_id,
            prompt: request.prompt,
            fields,
            values: BTreeMap::new(),
        })
    }

    /// The text of the next field on the channel `question`.
    pub(crate) fn shown(&self) -> String {
        let Some(field) = self.fields.get(self.values.len()) else {
            return String::new();
        };
        let question = match &field.label {
            Some(label) if self.fields.len() == 1 && self.prompt.is_empty() => label.clone(),
            Some(label) if self.values.is_empty() => format!("{}\n{label}", self.prompt),
            Some(label) => label.clone(),
            None => self.prompt.clone(),
        };
        let options: Vec<_> = match field.kind {
            Some(FieldKind::Boolean) => vec![json!({ "label": "Yes" }), json!({ "label": "No" })],
            _ => {
                let choices = field.choices.iter().flatten();
                let option = |choice: &Choice| {
                    let label = choice.label.as_ref().unwrap_or(&choice.id);
                    match &choice.description {
                        Some(text) => json!({ "label": label, "description": text }),
                        None => json!({ "label": label }),
                    }
                };
                choices.map(option).collect()
            }
        };
        let multiple = field.kind == Some(FieldKind::Choices);
        let questions = json!([{
            "question": show::cut(&question, 64 * 1024),
            "header": show::cut(field.label.as_deref().unwrap_or(&field.id), 256),
            "options": options,
            "multiSelect": multiple,
        }]);
        json!({ "type": "tool_use", "name": "AskUserQuestion", "input": { "questions": questions } })
            .to_string()
    }

    /// Applies the answer to the field that was shown.
    pub(crate) fn answer(&mut self, text: &str) -> AnswerOutcome {
        let Some(field) = self.fields.get(self.values.len()) else {
            return AnswerOutcome::Whole(std::mem::take(&mut self.values));
        };
        let value = match parse_answer(field, text) {
            Ok(value) => value,
            Err(why) => return AnswerOutcome::Next(Some(why)),
        };
        let value = Json::from_serialize(&value).ok();
        self.values
            .extend(value.map(|value| (field.id.clone(), value)));
        if self.values.len() < self.fields.len() {
            AnswerOutcome::Next(None)
        } else {
            AnswerOutcome::Whole(std::mem::take(&mut self.values))
        }
    }
}

/// Parses the text of an answer.
fn parse_answer(field: &QuestionField, text: &str) -> Result<Value, String> {
    let answer_text = text.trim();
    let choice = |answer_text: &str| {
        let choices = field.choices.iter().flatten();
        let is_meant = |name: &str| name.trim().eq_ignore_ascii_case(answer_text);
        let mut found = choices.filter(|choice| {
            is_meant(choice.label.as_deref().unwrap_or(&choice.id)) || is_meant(&choice.id)
        });
        found.next().map(|choice| Value::from(choice.id.clone()))
    };
    match field.kind {
        Some(FieldKind::Boolean) => match answer_text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "y" => Ok(Value::Bool(true)),
            "no" | "false" | "n" => Ok(Value::Bool(false)),
            _ => Err("answer with Yes or No".to_owned()),
        },
        Some(FieldKind::Number) => {
            let number = answer_text.parse().map(Value::Number);
            number.map_err(|_| "answer with a number".to_owned())
        }
        Some(FieldKind::Choice) => {
            choice(answer_text).ok_or_else(|| "answer with one of the choices".to_owned())
        }
        Some(FieldKind::Choices) => {
            // A label may have a comma of its own.
            if let Some(one) = choice(answer_text) {
                return Ok(Value::Array(vec![one]));
            }
            let parts = answer_text
                .split([',', '\n'])
                .map(str::trim)
                .filter(|part| !part.is_empty());
            let all: Option<Vec<_>> = parts.map(choice).collect();
            all.map(Value::Array)
                .ok_or_else(|| "answer with choices, with commas between".to_owned())
        }
        Some(FieldKind::Text | FieldKind::Secret) | None => Ok(Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(id: &str, kind: FieldKind, choices: &[(&str, &str)]) -> QuestionField {
        let choices = choices.iter().map(|(id, label)| Choice {
            id: (*id).to_owned(),
            label: Some((*label).to_owned()),
            description: None,
        });
        QuestionField {
            id: id.to_owned(),
            kind: Some(kind),
            choices: Some(choices.collect()),
            ..QuestionField::default()
        }
    }

    fn asked(fields: Vec<QuestionField>) -> Option<PendingQuestion> {
        let request_id = RequestId::new("r").unwrap();
        PendingQuestion::new(InputRequest {
            request_id,
            prompt: "Where?".to_owned(),
            fields: Some(fields),
            expires_at: None,
        })
    }

    #[test]
    fn fields_are_asked_one_by_one_and_labels_mean_their_ids() {
        let choices = [("eu", "Europe"), ("us", "The US, east")];
        let mut asked = asked(vec![
            field("where", FieldKind::Choice, &choices),
            field("also", FieldKind::Choices, &choices),
            field("dry", FieldKind::Boolean, &[]),
            field("copies", FieldKind::Number, &[]),
            field("note", FieldKind::Text, &[]),
        ])
        .unwrap();
        let shown: Value = serde_json::from_str(&asked.shown()).unwrap();
        assert_eq!(
            shown["input"]["questions"][0]["options"][1]["label"],
            "The US, east"
        );
        assert!(matches!(asked.answer("Mars"), AnswerOutcome::Next(Some(_))));
        for text in ["europe ", "The US, east", "No", "3"] {
            assert_eq!(asked.answer(text), AnswerOutcome::Next(None), "{text}");
        }
        let AnswerOutcome::Whole(values) = asked.answer(" as it is ") else {
            panic!("not whole")
        };
        let values = serde_json::to_value(values).unwrap();
        let expected = json!({ "where": "eu", "also": ["us"], "dry": false, "copies": 3, "note": " as it is " });
        assert_eq!(values, expected);
    }

    #[test]
    fn a_question_without_fields_is_a_text_and_one_for_a_secret_is_not_asked() {
        let mut text = asked(Vec::new()).unwrap();
        assert!(text.shown().contains("Where?"));
        assert!(
            matches!(text.answer(""), AnswerOutcome::Whole(values) if values.contains_key("answer"))
        );
        assert!(asked(vec![field("key", FieldKind::Secret, &[])]).is_none());
    }
}
