//! Declarations of a session's agent, as an editor sees them: modes, options, commands, title, cost.

use serde_json::{Value, json};
use trunkline_protocol::{
    AgentOption, AgentOptionKind, Choice, Command, ContextUsage, Json, Mode, Model, SessionInfo,
    SessionUpdate, Usage, UsageScope,
};

/// Efforts that are offered beside the one in force by agents that do not list theirs.
const EFFORTS: [&str; 3] = ["low", "medium", "high"];

/// The category of options for the effort.
const EFFORT: &str = "thought_level";

/// An option that an editor may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Mode,
    Model,
    Effort,
    /// An option of the agent's own, by its id.
    Own(String),
}

/// The declarations of a session's agent, and its cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    model: Option<String>,
    models: Vec<Model>,
    mode: Option<String>,
    modes: Vec<Mode>,
    effort: Option<String>,
    /// The agent's own options.
    own_options: Vec<AgentOption>,
    /// True if the editor knows options that are on or off.
    pub(crate) has_booleans: bool,
    commands: Vec<Command>,
    /// The agent's title of the session.
    title: Option<String>,
    /// The title that a user gave the session ([journal.13]), which replaces the agent's.
    edited_title: Option<String>,
    /// The time of the last change of a title, RFC 3339.
    title_time: Option<String>,
    /// True if the adapter reports the agent's own session id, once the agent has the session.
    /// `None`: the adapter did not declare it.
    reports_native_id: Option<bool>,
    /// True if the adapter reports models and modes once its agent has started.
    lists_choices: bool,
    has_native_id: bool,
    /// Values that were in force first and that the agent does not list, at most one of each
    /// setting. They can be chosen again.
    unlisted: Vec<(Setting, String)>,
    context: ContextUsage,
    /// In US dollars.
    cost: f64,
    is_costed: bool,
}

impl Setting {
    /// The options that are not the agent's own, with their titles.
    const COMMON: [(Self, &str); 3] = [
        (Self::Mode, "Mode"),
        (Self::Model, "Model"),
        (Self::Effort, "Reasoning effort"),
    ];

    /// The id of the option in ACP; of one that is not the agent's own also the category.
    fn id(&self) -> &str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => EFFORT,
            Self::Own(id) => id,
        }
    }
}

/// A value whose name is its id.
fn unnamed(id: &str) -> Choice {
    Choice {
        id: id.to_owned(),
        ..Choice::default()
    }
}

/// A value as ACP lists it. `id` is the member that has the id.
fn offered_value(value: &Choice, id: &str) -> Value {
    let name = value.label.as_ref().unwrap_or(&value.id);
    let mut offered = json!({ id: value.id, "name": name });
    if let Some(description) = &value.description {
        offered["description"] = json!(description);
    }
    offered
}

impl Facts {
    /// Applies the members of a `session.info`, an entry of this time.
    pub(crate) fn apply(&mut self, info: &SessionInfo, time: Option<String>) {
        fn set<T: Clone>(into: &mut T, new: Option<&T>) {
            if let Some(new) = new {
                into.clone_from(new);
            }
        }
        set(&mut self.models, info.models.as_ref());
        set(&mut self.modes, info.modes.as_ref());
        set(&mut self.commands, info.commands.as_ref());
        set(&mut self.own_options, info.options.as_ref());
        let capabilities = info.capabilities.as_ref();
        let reports_native_id = capabilities.and_then(|it| it.native_session_ids);
        self.reports_native_id = reports_native_id.or(self.reports_native_id);
        self.lists_choices |= capabilities.and_then(|it| it.lists_choices) == Some(true);
        self.has_native_id |= info.native_session_id.is_some();
        if info.display_id.is_some() {
            self.title_time = time;
        }
        for (into, new) in [
            (&mut self.model, &info.model),
            (&mut self.mode, &info.mode),
            (&mut self.effort, &info.reasoning_effort),
            (&mut self.title, &info.display_id),
        ] {
            if new.is_some() {
                into.clone_from(new);
            }
        }
        self.note_unlisted();
    }

