//! The body of requests.

use serde::Deserialize;
use serde_json::Value;

use super::super::template::{Template, ValuePosition, Values};

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum Body {
    /// The input itself, if the method has a body.
    #[default]
    Input,
    /// A text.
    Text(Template),
    /// JSON with placeholders in its strings; the member names are fixed.
    Json(JsonBody),
}

/// JSON whose strings are templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonBody {
    value: Value,
    /// Templates of the strings, in their order.
    templates: Vec<Template>,
}

impl JsonBody {
    fn read(value: Value) -> Result<Self, String> {
        let mut read = Vec::new();
        replace_strings(&value, &mut |text| {
            read.push(Template::parse(text));
            String::new()
        });
        let templates = read.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { value, templates })
    }

    pub(crate) fn render(&self, values: &Values) -> Value {
        let mut rendered = self
            .templates
            .iter()
            .map(|text| text.render(values, ValuePosition::Plain));
        replace_strings(&self.value, &mut |_| rendered.next().unwrap_or_default())
    }
}

/// Replaces each string of a value, in order; member names stay.
fn replace_strings(value: &Value, replace: &mut impl FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(replace(text)),
        Value::Array(items) => items
            .iter()
            .map(|item| replace_strings(item, replace))
            .collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), replace_strings(value, replace)))
            .collect(),
        fixed => fixed.clone(),
    }
}

impl Body {
    pub(crate) fn templates(&self) -> &[Template] {
        match self {
            Self::Input => &[],
            Self::Text(template) => std::slice::from_ref(template),
            Self::Json(json) => &json.templates,
        }
    }
}

impl TryFrom<Value> for Body {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::Input),
            Value::String(text) if text.is_empty() => Ok(Self::Input),
            Value::String(text) => Template::parse(&text).map(Self::Text),
            value => JsonBody::read(value).map(Self::Json),
        }
    }
}
