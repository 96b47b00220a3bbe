//! Modes, models and options of a session: what may be chosen, and how the choice is reported.

use serde_json::{Value, json};
use trunkline_sdk::SessionInfo;
use trunkline_sdk::protocol::{AgentOption, AgentOptionKind, Choice as OptionChoice, Mode, Model};

use super::read::{json, list, text};

/// The most modes and models that are reported.
const MOST: usize = 512;

/// The providers of the agents that name a model as `PROVIDER/MODEL` and are one themselves.
const GATEWAYS: [&str; 2] = ["kilo", "opencode"];

/// The values of one kind that a session may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ValueChoice {
    pub(crate) values: Vec<NamedValue>,
    pub(crate) current: Option<String>,
    /// Configuration option for the choice, if there is no method of its own.
    pub(crate) option: Option<String>,
    /// An option beside that method, and the ids that it takes: they may be others.
    beside: Option<(String, Vec<NamedValue>)>,
}

/// A value that may be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedValue {
    id: String,
    /// The text for a person.
    name: Option<String>,
    description: Option<String>,
}

impl NamedValue {
    /// Reads a value whose id is the member `id`.
    fn read(value: &Value, id: &str) -> Option<Self> {
        let owned = |member: &str| text(value, member).map(str::to_owned);
        Some(Self {
            id: owned(id)?,
            name: owned("name"),
            description: owned("description"),
        })
    }
}

/// The most options of an agent that are read.
const MAX_OPTIONS: usize = 64;

/// Modes, models, efforts and the agent's own options.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Choices {
    pub(crate) mode: ValueChoice,
    pub(crate) model: ValueChoice,
    pub(crate) effort: ValueChoice,
    /// The options that choose no mode and no model; the effort's is one of them.
    options: Vec<AgentOption>,
}

/// A request that chooses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choosing {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    /// The id that is chosen.
    pub(crate) id: String,
}

impl ValueChoice {
    /// The id of a value that is asked for: an id, a name, or the last part of an id that is a URL.
    fn find<'v>(values: &'v [NamedValue], asked: &str) -> Option<&'v str> {
        let ids = || values.iter().map(|value| value.id.as_str());
        let last = |id: &&str| {
            id.rsplit(['#', '/'])
                .next()
                .is_some_and(|last| last.eq_ignore_ascii_case(asked))
        };
        let named = |value: &&NamedValue| {
            let name = value.name.as_deref();
            name.is_some_and(|name| name.eq_ignore_ascii_case(asked))
        };
        ids()
            .find(|id| *id == asked)
            .or_else(|| ids().find(|id| id.eq_ignore_ascii_case(asked)))
            .or_else(|| values.iter().find(named).map(|value| value.id.as_str()))
            .or_else(|| ids().filter(|id| id.contains("://")).find(last))
    }

    /// The ids, for an error.
    pub(crate) fn listed(&self) -> String {
        let ids: Vec<&str> = self
            .values
            .iter()
            .take(40)
            .map(|value| value.id.as_str())
            .collect();
        ids.join(", ")
    }

    fn read_list(&mut self, state: &Value, values: &str, id: &str, current: &str) {
        let listed = list(state, values).iter().take(MOST);
        let values: Vec<_> = listed
            .filter_map(|value| NamedValue::read(value, id))
            .collect();
        if !values.is_empty() {
            self.values = values;
            self.option = None;
        }
        if let Some(current) = text(state, current) {
            self.current = Some(current.to_owned());
        }
    }

    fn read_option(&mut self, option: &Value, id: &str) {
        let values = option_values(option);
        let values: Vec<_> = values
            .filter_map(|value| NamedValue::read(value, "value"))
            .collect();
        if self.values.is_empty() || self.option.is_some() {
            self.option = Some(id.to_owned());
            self.values = values;
        } else {
            self.beside = Some((id.to_owned(), values));
        }
        if let Some(current) = text(option, "currentValue") {
            self.current = Some(current.to_owned());
        }
    }

    /// The request for a value that is asked for; nothing where there is none of that name.
    fn choose(
        &self,
        session: &str,
        asked: &str,
        method: &'static str,
        member: &str,
    ) -> Option<Choosing> {
        if let Some(id) = Self::find(&self.values, asked) {
            return Some(self.choose_id(session, id, method, member));
        }
        let (option, values) = self.beside.as_ref()?;
        Some(by_option(session, option, Self::find(values, asked)?))
    }

    fn choose_id(&self, session: &str, id: &str, method: &'static str, member: &str) -> Choosing {
        match &self.option {
            Some(option) => by_option(session, option, id),
            None => Choosing {
                method,
                params: json!({ "sessionId": session, member: id }),
                id: id.to_owned(),
            },
        }
    }
}