    /// Notes values in force that the agent does not list.
    fn note_unlisted(&mut self) {
        let settings: Vec<_> = self.settings().collect();
        self.unlisted.retain(|(noted, _)| settings.contains(noted));
        for setting in settings {
            let listed = self.listed(&setting);
            let Some(Value::String(current)) = self.value(&setting) else {
                continue;
            };
            let is_listed = listed.is_empty() || listed.iter().any(|value| value.id == current);
            if !is_listed && self.unlisted.iter().all(|(noted, _)| *noted != setting) {
                self.unlisted.push((setting, current));
            }
        }
    }

    /// Returns true if the modes and models of a new session are known after this report. The first
    /// report has `options_applied` ([ext.7]): adapters send it before their agents have started.
    pub(crate) fn are_known_after(&self, info: &SessionInfo) -> bool {
        let has_modes = !self.modes.is_empty();
        let has_models = !self.models.is_empty();
        if has_modes != self.mode.is_some() || has_models != self.model.is_some() {
            return false;
        }
        let is_first = info.options_applied.is_some();
        let is_static = match self.reports_native_id {
            Some(reports) => !reports,
            None => is_first && (has_modes || has_models),
        };
        has_modes && has_models || self.has_native_id || is_static
    }

    /// Returns true if the adapter of a new session reports models and modes when its agent has
    /// started, and the agent has not.
    pub(crate) fn has_agent_to_start(&self) -> bool {
        self.lists_choices && !self.has_native_id
    }

    /// Notes the tokens in the context.
    pub(crate) fn set_context(&mut self, usage: &ContextUsage) {
        self.context.used_tokens = usage.used_tokens.or(self.context.used_tokens);
        self.context.total_tokens = usage.total_tokens.or(self.context.total_tokens);
    }

    /// Adds the cost of a turn, or sets the session's. Returns true if it has one.
    pub(crate) fn add_cost(&mut self, usage: &Usage) -> bool {
        let Some(cost) = usage.cost_usd else {
            return false;
        };
        match usage.scope {
            Some(UsageScope::Session) => self.cost = cost,
            Some(UsageScope::Turn) | None => self.cost += cost,
        }
        self.is_costed = true;
        true
    }

    /// The option of this id.
    pub(crate) fn setting(&self, id: &str) -> Option<Setting> {
        self.settings().find(|setting| setting.id() == id)
    }

    fn settings(&self) -> impl Iterator<Item = Setting> {
        let common = self.common().map(|(setting, _)| setting);
        let own = self.own().map(|option| Setting::Own(option.id.clone()));
        common.chain(own)
    }

    /// The options that are not the agent's own. One of its own for the effort has its values.
    fn common(&self) -> impl Iterator<Item = (Setting, &'static str)> {
        let mut own = self.own_options.iter();
        let lists_efforts = own.any(|option| option.category.as_deref() == Some(EFFORT));
        let is_offered = move |setting: &Setting| !lists_efforts || *setting != Setting::Effort;
        let common = Setting::COMMON.into_iter();
        common.filter(move |(setting, _)| is_offered(setting))
    }

    /// The agent's own options, except for ids that have another meaning.
    fn own(&self) -> impl Iterator<Item = &AgentOption> {
        let is_common = |id: &str| self.common().any(|(setting, _)| setting.id() == id);
        let own = self.own_options.iter();
        own.filter(move |option| !is_common(&option.id))
    }

    fn own_option(&self, id: &str) -> Option<&AgentOption> {
        self.own().find(|option| option.id == id)
    }

    /// The update that sets an option. An effort is set as such, which every session may do.
    pub(crate) fn update(&self, setting: &Setting, value: &Value) -> SessionUpdate {
        let mut update = SessionUpdate::default();
        let text = value.as_str().map(str::to_owned);
        match setting {
            Setting::Mode => update.mode = text,
            Setting::Model => update.model = text,
            Setting::Effort => update.reasoning_effort = text,
            Setting::Own(id) => {
                let category = self.own_option(id).and_then(|it| it.category.as_deref());
                if category == Some(EFFORT) && self.effort.is_some() && text.is_some() {
                    update.reasoning_effort = text;
                } else if let Ok(value) = Json::from_serialize(value) {
                    update.options = Some([(id.clone(), value)].into());
                }
            }
        }
        update
    }

