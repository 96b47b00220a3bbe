//! Permission requests and questions: their form for an editor, and the meaning of its answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trunkline_protocol::{
    FieldKind, InputRequest, InputResponse, Json, OptionKind, PermissionRequest,
    PermissionResponse, QuestionField, RequestId, SessionId,
};

use crate::update;

/// The key of the value of a question without fields.
const ANSWER: &str = "answer";

/// An option of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OfferedOption {
    id: String,
    name: String,
    kind: OptionKind,
    /// True if the agent offered it, by this id.
    is_agents: bool,
}

/// A request that waits for the editor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EditorRequest {
    Permission(PendingPermission),
    Question(PendingQuestion),
}

/// A permission request that waits for the editor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingPermission {
    request: RequestId,
    choices: Vec<OfferedOption>,
}

/// A question that waits for the editor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingQuestion {
    request: RequestId,
    fields: Vec<QuestionField>,
}

impl PendingPermission {
    /// The request, and the parameters of `session/request_permission`. An option of an unknown kind
    /// is left out, since its effect is unknown.
    pub(crate) fn from_request(session: &SessionId, request: &PermissionRequest) -> (Self, Value) {
        let offered = request.options.iter().flatten();
        let mut choices: Vec<_> = offered
            .filter_map(|option| {
                let name = option.label.clone().unwrap_or_else(|| option.id.clone());
                Some(OfferedOption {
                    id: option.id.clone(),
                    name,
                    kind: option.kind?,
                    is_agents: true,
                })
            })
            .collect();
        for (kind, id, name) in [
            (OptionKind::AllowOnce, "allow", "Allow"),
            (OptionKind::RejectOnce, "reject", "Reject"),
        ] {
            if choices
                .iter()
                .all(|choice| choice.kind.allows() != kind.allows())
            {
                let id = if choices.iter().any(|choice| choice.id == id) {
                    format!("trunkline-{id}")
                } else {
                    id.to_owned()
                };
                choices.push(OfferedOption {
                    id,
                    name: name.to_owned(),
                    kind,
                    is_agents: false,
                });
            }
        }
        let call = request
            .tool_call_id
            .as_ref()
            .map_or(request.request_id.as_str(), |id| id.as_str());
        let words = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let title = words(&request.title).or_else(|| words(&request.description));
        let mut content = Vec::new();
        let about = [&request.description, &request.resource]
            .into_iter()
            .filter_map(words);
        let about: Vec<_> = about.filter(|text| Some(text) != title.as_ref()).collect();
        if !about.is_empty() {
            content.push(update::text_content(&about.join("\n")));
        }
        content.extend(update::diffs(request.diffs.as_deref()));
        let mut tool_call = json!({
            "toolCallId": call,
            "title": title.unwrap_or_else(|| request.tool.clone()),
            "name": request.tool,
            "kind": update::tool_kind(&request.tool),
            "status": "pending",
            "content": content,
        });
        if let Some(input) = request.input.as_ref().and_then(update::value) {
            tool_call["rawInput"] = input;
        }
        let changed: Vec<_> = request.diffs.iter().flatten().collect();
        if !changed.is_empty() {
            let places = changed.iter().map(|diff| json!({ "path": diff.path }));
            tool_call["locations"] = places.collect();
        }
        let options: Vec<_> = choices
            .iter()
            .map(
                |choice| json!({ "optionId": choice.id, "name": choice.name, "kind": choice.kind }),
            )
            .collect();
        let params =
            json!({ "sessionId": session.as_str(), "toolCall": tool_call, "options": options });
        (
            Self {
                request: request.request_id.clone(),
                choices,
            },
            params,
        )
    }

    /// The decision of the editor's answer. Anything but a chosen option that allows denies.
    pub(crate) fn into_response(self, answer: Result<Value, String>) -> PermissionResponse {
        let outcome = answer
            .map(|answer| answer["outcome"].clone())
            .unwrap_or_default();
        let chosen = match outcome["outcome"].as_str() {
            Some("selected") => outcome["optionId"].as_str(),
            _ => None,
        };
        let chosen = chosen.and_then(|id| self.choices.into_iter().find(|choice| choice.id == id));
        let approved = chosen.as_ref().is_some_and(|choice| choice.kind.allows());
        let option_id = chosen
            .filter(|choice| choice.is_agents)
            .map(|choice| choice.id);
        PermissionResponse {
            option_id,
            ..PermissionResponse::new(self.request, approved)
        }
    }
}

