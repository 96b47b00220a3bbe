//! The body of requests.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::super::template::{Place, Template, Values};

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Body {
    /// The input itself, where the method has a body.
    #[default]
    Input,
    /// A text.
    Text(Template),
    /// JSON with placeholders in its strings; the member names are fixed.
    Json(JsonBody),
}

/// JSON with templates for strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonBody {
    Fixed(Value),
    Text(Template),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl JsonBody {
    fn read(value: Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(&text)?),
            Value::Array(values) => Self::Array(
                values
                    .into_iter()
                    .map(Self::read)
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(members) => {
                let read = members
                    .into_iter()
                    .map(|(name, value)| Ok((name, Self::read(value)?)));
                Self::Object(read.collect::<Result<_, String>>()?)
            }
            fixed => Self::Fixed(fixed),
        })
    }

    pub(crate) fn render(&self, values: &Values<'_>) -> Value {
        match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template) => Value::String(template.render(values, Place::Plain)),
            Self::Array(items) => items.iter().map(|item| item.render(values)).collect(),
            Self::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), value.render(values)))
                .collect(),
        }
    }

    fn templates<'a>(&'a self, found: &mut Vec<&'a Template>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => found.push(template),
            Self::Array(items) => items.iter().for_each(|item| item.templates(found)),
            Self::Object(members) => members.iter().for_each(|(_, value)| value.templates(found)),
        }
    }
}

impl Body {
    pub(crate) fn templates(&self) -> Vec<&Template> {
        let mut found = Vec::new();
        match self {
            Self::Input => {}
            Self::Text(template) => found.push(template),
            Self::Json(json) => json.templates(&mut found),
        }
        found
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Input),
            Value::String(text) if text.is_empty() => Ok(Self::Input),
            Value::String(text) => Template::parse(&text)
                .map(Self::Text)
                .map_err(de::Error::custom),
            value => JsonBody::read(value)
                .map(Self::Json)
                .map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Body {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Body".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}