    /// The value in force.
    pub(crate) fn value(&self, setting: &Setting) -> Option<Value> {
        let text = match setting {
            Setting::Mode => &self.mode,
            Setting::Model => &self.model,
            Setting::Effort => &self.effort,
            Setting::Own(id) => return self.own_option(id)?.value.as_ref()?.to().ok(),
        };
        text.clone().map(Value::from)
    }

    /// The values that the agent lists.
    fn listed(&self, setting: &Setting) -> Vec<Choice> {
        let from_mode = |mode: &Mode| Choice {
            id: mode.id.clone(),
            label: mode.name.clone(),
            description: mode.description.clone(),
        };
        let from_model = |model: &Model| Choice {
            id: model.id.clone(),
            label: model.label.clone(),
            description: model.description.clone(),
        };
        match setting {
            Setting::Mode => self.modes.iter().map(from_mode).collect(),
            Setting::Model => self.models.iter().map(from_model).collect(),
            Setting::Effort => EFFORTS.map(unnamed).into(),
            Setting::Own(id) => {
                let choices = self.own_option(id).and_then(|it| it.choices.clone());
                choices.unwrap_or_default()
            }
        }
    }

    /// The values that may be chosen: the listed ones, and the first and the current value if they are
    /// not listed. Empty if the agent lists none.
    fn offered(&self, setting: &Setting) -> Vec<Choice> {
        let mut values = self.listed(setting);
        if values.is_empty() {
            return values;
        }
        let first = self.unlisted.iter().find(|(noted, _)| noted == setting);
        let current = self.value(setting);
        let current = current.as_ref().and_then(Value::as_str);
        for id in first.map(|(_, id)| id.as_str()).into_iter().chain(current) {
            if values.iter().all(|value| value.id != id) {
                values.insert(0, unnamed(id));
            }
        }
        values
    }

    /// Returns true if this value may be set.
    pub(crate) fn has(&self, setting: &Setting, value: &Value) -> bool {
        let is_boolean = matches!(setting, Setting::Own(id)
            if self.own_option(id).and_then(|it| it.kind) == Some(AgentOptionKind::Boolean));
        if is_boolean {
            return value.is_boolean();
        }
        let mut offered = self.offered(setting).into_iter();
        value.is_string()
            && (self.value(setting).as_ref() == Some(value)
                || offered.any(|offered| *value == *offered.id))
    }

    /// Replaces a command at the beginning of an input by its text.
    pub(crate) fn expand_command(&self, text: String) -> String {
        let Some(line) = text.strip_prefix('/') else {
            return text;
        };
        let name = line.split_whitespace().next().unwrap_or_default();
        let command = self
            .commands
            .iter()
            .find(|command| plain(&command.name) == name);
        match command.and_then(|command| command.text.as_deref()) {
            Some(said) => format!("{said}{}", &line[name.len()..]),
            None => text,
        }
    }

    /// The modes, if the agent has some and one is in force.
    pub(crate) fn modes(&self) -> Option<Value> {
        let current = self.mode.as_ref()?;
        (!self.modes.is_empty()).then(|| {
            let offered = self.offered(&Setting::Mode).into_iter();
            let modes: Vec<_> = offered.map(|mode| offered_value(&mode, "id")).collect();
            json!({ "currentModeId": current, "availableModes": modes })
        })
    }

    /// The mode in force, as an update.
    pub(crate) fn mode_update(&self) -> Option<Value> {
        let current = self.mode.as_ref()?;
        Some(json!({ "sessionUpdate": "current_mode_update", "currentModeId": current }))
    }

    /// The options that may be set, with their values in force.
    pub(crate) fn options(&self) -> Vec<Value> {
        let common = self.common().filter_map(|(setting, name)| {
            let mut option = self.select(&setting)?;
            option["name"] = json!(name);
            option["category"] = json!(setting.id());
            Some(option)
        });
        let own = self.own().filter_map(|it| self.described(it));
        common.chain(own).collect()
    }