/// The values of an option. They may be in groups.
fn option_values(option: &Value) -> impl Iterator<Item = &Value> {
    let values = list(option, "options").iter();
    let flat = values.flat_map(|one| match list(one, "options") {
        [] => std::slice::from_ref(one),
        group => group,
    });
    flat.take(MOST)
}

/// An option of the agent's own. `None` if it is of an unknown kind.
fn own_option(option: &Value, id: &str) -> Option<AgentOption> {
    let owned = |value: &Value, name: &str| text(value, name).map(str::to_owned);
    let (kind, choices) = match text(option, "type") {
        Some("boolean") => (AgentOptionKind::Boolean, None),
        Some("select") | None => {
            let choices = option_values(option).filter_map(|value| {
                let NamedValue {
                    id,
                    name,
                    description,
                } = NamedValue::read(value, "value")?;
                Some(OptionChoice {
                    id,
                    label: name,
                    description,
                })
            });
            let choices = choices.collect();
            (AgentOptionKind::Select, Some(choices))
        }
        Some(_) => return None,
    };
    Some(AgentOption {
        id: id.to_owned(),
        label: owned(option, "name"),
        description: owned(option, "description"),
        category: owned(option, "category"),
        kind: Some(kind),
        value: option.get("currentValue").and_then(json),
        choices,
    })
}

fn by_option(session: &str, option: &str, id: &str) -> Choosing {
    let params = json!({ "sessionId": session, "configId": option, "value": id });
    Choosing {
        method: "session/set_config_option",
        params,
        id: id.to_owned(),
    }
}

impl Choices {
    /// Reads the answer to `session/new` or `session/load`, or an update of the options.
    pub(crate) fn read(&mut self, answer: &Value) {
        if let Some(modes) = answer.get("modes") {
            self.mode
                .read_list(modes, "availableModes", "id", "currentModeId");
        }
        if let Some(models) = answer.get("models") {
            self.model
                .read_list(models, "availableModels", "modelId", "currentModelId");
        }
        let options = list(answer, "configOptions");
        if answer.get("configOptions").is_some_and(Value::is_array) {
            self.options.clear();
        }
        for option in options.iter().take(MAX_OPTIONS) {
            let Some(id) = text(option, "id") else {
                continue;
            };
            match text(option, "category").unwrap_or(id) {
                "mode" => self.mode.read_option(option, id),
                "model" => self.model.read_option(option, id),
                kind => {
                    if kind == "thought_level" {
                        self.effort.read_option(option, id);
                    }
                    self.options.extend(own_option(option, id));
                }
            }
        }
    }

    /// The request for a mode; nothing where the agent has none of that name.
    pub(crate) fn choose_mode(&self, session: &str, asked: &str) -> Option<Choosing> {
        self.mode
            .choose(session, asked, "session/set_mode", "modeId")
    }

    /// The request for a model. A model that the agent does not list may still be one.
    pub(crate) fn choose_model(&self, session: &str, asked: &str) -> Option<Choosing> {
        if self.model.values.is_empty() {
            return None;
        }
        let method = "session/set_model";
        let member = "modelId";
        let listed = self.model.choose(session, asked, method, member);
        Some(listed.unwrap_or_else(|| self.model.choose_id(session, asked, method, member)))
    }

    /// Returns true if the model in force belongs to a provider that the user has configured: a
    /// gateway of the agent's own needs a login.
    pub(crate) fn has_configured_provider(&self) -> bool {
        let provider = self
            .model
            .current
            .as_deref()
            .and_then(|model| model.split_once('/'));
        provider.is_some_and(|(provider, _)| !GATEWAYS.contains(&provider))
    }

    /// The request for an effort.
    pub(crate) fn choose_effort(&self, session: &str, asked: &str) -> Option<Choosing> {
        self.effort.option.as_ref()?;
        self.effort.choose(session, asked, "", "")
    }

