//! Which of what a child or a session is given are secrets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use super::names::{is_sensitive, meaning};
use super::sessions::{HeldSecrets, TooManySecrets};
use super::shared::register_unheld;
use crate::spec::ChildSpec;

/// The secrets among variables, options and JSON values, by the names that they stand beside.
#[derive(Default)]
pub struct Given(Vec<(String, Vec<u8>)>);

/// Shows no values.
impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Given {
    /// Takes the values of variables with a [sensitive](is_sensitive) name.
    #[must_use]
    pub fn variables<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in variables {
            if is_sensitive(&name) {
                let name = name.as_ref().to_string_lossy().into_owned();
                self.0.push((name, value.as_ref().as_bytes().to_vec()));
            }
        }
        self
    }

    /// Takes the values of options that name a secret: `--api-key=x`, and `--api-key x`.
    #[must_use]
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let argument = argument.as_ref().as_bytes();
            let (name, value) = match argument.iter().position(|byte| *byte == b'=') {
                Some(at) => (&argument[..at], Some(&argument[at + 1..])),
                None => (argument, arguments.peek().map(|next| next.as_ref().as_bytes())),
            };
            if let (Some(value), true) = (value, name.starts_with(b"-") && meaning(name).is_some()) {
                let name =
                    String::from_utf8_lossy(name.trim_ascii_start()).trim_start_matches('-').to_owned();
                self.0.push((name, value.to_vec()));
            }
        }
        self
    }

    /// Takes every text below a sensitive key: of MCP servers, their headers and variables too, where these are lists of
    /// `{"name": …, "value": …}`; and options within lists of texts. Of a header with a scheme, as in `Bearer x`, the word
    /// behind it counts by itself.
    #[must_use]
    pub fn json(mut self, value: &Value) -> Self {
        self.walk(value, None);
        self
    }

    fn walk(&mut self, value: &Value, secret: Option<&str>) {
        let named = |key: &str| is_sensitive(key) || meaning(key.as_bytes()).is_some();
        match value {
            Value::Object(members) => {
                let text = |key: &str| members.get(key).and_then(Value::as_str);
                let pair = text("name").filter(|name| named(name));
                for (key, value) in members {
                    let by_key = named(key).then_some(key.as_str());
                    let by_pair = pair.filter(|_| key == "value");
                    self.walk(value, by_key.or(by_pair).or(secret));
                }
            }
            Value::Array(items) => {
                let texts: Vec<&str> = items.iter().map_while(Value::as_str).collect();
                if secret.is_none() && texts.len() == items.len() {
                    *self = std::mem::take(self).arguments(texts);
                }
                items.iter().for_each(|item| self.walk(item, secret));
            }
            Value::String(text) => {
                let Some(name) = secret else { return };
                self.0.push((name.to_owned(), text.clone().into_bytes()));
                if let Some((_, bare)) = text.trim().rsplit_once(' ') {
                    self.0.push((name.to_owned(), bare.as_bytes().to_vec()));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Makes them known for good, but for what a session holds: that is forgotten with it.
    pub fn register(self) {
        register_unheld(self.0);
    }

    /// Makes them known for as long as a session lives.
    ///
    /// # Errors
    /// Where the session, or all of them together, would have more than can be hidden. Nothing of it is known then.
    pub fn hold(self) -> Result<HeldSecrets, TooManySecrets> {
        HeldSecrets::new(self.0)
    }
}

/// Registers what a child is given under a sensitive name: declared variables, texts of its configuration, options.
///
/// A start does so by itself. What a session [holds](Given::hold) is the session's, and not registered.
pub fn register_spec(spec: &ChildSpec) {
    let mut given = Given::default().variables(&spec.env).arguments(&spec.args);
    // A configuration that is no JSON is the adapter's to complain about.
    if let Some(Ok(config)) = spec.config.as_deref().map(serde_json::from_slice::<Value>) {
        given = given.json(&config);
    }
    given.register();
}

#[cfg(test)]
mod tests {
    use crate::redact;

    use super::*;

    #[test]
    fn what_a_child_is_given_in_secret_is_known() {
        let config = r#"{"name":"plain-name-kept",
            "api_key":"config-value-aaaa","nested":[{"tokens":["config-value-bbbb"]}],
            "credentials":{"user":"config-value-cccc"}}"#;
        let spec = ChildSpec::new("agent")
            .env("SPEC_TEST_TOKEN", "env-value-aaaa")
            .env("SPEC_TEST_PLAIN", "env-value-bbbb")
            .arg("--api-key=arg-value-aaaa")
            .args(["--token", "arg-value-bbbb", "--model", "arg-value-cccc"])
            .config(config);
        register_spec(&spec);
        let text = "config-value-cccc config-value-aaaa config-value-bbbb plain-name-kept env-value-aaaa env-value-bbbb \
                    arg-value-aaaa arg-value-bbbb arg-value-cccc";
        let shown = "[REDACTED:credentials] [REDACTED:api_key] [REDACTED:tokens] plain-name-kept [REDACTED:SPEC_TEST_TOKEN] env-value-bbbb \
                     [REDACTED:api-key] [REDACTED:token] arg-value-cccc";
        assert_eq!(redact::text(text), shown);
    }

    #[test]
    fn a_configuration_that_is_no_json_does_no_harm() {
        register_spec(&ChildSpec::new("agent").config("{"));
    }
}
