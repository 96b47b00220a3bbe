//! Modes and models of a session: what may be chosen, and how the choice is reported.

use serde_json::{Value, json};
use trunkline_sdk::SessionInfo;
use trunkline_sdk::protocol::{Mode, Model};

use super::read::{list, text};

/// The most modes and models that are reported.
const MOST: usize = 512;

/// The providers of the agents that name a model as `PROVIDER/MODEL` and are one themselves.
const GATEWAYS: [&str; 2] = ["kilo", "opencode"];

/// What a session may choose, of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) values: Vec<Named>,
    pub(crate) current: Option<String>,
    /// The configuration option that chooses, where no method of its own does.
    option: Option<String>,
    /// An option beside that method, and the ids that it takes: they may be others.
    beside: Option<(String, Vec<Named>)>,
}

/// An id, and what a person reads.
type Named = (String, Option<String>);

/// Modes, models and efforts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) mode: Choice,
    pub(crate) model: Choice,
    pub(crate) effort: Choice,
}

/// A request that chooses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choosing {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    /// The id that is chosen.
    pub(crate) id: String,
}

impl Choice {
    /// The id of a value that is asked for: an id, a name, or the last part of an id that is a URL.
    fn find<'v>(values: &'v [Named], asked: &str) -> Option<&'v str> {
        let ids = || values.iter().map(|(id, _)| id.as_str());
        let last = |id: &&str| {
            id.rsplit(['#', '/'])
                .next()
                .is_some_and(|last| last.eq_ignore_ascii_case(asked))
        };
        let named = |(_, name): &&Named| {
            name.as_deref()
                .is_some_and(|name| name.eq_ignore_ascii_case(asked))
        };
        ids()
            .find(|id| *id == asked)
            .or_else(|| ids().find(|id| id.eq_ignore_ascii_case(asked)))
            .or_else(|| values.iter().find(named).map(|(id, _)| id.as_str()))
            .or_else(|| ids().filter(|id| id.contains("://")).find(last))
    }

    /// The ids, for an error.
    pub(crate) fn listed(&self) -> String {
        let ids: Vec<&str> = self
            .values
            .iter()
            .take(40)
            .map(|(id, _)| id.as_str())
            .collect();
        ids.join(", ")
    }

    fn read_list(&mut self, state: &Value, values: &str, id: &str, current: &str) {
        let read = |one: &Value| {
            Some((
                text(one, id)?.to_owned(),
                text(one, "name").map(str::to_owned),
            ))
        };
        let values: Vec<_> = list(state, values)
            .iter()
            .take(MOST)
            .filter_map(read)
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
        let read = |one: &Value| {
            Some((
                text(one, "value")?.to_owned(),
                text(one, "name").map(str::to_owned),
            ))
        };
        // Options may stand in groups, which hold options of their own.
        let flat = list(option, "options")
            .iter()
            .flat_map(|one| match list(one, "options") {
                [] => std::slice::from_ref(one),
                group => group,
            });
        let values: Vec<_> = flat.take(MOST).filter_map(read).collect();
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
        for option in list(answer, "configOptions").iter().take(64) {
            let Some(id) = text(option, "id") else {
                continue;
            };
            match text(option, "category").unwrap_or(id) {
                "mode" => self.mode.read_option(option, id),
                "model" => self.model.read_option(option, id),
                "thought_level" => self.effort.read_option(option, id),
                _ => {}
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
        let (method, member) = ("session/set_model", "modelId");
        let listed = self.model.choose(session, asked, method, member);
        Some(listed.unwrap_or_else(|| self.model.choose_id(session, asked, method, member)))
    }

    /// Whether the model in force is one of a provider that the user has configured: a gateway of the agent's own needs a
    /// login.
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

    /// What a host learns of them.
    pub(crate) fn info(&self) -> SessionInfo {
        let list = |choice: &Choice| (!choice.values.is_empty()).then(|| choice.values.clone());
        SessionInfo {
            mode: self.mode.current.clone(),
            modes: list(&self.mode).map(|modes| {
                modes
                    .into_iter()
                    .map(|(id, name)| Mode { id, name })
                    .collect()
            }),
            model: self.model.current.clone(),
            models: list(&self.model).map(|models| {
                models
                    .into_iter()
                    .map(|(id, label)| Model { id, label })
                    .collect()
            }),
            reasoning_effort: self.effort.current.clone(),
            ..SessionInfo::default()
        }
    }
}

/// Whether the agent asks no one in a mode of this name, or runs what it likes.
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
            "modes": {"availableModes": [{"id": "https://x/modes#plan", "name": "Plan"}, {"id": 7}], "currentModeId": "https://x/modes#agent"},
            "configOptions": [
                {"id": "mode", "category": "mode", "type": "select", "currentValue": "https://x/modes#agent", "options": [{"value": "other"}]},
                {"id": "m", "category": "model", "currentValue": "a/b", "options": [{"name": "group", "options": [{"value": "a/b"}, {"value": "a/c", "name": "C"}]}]},
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
        assert_eq!(choices.info().modes.unwrap().len(), 1);
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
