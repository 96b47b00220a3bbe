//! The headers of requests.

use std::collections::BTreeMap;

use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::super::template::{Template, ValuePosition, Values};

/// The headers of every request, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headers(pub(crate) BTreeMap<String, Header>);

/// The value of a header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Header {
    /// A text, perhaps with placeholders.
    Text(Template),
    /// Value of an environment variable, behind a prefix such as `Bearer `.
    FromEnv { variable: String, prefix: String },
}

/// Shows no value: it may be a credential.
impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::FromEnv { variable, .. } => f.debug_tuple("FromEnv").field(variable).finish(),
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct FromEnv {
    /// The variable.
    from_env: String,
    /// Prefix of its value, such as `Bearer `.
    #[serde(default)]
    prefix: String,
}

impl Header {
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => {
                if text
                    .chars()
                    .any(|letter| letter.is_control() && letter != '\t')
                {
                    return Err("the value has a control character".to_owned());
                }
                Template::parse(text).map(Self::Text)
            }
            Value::Object(_) => {
                // What is wrong is reported by key; the value itself may be a secret.
                let from: FromEnv =
                    FromEnv::deserialize(value).map_err(|error| error.to_string())?;
                if from.from_env.is_empty() {
                    return Err("`from_env` names no variable".to_owned());
                }
                Ok(Self::FromEnv {
                    variable: from.from_env,
                    prefix: from.prefix,
                })
            }
            _ => Err("the value is neither a string nor {\"from_env\": NAME}".to_owned()),
        }
    }

    /// The value for one request. Marked as sensitive, so that no log shows it.
    pub(crate) fn value(&self, values: &Values) -> Result<HeaderValue, String> {
        let text = match self {
            Self::Text(template) => template.render(values, ValuePosition::Plain),
            Self::FromEnv { variable, prefix } => match std::env::var(variable) {
                Ok(value) if !value.is_empty() => format!("{prefix}{}", value.trim_end()),
                Ok(_) => return Err(format!("the variable {variable} is empty")),
                Err(_) => return Err(format!("the variable {variable} is not set")),
            },
        };
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| "its value is not valid in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let mut headers = BTreeMap::new();
        for (name, value) in read {
            let name = HeaderName::try_from(name.trim())
                .map_err(|_| de::Error::custom(format!("{name:?} is not a header name")))?;
            if ["host", "content-length", "transfer-encoding", "connection"]
                .contains(&name.as_str())
            {
                return Err(de::Error::custom(format!(
                    "the header {name} is set by the client itself"
                )));
            }
            let header = Header::read(&value)
                .map_err(|why| de::Error::custom(format!("the header {name}: {why}")))?;
            if headers.insert(name.as_str().to_owned(), header).is_some() {
                return Err(de::Error::custom(format!("the header {name} occurs twice")));
            }
        }
        Ok(Self(headers))
    }
}
