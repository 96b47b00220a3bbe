//! Declarations of a session's agent, as an editor sees them: modes, options, commands, title, cost.

use serde_json::{Value, json};
use trunkline_protocol::{
    Command, ContextUsage, Mode, Model, SessionInfo, SessionUpdate, Usage, UsageScope,
};

/// An option that an editor may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Mode,
    Model,
}

/// The declarations of a session's agent, and its cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    model: Option<String>,
    models: Vec<Model>,
    mode: Option<String>,
    modes: Vec<Mode>,
    commands: Vec<Command>,
    title: Option<String>,
    /// True if the adapter reports the agent's own session id, once the agent has the session.
    /// `None`: the adapter did not declare it.
    reports_native_id: Option<bool>,
    has_native_id: bool,
    context: ContextUsage,
    /// In US dollars.
    cost: f64,
    is_costed: bool,
}

impl Setting {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "mode" => Some(Self::Mode),
            "model" => Some(Self::Model),
            _ => None,
        }
    }

    /// The update that sets it.
    pub(crate) fn update(self, value: String) -> SessionUpdate {
        match self {
            Self::Mode => SessionUpdate {
                mode: Some(value),
                ..SessionUpdate::default()
            },
            Self::Model => SessionUpdate {
                model: Some(value),
                ..SessionUpdate::default()
            },
        }
    }
}

impl Facts {
    /// Applies what a `session.info` names.
    pub(crate) fn apply(&mut self, info: &SessionInfo) {
        fn set<T: Clone>(into: &mut T, new: Option<&T>) {
            if let Some(new) = new {
                into.clone_from(new);
            }
        }
        set(&mut self.models, info.models.as_ref());
        set(&mut self.modes, info.modes.as_ref());
        set(&mut self.commands, info.commands.as_ref());
        let capabilities = info.capabilities.as_ref();
        let reports_native_id = capabilities.and_then(|it| it.native_session_ids);
        self.reports_native_id = reports_native_id.or(self.reports_native_id);
        self.has_native_id |= info.native_session_id.is_some();
        for (into, new) in [
            (&mut self.model, &info.model),
            (&mut self.mode, &info.mode),
            (&mut self.title, &info.display_id),
        ] {
            if new.is_some() {
                into.clone_from(new);
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

    /// The value in force.
    pub(crate) fn value(&self, setting: Setting) -> Option<&str> {
        match setting {
            Setting::Mode => self.mode.as_deref(),
            Setting::Model => self.model.as_deref(),
        }
    }

    /// Returns true if the agent offers this value.
    pub(crate) fn has(&self, setting: Setting, value: &str) -> bool {
        match setting {
            Setting::Mode => self.modes.iter().any(|mode| mode.id == value),
            Setting::Model => self.models.iter().any(|model| model.id == value),
        }
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
            let mode = |mode: &Mode| json!({ "id": mode.id, "name": mode.name.as_ref().unwrap_or(&mode.id) });
            let modes: Vec<_> = self.modes.iter().map(mode).collect();
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
        let modes = self.modes.iter().map(|mode| (&mode.id, mode.name.as_ref()));
        let models = self
            .models
            .iter()
            .map(|model| (&model.id, model.label.as_ref()));
        [
            ("mode", "Mode", &self.mode, modes.collect()),
            ("model", "Model", &self.model, models.collect()),
        ]
        .into_iter()
        .filter_map(|(id, name, current, choices): (_, _, _, Vec<_>)| {
            option(id, name, current.as_ref()?, &choices)
        })
        .collect()
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

    /// The title, as an update.
    pub(crate) fn title_update(&self) -> Option<Value> {
        let title = self.title.as_ref()?;
        Some(json!({ "sessionUpdate": "session_info_update", "title": title }))
    }

    /// Tokens and cost, if the size of the context is known.
    pub(crate) fn usage_update(&self) -> Option<Value> {
        let (used, size) = (self.context.used_tokens?, self.context.total_tokens?);
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

/// An option. The value in force can be chosen, even if the agent does not list it.
fn option(
    id: &str,
    name: &str,
    current: &str,
    choices: &[(&String, Option<&String>)],
) -> Option<Value> {
    if choices.is_empty() {
        return None;
    }
    let unlisted = choices.iter().all(|(id, _)| *id != current);
    let unlisted = unlisted.then(|| json!({ "value": current, "name": current }));
    let listed = choices
        .iter()
        .map(|(id, name)| json!({ "value": id, "name": name.unwrap_or(id) }));
    let options: Vec<_> = unlisted.into_iter().chain(listed).collect();
    Some(json!({
        "id": id,
        "name": name,
        "category": id,
        "type": "select",
        "currentValue": current,
        "options": options,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.apply(&SessionInfo {
            model: Some("new".to_owned()),
            models: Some(vec![Model {
                id: "old".to_owned(),
                label: Some("Old".to_owned()),
            }]),
            commands: Some(vec![Command {
                name: "/review".to_owned(),
                text: Some("Review:".to_owned()),
                ..Command::default()
            }]),
            ..SessionInfo::default()
        });
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
        facts.add_cost(&cost(0.5, Some(UsageScope::Turn)));
        facts.add_cost(&cost(0.25, None));
        assert!(facts.usage_update().is_none(), "the context is not known");
        facts.set_context(&ContextUsage {
            used_tokens: Some(7),
            total_tokens: Some(9),
        });
        assert_eq!(facts.usage_update().unwrap()["cost"]["amount"], 0.75);
        facts.add_cost(&cost(2.0, Some(UsageScope::Session)));
        assert_eq!(facts.usage_update().unwrap()["cost"]["amount"], 2.0);
    }
}