impl PendingQuestion {
    /// The request, and the parameters of `elicitation/create`. `None` for a secret: a form shows its input.
    pub(crate) fn from_request(
        session: &SessionId,
        request: &InputRequest,
    ) -> Option<(Self, Value)> {
        let mut fields = request.fields.clone().unwrap_or_default();
        if fields.is_empty() {
            fields.push(QuestionField {
                id: ANSWER.to_owned(),
                required: Some(true),
                ..QuestionField::default()
            });
        }
        if fields
            .iter()
            .any(|field| field.kind == Some(FieldKind::Secret))
        {
            return None;
        }
        let mut properties = Map::new();
        for field in &fields {
            properties.insert(field.id.clone(), field_schema(field));
        }
        let required: Vec<_> = fields
            .iter()
            .filter(|field| field.required == Some(true))
            .map(|field| &field.id)
            .collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let params = json!({
            "mode": "form",
            "sessionId": session.as_str(),
            "message": request.prompt,
            "requestedSchema": schema,
        });
        Some((
            Self {
                request: request.request_id.clone(),
                fields,
            },
            params,
        ))
    }

    /// The values of the editor's answer. Anything but a form that was sent cancels.
    pub(crate) fn into_response(self, answer: Result<Value, String>) -> InputResponse {
        let answer = answer.unwrap_or_default();
        if answer["action"] != "accept" {
            return cancel_question(self.request);
        }
        let mut values = BTreeMap::new();
        for field in self.fields {
            let value = &answer["content"][&field.id];
            let fits = match field.kind.unwrap_or(FieldKind::Text) {
                FieldKind::Text | FieldKind::Secret | FieldKind::Choice => value.is_string(),
                FieldKind::Boolean => value.is_boolean(),
                FieldKind::Number => value.is_number(),
                FieldKind::Choices => value
                    .as_array()
                    .is_some_and(|values| values.iter().all(Value::is_string)),
            };
            if fits && let Ok(value) = Json::from_serialize(value) {
                values.insert(field.id, value);
            } else if field.required == Some(true) {
                return cancel_question(self.request);
            }
        }
        InputResponse {
            request_id: self.request,
            values: Some(values),
            cancelled: None,
        }
    }
}

impl EditorRequest {
    pub(crate) fn request(&self) -> &RequestId {
        match self {
            Self::Permission(asked) => &asked.request,
            Self::Question(asked) => &asked.request,
        }
    }
}

/// The answer that cancels a question.
pub(crate) fn cancel_question(request_id: RequestId) -> InputResponse {
    InputResponse {
        request_id,
        values: None,
        cancelled: Some(true),
    }
}

