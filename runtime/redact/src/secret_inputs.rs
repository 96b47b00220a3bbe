//! The secrets among the inputs of a child or a session.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::names::{is_sensitive, meaning};
use crate::sessions::{HeldSecrets, TooManySecrets};
use crate::shared::register_unheld;

/// The secrets among variables, options and JSON values, found by the names beside them.
#[derive(Default)]
pub struct SecretInputs(Vec<(String, Vec<u8>)>);

/// Shows no values.
impl std::fmt::Debug for SecretInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl SecretInputs {
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
                None => (
                    argument,
                    arguments.peek().map(|next| next.as_ref().as_bytes()),
                ),
            };
            if let (Some(value), true) = (value, name.starts_with(b"-") && meaning(name).is_some())
            {
                let name = String::from_utf8_lossy(name.trim_ascii_start())
                    .trim_start_matches('-')
                    .to_owned();
                self.0.push((name, value.to_vec()));
            }
        }
        self
    }

    /// Takes every text below a sensitive key: of MCP servers, their headers and variables too,
    /// where these are lists of `{"name": …, "value": …}`; and options within lists of texts. Of a
    /// header with a scheme, as in `Bearer x`, the word behind it counts by itself.
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

    /// Makes the secrets known while the session lives.
    ///
    /// # Errors
    /// The session, or all sessions together, would hold too many secrets. None of these is known
    /// then.
    pub fn hold(self) -> Result<HeldSecrets, TooManySecrets> {
        HeldSecrets::new(self.0)
    }
}