    /// An option of the agent's own, unless the editor does not know its kind.
    fn described(&self, own: &AgentOption) -> Option<Value> {
        let mut option = match own.kind? {
            AgentOptionKind::Select => self.select(&Setting::Own(own.id.clone()))?,
            AgentOptionKind::Boolean => {
                let value: bool = own.value.as_ref()?.to().ok()?;
                let option = json!({ "id": own.id, "type": "boolean", "currentValue": value });
                self.has_booleans.then_some(option)?
            }
        };
        option["name"] = json!(own.label.as_ref().unwrap_or(&own.id));
        for (name, text) in [
            ("category", &own.category),
            ("description", &own.description),
        ] {
            if let Some(text) = text {
                option[name] = json!(text);
            }
        }
        Some(option)
    }

    /// An option with choices.
    fn select(&self, setting: &Setting) -> Option<Value> {
        let current = self.value(setting)?;
        let current = current.as_str()?;
        let values = self.offered(setting);
        if values.is_empty() {
            return None;
        }
        let values = values.iter().map(|value| offered_value(value, "value"));
        Some(json!({
            "id": setting.id(),
            "type": "select",
            "currentValue": current,
            "options": values.collect::<Vec<_>>(),
        }))
    }

    /// The options, as an update.
    pub(crate) fn options_update(&self) -> Value {
        json!({ "sessionUpdate": "config_option_update", "configOptions": self.options() })
    }

    /// The commands, as an update.
    pub(crate) fn commands_update(&self) -> Option<Value> {
        let command = |command: &Command| {
            let mut told = json!({
                "name": plain(&command.name),
                "description": command.description.as_deref().unwrap_or_default(),
            });
            if let Some(hint) = &command.hint {
                told["input"] = json!({ "hint": hint });
            }
            told
        };
        let commands: Vec<_> = self.commands.iter().map(command).collect();
        (!commands.is_empty())
            .then(|| json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }))
    }

    /// Sets the user's title, by an entry of this time. The empty text removes it.
    pub(crate) fn set_title(&mut self, title: &str, time: Option<String>) {
        self.edited_title = Some(title.to_owned()).filter(|title| !title.is_empty());
        self.title_time = time;
    }

    /// The title, as an update.
    pub(crate) fn title_update(&self) -> Option<Value> {
        let title = self.edited_title.as_ref().or(self.title.as_ref());
        if title.is_none() && self.title_time.is_none() {
            return None;
        }
        // Without a title it is `null`, which removes the one that the editor has.
        let mut update = json!({ "sessionUpdate": "session_info_update", "title": title });
        if let Some(time) = &self.title_time {
            update["updatedAt"] = json!(time);
        }
        Some(update)
    }

    /// Tokens and cost, if the agent has reported some. A size of 0 is not known: ACP requires one.
    pub(crate) fn usage_update(&self) -> Option<Value> {
        let used = self.context.used_tokens;
        if used.is_none() && !self.is_costed {
            return None;
        }
        let size = self.context.total_tokens.unwrap_or_default();
        let used = used.unwrap_or_default();
        let mut update = json!({ "sessionUpdate": "usage_update", "used": used, "size": size });
        if self.is_costed {
            update["cost"] = json!({ "amount": self.cost, "currency": "USD" });
        }
        Some(update)
    }
}