/// The schema of a form's field.
fn field_schema(field: &QuestionField) -> Value {
    let choices = || {
        let choices = field.choices.iter().flatten();
        let titled = choices.map(|choice| {
            let mut option =
                json!({ "const": choice.id, "title": choice.label.as_ref().unwrap_or(&choice.id) });
            if let Some(text) = &choice.description {
                option["description"] = json!(text);
            }
            option
        });
        titled.collect::<Vec<_>>()
    };
    let mut property = match field.kind.unwrap_or(FieldKind::Text) {
        FieldKind::Text | FieldKind::Secret => json!({ "type": "string" }),
        FieldKind::Boolean => json!({ "type": "boolean" }),
        FieldKind::Number => json!({ "type": "number" }),
        FieldKind::Choice => json!({ "type": "string", "oneOf": choices() }),
        FieldKind::Choices => json!({ "type": "array", "items": { "anyOf": choices() } }),
    };
    if let Some(label) = &field.label {
        property["title"] = json!(label);
    }
    if let Some(default) = field.default.as_ref().and_then(update::value)
        && !default.is_null()
    {
        property["default"] = default;
    }
    property
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::{AdapterBody, AdapterMessage};

    use super::*;

    fn session() -> SessionId {
        SessionId::new("s").unwrap()
    }

    fn permission(options: &str) -> (PendingPermission, Value) {
        let line = format!(
            r#"{{"type":"permission.request","session_id":"s","request_id":"r","tool":"Bash","description":"d","resource":"ls","options":{options}}}"#
        );
        match AdapterMessage::parse(&line).unwrap().body {
            AdapterBody::PermissionRequest(request) => {
                PendingPermission::from_request(&session(), &request)
            }
            body => panic!("{body:?}"),
        }
    }

    #[test]
    fn only_a_chosen_option_that_allows_approves() {
        let options =
            r#"[{"id":"yes","kind":"allow_once"},{"id":"no","kind":"reject_once"},{"id":"odd"}]"#;
        let (asked, params) = permission(options);
        assert_eq!(params["options"].as_array().unwrap().len(), 2, "{params}");
        for (answer, approved, option) in [
            (
                Ok(json!({"outcome": {"outcome": "selected", "optionId": "yes"}})),
                true,
                Some("yes"),
            ),
            (
                Ok(json!({"outcome": {"outcome": "selected", "optionId": "no"}})),
                false,
                Some("no"),
            ),
            (
                Ok(json!({"outcome": {"outcome": "selected", "optionId": "odd"}})),
                false,
                None,
            ),
            (
                Ok(json!({"outcome": {"outcome": "selected", "optionId": "else"}})),
                false,
                None,
            ),
            (Ok(json!({"outcome": {"outcome": "selected"}})), false, None),
            (
                Ok(json!({"outcome": {"outcome": "cancelled", "optionId": "yes"}})),
                false,
                None,
            ),
            (
                Ok(json!({"outcome": "selected", "optionId": "yes"})),
                false,
                None,
            ),
            (Ok(json!(true)), false, None),
            (Err("gone".to_owned()), false, None),
        ] {
            let said = format!("{answer:?}");
            let decided = asked.clone().into_response(answer);
            assert_eq!(
                (decided.approved, decided.option_id.as_deref()),
                (approved, option),
                "{said}"
            );
        }
    }

    /// An option that the agent did not offer has no id for it.
    #[test]
    fn there_is_always_a_way_to_allow_and_one_to_reject() {
        for (options, ids) in [
            ("null", ["allow", "reject"]),
            (
                r#"[{"id":"allow","kind":"reject_once"}]"#,
                ["allow", "trunkline-allow"],
            ),
            (r#"[{"id":"ok","kind":"allow_always"}]"#, ["ok", "reject"]),
        ] {
            let (asked, params) = permission(options);
            let shown: Vec<_> = params["options"]
                .as_array()
                .unwrap()
                .iter()
                .map(|o| &o["optionId"])
                .collect();
            assert_eq!(shown, ids, "{options}");
            for id in ids {
                let answer = json!({"outcome": {"outcome": "selected", "optionId": id}});
                let decided = asked.clone().into_response(Ok(answer));
                assert_eq!(
                    decided.option_id.is_some(),
                    options.contains(&format!("\"{id}\"")),
                    "{options} {id}"
                );
            }
        }
    }

    fn question(fields: &str) -> Option<(PendingQuestion, Value)> {
        let line = format!(
            r#"{{"type":"input.request","session_id":"s","request_id":"r","prompt":"p","fields":{fields}}}"#
        );
        match AdapterMessage::parse(&line).unwrap().body {
            AdapterBody::InputRequest(request) => {
                PendingQuestion::from_request(&session(), &request)
            }
            body => panic!("{body:?}"),
        }
    }

    #[test]
    fn a_form_that_lacks_what_is_required_or_has_another_type_is_no_answer() {
        let (asked, _) =
            question(r#"[{"id":"n","kind":"number","required":true},{"id":"t"}]"#).unwrap();
        for (answer, values) in [
            (
                json!({"action": "accept", "content": {"n": 3, "t": "x"}}),
                Some(2),
            ),
            (
                json!({"action": "accept", "content": {"n": 3, "t": 4}}),
                Some(1),
            ),
            (json!({"action": "accept", "content": {"n": "3"}}), None),
            (json!({"action": "accept"}), None),
            (json!({"action": "decline", "content": {"n": 3}}), None),
            (json!({"action": "cancel"}), None),
            (json!(null), None),
        ] {
            let decided = asked.clone().into_response(Ok(answer.clone()));
            assert_eq!(
                decided.values.map(|values| values.len()),
                values,
                "{answer}"
            );
            assert_eq!(
                decided.cancelled,
                values.is_none().then_some(true),
                "{answer}"
            );
        }
        assert!(
            question(r#"[{"id":"s","kind":"secret"}]"#).is_none(),
            "a form shows it"
        );
        assert!(question("null").unwrap().1["requestedSchema"]["properties"]["answer"].is_object());
    }
}
