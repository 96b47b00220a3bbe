//! Claude's control protocol: its requests, the answers, and our requests.

use serde_json::{Map, Value, json};
use trunkline_sdk::preview;
use trunkline_sdk::protocol::{Choice, OptionKind, QuestionField};
use trunkline_sdk::{Answer, FieldKind, Json, Permission, Question, ToolCallId};

use super::native::{is_true, list, text};
use crate::agent::turn::{self, UserReply};

/// The most choices of "always" that a request offers.
const MOST_ALWAYS: usize = 4;

/// The most questions of one request, and choices of one question.
const MOST_QUESTIONS: usize = 16;

/// The longest description that a person reads, in characters.
const LONGEST: usize = 4_000;

/// A request for permission, or a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ControlRequest {
    pub(super) request_id: String,
    tool: String,
    input: Value,
    description: Option<String>,
    blocked_path: Option<String>,
    tool_use_id: Option<String>,
    /// The tool call of the sub-agent that asks.
    pub(super) parent: Option<String>,
    suggestions: Vec<Value>,
}

impl ControlRequest {
    /// Reads a `can_use_tool` request.
    pub(super) fn from_request(request_id: &str, request: &Value) -> Self {
        let mut suggestions: Vec<_> = list(request, "permission_suggestions")
            .iter()
            .filter_map(for_session)
            .collect();
        // A rule comes first: a plain "always" means that.
        suggestions.sort_by_key(|suggestion| text(suggestion, "type") != Some("addRules"));
        suggestions.truncate(MOST_ALWAYS);
        Self {
            request_id: request_id.to_owned(),
            tool: text(request, "tool_name").unwrap_or("tool").to_owned(),
            input: request.get("input").cloned().unwrap_or_else(|| json!({})),
            description: text(request, "description").map(str::to_owned),
            blocked_path: text(request, "blocked_path").map(str::to_owned),
            tool_use_id: text(request, "tool_use_id").map(str::to_owned),
            parent: None,
            suggestions,
        }
    }

    pub(super) fn tool_use_id(&self) -> Option<&str> {
        self.tool_use_id.as_deref()
    }

    /// Returns true if it is a question to the user rather than a request for permission.
    fn is_question(&self) -> bool {
        self.tool == "AskUserQuestion" && !list(&self.input, "questions").is_empty()
    }

    /// Returns the request to the user.
    pub(super) fn of_user(&self) -> turn::UserRequest {
        if self.is_question() {
            self.question().into()
        } else {
            self.permission().into()
        }
    }

    /// Returns the permission request to a person.
    pub(super) fn permission(&self) -> Permission {
        let headline = preview::tool_call(&self.tool, Some(&self.input));
        let description = match (self.tool.as_str(), text(&self.input, "plan")) {
            ("ExitPlanMode", plan) => plan.unwrap_or("Carry out the plan").to_owned(),
            _ => match &self.description {
                Some(description) => description.clone(),
                None => headline.clone().unwrap_or_else(|| self.tool.clone()),
            },
        };
        let mut permission = Permission::new(
            preview::cut(&self.tool, 256),
            preview::cut(&description, LONGEST),
            self.resource(),
        )
        .option("allow", "Allow once", OptionKind::AllowOnce);
        for (number, suggestion) in self.suggestions.iter().enumerate() {
            let label = always_label(suggestion);
            permission = permission.option(always_id(number), label, OptionKind::AllowAlways);
        }
        permission = permission.option("deny", "Deny", OptionKind::RejectOnce);
        if let Ok(input) = Json::from_serialize(&self.input) {
            permission = permission.input(input);
        }
        if let Some(headline) = headline {
            permission = permission.title(headline);
        }
        if let Some(call) = self
            .tool_use_id
            .as_ref()
            .and_then(|id| ToolCallId::new(id).ok())
        {
            permission = permission.tool_call(call);
        }
        if let Some(parent) = self.parent.as_ref().and_then(|id| ToolCallId::new(id).ok()) {
            permission = permission.parent(parent);
        }
        let diffs = super::diff::proposed(&self.tool, &self.input);
        if diffs.is_empty() {
            permission
        } else {
            permission.diffs(diffs)
        }
    }

    /// Returns the target of the tool.
    fn resource(&self) -> String {
        const TOLD_BY: [&str; 8] = [
            "command",
            "file_path",
            "notebook_path",
            "path",
            "url",
            "query",
            "pattern",
            "skill",
        ];
        let told = TOLD_BY
            .iter()
            .find_map(|name| text(&self.input, name))
            .or(self.blocked_path.as_deref());
        preview::cut(told.unwrap_or(&self.tool), LONGEST)
    }

    /// The questions as fields.
    pub(super) fn question(&self) -> Question {
        let questions = self.questions();
        let prompt = match questions.as_slice() {
            [one] => text(one, "question").unwrap_or("Claude asks").to_owned(),
            _ => "Claude asks".to_owned(),
        };
        questions.iter().enumerate().fold(
            Question::new(preview::cut(&prompt, LONGEST)),
            |question, (at, asked)| {
                let choices: Vec<Choice> = list(asked, "options")
                    .iter()
                    .take(MOST_QUESTIONS)
                    .filter_map(choice)
                    .collect();
                let kind = match (choices.is_empty(), is_true(asked, "multiSelect")) {
                    (true, _) => FieldKind::Text,
                    (false, true) => FieldKind::Choices,
                    (false, false) => FieldKind::Choice,
                };
                question.field(QuestionField {
                    id: field_id(at),
                    label: text(asked, "question")
                        .or_else(|| text(asked, "header"))
                        .map(|label| preview::cut(label, LONGEST)),
                    kind: Some(kind),
                    choices: (!choices.is_empty()).then_some(choices),
                    required: Some(true),
                    default: None,
                })
            },
        )
    }