/// A command's name without the slash that editors put before it.
fn plain(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let mut facts = Facts::default();
        let info = SessionInfo {
            model: Some("new".to_owned()),
            models: Some(vec![Model {
                id: "old".to_owned(),
                label: Some("Old".to_owned()),
                description: None,
            }]),
            commands: Some(vec![Command {
                name: "/review".to_owned(),
                text: Some("Review:".to_owned()),
                ..Command::default()
            }]),
            ..SessionInfo::default()
        };
        facts.apply(&info, None);
        facts
    }

    #[test]
    fn the_value_in_force_can_always_be_chosen() {
        let options = facts().options();
        assert_eq!(options.len(), 1, "no modes were declared: {options:?}");
        assert_eq!(
            options[0]["options"],
            json!([{"value": "new", "name": "new"}, {"value": "old", "name": "Old"}])
        );
        assert!(facts().modes().is_none());
    }

    #[test]
    fn modes_and_values_are_described() {
        let mut facts = Facts::default();
        let text = |text: &str| Some(text.to_owned());
        facts.apply(
            &SessionInfo {
                mode: text("plan"),
                modes: Some(vec![Mode {
                    id: "plan".to_owned(),
                    name: text("Plan"),
                    description: text("edits nothing"),
                }]),
                model: text("large"),
                models: Some(vec![Model {
                    id: "large".to_owned(),
                    description: text("thinks longest"),
                    ..Model::default()
                }]),
                ..SessionInfo::default()
            },
            None,
        );
        let modes = facts.modes().unwrap();
        assert_eq!(
            modes["availableModes"],
            json!([{"id": "plan", "name": "Plan", "description": "edits nothing"}])
        );
        let described = |option: &Value| option["options"][0]["description"].clone();
        let descriptions: Vec<_> = facts.options().iter().map(described).collect();
        assert_eq!(descriptions, ["edits nothing", "thinks longest"]);
    }

    #[test]
    fn a_value_that_only_the_configuration_names_can_be_chosen_again() {
        let mut facts = facts();
        let values = |facts: &Facts, setting: &Setting| -> Vec<String> {
            let offered = facts.offered(setting).into_iter();
            offered.map(|value| value.id).collect()
        };
        let option = |value: &str| AgentOption {
            id: "speed".to_owned(),
            kind: Some(AgentOptionKind::Select),
            value: Json::from_serialize(&json!(value)).ok(),
            choices: Some(vec![unnamed("fast"), unnamed("slow")]),
            ..AgentOption::default()
        };
        let info = |model: &str, effort: &str, speed: &str| SessionInfo {
            model: Some(model.to_owned()),
            models: Some(vec![Model {
                id: "old".to_owned(),
                ..Model::default()
            }]),
            reasoning_effort: Some(effort.to_owned()),
            options: Some(vec![option(speed)]),
            ..SessionInfo::default()
        };
        facts.apply(&info("new", "xhigh", "warp"), None);
        let own = Setting::Own("speed".to_owned());
        for (model, effort, speed) in [("old", "low", "fast"), ("other", "ultra", "slow")] {
            facts.apply(&info(model, effort, speed), None);
            for (setting, value) in [
                (&Setting::Model, "new"),
                (&Setting::Model, model),
                (&Setting::Effort, "xhigh"),
                (&Setting::Effort, effort),
                (&own, "warp"),
            ] {
                assert!(facts.has(setting, &json!(value)), "{setting:?} {value}");
            }
        }
        assert_eq!(values(&facts, &Setting::Model), ["other", "new", "old"]);
        assert!(!facts.has(&Setting::Model, &json!("none")));
        // What the agent does not offer any longer is forgotten.
        let none = SessionInfo {
            options: Some(Vec::new()),
            ..SessionInfo::default()
        };
        facts.apply(&none, None);
        facts.apply(&info("old", "low", "fast"), None);
        assert_eq!(values(&facts, &own), ["fast", "slow"]);
    }

    #[test]
    fn a_command_is_said_as_the_agent_reads_it() {
        for (said, meant) in [
            ("/review a.rs b", "Review: a.rs b"),
            ("/review", "Review:"),
            ("/reviews a", "/reviews a"),
            ("review a", "review a"),
            ("/", "/"),
        ] {
            assert_eq!(facts().expand_command(said.to_owned()), meant);
        }
        assert_eq!(
            facts().commands_update().unwrap()["availableCommands"][0]["name"],
            "review"
        );
    }

    #[test]
    fn the_cost_of_turns_adds_up_and_that_of_the_session_replaces() {
        let mut facts = Facts::default();
        let cost = |usd, scope| Usage {
            cost_usd: Some(usd),
            scope,
            ..Usage::default()
        };
        assert!(!facts.add_cost(&Usage::default()));
        assert!(facts.usage_update().is_none(), "nothing is known");
        facts.add_cost(&cost(0.5, Some(UsageScope::Turn)));
        facts.add_cost(&cost(0.25, None));
        let update = facts.usage_update().unwrap();
        assert_eq!((&update["used"], &update["size"]), (&json!(0), &json!(0)));
        assert_eq!(update["cost"]["amount"], 0.75);
        facts.set_context(&ContextUsage {
            used_tokens: Some(7),
            total_tokens: Some(9),
        });
        assert_eq!(facts.usage_update().unwrap()["cost"]["amount"], 0.75);
        facts.add_cost(&cost(2.0, Some(UsageScope::Session)));
        assert_eq!(facts.usage_update().unwrap()["cost"]["amount"], 2.0);
    }
}