    /// The request for a value of one of the agent's own options.
    ///
    /// # Errors
    /// The reason why the option cannot have the value.
    pub(crate) fn choose_option(
        &self,
        session: &str,
        id: &str,
        value: &Value,
    ) -> Result<Choosing, String> {
        let option = self.options.iter().find(|option| option.id == id);
        let option = option.ok_or("the agent has no such option")?;
        let mut choices = option.choices.iter().flatten();
        match (option.kind, value) {
            (Some(AgentOptionKind::Boolean), Value::Bool(_)) => Ok(Choosing {
                method: "session/set_config_option",
                params: json!({ "sessionId": session, "configId": id, "type": "boolean", "value": value }),
                id: value.to_string(),
            }),
            (Some(AgentOptionKind::Select), Value::String(name))
                if choices.any(|choice| choice.id == *name) =>
            {
                Ok(by_option(session, id, name))
            }
            _ => Err(format!("it cannot be {value}")),
        }
    }

    /// Notes the value that an option has now.
    pub(crate) fn set_option(&mut self, id: &str, value: &Value) {
        if let Some(option) = self.options.iter_mut().find(|option| option.id == id) {
            option.value = json(value);
        }
        if self.effort.option.as_deref() == Some(id) {
            self.effort.current = value.as_str().map(str::to_owned);
        }
    }

    /// Reports them to the host.
    pub(crate) fn info(&self) -> SessionInfo {
        let modes = self.mode.values.iter().cloned().map(|mode| Mode {
            id: mode.id,
            name: mode.name,
            description: mode.description,
        });
        let models = self.model.values.iter().cloned().map(|model| Model {
            id: model.id,
            label: model.name,
            description: model.description,
        });
        SessionInfo {
            mode: self.mode.current.clone(),
            modes: (!self.mode.values.is_empty()).then(|| modes.collect()),
            model: self.model.current.clone(),
            models: (!self.model.values.is_empty()).then(|| models.collect()),
            reasoning_effort: self.effort.current.clone(),
            options: (!self.options.is_empty()).then(|| self.options.clone()),
            ..SessionInfo::default()
        }
    }
}

