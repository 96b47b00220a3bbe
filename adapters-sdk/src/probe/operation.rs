//! A step of a script.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The operations, as `hello` names them.
pub(super) const NAMES: [&str; 20] = [
    "hello",
    "say",
    "echo",
    "burst",
    "sleep",
    "until_stop",
    "report",
    "set",
    "get",
    "ask",
    "question",
    "file",
    "event",
    "info",
    "ready",
    "complete",
    "fail",
    "close_session",
    "exit",
    "abort",
];

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

    /// The next argument as text, or this one if there is none.
    pub(super) fn text_or(&mut self, otherwise: &str) -> String {
        self.text().unwrap_or_else(|| otherwise.to_owned())
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

    pub(super) fn object(&mut self) -> Map<String, Value> {
        match self.value() {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    pub(super) fn rest<T: for<'de> Deserialize<'de>>(self) -> Vec<T> {
        self.arguments
            .filter_map(|value| serde_json::from_value(value).ok())
            .collect()
    }
}

/// A request of `ask`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProbeRequest {
    pub(super) tool: String,
    pub(super) description: String,
    pub(super) resource: String,
    pub(super) title: Option<String>,
    pub(super) options: Vec<Map<String, Value>>,
    /// The file that is created if, and only if, it is approved.
    pub(super) effect: Option<String>,
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
