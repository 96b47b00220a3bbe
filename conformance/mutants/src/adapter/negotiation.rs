//! Agreement of a session at its start, and the options in force ([ext.2], [ext.7]).

use serde_json::{Value, json};

use crate::{
    fields::{Field, Fields},
    message::{Members, Message},
    schema::ExtensionSet,
    switches::{Mutant::*, Variant::*, broken, varied},
};

/// The version that this program speaks.
pub(crate) const PROTOCOL: u64 = 1;

/// Content of `session.start`.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Version of the host, if it named one.
    pub(crate) protocol: Option<u64>,
    /// True if the host mentions extensions at all. Otherwise only the core is written.
    pub(crate) offered: bool,
    pub(crate) agreed: ExtensionSet,
    /// The conversation to resume: absent, or its native id, which may be missing.
    pub(crate) resume: Option<Option<String>>,
    pub(crate) options: ActiveOptions,
}

impl Start {
    /// Reads the fields of extensions; each that is odd is absent ([msg.5]).
    pub(crate) fn read(fields: &Fields<'_>) -> Self {
        let offer = fields.texts("extensions").optional().unwrap_or_default();
        let agreed = ExtensionSet::named(&offer);
        if broken(UnknownExtensionExits) && offer.len() > agreed.names().len() {
            std::process::exit(1);
        }
        let resume = match fields.value("resume") {
            Field::Is(Value::Object(resume)) if agreed.has(ExtensionSet::RESUME) => {
                let native = if varied(ResumesByParams) {
                    resume.get("params").and_then(|params| params.get("from"))
                } else {
                    resume.get("native_session_id")
                };
                Some(native.and_then(Value::as_str).map(str::to_owned))
            }
            _ => None,
        };
        let options = if agreed.has(ExtensionSet::OPTIONS) {
            ActiveOptions::read(fields)
        } else {
            ActiveOptions::default()
        };
        let protocol = fields
            .value("protocol")
            .optional()
            .and_then(|number| number.as_u64());
        Self {
            protocol,
            offered: !offer.is_empty(),
            agreed,
            resume,
            options,
        }
    }

    /// Returns true if the host's version is not served here.
    pub(crate) fn is_foreign(&self) -> bool {
        self.offered && self.protocol == Some(0)
    }

    /// Returns the first message of the session, if there is one ([ext.2]).
    pub(crate) fn ready(&self, native_id: &str, context: Option<&str>) -> Option<Message> {
        if !self.offered {
            return None;
        }
        let mut extensions = self.agreed.names();
        if broken(ReadyClaimsAll) {
            extensions = ExtensionSet::ALL.names();
        }
        let asked = self.protocol.unwrap_or(PROTOCOL);
        let protocol = if broken(ProtocolEchoed) {
            asked
        } else {
            asked.min(PROTOCOL)
        };
        let mut ready = Message::new("session.ready")
            .with("protocol", protocol)
            .with("extensions", extensions)
            .with(
                "adapter",
                json!({ "name": "reference", "version": env!("CARGO_PKG_VERSION") }),
            );
        if !varied(DeclaresNothing) {
            ready = ready.with("capabilities", capabilities(self.agreed));
        }
        if self.agreed.has(ExtensionSet::TURNS) {
            ready = ready.with("input_modes", json!(["queue", "steer"]));
        }
        if !varied(LateFacts) {
            ready
                .members
                .extend(facts(self.agreed, &self.options, native_id, context));
        }
        if self.agreed.has(ExtensionSet::OPTIONS) {
            let applied = if broken(AppliesAllOptions) {
                self.options.asked.clone()
            } else {
                self.options.applied()
            };
            ready = ready
                .with("options_applied", applied)
                .with("models", models())
                .with("modes", modes());
        }
        Some(ready)
    }
}

/// Returns the agent's information about a session, sent at once or a little later.
pub(crate) fn facts(
    agreed: ExtensionSet,
    options: &ActiveOptions,
    native_id: &str,
    context: Option<&str>,
) -> Members {
    let mut facts = Members::new();
    if agreed.has(ExtensionSet::RESUME) {
        if tells_native_ids() {
            facts.insert("native_session_id".to_owned(), native_id.into());
        }
        facts.extend(context.map(|context| ("context".to_owned(), context.into())));
    }
    if agreed.has(ExtensionSet::OPTIONS) {
        facts.extend(options.in_force());
    }
    facts
}

/// Returns true if an approval may change the input of a tool.
pub(crate) fn takes_changed_inputs() -> bool {
    broken(ChangedInputRuns) || varied(TakesChangedInputs)
}

/// Returns true if the agent's own id of a session reaches the host.
pub(crate) fn tells_native_ids() -> bool {
    !broken(NativeIdsClaimed) && !varied(ResumesByParams)
}

/// Returns the declared limit of simultaneous sessions, and the real one.
pub(crate) fn most_sessions() -> Option<(usize, usize)> {
    match () {
        () if broken(SessionsClaimed) => Some((8, 4)),
        () if varied(EightSessions) => Some((8, 8)),
        () => None,
    }
}

fn capabilities(agreed: ExtensionSet) -> Value {
    let resumes = agreed.has(ExtensionSet::RESUME);
    let mut capabilities = json!({
        "native_session_ids": resumes && !varied(ResumesByParams),
        "turn_completion": true,
        "resume_attach": resumes,
        "exec_model": "interactive",
        "updated_input": varied(TakesChangedInputs),
    });
    if let Some((declared, _)) = most_sessions() {
        capabilities["max_sessions"] = declared.into();
    }
    capabilities
}