/// Returns true if an agent in a mode of this name never asks, or runs anything.
pub(crate) fn is_dangerous_mode(id: &str) -> bool {
    let id: String = id
        .to_ascii_lowercase()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let words = [
        "yolo",
        "bypass",
        "fullaccess",
        "autopilot",
        "danger",
        "allowall",
        "unrestricted",
    ];
    words
        .iter()
        .chain(&["skippermission", "autoapprove", "never"])
        .any(|word| id.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_chosen_by_their_method_or_by_an_option() {
        let mut choices = Choices::default();
        choices.read(&json!({
            "modes": {"availableModes": [{"id": "https://x/modes#plan", "name": "Plan", "description": "edits nothing"}, {"id": 7}], "currentModeId": "https://x/modes#agent"},
            "configOptions": [
                {"id": "mode", "category": "mode", "type": "select", "currentValue": "https://x/modes#agent", "options": [{"value": "other"}]},
                {"id": "m", "category": "model", "currentValue": "a/b", "options": [{"name": "group", "options": [{"value": "a/b"}, {"value": "a/c", "name": "C", "description": "c"}]}]},
            ],
        }));
        let mode = choices.choose_mode("s", "plan").unwrap();
        assert_eq!(
            (mode.method, mode.params),
            (
                "session/set_mode",
                json!({"sessionId": "s", "modeId": "https://x/modes#plan"})
            )
        );
        assert_eq!(choices.choose_mode("s", "none"), None);
        let model = choices.choose_model("s", "c").unwrap();
        assert_eq!(
            (model.method, model.params),
            (
                "session/set_config_option",
                json!({"sessionId": "s", "configId": "m", "value": "a/c"})
            )
        );
        assert_eq!(choices.choose_effort("s", "high"), None);
        let info = choices.info();
        let plan =
            json!([{"id": "https://x/modes#plan", "name": "Plan", "description": "edits nothing"}]);
        assert_eq!(json!(info.modes), plan);
        let models = json!([{"id": "a/b"}, {"id": "a/c", "label": "C", "description": "c"}]);
        assert_eq!(json!(info.models), models);
    }

    #[test]
    fn a_model_that_only_the_option_knows_is_chosen_by_it() {
        let mut choices = Choices::default();
        choices.read(&json!({
            "models": {"availableModels": [{"modelId": "a[low]"}, {"modelId": "a[high]"}], "currentModelId": "b[low]"},
            "configOptions": [
                {"id": "model", "category": "model", "currentValue": "b", "options": [{"value": "a", "name": "A"}, {"value": "b"}]},
            ],
        }));
        for (asked, method, params) in [
            (
                "a[high]",
                "session/set_model",
                json!({"sessionId": "s", "modelId": "a[high]"}),
            ),
            (
                "a",
                "session/set_config_option",
                json!({"sessionId": "s", "configId": "model", "value": "a"}),
            ),
            (
                "A",
                "session/set_config_option",
                json!({"sessionId": "s", "configId": "model", "value": "a"}),
            ),
            (
                "c",
                "session/set_model",
                json!({"sessionId": "s", "modelId": "c"}),
            ),
        ] {
            let model = choices.choose_model("s", asked).unwrap();
            assert_eq!((model.method, model.params), (method, params), "{asked}");
        }
        assert_eq!(choices.info().models.unwrap().len(), 2);
    }

    #[test]
    fn options_of_the_agents_own_are_listed_and_set() {
        let mut choices = Choices::default();
        let read = json!({ "configOptions": [
            { "id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask", "options": [{ "value": "ask", "name": "Ask" }] },
            { "id": "effort", "name": "Effort", "category": "thought_level", "type": "select", "currentValue": "low", "options": [{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }] },
            { "id": "speed", "name": "Speed", "description": "d", "category": "model_config", "type": "select", "currentValue": "fast",
              "options": [{ "group": "g", "name": "G", "options": [{ "value": "fast", "name": "Fast", "description": "f" }] }] },
            { "id": "web", "name": "Web", "type": "boolean", "currentValue": false },
            { "id": "of_unknown_type", "name": "X", "type": "range", "currentValue": 3 },
        ] });
        choices.read(&read);
        let shown = |choices: &Choices| json!(choices.info().options);
        assert_eq!(
            shown(&choices),
            json!([
                { "id": "effort", "label": "Effort", "category": "thought_level", "kind": "select", "value": "low", "choices": [{ "id": "low", "label": "Low" }, { "id": "high", "label": "High" }] },
                { "id": "speed", "label": "Speed", "description": "d", "category": "model_config", "kind": "select", "value": "fast", "choices": [{ "id": "fast", "label": "Fast", "description": "f" }] },
                { "id": "web", "label": "Web", "kind": "boolean", "value": false },
            ])
        );
        for (id, value, params) in [
            (
                "web",
                json!(true),
                Some(
                    json!({ "sessionId": "s", "configId": "web", "type": "boolean", "value": true }),
                ),
            ),
            (
                "speed",
                json!("fast"),
                Some(json!({ "sessionId": "s", "configId": "speed", "value": "fast" })),
            ),
            ("speed", json!("slow"), None),
            ("speed", json!(true), None),
            ("web", json!("true"), None),
            ("mode", json!("ask"), None),
        ] {
            let choosing = choices.choose_option("s", id, &value);
            assert_eq!(
                choosing.ok().map(|choosing| choosing.params),
                params,
                "{id} {value}"
            );
        }
        choices.set_option("effort", &json!("high"));
        assert_eq!(shown(&choices)[0]["value"], "high");
        assert_eq!(choices.info().reasoning_effort.as_deref(), Some("high"));
        // An answer without options changes none, and an empty list removes them.
        choices.read(&json!({}));
        assert_eq!(shown(&choices).as_array().unwrap().len(), 3);
        choices.read(&json!({ "configOptions": [] }));
        assert_eq!(shown(&choices), json!(null));
    }

    #[test]
    fn any_shape_is_read() {
        let mut choices = Choices::default();
        for answer in [
            json!(null),
            json!({"modes": [], "models": 3, "configOptions": [{"id": 1}, {"id": "mode", "options": {}}]}),
        ] {
            choices.read(&answer);
        }
        assert!(choices.choose_mode("s", "x").is_none());
    }

    #[test]
    fn modes_that_ask_no_one_are_known() {
        for id in [
            "yolo",
            "bypassPermissions",
            "agent-full-access",
            "https://x#autopilot",
            "danger-full-access",
            "auto-approve",
            "never",
        ] {
            assert!(is_dangerous_mode(id), "{id}");
        }
        for id in [
            "default",
            "plan",
            "autoEdit",
            "acceptEdits",
            "read-only",
            "code",
            "dontAsk",
        ] {
            assert!(!is_dangerous_mode(id), "{id}");
        }
    }
}
