//! Questions: of codex, and of MCP servers.

use serde_json::{Map, Value, json};
use trunkline_sdk::protocol::{Choice, QuestionField};
use trunkline_sdk::{Answer, FieldKind, Question};

use super::{ApprovalRequest, consent, text};
use crate::agent::elicitation::Elicitation;
use crate::agent::read::list;

/// The most fields of a question, and the most choices of a field.
const MOST_FIELDS: usize = 50;

/// Encoding of a question's values.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum ValueEncoding {
    /// `{answers: {id: {answers: [text]}}}`.
    Answers,
    /// `{action, content}`.
    Elicitation(Elicitation),
}

pub(super) fn questions(params: &Value) -> ApprovalRequest {
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
    ApprovalRequest::Question(question, ValueEncoding::Answers)
}

/// A question of an MCP server. A form without fields asks for consent: a permission.
pub(super) fn elicitation(params: &Value) -> ApprovalRequest {
    let is_empty = |fields: &Map<String, Value>| fields.is_empty();
    let fields = params["requestedSchema"]["properties"].as_object();
    if text(params, "mode") != "url" && fields.is_none_or(is_empty) {
        return consent(params, text(params, "message"), text(params, "serverName"));
    }
    let (question, elicitation) = Elicitation::read(params);
    ApprovalRequest::Question(question, ValueEncoding::Elicitation(elicitation))
}

impl ValueEncoding {
    /// Returns the answer with a person's values; without them, that there is no answer.
    pub(crate) fn into_reply(self, answer: &Answer) -> Value {
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
            Self::Elicitation(elicitation) => {
                let mut response = elicitation.response(answer);
                response["_meta"] = Value::Null;
                response
            }
        }
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
