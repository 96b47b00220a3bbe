//! Secrets in a session's options.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use trunkline_redact::{HeldSecrets, Redactor, SecretInputs};
use trunkline_sdk::{Category, Error, SessionStart};

use super::options::Options;

/// The shortest value that is hidden in arguments, in bytes. In other texts values have to be
/// longer to be found.
const MIN_ARGUMENT_SECRET: usize = 4;

/// The members of an MCP server whose values are secret.
const SECRET_MEMBERS: [&str; 3] = ["env", "headers", "http_headers"];

/// Hides it wherever something is shown, while what is returned lives.
///
/// # Errors
/// Where there is more than can be hidden.
pub(crate) fn hold(start: &SessionStart) -> Result<Arc<HeldSecrets>, Error> {
    let variables = start.env.iter().chain(&start.variables).flatten();
    let mut given = SecretInputs::default()
        .variables(variables)
        .arguments(start.extra_args.iter().flatten());
    // What cannot be read is reported where it is used.
    if let Some(Ok(servers)) = start
        .mcp_servers
        .as_ref()
        .map(|servers| servers.to::<Value>())
    {
        given = given.json(&servers);
    }
    let held = given
        .hold()
        .map_err(|why| Error::new(Category::Other, format!("the session's options hold {why}")));
    held.map(Arc::new)
}

/// The values of a session that its log must not show: of its variables, and of the variables and
/// headers of its MCP servers.
#[derive(Debug, Default)]
pub(crate) struct LogSecrets {
    redactor: Redactor,
    /// Names and values, the longest value first.
    values: HiddenValues,
}

/// Shows no values.
#[derive(Default)]
struct HiddenValues(Vec<(String, String)>);

impl std::fmt::Debug for HiddenValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl LogSecrets {
    pub(crate) fn from_options(options: &Options) -> Self {
        let mut values: Vec<_> = options.env.clone().into_iter().collect();
        for servers in &options.mcp_servers {
            collect(servers, None, &mut values);
        }
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self {
            redactor: Redactor::new(values.iter().map(|(name, value)| (name, value))),
            values: HiddenValues(values),
        }
    }

    /// Hides the values in a line.
    pub(crate) fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redactor.text(text)
    }

    /// Hides the values in the texts of an agent's start, short ones too.
    pub(crate) fn hide_in_start(&self, start: &Value) -> Value {
        match start {
            Value::String(text) => {
                let mut text = self.hide(text).into_owned();
                for (name, value) in &self.values.0 {
                    if value.len() >= MIN_ARGUMENT_SECRET && text.contains(value.as_str()) {
                        text = text.replace(value.as_str(), &format!("[REDACTED:{name}]"));
                    }
                }
                text.into()
            }
            Value::Array(items) => items.iter().map(|item| self.hide_in_start(item)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| match name.as_str() {
                    // Names of variables and of the profile are no values.
                    "env" | "adapter" | "prompt" => (name.clone(), value.clone()),
                    _ => (name.clone(), self.hide_in_start(value)),
                })
                .collect(),
            other => other.clone(),
        }
    }
}

/// Collects the texts below a member that is secret, each with its name.
fn collect(value: &Value, secret: Option<&str>, values: &mut Vec<(String, String)>) {
    match (value, secret) {
        (Value::String(text), Some(name)) => {
            values.push((name.to_owned(), text.clone()));
            // The word behind the scheme of a header counts by itself.
            if let Some((_, bare)) = text.trim().rsplit_once(' ') {
                values.push((name.to_owned(), bare.to_owned()));
            }
        }
        (Value::Array(items), _) => items.iter().for_each(|item| collect(item, secret, values)),
        (Value::Object(members), _) => {
            // In a list each is `{"name": …, "value": …}`.
            let pair = members.get("name").and_then(Value::as_str);
            for (key, value) in members {
                let is_name = key == "name" && members.contains_key("value");
                match secret {
                    Some(_) if is_name => {}
                    Some(_) => collect(value, Some(pair.unwrap_or(key)), values),
                    None if SECRET_MEMBERS.contains(&key.as_str()) => {
                        collect(value, Some(key), values);
                    }
                    None => collect(value, None, values),
                }
            }
        }
        _ => {}
    }
}
