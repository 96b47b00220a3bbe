//! A script in an input.

use serde_json::Value;

use crate::message::Members;

/// Steps, and the text that `echo` outputs.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Vec<Value>>,
    pub(super) text: String,
}

impl Script {
    /// The script that an input is, if it is one.
    pub(super) fn in_content(content: &str) -> Option<Self> {
        if !content.trim_start().starts_with('{') {
            return None;
        }
        let mut members: Members = serde_json::from_str(content).ok()?;
        members.get("$probe")?;
        let steps = match members.remove("do") {
            None => Vec::new(),
            Some(Value::Array(steps)) => steps.into_iter().map(step).collect::<Option<_>>()?,
            Some(_) => return None,
        };
        let text = match members.remove("text") {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(_) => return None,
        };
        Some(Self { steps, text })
    }
}

fn step(step: Value) -> Option<Vec<Value>> {
    match step {
        Value::Array(step) => Some(step),
        _ => None,
    }
}

/// A step with its arguments.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    arguments: std::vec::IntoIter<Value>,
}

impl Operation {
    pub(super) fn from_step(step: Vec<Value>) -> Self {
        let mut arguments = step.into_iter();
        let name = arguments.next().map(text_of).unwrap_or_default();
        Self { name, arguments }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.arguments
            .next()
            .filter(|value| !value.is_null())
            .map(text_of)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.arguments
            .next()
            .and_then(|value| value.as_u64())
            .unwrap_or(0)
    }

    pub(super) fn value(&mut self) -> Value {
        self.arguments.next().unwrap_or_default()
    }

    pub(super) fn object(&mut self) -> Members {
        match self.value() {
            Value::Object(object) => object,
            _ => Members::new(),
        }
    }

    pub(super) fn objects(self) -> Vec<Members> {
        let objects = self.arguments.filter_map(|value| match value {
            Value::Object(object) => Some(object),
            _ => None,
        });
        objects.collect()
    }
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
