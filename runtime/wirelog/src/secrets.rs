//! The secrets that messages themselves hand over: found where they pass, hidden there and from then on.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value, json};
use trunkline_protocol::Head;
use trunkline_redact::{self as redact, HeldSecrets, SecretInputs};

/// The beginnings of the host's messages that may hand over secrets.
const TELLING: [&[u8]; 3] = [
    b"{\"type\":\"session.start\"",
    b"{\"type\":\"session.update\"",
    b"{\"type\":\"input.response\"",
];

/// Limit of known values of variables without a sensitive name. The host's sessions need the
/// remaining room.
const ORDINARY: usize = 1024;

/// Name under which the value of a secret field is hidden.
const ANSWER: &str = "answer";

/// Minimum length of values that are hidden everywhere, in bytes. Shorter ones are hidden only in
/// the message that passes them.
const SHORTEST: usize = 12;

/// Limit of remembered open questions with `secret` fields. In the answer to any other question
/// every value is hidden.
const QUESTIONS: usize = 4096;

/// Returns true if a message of the host may contain secrets. The host writes the type first.
pub(crate) fn may_tell(line: &[u8]) -> bool {
    TELLING.iter().any(|beginning| line.starts_with(beginning))
}

/// Secrets that messages declared.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// By the run of an adapter and the session.
    held: HashMap<(u32, String), Vec<HeldSecrets>>,
    /// Number of holders of each value without a sensitive name.
    ordinary: HashMap<(u32, String), usize>,
    questions: HashMap<(u32, String, String), Vec<String>>,
    /// Runs of which a message that may have handed over secrets is missing.
    blind: HashSet<u32>,
}

impl Secrets {
    /// A message that may have handed over secrets is missing.
    pub(crate) fn lose(&mut self, process: u32) {
        self.blind.insert(process);
    }

    /// Returns true if lines of this run may contain unknown secrets.
    pub(crate) fn is_blind(&self, process: u32) -> bool {
        self.blind.contains(&process)
    }

    /// Forgets what a session handed over.
    pub(crate) fn close(&mut self, process: u32, session: &str) {
        let key = (process, session.to_owned());
        self.held.remove(&key);
        self.ordinary.remove(&key);
        self.questions
            .retain(|(of, session, _), _| (*of, session) != (process, &key.1));
    }

    /// Forgets what a run of an adapter was handed.
    pub(crate) fn end(&mut self, process: u32) {
        self.held.retain(|(of, _), _| *of != process);
        self.ordinary.retain(|(of, _), _| *of != process);
        self.questions.retain(|(of, ..), _| *of != process);
        self.blind.remove(&process);
    }

    /// Remembers which fields of a question are secret.
    pub(crate) fn asked(&mut self, process: u32, head: &Head<'_>, line: &[u8]) {
        let Ok(request) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let Some(id) = request["request_id"].as_str() else {
            return;
        };
        let fields = request["fields"].as_array().into_iter().flatten();
        let secret = fields.filter(|field| field["kind"] == "secret");
        let secret = secret
            .filter_map(|field| field["id"].as_str().map(str::to_owned))
            .collect();
        if self.questions.len() < QUESTIONS {
            self.questions.insert(
                (process, head.session_id.to_string(), id.to_owned()),
                secret,
            );
        }
    }