    fn questions(&self) -> Vec<&Value> {
        list(&self.input, "questions")
            .iter()
            .take(MOST_QUESTIONS)
            .collect()
    }

    /// The answer as a line for Claude. Nothing but an approval allows.
    pub(super) fn response(&self, reply: &UserReply) -> Value {
        let response = match reply {
            UserReply::Decision(decision) if decision.is_approved() => {
                let changed = decision
                    .updated_input
                    .as_ref()
                    .map(|input| input.to().unwrap_or_default());
                self.allowed(changed, decision.option_id.as_deref())
            }
            UserReply::Decision(decision) => {
                let message = decision
                    .message
                    .as_deref()
                    .filter(|message| !message.is_empty());
                denied(
                    message.unwrap_or("The user denied this."),
                    decision.end_turn,
                )
            }
            UserReply::Answer(answer) if answer.is_cancelled() => {
                denied("The user did not answer.", false)
            }
            UserReply::Answer(answer) => self.answers(answer),
        };
        self::response(&self.request_id, &response)
    }

    fn allowed(&self, changed: Option<Value>, option: Option<&str>) -> Value {
        let input = match changed {
            None => self.input.clone(),
            Some(changed @ Value::Object(_)) => changed,
            Some(_) => {
                return denied(
                    "The user changed the input to something that is not an object.",
                    false,
                );
            }
        };
        let mut response = json!({"behavior": "allow", "updatedInput": input});
        let chosen =
            (0..self.suggestions.len()).find(|number| option == Some(always_id(*number).as_str()));
        if let Some(number) = chosen {
            response["updatedPermissions"] = json!([self.suggestions[number]]);
        }
        response
    }

    fn answers(&self, answer: &Answer) -> Value {
        let mut answers = Map::new();
        for (at, asked) in self.questions().into_iter().enumerate() {
            let value = answer
                .values
                .get(&field_id(at))
                .and_then(|value| value.to::<Value>().ok());
            let said = match value {
                Some(Value::String(text)) => text,
                Some(Value::Array(several)) => {
                    let several: Vec<_> = several.iter().filter_map(Value::as_str).collect();
                    several.join(", ")
                }
                Some(Value::Null) | None => continue,
                Some(other) => other.to_string(),
            };
            if let Some(question) = text(asked, "question") {
                answers.insert(question.to_owned(), Value::String(said));
            }
        }
        let mut input = self.input.clone();
        if let Some(input) = input.as_object_mut() {
            input.insert("answers".to_owned(), Value::Object(answers));
        }
        json!({"behavior": "allow", "updatedInput": input})
    }
}

fn denied(message: &str, ends_turn: bool) -> Value {
    let mut response = json!({"behavior": "deny", "message": message});
    if ends_turn {
        response["interrupt"] = true.into();
    }
    response
}

/// Returns a suggested "from now on" restricted to this session: a suggestion for a settings file
/// would be written into the user's project. A mode that never asks is not offered.
fn for_session(suggestion: &Value) -> Option<Value> {
    let mut suggestion = suggestion.as_object()?.clone();
    match suggestion.get("type")?.as_str()? {
        "addRules"
            if suggestion
                .get("behavior")
                .is_none_or(|behavior| behavior == "allow") => {}
        "setMode"
            if suggestion
                .get("mode")
                .is_some_and(|mode| mode == "acceptEdits") => {}
        "addDirectories" => {}
        _ => return None,
    }
    suggestion.insert("destination".to_owned(), "session".into());
    Some(Value::Object(suggestion))
}

fn always_id(number: usize) -> String {
    if number == 0 {
        "always".to_owned()
    } else {
        format!("always-{}", number + 1)
    }
}

fn always_label(suggestion: &Value) -> String {
    let joined = |name: &str, each: fn(&Value) -> Option<String>| {
        let texts: Vec<_> = list(suggestion, name).iter().filter_map(each).collect();
        preview::cut(&texts.join(", "), 200)
    };
    match text(suggestion, "type") {
        Some("addRules") => {
            let rule = |rule: &Value| {
                let tool = text(rule, "toolName")?;
                Some(
                    text(rule, "ruleContent")
                        .map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")),
                )
            };
            format!("Always allow {} in this session", joined("rules", rule))
        }
        Some("addDirectories") => {
            let folder = |folder: &Value| folder.as_str().map(str::to_owned);
            format!(
                "Allow work in {} in this session",
                joined("directories", folder)
            )
        }
        _ => "Allow all edits in this session".to_owned(),
    }
}

fn choice(option: &Value) -> Option<Choice> {
    let label = text(option, "label").or_else(|| option.as_str())?;
    Some(Choice {
        id: label.to_owned(),
        label: Some(preview::cut(label, 200)),
        description: text(option, "description")
            .map(|description| preview::cut(description, LONGEST)),
    })
}

fn field_id(at: usize) -> String {
    format!("q{}", at + 1)
}

/// A request to Claude.
pub(super) fn request(request_id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": request_id, "request": request})
}

/// The answer to a request of Claude.
pub(super) fn response(request_id: &str, response: &Value) -> Value {
    json!({"type": "control_response", "response":
        {"subtype": "success", "request_id": request_id, "response": response}})
}

/// The answer to a request that is not known here.
pub(super) fn unsupported(request_id: &str, subtype: &str) -> Value {
    let error = format!("unsupported request: {}", preview::cut(subtype, 64));
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": request_id, "error": error}})
}

/// An input of the user.
pub(super) fn user(uuid: &str, content: &[Value]) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": null,
        "session_id": "", "uuid": uuid})
}

#[cfg(test)]
mod tests;