fn models() -> Value {
    json!([{ "id": "reference-1", "label": "Reference" }, { "id": "reference-2" }])
}

fn modes() -> Value {
    json!([{ "id": "code", "name": "Code" }, { "id": "plan", "name": "Plan" }])
}

/// The options in force.
#[derive(Debug, Default, Clone)]
pub(crate) struct ActiveOptions {
    model: Option<String>,
    reasoning_effort: Option<String>,
    mode: Option<String>,
    allowed_tools: Option<Vec<String>>,
    denied_tools: Option<Vec<String>>,
    pub(crate) exchange_dir: Option<String>,
    pub(crate) cwd: Option<String>,
    permission_mode_asked: bool,
    asked: Vec<String>,
}

/// The only permission mode: a person is always asked.
const ASK: &str = "ask";

impl ActiveOptions {
    fn read(fields: &Fields<'_>) -> Self {
        let mut options = Self::default();
        options.update(fields);
        options.exchange_dir = fields
            .text("exchange_dir")
            .optional()
            .filter(|path| path.starts_with('/'));
        options.cwd = fields.text("cwd").optional();
        options.permission_mode_asked =
            fields.text("permission_mode").optional().as_deref() == Some(ASK);
        let heads = [
            "type",
            "session_id",
            "protocol",
            "extensions",
            "resume",
            "_meta",
        ];
        options.asked = fields
            .names()
            .filter(|name| !heads.contains(name))
            .map(str::to_owned)
            .collect();
        options
    }

    /// Takes what a `session.update` carries; what is absent stays.
    pub(crate) fn update(&mut self, fields: &Fields<'_>) {
        let take = |slot: &mut Option<String>, name| {
            if let Some(text) = fields.text(name).optional() {
                *slot = Some(text);
            }
        };
        take(&mut self.model, "model");
        take(&mut self.reasoning_effort, "reasoning_effort");
        if let Some(mode) = fields
            .text("mode")
            .optional()
            .filter(|mode| mode == "code" || mode == "plan")
        {
            self.mode = Some(mode);
        }
        if let Some(tools) = fields.texts("allowed_tools").optional() {
            self.allowed_tools = Some(tools);
        }
        if let Some(tools) = fields.texts("denied_tools").optional() {
            self.denied_tools = Some(tools);
        }
    }

    /// The names of what was asked for and is honoured.
    fn applied(&self) -> Vec<String> {
        let honoured = [
            ("model", self.model.is_some()),
            ("reasoning_effort", self.reasoning_effort.is_some()),
            ("mode", self.mode.is_some()),
            ("permission_mode", self.permission_mode_asked),
            ("allowed_tools", self.allowed_tools.is_some()),
            ("denied_tools", self.denied_tools.is_some()),
            ("exchange_dir", self.exchange_dir.is_some()),
        ];
        honoured
            .iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    /// Returns the values in force, as `session.ready` and `session.info` report them.
    pub(crate) fn in_force(&self) -> Members {
        let mut model = self.model.as_deref().unwrap_or("reference-1").to_owned();
        if broken(AppliedNotInForce) {
            model = "reference-1".to_owned();
        }
        if varied(Aliases) {
            model.push_str("-20260301");
        }
        let values = json!({
            "model": model,
            "reasoning_effort": self.reasoning_effort,
            "mode": self.mode.as_deref().unwrap_or("code"),
            "permission_mode": ASK,
            "allowed_tools": self.allowed_tools,
            "denied_tools": self.denied_tools,
        });
        match values {
            Value::Object(members) => members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect(),
            _ => Members::new(),
        }
    }

    /// Returns true if permission for a tool may be requested at all.
    pub(crate) fn permit(&self, tool: &str, resource: &str) -> bool {
        let names = |rules: &Vec<String>| rules.iter().any(|rule| covers(rule, tool, resource));
        !self.denied_tools.as_ref().is_some_and(names)
            && self.allowed_tools.as_ref().is_none_or(names)
    }
}

/// Returns true if `Tool` or `Tool(pattern)` covers this use, with `*` for any text.
fn covers(rule: &str, tool: &str, resource: &str) -> bool {
    match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
        Some((name, pattern)) => name == tool && matches(pattern, resource),
        None => rule == tool,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(head) else {
        return false;
    };
    let (middle, end) = tail.rsplit_once('*').unwrap_or(("", tail));
    for part in middle.split('*') {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agreement_is_part_of_the_offer() {
        let fields =
            Fields::of_line(r#"{"extensions":["turns","journal","control"],"protocol":2}"#)
                .unwrap();
        let start = Start::read(&fields);
        assert_eq!(start.agreed.names(), ["turns", "control"]);
        assert_eq!(start.ready("n", None).unwrap().members["protocol"], 1);
        let fields = Fields::of_line(r#"{"extensions":["turns",7]}"#).unwrap();
        assert!(Start::read(&fields).ready("n", None).is_none());
    }

    #[test]
    fn tools_are_permitted_by_name_and_pattern() {
        let fields = Fields::of_line(
            r#"{"allowed_tools":["Read","Bash(git *)"],"denied_tools":["Bash(*push*)"]}"#,
        );
        let options = ActiveOptions::read(&fields.unwrap());
        assert!(options.permit("Read", "x") && options.permit("Bash", "git log"));
        assert!(
            !options.permit("Bash", "rm x")
                && !options.permit("Bash", "git push a")
                && !options.permit("Write", "")
        );
    }
}