    /// Hides and remembers the secrets in a message of the host. Returns `None` if they cannot be
    /// determined.
    pub(crate) fn told<'a>(
        &mut self,
        process: u32,
        session: &str,
        line: &'a [u8],
    ) -> Option<Cow<'a, [u8]>> {
        let Ok(mut message) = serde_json::from_slice::<Map<String, Value>>(line) else {
            self.lose(process);
            return None;
        };
        let mut found = MessageSecrets::default();
        if message.get("type").and_then(Value::as_str) == Some("input.response") {
            let request = message
                .get("request_id")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let asked = self
                .questions
                .remove(&(process, session.to_owned(), request.to_owned()));
            if let Some(Value::Object(values)) = message.get_mut("values") {
                let secret = |field: &str| {
                    asked
                        .as_ref()
                        .is_none_or(|asked| asked.iter().any(|id| id == field))
                };
                values
                    .iter_mut()
                    .filter(|(field, _)| secret(field))
                    .for_each(|(_, value)| found.hide(ANSWER, value));
            }
        } else {
            message
                .get_mut("env")
                .into_iter()
                .for_each(|values| found.hide_members(values));
            if let Some(Value::Object(variables)) = message.get_mut("variables") {
                let secret = variables
                    .iter_mut()
                    .filter(|(name, _)| redact::is_sensitive(name));
                secret.for_each(|(name, value)| found.hide(name, value));
            }
            message
                .get_mut("mcp_servers")
                .into_iter()
                .for_each(|servers| found.hide_servers(servers));
            let args = message
                .get("extra_args")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            found.secret =
                std::mem::take(&mut found.secret).arguments(args.filter_map(Value::as_str));
        }
        let is_changed = found.is_changed;
        self.hold(process, session, found)?;
        if !is_changed {
            return Some(Cow::Borrowed(line));
        }
        serde_json::to_vec(&message).ok().map(Cow::Owned)
    }

    fn hold(&mut self, process: u32, session: &str, found: MessageSecrets) -> Option<()> {
        let key = (process, session.to_owned());
        let Ok(held) = found.secret.hold() else {
            self.lose(process);
            return None;
        };
        let held_by_session = self.held.entry(key.clone()).or_default();
        held_by_session.push(held);
        // They are hidden in the message itself; beyond the bound they are not looked for elsewhere.
        if self.ordinary.values().sum::<usize>() + found.count <= ORDINARY
            && found.count > 0
            && let Ok(held) = found.ordinary.hold()
        {
            held_by_session.push(held);
            *self.ordinary.entry(key).or_default() += found.count;
        }
        Some(())
    }
}

/// The secrets of one message.
#[derive(Default)]
struct MessageSecrets {
    secret: SecretInputs,
    /// Values without a sensitive name.
    ordinary: SecretInputs,
    count: usize,
    is_changed: bool,
}

impl MessageSecrets {
    /// Hides each member's value.
    fn hide_members(&mut self, values: &mut Value) {
        let Value::Object(values) = values else {
            return self.hide("value", values);
        };
        values
            .iter_mut()
            .for_each(|(name, value)| self.hide(name, value));
    }

    /// Hides `env` and `headers` of MCP servers: objects, or lists of a name and a value each.
    fn hide_servers(&mut self, servers: &mut Value) {
        self.secret = std::mem::take(&mut self.secret).json(servers);
        match servers {
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("env" | "headers", Value::Array(pairs)) => {
                            let values = pairs.iter_mut().filter_map(Value::as_object_mut);
                            for pair in values {
                                let named = pair
                                    .get("name")
                                    .and_then(Value::as_str)
                                    .unwrap_or("value")
                                    .to_owned();
                                pair.get_mut("value")
                                    .into_iter()
                                    .for_each(|value| self.hide(&named, value));
                            }
                        }
                        ("env" | "headers", value) => self.hide_members(value),
                        (_, value) => self.hide_servers(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_servers(item)),
            _ => {}
        }
    }

    fn hide(&mut self, name: &str, value: &mut Value) {
        if value.is_null() || value.is_boolean() {
            return;
        }
        if redact::is_sensitive(name) {
            self.secret = std::mem::take(&mut self.secret).json(&json!({ name: &*value }));
        } else if name == ANSWER {
            self.secret = std::mem::take(&mut self.secret).json(&json!({ "secret": &*value }));
        } else if value.as_str().is_some_and(|text| text.len() >= SHORTEST) {
            self.ordinary = std::mem::take(&mut self.ordinary).json(&json!({ "secret": &*value }));
            self.count += 1;
        }
        self.is_changed = true;
        *value = Value::String(format!("[REDACTED:{}]", clean(name)));
    }
}

fn clean(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "_-.".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().take(64).map(plain).collect()
}
